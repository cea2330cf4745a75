// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.
#pragma once

//% if expressed
/// x / y for y from 1 on, to two units in the last place; 0 beyond 2^126. Without the branch of an
/// exact division the elements of a lane are computed beside each other.
KILN_DEVICE float quotient(float x, float y) { return __fmul_rn(x, near_reciprocal(y)); }
KILN_DEVICE double quotient(double x, double y) { return x / y; }

//% end
/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }
//% if expressed

//% include cuda/common/functions.h
//% end

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  //% if kept_in_d
  const TypeC* c;  // null when beta == 0: C is then never read
  //% else
  const TypeD* c;  // null when beta == 0: C is then never read
  //% end
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
  //% if halves
  const i32 *exponents_a, *exponents_b;  // of the powers of two that rows and columns have
  //% end
  //% if scale_d == tensor
  float inverse_d;  // of D's scale
  //% end
  //% if scale_d && scale_d != tensor
  float* scale_d;  // a row's side by side
  i64 scales_of_row;
  //% end
  //% if gather && line_scale_a && !tensor_scale_a
  const void* index_a;  // of rows of the product, their rows of A
  int rows_of_a;
  //% end
  //% if scatter
  const void* index_d;  // of rows of the product, their rows of D
  int rows_of_d;
  //% end
  //% if amax
  u32* amax;
  mutable u32 largest;  // of the elements that this lane finished
  //% end
  //% if integer_d
  bool whole;  // alpha and beta are whole numbers of 32 bits
  u32 whole_alpha, whole_beta;
  //% end
  //% if expressed
  //% include expression/members
  //% end
};
//% if scatter

/// Where a row of the product begins in D.
KILN_DEVICE TypeD* row_of_d(const Output& out, i64 row) {
  return out.d + listed_row(out.index_d, row, out.rows_of_d) * out.ldd;
}
//% end
//% if gather && line_scale_a && !tensor_scale_a

/// The scale of A's row under a row of the product.
KILN_DEVICE float scale_of_row(const Output& out, i64 row) {
  return out.scale_a[listed_row(out.index_a, row, out.rows_of_a)];
}
//% end

//% if scale_d && scale_d != tensor
/// How many scales a row of D has.
KILN_DEVICE i64 scales_of_row(i64 columns) {
  //% if scale_d == line
  return 1;
  //% else
  return ceil_div(columns, 128);
  //% end
}

/// The scale of elements whose largest magnitude this is: 1 where its reciprocal could overflow.
KILN_DEVICE float scale_for(float largest) {
  const float scale = largest / kLargestD;
  return scale >= 0x1p-126f ? scale : 1.0f;
}
//% end

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
  //% if kept_in_d
  out.c = args.beta != 0 ? static_cast<const TypeC*>(args.c) + batch * args.stride_c : nullptr;
  //% else
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  //% end
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
  //% else
  //% if line_scale_a
  out.scale_a = static_cast<const float*>(args.scale_a) + batch * args.m;
  //% end
  //% end
  //% if tensor_scale_b
  out.scale_b = static_cast<const float*>(args.scale_b) + batch;
  //% else
  //% if line_scale_b
  //% if gate
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * 2 * args.n;
  //% else
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * args.n;
  //% end
  //% end
  //% end
  //% if zero_a == tensor
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch;
  //% end
  //% if zero_a == line
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch * args.m;
  //% end
  //% if zero_a && gate
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * 2 * args.n;
  //% end
  //% if zero_a && !gate
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * args.n;
  //% end
  //% if scale_d == tensor
  out.inverse_d = 1.0f / static_cast<const float*>(args.scale_d)[batch];
  //% end
  //% if scale_d && scale_d != tensor
  out.scales_of_row = scales_of_row(args.n);
  out.scale_d = static_cast<float*>(args.scale_d) + batch * args.m * out.scales_of_row;
  //% end
  //% if gather && line_scale_a && !tensor_scale_a
  out.index_a = args.index_a;
  out.rows_of_a = int(args.rows_of_a);
  //% end
  //% if scatter
  out.index_d = args.index_d;
  out.rows_of_d = int(args.rows_of_d);
  //% end
  //% if amax
  out.amax = static_cast<u32*>(args.amax_d);
  out.largest = 0;
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

//% if zero_a
/// What the zero point of a row adds to a sum, which is taken away from it: both as unsigned
/// numbers, which may wrap on the way to what fits.
KILN_DEVICE u32 added_by_zero(const Output& out, i64 row, i64 column) {
  //% if zero_a == tensor
  return *out.zero_a * out.column_sums_b[column];
  //% else
  return out.zero_a[row] * out.column_sums_b[column];
  //% end
}
//% end

//% if gate
/// Columns of the product under one of D: of what goes through the gate, and of the other factor.
KILN_DEVICE i64 first_factor(const Output& out, i64 column) {
  //% if gate_order == stacked
  return column;
  //% else
  return 2 * column;
  //% end
}
KILN_DEVICE i64 second_factor(const Output& out, i64 column) {
  //% if gate_order == stacked
  return out.columns + column;
  //% else
  return 2 * column + 1;
  //% end
}

//% if zero_a
/// Takes away from the sums of both products what A's zero point added; those outside D read
/// nothing.
KILN_DEVICE void subtract_zeros(const Output& out, Acc& first, Acc& second, i64 row, i64 column) {
  if (row >= out.rows || column >= out.columns) return;
  first = Acc(u32(first) - added_by_zero(out, row, first_factor(out, column)));
  second = Acc(u32(second) - added_by_zero(out, row, second_factor(out, column)));
}
//% end

/// A sum with alpha, the scales of its row and of the product's column, and the bias.
KILN_DEVICE Real factor(const Output& out, Real x, i64 row, i64 column) {
  //% if tensor_scale_a
  x = product(x, *out.scale_a);
  //% else
  //% if line_scale_a && gather
  x = product(x, scale_of_row(out, row));
  //% end
  //% if line_scale_a && !gather
  x = product(x, out.scale_a[row]);
  //% end
  //% end
  //% if tensor_scale_b
  x = product(x, *out.scale_b);
  //% else
  //% if line_scale_b
  x = product(x, out.scale_b[column]);
  //% end
  //% end
  x = product(x, out.alpha);
  //% if bias == per_row
  //% if bias_as_d
  x += to_real(out.bias[row]);
  //% else
  x += out.bias[row];
  //% end
  //% end
  //% if bias == per_column
  //% if bias_as_d
  x += to_real(out.bias[column]);
  //% else
  x += out.bias[column];
  //% end
  //% end
  return x;
}

/// The sums of both products with alpha, their scales and biases; those outside D read nothing.
KILN_DEVICE void make_factors(const Output& out, Real& first, Real& second, i64 row, i64 column) {
  //% if line_scale_a || line_scale_b || bias
  if (row >= out.rows || column >= out.columns) return;
  //% end
  first = factor(out, first, row, first_factor(out, column));
  second = factor(out, second, row, second_factor(out, column));
}
//% else
//% if zero_a
/// Takes away from a sum what A's zero point added; one outside D reads nothing.
KILN_DEVICE void subtract_zeros(const Output& out, Acc& sum, i64 row, i64 column) {
  if (row < out.rows && column < out.columns) sum = Acc(u32(sum) - added_by_zero(out, row, column));
}
//% end
//% if line_scale_a || line_scale_b

/// A sum with the scales of its row and column; those outside D read nothing.
KILN_DEVICE Real scaled(const Output& out, Real x, i64 row, i64 column) {
  //% if tensor_scale_a
  x = product(x, *out.scale_a);
  //% else
  //% if line_scale_a && gather
  if (row < out.rows) x = product(x, scale_of_row(out, row));
  //% end
  //% if line_scale_a && !gather
  if (row < out.rows) x = product(x, out.scale_a[row]);
  //% end
  //% end
  //% if tensor_scale_b
  x = product(x, *out.scale_b);
  //% else
  //% if line_scale_b
  if (column < out.columns) x = product(x, out.scale_b[column]);
  //% end
  //% end
  return x;
}
//% end
//% end

//% if expressed
/// What the expression reads for one element; those outside D read nothing.
struct Extras {
  //% include expression/fields
  //% if gate
  Real other;  // the second product's element
  //% end
  //% if reads_pairs
  //% include expression/pair_fields
  //% end
};
KILN_DEVICE Extras extras_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = row < out.rows, in_column = column < out.columns;
  Extras x;
  //% include expression/loads
  return x;
}
//% if reads_pairs
/// What one of two neighbours reads of the other: of an element, what it shows.
KILN_DEVICE void show_to_neighbour(const Output& out, Real v, i64 row, i64 column, Extras& x) {
  using Value = Real;
  //% include expression/pair_values
}
/// Of columns 2i (x) and 2i + 1 (y) in one lane; `second`: D has the other one.
KILN_DEVICE void take_from_neighbour(Extras& x, Extras& y, bool second) {
  //% include expression/pair_in_lane
}
KILN_DEVICE Real of_lane(Real x, int apart, bool takes) {
  const Real other = __shfl_xor_sync(0xffffffff, x, apart);
  return takes ? other : x;
}
/// Of a column whose neighbour is in the lane `apart` from this one: in all lanes of a warp.
KILN_DEVICE void take_from_lane(Extras& x, int apart, bool odd, bool second) {
  //% include expression/pair_of_lanes
}
//% end
/// The expression's value for one element; what else is stored is left in `x`.
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column, Extras& x) {
  using Value = Real;
  //% include expression/values
  return v;
}
//% if outputs
/// Stores matrices beside D.
KILN_DEVICE void store_matrices(const Output& out, i64 row, i64 column, const Extras& x) {
  //% if stores_matrices
  if (row >= out.rows || column >= out.columns) return;
  //% include expression/stored
  //% end
}
/// Leaves in the workspace what is reduced.
KILN_DEVICE void keep_values(const Output& out, i64 row, i64 column, const Extras& x) {
  //% if reduces
  if (row >= out.rows || column >= out.columns) return;
  //% include expression/kept
  //% end
}
KILN_DEVICE void store_beside(const Output& out, i64 row, i64 column, const Extras& x) {
  store_matrices(out, row, column, x);
  keep_values(out, row, column, x);
}
//% end
//% if gate
/// The same of the sums of both products; what else is stored is.
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column, Extras& x) {
  make_factors(out, first, second, row, column);
  x.other = second;
  const Real v = finish(out, first, row, column, x);
  //% if outputs
  store_beside(out, row, column, x);
  //% end
  return v;
}
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column) {
  Extras x = extras_at(out, row, column);
  return gated(out, first, second, row, column, x);
}
//% else
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column) {
  Extras x = extras_at(out, row, column);
  v = finish(out, v, row, column, x);
  //% if outputs
  store_beside(out, row, column, x);
  //% end
  return v;
}
//% end
//% if rolled

//% include cuda/common/pairs.h
//% end
//% if reduces || behind_blocks

//% include cuda/common/reductions.cu
//% end
//% if behind

//% include cuda/common/behind.cu
//% end
//% end
//% if !expressed
KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) { return x; }
//% end
