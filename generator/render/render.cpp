#include "generator/render/render.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "generator/render/embedded.h"
#include "generator/render/template.h"
#include "generator/space/family.h"
#include "generator/space/platform.h"
#include "kiln/engine.hpp"

namespace kiln {
namespace {

std::string_view template_text(std::string_view path) {
  for (const auto& file : embedded_templates())
    if (file.path == path) return file.text;
  return {};
}

/// The file and all that it includes.
void add_with_included(std::set<std::string_view>& paths, std::string_view path) {
  if (!paths.insert(path).second) return;
  for (const std::string_view included : included_by(template_text(path)))
    add_with_included(paths, included);
}

std::string hash_text(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

/// `using TypeA = float;  // elements of A`, glosses in one column; macros behind the rest.
std::string constants_text(const std::vector<Constant>& all) {
  std::vector<std::string> lines;
  std::vector<Constant> constants;
  std::string macros;
  for (const auto& c : all)
    if (c.type == "define")
      macros += fmt::format("#define {} {}\n", c.name, c.value);
    else
      constants.push_back(c);
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
  return out + macros;
}

}  // namespace

std::string template_hash(Vendor vendor) {
  std::set<std::string_view> paths;
  for (const Family& family : families())
    if (family.vendor == vendor)
      for (const std::string_view path : family.files) add_with_included(paths, path);
  std::string all;
  for (const std::string_view path : paths) {
    all += path;
    all.push_back('\0');
    all += template_text(path);
    all.push_back('\0');
  }
  return hash_text(all);
}

std::string compile_command(Vendor vendor, const Source& source) {
  return fmt::format(fmt::runtime(platform_of(vendor).command),
                     fmt::arg("flags", fmt::format("{}", fmt::join(source.flags, " "))),
                     fmt::arg("file", source.file_name));
}

Result<std::string> paste(std::span<const std::string_view> files, const Parameters& parameters) {
  const auto text_of = [&](std::string_view path) {
    const auto found = parameters.texts.find(path);
    return found != parameters.texts.end() ? found->second : template_text(path);
  };
  std::string body;
  for (const auto path : files) {
    auto part = expand(template_text(path), parameters.values, text_of);
    if (!part) return fail(part.error().code, fmt::format("{}: {}", path, part.error().message));
    if (part->find_first_not_of('\n') == std::string::npos) continue;  // not for this kernel
    body += fmt::format("\n// ---- {} ----\n{}", path, *part);
    if (path.ends_with("/types.h"))
      body.append("\n// ---- parameters ----\n").append(constants_text(parameters.constants));
  }
  return body;
}

Result<Source> render(const Problem& problem, const DeviceCaps& device, const Config& config) {
  if (const auto broken = broken_rule(problem, device, config); !broken.empty())
    return fail(ErrorCode::bad_input, fmt::format("config '{}' breaks the rule '{}' for {}",
                                                  text(config), broken, text(problem.given)));
  const Family& family = family_of(config, device.vendor);
  const Platform& platform = platform_of(device.vendor);
  const Result<std::string> pasted =
      paste(family.files, family.parameters(problem, device, config));
  if (!pasted) return tl::unexpected(pasted.error());
  const std::string& body = *pasted;
  Source source;
  source.flags = family.flags != nullptr ? family.flags(device, config) : platform.flags(device);
  source.file_name = fmt::format("kiln_{}_{}.{}", family.name, hash_text(body), platform.extension);
  source.text = fmt::format(
      "// Written by kiln {}.\n// device:  {}\n// problem: {}{}\n// config:  {}\n"
      "// compile: {}\n{}",
      version(), device.arch, text(problem.given), problem.swapped ? "  (as its transpose)" : "",
      text(config), compile_command(device.vendor, source), body);
  return source;
}

}  // namespace kiln
