#include "generator/space/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "generator/families/cpu/amx/config.h"
#include "generator/families/cpu/amx_weights/config.h"
#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/small/config.h"
#include "generator/families/cpu/weights/config.h"
#include "generator/families/cuda/gemv/config.h"
#include "generator/families/cuda/gemv_n/config.h"
#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/families/cuda/library/config.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/small/config.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mx/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/problem/did_you_mean.h"

namespace kiln {
namespace {

template <FamilyConfig C>
std::vector<ConfigKey> keys_of() {
  std::vector<ConfigKey> keys;
  std::apply(
      [&](auto... field) {
        const auto add = [&](auto one) {
          using T = std::remove_cvref_t<decltype(std::declval<C&>().*(one.member))>;
          ConfigKey key{one.name, one.most, one.later, one.argument, std::is_same_v<T, bool>};
          if constexpr (std::is_enum_v<T>)
            for (const auto& row : names_of(T{})) {
              key.names.push_back(row.name);
              key.values.push_back(static_cast<std::int32_t>(row.value));
            }
          keys.push_back(std::move(key));
        };
        (add(field), ...);
      },
      C::fields());
  return keys;
}

/// By the family's place in kFamilyNames.
template <FamilyConfig... C>
std::vector<std::vector<ConfigKey>> all_keys() {
  static_assert(sizeof...(C) == kFamilyNames.size());
  std::vector<std::vector<ConfigKey>> all(kFamilyNames.size());
  ((all[family_index(C::kFamily)] = keys_of<C>()), ...);
  return all;
}

std::string value_text(const ConfigKey& key, std::int32_t value) {
  for (std::size_t i = 0; i < key.values.size(); ++i)
    if (key.values[i] == value) return std::string(key.names[i]);
  return std::to_string(value);
}

std::optional<std::int32_t> parse_value(const ConfigKey& key, std::string_view text) {
  for (std::size_t i = 0; i < key.names.size(); ++i)
    if (key.names[i] == text) return key.values[i];
  if (!key.names.empty()) return std::nullopt;
  if (key.flag && text != "0" && text != "1") return std::nullopt;
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || value < 0 || (!key.flag && value > key.most)) return std::nullopt;
  return value;
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

std::vector<std::string_view> names_of_keys(std::span<const ConfigKey> keys) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : keys) names.push_back(key.name);
  return names;
}

}  // namespace

std::span<const ConfigKey> keys_of_family(std::size_t family) {
  static const auto& all = *new auto(
      all_keys<HostPacked, HostDot, HostSmall, HostAmx, CudaWgmma, CudaMma, CudaSimt, CudaGemv,
               CudaLibrary, HipMfma, HipMx, HipSimt, BlasLibrary, HostWeights, CudaWeights,
               HostAmxWeights, CudaWgmmaWeights, CudaGemvWeights, CudaGemvN, CudaSmall>());
  return all.at(family);
}

std::optional<std::int32_t> value_of_key(const Config& config, std::string_view key) {
  const auto keys = keys_of_family(config.family());
  const auto found = std::ranges::find(keys, key, &ConfigKey::name);
  if (found == keys.end()) return std::nullopt;
  return config.values()[static_cast<std::size_t>(found - keys.begin())];
}

bool takes_epilogue(const Config& config) {
  return value_of_key(config, "any_epilogue").value_or(0) != 0;
}

std::string text(const Config& config) {
  std::string line(family_name(config));
  const auto keys = keys_of_family(config.family());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::int32_t value = config.values()[i];
    if (keys[i].later && value == 0) continue;
    line += fmt::format(" {}={}", keys[i].name, value_text(keys[i], value));
  }
  return line;
}

// Every key exactly once, so that a text never means a default that may change later; those that
// came later are zero where they do not stand.
Result<Config> parse_config(std::string_view line) {
  const auto words = words_of(line);
  if (words.empty()) return fail(ErrorCode::bad_input, "config: empty");
  const auto family = std::ranges::find(kFamilyNames, words[0]);
  if (family == kFamilyNames.end())
    return fail(ErrorCode::bad_input, fmt::format("config: there is no family '{}'{}", words[0],
                                                  did_you_mean(words[0], kFamilyNames)));
  Config config(static_cast<std::size_t>(family - kFamilyNames.begin()));
  const auto keys = keys_of_family(config.family());
  std::vector<bool> seen(keys.size(), false);
  for (std::size_t w = 1; w < words.size(); ++w) {
    const auto equals = words[w].find('=');
    const auto name = words[w].substr(0, equals);
    if (equals == std::string_view::npos)
      return fail(ErrorCode::bad_input, fmt::format("config: '{}' is not field=value", words[w]));
    const auto key = std::ranges::find(keys, name, &ConfigKey::name);
    if (key == keys.end())
      return fail(ErrorCode::bad_input, fmt::format("config: {} has no field '{}'{}", *family, name,
                                                    did_you_mean(name, names_of_keys(keys))));
    const auto value = parse_value(*key, words[w].substr(equals + 1));
    if (!value)
      return fail(ErrorCode::bad_input, fmt::format("config: {}={} is not a legal value", name,
                                                    words[w].substr(equals + 1)));
    const auto i = static_cast<std::size_t>(key - keys.begin());
    if (seen[i])
      return fail(ErrorCode::bad_input, fmt::format("config: field '{}' is given twice", name));
    seen[i] = true;
    config.values_[i] = *value;
  }
  std::string missing;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!keys[i].later && !seen[i]) missing += fmt::format(" {}", keys[i].name);
  if (!missing.empty())
    return fail(ErrorCode::bad_input, fmt::format("config: {} lacks{}", *family, missing));
  return config;
}

std::vector<int> code_fields(const Config& config) {
  std::vector<int> code{static_cast<int>(config.family())};
  const auto keys = keys_of_family(config.family());
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!keys[i].argument) code.push_back(config.values()[i]);
  return code;
}

std::string_view family_name(const Config& config) { return kFamilyNames[config.family()]; }

}  // namespace kiln
