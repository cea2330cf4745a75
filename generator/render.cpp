#include "generator/render.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "generator/embedded.h"
#include "generator/family.h"
#include "generator/host.h"
#include "kiln/engine.hpp"

namespace kiln {
namespace {

std::string_view template_text(std::string_view path) {
  for (const auto& file : embedded_templates())
    if (file.path == path) return file.text;
  return {};
}

std::string hash_text(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

/// `using TypeA = float;  // elements of A`, glosses in one column.
std::string constants_text(const std::vector<Constant>& constants) {
  std::vector<std::string> lines;
  std::size_t width = 0;
  for (const auto& c : constants) {
    lines.push_back(c.type == "using"
                        ? fmt::format("using {} = {};", c.name, c.value)
                        : fmt::format("constexpr {} {} = {};", c.type, c.name, c.value));
    width = std::max(width, lines.back().size());
  }
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += fmt::format("{:<{}}  // {}\n", lines[i], width, constants[i].gloss);
  return out;
}

Isa isa_of(const Config& config) {
  return std::visit([](const auto& c) { return c.isa; }, config);
}

}  // namespace

std::string template_hash() {
  std::string all;
  for (const auto& file : embedded_templates()) {
    all += file.path;
    all.push_back('\0');
    all += file.text;
    all.push_back('\0');
  }
  return hash_text(all);
}

Result<Source> render(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  if (auto ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  const Canonical problem = canonicalise(gemm);
  if (const auto broken = broken_rule(problem, device, config); !broken.empty())
    return fail(ErrorCode::bad_input, fmt::format("config '{}' breaks the rule '{}' for {}",
                                                  text(config), broken, text(gemm)));
  const Family& family = family_of(config);
  const Parameters parameters = family.parameters(problem, device, config);

  std::string body;
  for (const auto path : family.files) {
    auto part = expand(template_text(path), parameters.values);
    if (!part) return fail(part.error().code, fmt::format("{}: {}", path, part.error().message));
    body += fmt::format("\n// ---- {} ----\n{}", path, *part);
    if (path == "host/types.h")
      body += "\n// ---- parameters ----\n" + constants_text(parameters.constants);
  }
  Source source;
  source.flags = host::flags(isa_of(config), device);
  source.file_name = fmt::format("kiln_{}_{}.cpp", family.name, hash_text(body));
  source.text = fmt::format(
      "// Written by kiln {}.\n// device:  {}\n// problem: {}{}\n// config:  {}\n"
      "// compile: clang++ {} -shared -fPIC {} -o kernel.so\n{}",
      version(), device.arch, text(gemm), problem.swapped ? "  (as its transpose)" : "",
      text(config), fmt::join(source.flags, " "), source.file_name, body);
  return source;
}

}  // namespace kiln
