// What an expression stores of rows, of columns and of all elements of D, from the values that the
// steps before left in the workspace. Every chain of additions has one order: the same call gives
// the same bits. Expects abi.h, types.h, convert.h, and from the parameters Real.
#pragma once

//% if reduces_first
constexpr int kReducing = 512;  // threads of a block
//% else
constexpr int kReducing = 256;  // threads of a block of the step behind, which reduces rows
//% end
constexpr int kChains = kReducing / 32;  // of a column

KILN_DEVICE Real infinity() { return Real(bits_to_float(0x7f800000)); }

struct Sum {
  KILN_DEVICE Real of_none() { return Real(0); }
  KILN_DEVICE Real of_two(Real x, Real y) { return x + y; }
  KILN_DEVICE Real term(Real x, Real) { return x; }
};
struct Largest {
  KILN_DEVICE Real of_none() { return -infinity(); }
  KILN_DEVICE Real of_two(Real x, Real y) { return x > y ? x : (x == x ? y : x); }
  KILN_DEVICE Real term(Real x, Real) { return x; }
};
struct Smallest {
  KILN_DEVICE Real of_none() { return infinity(); }
  KILN_DEVICE Real of_two(Real x, Real y) { return x < y ? x : (x == x ? y : x); }
  KILN_DEVICE Real term(Real x, Real) { return x; }
};
//% if reduces_exponentials
/// Of e^x as shares of the largest one's.
struct Exponentials : Sum {
  KILN_DEVICE Real term(Real x, Real largest) { return Real(exp(x - largest)); }
};
struct LogSumExp {
  KILN_DEVICE Real of_none() { return -infinity(); }
};
//% end

/// Elements of a line of values, `step` apart.
struct Line {
  const Real* values;
  i64 count, step;
};

/// Of a line's elements `first`, `first` + `apart` and so on.
template <typename R>
KILN_DEVICE Real chain(const Line& line, int first, int apart, Real largest) {
  Real all = R::of_none();
  // Some loads on their way; all of them would be much code.
  _Pragma("unroll 4") for (i64 i = first; i < line.count; i += apart)
    all = R::of_two(all, R::term(line.values[i * line.step], largest));
  return all;
}

//% if together
/// How the threads of a warp reduce one line: all of them get the result.
struct WholeWarp {
  static constexpr int kThreads = 32;
  template <typename R>
  KILN_DEVICE Real of(const Line& line, Real largest) {
    Real all = chain<R>(line, int(threadIdx.x) % 32, 32, largest);
    _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
      all = R::of_two(all, __shfl_xor_sync(0xffffffff, all, apart));
    return all;
  }
};
//% end
//% if !together || reduces_first
/// How the block's threads reduce one line: all threads get the result.
struct WholeBlock {
  static constexpr int kThreads = kReducing;
  template <typename R>
  KILN_DEVICE Real of(const Line& line, Real largest) {
    const int thread = int(threadIdx.x);
    Real all = chain<R>(line, thread, kReducing, largest);
    //% if !no_shuffles
    __shared__ Real of_warp[kReducing / 32];
    _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
      all = R::of_two(all, __shfl_xor_sync(0xffffffff, all, apart));
    if (thread % 32 == 0) of_warp[thread / 32] = all;
    __syncthreads();
    all = R::of_none();
    _Pragma("unroll") for (int warp = 0; warp < kReducing / 32; ++warp)
      all = R::of_two(all, of_warp[warp]);
    //% else
    __shared__ Real of_thread[kReducing];
    of_thread[thread] = all;
    __syncthreads();
    for (int apart = kReducing / 2; apart > 0; apart /= 2) {
      if (thread < apart)
        of_thread[thread] = R::of_two(of_thread[thread], of_thread[thread + apart]);
      __syncthreads();
    }
    all = of_thread[0];
    //% end
    __syncthreads();
    return all;
  }
};
//% end
//% if reduces_columns
/// How threads reduce 32 lines, each lane its own: the threads of a lane get its result.
struct LineOfLane {
  template <typename R>
  KILN_DEVICE Real of(const Line& line, Real largest) {
    __shared__ Real of_chain[kChains][32];
    const int lane = int(threadIdx.x) % 32, first = int(threadIdx.x) / 32;
    of_chain[first][lane] = chain<R>(line, first, kChains, largest);
    __syncthreads();
    Real all = R::of_none();
    _Pragma("unroll") for (int i = 0; i < kChains; ++i) all = R::of_two(all, of_chain[i][lane]);
    __syncthreads();
    return all;
  }
};
//% end

//% if no_shuffles
/// How one of them reduces a line that no other one has.
struct OneThread {
  template <typename R>
  KILN_DEVICE Real of(const Line& line, Real largest) {
    return chain<R>(line, 0, 1, largest);
  }
};
//% end
//% if !no_shuffles
/// How lanes that lie kFirst and its doubles below kEnd apart reduce what each of them has.
template <int kFirst, int kEnd>
struct Lanes {
  template <typename R, int kCount>
  KILN_DEVICE Real of(const Real (&some)[kCount], Real largest) {
    Real all = R::term(some[0], largest);
    _Pragma("unroll") for (int i = 1; i < kCount; ++i)
      all = R::of_two(all, R::term(some[i], largest));
    _Pragma("unroll") for (int apart = kFirst; apart < kEnd; apart *= 2)
      all = R::of_two(all, __shfl_xor_sync(0xffffffff, all, apart));
    return all;
  }
};
//% end

template <typename R, typename Threads>
struct Reduced {
  template <typename Some>
  KILN_DEVICE Real of(const Some& line) {
    return Threads::template of<R>(line, Real(0));
  }
};
//% if reduces_exponentials
template <typename Threads>
struct Reduced<LogSumExp, Threads> {
  template <typename Some>
  KILN_DEVICE Real of(const Some& line) {
    const Real largest = Threads::template of<Largest>(line, Real(0));
    const bool finite = largest - largest == Real(0);
    const Real sum = Threads::template of<Exponentials>(line, finite ? largest : Real(0));
    return finite ? largest + Real(log(sum)) : largest;
  }
};
//% end

//% if overlaps
KILN_DEVICE void wait_for_previous_grid();
//% end

/// How many matrices have rows of their own: groups of rows share one.
KILN_DEVICE i64 matrices_of(const KilnGpuArgs& args) {
  //% if row_groups
  //% if masked
  return args.batch;
  //% else
  return 1;
  //% end
  //% else
  return args.batch;
  //% end
}
/// The rows of one that may be of a group.
KILN_DEVICE i64 rows_of(const KilnGpuArgs& args, i64 matrix) {
  //% if row_groups
  //% if masked
  const i64 there = static_cast<const i32*>(args.groups)[matrix];
  return there < args.m ? there : args.m;
  //% else
  return args.m;
  //% end
  //% else
  return args.m;
  //% end
}
//% if row_groups
/// Whether a row is of a group. Of those that share one matrix that is the first that ends behind
/// it, which then is in `group`, where an earlier row's was.
KILN_DEVICE bool find_group(const KilnGpuArgs& args, i64 row, i64& group) {
  //% if masked
  return true;
  //% else
  const i32* const ends = static_cast<const i32*>(args.groups);
  while (group < args.batch && ends[group] <= row) ++group;
  return group < args.batch;
  //% end
}
//% end
//% if reduces
KILN_DEVICE Real* values_of(const KilnGpuArgs& args, int i, i64 batch) {
  return static_cast<Real*>(args.outputs[i]) + batch * args.output_stride[i];
}
template <typename T>
KILN_DEVICE void store_reduced(const KilnGpuArgs& args, int i, i64 batch, i64 at, Real x) {
  static_cast<T*>(args.reduced[i])[batch * args.reduced_stride[i] + at] = from_real(x, T{});
}

//% if together
using RowTeam = WholeWarp;
//% else
using RowTeam = WholeBlock;
//% end
template <typename R, typename T, typename Team = RowTeam>
KILN_DEVICE void reduce_row(const KilnGpuArgs& args, int i, i64 batch, i64 row) {
  const Line line{values_of(args, i, batch) + row * args.output_ld[i], args.output_ld[i], 1};
  const Real x = Reduced<R, Team>::of(line);
  if (threadIdx.x % Team::kThreads == 0) store_reduced<T>(args, i, batch, row, x);
}
//% if reduces_first
//% if together
constexpr int kMostOfWarp = 256;  // values of a row; of more a block makes one
//% end
/// Calls f(batch, row) for the rows of this thread's team, `batch` being the group where rows are
/// those of groups.
template <typename Team, typename F>
KILN_DEVICE void for_rows(const KilnGpuArgs& args, i64 batch, F&& f) {
  constexpr int kTeams = kReducing / Team::kThreads;
  const i64 rows = rows_of(args, batch);
  for (i64 row = i64(blockIdx.x) * kTeams + threadIdx.x / Team::kThreads; row < rows;
       row += i64(gridDim.x) * kTeams) {
    //% if row_groups
    if (!find_group(args, row, batch)) break;
    //% end
    f(batch, row);
  }
}
template <typename R, typename T>
KILN_DEVICE void reduce_rows(const KilnGpuArgs& args, i64 batch, int i) {
  //% if together
  if (args.output_ld[i] > kMostOfWarp) {
    for_rows<WholeBlock>(args, batch,
                         [&](i64 of, i64 row) { reduce_row<R, T, WholeBlock>(args, i, of, row); });
    return;
  }
  //% end
  for_rows<RowTeam>(args, batch, [&](i64 of, i64 row) { reduce_row<R, T>(args, i, of, row); });
}
//% if reduces_columns
template <typename R, typename T>
KILN_DEVICE void reduce_columns(const KilnGpuArgs& args, i64 batch, int i) {
  const i64 ld = args.output_ld[i], lines = args.output_stride[i] / ld;
  for (i64 first = i64(blockIdx.x) * 32; first < args.n; first += i64(gridDim.x) * 32) {
    const i64 column = first + threadIdx.x % 32;
    const bool there = column < args.n;
    const Line line{values_of(args, i, batch) + (there ? column : 0), there ? lines : 0, ld};
    const Real x = Reduced<R, LineOfLane>::of(line);
    if (there && threadIdx.x < 32) store_reduced<T>(args, i, batch, column, x);
  }
}
//% end
//% if reduces_all
/// Rows, each into its first value.
template <typename R, typename T>
KILN_DEVICE void reduce_all(const KilnGpuArgs& args, i64 batch, int i) {
  for_rows<WholeBlock>(args, batch, [&](i64 of, i64 row) {
    const i64 ld = args.output_ld[i];
    Real* const values = values_of(args, i, of) + row * ld;
    const Real x = Reduced<R, WholeBlock>::of(Line{values, ld, 1});
    if (threadIdx.x == 0) *values = x;
  });
}
//% end

/// blockIdx.y is the output.
extern "C" __global__ void __launch_bounds__(kReducing)
    kiln_reduce(const __grid_constant__ KilnGpuArgs args) {
  //% if overlaps
  wait_for_previous_grid();
  //% end
  const int output = int(blockIdx.y);
  for (i64 batch = blockIdx.z; batch < matrices_of(args); batch += gridDim.z) {
    //% include expression/reductions
  }
}
//% end
//% end
//% if reduces_all

/// What is made of rows becomes what is made of all of them: a block has a batch.
template <typename R, typename T>
KILN_DEVICE void reduce_rest(const KilnGpuArgs& args, i64 batch, int i) {
  const Line line{values_of(args, i, batch), args.m, args.output_ld[i]};
  const Real x = Reduced<R, WholeBlock>::of(line);
  if (threadIdx.x == 0) store_reduced<T>(args, i, batch, 0, x);
}

extern "C" __global__ void __launch_bounds__(kReducing)
    kiln_reduce_all(const __grid_constant__ KilnGpuArgs args) {
  //% if overlaps
  wait_for_previous_grid();
  //% end
  const i64 batch = blockIdx.x;
  const int output = int(blockIdx.y);
  //% include expression/rest
}
//% end
