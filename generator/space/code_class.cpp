#include "generator/space/code_class.h"

#include <xxhash.h>

#include <string>
#include <string_view>

#include "generator/space/family.h"

namespace kiln {

CodeClass code_class(const Canonical& problem, const DeviceCaps& device, const Config& config) {
  const Family& family = family_of(config, device.vendor);
  const Parameters all = family.parameters(problem, device, config);
  std::string binding;
  const auto add = [&](std::string_view word) {
    binding.append(word);
    binding.push_back('\0');
  };
  for (const Constant& constant : all.constants)
    if (!constant.hint)
      for (const std::string* word : {&constant.type, &constant.name, &constant.value}) add(*word);
  // The host's templates also ask for hints, and for nothing that is not in a constant.
  if (family.launch != nullptr)
    for (const auto& [name, value] : all.values) {
      add(name);
      add(value);
    }
  const XXH128_hash_t hash = XXH3_128bits(binding.data(), binding.size());
  return {hash.low64, hash.high64};
}

}  // namespace kiln
