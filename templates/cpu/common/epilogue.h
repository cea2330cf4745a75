// From accumulators to D: alpha, beta·C, the expression that follows, rounding — in that order.
// Expects vector.h, lines.h where D is streamed, and from the parameters: TypeD.
#pragma once

/// Partial accumulators of earlier k, where D's type would round them: that of element (row,
/// column) of D lies at (row - row0, column - column0).
struct Partial {
  Acc* sums;
  i64 ld, row0, column0;
  Acc* at(i64 row, i64 column) const { return sums + (row - row0) * ld + (column - column0); }
};

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;         // null when beta == 0: C is then never read
  const TypeD* residual;  // laid out as D
  const Real* bias;
  i64 ldd, ldc;
  Real alpha, beta;
  //% if stacked
  i64 columns;  // of D
  //% end
  //% if line_scale_a
  const float* scale_a;  // one a row, or one
  //% end
  //% if line_scale_b
  const float* scale_b;  // one a column of op(B), or one
  //% end
  //% if zero_a
  const u32* zero_a;         // one a row, or one
  const u32* column_sums_b;  // of op(B)
  //% end
  //% if amax
  u32* amax;  // bits of the largest magnitude of D
  //% end
  Partial partial;
  //% if stream_d
  Lines lines;
  //% end
  //% if rows_d
  Strip strip;
  //% end
  //% if stream_rows
  bool streams;  // every row of D begins where kStreamed bytes can be stored past the caches
  //% end
  //% if integer_d
  bool whole;  // alpha and beta are whole numbers of 32 bits, and nothing else needs fractions
  u32 whole_alpha, whole_beta;
  //% end
  //% if expressed
  //% include expression/members
  //% end
  //% if epilogue == call
  int bias_kind, activation;  // as KilnArgs has them
  bool more;                  // a bias, an activation or a residual
  //% end
};

//% if integer_d
/// Whether a factor is a whole number of 32 bits, which `to` then is, modulo 2^32.
KILN_INLINE bool whole_factor(double x, u32& to) {
  const bool fits = x >= -0x1p31 && x < 0x1p31;
  const i32 whole = fits ? i32(x) : 0;
  to = u32(whole);
  return fits && double(whole) == x;
}

//% end
KILN_INLINE Output output_of(const KilnArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual =
      static_cast<const TypeD*>(args.residual) + (args.residual ? batch * args.stride_d : 0);
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  //% if stacked
  out.columns = args.n;
  //% end
  //% if stream_rows
  out.streams = reinterpret_cast<unsigned long long>(out.d) % kStreamed == 0 &&
                (args.m < 2 || args.ldd * i64(sizeof(TypeD)) % kStreamed == 0);
  //% end
  //% if line_scale_a && !tensor_scale_a
  out.scale_a = static_cast<const float*>(args.scale_a) + batch * args.m;
  //% end
  //% if tensor_scale_a
  out.scale_a = static_cast<const float*>(args.scale_a) + batch;
  //% end
  //% if line_scale_b && !tensor_scale_b && !gate
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * args.n;
  //% end
  //% if line_scale_b && !tensor_scale_b && gate
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * 2 * args.n;
  //% end
  //% if tensor_scale_b
  out.scale_b = static_cast<const float*>(args.scale_b) + batch;
  //% end
  //% if zero_a == line
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch * args.m;
  //% end
  //% if zero_a == tensor
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch;
  //% end
  //% if zero_a && gate
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * 2 * args.n;
  //% end
  //% if zero_a && !gate
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * args.n;
  //% end
  //% if amax
  out.amax = static_cast<u32*>(args.amax_d);
  //% end
  //% if expressed
  //% include expression/pointers
  //% end
  out.partial = {};
  //% if epilogue == call
  out.bias_kind = args.bias_kind;
  out.activation = args.activation;
  if (!args.adds_residual) out.residual = nullptr;
  out.more = args.bias_kind || args.activation || args.adds_residual;
  //% end
  //% if integer_d
  const bool whole_alpha = whole_factor(args.alpha, out.whole_alpha);
  out.whole = whole_factor(args.beta, out.whole_beta) && whole_alpha;
  //% if epilogue == call
  if (args.bias_kind || args.activation > kActivationRelu) out.whole = false;
  //% end
  //% end
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

//% if line_scale_a || line_scale_b
/// Sums of one row of D with its scale and those of `columns` columns of op(B), from `column` on;
/// before that without what A's zero point added.
template <int L>
KILN_INLINE Vec<Real, L> scaled(const Output& out, Vec<Acc, L> sum, i64 row, i64 column,
                                int columns) {
  //% if zero_a
  // As unsigned numbers, which may wrap on the way to what fits.
  //% if zero_a == line
  const u32 zero = out.zero_a[row];
  //% else
  const u32 zero = *out.zero_a;
  //% end
  const auto of_zero = load_first<L>(out.column_sums_b + column, columns) * zero;
  sum = bits_of<Vec<Acc, L>>(bits_of<Vec<u32, L>>(sum) - of_zero);
  //% end
  Vec<Real, L> x = __builtin_convertvector(sum, Vec<Real, L>);
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
  x *= load_first<L>(out.scale_b + column, columns);
  //% end
  return x;
}
//% end

//% include cpu/common/functions.h

//% if epilogue == call
/// The activation that the call names. Out of line: tiles finish many vectors, and every activation
/// in each of them would be most of the code.
template <int L>
__attribute__((noinline)) static Vec<Real, L> activate(int activation, Vec<Real, L> x) {
  switch (activation) {
    case kActivationRelu:
      return relu<L>(x);
    case kActivationGeluTanh:
      return gelu_tanh<L>(x);
    case kActivationGeluErf:
      return gelu_erf<L>(x);
    default:
      return silu<L>(x);
  }
}
//% end

//% if gate
//% if interleaved
/// Elements of two vectors in turns become those of either.
template <typename V, int... I>
KILN_INLINE void separate(V& first, V& second, Sequence<int, I...>) {
  const V low = first, high = second;
  first = __builtin_shufflevector(low, high, (2 * I)...);
  second = __builtin_shufflevector(low, high, (2 * I + 1)...);
}
//% end

/// Finishes L elements of one row of D: `columns` of them exist, the first at (row, column). `low`
/// and `high` are the accumulators of both factors, in the order of the columns of op(B). Those of
/// earlier k lie side by side, two vectors for one of D.
template <int L>
KILN_INLINE void finish_gated(const Output& out, Vec<Acc, L> low, Vec<Acc, L> high, i64 row,
                              i64 column, int columns, Pass pass) {
  const auto waiting = [&](int which) { return out.partial.at(row, 2 * column) + which * L; };
  if (!pass.first) {
    low += load<Vec<Acc, L>>(waiting(0));
    high += load<Vec<Acc, L>>(waiting(1));
  }
  if (!pass.last) {
    store(waiting(0), low);
    return store(waiting(1), high);
  }
  //% if line_scale_a && stacked || line_scale_b && stacked
  Vec<Real, L> first = scaled<L>(out, low, row, column, columns) * out.alpha;
  Vec<Real, L> second = scaled<L>(out, high, row, out.columns + column, columns) * out.alpha;
  //% end
  //% if line_scale_a && interleaved || line_scale_b && interleaved
  Vec<Real, L> first = scaled<L>(out, low, row, 2 * column, 2 * columns) * out.alpha;
  Vec<Real, L> second = scaled<L>(out, high, row, 2 * column + L, 2 * columns - L) * out.alpha;
  //% end
  //% if !line_scale_a && !line_scale_b
  Vec<Real, L> first = __builtin_convertvector(low, Vec<Real, L>) * out.alpha;
  Vec<Real, L> second = __builtin_convertvector(high, Vec<Real, L>) * out.alpha;
  //% end
  //% if bias == per_row
  first += out.bias[row];
  second += out.bias[row];
  //% end
  //% if bias == per_column && stacked
  first += load_first<L>(out.bias + column, columns);
  second += load_first<L>(out.bias + out.columns + column, columns);
  //% end
  //% if bias == per_column && interleaved
  first += load_first<L>(out.bias + 2 * column, 2 * columns);
  second += load_first<L>(out.bias + 2 * column + L, 2 * columns - L);
  //% end
  //% if interleaved
  separate(first, second, Iota<L>{});
  //% end
  Vec<Real, L> v = first;
  {
    using Value = Vec<Real, L>;
    //% include expression/loads
    //% include expression/values
  }
  //% if !stores_d
  return;  // D is absent, or stored later
  //% end
  //% if stream_d
  TypeD* d = out.lines.at(out.d + row * out.ldd + out.lines.column, row, column);
  //% end
  //% if rows_d
  TypeD* d = out.strip.at(row, column);
  //% end
  //% if !stream_d && !rows_d
  TypeD* d = out.d + row * out.ldd + column;
  //% end
  //% if amax
  raise_amax<L>(out.amax, v, columns);
  //% end
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}
//% else
//% if stream_rows
/// Stores finished elements, past the caches where they are kStreamed bytes.
template <int L, typename T>
KILN_INLINE void put(const Output& out, T* to, Vec<T, L> v, int columns) {
  if (L * sizeof(T) == kStreamed && out.streams && columns >= L)
    __builtin_nontemporal_store(v, reinterpret_cast<Vec<T, L>*>(to));
  else
    store_first<L>(to, v, columns);
}
//% end
//% if integer_d
/// alpha, beta·C and the rest of accumulators of one row, in 32 bits that wrap: exact where the
/// result fits them.
template <int L>
KILN_INLINE Vec<i32, L> finished_whole(const Output& out, Vec<i32, L> sum, i64 row, i64 column,
                                       int columns) {
  Vec<u32, L> x = bits_of<Vec<u32, L>>(sum);
  if (out.whole_alpha != 1) x *= out.whole_alpha;
  if (out.c)
    x += bits_of<Vec<u32, L>>(load_first<L>(out.c + row * out.ldc + column, columns)) *
         out.whole_beta;
  //% if activation == relu
  const Vec<i32, L> clipped = bits_of<Vec<i32, L>>(x);
  x = bits_of<Vec<u32, L>>(clipped < 0 ? Vec<i32, L>(0) : clipped);
  //% end
  //% if epilogue == call
  if (out.activation) {
    const Vec<i32, L> clipped = bits_of<Vec<i32, L>>(x);
    x = bits_of<Vec<u32, L>>(clipped < 0 ? Vec<i32, L>(0) : clipped);
  }
  if (out.residual)
    x += bits_of<Vec<u32, L>>(load_first<L>(out.residual + row * out.ldd + column, columns));
  //% end
  //% if residual
  x += bits_of<Vec<u32, L>>(load_first<L>(out.residual + row * out.ldd + column, columns));
  //% end
  return bits_of<Vec<i32, L>>(x);
}
//% end
/// Finishes L accumulators of one row: `columns` of them exist, the first at (row, column).
template <int L>
KILN_INLINE void finish(const Output& out, Vec<Acc, L> sum, i64 row, i64 column, int columns,
                        Pass pass) {
  //% if stream_d
  TypeD* d = out.lines.at(out.d + row * out.ldd + out.lines.column, row, column);
  //% end
  //% if rows_d
  TypeD* d = out.strip.at(row, column);
  //% end
  //% if !stream_d && !rows_d
  TypeD* d = out.d + row * out.ldd + column;
  //% end
  //% if accumulate == workspace
  if (!pass.first) sum += load_first<L>(out.partial.at(row, column), columns);
  if (!pass.last) return store_first<L>(out.partial.at(row, column), sum, columns);
  //% if integer_d
  if (out.whole) {
    const Vec<i32, L> x = finished_whole<L>(out, sum, row, column, columns);
    //% if stream_rows
    return put<L>(out, d, x, columns);
    //% else
    return store_first<L>(d, x, columns);
    //% end
  }
  //% end
  //% if line_scale_a || line_scale_b
  Vec<Real, L> v = scaled<L>(out, sum, row, column, columns) * out.alpha;
  //% else
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  //% end
  if (out.c) v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
  //% else
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  if (!pass.first)
    v += load_real<L>(d, columns);
  else if (out.c)
    v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
  //% end
  //% if epilogue == call
  if (out.more && pass.last) {
    if (out.bias_kind == kBiasPerColumn) v += load_first<L>(out.bias + column, columns);
    if (out.bias_kind == kBiasPerRow) v += out.bias[row];
    if (out.activation) v = activate<L>(out.activation, v);
    if (out.residual) v += load_real<L>(out.residual + row * out.ldd + column, columns);
  }
  //% end
  //% if expressed
  if (pass.last) {
    using Value = Vec<Real, L>;
    //% include expression/loads
    //% include expression/values
  }
  //% end
  //% if amax
  if (pass.last) raise_amax<L>(out.amax, v, columns);
  //% end
  //% if !stores_d
  if (pass.last) return;  // D is absent, or stored later
  //% end
  //% if stream_rows
  put<L>(out, reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
  //% else
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
  //% end
}
//% end
//% if reduces || behind_blocks

//% include cpu/common/reduced.h
//% end
//% if behind

//% include cpu/common/behind.h
//% end
//% if reduces || behind

//% include cpu/common/reductions.h
//% end
