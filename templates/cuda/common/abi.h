// The contract between a generated GPU kernel and whoever launches it: plain C, no headers, so that
// a generated source stays self-contained (this file is pasted into it).
#pragma once

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements. The
/// first parameter of every kernel, by value; tensor maps follow it in the order of GpuLaunch.
struct KilnGpuArgs {
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  void* workspace;       // 256-byte aligned
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
  //% if scales || groups || scale_d || amax || expression
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  //% end
  //% if zeros || groups || scale_d || zero_a || amax || expression
  const void* zero_b;  // as kiln's Zero says
  //% end
  //% if groups || scale_d || zero_a || amax || expression
  const void* groups;  // an int for each, as kiln's Grouping says
  //% end
  //% if scale_d || zero_a || indexed || amax || expression
  void* scale_d;  // as kiln's Scale says, lines being rows of D
  //% end
  //% if zero_a || indexed || amax || expression
  const void* zero_a;         // 32-bit integers, as kiln's Scale says
  const void* column_sums_b;  // those of op(B), 32-bit integers
  //% end
  //% if indexed || amax || expression
  const void* index_a;  // an int for each row of the product: its row of A, of D
  const void* index_d;
  long long rows_of_a, rows_of_d;
  //% end
  //% if amax || indexed == added || indexed == weighted || expression
  void* amax_d;  // one fp32
  //% end
  //% if indexed == added || indexed == weighted || expression
  const void* row_weights;  // an fp32 for each row of the product
  // Of D, to whose rows those of the product are added: `d`, `c` and `beta` are the product's then,
  // which lies in the workspace.
  void* sums;
  const void* sums_c;  // not read when sums_beta == 0
  long long ld_sums, ld_sums_c;
  double sums_beta;
  //% end
  //% if expression
  const void* extra[8];  // the expression's operands, and where their lines and batches begin
  long long extra_ld[8], extra_stride[8];
  // What it stores beside D: for each element of D a value, in the workspace if it is reduced.
  void* outputs[4];
  long long output_ld[4], output_stride[4];
  void* reduced[4];  // what the values in the workspace become
  long long reduced_stride[4];
  //% if row_groups
  long long first_row;  // of a group that shares D with others: D's row that is its first
  //% end
  //% end
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};
