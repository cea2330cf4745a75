#include "generator/space/config.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "generator/problem/did_you_mean.h"

namespace kiln {
namespace {

std::string value_text(int v) { return std::to_string(v); }
std::string value_text(bool v) { return v ? "1" : "0"; }
template <typename E>
std::string value_text(E v) requires std::is_enum_v<E> {
  return std::string(name(v));
}

bool parse_value(std::string_view text, int most, int& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 0 && out <= most;
}
bool parse_value(std::string_view text, int, bool& out) {
  if (text != "0" && text != "1") return false;
  out = text == "1";
  return true;
}
template <typename E>
bool parse_value(std::string_view text, int, E& out) requires std::is_enum_v<E> {
  for (const auto& row : names_of(E{})) {
    if (row.name != text) continue;
    out = row.value;
    return true;
  }
  return false;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const auto begin = line.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const auto end = std::min(line.find_first_of(" \t\r\n"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

template <typename C>
std::vector<std::string_view> field_names() {
  return std::apply([](auto... field) { return std::vector<std::string_view>{field.name...}; },
                    C::fields());
}

/// Every field exactly once, so that a text never means a default that may change later; those that
/// came later are zero where they do not stand.
template <typename C>
Result<Config> parse_fields(const std::vector<std::string_view>& words) {
  C config;
  std::vector<std::string_view> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const auto key = words[i].substr(0, equals);
    if (equals == std::string_view::npos)
      return fail(ErrorCode::bad_input, fmt::format("config: '{}' is not field=value", words[i]));
    const auto value = words[i].substr(equals + 1);
    bool known = false, parsed = false;
    std::apply(
        [&](auto... field) {
          ((field.name == key
                ? (known = true, parsed = parse_value(value, field.most, config.*(field.member)))
                : false),
           ...);
        },
        C::fields());
    if (!known)
      return fail(ErrorCode::bad_input, fmt::format("config: {} has no field '{}'{}", C::kFamily,
                                                    key, did_you_mean(key, field_names<C>())));
    if (!parsed)
      return fail(ErrorCode::bad_input,
                  fmt::format("config: {}={} is not a legal value", key, value));
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return fail(ErrorCode::bad_input, fmt::format("config: field '{}' is given twice", key));
    seen.push_back(key);
  }
  std::string missing;
  std::apply(
      [&](auto... field) {
        ((!field.later && std::find(seen.begin(), seen.end(), field.name) == seen.end()
              ? void(missing += fmt::format(" {}", field.name))
              : void()),
         ...);
      },
      C::fields());
  if (!missing.empty())
    return fail(ErrorCode::bad_input, fmt::format("config: {} lacks{}", C::kFamily, missing));
  return config;
}

template <std::size_t... kIndex>
std::vector<std::string_view> family_words(std::index_sequence<kIndex...>) {
  return {std::variant_alternative_t<kIndex, Config>::kFamily...};
}

template <std::size_t I = 0>
Result<Config> parse_as(std::string_view family, const std::vector<std::string_view>& words) {
  if constexpr (I == std::variant_size_v<Config>) {
    const auto known = family_words(std::make_index_sequence<I>{});
    return fail(ErrorCode::bad_input, fmt::format("config: there is no family '{}'{}", family,
                                                  did_you_mean(family, known)));
  } else {
    using C = std::variant_alternative_t<I, Config>;
    if (family == C::kFamily) return parse_fields<C>(words);
    return parse_as<I + 1>(family, words);
  }
}

}  // namespace

bool takes_epilogue(const Config& config) {
  return std::visit(
      [](const auto& c) {
        if constexpr (requires { c.any_epilogue; })
          return c.any_epilogue;
        else
          return false;
      },
      config);
}

std::string text(const Config& config) {
  return std::visit(
      [](const auto& c) {
        using C = std::decay_t<decltype(c)>;
        std::string line(C::kFamily);
        std::apply(
            [&](auto... field) {
              ((field.later && c.*(field.member) == decltype(c.*(field.member)){}
                    ? void()
                    : void(line +=
                           fmt::format(" {}={}", field.name, value_text(c.*(field.member))))),
               ...);
            },
            C::fields());
        return line;
      },
      config);
}

Result<Config> parse_config(std::string_view line) {
  const auto words = words_of(line);
  if (words.empty()) return fail(ErrorCode::bad_input, "config: empty");
  return parse_as(words[0], words);
}

std::vector<int> code_fields(const Config& config) {
  std::vector<int> code{static_cast<int>(config.index())};
  std::visit(
      [&](const auto& c) {
        std::apply(
            [&](const auto&... field) {
              ((field.argument ? void() : code.push_back(int(c.*(field.member)))), ...);
            },
            c.fields());
      },
      config);
  return code;
}

std::string_view family_name(const Config& config) {
  return std::visit([](const auto& c) { return std::decay_t<decltype(c)>::kFamily; }, config);
}

}  // namespace kiln
