#include "cli/commands/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace kiln::cli {

Result<Config> legal_config(std::string_view line, const Gemm& gemm, const DeviceCaps& device) {
  Result<Config> config = parse_config(line);
  if (!config) return config;
  if (const std::string_view rule = broken_rule(Problem::of(gemm).value(), device, *config);
      !rule.empty())
    return fail(ErrorCode::bad_input, fmt::format("config = \"{}\": breaks the rule \"{}\" for {}",
                                                  line, rule, text(gemm)));
  return config;
}

std::vector<Config> sample_per_family(const SearchSpace& space, int count, std::uint64_t seed) {
  std::vector<std::pair<std::string_view, std::vector<const Config*>>> families;
  for (const Config& config : space.legal) {
    const std::string_view name = family_name(config);
    auto row = std::find_if(families.begin(), families.end(),
                            [&](const auto& family) { return family.first == name; });
    if (row == families.end()) row = families.insert(families.end(), {name, {}});
    row->second.push_back(&config);
  }
  Draw draw(seed);
  std::vector<Config> chosen;
  for (auto& [name, configs] : families) {
    const std::size_t wanted = std::min(configs.size(), static_cast<std::size_t>(count));
    // The first steps of a Fisher-Yates shuffle.
    for (std::size_t i = 0; i < wanted; ++i) {
      std::swap(configs[i], configs[i + draw.below(configs.size() - i)]);
      chosen.push_back(*configs[i]);
    }
  }
  return chosen;
}

}  // namespace kiln::cli
