#include "fleet/shard.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace kiln {
namespace {

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorCode::bad_input, fmt::format("shard = {}: {}", text, why));
  };
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return wrong("must be I/N, as 3/8");
  const auto index = whole_number(text.substr(0, slash)), of = whole_number(text.substr(slash + 1));
  if (!index || !of) return wrong("must be two whole numbers, I/N, as 3/8");
  if (*of < 1 || *of > kMostShards)
    return wrong(fmt::format("N = {}: must be 1 to {}", *of, kMostShards));
  if (*index < 1 || *index > *of)
    return wrong(fmt::format("I = {}: must be 1 to N = {}", *index, *of));
  return Shard{*index, *of};
}

std::string text(const Shard& shard) { return fmt::format("{}/{}", shard.index, shard.of); }

}  // namespace kiln
