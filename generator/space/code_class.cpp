#include "generator/space/code_class.h"

#include <xxhash.h>

#include <string>
#include <string_view>

#include "generator/space/family.h"
#include "generator/space/parameters.h"

namespace kiln {

namespace {

/// What else of a product depends on sizes and pitches: a D of one tight column is computed as a
/// row, so that a bias and scales of rows become those of columns. Those of columns add nothing,
/// which leaves most proofs as they are.
template <typename F>
void add_exchanged(const TemplateValues& values, F&& add) {
  const auto is = [&](const std::string& name, std::string_view wanted) {
    const auto found = values.find(name);
    return found != values.end() && found->second == wanted;
  };
  if (is("bias", "per_row")) add("bias of rows");
  for (const std::string kind : {"line_scale_", "tensor_scale_"})
    if (is(kind + "a", value_of(true)) && !is(kind + "b", value_of(true))) add(kind + "a");
}

/// `counts(name, value)`: whether a value that templates ask about is part of the class.
template <typename F>
CodeClass class_of(const Problem& problem, const DeviceCaps& device, const Config& config,
                   bool with_layouts, F&& counts) {
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
  // The host's templates also ask for hints, for the layouts, and for nothing else that is not in a
  // constant.
  if (family.launch == nullptr && with_layouts) {
    add(value_of(problem.a_k_major));
    add(value_of(problem.b_k_major && !problem.gemm.b_packed));
    add_exchanged(all.values, add);
  }
  if (family.launch != nullptr)
    for (const auto& [name, value] : all.values) {
      if (!counts(name, value)) continue;
      add(name);
      add(value);
    }
  const XXH128_hash_t hash = XXH3_128bits(binding.data(), binding.size());
  return {hash.low64, hash.high64};
}

/// Whether a value is neither off nor what every epilogue has unless told otherwise: a new field
/// leaves the classes of all other problems as they are.
bool is_set(std::string_view name, std::string_view value) {
  if (value == value_of(false) || value == "none") return false;
  static const TemplateValues& kDefaults = []() -> TemplateValues& {
    auto& values = *new TemplateValues;
    add_epilogue(values, Gemm{});
    return values;
  }();
  const auto found = kDefaults.find(name);
  return found == kDefaults.end() || found->second != value;
}

}  // namespace

CodeClass code_class(const Problem& problem, const DeviceCaps& device, const Config& config) {
  return class_of(problem, device, config, true, is_set);
}

CodeClass code_class_of_schema8(const Problem& problem, const DeviceCaps& device,
                                const Config& config) {
  return class_of(problem, device, config, false, is_set);
}

CodeClass code_class_of_schema7(const Problem& problem, const DeviceCaps& device,
                                const Config& config) {
  return class_of(problem, device, config, false,
                  [](std::string_view name, std::string_view) { return name != "bias_as_d"; });
}

}  // namespace kiln
