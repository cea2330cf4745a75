#include "fleet/rank_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kiln {
namespace {

constexpr const char* kOtherVersion =
    "a message of another version of kiln: all machines of a job need the same one";

}  // namespace

std::string wrong_with(const RankQuestion& question, int ranks) {
  if (question.begin != kRankMark || question.end != kRankMark) return kOtherVersion;
  if (question.rank < 0 || question.rank >= ranks)
    return fmt::format("rank = {}: must be 0 to {}", question.rank, ranks - 1);
  if (question.what < RankAsks::join || question.what > RankAsks::leave)
    return fmt::format("rank {} asks for {}: must be 0 to {}", question.rank,
                       static_cast<std::int32_t>(question.what),
                       static_cast<std::int32_t>(RankAsks::leave));
  if (question.places < 0)
    return fmt::format("rank {}: places = {}: must not be negative", question.rank,
                       question.places);
  if (std::ranges::find(question.kind, '\0') == std::end(question.kind))
    return fmt::format("rank {}: the name of its kind of device has no end", question.rank);
  return {};
}

std::string wrong_with(const RankAnswer& answer, std::int64_t places) {
  if (answer.begin != kRankMark || answer.end != kRankMark) return kOtherVersion;
  if (answer.place < -1 || (answer.place > 0 && answer.place >= places))
    return fmt::format("place = {}: the list has {} places", answer.place, places);
  return {};
}

}  // namespace kiln
