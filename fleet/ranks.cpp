#include "fleet/ranks.h"

#include <cstring>

namespace kiln {
namespace {

constexpr std::int64_t kNone = -1, kGo = 0;

}  // namespace

Ranks::~Ranks() {
  if (server_.joinable()) server_.join();
}

bool Ranks::join(const std::string& kind, std::size_t places,
                 const std::function<bool(const std::set<std::string>&)>& prepare) {
  Question question{.rank = mpi_.rank(), .places = static_cast<std::int64_t>(places)};
  std::strncpy(question.kind, kind.c_str(), sizeof question.kind - 1);
  if (mpi_.rank() == 0) server_ = std::thread([this, prepare] { serve(prepare); });
  return ask(question).place == kGo;
}

std::optional<std::size_t> Ranks::next(RankAsks why) {
  const std::int64_t place = ask({.rank = mpi_.rank(), .what = why}).place;
  if (place < 0) return std::nullopt;
  return static_cast<std::size_t>(place);
}

Ranks::Answer Ranks::ask(const Question& question) {
  Answer answer;
  if (mpi_.rank() != 0) {
    mpi_.send(question, 0);
    mpi_.receive(answer, {});
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
  if (mpi_.receive(question, own)) return question;
  const std::lock_guard lock(mutex_);
  question = *asked_;
  asked_.reset();
  return question;
}

void Ranks::answer(int rank, std::int64_t place) {
  if (rank != 0) {
    mpi_.send(Answer{place}, rank);
    return;
  }
  const std::lock_guard lock(mutex_);
  answer_ = Answer{place};
  answered_.notify_one();
}

void Ranks::answer_who_waits(std::set<int>& waiting) {
  for (auto at = waiting.begin(); at != waiting.end();) {
    const auto place = stopped_ ? std::nullopt : queues_.next(*at);
    if (place) answer(*at, static_cast<std::int64_t>(*place));
    at = place ? waiting.erase(at) : std::next(at);
  }
}

void Ranks::serve(const std::function<bool(const std::set<std::string>&)>& prepare) {
  const auto all = static_cast<std::size_t>(mpi_.ranks());
  std::set<int> joined;
  while (joined.size() < all) {
    const Question question = wait_for_question();
    queues_.add(question.rank, question.kind, static_cast<std::size_t>(question.places));
    joined.insert(question.rank);
  }
  auto kinds = queues_.kinds();
  kinds.erase("");
  const bool ready = prepare(kinds);
  for (const int rank : joined) answer(rank, ready ? kGo : kNone);
  if (!ready) return;
  std::set<int> waiting, left;  // `left` get no more, and wait for the end as well
  while (waiting.size() + left.size() < all) {
    const Question question = wait_for_question();
    if (question.what == RankAsks::give_back) queues_.give_back(question.rank);
    (question.what == RankAsks::next ? waiting : left).insert(question.rank);
    answer_who_waits(waiting);
  }
  waiting.merge(left);
  for (const int rank : waiting) answer(rank, kNone);
}

}  // namespace kiln
