// Who gets which place of the list next: a queue for each kind of device, longest first. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kiln {

class HandOut {
 public:
  /// A rank takes part with a kind of device, for which the list has so many places. Ranks of one
  /// kind name the same number.
  void add(int rank, const std::string& kind, std::size_t places);
  /// The next place for this rank, which has none now; nothing when its kind's are all handed out.
  std::optional<std::size_t> next(int rank);
  /// Whether next() would give this rank a place.
  bool has(int rank) const;
  /// The rank's machine could not tune its place: another rank of the kind may, once. The rank gets
  /// no more.
  void give_back(int rank);
  /// Places that no rank of their kind took, by kind.
  std::map<std::string, std::size_t> left() const;
  std::set<std::string> kinds() const;

 private:
  struct Queue {
    std::size_t next = 0, places = 0;
    std::vector<std::size_t> returned;
    std::set<std::size_t> tried_twice;
  };
  struct Rank {
    std::string kind;
    std::optional<std::size_t> place = {};
    bool broken = false;
  };
  std::map<std::string, Queue> queues_;
  std::map<int, Rank> ranks_;
};

}  // namespace kiln
