// Kernels that compare what another kernel left in D, and in the scales that follow from it, with
// products in higher precision. Expects check.cu.
#pragma once

/// What the comparison allows, worked out on the host: see tuner/verify/reference.cpp, whose rules
/// these are.
struct Allowance {
  double per_sum, per_step, per_residual;  // shares of magnitudes
  double unit, steepest, factor;           // of a smooth activation
  double per_gate;                         // of the product of a gate and what it lets through
  int bias, activation, residual, gate;    // kiln's Bias, Activation and Gate
  int interleaved;                         // columns of a gated product alternate
};

/// The only gate that is no activation.
constexpr int kSigmoid = 5;

KILN_DEVICE double activated(int f, double x) {
  switch (f) {
    case 1:
      return x < 0 ? 0 : x;
    case 2:
      return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case 3:
      return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case 4:
      return x / (1 + exp(-x));
    case kSigmoid:
      return 1 / (1 + exp(-x));
    default:
      return x;
  }
}

KILN_DEVICE void add_term(double term, double roundoff, double& value, double& error) {
  error += roundoff * (fabs(value) + fabs(term));
  value += term;
}

/// A function that gates and activations are, with what its approximation may be off.
KILN_DEVICE void apply(int f, const Allowance& allow, double& value, double& error) {
  if (f >= 2)
    error = allow.steepest * error + allow.factor * allow.unit * (f == kSigmoid ? 1 : fabs(value));
  value = activated(f, value);
}

/// alpha times a sum, plus beta times C (which no gated problem has), plus the bias of its column.
KILN_DEVICE void affine(const KilnGpuArgs& g, const Types& t, const Allowance& allow, double sum,
                        float magnitude, const void* c, i64 c_at, i64 row, i64 column,
                        double& value, double& error) {
  value = g.alpha * sum;
  error = allow.per_sum * double(magnitude) + allow.per_step * fabs(value);
  if (g.beta != 0) add_term(g.beta * load(c, t.d, c_at), allow.per_step, value, error);
  if (allow.bias != 0)
    add_term(load(g.bias, t.bias, allow.bias == 1 ? row : column), allow.per_step, value, error);
}

/// What a run left is compared with: products, and what C held before.
struct Known {
  const double* sums;
  const float* magnitudes;
  const void* c;
};

/// An element of D before it is rounded, and how far a right kernel may be off.
KILN_DEVICE void expect(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                        const Known& known, i64 batch, i64 row, i64 column, double& value,
                        double& error) {
  const i64 c_at = batch * g.stride_c + row * g.ldc + column;
  // Of the product's columns.
  const i64 first = allow.interleaved ? 2 * column : column;
  const i64 line = (batch * g.m + row) * (allow.gate != 0 ? 2 * g.n : g.n);
  affine(g, t, allow, known.sums[line + first], known.magnitudes[line + first], known.c, c_at, row,
         first, value, error);
  apply(allow.gate != 0 ? allow.gate : allow.activation, allow, value, error);
  if (allow.gate != 0) {
    const i64 second = allow.interleaved ? first + 1 : g.n + column;
    double other, off;
    affine(g, t, allow, known.sums[line + second], known.magnitudes[line + second], known.c, c_at,
           row, second, other, off);
    error = error * (fabs(other) + off) + fabs(value) * off;
    value *= other;
    error += allow.per_gate * fabs(value);
  }
  if (allow.residual)
    add_term(load(g.residual, t.d, batch * g.stride_d + row * g.ldd + column), allow.per_residual,
             value, error);
  if (!isfinite(error)) error = 0;
}

KILN_DEVICE float scale_of_d(const KilnGpuArgs& g, const Types& t, i64 batch, i64 row, i64 column) {
  const float* scales = (const float*)g.scale_d;
  if (t.d_scale == 1) return scales[batch];
  return scales[(batch * g.m + row) * ((g.n + t.d_along - 1) / t.d_along) + column / t.d_along];
}

/// Compares every element of D. `c` is what C held before the run. out[0] counts the wrong ones,
/// out[1] becomes the least index of one, as (batch*m + row)*n + column.
extern "C" __global__ void check_judge(const __grid_constant__ KilnGpuArgs g,
                                       const __grid_constant__ Types t,
                                       const __grid_constant__ Allowance allow, const double* sums,
                                       const float* magnitudes, const void* c, u64* out) {
  const i64 count = g.m * g.n * g.batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    double value, error;
    expect(g, t, allow, {sums, magnitudes, c}, batch, row, column, value, error);
    double low = value - error, high = value + error;
    if (t.d_scale != 0) {
      // As tuner/verify/quantised.cpp: rounding to fp32 keeps the order.
      const float inverse = 1.0f / scale_of_d(g, t, batch, row, column);
      low = float(low) * inverse;
      high = float(high) * inverse;
      value = float(value) * inverse;
    }
    const double got = load(g.d, t.d, batch * g.stride_d + row * g.ldd + column);
    const bool right =
        value != value ? (t.d == kS8 ? got == 0 : got != got)
                       : got == value || (got >= rounded(t.d, low) && got <= rounded(t.d, high));
    if (right) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// Adds the rows of one part to what D's rows, of the same n columns, should be, each with what it
/// may be off. `index`, `weights` (or null): of the part's first row. A thread has columns, so that
/// nothing need be atomic. A negative number names no row.
extern "C" __global__ void check_add_rows(const __grid_constant__ KilnGpuArgs g,
                                          const __grid_constant__ Types t,
                                          const __grid_constant__ Allowance allow,
                                          const double* sums, const float* magnitudes,
                                          const int* index, const float* weights, i64 rows_of_d,
                                          double* values, double* errors) {
  for (i64 column = blockIdx.x * i64(blockDim.x) + threadIdx.x; column < g.n;
       column += i64(gridDim.x) * blockDim.x)
    for (i64 row = 0; row < g.m; ++row) {
      if (index[row] < 0) continue;
      const i64 to = index[row] < rows_of_d ? index[row] : rows_of_d - 1, at = to * g.n + column;
      double value, error;
      expect(g, t, allow, {sums, magnitudes, nullptr}, 0, row, column, value, error);
      const double weight = weights == nullptr ? 1 : double(weights[row]);
      errors[at] += fabs(weight) * error;
      add_term(weight * value, 2 * allow.per_residual, values[at], errors[at]);
    }
}

/// Compares a D whose rows are such sums, and beta times what C held before. out[0] counts the
/// wrong elements, out[1] becomes the least index of one, as row*n + column.
extern "C" __global__ void check_judge_added(const __grid_constant__ KilnGpuArgs g,
                                             const __grid_constant__ Types t,
                                             const __grid_constant__ Allowance allow, i64 rows_of_d,
                                             int expressed, const double* values,
                                             const double* errors, const void* c, u64* out) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < rows_of_d * g.n;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 row = i / g.n, column = i % g.n;
    double value = values[i], error = errors[i];
    if (g.beta != 0)
      add_term(g.beta * load(c, t.d, row * g.ldc + column), 2 * allow.per_residual, value, error);
    // Of an expression anything may be right where the error is infinite.
    const bool anything = expressed && error == error && !isfinite(error);
    if (!isfinite(error)) error = 0;
    const double got = load(g.d, t.d, row * g.ldd + column);
    const bool right = anything         ? true
                       : value != value ? got != got
                                        : got == value || (got >= rounded(t.d, value - error) &&
                                                           got <= rounded(t.d, value + error));
    if (right) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// The same of scales that follow from D: out[1] is the least index of a scale.
extern "C" __global__ void check_scales(const __grid_constant__ KilnGpuArgs g,
                                        const __grid_constant__ Types t,
                                        const __grid_constant__ Allowance allow, const double* sums,
                                        const float* magnitudes, const void* c, u64* out) {
  const i64 blocks = (g.n + t.d_along - 1) / t.d_along, count = g.batch * g.m * blocks;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * blocks), row = i / blocks % g.m, first = i % blocks * t.d_along;
    float least = 0, most = 0;  // of the largest magnitude
    for (i64 column = first; column < g.n && column < first + t.d_along; ++column) {
      double value, error;
      expect(g, t, allow, {sums, magnitudes, c}, batch, row, column, value, error);
      const float low = float(fabs(value) - error), high = float(fabs(value) + error);
      if (low > least) least = low;
      if (high > most) most = high;
    }
    least /= t.d_largest;
    most /= t.d_largest;
    const float scale = scale_of_d(g, t, batch, row, first);
    const bool one = scale == 1.0f && least < 0x1p-126f;
    if (one || (scale >= 0x1p-126f && scale >= least && scale <= most)) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// A number that is not negative: its bits are ordered as such numbers are, NaN above all.
KILN_DEVICE u64 bits_of_magnitude(double x) {
  return u64(__double_as_longlong(x)) & 0x7fffffffffffffffull;
}

/// Between which numbers of fp32 the largest magnitude of D lies: out[0] becomes the bits of the
/// lower one, out[1] those of the upper.
extern "C" __global__ void check_amax(const __grid_constant__ KilnGpuArgs g,
                                      const __grid_constant__ Types t,
                                      const __grid_constant__ Allowance allow, const double* sums,
                                      const float* magnitudes, const void* c, u64* out) {
  const i64 count = g.m * g.n * g.batch;
  u64 least = 0, most = 0;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    double value, error;
    expect(g, t, allow, {sums, magnitudes, c}, batch, row, column, value, error);
    const double low = float(fabs(value) - error), high = float(fabs(value) + error);
    const u64 low_bits = low < 0 ? 0 : bits_of_magnitude(low), high_bits = bits_of_magnitude(high);
    if (low_bits > least) least = low_bits;
    if (high_bits > most) most = high_bits;
  }
  if (least > 0) atomicMax(&out[0], least);
  if (most > 0) atomicMax(&out[1], most);
}
