#include "kiln/quantise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "generator/problem/extent.h"
#include "generator/problem/mx_scale.h"
#include "generator/problem/problem.h"
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
  if (static_cast<std::size_t>(type) >= kDTypes.size() || bits_of(type) > 8 || type == s4 ||
      type == u4)
    return bad(fmt::format("type = {}: must be s8, u8 or a float of at most eight bits",
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
  if (!is_floating(type) && blocks_along_k(scale))
    return fail(ErrorCode::unsupported,
                fmt::format("scale = {}: {} has scales of lines or of the tensor", name(scale),
                            name(type)));
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

/// The ends of a type of integers of eight bits.
struct Ends {
  double first, last;
};
constexpr Ends ends_of(DType type) { return type == u8 ? Ends{0, 255} : Ends{-128, 127}; }

/// With memory for codes and scales.
Quantised empty(std::int64_t lines, std::int64_t k, DType type, Scale scale, std::int64_t blocks) {
  Quantised q{.type = type, .scale = scale, .lines = lines, .k = k};
  q.codes.resize(static_cast<std::size_t>(bytes_of(type, lines * k)));
  q.scales.resize(static_cast<std::size_t>(blocks * scale_size(scale)));
  return q;
}

/// Codes of integers, whose scales and zero points are known.
void store_integers(Quantised& q, const Blocks& blocks, std::int64_t block,
                    std::span<const float> values) {
  const auto ends = ends_of(q.type);
  const double scale = stored_scale(q, block);
  const double zero = q.zeros.empty() ? 0 : q.zeros[static_cast<std::size_t>(block)];
  for_each_of(blocks, block, q.lines, q.k, [&](std::int64_t i, std::int64_t p) {
    const std::int64_t at = i * q.k + p;
    const double units = std::nearbyint(values[static_cast<std::size_t>(at)] / scale);
    store_element(q.type, q.codes.data(), at, std::clamp(units + zero, ends.first, ends.last));
  });
}

/// The least and the greatest of a block's numbers, zero among them.
std::pair<float, float> range_of(const Blocks& blocks, std::int64_t block, std::int64_t lines,
                                 std::int64_t k, std::span<const float> values) {
  float least = 0, greatest = 0;
  for_each_of(blocks, block, lines, k, [&](std::int64_t i, std::int64_t p) {
    const float x = values[static_cast<std::size_t>(i * k + p)];
    least = std::min(least, x), greatest = std::max(greatest, x);
  });
  return {least, greatest};
}

Result<Quantised> quantise_integers(std::span<const float> values, std::int64_t lines,
                                    std::int64_t k, DType type, Scale scale) {
  if (const auto odd = std::ranges::find_if(values, [](float x) { return x < 0; });
      type == u8 && odd != values.end()) {
    const auto at = static_cast<std::int64_t>(odd - values.begin());
    return fail(ErrorCode::bad_input,
                fmt::format("values: {} in line {} at {}: u8 has no negative codes without zero "
                            "points",
                            *odd, at / k, at % k));
  }
  const Blocks blocks = blocks_of(lines, k, scale);
  const std::int64_t count = blocks.rows * blocks.columns;
  Quantised q = empty(lines, k, type, scale, count);
  for (std::int64_t block = 0; block < count; ++block) {
    const auto [least, greatest] = range_of(blocks, block, lines, k, values);
    const float step = std::max(-least, greatest) / static_cast<float>(ends_of(type).last);
    if (scale != Scale::none)
      store_element(DType::fp32, q.scales.data(), block, step > 0 ? step : 1.0F);
    store_integers(q, blocks, block, values);
  }
  return q;
}

}  // namespace

Result<Quantised> quantise(std::span<const float> values, std::int64_t lines, std::int64_t k,
                           DType type, Scale scale) {
  if (Status ok = check(values, lines, k, type, scale); !ok) return tl::unexpected(ok.error());
  if (!is_floating(type)) return quantise_integers(values, lines, k, type, scale);
  const Blocks blocks = blocks_of(lines, k, scale);
  const std::int64_t count = blocks.rows * blocks.columns;
  Quantised q = empty(lines, k, type, scale, count);
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

Result<Quantised> quantise_asymmetric(std::span<const float> values, std::int64_t lines,
                                      std::int64_t k, DType type, Scale scale) {
  if (Status ok = check(values, lines, k, type, scale); !ok) return tl::unexpected(ok.error());
  if (is_floating(type))
    return fail(ErrorCode::unsupported,
                fmt::format("type = {}: must be s8 or u8, which have zero points", name(type)));
  if (scale == Scale::none)
    return fail(ErrorCode::unsupported, "scale = none: zero points lie as scales do");
  const Blocks blocks = blocks_of(lines, k, scale);
  Quantised q = empty(lines, k, type, scale, blocks.rows);
  q.zeros.resize(static_cast<std::size_t>(blocks.rows));
  const auto [first, last] = ends_of(type);
  for (std::int64_t block = 0; block < blocks.rows; ++block) {
    const auto [least, greatest] = range_of(blocks, block, lines, k, values);
    const auto step = static_cast<float>((double{greatest} - least) / (last - first));
    store_element(DType::fp32, q.scales.data(), block, step > 0 ? step : 1.0F);
    const double zero = first - std::nearbyint(least / stored_scale(q, block));
    q.zeros[static_cast<std::size_t>(block)] =
        static_cast<std::int32_t>(std::clamp(zero, first, last));
    store_integers(q, blocks, block, values);
  }
  return q;
}

std::vector<float> dequantise(const Quantised& q) {
  std::vector<float> out(static_cast<std::size_t>(q.lines * q.k));
  const Blocks blocks = blocks_of(q.lines, q.k, q.scale);
  for (std::int64_t block = 0; block < blocks.rows * blocks.columns; ++block) {
    const double scale = stored_scale(q, block);
    const double zero = q.zeros.empty() ? 0 : q.zeros[static_cast<std::size_t>(block)];
    for_each_of(blocks, block, q.lines, q.k, [&](std::int64_t i, std::int64_t p) {
      const std::int64_t at = i * q.k + p;
      out[static_cast<std::size_t>(at)] =
          static_cast<float>((load_element(q.type, q.codes.data(), at) - zero) * scale);
    });
  }
  return out;
}

Result<std::vector<std::int32_t>> column_sums(const Gemm& gemm, const void* b) {
  if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
  const auto refuse = [](std::string text) {
    return fail(ErrorCode::unsupported, std::move(text));
  };
  if (gemm.accumulator != s32)
    return refuse(fmt::format("a.dtype = {}, b.dtype = {}: both must be integers of eight bits",
                              name(gemm.a.dtype), name(gemm.b.dtype)));
  if (gemm.grouping() == Grouping::k) return refuse("grouping = k: has no zero points");
  Gemm plain = gemm;
  plain.b_packed = false;  // B as it is stored
  if (b == nullptr && span(plain, Operand::b) > 0)
    return fail(ErrorCode::bad_input, "b = null: its columns are summed");
  const bool along_k = (gemm.b.order == Order::row_major) == gemm.b.transposed;
  const auto [length, lines] = extent(plain, Operand::b);
  const std::int64_t columns = gemm.columns_of_b(), ld = leading_dimension(plain, Operand::b);
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(gemm.batch * columns));
  for (std::int64_t batch = 0; batch < gemm.batch; ++batch)
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t from = batch * batch_stride(plain, Operand::b) + line * ld;
      std::uint32_t* const own = sums.data() + batch * columns + (along_k ? line : 0);
      for (std::int64_t i = 0; i < length; ++i) {
        const auto code = static_cast<const std::uint8_t*>(b)[from + i];
        own[along_k ? 0 : i] += gemm.b.dtype == u8
                                    ? std::uint32_t{code}
                                    : static_cast<std::uint32_t>(static_cast<std::int8_t>(code));
      }
    }
  return std::vector<std::int32_t>(sums.begin(), sums.end());
}

}  // namespace kiln
