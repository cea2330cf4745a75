// Mistakes in what generated code makes of an expression, planted one at a time: wrong indices,
// leading dimensions and batches, wrong functions, dropped casts and guards, and each piece of the
// order in which values are made. Intervals must be narrow enough to find them.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "support/mutants.h"

namespace kiln::expression_mutants_test {

using test::Base;
using test::Mutant;

const Base kSimt{
    "expression_simt", "sm_80",
    "fp32 N N 37 45 20 batch=2 epilogue=y=gelu(acc+b[n]);d=y*s[m]+r[batch,m,n]:ld=50+c[]*(n-m)",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kFunctions{
    "expression_functions", "sm_80",
    "fp32 N N 37 45 20 epilogue=d=where(acc<=b[n],tanh(acc)-exp(-abs(acc)),"
    "clamp(acc/3,-1,1)+sigmoid(acc)*log(1+relu(acc)))-rsqrt(1+acc*acc)+round(acc)+max(acc,t[n,m])",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kMma{
    "expression_mma", "sm_80", "bf16 N T 70 70 64 epilogue=d=silu(acc*s[m])+r[m,n]:fp16 align=16",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};
const Base kWgmma{"expression_wgmma", "sm_90a",
                  "bf16 N T 150 200 96 epilogue=d=relu(acc+b[n]:bf16)*r[m,n]-t[n,m]:fp32;"
                  "y[m,n]:fp32=acc;g[n]=max(where(acc==0,acc/acc,acc));q[m]=sum(acc+1);"
                  "l[n]=logsumexp(acc) align=16",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};

const Base kOutputs{
    "expression_outputs", "sm_80",
    "fp32 N N 37 45 20 batch=2 epilogue=d=relu(acc);q[batch,m]=sum(acc*acc);"
    "t[batch,n,m]:fp16:ld=40=acc;a[batch]=max(acc);s[batch,n]=logsumexp(acc)",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kLowest{
    "expression_lowest", "sm_80",
    "bf16 N T 70 700 64 "
    "epilogue=d=acc;y[m,n]:fp32=acc*s[m];l[m]=min(abs(acc)+1);e[m]=logsumexp(acc)"
    ";c[n]=sum(acc) align=16",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};

const Base kBehind{
    "expression_behind", "sm_80",
    "fp32 N N 37 45 20 batch=2 epilogue=y=acc+r[batch,m,n];s[batch,m]=max(abs(y))/3;"
    "d=y/s[batch,m]*c[n]",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kAcross{
    "expression_across", "sm_80",
    "bf16 N T 70 1300 64 epilogue=d=acc-sum[n](acc)/70+max[](acc);t[n]=sum(acc) align=16",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};
const Base kWgmmaBehind{
    "expression_wgmma_behind", "sm_90a",
    "bf16 N T 150 200 96 epilogue=y=acc+b[n];d=y*rsqrt(sum[m](y*y)/200+1)*g[n] align=16",
    CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};

const Base kHost{
    "expression_host", "sm_80",
    "fp32 N N 37 45 20 epilogue=d=acc*s[]:host:fp64+t[]:host;q[m]=sum(acc*t[])",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kHostBehind{"expression_host_behind", "sm_90a",
                       "bf16 N T 150 200 96 epilogue=y=acc*s[]:host;"
                       "d=y*rsqrt(sum[m](y*y)/200+t[]:bf16:host)*g[n] align=16",
                       CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
const Base kHipHost{
    "expression_hip_host", "gfx942",
    "fp32 N N 37 45 20 epilogue=d=acc*s[]:fp64:host-max[m](acc)*t[]:fp16:host",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};
const Base kHip{
    "expression_hip", "gfx942",
    "fp32 N N 37 300 20 batch=2 epilogue=y=tanh(acc)*s[m]+log(1+abs(acc))*b[n];"
    "d=y+r[batch,n,m]:ld=40-y/max[n](abs(acc)+1);q[batch,m]=logsumexp(acc);t[batch,n,m]:fp16=acc",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};
const Base kHipRows{
    "expression_hip_rows", "gfx90a",
    "bf16 N T 70 90 64 epilogue=y=gelu(acc)+r[m,n];d=erf(y)*rsqrt(sum[m](y*y)/90+1) align=16",
    HipMfma{.rows = 16,
            .k = 16,
            .tile_m = 64,
            .tile_n = 64,
            .depth = 64,
            .waves_m = 2,
            .waves_n = 2,
            .chunk = 0}};

const Base kHipFp8{
    "expression_hip_fp8", "gfx942",
    "fp32 N N 37 45 20 out=fp8_e4m3 "
    "epilogue=d=where(acc<0,acc/1000,where(acc==0,acc/acc,where(m<20,acc,acc*50)))",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};
const Base kHipS8{
    "expression_hip_s8", "gfx942",
    "fp32 N N 37 45 20 out=s8 epilogue=d=where(acc==0,acc/acc,acc*9+0.5)",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};
const Base kCasts{
    "expression_casts", "sm_80",
    "fp32 N N 37 45 20 epilogue=y=where(acc==0,acc/acc,where(m<20,acc,acc*50));"
    "d=acc-bf16(acc)+(acc-fp16(acc*1000)/1000);w[m,n]=fp8_e4m3(y);z[m,n]=s8(y*9+0.5)",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kHipCasts{
    "expression_hip_casts", "gfx942",
    "fp32 N N 37 45 20 epilogue=y=where(acc==0,acc/acc,where(m<20,acc,acc*50));"
    "d=acc-bf16(acc*257)+(acc-fp16(acc*1000)/1000);w[m,n]=fp8_e4m3(y);z[m,n]=s8(y*9+0.5)",
    HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 0}};
const Base kFp8{"expression_fp8", "sm_80", "fp32 N N 37 45 20 out=fp8_e4m3 epilogue=d=acc*b[n]",
                CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};

const std::vector<Mutant> kMutants{
    {&kSimt, "reads the rows' operand by column", "out.x1[row]", "out.x1[column]"},
    {&kSimt, "reads the columns' operand by row", "out.x0[column]", "out.x0[row]"},
    {&kSimt, "takes D's leading dimension", "row * out.ld2", "row * out.ldd"},
    {&kSimt, "gives all batches the first matrix", " + batch * args.extra_stride[2]", ""},
    {&kSimt, "takes another operand's pointer", "args.extra[3]", "args.extra[0]"},
    {&kSimt, "exchanges the indices", "Real(column) - Real(row)", "Real(row) - Real(column)"},
    {&kSimt, "leaves out the last addition", "fused(x.x3, ", "fused(Real(0) * x.x3, "},
    {&kSimt, "applies the function after the product", "gelu_tanh(acc + x.x0)",
     "gelu_tanh(acc) + x.x0"},
    {&kSimt, "drops a cubic term", "Real(0.1029432395800235)", "Real(0.1029)"},
    {&kFunctions, "compares without equality and on the other side", "acc <= x.x0", "acc > x.x0"},
    {&kFunctions, "takes tanh for x", "return size < 0.625f ? near", "return size < 1.5f ? x"},
    {&kFunctions, "cuts a coefficient of tanh", "0.333333289f", "0.3333f"},
    {&kFunctions, "divides by what is nearly the number", "1.0 / 3.0", "0.3333"},
    {&kFunctions, "clamps on one side", "smaller(larger(x, low), high)", "larger(x, low)"},
    {&kFunctions, "rounds towards zero", "return rint(x)", "return Real(int(x))"},
    {&kFunctions, "drops the sign of a magnitude", "return fabs(x)", "return x"},
    {&kFunctions, "takes another logarithm", "return log(x)", "return log(x) * Real(1.0001)"},
    {&kFunctions, "takes a root for its inverse", "return rsqrt(x)", "return Real(1) / x"},
    {&kFunctions, "reads a column-major operand by rows", "column * out.ld1 + row",
     "row * out.ld1 + column"},
    {&kHost, "takes a value for an address", "value_in<float>(args.extra[1])",
     "*static_cast<const float*>(args.extra[1])"},
    {&kHost, "takes half of a value's bits", "value_in<double>(args.extra[0])",
     "value_in<float>(args.extra[0])"},
    {&kHost, "takes another operand's value", "(args.extra[1])", "(args.extra[0])"},
    {&kHostBehind, "takes another value behind the reductions", "value_in<Bfloat>(args.extra[1])",
     "value_in<Bfloat>(args.extra[0])"},
    {&kHostBehind, "takes the upper half of a value's bits", "x.all = bits;",
     "x.all = (const void*)((unsigned long long)bits >> 8);"},
    {&kHipHost, "takes half of a value's bits", "value_in<double>(args.extra[0])",
     "value_in<float>(args.extra[0])"},
    {&kHipHost, "takes another operand's value", "(args.extra[1])", "(args.extra[0])"},
    {&kMma, "reads half precision as bf16", "Half{load_if(", "Bfloat{load_if("},
    {&kMma, "loads the next column", "extras_at(out, row, column + e)",
     "extras_at(out, row, column + e + 1)"},
    {&kMma, "takes the neighbour's operands", "extras[e + s]", "extras[e + s ^ 1]"},
    {&kWgmma, "takes the first element's operands", "extras[e]))", "extras[0]))"},
    {&kWgmma, "loads the operands of another row", "left + (e & 2) * 4, r",
     "left + (e & 2) * 2, r"},
    {&kWgmma, "adds what is subtracted", ", -x.x2)", ", x.x2)"},
    {&kWgmma, "clips on the other side", "return x < Real(0) ? Real(0) : x;",
     "return x > Real(0) ? Real(0) : x;"},
    {&kOutputs, "stores an output by rows", "out.y1[column * out.ldy1 + row]",
     "out.y1[row * out.ldy1 + column]"},
    {&kOutputs, "stores what D gets", "x.y1 = acc;", "x.y1 = v;"},
    {&kOutputs, "gives all batches the first output", " + batch * args.output_stride[1]", ""},
    {&kOutputs, "reduces the first batch alone", "static_cast<Real*>(args.outputs[i]) + batch *",
     "static_cast<Real*>(args.outputs[i]) + 0 *"},
    {&kOutputs, "gives all batches one place", "[batch * args.reduced_stride[i] + at]", "[at]"},
    {&kOutputs, "sums the largest", "reduce_rows<Sum,", "reduce_rows<Largest,"},
    {&kOutputs, "takes the smallest", "return x > y ? x : (x == x ? y : x)",
     "return x < y ? x : (x == x ? y : x)"},
    {&kOutputs, "leaves out the last element", "i < line.count", "i + 1 < line.count"},
    {&kOutputs, "reads a column as a row", "there ? lines : 0, ld}", "there ? lines : 0, 1}"},
    {&kOutputs, "leaves out the largest", "? largest + Real(log(sum))", "? Real(log(sum))"},
    {&kOutputs, "reduces all of one row", "args.m, args.output_ld[i]}", "1, args.output_ld[i]}"},
    {&kOutputs, "leaves out a chain", "i < kChains; ++i) all", "i < kChains - 1; ++i) all"},
    {&kWgmma, "sums one half twice", "term(g * 4 + half * 2 + odd)", "term(g * 4 + odd)"},
    {&kWgmma, "forgets lanes of a row", "Lanes<1, 4>", "Lanes<1, 2>"},
    {&kWgmma, "forgets lanes of a column", "Lanes<4, 32>", "Lanes<4, 16>"},
    {&kWgmma, "takes in what lies past the last column",
     "row_of(l, r) < out.rows && column_of(l, r) < out.columns ? value(e)",
     "row_of(l, r) < out.rows ? value(e)"},
    {&kWgmma, "leaves a part where the next one goes", "first / count * ld + line",
     "(first / count + 1) / 2 * ld + line"},
    {&kWgmma, "keeps the part of another line", "keep(left + half * 8,", "keep(left + half * 4,"},
    {&kWgmma, "stores past the last column",
     "if (row >= out.rows || column >= out.columns) return;\n  out.y0",
     "if (row >= out.rows) return;\n  out.y0"},
    {&kWgmma, "stores past the last row",
     "if (row >= out.rows || column >= out.columns) return;\n  out.y0",
     "if (column >= out.columns) return;\n  out.y0"},
    {&kWgmma, "takes the second of two for the first", "x = real_of_bits(u16(word), T{})",
     "x = real_of_bits(u16(word >> 16), T{})"},
    {&kWgmma, "reads two of a vector at the row", "word_of_line(out.x0 + column)",
     "word_of_line(out.x0 + row)"},
    {&kWgmma, "takes the first for its neighbour", "bits_if(out.x2 + (column + kRight) *",
     "bits_if(out.x2 + column *"},
    {&kWgmma, "leaves out an element at an edge", "column + kRight < out.columns",
     "column + kRight + 1 < out.columns"},
    {&kWgmma, "exchanges two that are stored", "+ column, x.y0, y.y0)", "+ column, y.y0, x.y0)"},
    {&kWgmma, "takes a tile at an edge for a whole one", "right0 + kRightTile <=", "right0 <="},
    {&kWgmma, "reads for the turn before", "at, turn + 1, lane);", "at, turn, lane);"},
    {&kWgmma, "finishes a turn's sums at the next columns", "(kHeld * 2);\n    Acc some[kHeld];",
     "(kHeld * 2) + 2;\n    Acc some[kHeld];"},
    {&kLowest, "begins at 0", "return infinity();", "return Real(0);"},
    {&kWgmma, "takes a NaN for a number", "return x > y ? x : (x == x ? y : x)",
     "return x > y ? x : y"},
    {&kLowest, "adds shares of another base", "exp(x - largest)", "exp(x)"},
    {&kLowest, "adds half of the chains", "warp < kReducing / 32", "warp < kReducing / 64"},
    {&kLowest, "adds half of a warp", "int apart = 16; apart > 0; apart /= 2",
     "int apart = 8; apart > 0; apart /= 2"},
    {&kBehind, "gives all batches the first one's lines", " + batch * args.reduced_stride[1]", ""},
    {&kBehind, "gives all batches the first one's values",
     " + batch * args.output_stride[2];\n  out.ld3", ";\n  out.ld3"},
    {&kBehind, "reads another row's reduction", "to_real(out.x2[row])", "to_real(out.x2[row / 2])"},
    {&kBehind, "reads a row's value by column", "all.x3, out.x3 + row *", "all.x3, out.x3 + 0 *"},
    {&kBehind, "keeps the product for what is made of it", "x.y2 = t0;", "x.y2 = acc;"},
    {&kBehind, "reduces without magnitudes", "absolute(t0)", "t0"},
    {&kBehind, "stores a row's value before it is divided", "x.y0 = t0;", "x.y0 = x.x2;"},
    {&kBehind, "divides by what is not divided", "divided(x.x3, t0)", "divided(x.x3, x.x2)"},
    {&kBehind, "stores a row's value at the next one", "out.y0[row] =", "out.y0[row + 1] ="},
    {&kBehind, "stores one row's value alone", "if (column == 0) out.y0",
     "if (row == 0 && column == 0) out.y0"},
    {&kBehind, "leaves out the last row", "const i64 rows = rows_of(args, matrix);",
     "const i64 rows = rows_of(args, matrix) - 1;"},
    {&kAcross, "leaves out a second piece of a row", "const i64 first = piece + own;",
     "const i64 first = own;"},
    {&kAcross, "reads a column's reduction at the row", "all.x0, out.x0 + first",
     "all.x0, out.x0 + row"},
    {&kAcross, "reads the largest of the columns' sums", "args.reduced[2])", "args.reduced[1])"},
    {&kAcross, "leaves out elements of a thread",
     "i < kTogetherBehind; ++i)\n    d[i] =", "i < kTogetherBehind - 1; ++i)\n    d[i] ="},
    {&kAcross, "divides by another number", "1.0 / 70.0", "1.0 / 64.0"},
    {&kWgmmaBehind, "leaves values at another place", "store_shared_pair(buffer",
     "store_shared_pair(64 + buffer"},
    {&kWgmmaBehind, "reads before the product is stored", "args.outputs[1]) + batch",
     "args.outputs[0]) + batch"},
    {&kWgmmaBehind, "takes the sum for its mean", "Value(Real(1.0 / 200.0))", "Value(Real(1.0))"},
    {&kHip, "reads another row's operand", "out.x0[row]", "out.x0[row / 2]"},
    {&kHip, "reads a column-major operand by rows", "out.x2[column * out.ld2 + row]",
     "out.x2[row * out.ld2 + column]"},
    {&kHip, "gives all batches the first matrix", " + batch * args.extra_stride[2]", ""},
    {&kHip, "cuts a coefficient of the logarithm", "0.666666667f", "0.66f"},
    {&kHip, "takes the exponent of a denormal", "0x3f3504f3u;\n  const int",
     "0x3f000000u;\n  const int"},
    {&kHip, "cuts a coefficient of tanh", "0.333333289f", "0.3333f"},
    {&kHip, "stores an output by rows", "out.y1[column * out.ldy1 + row]",
     "out.y1[row * out.ldy1 + column]"},
    {&kHip, "adds half of a block", "int apart = kReducing / 2", "int apart = kReducing / 4"},
    {&kHip, "reduces columns as rows", "reduce_columns<Largest", "reduce_rows<Largest"},
    {&kHip, "reads a column's reduction at the row", "all.x3, out.x3 + first",
     "all.x3, out.x3 + row"},
    {&kHipRows, "keeps the product for what is made of it", "x.y1 = error_function(t0);",
     "x.y1 = error_function(acc);"},
    {&kHipRows, "drops a cubic term", "Real(0.044715)", "Real(0.0447)"},
    {&kHipRows, "cuts a coefficient of erf", "0.376126267f", "0.3761f"},
    {&kHipRows, "leaves out the squares", "x.y0 = t0 * t0;", "x.y0 = t0;"},
    {&kHipFp8, "makes the largest number of a NaN", "if (magnitude > 0x7f800000) return",
     "if (false) return"},
    {&kHipFp8, "goes on where it saturates", "(code > 0x7e ? 0x7e : code)", "code"},
    {&kHipFp8, "rounds ties up", "0x7ffff + (magnitude >> 20 & 1)", "0x80000"},
    {&kHipFp8, "cuts what is rounded", "magnitude + 0x7ffff + (magnitude >> 20 & 1)", "magnitude"},
    {&kHipFp8, "takes a denormal for a normal number", "magnitude < 0x3c800000",
     "magnitude < 0x3c000000"},
    {&kHipFp8, "drops the sign", "u8(sign | (code", "u8((code"},
    {&kHipS8, "wraps where it saturates", "i8(y < -128 ? -128 : y > 127 ? 127 : y)", "i8(y)"},
    {&kHipS8, "rounds towards zero", "__builtin_rintf(float(x))", "__builtin_truncf(float(x))"},
    {&kHipS8, "makes another number of a NaN", "y == y ? i32(y) : 0", "y == y ? i32(y) : 1"},
    {&kFp8, "reads C with another bias", "0x1p120f", "0x1p119f"},
    {&kCasts, "leaves out a cast", "return to_real(from_real(x, Bfloat{}))", "return x"},
    {&kCasts, "rounds to another type", "to_real(from_real(x, Half{}))",
     "to_real(from_real(x, Bfloat{}))"},
    {&kCasts, "goes on where it saturates", "(code > 0x7e ? 0x7e : code)", "code"},
    {&kCasts, "wraps where it saturates", "i8(y < -128 ? -128 : y > 127 ? 127 : y)", "i8(y)"},
    {&kHipCasts, "leaves out a cast", "return to_real(from_real(x, Half{}))", "return x"},
    {&kHipCasts, "rounds towards zero", "(bits + 0x7fff + ((bits >> 16) & 1)) >> 16", "bits >> 16"},
    {&kHipCasts, "rounds ties up", "bits + 0x7fff + ((bits >> 16) & 1)", "bits + 0x8000"},
    {&kHipCasts, "cuts what is rounded", "magnitude + 0x7ffff + (magnitude >> 20 & 1)",
     "magnitude"},
    {&kHipCasts, "makes another number of a NaN", "y == y ? i32(y) : 0", "y == y ? i32(y) : 1"},
    {&kLowest, "skips rows of a column", "chain<R>(line, first, kChains,",
     "chain<R>(line, first, kChains + 1,"},
};

TEST(ExpressionMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(ExpressionMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kSimt, &kFunctions, &kMma, &kWgmma, &kOutputs, &kLowest, &kBehind, &kAcross,
                      &kWgmmaBehind, &kHost, &kHostBehind, &kHipHost, &kHip, &kHipRows, &kHipFp8,
                      &kHipS8, &kCasts, &kHipCasts, &kFp8});
}

}  // namespace kiln::expression_mutants_test
