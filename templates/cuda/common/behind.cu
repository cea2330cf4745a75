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

/// What is read of one element, what its blocks are reduced to, and what is stored beside D.
struct ReadBehind {
  //% include expression/behind_fields
  //% if behind_blocks
  //% include expression/block_fields
  //% end
};

/// Neighbours of a row of memory, as one access has them.
template <typename T>
struct alignas(sizeof(T) * kTogetherBehind < 16 ? sizeof(T) * kTogetherBehind : 16) Neighbours {
  T element[kTogetherBehind];
};
template <typename T>
KILN_DEVICE bool in_one_access(const T* place, i64 left) {
  return left >= kTogetherBehind &&
         (reinterpret_cast<u64>(place) & (alignof(Neighbours<T>) - 1)) == 0;
}
/// Those of `left` elements that are there; 0 for others.
template <typename T>
KILN_DEVICE void load_some(Real (&to)[kTogetherBehind], const T* from, i64 left) {
  if (in_one_access(from, left)) {
    const Neighbours<T> some = *reinterpret_cast<const Neighbours<T>*>(from);
    _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i) to[i] = to_real(some.element[i]);
    return;
  }
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    to[i] = i < left ? Real(to_real(from[i])) : Real(0);
}
template <typename T, typename Value>
KILN_DEVICE void store_some(T* to, i64 left, Value value) {
  Neighbours<T> some;
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    some.element[i] = from_real(value(i), T{});
  if (in_one_access(to, left)) {
    *reinterpret_cast<Neighbours<T>*>(to) = some;
    return;
  }
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    if (i < left) to[i] = some.element[i];
}

/// What is read of memory in which neighbours lie side by side.
struct SomeBehind {
  //% include expression/behind_some
};
KILN_DEVICE SomeBehind some_behind(const Behind& out, i64 row, i64 first, i64 left) {
  SomeBehind all;
  //% include expression/behind_some_loads
  return all;
}
/// Of number i of them.
KILN_DEVICE ReadBehind read_behind(const Behind& out, const SomeBehind& all, int i, i64 row,
                                   i64 column) {
  using Value = Real;
  [[maybe_unused]] const bool in_row = true, in_column = true;
  ReadBehind x;
  //% include expression/behind_loads
  return x;
}
//% if behind_blocks
KILN_DEVICE void keep_for_blocks(i64 row, i64 column, ReadBehind& x) {
  using Value = Real;
  //% include expression/block_values
}

struct Even {};
struct Odd {};
/// Lanes have kTogetherBehind neighbours, of which `left` and more are there; a block of kSize
/// begins at a multiple of it. All elements of a block get in `of` what becomes of theirs.
template <typename R, int kSize>
struct BlockOf {
  template <typename Of>
  KILN_DEVICE void reduce(ReadBehind (&x)[kTogetherBehind], i64 left, Of of) {
    //% if !no_shuffles
    constexpr int kEach = kSize < kTogetherBehind ? kSize : kTogetherBehind;
    _Pragma("unroll") for (int first = 0; first < kTogetherBehind; first += kEach) {
      Real some[kEach];
      _Pragma("unroll") for (int i = 0; i < kEach; ++i)
        some[i] = first + i < left ? of(x[first + i]) : R::of_none();
      const Real all = Reduced<R, Lanes<1, kSize / kEach>>::of(some);
      _Pragma("unroll") for (int i = 0; i < kEach; ++i) of(x[first + i]) = all;
    }
    //% else
    __shared__ Real of_all[kBehind * kTogetherBehind];
    const int own = int(threadIdx.x) * kTogetherBehind;
    for (int i = 0; i < kTogetherBehind; ++i) of_all[own + i] = i < left ? of(x[i]) : R::of_none();
    __syncthreads();
    for (int i = 0; i < kTogetherBehind; ++i) {
      const Line block{of_all + (own + i) / kSize * kSize, kSize, 1};
      of(x[i]) = Reduced<R, OneThread>::of(block);
    }
    __syncthreads();
    //% end
  }
};
template <>
struct BlockOf<Even, 2> {
  template <typename Of>
  KILN_DEVICE void reduce(ReadBehind (&x)[kTogetherBehind], i64, Of of) {
    _Pragma("unroll") for (int i = 0; i < kTogetherBehind; i += 2) of(x[i + 1]) = of(x[i]);
  }
};
template <>
struct BlockOf<Odd, 2> {
  template <typename Of>
  KILN_DEVICE void reduce(ReadBehind (&x)[kTogetherBehind], i64 left, Of of) {
    _Pragma("unroll") for (int i = 0; i < kTogetherBehind; i += 2)
      if (i + 1 < left) of(x[i]) = of(x[i + 1]);
  }
};
template <typename R, int kSize, typename Of>
KILN_DEVICE void reduce_block(ReadBehind (&x)[kTogetherBehind], i64 left, Of of) {
  BlockOf<R, kSize>::reduce(x, left, of);
}
KILN_DEVICE void reduce_blocks(ReadBehind (&x)[kTogetherBehind], i64 left) {
  //% include expression/blocks_reduced
}
//% end
/// What D gets; what else is stored is left in `x`.
KILN_DEVICE Real value_behind(i64 row, i64 column, ReadBehind& x) {
  using Value = Real;
  Real v = Real(0);
  //% include expression/behind_values
  return v;
}
/// Stores of an element what is not stored with its neighbours.
KILN_DEVICE void store_behind(const Behind& out, i64 row, i64 column, const ReadBehind& x) {
  //% include expression/behind_stored
}
KILN_DEVICE void store_together(const Behind& out, i64 row, i64 first, i64 left,
                                const ReadBehind (&x)[kTogetherBehind],
                                const Real (&d)[kTogetherBehind]) {
  //% include expression/behind_some_stored
  //% if behind_d
  store_some(out.d + row * out.ldd + first, left, [&](int i) { return d[i]; });
  //% end
}
//% if reduces && !reduces_first

/// What blocks leave of rows is reduced by each block that reads it: all find the same bits.
KILN_DEVICE void reduce_row(const KilnGpuArgs& args, i64 batch, i64 row) {
  //% include expression/behind_reductions
  __syncthreads();
}
//% end

/// Several blocks have a row, the more the fewer rows there are, and pieces of it in turn; threads
/// have neighbours.
extern "C" __global__ void __launch_bounds__(kBehind)
    kiln_behind(const __grid_constant__ KilnGpuArgs args) {
  //% if overlaps
  wait_for_previous_grid();  // the next grid's blocks would take the place of this one's last
  //% end
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
  const i64 lines = args.batch * rows, pieces = ceil_div(columns, kBehind * kTogetherBehind);
  const i64 share = gridDim.x > lines ? gridDim.x / lines : 1;
  for (i64 line = blockIdx.x / share; line < lines; line += gridDim.x / share) {
    const i64 row = line % rows;
    const Behind out = behind_of(args, line / rows);
    const auto first_of = [](i64 piece) {
      return (piece * kBehind + threadIdx.x) * kTogetherBehind;
    };
    // What the next piece needs is on its way while this one, or the row's reduction, is computed.
    i64 piece = blockIdx.x % share;
    SomeBehind next = some_behind(out, row, first_of(piece), columns - first_of(piece));
    //% if reduces && !reduces_first
    reduce_row(args, line / rows, row);
    //% end
    for (; piece < pieces; piece += share) {
      const i64 first = first_of(piece), left = columns - first, then = first_of(piece + share);
      const SomeBehind all = next;
      if (piece + share < pieces) next = some_behind(out, row, then, columns - then);
      ReadBehind x[kTogetherBehind];
      Real d[kTogetherBehind];
      const auto column = [&](int i) { return i < left ? first + i : columns - 1; };
      _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
        x[i] = read_behind(out, all, i, row, column(i));
      //% if behind_blocks
      _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
        keep_for_blocks(row, column(i), x[i]);
      reduce_blocks(x, left);
      //% end
      _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
        d[i] = value_behind(row, column(i), x[i]);
      store_together(out, row, first, left, x, d);
      _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
        if (i < left) store_behind(out, row, first + i, x[i]);
    }
  }
}
