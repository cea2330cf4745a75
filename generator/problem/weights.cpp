// Weights: from fp32, from the tensors of checkpoints, and back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/mx_scale.h"
#include "generator/problem/problem.h"
#include "kiln/numeric.hpp"
#include "kiln/quantise.hpp"

namespace kiln {
namespace {

tl::unexpected<Error> bad(std::string text) { return fail(ErrorCode::bad_input, std::move(text)); }

/// How groups that share a scale divide weights.
struct Division {
  std::int64_t columns, along;  // of one group; all of k where a column has one scale
  std::int64_t down, across;    // groups along n and along k

  std::int64_t count() const { return down * across; }
  /// Of an element.
  std::int64_t group(std::int64_t column, std::int64_t at) const {
    return column / columns * across + at / along;
  }
};
Division division_of(std::int64_t n, std::int64_t k, Scale kind) {
  const ScaleBlock block = scale_block(kind);
  const std::int64_t along = block.along == 0 ? std::max<std::int64_t>(1, k) : block.along;
  return {block.lines, along, n / block.lines + (n % block.lines != 0),
          block.along == 0 ? 1 : k / along};
}
/// Of the scales as they are stored: e8m0 counts as u8.
DType type_of_scales(const Weights& w) { return w.group == Scale::mx_32 ? u8 : w.scale_type; }
DType zero_type(const Weights& w) { return w.zero == Zero::integer ? w.type : w.scale_type; }

double scale_at(const Weights& w, std::int64_t group) {
  const double stored = load_element(type_of_scales(w), w.scales.data(), group);
  return w.group == Scale::mx_32 ? double{decode(kE8m0, static_cast<std::uint8_t>(stored))}
                                 : stored;
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
  if (const auto problem = Problem::of(w.problem(1, bf16)); !problem)
    return tl::unexpected(problem.error());
  const std::int64_t scales = division_of(w.n, w.k, w.group).count();
  w.codes.resize(static_cast<std::size_t>(bytes_of(w.type, count)));
  w.scales.resize(static_cast<std::size_t>(bytes_of(type_of_scales(w), scales)));
  if (w.zero != Zero::none)
    w.zeros.resize(static_cast<std::size_t>(bytes_of(zero_type(w), scales)));
  return w;
}

/// What a group's codes mean.
struct Meaning {
  double scale = 1, zero = 0;
};

Meaning meaning_of(const Weights& w, double smallest, double largest) {
  const auto [type, kind, first, last] = *code_format(w.type);
  if (w.zero == Zero::integer || largest == smallest) {
    smallest = std::min(smallest, 0.0);
    largest = std::max(largest, 0.0);
  }
  Meaning m;
  if (w.group == Scale::mx_32) {
    m.scale = decode(kE8m0, mx_scale(small_format_of(w.type), std::max(-smallest, largest)));
    return m;
  }
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

/// The code of a number that is already less the zero point and divided by the scale.
void store_code_of(const Weights& w, std::byte* codes, std::int64_t at, double number) {
  const auto [type, kind, first, last] = *code_format(w.type);
  const double inside = std::clamp(number, first, last);
  if (!is_floating(type)) return store_element(type, codes, at, std::nearbyint(inside));
  // Floats are rounded once: store_element() would round to fp32 first.
  const SmallFormat& f = small_format_of(type);
  store_code(f, codes, at, encode(f, inside, Overflow::saturate));
}

/// Scale, zero point and codes of one group.
Status quantise_group(Weights& w, std::span<const float> values, const Division& division,
                      std::int64_t group) {
  const std::int64_t first = group / division.across * division.columns;
  const std::int64_t last = std::min(w.n, first + division.columns);
  const std::int64_t at = group % division.across * division.along;
  const std::int64_t length = std::min(division.along, w.k);
  // The part of a column that lies in the group.
  const auto part = [&](std::int64_t column) {
    return values.subspan(static_cast<std::size_t>(column * w.k + at),
                          static_cast<std::size_t>(length));
  };
  double smallest = 0, largest = 0;
  for (std::int64_t j = first; j < last && length > 0; ++j) {
    const auto of = part(j);
    for (std::size_t i = 0; i < of.size(); ++i)
      if (!std::isfinite(of[i]))
        return bad(fmt::format("values: {} in column {} at {} cannot be scaled", of[i], j,
                               at + static_cast<std::int64_t>(i)));
    const auto [low, high] = std::ranges::minmax_element(of);
    smallest = j == first ? *low : std::min<double>(smallest, *low);
    largest = j == first ? *high : std::max<double>(largest, *high);
  }
  const Meaning m = length == 0 ? Meaning{} : meaning_of(w, smallest, largest);
  if (!std::isfinite(m.scale) || !std::isfinite(m.zero))
    return bad(fmt::format("values: column {} at {} needs a scale or zero point beyond {}", first,
                           at, name(w.scale_type)));
  if (w.group == Scale::mx_32)
    w.scales[static_cast<std::size_t>(group)] =
        std::byte{encode(kE8m0, m.scale, Overflow::saturate)};
  else
    store_element(w.scale_type, w.scales.data(), group, m.scale);
  if (w.zero != Zero::none) store_element(zero_type(w), w.zeros.data(), group, m.zero);
  for (std::int64_t j = first; j < last; ++j)
    for (std::int64_t i = 0; i < length; ++i)
      store_code_of(w, w.codes.data(), j * w.k + at + i,
                    part(j)[static_cast<std::size_t>(i)] / m.scale + m.zero);
  return {};
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
  const CodeFormat* const format = code_format(s.type);
  const bool floats = format != nullptr && !format->has_zero_points();
  if (s.type != u4 && (!floats || s.as != StoredAs::plain))
    return fail(
        ErrorCode::unsupported,
        fmt::format("type = {}: must be u4, or of plain codes fp8_e4m3 or fp4_e2m1",
                    static_cast<std::size_t>(s.type) < kDTypes.size() ? name(s.type) : "?"));
  if (floats && s.zeros != nullptr)
    return fail(ErrorCode::unsupported, fmt::format("zeros: {} has no zero points", name(s.type)));
  if (s.group == Scale::square_128 && s.as != StoredAs::plain)
    return fail(ErrorCode::unsupported, "group = 128x128: these words have groups of one column");
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
  const bool known = static_cast<std::size_t>(type) < kDTypes.size();
  if (!known || code_format(type) == nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("type = {}: must be s4, u4, s8, fp8_e4m3 or fp4_e2m1",
                            known ? name(type) : "?"));
  if (!code_format(type)->has_sign() && zero == Zero::none)
    return fail(ErrorCode::unsupported,
                fmt::format("zero = none: {} has no numbers below zero without", name(type)));
  auto made = empty_weights({type, group, scale_type, zero, n, k, {}, {}, {}});
  if (!made) return made;
  if (values.size() != static_cast<std::size_t>(n * k))
    return bad(fmt::format("n = {}, k = {}: {} values were given", n, k, values.size()));
  const Division division = division_of(n, k, group);
  for (std::int64_t g = 0; g < division.count(); ++g)
    if (Status ok = quantise_group(*made, values, division, g); !ok)
      return tl::unexpected(ok.error());
  return made;
}

Result<Weights> weights_from(const StoredWeights& s) {
  if (Status ok = check(s); !ok) return tl::unexpected(ok.error());
  const Division division = division_of(s.n, s.k, s.group);
  const bool floats = is_floating(s.type);
  bool beyond = false;
  for (std::int64_t r = 0; r < division.down && !floats; ++r)
    for (std::int64_t g = 0; g < division.across; ++g)
      beyond |= stored_zero(s, r, g, division.across) > 15;
  const Zero zero = floats ? Zero::none : beyond ? Zero::floating : Zero::integer;
  const DType of_scales = s.group == Scale::mx_32 ? fp32 : s.scale_type;
  auto made = empty_weights({s.type, s.group, of_scales, zero, s.n, s.k, {}, {}, {}});
  if (!made) return made;
  Weights& w = *made;
  for (std::int64_t r = 0; r < division.down; ++r)
    for (std::int64_t g = 0; g < division.across; ++g) {
      const std::int64_t to = r * division.across + g;
      store_element(
          type_of_scales(w), w.scales.data(), to,
          load_element(type_of_scales(w), s.scales, s.as == StoredAs::plain ? to : g * s.n + r));
      if (zero != Zero::none)
        store_element(zero_type(w), w.zeros.data(), to, stored_zero(s, r, g, division.across));
    }
  if (floats) {
    if (!w.codes.empty()) std::memcpy(w.codes.data(), s.codes, w.codes.size());
    return made;
  }
  for (std::int64_t j = 0; j < s.n; ++j)
    for (std::int64_t p = 0; p < s.k; ++p) {
      const int code = stored_code(s, j, p);
      if (code > 15)
        return bad(fmt::format("codes: {} in column {} at {}: must be 0 to 15", code, j, p));
      store_element(s.type, w.codes.data(), j * s.k + p, code);
    }
  return made;
}

std::vector<float> dequantise(const Weights& w) {
  std::vector<float> out(static_cast<std::size_t>(w.n * w.k));
  const Division division = division_of(w.n, w.k, w.group);
  for (std::int64_t j = 0; j < w.n; ++j)
    for (std::int64_t p = 0; p < w.k; ++p) {
      const std::int64_t at = j * w.k + p, g = division.group(j, p);
      const double zero = w.zero == Zero::none ? 0 : load_element(zero_type(w), w.zeros.data(), g);
      out[static_cast<std::size_t>(at)] =
          static_cast<float>((load_element(w.type, w.codes.data(), at) - zero) * scale_at(w, g));
    }
  return out;
}

}  // namespace kiln
