#include "fleet/hand_out.h"

namespace kiln {

void HandOut::add(int rank, const std::string& kind, std::size_t places) {
  ranks_[rank] = {.kind = kind};
  queues_[kind].places = places;
}

std::optional<std::size_t> HandOut::next(int rank) {
  Rank& asks = ranks_.at(rank);
  Queue& queue = queues_.at(asks.kind);
  asks.place.reset();
  if (asks.broken) return std::nullopt;
  if (!queue.returned.empty()) {
    asks.place = queue.returned.back();
    queue.returned.pop_back();
  } else if (queue.next < queue.places) {
    asks.place = queue.next++;
  }
  return asks.place;
}

bool HandOut::has(int rank) const {
  const Rank& asks = ranks_.at(rank);
  const Queue& queue = queues_.at(asks.kind);
  return !asks.broken && (!queue.returned.empty() || queue.next < queue.places);
}

void HandOut::give_back(int rank) {
  Rank& gives = ranks_.at(rank);
  gives.broken = true;
  if (!gives.place) return;
  Queue& queue = queues_.at(gives.kind);
  if (queue.tried_twice.insert(*gives.place).second) queue.returned.push_back(*gives.place);
  gives.place.reset();
}

std::map<std::string, std::size_t> HandOut::left() const {
  std::map<std::string, std::size_t> left;
  for (const auto& [kind, queue] : queues_)
    if (const std::size_t count = queue.places - queue.next + queue.returned.size(); count > 0)
      left[kind] = count;
  return left;
}

std::set<std::string> HandOut::kinds() const {
  std::set<std::string> all;
  for (const auto& [kind, queue] : queues_) all.insert(kind);
  return all;
}

}  // namespace kiln
