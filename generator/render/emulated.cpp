#include "generator/render/emulated.h"

#include <fmt/format.h>

#include <cassert>
#include <regex>

#include "generator/render/embedded.h"
#include "generator/render/template.h"
#include "generator/space/family.h"
#include "generator/space/platform.h"

namespace kiln {
namespace {

std::string embedded_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_templates())
    if (file.path == path) {
      const auto text = expand(file.text, {});
      assert(text);  // these files ask about nothing
      return fmt::format("\n// ---- {} ----\n{}", path, *text);
    }
  assert(false);
  return {};
}

/// Exchanges the headers that hold instructions for the emulator's wrappers, where the first of
/// them stands.
std::string with_wrappers(std::string_view text, const Emulation& emulation) {
  constexpr std::string_view kSection = "\n// ---- ";
  std::string out;
  bool placed = false;
  while (!text.empty()) {
    const std::string_view section = text.substr(0, text.find(kSection, 1));
    text.remove_prefix(section.size());
    const std::string_view title = section.substr(0, section.find('\n', 1));
    if (!title.starts_with(kSection) ||
        !title.ends_with(fmt::format("{} ----", emulation.wrapper_headers))) {
      out += section;
    } else if (!placed) {
      out += embedded_text(emulation.wrappers);
      placed = true;
    }
  }
  return out;
}

/// Shared variables live where the emulator says, one set a block. A lane stays in its block, so
/// the compiler asks once a function and not at every access.
std::string with_shared_variables(std::string text) {
  static const auto& dynamic = *new std::regex(
      R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;)");
  text = std::regex_replace(text, dynamic, "$1* $2 = ($1*)kiln_emu_ops->dynamic_shared();");
  // Inside a function (CUDA), or for the whole file (KILN_SHARED).
  static const auto& variable = *new std::regex(
      R"((__shared__|KILN_SHARED)\s+(?:__align__\(\d+\)\s+|alignas\(\d+\)\s+|__attribute__\(\(aligned\(\d+\)\)\)\s+)?(\w+)\s+(\w+)((?:\s*\[[^\]]*\])*)\s*;)");
  std::string out;
  int number = 0;
  std::smatch found;
  while (std::regex_search(text, found, variable)) {
    const std::string type = "KilnEmuShared_" + found[3].str();
    const std::string where =
        fmt::format("*({}*)kiln_emu_ops->shared_variable({}, sizeof({}))", type, number++, type);
    out += found.prefix().str() +
           fmt::format("typedef {} {}{}; ", found[2].str(), type, found[4].str());
    if (found[1] == "__shared__")
      out += fmt::format("{}& {} = {};", type, found[3].str(), where);
    else
      out += fmt::format(
          "__attribute__((const, noinline)) static {}& kiln_emu_{}() {{ return {}; }}\n#define {} "
          "(kiln_emu_{}())",
          type, found[3].str(), where, found[3].str(), found[3].str());
    text = found.suffix();
  }
  return out + text;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string entries(const GpuLaunch& launch) {
  std::string out = "\n// ---- entries ----\n";
  for (std::size_t i = 0; i < launch.steps.size(); ++i) {
    const GpuStep& step = launch.steps[i];
    bool seen = false;
    for (std::size_t j = 0; j < i; ++j) seen = seen || launch.steps[j].entry == step.entry;
    if (seen) continue;
    std::string maps;
    for (std::size_t m = 0; m < step.maps.size(); ++m) maps += fmt::format(", *maps[{}]", m);
    // Behind the maps, in the place of one.
    if (step.first_entry >= 0)
      maps += fmt::format(
          ", *reinterpret_cast<const KilnListChunk*>(reinterpret_cast<const void*>(maps[{}]))",
          step.maps.size());
    out += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void kiln_emu_{}(const "
        "KilnGpuArgs* args, const KilnTensorMap* const* maps) {{\n  (void)maps;\n  "
        "{}(*args{});\n}}\n",
        step.entry, step.entry, maps);
  }
  return out;
}

/// No optimiser may assume more than a GPU's does; an index outside an array of known size traps,
/// and so does an address that is not a multiple of what lies there, which NVIDIA's refuse.
/// Variables without a value hold a pattern that is NaN in floating types.
std::vector<std::string> host_flags() {
  return {"-std=c++17",
          "-O1",
          "-w",
          "-fno-exceptions",
          "-fno-rtti",
          "-ffp-contract=off",
          "-fno-strict-aliasing",
          "-fwrapv",
          "-ftrivial-auto-var-init=pattern",
          "-fsanitize=array-bounds,alignment",
          "-fsanitize-trap=array-bounds,alignment"};
}

}  // namespace

Result<Source> emulated(const Source& source, const GpuLaunch& launch, Vendor vendor) {
  const std::optional<Emulation>& emulation = platform_of(vendor).emulation;
  if (!emulation)
    return fail(ErrorCode::unsupported,
                fmt::format("{}: kernels for {} are not emulated", source.file_name, vendor.name));
  std::string text = replaced(source.text, "_Pragma(\"unroll\")", "");
  if (emulation->prepared != nullptr) text = emulation->prepared(std::move(text));
  text = with_shared_variables(with_wrappers(text, *emulation));
  const auto first = text.find("\n// ---- ");
  if (first == std::string::npos)
    return fail(ErrorCode::internal, source.file_name + ": the source has no sections");

  Source out;
  out.file_name = source.file_name + ".emu.cpp";
  out.flags = host_flags();
  out.text = text.substr(0, first) + embedded_text("emu/abi.h") +
             embedded_text(emulation->keywords) + text.substr(first) + entries(launch);
  return out;
}

Result<Source> render_emulated(const Problem& problem, const DeviceCaps& device,
                               const Config& config) {
  const auto source = render(problem, device, config);
  if (!source) return source;
  const Family& family = family_of(config, device.vendor);
  if (family.launch == nullptr)
    return fail(
        ErrorCode::unsupported,
        fmt::format("config = \"{}\": not a GPU kernel, so it cannot be emulated", text(config)));
  return emulated(*source, family.launch(problem, device, config), device.vendor);
}

}  // namespace kiln
