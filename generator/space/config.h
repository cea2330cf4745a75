// One point of a family's space as a value: which family, and a number for each of its keys. A
// family's own code reads it as a struct (its config.h), everything else as keys and text, e.g.
// "host_packed isa=avx512 mr=6 nv=4 kc=384 …".
#pragma once

#include <array>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "generator/space/field.h"
#include "kiln/error.hpp"

namespace kiln {

/// The families, in the order in which configs are compared. A new one is a new last name here, and
/// its struct in config.cpp.
inline constexpr std::array<std::string_view, 20> kFamilyNames{
    "host_packed",      "host_dot",           "host_small",        "host_amx",     "cuda_wgmma",
    "cuda_mma",         "cuda_simt",          "cuda_gemv",         "cublaslt",     "hip_mfma",
    "hip_mx",           "hip_simt",           "blas_library",      "host_weights", "cuda_weights",
    "host_amx_weights", "cuda_wgmma_weights", "cuda_gemv_weights", "cuda_gemv_n",  "cuda_small"};

/// The place of a family in kFamilyNames. A name that is not there does not compile.
consteval std::size_t family_index(std::string_view name) {
  std::size_t index = 0;
  while (kFamilyNames.at(index) != name) ++index;
  return index;
}

/// A family's own struct: see field.h.
template <typename C>
concept FamilyConfig = requires {
  C::kFamily;
  C::fields();
};

class Config {
 public:
  static constexpr std::size_t kMostKeys = 24;

  Config() = default;
  template <FamilyConfig C>
  // NOLINTNEXTLINE(google-explicit-constructor): a family's struct is a config.
  Config(const C& config) : family_(family_index(C::kFamily)) {
    each_key<C>([&](auto field, std::size_t i) {
      values_[i] = static_cast<std::int32_t>(config.*(field.member));
    });
  }

  std::size_t family() const { return family_; }
  /// Of the family's keys, in the order of its fields(); 0 behind them.
  const std::array<std::int32_t, kMostKeys>& values() const { return values_; }

  template <FamilyConfig C>
  bool is() const {
    return family_ == family_index(C::kFamily);
  }
  /// The family's struct; the config must be of it.
  template <FamilyConfig C>
  const C as() const {  // const: a change of it would change nothing
    assert(is<C>());
    C config;
    each_key<C>([&](auto field, std::size_t i) {
      using T = std::remove_reference_t<decltype(config.*(field.member))>;
      config.*(field.member) = static_cast<T>(values_[i]);
    });
    return config;
  }
  /// Nothing where the config is of another family.
  template <FamilyConfig C>
  std::optional<C> if_is() const {
    return is<C>() ? std::optional(as<C>()) : std::nullopt;
  }

  friend auto operator<=>(const Config&, const Config&) = default;

 private:
  /// A config of the family of this index, all of whose values are 0.
  explicit Config(std::size_t family) : family_(static_cast<std::uint8_t>(family)) {}
  friend Result<Config> parse_config(std::string_view line);

  template <typename C, typename F>
  static constexpr void each_key(F&& f) {
    static_assert(std::tuple_size_v<decltype(C::fields())> <= kMostKeys);
    std::apply(
        [&](auto... field) {
          std::size_t i = 0;
          (f(field, i++), ...);
        },
        C::fields());
  }

  std::uint8_t family_ = 0;
  std::array<std::int32_t, kMostKeys> values_{};
};

/// One key of a family, as its Field says; `names` of an enum's values, which are `values`.
struct ConfigKey {
  std::string_view name;
  int most = 0;
  bool later = false;
  bool argument = false;
  bool flag = false;
  std::vector<std::string_view> names = {};
  std::vector<std::int32_t> values = {};
};
/// The keys of a family, by its place in kFamilyNames.
std::span<const ConfigKey> keys_of_family(std::size_t family);
/// The value of one key; nothing where the family has no such key.
std::optional<std::int32_t> value_of_key(const Config& config, std::string_view key);

/// "family key=value …", in the order of the family's fields; `parse_config(text(c)) == c`.
std::string text(const Config& config);
/// Errors: bad_input, naming the family, key or value that is wrong.
Result<Config> parse_config(std::string_view line);
/// Whether bias, activation and residual are arguments of the config's code: it serves problems of
/// every epilogue.
bool takes_epilogue(const Config& config);
std::string_view family_name(const Config& config);
/// Whether it stands for a library's own kernel, of which kiln knows times and no code.
inline bool is_library(const Config& config) {
  return config.family() == family_index("cublaslt") ||
         config.family() == family_index("blas_library");
}
/// What of it is in its code: its family and the values of the keys that are not arguments of the
/// kernel. Configs that agree in it share binaries.
std::vector<int> code_fields(const Config& config);

}  // namespace kiln
