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

/// Whether assembly stands in the text; the empty statement that only orders memory is none.
bool holds_assembly(const std::string& text) {
  static const std::regex statement(R"re(\basm\b\s*(volatile)?\s*\((?!\s*""\s*:\s*:\s*:))re");
  return std::regex_search(text, statement);
}

/// Where the definition that begins at `begin` ends: behind its closing brace, or its semicolon.
std::size_t end_of_definition(std::string_view text, std::size_t begin) {
  int braces = 0, parentheses = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '(') {
      ++parentheses;
    } else if (c == ')') {
      --parentheses;
    } else if (c == '{') {
      ++braces;
    } else if (c == '}' && --braces == 0 && parentheses == 0) {
      return i + 1;
    } else if (c == ';' && braces == 0 && parentheses == 0) {
      return i + 1;
    }
  }
  return text.size();
}

/// A device function whose body is assembly, or one of AMD's shared memory.
bool is_wrapper(const std::string& definition) {
  static const std::regex local(R"(^[^(]*\bds_\w+\()");
  return definition.find("KILN_DEVICE ") != std::string::npos &&
         (holds_assembly(definition) || std::regex_search(definition, local));
}

/// Takes out every wrapper around an instruction.
std::string without_wrappers(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with("KILN_DEVICE ") || rest.starts_with("template <")) {
      const std::size_t end = end_of_definition(text, at);
      const std::string definition = text.substr(at, end - at);
      if (!is_wrapper(definition)) out += definition;
      at = end;
    }
    const std::size_t line = std::min(text.find('\n', at), text.size() - 1);
    out.append(text, at, line + 1 - at);
    at = line + 1;
  }
  return out;
}

/// Shared variables live where the emulator says, one set a block.
std::string with_shared_variables(std::string text) {
  static const std::regex dynamic(
      R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;)");
  text = std::regex_replace(text, dynamic, "$1* $2 = ($1*)kiln_emu_ops->dynamic_shared();");
  // Inside a function (CUDA), or for the whole file (KILN_SHARED).
  static const std::regex variable(
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
          "static inline {}& kiln_emu_{}() {{ return {}; }}\n#define {} "
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
    out += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void kiln_emu_{}(const "
        "KilnGpuArgs* args, const KilnTensorMap* const* maps) {{\n  (void)maps;\n  "
        "{}(*args{});\n}}\n",
        step.entry, step.entry, maps);
  }
  return out;
}

/// No optimiser may assume more than a GPU's does; an index outside an array of known size traps,
/// and so does an address that is no multiple of what lies there, which NVIDIA's refuse. Variables
/// without a value hold a pattern that is NaN in floating types.
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
  text = with_shared_variables(without_wrappers(text));
  const auto parameters = text.find("\n// ---- parameters ----");
  if (parameters == std::string::npos)
    return fail(ErrorCode::internal, source.file_name + ": no parameters in the source");
  // The wrappers may need what a file declares.
  auto behind = emulation->behind.empty()
                    ? std::string::npos
                    : text.find(fmt::format("\n// ---- {} ----", emulation->behind));
  behind = text.find("\n// ---- ", (behind == std::string::npos ? parameters : behind) + 1);
  if (behind == std::string::npos) behind = text.size();
  auto first = text.find("\n// ---- ");

  Source out;
  out.file_name = source.file_name + ".emu.cpp";
  out.flags = host_flags();
  out.text = text.substr(0, first) + embedded_text("emu/abi.h") +
             embedded_text(emulation->keywords) + text.substr(first, behind - first) +
             embedded_text(emulation->wrappers) + text.substr(behind) + entries(launch);
  return out;
}

Result<Source> render_emulated(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  const auto source = render(gemm, device, config);
  if (!source) return source;
  const Family& family = family_of(config, device.vendor);
  if (family.launch == nullptr)
    return fail(
        ErrorCode::unsupported,
        fmt::format("config = \"{}\": not a GPU kernel, so it cannot be emulated", text(config)));
  return emulated(*source, family.launch(canonicalise(gemm), device, config), device.vendor);
}

}  // namespace kiln
