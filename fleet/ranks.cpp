#include "fleet/ranks.h"

#include <fmt/format.h>

#include <cstring>

namespace kiln {
namespace {

constexpr std::int64_t kNone = -1, kGo = 0;  // a place, where one was asked for, is 0 or more

}  // namespace

Ranks::~Ranks() {
  if (server_.joinable()) server_.join();
}

bool Ranks::join(const std::string& kind, std::size_t places,
                 const std::function<bool(const std::set<std::string>&)>& prepare) {
  places_ = static_cast<std::int64_t>(places);
  Question question{.rank = mpi_.rank(), .places = places_};
  std::strncpy(question.kind, kind.c_str(), sizeof question.kind - 1);
  if (mpi_.rank() == 0) server_ = std::thread([this, prepare] { serve(prepare); });
  return ask(question).place == kGo;
}

std::optional<std::size_t> Ranks::next() {
  const std::int64_t place = ask({.rank = mpi_.rank(), .what = RankAsks::next}).place;
  if (place < 0) return std::nullopt;
  return static_cast<std::size_t>(place);
}

bool Ranks::more() { return ask({.rank = mpi_.rank(), .what = RankAsks::wait}).place == kGo; }

void Ranks::leave(RankAsks why) { ask({.rank = mpi_.rank(), .what = why}); }

Ranks::Answer Ranks::ask(const Question& question) {
  Answer answer;
  if (mpi_.rank() != 0) {
    mpi_.send(question, 0);
    mpi_.receive(answer, {});
    end_if(wrong_with(answer, places_));
    return answer;
  }
  std::unique_lock lock(mutex_);
  asked_ = question;
  answered_.wait(lock, [&] { return answer_.has_value(); });
  answer = *answer_;
  answer_.reset();
  return answer;
}

Ranks::Question Ranks::wait_for_question() {
  Question question;
  const auto own = [&] {
    const std::lock_guard lock(mutex_);
    return asked_.has_value();
  };
  if (mpi_.receive(question, own)) {
    end_if(wrong_with(question, mpi_.ranks()));
    return question;
  }
  const std::lock_guard lock(mutex_);
  question = *asked_;
  asked_.reset();
  return question;
}

/// Who sent such a message waits for an answer that it understands; so the whole job ends.
void Ranks::end_if(const std::string& wrong) {
  if (!wrong.empty()) mpi_.end_job(wrong);
}

void Ranks::answer(int rank, std::int64_t place) {
  if (rank != 0) {
    mpi_.send(Answer{.place = place}, rank);
    return;
  }
  const std::lock_guard lock(mutex_);
  answer_ = Answer{.place = place};
  answered_.notify_one();
}

void Ranks::answer_who_waits(std::set<int>& waiting) {
  for (auto at = waiting.begin(); at != waiting.end();) {
    const bool more = !stopped_ && queues_.has(*at);
    if (more) answer(*at, kGo);
    at = more ? waiting.erase(at) : std::next(at);
  }
}

/// `waiting` are answered when there is more, `left` at the end.
void Ranks::take(const Question& question, std::set<int>& waiting, std::set<int>& left) {
  switch (question.what) {
    case RankAsks::join:
      return end_if(fmt::format("rank {} joins twice", question.rank));
    case RankAsks::next: {
      const auto place = stopped_ ? std::nullopt : queues_.next(question.rank);
      answer(question.rank, place ? static_cast<std::int64_t>(*place) : kNone);
      return;
    }
    case RankAsks::wait:
      waiting.insert(question.rank);
      return;
    case RankAsks::give_back:
      queues_.give_back(question.rank);
      left.insert(question.rank);
      return;
    case RankAsks::leave:
      left.insert(question.rank);
  }
}

void Ranks::serve(const std::function<bool(const std::set<std::string>&)>& prepare) {
  const auto all = static_cast<std::size_t>(mpi_.ranks());
  std::set<int> joined;
  while (joined.size() < all) {
    const Question question = wait_for_question();
    if (question.what != RankAsks::join)
      end_if(fmt::format("rank {} asks before all have joined", question.rank));
    queues_.add(question.rank, question.kind, static_cast<std::size_t>(question.places));
    joined.insert(question.rank);
  }
  auto kinds = queues_.kinds();
  kinds.erase("");
  const bool ready = prepare(kinds);
  for (const int rank : joined) answer(rank, ready ? kGo : kNone);
  if (!ready) return;
  std::set<int> waiting, left;
  while (waiting.size() + left.size() < all) {
    take(wait_for_question(), waiting, left);
    answer_who_waits(waiting);
  }
  waiting.merge(left);
  for (const int rank : waiting) answer(rank, kNone);
}

}  // namespace kiln
