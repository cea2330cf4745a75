#include "kiln/quantise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "generator/problem/extent.h"
#include "generator/problem/mx_scale.h"
#include "kiln/numeric.hpp"

namespace kiln {
namespace {

/// Blocks that share a scale; without scales the whole matrix is one.
struct Blocks {
  std::int64_t lines, along;   // elements of one
  std::int64_t rows, columns;  // how many there are
};

Blocks blocks_of(std::int64_t lines, std::int64_t k, Scale scale) {
  const ScaleBlock block = scale_block(scale);
  Blocks out{};
  out.lines = scale == Scale::none ? std::max<std::int64_t>(1, lines) : block.lines;
  out.along = block.along == 0 ? std::max<std::int64_t>(1, k) : block.along;
  out.rows = (lines + out.lines - 1) / out.lines;
  out.columns = block.along == 0 ? 1 : (k + out.along - 1) / out.along;
  return out;
}

/// Calls `f` with every element's line and place along k of one block.
template <typename F>
void for_each_of(const Blocks& b, std::int64_t block, std::int64_t lines, std::int64_t k, F f) {
  const std::int64_t line = block / b.columns * b.lines, at = block % b.columns * b.along;
  for (std::int64_t i = line; i < std::min(lines, line + b.lines); ++i)
    for (std::int64_t p = at; p < std::min(k, at + b.along); ++p) f(i, p);
}

double stored_scale(const Quantised& q, std::int64_t block) {
  switch (q.scale) {
    case Scale::none:
      return 1.0;
    case Scale::mx_32:
      return decode(kE8m0, static_cast<std::uint8_t>(q.scales[static_cast<std::size_t>(block)]));
    default:
      return load_element(DType::fp32, q.scales.data(), block);
  }
}

void choose_scale(Quantised& q, std::int64_t block, float largest) {
  const SmallFormat& f = small_format_of(q.type);
  if (q.scale == Scale::none) return;
  if (q.scale == Scale::mx_32) {
    q.scales[static_cast<std::size_t>(block)] = std::byte{mx_scale(f, largest)};
    return;
  }
  // What is too small for a scale of its own would divide by zero.
  const float scale = largest / decode(f, f.largest);
  store_element(DType::fp32, q.scales.data(), block, scale > 0 ? scale : 1.0F);
}

constexpr std::int64_t kMostEmptyLines = std::int64_t{1} << 20;

Status check(std::span<const float> values, std::int64_t lines, std::int64_t k, DType type,
             Scale scale) {
  const auto bad = [](std::string text) { return fail(ErrorCode::bad_input, std::move(text)); };
  if (static_cast<std::size_t>(type) >= kDTypes.size() || !is_floating(type) || bits_of(type) > 8)
    return bad(fmt::format("type = {}: must be a float of at most eight bits",
                           static_cast<std::size_t>(type) < kDTypes.size() ? name(type) : "?"));
  std::int64_t count = 0;
  if (lines < 0 || k < 0 || __builtin_mul_overflow(lines, k, &count) ||
      static_cast<std::size_t>(count) != values.size())
    return bad(fmt::format("lines = {}, k = {}: {} values were given", lines, k, values.size()));
  if (k % elements_of_whole_bytes(type) != 0)
    return bad(fmt::format("k = {}: must be a multiple of {}, whole bytes of {}", k,
                           elements_of_whole_bytes(type), name(type)));
  // The rules of a product in which both operands are stored so.
  if (scale > Scale::tensor)  // those of weights come after it
    return bad(fmt::format("scale = {}: no such kind of scales", static_cast<int>(scale)));
  if (scale == Scale::mx_32 && k % scale_block(scale).along != 0)
    return bad(
        fmt::format("k = {}: {} needs a multiple of {}", k, name(scale), scale_block(scale).along));
  if (scale == Scale::mx_32 && (type == fp8_e4m3fnuz || type == fp8_e5m2fnuz))
    return fail(ErrorCode::unsupported,
                fmt::format("type = {}: no format of mx32 blocks", name(type)));
  // Lines of no elements still have a scale each.
  if (k == 0 && lines > kMostEmptyLines)
    return bad(fmt::format("lines = {}: at most {} without elements", lines, kMostEmptyLines));
  const auto odd = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (odd == values.end()) return {};
  const auto at = static_cast<std::int64_t>(odd - values.begin());
  return bad(fmt::format("values: {} in line {} at {} cannot be scaled", *odd, at / k, at % k));
}

}  // namespace

Result<Quantised> quantise(std::span<const float> values, std::int64_t lines, std::int64_t k,
                           DType type, Scale scale) {
  if (Status ok = check(values, lines, k, type, scale); !ok) return tl::unexpected(ok.error());
  Quantised q{.type = type, .scale = scale, .lines = lines, .k = k};
  const Blocks blocks = blocks_of(lines, k, scale);
  const std::int64_t count = blocks.rows * blocks.columns;
  q.codes.resize(static_cast<std::size_t>(bytes_of(type, lines * k)));
  q.scales.resize(static_cast<std::size_t>(count * scale_size(scale)));
  const auto value = [&](std::int64_t i, std::int64_t p) {
    return values[static_cast<std::size_t>(i * k + p)];
  };
  for (std::int64_t block = 0; block < count; ++block) {
    float largest = 0;
    for_each_of(blocks, block, lines, k, [&](std::int64_t i, std::int64_t p) {
      largest = std::max(largest, std::fabs(value(i, p)));
    });
    choose_scale(q, block, largest);
    const double divisor = stored_scale(q, block);
    const SmallFormat& f = small_format_of(type);
    for_each_of(blocks, block, lines, k, [&](std::int64_t i, std::int64_t p) {
      store_code(f, q.codes.data(), i * k + p,
                 encode(f, value(i, p) / divisor, Overflow::saturate));
    });
  }
  return q;
}

std::vector<float> dequantise(const Quantised& q) {
  std::vector<float> out(static_cast<std::size_t>(q.lines * q.k));
  const Blocks blocks = blocks_of(q.lines, q.k, q.scale);
  for (std::int64_t block = 0; block < blocks.rows * blocks.columns; ++block) {
    const double scale = stored_scale(q, block);
    for_each_of(blocks, block, q.lines, q.k, [&](std::int64_t i, std::int64_t p) {
      const std::int64_t at = i * q.k + p;
      out[static_cast<std::size_t>(at)] =
          static_cast<float>(load_element(q.type, q.codes.data(), at) * scale);
    });
  }
  return out;
}

}  // namespace kiln
