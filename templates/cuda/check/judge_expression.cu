// Kernels that compare what another kernel left in D, and beside it, with what an expression makes
// of products in higher precision; what it reduces and reads itself is worked out before. Expects
// intervals.h, reduced.h and judge.cu.
#pragma once

/// Memory of an expression: how far apart its elements of neighbouring rows, columns and batches
/// are (0: all rows, or all columns, share one), and how many neighbouring rows and columns of D
/// share one.
struct Extra {
  const void* data;
  i64 row, column, batch;
  i64 type;
  i64 per_row, per_column;
};

/// What these kernels know of the expression, in the device's memory.
struct CheckedExpression {
  Precision precision;
  Extra extra[8];
  Extra reduced[kMostReduced];  // an Interval for each line and block that is reduced and read
  Extra stored;  // what is compared: D, or an output beside it; or what such intervals are put in
  i64 operands, lines, result, reduction;
  i64 puts;         // whether intervals are put, not compared
  i64 rows_before;  // that a D which groups share has before this product's
  ExpressionStep steps[kMostSteps];
};

KILN_DEVICE i64 place_in(const Extra& x, i64 batch, i64 row, i64 column) {
  // Few are shared, and a division of 64 bits is dear.
  if (x.per_row != 1) row /= x.per_row;
  if (x.per_column != 1) column /= x.per_column;
  return batch * x.batch + row * x.row + column * x.column;
}

/// Whether a row, or a column, is the first of those that share an element.
KILN_DEVICE bool is_first(i64 step, i64 per, i64 at) {
  return step == 0 ? at == 0 : per == 1 || at % per == 0;
}

/// What is stored of an element of D.
KILN_DEVICE Interval stored_of(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                               const Known& known, const CheckedExpression& e, i64 batch, i64 row,
                               i64 column) {
  const bool two = allow.gate != 0;
  const i64 line = (batch * g.m + row) * (two ? 2 * g.n : g.n);
  Interval products[2], reduced[kMostReduced];
  for (int p = 0; p < (two ? 2 : 1); ++p) {
    // Of the product's columns.
    const i64 at = !two ? column : allow.interleaved ? 2 * column + p : p * g.n + column;
    double value, error;
    affine(g, t, allow, known.sums[line + at], known.magnitudes[line + at], known.c,
           batch * g.stride_c + row * g.ldc + column, row, at, value, error);
    products[p] = within(value, error, e.precision);
  }
  double operands[8];
  for (int o = 0; o < e.operands; ++o)
    operands[o] =
        load(e.extra[o].data, int(e.extra[o].type), place_in(e.extra[o], batch, row, column));
  for (int r = 0; r < e.lines; ++r)
    reduced[r] = ((const Interval*)e.reduced[r].data)[place_in(e.reduced[r], batch, row, column)];
  return expression_interval(e.steps, int(e.result), e.precision, products, operands,
                             e.lines == 0 ? nullptr : reduced, double(e.rows_before + row),
                             double(column));
}

KILN_DEVICE void count_wrong(u64* out, i64 index) {
  atomicAdd(&out[0], 1ull);
  atomicMin(&out[1], u64(index));
}

/// As check_judge, of what is stored of each element of D, or of each line or block: by its first
/// element.
extern "C" __global__ void check_judge_expression(const __grid_constant__ KilnGpuArgs g,
                                                  const __grid_constant__ Types t,
                                                  const __grid_constant__ Allowance allow,
                                                  const double* sums, const float* magnitudes,
                                                  const void* c, u64* out,
                                                  const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  const int type = int(e.stored.type);
  const i64 count = g.m * g.n * g.batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    if (!is_first(e.stored.row, e.stored.per_row, row) ||
        !is_first(e.stored.column, e.stored.per_column, column))
      continue;
    const Interval all = stored_of(g, t, allow, {sums, magnitudes, c}, e, batch, row, column);
    const double got = load(e.stored.data, type, place_in(e.stored, batch, row, column));
    // Integers have no NaN: what becomes of one is 0.
    const bool nan = type == kS8 || type == kU8 || type == kS32 ? got == 0 : got != got;
    const bool right = (all.nan && nan) || (!is_empty(all) && got >= rounded(type, all.low) &&
                                            got <= rounded(type, all.high));
    if (!right) count_wrong(out, i);
  }
}

KILN_DEVICE bool is_right(const ExpectedReduction& want, int type, double got, const Precision& p) {
  if (!is_finite(want.error, p)) return true;
  if (want.value != want.value) return got != got;
  return got == want.value || (got >= rounded(type, want.value - want.error) &&
                               got <= rounded(type, want.value + want.error));
}

/// The same of what is made of rows, of columns or of all elements, by a block each: out[1] is the
/// least index of a line's first element. Or puts it where check_judge_expression reads it.
extern "C" __global__ void check_reduction(const __grid_constant__ KilnGpuArgs g,
                                           const __grid_constant__ Types t,
                                           const __grid_constant__ Allowance allow,
                                           const double* sums, const float* magnitudes,
                                           const void* c, u64* out,
                                           const CheckedExpression* expression) {
  __shared__ ReducedElements of_thread[kCheckThreads];
  const CheckedExpression& e = *expression;
  const Precision& p = e.precision;
  // Along which indices of D a line runs.
  const i64 rows = e.stored.row == 0 ? g.m : 1, columns = e.stored.column == 0 ? g.n : 1;
  const i64 lines_of_rows = g.m / rows, lines_of_columns = g.n / columns;
  for (i64 i = blockIdx.x; i < g.batch * lines_of_rows * lines_of_columns; i += gridDim.x) {
    const i64 batch = i / (lines_of_rows * lines_of_columns);
    const i64 row0 = i / lines_of_columns % lines_of_rows, column0 = i % lines_of_columns;
    ReducedElements all = no_elements(int(e.reduction), p);
    for (i64 j = threadIdx.x; j < rows * columns; j += blockDim.x) {
      const Interval one = stored_of(g, t, allow, {sums, magnitudes, c}, e, batch,
                                     row0 + j / columns, column0 + j % columns);
      const ExpectedReduction expected = expected_in(one, p);
      take_in(all, expected.value, expected.error, p);
    }
    of_thread[threadIdx.x] = all;
    __syncthreads();
    for (unsigned apart = kCheckThreads / 2; apart > 0; apart /= 2) {
      if (threadIdx.x < apart)
        of_thread[threadIdx.x] = merged(of_thread[threadIdx.x], of_thread[threadIdx.x + apart], p);
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      const ExpectedReduction want = expected_of(of_thread[0], p);
      const i64 at = place_in(e.stored, batch, row0, column0);
      if (e.puts != 0)
        ((Interval*)e.stored.data)[at] = interval_of(want, p);
      else if (!is_right(want, int(e.stored.type), load(e.stored.data, int(e.stored.type), at), p))
        count_wrong(out, (batch * g.m + row0) * g.n + column0);
    }
    __syncthreads();
  }
}

/// What a right kernel may make of one block, whose first element this is: of `rows` × `columns`
/// elements, which are fewer at D's edge.
KILN_DEVICE Interval block_of(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                              const Known& known, const CheckedExpression& e, i64 batch, i64 row0,
                              i64 column0, i64 rows, i64 columns) {
  const int how = int(e.reduction);
  const auto element = [&](i64 i) {
    return stored_of(g, t, allow, known, e, batch, row0 + i / columns, column0 + i % columns);
  };
  // One of two neighbours is as it is; without the odd one, the even one.
  if (how == reduce_even || how == reduce_odd)
    return element(how == reduce_odd && rows * columns > 1 ? 1 : 0);
  ReducedElements all = no_elements(how, e.precision);
  for (i64 i = 0; i < rows * columns; ++i) {
    const ExpectedReduction one = expected_in(element(i), e.precision);
    take_in(all, one.value, one.error, e.precision);
  }
  return interval_of(expected_of(all, e.precision), e.precision);
}

/// Puts what is made of blocks, of so few elements that a thread takes in all of them, where
/// check_judge_expression reads it.
extern "C" __global__ void check_put_blocks(const __grid_constant__ KilnGpuArgs g,
                                            const __grid_constant__ Types t,
                                            const __grid_constant__ Allowance allow,
                                            const double* sums, const float* magnitudes,
                                            const void* c, u64*,
                                            const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  const i64 per_row = e.stored.per_row, per_column = e.stored.per_column;
  const i64 lines = (g.m + per_row - 1) / per_row, blocks = (g.n + per_column - 1) / per_column;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < g.batch * lines * blocks;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (lines * blocks);
    const i64 row0 = i / blocks % lines * per_row, column0 = i % blocks * per_column;
    const i64 rows = g.m - row0 < per_row ? g.m - row0 : per_row;
    const i64 columns = g.n - column0 < per_column ? g.n - column0 : per_column;
    ((Interval*)e.stored.data)[place_in(e.stored, batch, row0, column0)] =
        block_of(g, t, allow, {sums, magnitudes, c}, e, batch, row0, column0, rows, columns);
  }
}

/// check_add_rows() of what an expression makes of each element.
extern "C" __global__ void check_add_expressed(const __grid_constant__ KilnGpuArgs g,
                                               const __grid_constant__ Types t,
                                               const __grid_constant__ Allowance allow,
                                               const double* sums, const float* magnitudes,
                                               const int* index, const float* weights,
                                               i64 rows_of_d, double* values, double* errors,
                                               const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  for (i64 column = blockIdx.x * i64(blockDim.x) + threadIdx.x; column < g.n;
       column += i64(gridDim.x) * blockDim.x)
    for (i64 row = 0; row < g.m; ++row) {
      if (index[row] < 0) continue;
      const i64 to = index[row] < rows_of_d ? index[row] : rows_of_d - 1, at = to * g.n + column;
      const Interval all = stored_of(g, t, allow, {sums, magnitudes, nullptr}, e, 0, row, column);
      const ExpectedReduction one = expected_in(all, e.precision);
      const double weight = weights == nullptr ? 1 : double(weights[row]);
      errors[at] += fabs(weight) * one.error;
      add_term(weight * one.value, 2 * allow.per_residual, values[at], errors[at]);
    }
}
