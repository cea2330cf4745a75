#include "tuner/verify/view.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "kiln/numeric.hpp"

namespace kiln {
namespace {

/// What a short float is stored as, so that each format is a type of its own.
struct Half {
  std::uint16_t bits;
  double value() const { return fp16_to_float(bits); }
};
struct Brain {
  std::uint16_t bits;
  double value() const { return bf16_to_float(bits); }
};

struct E4m3 {
  std::uint8_t bits;
  double value() const { return fp8_to_float(kE4m3, bits); }
};
struct E5m2 {
  std::uint8_t bits;
  double value() const { return fp8_to_float(kE5m2, bits); }
};
struct E4m3Fnuz {
  std::uint8_t bits;
  double value() const { return fp8_to_float(kE4m3fnuz, bits); }
};
struct E5m2Fnuz {
  std::uint8_t bits;
  double value() const { return fp8_to_float(kE5m2fnuz, bits); }
};
struct Tf32 {
  float stored;
  double value() const { return stored; }
};

template <typename T>
double as_double(T x) {
  if constexpr (std::is_class_v<T>)
    return x.value();
  else
    return static_cast<double>(x);
}

/// Calls `f` with a typed null pointer that says how `dtype` is stored.
template <typename F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp32:
      return f(static_cast<float*>(nullptr));
    case DType::fp64:
      return f(static_cast<double*>(nullptr));
    case DType::fp16:
      return f(static_cast<Half*>(nullptr));
    case DType::bf16:
      return f(static_cast<Brain*>(nullptr));
    case DType::s8:
      return f(static_cast<std::int8_t*>(nullptr));
    case DType::u8:
      return f(static_cast<std::uint8_t*>(nullptr));
    case DType::fp8_e4m3:
      return f(static_cast<E4m3*>(nullptr));
    case DType::fp8_e5m2:
      return f(static_cast<E5m2*>(nullptr));
    case DType::fp8_e4m3fnuz:
      return f(static_cast<E4m3Fnuz*>(nullptr));
    case DType::fp8_e5m2fnuz:
      return f(static_cast<E5m2Fnuz*>(nullptr));
    case DType::tf32:
      return f(static_cast<Tf32*>(nullptr));
    case DType::s32:
    case DType::fp6_e2m3:  // codes of fewer bits have no address: see load_codes
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
    case DType::s4:
    case DType::u4:
      break;
  }
  return f(static_cast<std::int32_t*>(nullptr));
}

template <typename T>
T encode(double value) {
  if constexpr (std::is_same_v<T, Half>)
    return Half{float_to_fp16(static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, Brain>)
    return Brain{float_to_bf16(static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, E4m3>)
    return E4m3{float_to_fp8(kE4m3, static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, E5m2>)
    return E5m2{float_to_fp8(kE5m2, static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, E4m3Fnuz>)
    return E4m3Fnuz{float_to_fp8(kE4m3fnuz, static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, E5m2Fnuz>)
    return E5m2Fnuz{float_to_fp8(kE5m2fnuz, static_cast<float>(value))};
  else if constexpr (std::is_same_v<T, Tf32>)
    return Tf32{round_to_tf32(static_cast<float>(value))};
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value);
  else
    return saturate<T>(value);
}

/// Where an element lies. On a CPU that may be any address, whatever its type.
template <typename T>
std::byte* bytes_at(const MatrixView& view, std::int64_t row, std::int64_t column) {
  return static_cast<std::byte*>(const_cast<void*>(view.data)) +
         view.offset(row, column) * std::int64_t{sizeof(T)};
}

/// Values of the two codes of a byte, the low one first.
using PairOfByte = std::array<double, 2>;
std::array<PairOfByte, 256> pairs_of(DType type) {
  std::array<PairOfByte, 256> pairs;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto byte = static_cast<unsigned char>(i);
    for (std::size_t half = 0; half < 2; ++half)
      pairs[i][half] = load_element(type, &byte, static_cast<std::int64_t>(half));
  }
  return pairs;
}

/// Codes of four bits that lie side by side, `apart` apart in `out`.
void load_nibbles(DType type, const void* data, std::int64_t first, std::int64_t count, double* out,
                  std::int64_t apart) {
  static const std::array<PairOfByte, 256> kSigned = pairs_of(DType::s4),
                                           kUnsigned = pairs_of(DType::u4),
                                           kFloats = pairs_of(DType::fp4_e2m1);
  const auto& pairs = type == DType::s4 ? kSigned : type == DType::u4 ? kUnsigned : kFloats;
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::int64_t i = 0;
  if (first % 2 != 0 && count > 0) out[i++] = pairs[bytes[first / 2]][1];
  for (const unsigned char* at = bytes + (first + i) / 2; i < count; ++at) {
    out[i++ * apart] = pairs[*at][0];
    if (i < count) out[i++ * apart] = pairs[*at][1];
  }
}

/// `count` codes of four bits side by side from `first` on, rounded as store_nibble() does.
void store_nibbles(DType type, void* data, std::int64_t first, std::int64_t count,
                   const double* values) {
  const double low = type == DType::s4 ? -8 : 0;
  const auto code = [low](double x) {
    constexpr double kWhole = 0x1.8p52;  // added and taken away, leaves the nearest integer
    x = !std::isnan(x) ? std::clamp(x, low, low + 15) : 0;
    return static_cast<unsigned>(static_cast<int>((x + kWhole) - kWhole)) & 15u;
  };
  auto* const bytes = static_cast<unsigned char*>(data);
  std::int64_t i = 0;
  if (first % 2 != 0 && count > 0) store_nibble(type, data, first, values[i++]);
  for (unsigned char* at = bytes + (first + i) / 2; i + 1 < count; i += 2)
    *at++ = static_cast<unsigned char>(code(values[i]) | code(values[i + 1]) << 4);
  if (i < count) store_nibble(type, data, first + i, values[i]);
}

/// Loads codes that no pointer reaches.
void load_codes(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns, double* out) {
  if (bits_of(view.dtype) == 4) {
    if (view.column_stride == 1)
      for (std::int64_t r = 0; r < rows; ++r)
        load_nibbles(view.dtype, view.data, view.offset(row + r, column), columns,
                     out + r * columns, 1);
    else if (view.row_stride == 1)
      for (std::int64_t c = 0; c < columns; ++c)
        load_nibbles(view.dtype, view.data, view.offset(row, column + c), rows, out + c, columns);
    else
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          out[r * columns + c] =
              load_element(view.dtype, view.data, view.offset(row + r, column + c));
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out[r * columns + c] = load_element(view.dtype, view.data, view.offset(row + r, column + c));
}

/// Loads elements that neighbours share.
void load_shared(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                 std::int64_t columns, double* out) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out[r * columns + c] = load_element(view.dtype, view.data, view.offset(row + r, column + c));
}

void load_values(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                 std::int64_t columns, double* out) {
  if (view.is_shared()) return load_shared(view, row, rows, column, columns, out);
  if (bits_of(view.dtype) < 8) return load_codes(view, row, rows, column, columns, out);
  with_type(view.dtype, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    const auto first = [from = bytes_at<T>(view, row, column)](std::int64_t i) {
      T element;
      std::memcpy(&element, from + i * std::int64_t{sizeof(T)}, sizeof element);
      return element;
    };
    if (view.column_stride == 1) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          out[r * columns + c] = as_double(first(r * view.row_stride + c));
      return;
    }
    for (std::int64_t c = 0; c < columns; ++c)  // along memory, not along `out`
      for (std::int64_t r = 0; r < rows; ++r)
        out[r * columns + c] = as_double(first(view.offset(r, c)));
  });
}

struct Block {
  std::int64_t row, rows, column, columns;
};

/// Calls `f(element, number)` for all of a block, tight in `out`. Numbers that rows share are read
/// once, and those that neighbours in a row share once a row.
template <typename F>
void for_each_with(const ScaleView& numbers, const Block& b, double* out, F f) {
  std::vector<double> line(static_cast<std::size_t>(b.columns));
  for (std::int64_t r = 0; r < b.rows; ++r) {
    if (r == 0 || (b.row + r + numbers.row_shift) % numbers.rows == 0)
      for (std::int64_t c = 0; c < b.columns;) {
        const std::int64_t left =
            numbers.columns - (b.column + c + numbers.column_shift) % numbers.columns;
        const std::int64_t run = std::min(left, b.columns - c);
        std::fill_n(line.begin() + c, run, numbers.at(b.row + r, b.column + c));
        c += run;
      }
    for (std::int64_t c = 0; c < b.columns; ++c)
      f(out[r * b.columns + c], line[static_cast<std::size_t>(c)]);
  }
}

}  // namespace

double ScaleView::at(std::int64_t r, std::int64_t c) const {
  const std::int64_t index =
      first + (r + row_shift) / rows * row_stride + (c + column_shift) / columns * column_stride;
  if (e8m0) return decode(kE8m0, static_cast<const std::uint8_t*>(data)[index]);
  return load_element(type, data, index);
}

MatrixView view_of(const Gemm& gemm, Operand which, const void* base, std::int64_t batch) {
  MatrixView view;
  view.dtype = dtype_of(gemm, which);
  if (base)  // an operand that is never read may be null
    view.data = static_cast<const std::byte*>(base) +
                offset_bytes(view.dtype, batch * batch_stride(gemm, which));
  view.rows = which == Operand::a      ? rows_of_a(gemm)
              : which == Operand::b    ? gemm.k
              : which == Operand::bias ? gemm.m
                                       : rows_of_d(gemm);
  view.columns = which == Operand::a                             ? gemm.k
                 : which == Operand::b || which == Operand::bias ? gemm.columns_of_b()
                                                                 : gemm.n;
  if (which == Operand::bias) {
    const bool per_row = gemm.epilogue.bias == Bias::per_row;
    view.row_stride = per_row ? 1 : 0;
    view.column_stride = per_row ? 0 : 1;
    return view;
  }
  if (const ExtraOperand* const extra = extra_of(gemm, which)) {
    view.per_row = extra->per_m, view.per_column = extra->per_n;
    std::int64_t step = 1;
    for (auto index = extra->index.rbegin(); index != extra->index.rend(); ++index) {
      if (*index == Index::batch) continue;
      (*index == Index::m ? view.row_stride : view.column_stride) = step;
      step = leading_dimension(gemm, which);
    }
    return view;
  }
  const Matrix& stored = matrix(gemm, which);
  const std::int64_t ld = leading_dimension(gemm, which);
  // A transposed row-major matrix has the addresses of a plain column-major one.
  const bool rows_contiguous = (stored.order == Order::row_major) != stored.transposed;
  view.row_stride = rows_contiguous ? ld : 1;
  view.column_stride = rows_contiguous ? 1 : ld;
  return view;
}

const void* extra_of_part(const Gemm& whole, Operand which, const void* base,
                          const ProductPart& part) {
  if (base == nullptr || whole.grouping() == Grouping::none) return base;
  const bool of_group = expression::has_index(*extra_of(whole, which), Index::batch);
  const MatrixView view = view_of(whole, which, base, of_group ? part.group : 0);
  const std::int64_t row = whole.grouping() == Grouping::rows ? part.segment.first : 0;
  return static_cast<const std::byte*>(view.data) + offset_bytes(view.dtype, view.offset(row, 0));
}

MatrixView columns_under(const Gemm& gemm, MatrixView of_product, Factor factor) {
  const FactorColumns columns = columns_of(gemm, factor);
  of_product.data = static_cast<const std::byte*>(of_product.data) +
                    offset_bytes(of_product.dtype, of_product.offset(0, columns.offset));
  of_product.columns = gemm.n;
  of_product.column_stride *= columns.step;
  return of_product;
}

MatrixView scaled_view_of(const Gemm& gemm, Operand which, const void* base, const void* scales,
                          const void* zeros, std::int64_t batch, const PartOfK& part) {
  MatrixView view = view_of(gemm, which, base, batch);
  const Scale kind = scale_of(gemm, which);
  if (kind == Scale::none) return view;
  const ScaleStrides strides = strides_of_scales(gemm, which, part);
  const auto [lines, along] = scale_block(kind);
  ScaleView by_line{scales,
                    kind == Scale::mx_32,
                    dtype_of(gemm, scales_of(which)),
                    batch * strides.batch,
                    lines,
                    along == 0 ? std::numeric_limits<std::int64_t>::max() : along,
                    strides.line,
                    strides.block,
                    0,
                    along == 0 ? 0 : part.first};
  view.scale = which == Operand::a ? by_line : by_line.transposed();
  if (which == Operand::a || gemm.b.q.zero == Zero::none) return view;
  by_line.data = zeros;
  by_line.type = dtype_of(gemm, Operand::zero_b);
  view.zero = by_line.transposed();
  return view;
}

void load_block(const MatrixView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns, double* out) {
  assert(row + rows <= view.rows && column + columns <= view.columns);
  load_values(view, row, rows, column, columns, out);
  if (view.zero.data != nullptr)
    for_each_with(view.zero, {row, rows, column, columns}, out,
                  [](double& x, double zero) { x -= zero; });
  if (view.scale.data != nullptr)
    for_each_with(view.scale, {row, rows, column, columns}, out,
                  [](double& x, double scale) { x *= scale; });
}

void store_row(const MatrixView& view, std::int64_t row, std::int64_t column, std::int64_t count,
               const double* values) {
  assert(row < view.rows && column + count <= view.columns && !view.is_shared());
  if (view.dtype == DType::s4 || view.dtype == DType::u4) {
    void* const data = const_cast<void*>(view.data);
    if (view.column_stride == 1)
      return store_nibbles(view.dtype, data, view.offset(row, column), count, values);
    for (std::int64_t i = 0; i < count; ++i)
      store_nibble(view.dtype, data, view.offset(row, column + i), values[i]);
    return;
  }
  if (bits_of(view.dtype) < 8) {
    for (std::int64_t i = 0; i < count; ++i)
      store_element(view.dtype, const_cast<void*>(view.data), view.offset(row, column + i),
                    values[i]);
    return;
  }
  with_type(view.dtype, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    std::byte* first = bytes_at<T>(view, row, column);
    for (std::int64_t i = 0; i < count; ++i) {
      const T element = encode<T>(values[i]);
      std::memcpy(first + i * view.column_stride * std::int64_t{sizeof(T)}, &element,
                  sizeof element);
    }
  });
}

double round_to(DType dtype, double value) {
  std::uint64_t element = 0;
  store_element(dtype, &element, 0, value);
  return load_element(dtype, &element, 0);
}

}  // namespace kiln
