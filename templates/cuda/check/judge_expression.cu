// Kernels that compare what another kernel left in D, and beside it, with what an expression makes
// of products in higher precision; what it reduces and reads itself is worked out before. Expects
// intervals.h, reduced.h and judge.cu.
#pragma once

/// An element of an operand of the expression: how far apart those of neighbouring rows, columns
/// and batches are.
struct Extra {
  const void* data;
  i64 row, column, batch;
  i64 type;
};

/// What these kernels know of the expression, in the device's memory.
struct CheckedExpression {
  Precision precision;
  Extra extra[8];
  Extra reduced[4];  // an Interval for each line of what the expression reduces and reads
  Extra stored;      // what is compared: D, or an output beside it; or what such lines are put in
  i64 operands, lines, result, reduction;
  i64 puts;  // whether lines are put, not compared
  ExpressionStep steps[kMostSteps];
};

KILN_DEVICE i64 place_in(const Extra& x, i64 batch, i64 row, i64 column) {
  return batch * x.batch + row * x.row + column * x.column;
}

/// What is stored of an element of D.
KILN_DEVICE Interval stored_of(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                               const Known& known, const CheckedExpression& e, i64 batch, i64 row,
                               i64 column) {
  const i64 i = (batch * g.m + row) * g.n + column;
  double value, error, operands[8];
  Interval reduced[4];
  affine(g, t, allow, known.sums[i], known.magnitudes[i], known.c,
         batch * g.stride_c + row * g.ldc + column, row, column, value, error);
  for (int o = 0; o < e.operands; ++o)
    operands[o] =
        load(e.extra[o].data, int(e.extra[o].type), place_in(e.extra[o], batch, row, column));
  for (int r = 0; r < e.lines; ++r)
    reduced[r] = ((const Interval*)e.reduced[r].data)[place_in(e.reduced[r], batch, row, column)];
  return expression_interval(e.steps, int(e.result), e.precision, within(value, error, e.precision),
                             operands, e.lines == 0 ? nullptr : reduced, double(row),
                             double(column));
}

KILN_DEVICE void count_wrong(u64* out, i64 index) {
  atomicAdd(&out[0], 1ull);
  atomicMin(&out[1], u64(index));
}

/// As check_judge, of what is stored of each element of D, or of each line: by its first element.
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
    if ((e.stored.row == 0 && row > 0) || (e.stored.column == 0 && column > 0)) continue;
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
