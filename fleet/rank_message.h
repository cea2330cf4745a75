// What the ranks of an MPI job tell one another, byte for byte, and whether it can be what this
// kiln sends: machines of one job may have different versions installed. Knows no MPI.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

/// Changes with the layout of messages and with the meaning of what is in them.
inline constexpr std::uint64_t kRankMark = 0x6b696c6e'72616e31;

/// What a rank asks rank 0.
enum class RankAsks : std::int32_t {
  join,       // to take part, with a kind of device and a number of places
  next,       // for a place: it has ended its own, or has none yet
  wait,       // whether there is more, after there was no place
  give_back,  // its machine could not tune its place: it gets no more
  leave       // it was interrupted: it gets no more
};

/// The mark stands at both ends: one of another length has it at one of them at most.
struct RankQuestion {
  std::uint64_t begin = kRankMark;
  std::int32_t rank = 0;
  RankAsks what = RankAsks::join;
  std::int64_t places = 0;
  char kind[128] = {};  // ends with a zero
  std::uint64_t end = kRankMark;
};

struct RankAnswer {
  std::uint64_t begin = kRankMark;
  std::int64_t place = -1;
  std::uint64_t end = kRankMark;
};

/// Empty where a rank of a job of `ranks` can have asked this; else why not.
std::string wrong_with(const RankQuestion& question, int ranks);
/// Empty where rank 0 can have answered this to a rank whose list has so many places; else why not.
std::string wrong_with(const RankAnswer& answer, std::int64_t places);

}  // namespace kiln
