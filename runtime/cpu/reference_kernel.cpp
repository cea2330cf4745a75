#include "runtime/cpu/reference_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <vector>

#include "generator/problem/amax.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/quantised_d.h"
#include "generator/problem/whole_factors.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/reference_expression.h"
#include "runtime/cpu/sum_scales.h"

namespace kiln {
namespace {

/// An element where it lies: at any address, whatever its type.
template <typename T>
struct [[gnu::packed]] Stored {
  T value;
};

struct HalfBits {
  std::uint16_t bits;
};
struct BfloatBits {
  std::uint16_t bits;
};

template <DType Type>
struct Fp8Bits {
  std::uint8_t bits;
};

template <typename Acc, typename T>
Acc widened(T value) {
  return static_cast<Acc>(value);
}
template <typename Acc>
Acc widened(HalfBits value) {
  return fp16_to_float(value.bits);
}
template <typename Acc>
Acc widened(BfloatBits value) {
  return bf16_to_float(value.bits);
}

template <typename Acc, DType Type>
Acc widened(Fp8Bits<Type> value) {
  return static_cast<Acc>(fp8_to_float(small_format_of(Type), value.bits));
}

/// Integer sums wrap as the vector instructions do, without the undefined overflow.
template <typename Acc>
Acc multiply_add(Acc a, Acc b, Acc sum) {
  if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(static_cast<std::uint32_t>(sum) + static_cast<std::uint32_t>(a * b));
  else
    return sum + a * b;
}

double activated(Activation f, double x) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0.0 ? 0.0 : x;  // NaN stays NaN
    case Activation::gelu_tanh: {
      const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1.0 + std::exp(-2.0 * u));
    }
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
  }
  return x;
}

double through_gate(Gate f, double x) {
  switch (f) {
    case Gate::relu:
      return activated(Activation::relu, x);
    case Gate::gelu_tanh:
      return activated(Activation::gelu_tanh, x);
    case Gate::gelu_erf:
      return activated(Activation::gelu_erf, x);
    case Gate::silu:
      return activated(Activation::silu, x);
    case Gate::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Gate::expression:
      break;  // of both products: expressed()
  }
  return x;
}

constexpr std::int64_t kTile = 256;  // columns whose sums are kept at once: 2 KB, in L1

/// Where the elements of B lie: of one batch, with the pitch in use.
struct Right {
  const void* first;
  std::int64_t ld;
  bool k_major;
  FactorColumns columns;
};

/// sum[j] = sum over p of a[p] * B(p, columns(column + j)).
template <typename B, typename Acc>
void sum_tile(const std::vector<Acc>& a, const Right& right, std::int64_t column,
              std::int64_t count, Acc* sum) {
  const auto* b = static_cast<const Stored<B>*>(right.first);
  const auto k = static_cast<std::int64_t>(a.size());
  std::fill_n(sum, count, Acc{});
  if (right.k_major) {
    for (std::int64_t j = 0; j < count; ++j) {
      const auto* row = b + right.columns(column + j) * right.ld;
      for (std::int64_t p = 0; p < k; ++p)
        sum[j] = multiply_add(a[p], widened<Acc>(row[p].value), sum[j]);
    }
    return;
  }
  for (std::int64_t p = 0; p < k; ++p) {
    const auto* row = b + p * right.ld + right.columns(column);
    const std::int64_t step = right.columns.step;
    for (std::int64_t j = 0; j < count; ++j)
      sum[j] = multiply_add(a[p], widened<Acc>(row[j * step].value), sum[j]);
  }
}

/// The same of a packed panel, all columns at once.
template <typename T, typename Acc>
void sum_panel(const std::vector<Acc>& a, const PackedLayout& layout, const std::byte* panel,
               Acc* sum) {
  const auto* element = reinterpret_cast<const Stored<T>*>(panel);
  const std::size_t k = a.size(), group = static_cast<std::size_t>(layout.group);
  std::fill_n(sum, layout.lanes, Acc{});
  for (std::size_t first = 0; first < k; first += group)
    for (int column = 0; column < layout.lanes; ++column)
      for (std::size_t p = first; p < first + group; ++p, ++element)
        if (p < k) sum[column] = multiply_add(a[p], widened<Acc>(element->value), sum[column]);
}

template <typename B, typename Acc>
void sum_packed(const std::vector<Acc>& a, const PackedLayout& layout, const std::byte* panel,
                Acc* sum) {
  switch (layout.as) {
    case PackedAs::itself:
      return sum_panel<B>(a, layout, panel, sum);
    case PackedAs::f32:
      return sum_panel<float>(a, layout, panel, sum);
    case PackedAs::s16:
      return sum_panel<std::int16_t>(a, layout, panel, sum);
    case PackedAs::s32:
      return sum_panel<std::int32_t>(a, layout, panel, sum);
  }
}

/// Where a run of sums belongs.
struct Place {
  std::int64_t batch, row, column, count;
};

/// A row of D before it is rounded, where D has scales: empty else.
using WideRow = std::vector<float>;

WideRow wide_row(const Problem& problem, const KilnArgs& args) {
  return WideRow(problem.gemm.d.q.scale == Scale::none ? 0 : static_cast<std::size_t>(args.n));
}

/// The row's codes and, where they follow from it, its scales; nothing where D has none.
void quantise(const Problem& problem, const KilnArgs& args, std::int64_t batch, std::int64_t row,
              const WideRow& wide) {
  const Gemm& gemm = problem.gemm;
  const DType type = gemm.d.dtype;
  const std::int64_t n = std::ssize(wide), step = columns_of_a_scale(gemm);
  const std::int64_t lines = gemm.d.q.scale == Scale::tensor ? 1 : args.m;
  const std::int64_t of_row = extent(gemm, Operand::scale_d).length;
  for (std::int64_t first = 0; first < n; first += step) {
    const std::int64_t end = std::min(n, first + step);
    const std::int64_t line = batch * lines + (gemm.d.q.scale == Scale::tensor ? 0 : row);
    const std::int64_t place = line * of_row + first / step;
    if (is_output(gemm, Operand::scale_d)) {
      float largest = 0;
      for (std::int64_t j = first; j < end; ++j) largest = larger_magnitude(largest, wide[j]);
      store_element(fp32, args.scale_d, place, scale_for(type, largest));
    }
    const auto scale = static_cast<float>(load_element(fp32, args.scale_d, place));
    for (std::int64_t j = first; j < end; ++j)
      store_element(type, args.d, batch * args.stride_d + row * args.ldd + j,
                    in_units(wide[j], scale));
  }
}

/// Other threads raise the largest magnitude too.
void raise_amax(const KilnArgs& args, std::uint32_t bits) {
  const std::atomic_ref<std::uint32_t> amax(*static_cast<std::uint32_t*>(args.amax_d));
  std::uint32_t seen = amax.load(std::memory_order_relaxed);
  while (bits > seen && !amax.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
  }
}

/// An element of 32 bits, which may lie at any address.
std::uint32_t bits_at(const void* matrix, std::int64_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(matrix) + index * 4, sizeof bits);
  return bits;
}

/// alpha·sum + beta·C, clipped at zero or not, + residual in 32 bits that wrap.
void finish_whole(const Problem& problem, const KilnArgs& args, const Place& at,
                  const WholeFactors& whole, const std::int32_t* sum) {
  const Epilogue& epilogue = problem.gemm.epilogue;
  for (std::int64_t i = 0; i < at.count; ++i) {
    const std::int64_t j = at.column + i;
    std::uint32_t value = whole.alpha * static_cast<std::uint32_t>(sum[i]);
    if (args.beta != 0)
      value += whole.beta * bits_at(args.c, at.batch * args.stride_c + at.row * args.ldc + j);
    const bool clipped =
        epilogue.activation == Activation::relu && static_cast<std::int32_t>(value) < 0;
    if (clipped) value = 0;
    const std::int64_t to = at.batch * args.stride_d + at.row * args.ldd + j;
    if (epilogue.residual) value += bits_at(args.residual, to);
    std::memcpy(static_cast<std::byte*>(args.d) + to * 4, &value, sizeof value);
  }
}

/// alpha·sum + beta·C + bias, activation, + residual, rounded into D: elements of one row. `other`:
/// sums of the product that a gate lets through, else null. With scales of D into `wide` instead.
template <typename Acc>
void finish(const Problem& problem, const KilnArgs& args, const Place& at, const Acc* sum,
            const Acc* other, WideRow& wide) {
  using Real = std::conditional_t<std::is_same_v<Acc, double>, double, float>;
  const Gemm& gemm = problem.gemm;
  const Epilogue& epilogue = gemm.epilogue;
  const DType type = gemm.d.dtype;
  const double alpha = static_cast<Real>(args.alpha), beta = static_cast<Real>(args.beta);
  const DType bias_type = dtype_of(gemm, Operand::bias);
  const FactorColumns first = columns_of(gemm, Factor::first),
                      second = columns_of(gemm, Factor::second);
  const auto bias = [&](std::int64_t column) {
    if (epilogue.bias == Bias::none) return 0.0;
    return load_element(bias_type, args.bias, epilogue.bias == Bias::per_row ? at.row : column);
  };
  if constexpr (std::is_integral_v<Acc>)
    if (const auto whole = whole_factors(gemm, args.alpha, args.beta))
      return finish_whole(problem, args, at, *whole, sum);
  const SumScales scales(gemm, args, at.batch, at.row);
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < at.count; ++i) {
    const std::int64_t j = at.column + i;
    double value = alpha * scales.value(sum[i], first(j));
    if (beta != 0.0)
      value += beta * load_element(type, args.c, at.batch * args.stride_c + at.row * args.ldc + j);
    value += bias(first(j));
    const double passed =
        other != nullptr ? alpha * scales.value(other[i], second(j)) + bias(second(j)) : 0;
    if (!epilogue.expression.empty())
      value = expressed(gemm, args, value, passed, at.batch, at.row, j);
    else if (other != nullptr)
      value = through_gate(epilogue.gate->function, value) * passed;
    value = activated(epilogue.activation, value);
    const std::int64_t to = at.batch * args.stride_d + at.row * args.ldd + j;
    if (epilogue.residual) value += load_element(type, args.residual, to);
    largest = std::max(largest, magnitude_bits(value));
    if (wide.empty())
      store_element(type, args.d, to, value);
    else
      wide[j] = static_cast<float>(value);
  }
  if (gemm.amax_d) raise_amax(args, largest);
}

template <typename A, typename B, typename Acc>
void run_typed(const Problem& problem, const KilnArgs& args, const PackedLayout* packed, int thread,
               int threads) {
  std::vector<Acc> a(static_cast<std::size_t>(args.k));
  Acc sum[kTile], other[kTile];
  WideRow wide = wide_row(problem, args);
  const bool two = gated(problem.gemm);
  const std::int64_t rows = args.batch * args.m;
  for (std::int64_t r = rows * thread / threads; r < rows * (thread + 1) / threads; ++r) {
    const std::int64_t batch = r / args.m, row = r % args.m;
    const auto* from = static_cast<const Stored<A>*>(args.a) + batch * args.stride_a;
    for (std::int64_t p = 0; p < args.k; ++p)
      a[p] = widened<Acc>(from[problem.a_k_major ? row * args.lda + p : p * args.lda + row].value);
    if (packed != nullptr) {
      const auto* panel =
          static_cast<const std::byte*>(args.b) + batch * packed->bytes(args.n, args.k);
      for (std::int64_t j = 0; j < args.n;
           j += packed->lanes, panel += packed->panel_bytes(args.k)) {
        sum_packed<B>(a, *packed, panel, sum);
        const std::int64_t count = std::min<std::int64_t>(packed->lanes, args.n - j);
        finish<Acc>(problem, args, {batch, row, j, count}, sum, nullptr, wide);
      }
      continue;
    }
    const auto right = [&](Factor which) {
      return Right{static_cast<const Stored<B>*>(args.b) + batch * args.stride_b, args.ldb,
                   problem.b_k_major, columns_of(problem.gemm, which)};
    };
    for (std::int64_t j = 0; j < args.n; j += kTile) {
      const std::int64_t count = std::min<std::int64_t>(kTile, args.n - j);
      sum_tile<B, Acc>(a, right(Factor::first), j, count, sum);
      if (two) sum_tile<B, Acc>(a, right(Factor::second), j, count, other);
      finish<Acc>(problem, args, {batch, row, j, count}, sum, two ? other : nullptr, wide);
    }
    quantise(problem, args, batch, row, wide);
  }
}

/// Lines of an operand with scales, which may be of fewer than eight bits, as floats. A line is a
/// row of A or a column of B.
class ScaledLines {
 public:
  ScaledLines(const Problem& problem, const KilnArgs& args, Operand which, const PartOfK& part)
      : matrix_(matrix(problem.gemm, which)),
        scale_(scale_of(problem.gemm, which)),
        strides_(strides_of_scales(problem.gemm, which, part)),
        block_(scale_block(scale_)),
        first_k_(part.first),
        scale_type_(problem.gemm.b.q.type),
        zero_type_(dtype_of(problem.gemm, Operand::zero_b)) {
    const bool a = which == Operand::a;
    data_ = a ? args.a : args.b;
    scales_ = a ? args.scale_a : args.scale_b;
    zeros_ = a || problem.gemm.b.q.zero == Zero::none ? nullptr : args.zero_b;
    ld_ = a ? args.lda : args.ldb;
    stride_ = a ? args.stride_a : args.stride_b;
    k_major_ = a ? problem.a_k_major : problem.b_k_major;
  }

  void read(std::int64_t batch, std::int64_t line, std::int64_t k, float* out) const {
    const std::int64_t first = batch * stride_ + line * (k_major_ ? ld_ : 1);
    for (std::int64_t p = 0; p < k; ++p)
      out[p] =
          static_cast<float>(load_element(matrix_.dtype, data_, first + p * (k_major_ ? 1 : ld_)));
    if (scale_ == Scale::none) return;
    const std::int64_t row = batch * strides_.batch + line / block_.lines * strides_.line;
    const auto of = [&](std::int64_t p) {
      return row + (block_.along == 0 ? 0 : (first_k_ + p) / block_.along * strides_.block);
    };
    if (zeros_ != nullptr)
      for (std::int64_t p = 0; p < k; ++p)
        out[p] -= static_cast<float>(load_element(zero_type_, zeros_, of(p)));
    for (std::int64_t p = 0; p < k; ++p) out[p] *= scale_at(of(p));
  }

 private:
  float scale_at(std::int64_t index) const {
    if (scale_ == Scale::mx_32)
      return static_cast<float>(decode(kE8m0, static_cast<const std::uint8_t*>(scales_)[index]));
    return static_cast<float>(load_element(scale_type_, scales_, index));
  }

  const Matrix& matrix_;
  Scale scale_;
  ScaleStrides strides_;
  ScaleBlock block_;
  std::int64_t first_k_;
  DType scale_type_, zero_type_;
  const void *data_, *scales_, *zeros_;
  std::int64_t ld_, stride_;
  bool k_major_;
};

/// Of operands whose elements are multiplied with their scales: integers are summed before. Some
/// columns of B at a time, so that each element is decoded once a thread; once a row where D
/// has scales, which need whole rows.
void run_scaled(const Problem& problem, const KilnArgs& args, const PartOfK& part, int thread,
                int threads) {
  constexpr std::int64_t kColumns = 16;
  const Gemm& gemm = problem.gemm;
  const std::int64_t halves = gated(gemm) ? 2 : 1;
  const ScaledLines left(problem, args, Operand::a, part), right(problem, args, Operand::b, part);
  const auto k = static_cast<std::size_t>(args.k);
  std::vector<float> a(k), b(2 * kColumns * k);
  WideRow wide = wide_row(problem, args);
  const std::int64_t rows = args.batch * args.m;
  const std::int64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
  for (std::int64_t r = begin; r < end;) {
    const std::int64_t batch = r / args.m;
    const std::int64_t last =
        wide.empty() ? std::min<std::int64_t>(end, (batch + 1) * args.m) : r + 1;
    for (std::int64_t j = 0; j < args.n; j += kColumns) {
      const std::int64_t count = std::min<std::int64_t>(kColumns, args.n - j);
      // Columns of one product behind those of the other.
      for (std::int64_t c = 0; c < halves * count; ++c)
        right.read(batch, columns_of(gemm, kFactors[c / count])(j + c % count), args.k,
                   b.data() + c * args.k);
      for (std::int64_t row = r; row < last; ++row) {
        left.read(batch, row - batch * args.m, args.k, a.data());
        float sum[2 * kColumns] = {};
        for (std::int64_t c = 0; c < halves * count; ++c)
          for (std::size_t p = 0; p < k; ++p)
            sum[c] = multiply_add(a[p], b[static_cast<std::size_t>(c) * k + p], sum[c]);
        finish<float>(problem, args, {batch, row - batch * args.m, j, count}, sum,
                      halves == 2 ? sum + count : nullptr, wide);
      }
    }
    quantise(problem, args, batch, r - batch * args.m, wide);
    r = last;
  }
}

/// fp8 operands may differ in format.
template <DType A>
void run_fp8(const Problem& problem, const KilnArgs& args, const PackedLayout* packed, int thread,
             int threads) {
  const auto with = [&]<DType B>() {
    run_typed<Fp8Bits<A>, Fp8Bits<B>, float>(problem, args, packed, thread, threads);
  };
  const DType b = problem.gemm.b.dtype;
  if (b == DType::fp8_e4m3) return with.template operator()<DType::fp8_e4m3>();
  if (b == DType::fp8_e5m2) return with.template operator()<DType::fp8_e5m2>();
  if (b == DType::fp8_e4m3fnuz) return with.template operator()<DType::fp8_e4m3fnuz>();
  with.template operator()<DType::fp8_e5m2fnuz>();
}

}  // namespace

void run_ungrouped_reference(const Problem& problem, const KilnArgs& args,
                             const PackedLayout* packed, int thread, int threads,
                             const PartOfK& part) {
  const auto typed = [&]<typename A, typename B, typename Acc>() {
    run_typed<A, B, Acc>(problem, args, packed, thread, threads);
  };
  const auto fp8 = [&]<DType A>() { run_fp8<A>(problem, args, packed, thread, threads); };
  using s8_t = std::int8_t;
  using u8_t = std::uint8_t;
  using s32_t = std::int32_t;
  const DType a = problem.gemm.a.dtype, b = problem.gemm.b.dtype;
  const bool scaled =
      problem.gemm.a.q.scale != Scale::none || problem.gemm.b.q.scale != Scale::none;
  if (scaled && problem.gemm.accumulator != s32)
    return run_scaled(problem, args, part, thread, threads);
  if (a == DType::fp8_e4m3) return fp8.template operator()<DType::fp8_e4m3>();
  if (a == DType::fp8_e5m2) return fp8.template operator()<DType::fp8_e5m2>();
  if (a == DType::fp8_e4m3fnuz) return fp8.template operator()<DType::fp8_e4m3fnuz>();
  if (a == DType::fp8_e5m2fnuz) return fp8.template operator()<DType::fp8_e5m2fnuz>();
  if (a == fp32 || a == DType::tf32) return typed.template operator()<float, float, float>();
  if (a == fp64) return typed.template operator()<double, double, double>();
  if (a == fp16) return typed.template operator()<HalfBits, HalfBits, float>();
  if (a == bf16) return typed.template operator()<BfloatBits, BfloatBits, float>();
  if (a == u8) return typed.template operator()<u8_t, s8_t, s32_t>();
  if (b == u8) return typed.template operator()<s8_t, u8_t, s32_t>();
  typed.template operator()<s8_t, s8_t, s32_t>();
}

}  // namespace kiln
