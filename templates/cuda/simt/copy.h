// Tiles of A and B on their way from memory to shared memory, where line k holds all rows of that
// k side by side. Expects types.h, convert.h, swizzle.h, cp_async_ptx.h, lanes.h, and from the
// parameters the tile.
#pragma once

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

//% if stages != none
constexpr int kQuad = 16 / int(sizeof(Acc));  // elements that one access to shared memory brings

/// Elements that are read or written at once.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Some {
  T x[Count];
};

/// One operand's tile in shared memory.
template <int Rows>
struct Lines {
  //% if lines == padded
  static constexpr int kPitch = Rows + kQuad;
  //% else
  static constexpr int kPitch = Rows;
  //% end
  static constexpr int kElements = kPitch * kBlockK;
  static __device__ __forceinline__ int place(int k, int row) {
    //% if lines == exchanged
    return quad_place(k, row, Rows, kQuad, kBlockK);
    //% else
    return line_place(k, row, kPitch);
    //% end
  }
  /// The element of row `first` + `more`, seen from that of row `first` in line 0.
  static __device__ __forceinline__ int from(int first, int k, int more) {
    //% if lines == exchanged
    return place(k, first + more) - first;
    //% else
    return line_place(k, more, kPitch);
    //% end
  }
};

//% if gather
/// Part of one operand's tile that a thread copies, `Width` neighbours at a time. `Factors`: the
/// operand is B, and half of the tile's rows are lines of either factor. `Gathered`: it is A, whose
/// rows lie where its list of them says.
template <typename T, bool AlongK, int Rows, int Width, bool Factors = false, bool Gathered = false>
//% end
//% if gate && !gather
/// Part of one operand's tile that a thread copies, `Width` neighbours at a time. `Factors`: the
/// operand is B, and half of the tile's rows are lines of either factor.
template <typename T, bool AlongK, int Rows, int Width, bool Factors = false>
//% end
//% if !gate && !gather
/// Part of one operand's tile that a thread copies, `Width` neighbours at a time.
template <typename T, bool AlongK, int Rows, int Width>
//% end
struct Copier {
  static constexpr int kReads = Rows * kBlockK / Width / kThreads;
  static_assert(kReads * Width * kThreads == Rows * kBlockK, "threads share the tile evenly");
  using Read = Some<T, Width>;

  const T* from;  // this thread's first element of the tile that comes next
  i64 ld;
  int row, k;  // of that element in the tile
  int rows;    // of the tile that exist
  //% if gate
  i64 other;  // lines from a factor's line to the same one of the other
  static constexpr int kHalf = Rows / 2;
  static_assert(!Factors || AlongK || kHalf % Width == 0, "neighbours are of one factor");
  //% end
  //% if copy == registers
  Read held[kReads];
  //% end

  __device__ __forceinline__ void start(const T* operand, i64 pitch, i64 first_row, i64 first_k,
                                        i64 all_rows, int thread) {
    ld = pitch;
    row = copied_row(thread, AlongK, Rows, Width, kBlockK);
    k = copied_k(thread, AlongK, Rows, Width, kBlockK);
    rows = int(min(all_rows - first_row, i64(Rows)));
    const i64 r = first_row + row, depth = first_k + k;
    from = operand + (AlongK ? r * ld + depth : depth * ld + r);
  }
  //% if gate
  /// The same of B: its tile's factors are those of D's columns from `first_column` on.
  __device__ __forceinline__ void start_factors(const T* operand, i64 pitch, i64 first_column,
                                                i64 first_k, i64 columns, int thread) {
    start(operand, pitch, 0, first_k, Rows, thread);
    rows = int(min(columns - first_column, i64(kHalf)));
    from = operand + first_column * kLine * along_rows() + (first_k + k) * (AlongK ? 1 : ld);
    other = kLine == 1 ? columns : 1;
  }
  //% if gate_order == stacked
  static constexpr int kLine = 1;  // lines from a column's to the next one's
  //% else
  static constexpr int kLine = 2;
  //% end
  __device__ __forceinline__ i64 along_rows() const { return AlongK ? ld : 1; }
  //% end

  //% if gather
  int row_of[Gathered ? kReads : 1];  // of each access the row of A
  /// Looks the rows up, of which the tile's first is `first_row` of the group's product.
  __device__ __forceinline__ void gather(const KilnGpuArgs& args, const T* operand, i64 first_row,
                                         i64 first_k) {
    from = operand + first_k + k;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const int line = row + rows_to(i);
      row_of[i] = line < rows ? row_of_a(args, first_row + line) : 0;
    }
  }
  //% end

  // Accesses of one thread lie constant distances apart.
  static __device__ __forceinline__ constexpr int rows_to(int i) {
    return copied_row(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  static __device__ __forceinline__ constexpr int k_to(int i) {
    return copied_k(i * kThreads, AlongK, Rows, Width, kBlockK);
  }
  __device__ __forceinline__ const T* at(int i) const {
    //% if gather
    if constexpr (Gathered) return from + row_of[i] * ld + k_to(i);
    //% end
    //% if gate
    if constexpr (Factors) {
      const int line = row + rows_to(i);
      const i64 there = line % kHalf * kLine + (line < kHalf ? 0 : other);
      return from + there * along_rows() + k_to(i) * (AlongK ? 1 : ld);
    }
    //% end
    return from + (AlongK ? rows_to(i) * ld + k_to(i) : k_to(i) * ld + rows_to(i));
  }
  /// How many elements of access `i` exist, when `depth` lines do.
  __device__ __forceinline__ int valid(int i, int depth) const {
    //% if gate
    const int line_of_tile = row + rows_to(i);
    const int rows_left = rows - (Factors ? line_of_tile % kHalf : line_of_tile);
    const int k_left = depth - k - k_to(i);
    //% else
    const int rows_left = rows - row - rows_to(i), k_left = depth - k - k_to(i);
    //% end
    const int line = AlongK ? rows_left : k_left, along = AlongK ? k_left : rows_left;
    return line > 0 ? max(min(along, Width), 0) : 0;
  }
  __device__ __forceinline__ void next() { from += AlongK ? i64(kBlockK) : kBlockK * ld; }

  //% if copy != registers
  /// Sends the next tile on its way into `to`; `depth` of its lines exist.
  template <bool Whole>
  __device__ __forceinline__ void send(u32 to, int depth) const {
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const u32 place = to + Lines<Rows>::place(k + k_to(i), row + rows_to(i)) * u32(sizeof(Acc));
      const int bytes = (Whole ? Width : valid(i, depth)) * int(sizeof(T));
      if constexpr (sizeof(Read) == 4) cp_async_4(place, at(i), bytes);
      if constexpr (sizeof(Read) == 8) cp_async_8(place, at(i), bytes);
      if constexpr (sizeof(Read) == 16) cp_async_16(place, at(i), bytes);
    }
  }
  //% else
  /// Reads the next tile into registers; `depth` of its lines exist.
  template <bool Whole>
  __device__ __forceinline__ void fetch(int depth) {
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      const int count = Whole ? Width : valid(i, depth);
      held[i] = {};
      if (count == Width) {
        held[i] = *reinterpret_cast<const Read*>(at(i));
      } else {
        _Pragma("unroll") for (int e = 0; e < Width; ++e)
          if (e < count) held[i].x[e] = at(i)[e];
      }
    }
  }
  __device__ __forceinline__ void store(Acc* to) const {
    constexpr int kTogether = AlongK ? 1 : Width < kQuad ? Width : kQuad;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i) {
      _Pragma("unroll") for (int e = 0; e < Width; e += kTogether) {
        Some<Acc, kTogether> some;
        _Pragma("unroll") for (int j = 0; j < kTogether; ++j) some.x[j] = widened(held[i].x[e + j]);
        const int place =
            Lines<Rows>::place(k + k_to(i) + (AlongK ? e : 0), row + rows_to(i) + (AlongK ? 0 : e));
        *reinterpret_cast<Some<Acc, kTogether>*>(to + place) = some;
      }
    }
  }
  //% end
};
//% end
