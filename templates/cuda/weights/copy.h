// From memory to shared memory: every thread's share of one operand's stage. Both operands run along
// k and are copied as bytes, kUnit at a time; what lies outside the operand becomes zeros. Expects
// banks.h, ampere_ptx.h, decode_ptx.h.
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
  _Pragma("unroll") for (int i = 0; i < 4; ++i) if (i < valid) word |= u32(from[i]) << i * 8;
  store_shared_one(to, word);
}
//% end

/// A stage holds `Lines` lines of `Pitch` bytes, whose bytes are exchanged as exchanged_byte() says.
template <int Pitch, int Lines, int Bits, int Base, int Shift>
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
    return c;
  }

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
      const u32 at = kLinesAtOnce % 8 == 0 ? place(line, byte) + u32(down * Pitch)
                                           : place(line + down, byte);
      copy_unit(to + at, here, down < lines ? there : 0);
    }
    from += Pitch;
    bytes -= Pitch;
  }
};
