// What an expression stores that is made of what it reduces: the last step of a call, behind the
// reductions. Expects epilogue.h.
#pragma once

constexpr int kBehind = 256, kTogetherBehind = 4;  // threads of a block; elements of a thread
//% if together
constexpr int kTeam = 32;  // threads that have a part of a row, and pieces of it in turn
//% else
constexpr int kTeam = kBehind;  // threads that have a part of a row, and pieces of it in turn
//% end

/// Pointers of one batch.
struct Behind {
  //% if kept_in_d
  TypeC* d;
  //% else
  TypeD* d;
  //% end
  i64 ldd;
  //% if scatter
  const void* index_d;  // of rows of the product, their rows of D
  i64 rows_of_d;
  //% end
  //% include expression/behind_members
};
KILN_DEVICE Behind behind_of(const KilnGpuArgs& args, i64 batch) {
  Behind out;
  //% include expression/behind_d
  //% if scatter
  out.index_d = args.index_d;
  out.rows_of_d = args.rows_of_d;
  //% end
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
/// Those of `left` elements that are there; the last one for others.
template <typename T>
KILN_DEVICE void load_some(Neighbours<T>& to, const T* from, i64 left) {
  if (in_one_access(from, left)) {
    to = *reinterpret_cast<const Neighbours<T>*>(from);
    return;
  }
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    to.element[i] = from[i < left ? i : left - 1];
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

/// What is read of a row, or of all.
struct LineBehind {
  //% include expression/behind_line_fields
};
KILN_DEVICE LineBehind line_behind(const Behind& out, i64 row) {
  using Value = Real;
  [[maybe_unused]] const bool in_row = true;
  LineBehind x;
  //% include expression/behind_line_loads
  return x;
}
/// What is read of memory in which neighbours lie side by side, as it lies there.
struct SomeBehind {
  //% include expression/behind_some
};
/// Where at least one of them is inside the row.
KILN_DEVICE void load_behind(SomeBehind& all, const Behind& out, i64 row, i64 first, i64 left) {
  if (left <= 0) return;
  //% include expression/behind_some_loads
}
/// Of number i of them.
KILN_DEVICE ReadBehind read_behind(const Behind& out, const LineBehind& line, const SomeBehind& all,
                                   int i, i64 row, i64 column) {
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
  //% if behind_d && scatter
  store_some(out.d + listed_row(out.index_d, row, out.rows_of_d) * out.ldd + first, left,
             [&](int i) { return d[i]; });
  //% end
  //% if behind_d && !scatter
  store_some(out.d + row * out.ldd + first, left, [&](int i) { return d[i]; });
  //% end
}
//% if reduces && !reduces_first

/// What kernels leave of rows is reduced by each team that reads it: all find the same bits.
KILN_DEVICE void reduce_row(const KilnGpuArgs& args, i64 batch, i64 row) {
  //% include expression/behind_reductions
  //% if together
  __syncwarp();
  //% else
  __syncthreads();
  //% end
}
//% end

/// Elements of a row from `first` on.
KILN_DEVICE void compute_piece(const Behind& out, const LineBehind& line, const SomeBehind& all,
                               i64 row, i64 first, i64 columns) {
  const i64 left = columns - first;
  ReadBehind x[kTogetherBehind];
  Real d[kTogetherBehind];
  const auto column = [&](int i) { return i < left ? first + i : columns - 1; };
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    x[i] = read_behind(out, line, all, i, row, column(i));
  //% if behind_blocks
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i) keep_for_blocks(row, column(i), x[i]);
  reduce_blocks(x, left);
  //% end
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    d[i] = value_behind(row, column(i), x[i]);
  store_together(out, row, first, left, x, d);
  _Pragma("unroll") for (int i = 0; i < kTogetherBehind; ++i)
    if (i < left) store_behind(out, row, first + i, x[i]);
}

/// threadIdx.y is the row of a block; gridDim.y blocks have the same rows. There are no divisions
/// and one copy of each part: a call finds this code in no cache, and small steps wait for it.
extern "C" __global__ void __launch_bounds__(kBehind)
    kiln_behind(const __grid_constant__ KilnGpuArgs args) {
  //% if overlaps
  wait_for_previous_grid();  // the next grid's blocks would take the place of this one's last
  //% end
  //% if behind_columns
  const i64 columns = args.n;
  //% else
  const i64 columns = 1;
  //% end
  const int teams = int(blockDim.x) / kTeam;  // of a block, for a row
  const int team = int(blockIdx.y) * teams + int(threadIdx.x) / kTeam;
  constexpr int kPiece = kTeam * kTogetherBehind;  // elements
  const int own = int(threadIdx.x) % kTeam * kTogetherBehind;
  for (i64 matrix = blockIdx.z; matrix < matrices_of(args); matrix += gridDim.z) {
    //% if behind_rows
    const i64 rows = rows_of(args, matrix);
    //% else
    const i64 rows = 1;
    //% end
    i64 batch = matrix;
    for (i64 row = i64(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
         row += i64(gridDim.x) * blockDim.y) {
      //% if row_groups
      if (!find_group(args, row, batch)) break;
      //% end
      const Behind out = behind_of(args, batch);
      LineBehind line;
      _Pragma("unroll 1") for (i64 piece = i64(team) * kPiece; piece < columns;
                               piece += i64(gridDim.y) * teams * kPiece) {
        const i64 first = piece + own;
        SomeBehind all = {};
        load_behind(all, out, row, first, columns - first);
        if (piece == i64(team) * kPiece) {  // what it loads is on its way meanwhile
          //% if reduces && !reduces_first
          reduce_row(args, batch, row);
          //% end
          line = line_behind(out, row);
        }
        compute_piece(out, line, all, row, first, columns);
      }
    }
  }
}
