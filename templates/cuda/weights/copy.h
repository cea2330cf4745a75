// From memory to shared memory: every thread's share of one operand's stage. Both operands run
// along k and are copied as bytes, kUnit at a time; what lies outside the operand becomes zeros.
// Expects banks.h, ampere_ptx.h, decode_ptx.h.
#pragma once

//% if async
KILN_DEVICE void copy_unit(u32 to, const unsigned char* from, int valid) {
  if constexpr (kUnit == 16)
    cp_async_16(to, from, valid);
  else if constexpr (kUnit == 8)
    cp_async_8(to, from, valid);
  else
    cp_async_4(to, from, valid);
}
//% else
/// Byte by byte: no copy instruction reads such addresses.
KILN_DEVICE void copy_unit(u32 to, const unsigned char* from, int valid) {
  static_assert(kUnit == 4, "one register is stored");
  u32 word = 0;
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    if (i < valid) word |= u32(from[i]) << i * 8;
  store_shared_one(to, word);
}
//% end

//% if gate
/// `Factors`: the operand is B. Of each warp's lines the first half is one factor's, the second
/// half the other's, of the same columns of D.
//% end
//% if gather
/// `Gathered`: the operand is A, whose lines lie where its list of rows says.
template <int Pitch, int Lines, int Bits, int Base, int Shift, bool Factors = false,
          bool Gathered = false>
//% end
//% if gate && !gather
template <int Pitch, int Lines, int Bits, int Base, int Shift, bool Factors = false>
//% end
//% if !gate && !gather
/// A stage holds `Lines` lines of `Pitch` bytes, whose bytes are exchanged as exchanged_byte()
/// says.
template <int Pitch, int Lines, int Bits, int Base, int Shift>
//% end
struct Copier {
  static constexpr int kUnits = Pitch / kUnit;  // of a line
  static constexpr int kLinesAtOnce = kThreads / kUnits;
  static constexpr int kCopies = (Lines + kLinesAtOnce - 1) / kLinesAtOnce;
  static_assert(kThreads % kUnits == 0, "threads share a line evenly");

  const unsigned char* from;  // this thread's first unit of the next stage
  i64 step;                   // bytes between its lines
  int lines, bytes;           // from the first unit on to the operand's end
  int line, byte;             // of the first unit in the stage

  /// Of an operand of `rows` lines of `length` bytes each, the stage that begins at (row0, first).
  static __device__ __forceinline__ Copier at(const void* operand, i64 pitch, i64 row0, i64 rows,
                                              i64 first, i64 length, int thread) {
    Copier c;
    c.line = thread / kUnits;
    c.byte = thread % kUnits * kUnit;
    c.from = static_cast<const unsigned char*>(operand) + (row0 + c.line) * pitch + first + c.byte;
    c.step = pitch * kLinesAtOnce;
    c.lines = int(rows - row0) - c.line;
    c.bytes = int(min(length - first, i64(1) << 30)) - c.byte;
    //% if gate
    if constexpr (Factors) {
      //% if gate_order == stacked
      c.column_pitch = pitch;
      c.other = rows * pitch;
      //% else
      c.column_pitch = 2 * pitch;
      c.other = pitch;
      //% end
      c.from = static_cast<const unsigned char*>(operand) + row0 * c.column_pitch + first + c.byte +
               c.line_of_b(c.line);
      c.lines = int(rows - row0) - column_of(c.line);
    }
    //% end
    return c;
  }
  //% if gate
  static constexpr int kWarpLines = Lines / (kThreads / 32), kHalf = kWarpLines / 2;
  // So a thread's first line and the distance of a later one have no bits in common, and what
  // column_of() and line_of_b() make of both adds up.
  static_assert(!Factors || ((kWarpLines & (kWarpLines - 1)) == 0 &&
                             (kLinesAtOnce & (kLinesAtOnce - 1)) == 0),
                "lines of a warp and of a copy are powers of two");
  i64 column_pitch,
      other;  // bytes from a column to the next one, from a factor's line to the other's
  /// The column of D, from the tile's first, under line `line` of the stage.
  static __device__ __forceinline__ constexpr int column_of(int line) {
    return line / kWarpLines * kHalf + line % kHalf;
  }
  /// Bytes from the line of the tile's first column to that of `line` of the stage.
  __device__ __forceinline__ i64 line_of_b(int line) const {
    return column_of(line) * column_pitch + (line % kWarpLines < kHalf ? 0 : other);
  }
  //% end

  //% if gather
  int row_of[Gathered ? kCopies : 1];  // of each copy the line's row of A
  i64 gathered_pitch;                  // bytes
  /// Looks the lines up, which begin with row `row0` of the group's product and byte `first`.
  __device__ __forceinline__ void gather(const KilnGpuArgs& args, i64 pitch, i64 row0, i64 first) {
    from = static_cast<const unsigned char*>(args.a) + first + byte;
    gathered_pitch = pitch;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i) {
      const int down = i * kLinesAtOnce;
      row_of[i] = down < lines && line + down < Lines ? row_of_a(args, row0 + line + down) : 0;
    }
  }

  //% end
  static __device__ __forceinline__ u32 place(int line, int byte) {
    return u32(line * Pitch + exchanged_byte(line, byte, Bits, Base, Shift));
  }

  /// Starts the copies of one stage and goes on to the next.
  __device__ __forceinline__ void copy(u32 to) {
    const unsigned char* here = from;
    const int there = max(0, min(bytes, kUnit));
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, here += step) {
      const int down = i * kLinesAtOnce;
      if (Lines % kLinesAtOnce != 0 && line + down >= Lines) continue;
      const u32 at =
          kLinesAtOnce % 8 == 0 ? place(line, byte) + u32(down * Pitch) : place(line + down, byte);
      //% if gather
      if constexpr (Gathered) {
        copy_unit(to + at, from + row_of[i] * gathered_pitch, down < lines ? there : 0);
        continue;
      }
      //% end
      //% if gate
      if constexpr (Factors)
        copy_unit(to + at, from + line_of_b(down), column_of(down) < lines ? there : 0);
      else
        copy_unit(to + at, here, down < lines ? there : 0);
      //% else
      copy_unit(to + at, here, down < lines ? there : 0);
      //% end
    }
    from += Pitch;
    bytes -= Pitch;
  }
};
