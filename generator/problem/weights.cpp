// Weights: from fp32, from the tensors of checkpoints, and back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "kiln/numeric.hpp"
#include "kiln/quantise.hpp"

namespace kiln {
namespace {

tl::unexpected<Error> bad(std::string text) { return fail(ErrorCode::bad_input, std::move(text)); }

/// Elements of a group: k itself where a column has one scale.
std::int64_t along(const Weights& w) {
  const int block = scale_block(w.group).along;
  return block == 0 ? std::max<std::int64_t>(1, w.k) : block;
}
std::int64_t groups(const Weights& w) {
  return scale_block(w.group).along == 0 ? 1 : w.k / along(w);
}
DType zero_type(const Weights& w) { return w.zero == Zero::integer ? w.type : w.scale_type; }

/// First and last code.
struct Codes {
  double first, last;
};
Codes codes_of(DType type) {
  if (type == u4) return {0, 15};
  return type == s4 ? Codes{-8, 7} : Codes{-128, 127};
}

double round_to_type(DType type, double value) {
  std::uint64_t element = 0;
  store_element(type, &element, 0, value);
  return load_element(type, &element, 0);
}

/// With memory for codes, scales and zero points; refuses what no problem has.
Result<Weights> empty_weights(Weights w) {
  std::int64_t count = 0;
  if (w.n < 0 || w.k < 0 || __builtin_mul_overflow(w.n, w.k, &count))
    return bad(fmt::format("n = {}, k = {}: must be 0 or more, and fit 64 bits", w.n, w.k));
  if (w.k % elements_of_whole_bytes(w.type) != 0)
    return bad(fmt::format("k = {}: must be a multiple of {}, whole bytes of {}", w.k,
                           elements_of_whole_bytes(w.type), name(w.type)));
  // A row of A: the sizes of a product do not matter here.
  if (const Status ok = validate(w.problem(1, bf16)); !ok) return tl::unexpected(ok.error());
  const std::int64_t scales = w.n * groups(w);
  w.codes.resize(static_cast<std::size_t>(bytes_of(w.type, count)));
  w.scales.resize(static_cast<std::size_t>(bytes_of(w.scale_type, scales)));
  if (w.zero != Zero::none)
    w.zeros.resize(static_cast<std::size_t>(bytes_of(zero_type(w), scales)));
  return w;
}

/// What a group's codes mean.
struct Meaning {
  double scale = 1, zero = 0;
};

Meaning meaning_of(const Weights& w, double smallest, double largest) {
  const auto [first, last] = codes_of(w.type);
  if (w.zero == Zero::integer || largest == smallest) {
    smallest = std::min(smallest, 0.0);
    largest = std::max(largest, 0.0);
  }
  Meaning m;
  const double scale = w.zero == Zero::none ? std::max(-smallest, largest) / last
                                            : (largest - smallest) / (last - first);
  m.scale = round_to_type(w.scale_type, scale);
  if (m.scale == 0) m.scale = 1;  // numbers too small for a scale of their own become 0
  if (w.zero == Zero::none) return m;
  const double zero = first - smallest / m.scale;
  m.zero = w.zero == Zero::integer ? std::clamp(std::nearbyint(zero), first, last)
                                   : round_to_type(w.scale_type, zero);
  return m;
}

/// Place of each of eight columns in a word of AWQ, which holds columns 0 2 4 6 1 3 5 7.
constexpr int kAwqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};

int nibble(const void* words, std::int64_t word, int place) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(words) + word * 4, sizeof bits);
  return static_cast<int>(bits >> (4 * place) & 15u);
}

/// Code of column j at p.
int stored_code(const StoredWeights& s, std::int64_t j, std::int64_t p) {
  switch (s.as) {
    case StoredAs::gptq:
    case StoredAs::gptq_v2:
      return nibble(s.codes, p / 8 * s.n + j, static_cast<int>(p % 8));
    case StoredAs::awq:
      return nibble(s.codes, p * (s.n / 8) + j / 8, kAwqPlaces[j % 8]);
    case StoredAs::plain:
      break;
  }
  return static_cast<const std::uint8_t*>(s.codes)[j * s.k + p];
}

int stored_zero(const StoredWeights& s, std::int64_t j, std::int64_t group, std::int64_t count) {
  constexpr int kSymmetric = 8;
  if (s.zeros == nullptr) return kSymmetric;
  if (s.as == StoredAs::plain) return static_cast<const std::uint8_t*>(s.zeros)[j * count + group];
  const int place = s.as == StoredAs::awq ? kAwqPlaces[j % 8] : static_cast<int>(j % 8);
  return nibble(s.zeros, group * (s.n / 8) + j / 8, place) + (s.as == StoredAs::gptq ? 1 : 0);
}

Status check(const StoredWeights& s) {
  if (s.as > StoredAs::plain) return bad(fmt::format("as = {}: no such layout", int(s.as)));
  if (s.as != StoredAs::plain && s.n % 8 != 0)
    return bad(fmt::format("n = {}: words of eight codes need a multiple of 8", s.n));
  if (s.as != StoredAs::plain && s.k % 8 != 0)
    return bad(fmt::format("k = {}: words of eight codes need a multiple of 8", s.k));
  const bool empty = s.n == 0 || s.k == 0;
  if (s.codes == nullptr && !empty) return bad("codes = null: these weights need them");
  if (s.scales == nullptr && s.n != 0) return bad("scales = null: these weights need them");
  return {};
}

}  // namespace

Gemm Weights::problem(std::int64_t m, DType a) const {
  return Gemm::row_major(m, n, k, a).transpose_b().with_weights(type, group, scale_type, zero);
}

Result<Weights> quantise_weights(std::span<const float> values, std::int64_t n, std::int64_t k,
                                 DType type, Scale group, DType scale_type, Zero zero) {
  if (type != s4 && type != u4 && type != s8)
    return fail(ErrorCode::unsupported,
                fmt::format("type = {}: must be s4, u4 or s8",
                            static_cast<std::size_t>(type) < kDTypes.size() ? name(type) : "?"));
  if (type == u4 && zero == Zero::none)
    return fail(ErrorCode::unsupported, "zero = none: u4 has no numbers below zero without");
  auto made = empty_weights({type, group, scale_type, zero, n, k, {}, {}, {}});
  if (!made) return made;
  if (values.size() != static_cast<std::size_t>(n * k))
    return bad(fmt::format("n = {}, k = {}: {} values were given", n, k, values.size()));
  Weights& w = *made;
  const std::int64_t length = along(w), count = groups(w);
  const auto [first, last] = codes_of(type);
  for (std::int64_t g = 0; g < n * count; ++g) {
    const auto of = values.subspan(static_cast<std::size_t>(g * (k / count)),
                                   static_cast<std::size_t>(std::min(length, k)));
    for (std::size_t i = 0; i < of.size(); ++i)
      if (!std::isfinite(of[i]))
        return bad(fmt::format("values: {} in column {} at {} cannot be scaled", of[i], g / count,
                               g % count * length + static_cast<std::int64_t>(i)));
    const auto [smallest, largest] = std::ranges::minmax_element(of);
    const Meaning m = of.empty() ? Meaning{} : meaning_of(w, *smallest, *largest);
    if (!std::isfinite(m.scale) || !std::isfinite(m.zero))
      return bad(fmt::format("values: column {} at {} needs a scale or zero point beyond {}",
                             g / count, g % count * length, name(scale_type)));
    store_element(scale_type, w.scales.data(), g, m.scale);
    if (zero != Zero::none) store_element(zero_type(w), w.zeros.data(), g, m.zero);
    for (std::size_t i = 0; i < of.size(); ++i)
      store_element(type, w.codes.data(), g * (k / count) + static_cast<std::int64_t>(i),
                    std::clamp(std::nearbyint(of[i] / m.scale + m.zero), first, last));
  }
  return made;
}

Result<Weights> weights_from(const StoredWeights& s) {
  if (Status ok = check(s); !ok) return tl::unexpected(ok.error());
  const int block = scale_block(s.group).along;
  const std::int64_t count = block == 0 ? 1 : s.k / block;
  bool beyond = false;
  for (std::int64_t j = 0; j < s.n; ++j)
    for (std::int64_t g = 0; g < count; ++g) beyond |= stored_zero(s, j, g, count) > 15;
  auto made = empty_weights(
      {u4, s.group, s.scale_type, beyond ? Zero::floating : Zero::integer, s.n, s.k, {}, {}, {}});
  if (!made) return made;
  Weights& w = *made;
  for (std::int64_t j = 0; j < s.n; ++j) {
    for (std::int64_t g = 0; g < count; ++g) {
      const std::int64_t at = s.as == StoredAs::plain ? j * count + g : g * s.n + j;
      store_element(s.scale_type, w.scales.data(), j * count + g,
                    load_element(s.scale_type, s.scales, at));
      store_element(zero_type(w), w.zeros.data(), j * count + g, stored_zero(s, j, g, count));
    }
    for (std::int64_t p = 0; p < s.k; ++p) {
      const int code = stored_code(s, j, p);
      if (code > 15)
        return bad(fmt::format("codes: {} in column {} at {}: must be 0 to 15", code, j, p));
      store_element(u4, w.codes.data(), j * s.k + p, code);
    }
  }
  return made;
}

std::vector<float> dequantise(const Weights& w) {
  std::vector<float> out(static_cast<std::size_t>(w.n * w.k));
  const std::int64_t length = along(w), count = groups(w);
  for (std::int64_t j = 0; j < w.n; ++j)
    for (std::int64_t p = 0; p < w.k; ++p) {
      const std::int64_t at = j * w.k + p, g = j * count + p / length;
      const double zero = w.zero == Zero::none ? 0 : load_element(zero_type(w), w.zeros.data(), g);
      out[static_cast<std::size_t>(at)] =
          static_cast<float>((load_element(w.type, w.codes.data(), at) - zero) *
                             load_element(w.scale_type, w.scales.data(), g));
    }
  return out;
}

}  // namespace kiln
