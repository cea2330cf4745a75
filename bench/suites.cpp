#include "bench/suites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "generator/problem/did_you_mean.h"

namespace kiln {
namespace {

/// What "name:SIZE" means for a list.
struct SizedList {
  std::string_view list;
  void (*apply)(Gemm&, std::int64_t size);
};

void tokens(Gemm& gemm, std::int64_t size) { gemm.m = size; }
void images(Gemm& gemm, std::int64_t size) { gemm.m *= size; }

constexpr std::array<SizedList, 4> kSizedLists{{
    {"llama-3-8b", tokens},
    {"qwen2.5-7b", tokens},
    {"bert-base", tokens},
    {"resnet-50", images},
}};

constexpr std::string_view kSuffix = ".txt";

std::string_view list_name(const EmbeddedFile& file) {
  return file.path.substr(0, file.path.size() - kSuffix.size());
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const auto begin = text.find_first_not_of(blank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) + 1 - begin);
}

Result<std::int64_t> parse_size(std::string_view whole, std::string_view digits) {
  std::int64_t size = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  constexpr std::int64_t kMost = 1'000'000;  // tokens or images; keeps every product in 64 bits
  if (code != std::errc{} || end != digits.data() + digits.size() || size < 1 || size > kMost)
    return fail(
        ErrorCode::bad_input,
        fmt::format("layers = \"{}\": \"{}\" is not a size from 1 to {}", whole, digits, kMost));
  return size;
}

}  // namespace

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_shapes()) names.emplace_back(list_name(file));
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<ListedShape>> suite(std::string_view name) {
  const std::string_view list = name.substr(0, name.find(':'));
  const auto files = embedded_shapes();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const EmbeddedFile& f) { return list_name(f) == list; });
  if (file == files.end())
    return fail(ErrorCode::bad_input,
                fmt::format("layers = \"{}\": there is no such list; there are {}{}", name,
                            fmt::join(suite_names(), ", "), did_you_mean(list, suite_names())));
  auto shapes = parse_shapes(file->text, list);
  if (!shapes || list.size() == name.size()) return shapes;

  const auto sized = std::find_if(kSizedLists.begin(), kSizedLists.end(),
                                  [&](const SizedList& s) { return s.list == list; });
  if (sized == kSizedLists.end())
    return fail(ErrorCode::bad_input,
                fmt::format("layers = \"{}\": \"{}\" takes no size", name, list));
  const auto size = parse_size(name, name.substr(list.size() + 1));
  if (!size) return tl::unexpected(size.error());
  for (ListedShape& shape : *shapes) sized->apply(shape.gemm, *size);
  return shapes;
}

Result<ListedShape> parse_shape(std::string_view line) {
  if (!names_range(line))
    return parse_gemm(line).map([](const Gemm& gemm) { return ListedShape{gemm, {}, {}}; });
  return parse_gemm_range(line).map([](const GemmRange& range) {
    return ListedShape{range.gemm, {}, {}, range};
  });
}

Result<std::vector<ListedShape>> parse_shapes(std::string_view text, std::string_view name) {
  std::vector<ListedShape> shapes;
  int number = 0;
  while (!text.empty()) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    ++number;
    const auto hash = std::min(whole.find('#'), whole.size());
    const std::string_view line = trimmed(whole.substr(0, hash));
    if (line.empty()) continue;
    const std::string origin = fmt::format("{}:{}", name, number);
    auto shape = parse_shape(line);
    if (!shape)
      return fail(shape.error().code, fmt::format("{}: {}", origin, shape.error().message));
    const std::string_view comment = hash < whole.size() ? whole.substr(hash + 1) : "";
    shape->origin = origin;
    shape->comment = trimmed(comment);
    shapes.push_back(std::move(*shape));
  }
  return shapes;
}

}  // namespace kiln
