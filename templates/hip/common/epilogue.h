// What happens to an accumulator: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.
#pragma once

//% if exponential
/// e^x = 2^(x / ln 2). What the product's rounding loses would be multiplied by x: it is put back.
KILN_DEVICE float exponential(float x) {
  if (x < -104.0f) return 0.0f;
  if (x > 89.0f) return __builtin_inff();
  const float high = x * 1.44269502f;
  const float low = __builtin_fmaf(x, 1.44269502f, -high) + x * 1.92596299e-8f;
  return __builtin_exp2f(high) * (1.0f + low * 0.693147182f);
}
/// e^x = 2^n · e^rest with |rest| ≤ ln 2 / 2, where thirteen terms of the series are enough.
KILN_DEVICE double exponential(double x) {
  if (!(x > -745.2)) return x != x ? x : 0.0;
  if (x > 709.8) return __builtin_inf();
  const double n = __builtin_rint(x * 1.4426950408889634);
  // ln 2 in two parts, the first short enough that its product with n is exact.
  const double rest = (x - n * 0.693147180369123816) - n * 1.90821492927058770e-10;
  double sum = 1;
  KILN_UNROLL for (int i = 13; i >= 1; --i) sum = 1 + sum * rest * (1.0 / i);
  // In two steps, so that what lies below the normal range is rounded and not lost.
  const int half = int(n) / 2, other = int(n) - half;
  return sum * bits_as<double>(u64(half + 1023) << 52) * bits_as<double>(u64(other + 1023) << 52);
}
//% end
//% if uses_gelu
/// x/2 · (1 + tanh(u)) written as x / (1 + e^(-2u)), which does not cancel.
KILN_DEVICE Real gelu_tanh(Real x) {
  const Real u2 = x * Real(1.5957691216057308) * (Real(1) + Real(0.044715) * x * x);
  return x / (Real(1) + exponential(-u2));
}
//% end
//% if uses_gelu_erf || uses_erf
/// e^(z²) · erfc(z) · (1 + z) for z ≥ 0 as a polynomial in (z − 2) / (z + 2): kiln's own Chebyshev
/// fit, 1.5e-8 and 1.2e-15 off at most.
//% if double
constexpr double kTail[] = {
    0.766187028931518094,    -0.259974836999852185,     0.0378138983133397565,
    0.0425363495088492862,   -0.0252435542819196309,    -0.000518276671281759149,
    0.00393775508677717571,  0.000144680961408104442,   -0.000706626948142913492,
    -0.00013998971941476836, 0.000116933175486497215,   0.0000617287706454231213,
    -7.68773286325067076e-6, -0.0000175119283054248268, -4.990632821220447e-6,
    2.44237747616391362e-6,  2.60603130288094486e-6,    5.22110533337686061e-7,
    -6.45604702635391768e-7, -4.16550523060293348e-7,   7.7068497462799319e-8,
    1.12718497113288131e-7,  -1.63259349234997428e-9,   -1.28041542102616864e-8};
//% else
constexpr float kTail[] = {0.7661870351f,    -0.2599748323f,    0.03781345416f,  0.0425360077f,
                           -0.02523837793f,  -0.0005142157516f, 0.003915749114f, 0.0001267030013f,
                           -0.000664734809f, -0.0001028771791f, 8.167203183e-5f, 2.400993872e-5f};
//% end
template <int Count>
KILN_DEVICE Real complement(Real z, const Real (&tail)[Count]) {
  const Real a = z < 0 ? -z : z, y = (a - 2) / (a + 2);
  Real sum = tail[Count - 1];
  KILN_UNROLL for (int i = Count - 2; i >= 0; --i) sum = sum * y + tail[i];
  const Real e = exponential(-a * a) * sum / (1 + a);
  return z < 0 ? 2 - e : e;
}
//% end
//% if uses_gelu_erf
/// x · Φ(x). For −∞ the tail is 0 · NaN, where the limit is 0.
KILN_DEVICE Real gelu_erf(Real x) {
  if (x < Real(-40)) return Real(0);
  if (x > Real(40)) return x;
  return Real(0.5) * x * complement(Real(-0.70710678118654752) * x, kTail);
}
//% end
//% if expressed

//% include hip/common/functions.h
//% end

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  //% if !expressed
  // Nothing reads these two: stored kernels, which are known by their tokens, have them.
  //% end
  //% if !expressed || residual && integer_d
  const TypeD* residual;
  //% end
  //% if bias_as_d && gate
  const TypeD* bias;
  //% end
  //% if !expressed || bias && gate && !bias_as_d
  const Real* bias;
  //% end
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  //% if line_scale_a
  const float* scale_a;  // one a row, or one
  //% end
  //% if line_scale_b
  const float* scale_b;  // one a column, or one
  //% end
  //% if zero_a
  const u32* zero_a;         // one a row, or one
  const u32* column_sums_b;  // of op(B)
  //% end
  //% if integer_d
  bool whole;  // alpha and beta are whole numbers of 32 bits
  u32 whole_alpha, whole_beta;
  //% end
  //% if expressed
  //% include expression/members
  //% end
};

//% if integer_d
/// Whether a factor is a whole number of 32 bits, which `to` then is, modulo 2^32.
KILN_DEVICE bool whole_factor(double x, u32& to) {
  const bool fits = x >= -2147483648.0 && x < 2147483648.0;
  const i32 whole = fits ? i32(x) : 0;
  to = u32(whole);
  return fits && double(whole) == x;
}

//% end
KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  //% if !expressed || residual && integer_d
  out.residual = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  //% end
  //% if bias_as_d && gate
  out.bias = static_cast<const TypeD*>(args.bias);
  //% end
  //% if !expressed || bias && gate && !bias_as_d
  out.bias = static_cast<const Real*>(args.bias);
  //% end
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  //% if tensor_scale_a
  out.scale_a = static_cast<const float*>(args.scale_a) + batch;
  //% end
  //% if line_scale_a && !tensor_scale_a
  out.scale_a = static_cast<const float*>(args.scale_a) + batch * args.m;
  //% end
  //% if tensor_scale_b
  out.scale_b = static_cast<const float*>(args.scale_b) + batch;
  //% end
  //% if line_scale_b && !tensor_scale_b && !gate
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * args.n;
  //% end
  //% if line_scale_b && !tensor_scale_b && gate
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * 2 * args.n;
  //% end
  //% if zero_a == tensor
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch;
  //% end
  //% if zero_a == line
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch * args.m;
  //% end
  //% if zero_a && !gate
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * args.n;
  //% end
  //% if zero_a && gate
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * 2 * args.n;
  //% end
  //% if integer_d
  const bool whole_alpha = whole_factor(args.alpha, out.whole_alpha);
  out.whole = whole_factor(args.beta, out.whole_beta) && whole_alpha;
  //% end
  //% if expressed
  //% include expression/pointers
  //% end
  return out;
}
//% if expressed

/// What the expression reads, and what it stores beside D.
struct Extras {
  //% include expression/fields
  //% if gate
  Real other;  // the second product's element
  //% end
};
/// The expression's value for an element that exists; stores what it stores beside D.
KILN_DEVICE Real expressed(const Output& out, Real v,
                           //% if gate
                           Real other,
                           //% end
                           i64 row, i64 column) {
#pragma clang fp contract(off)
  using Value = Real;
  Extras x;
  //% if gate
  x.other = other;
  //% end
  //% include expression/loads
  //% include expression/values
  //% if stores_matrices
  //% include expression/stored
  //% end
  //% if reduces
  //% include expression/kept
  //% end
  return v;
}
//% end
//% if integer_d

/// An element that exists, in 32 bits that wrap: exact where the result fits them.
KILN_DEVICE i32 finished_whole(const Output& out, i32 sum, i64 row, i64 column) {
  u32 x = u32(sum) * out.whole_alpha;
  if (out.c) x += u32(out.c[row * out.ldc + column]) * out.whole_beta;
  //% if activation == relu
  if (i32(x) < 0) x = 0;
  //% end
  //% if residual
  x += u32(out.residual[row * out.ldd + column]);
  //% end
  return i32(x);
}
//% end

//% if gate
/// A sum with the scales of its row and of the product's column, alpha and the bias.
KILN_DEVICE Real factor(const Output& out, Acc sum, i64 row, i64 column) {
#pragma clang fp contract(off)
  //% if zero_a == line
  // As unsigned numbers, which may wrap on the way to what fits.
  sum = Acc(u32(sum) - out.zero_a[row] * out.column_sums_b[column]);
  //% end
  //% if zero_a == tensor
  sum = Acc(u32(sum) - *out.zero_a * out.column_sums_b[column]);
  //% end
  Real x = Real(sum);
  //% if tensor_scale_a
  x *= *out.scale_a;
  //% end
  //% if line_scale_a && !tensor_scale_a
  x *= out.scale_a[row];
  //% end
  //% if tensor_scale_b
  x *= *out.scale_b;
  //% end
  //% if line_scale_b && !tensor_scale_b
  x *= out.scale_b[column];
  //% end
  x *= out.alpha;
  //% if bias == per_row && bias_as_d
  x += to_real(out.bias[row]);
  //% end
  //% if bias == per_row && !bias_as_d
  x += out.bias[row];
  //% end
  //% if bias == per_column && bias_as_d
  x += to_real(out.bias[column]);
  //% end
  //% if bias == per_column && !bias_as_d
  x += out.bias[column];
  //% end
  return x;
}

/// Stores an element that exists, of the sums of both products.
KILN_DEVICE void gate_and_store(const Output& out, Acc first, Acc second, i64 row, i64 column) {
#pragma clang fp contract(off)
  //% if gate_order == stacked
  const Real x = factor(out, first, row, column);
  const Real other = factor(out, second, row, out.columns + column);
  //% else
  const Real x = factor(out, first, row, 2 * column);
  const Real other = factor(out, second, row, 2 * column + 1);
  //% end
  const Real v = expressed(out, x, other, row, column);
  //% if stores_d
  out.d[row * out.ldd + column] = from_real(v, TypeD{});
  //% end
}
//% else
/// What is stored at an element that exists.
KILN_DEVICE TypeD finish(const Output& out, Acc sum, i64 row, i64 column) {
  // Every product is rounded by itself: which of them a compiler fuses with an addition differs
  // from kernel to kernel, and the bits of an element must not.
#pragma clang fp contract(off)
  //% if integer_d
  if (out.whole) return finished_whole(out, sum, row, column);
  //% end
  //% if zero_a == line
  // As unsigned numbers, which may wrap on the way to what fits.
  sum = Acc(u32(sum) - out.zero_a[row] * out.column_sums_b[column]);
  //% end
  //% if zero_a == tensor
  sum = Acc(u32(sum) - *out.zero_a * out.column_sums_b[column]);
  //% end
  //% if line_scale_a || line_scale_b
  Real x = Real(sum);
  //% if tensor_scale_a
  x *= *out.scale_a;
  //% end
  //% if line_scale_a && !tensor_scale_a
  x *= out.scale_a[row];
  //% end
  //% if tensor_scale_b
  x *= *out.scale_b;
  //% end
  //% if line_scale_b && !tensor_scale_b
  x *= out.scale_b[column];
  //% end
  x *= out.alpha;
  //% else
  Real x = out.alpha * Real(sum);
  //% end
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  //% if expressed
  x = expressed(out, x, row, column);
  //% end
  return from_real(x, TypeD{});
}
/// Stores an element that exists.
KILN_DEVICE void finish_and_store(const Output& out, Acc sum, i64 row, i64 column) {
  //% if stores_d
  out.d[row * out.ldd + column] = finish(out, sum, row, column);
  //% else
  finish(out, sum, row, column);
  //% end
}
//% end
//% if reduces || behind_blocks

//% include hip/common/words.h
//% include cuda/common/reductions.cu
//% end
//% if behind

//% include cuda/common/behind.cu
//% end
