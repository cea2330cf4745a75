// What an expression stores that is made of what it reduces: the last step of a call, behind the
// reductions. Expects epilogue.h.
#pragma once

constexpr int kBehind = 256, kTogetherBehind = 4;  // threads of a block; elements of a thread

/// Pointers of one batch.
struct Behind {
  TypeD* d;
  i64 ldd;
  //% include expression/behind_members
};
KILN_DEVICE Behind behind_of(const KilnGpuArgs& args, i64 batch) {
  Behind out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.ldd = args.ldd;
  //% include expression/behind_pointers
  return out;
}

/// What is read of one element, and what is stored beside D.
struct ReadBehind {
  //% include expression/behind_fields
};
KILN_DEVICE ReadBehind read_behind(const Behind& out, i64 row, i64 column) {
  using Value = Real;
  [[maybe_unused]] const bool in_row = true, in_column = true;
  ReadBehind x;
  //% include expression/behind_loads
  return x;
}
KILN_DEVICE void store_behind(const Behind& out, i64 row, i64 column, ReadBehind& x) {
  using Value = Real;
  Real v = Real(0);
  //% include expression/behind_values
  //% include expression/behind_stored
  //% if behind_d
  out.d[row * out.ldd + column] = from_real(v, TypeD{});
  //% end
}

/// Blocks have pieces of rows.
extern "C" __global__ void __launch_bounds__(kBehind)
    kiln_behind(const __grid_constant__ KilnGpuArgs args) {
  //% if behind_rows
  const i64 rows = args.m;
  //% else
  const i64 rows = 1;
  //% end
  //% if behind_columns
  const i64 columns = args.n;
  //% else
  const i64 columns = 1;
  //% end
  const i64 pieces = ceil_div(columns, kBehind * kTogetherBehind);
  for (i64 any = blockIdx.x; any < args.batch * rows * pieces; any += gridDim.x) {
    const i64 line = any / pieces, row = line % rows;
    const i64 first = any % pieces * (kBehind * kTogetherBehind) + threadIdx.x;
    const Behind out = behind_of(args, line / rows);
    ReadBehind x[kTogetherBehind];
    _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i) {
      const i64 column = first + i * kBehind;
      x[i] = read_behind(out, row, column < columns ? column : columns - 1);
    }
    _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
      if (first + i * kBehind < columns) store_behind(out, row, first + i * kBehind, x[i]);
  }
}
