// The ranks of an MPI job share a list: rank 0 hands out its places while it tunes as the others
// do. Knows MPI and the hand-out; not what is tuned.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "fleet/hand_out.h"
#include "fleet/mpi.h"
#include "fleet/rank_message.h"

namespace kiln {

class Ranks {
 public:
  explicit Ranks(Mpi& mpi) : mpi_(mpi) {}
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Takes part with a kind of device and so many places; an empty kind: with none, as a rank
  /// whose device cannot be used. Returns when all ranks have joined. On rank 0 `prepare` runs in
  /// between, with all kinds, before any rank goes on. False: rank 0's prepare() said so.
  bool join(const std::string& kind, std::size_t places,
            const std::function<bool(const std::set<std::string>&)>& prepare);
  /// A place; nothing when there is none at present. Answered at once: a rank may hold its device
  /// meanwhile.
  std::optional<std::size_t> next();
  /// Waits until another rank has given back a place (true: ask again) or all places are ended
  /// (false). Ranks that share a device must not hold it here, or the others would never ask.
  bool more();
  /// Waits for the end without getting another place; `why` is give_back or leave.
  void leave(RankAsks why);
  /// From now on nobody gets a place. Of rank 0.
  void stop() { stopped_ = true; }

 private:
  using Question = RankQuestion;
  using Answer = RankAnswer;
  Answer ask(const Question& question);
  void serve(const std::function<bool(const std::set<std::string>&)>& prepare);
  Question wait_for_question();
  void end_if(const std::string& wrong);
  void answer(int rank, std::int64_t place);
  void answer_who_waits(std::set<int>& waiting);
  void take(const Question& question, std::set<int>& waiting, std::set<int>& left);

  Mpi& mpi_;
  HandOut queues_;
  std::atomic<bool> stopped_{false};
  // Between rank 0's two threads.
  std::thread server_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<Question> asked_;
  std::optional<Answer> answer_;
  std::int64_t places_ = 0;  // of this rank's list
};

}  // namespace kiln
