// From memory to shared memory: every thread's share of one operand's tile, kWidth bytes at a time,
// which the operand's alignment decides. What lies outside the operand becomes zeros. Expects
// read.h.
#pragma once

//% if gate
/// `Factors`: the operand is B, and of each warp's lines the first half is one factor's, the second
/// half the other's, of the same columns of D.
//% end
//% if gather
/// `Gathered`: the operand is A, whose lines lie where its list of rows says.
template <typename T, typename Tile, bool AlongK, int Rows, bool Factors = false,
          bool Gathered = false>
//% end
//% if gate && !gather
template <typename T, typename Tile, bool AlongK, int Rows, bool Factors = false>
//% end
//% if !gate && !gather
template <typename T, typename Tile, bool AlongK, int Rows>
//% end
struct Copier {
  static constexpr int kSize = int(sizeof(T));
  static constexpr int kUnits = Tile::kPitch / kUnit;  // of a line
  static constexpr int kLinesAtOnce = kThreads / kUnits;
  static constexpr int kCopies = (Tile::kLines + kLinesAtOnce - 1) / kLinesAtOnce;
  static constexpr bool kEven = Tile::kLines % kLinesAtOnce == 0;
  static_assert(kThreads % kUnits == 0, "threads share a line evenly");

  const unsigned char* from;  // this thread's first unit of the next tile
  i64 step, tile_step;        // bytes between its lines, between tiles
  int lines, bytes;           // from the first unit on to the operand's end
  int line, byte;             // of the first unit in the tile

  static __device__ __forceinline__ Copier at(const void* operand, i64 batch_stride, i64 batch,
                                              i64 ld, i64 row0, i64 rows, i64 k0, i64 k,
                                              int thread) {
    Copier c;
    c.line = thread / kUnits;
    c.byte = thread % kUnits * kUnit;
    const i64 first_line = (AlongK ? row0 : k0) + c.line, first = AlongK ? k0 : row0;
    c.from = static_cast<const unsigned char*>(operand) +
             (batch * batch_stride + first_line * ld + first) * kSize + c.byte;
    c.step = ld * kLinesAtOnce * kSize;
    c.tile_step = (AlongK ? 1 : ld) * kBlockK * kSize;
    c.lines = int(AlongK ? rows - row0 : k - k0) - c.line;
    c.bytes = int(min((AlongK ? k - k0 : rows - row0) * kSize, i64(1) << 30)) - c.byte;
    //% if gate
    if constexpr (Factors) {
      c.pitch = ld * kSize;
      c.other = kColumnLines == 1 ? rows : 1;
      const i64 origin = batch * batch_stride + (AlongK ? k0 : first_line * ld);
      const int place = AlongK ? 0 : c.byte / kSize;
      c.from = static_cast<const unsigned char*>(operand) + origin * kSize;
      if constexpr (AlongK) {
        c.from += row0 * kColumnLines * c.pitch + c.byte;
        c.lines = int(rows - row0);
      } else {
        c.from += (row0 + c.line_of_b(place)) * kSize;
        c.bytes = int(min((rows - row0 - column_of(place)) * kSize, i64(1) << 30));
      }
    }
    //% end
    return c;
  }
  //% if gate
  static constexpr int kWarpLines = Rows / (kThreads / 32 / kWarpsM), kHalf = kWarpLines / 2;
  //% if gate_order == stacked
  static constexpr int kColumnLines = 1;  // from a column's line to the next one's
  //% else
  static constexpr int kColumnLines = 2;
  //% end
  i64 pitch, other;  // bytes of a line of B; lines from one factor's to the other's
  /// The column of D, from the tile's first, under line `line` of the tile.
  static __device__ __forceinline__ int column_of(int line) {
    return line / kWarpLines * kHalf + line % kHalf;
  }
  /// Its line of B, seen from that of the tile's first column.
  __device__ __forceinline__ i64 line_of_b(int line) const {
    return i64(column_of(line)) * kColumnLines + (line % kWarpLines < kHalf ? 0 : other);
  }
  //% end

  //% if gather
  int row_of[Gathered ? kCopies : 1];  // of each copy the line's row of A
  i64 gathered_pitch;                  // bytes
  /// Looks the lines up, which begin with row `row0` of the group's product.
  __device__ __forceinline__ void gather(const KilnGpuArgs& args, i64 row0, i64 k0) {
    from = static_cast<const unsigned char*>(args.a) + k0 * kSize + byte;
    gathered_pitch = args.lda * kSize;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i) {
      const bool there = i * kLinesAtOnce < lines && mine(i);
      row_of[i] = there ? row_of_a(args, row0 + line + i * kLinesAtOnce) : 0;
    }
  }
  //% end

  /// Bytes of copy `i` that exist.
  __device__ __forceinline__ int valid(int i) const {
    //% if gate
    if constexpr (Factors && AlongK)
      return column_of(line + i * kLinesAtOnce) < lines ? max(0, min(bytes, kUnit)) : 0;
    //% end
    return i * kLinesAtOnce < lines ? max(0, min(bytes, kUnit)) : 0;
  }
  //% if gate || gather
  /// Where copy `i` comes from; `here`: the same of a matrix whose lines follow one another.
  __device__ __forceinline__ const unsigned char* source(int i, const unsigned char* here) const {
    //% if gather
    if constexpr (Gathered) return from + row_of[i] * gathered_pitch;
    //% end
    //% if gate
    if constexpr (Factors && AlongK) return from + line_of_b(line + i * kLinesAtOnce) * pitch;
    //% end
    return here;
  }
  //% end
  __device__ __forceinline__ bool mine(int i) const {
    return kEven || line + i * kLinesAtOnce < Tile::kLines;
  }
  /// Where in the tile copy `i` goes.
  __device__ __forceinline__ u32 place(int i) const {
    if constexpr (kLinesAtOnce % Tile::kPeriod == 0)
      return Tile::place(line, byte) + u32(i * kLinesAtOnce * Tile::kPitch);
    else
      return Tile::place(line + i * kLinesAtOnce, byte);
  }
  __device__ __forceinline__ void advance() {
    from += tile_step;
    if constexpr (AlongK)
      bytes -= kBlockK * kSize;
    else
      lines -= kBlockK;
  }

  //% if async
  /// Starts the copies of one tile and goes on to the next.
  __device__ __forceinline__ void copy(u32 to) {
    const unsigned char* here = from;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, here += step) {
      if (!mine(i)) continue;
      const u32 there = to + place(i);
      //% if gate || gather
      const unsigned char* const at = source(i, here);
      if constexpr (kUnit == 16)
        cp_async_16(there, at, valid(i));
      else if constexpr (kUnit == 8)
        cp_async_8(there, at, valid(i));
      else
        cp_async_4(there, at, valid(i));
      //% else
      if constexpr (kUnit == 16)
        cp_async_16(there, here, valid(i));
      else if constexpr (kUnit == 8)
        cp_async_8(there, here, valid(i));
      else
        cp_async_4(there, here, valid(i));
      //% end
    }
    advance();
  }
  //% else
  struct alignas(kWidth) Some {
    T x[kWidth / kSize];
  };
  struct alignas(16) Unit {
    Some some[kUnit / kWidth];
  };
  Unit held[kCopies];

  /// Reads one tile into registers and goes on to the next.
  __device__ __forceinline__ void fetch() {
    const unsigned char* line_from = from;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, line_from += step) {
      const int left = mine(i) ? valid(i) : 0;
      held[i] = Unit{};
      _Pragma("unroll") for (int s = 0; s < kUnit / kWidth; ++s) {
        //% if gate || gather
        const unsigned char* here = source(i, line_from) + s * kWidth;
        //% else
        const unsigned char* here = line_from + s * kWidth;
        //% end
        if (left >= (s + 1) * kWidth) {
          held[i].some[s] = *reinterpret_cast<const Some*>(here);
        } else {
          _Pragma("unroll") for (int e = 0; e < kWidth / kSize; ++e)
            if (s * kWidth + e * kSize < left)
              held[i].some[s].x[e] = reinterpret_cast<const T*>(here)[e];
        }
      }
    }
    advance();
  }
  __device__ __forceinline__ void store(u32 to) const {
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i)
      if (mine(i)) store_shared_words(to + place(i), reinterpret_cast<const u32(&)[4]>(held[i]));
  }
  //% end
};
