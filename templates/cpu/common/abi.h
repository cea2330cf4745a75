// The contract between a generated host kernel and whoever calls it: plain C, no headers, so that a
// generated source stays self-contained (this file is pasted into it).
#pragma once

extern "C" {

/// What is divided among threads: batches, rows of D, columns, both, or k.
enum KilnParallel : int {
  kilnParallelNone,  // thread 0 does all work
  kilnParallelBatch,
  kilnParallelM,
  kilnParallelN,
  kilnParallelGrid,
  kilnParallelK
};

/// How a config divides its work. Arguments, so that configs that differ in these alone are one
/// binary; a kernel reads those that its family has.
struct KilnDivision {
  long long mc, nc, kc;  // rows, columns and k of a cache block
  int inner_columns;     // the innermost loop over tiles goes over columns, not over rows
  int parallel;          // a KilnParallel
};

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements.
struct KilnArgs {
  const void* a;
  const void* b;  // panels (panels.h) when the kernel takes a packed B
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
  KilnDivision division;
  void* workspace;    // kiln_workspace_bytes() bytes, 64-byte aligned, shared by the threads
  unsigned* barrier;  // 4 words, zero before their first use; kernels leave them fit for the next
  // What D = alpha·A·B + beta·C is followed by, read by kernels that take any epilogue.
  int bias_kind, activation, adds_residual;
  //% if scales || amax || expression
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  //% end
  //% if zeros || zero_a || amax || expression
  const void* zero_b;  // as kiln's Zero says
  //% end
  //% if groups || zero_a || amax || expression
  const void* groups;  // not read: a kernel is called for each group
  //% end
  //% if scale_d || zero_a || amax || expression
  void* scale_d;  // of no kernel that is generated
  //% end
  //% if zero_a || amax || expression
  const void* zero_a;         // 32-bit integers, as kiln's Scale says
  const void* column_sums_b;  // those of op(B), 32-bit integers
  //% end
  //% if indexed || amax || expression
  const void* index_a;  // not read: a kernel is called with rows in order
  const void* index_d;
  const void* row_weights;
  //% end
  //% if amax || expression
  void* amax_d;  // one fp32, raised to the largest magnitude of D: the caller clears it
  //% end
  //% if expression
  const void* extra[8];  // the expression's operands, and where their lines and batches begin
  long long extra_ld[8], extra_stride[8];
  // What it stores beside D: for each element of D a value, in the caller's memory if it is
  // reduced.
  void* outputs[4];
  long long output_ld[4], output_stride[4];
  long long reduced_stride[4];  // of what those values become
  void* reduced[4];
  //% end
  //% if reads_m
  long long first_row;  // of a group that shares D with others: D's row that is its first
  //% end
};

/// Values of bias_kind and activation: those of kiln::Bias and kiln::Activation. 0 is none.
enum {
  kBiasPerRow = 1,
  kBiasPerColumn = 2,
  kActivationRelu = 1,
  kActivationGeluTanh = 2,
  kActivationGeluErf = 3,
  kActivationSilu = 4
};

/// What every kernel object exports, by these names.
using KilnGemmFn = void (*)(const KilnArgs* args, int thread, int threads);  // "kiln_gemm"
// Behind it where an expression reduces, one after the other: "kiln_reduce", "kiln_reduce_rest",
// "kiln_behind". Those that have nothing to do are missing.
using KilnWorkspaceFn = long long (*)(const KilnArgs* args, int threads);  // "kiln_workspace_bytes"
/// One call on one thread of a kernel whose sizes are all constants: its operands, in registers. A
/// kernel without it is called with KilnArgs. "kiln_direct"
using KilnDirectFn = void (*)(const void* a, const void* b, const void* c, void* d,
                              const void* bias, const void* residual, double alpha, double beta);
/// How many of `threads` threads have something to do; a kernel without it uses them all.
using KilnThreadsFn = int (*)(const KilnArgs* args, int threads);  // "kiln_threads"
}
