// The kernel that compares what another kernel left in D with what an expression makes of products
// in higher precision. Expects intervals.h and judge.cu.
#pragma once

/// An element of an operand of the expression: how far apart those of neighbouring rows, columns
/// and batches are.
struct Extra {
  const void* data;
  i64 row, column, batch;
  i64 type;
};

/// What check_judge_expression() knows of the expression, in the device's memory.
struct CheckedExpression {
  Precision precision;
  Extra extra[8];
  i64 operands, count;
  ExpressionStep steps[kMostSteps];
};

/// As check_judge, of a D that an expression makes.
extern "C" __global__ void check_judge_expression(const __grid_constant__ KilnGpuArgs g,
                                                  const __grid_constant__ Types t,
                                                  const __grid_constant__ Allowance allow,
                                                  const double* sums, const float* magnitudes,
                                                  const void* c, u64* out,
                                                  const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  const i64 count = g.m * g.n * g.batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    double value, error, operands[8];
    affine(g, t, allow, sums[i], magnitudes[i], c, batch * g.stride_c + row * g.ldc + column, row,
           column, value, error);
    for (int o = 0; o < e.operands; ++o) {
      const Extra& x = e.extra[o];
      operands[o] = load(x.data, int(x.type), batch * x.batch + row * x.row + column * x.column);
    }
    const Interval all =
        expression_interval(e.steps, int(e.count), e.precision, within(value, error, e.precision),
                            operands, double(row), double(column));
    const double got = load(g.d, t.d, batch * g.stride_d + row * g.ldd + column);
    // Integers have no NaN: what becomes of one is 0.
    const bool nan = t.d == kS8 || t.d == kU8 || t.d == kS32 ? got == 0 : got != got;
    const bool right = (all.nan && nan) || (!is_empty(all) && got >= rounded(t.d, all.low) &&
                                            got <= rounded(t.d, all.high));
    if (right) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}
