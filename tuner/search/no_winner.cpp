#include "tuner/search/no_winner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kiln {

tl::unexpected<Error> no_winner(const SearchInput& input, std::span<const Measured> rows,
                                std::size_t tried) {
  constexpr auto kKinds = static_cast<std::size_t>(Failure::kLastKind) + 1;
  std::array<int, kKinds> count{};
  std::array<const Measured*, kKinds> example{};
  for (const Measured& row : rows) {
    if (row.ok()) continue;
    const auto kind = static_cast<std::size_t>(row.failure().kind);
    if (count[kind]++ == 0) example[kind] = &row;
  }
  const auto most =
      static_cast<std::size_t>(std::max_element(count.begin(), count.end()) - count.begin());
  if (count[most] == 0)
    return fail(
        ErrorCode::device,
        fmt::format("no candidate for '{}' was measured{} within budget = {} s", text(input.gemm),
                    input.options.policy == TuningPolicy::sustained ? " under load" : "",
                    input.options.budget.count()));
  std::string tally;
  for (std::size_t k = 0; k < count.size(); ++k)
    if (count[k] > 0)
      tally += fmt::format("{}{} {}", tally.empty() ? "" : ", ", count[k],
                           name(static_cast<Failure::Kind>(k)));
  const auto kind = static_cast<Failure::Kind>(most);
  const ErrorCode code = kind == Failure::Kind::compile        ? ErrorCode::compiler
                         : kind == Failure::Kind::wrong_result ? ErrorCode::verification
                                                               : ErrorCode::device;
  return fail(code, fmt::format("none of {} candidates for '{}' came through ({}); first: {}: {}",
                                tried, text(input.gemm), tally, text(example[most]->config),
                                example[most]->failure().detail));
}

}  // namespace kiln
