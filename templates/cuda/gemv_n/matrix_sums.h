//% if matrix
// Matrix instructions: 16 lines of k at a time, of which the lanes of a quad have four each; eight
// lanes have words side by side. Columns of the wide operand are the instruction's rows, thin rows
// its columns. Expects wide.h, mma.h.
#pragma once

constexpr int kInstructionRows = 8;           // thin rows of an instruction
constexpr int kColumns = 8 * kEach * kWords;  // that a warp reads of a line
/// Columns of D of a block; a word less than it reads, where lines begin within a word.
constexpr int kTileColumns = kAligned ? kColumns : kColumns - kEach;
constexpr int kLines = 16;                       // of a warp and an instruction
constexpr int kTurn = kWarps * kLines * kAhead;  // that a block multiplies between two fetches
constexpr int kThinTiles = (kThin + kInstructionRows - 1) / kInstructionRows;
static_assert(kEach == 8, "elements of 16 bits");
static_assert(kPanel % kTurn == 0, "a panel is a whole number of turns");

/// The thin rows' elements, those of a warp's lines side by side. Rows are 32 bytes apart in the
/// banks, so that a quad of lanes has banks of its own.
struct Panel {
  alignas(16) TypeThin x[kThinTiles * kInstructionRows][kPanel + 16];
};
/// A row's elements of four lines.
struct alignas(8) FourLines {
  Fragment pairs[2];
};
/// Where a line of a panel is in it.
KILN_DEVICE int place_of_line(int line) {
  return line % kWarps * (kPanel / kWarps) + line / kWarps;
}

/// Lays out `lines` lines of the thin rows, from line `k0` on; zero for rows that are not there,
/// and for the rest of the turn.
KILN_DEVICE void lay_out(Panel& panel, const Thin& thin, int rows, i64 k0, int lines) {
  const int end = int(ceil_div(lines, kTurn)) * kTurn;
  _Pragma("unroll 1") for (int line = int(threadIdx.x); line < end; line += kWarps * 32)
    _Pragma("unroll") for (int t = 0; t < kThinTiles * kInstructionRows; ++t)
      panel.x[t][place_of_line(line)] =
          t < rows && line < lines ? thin.at(t, k0 + line) : TypeThin{};
}

/// Of a warp's columns, those of a word 9 places apart, so that lanes are in different banks.
constexpr int kPartSize = kColumns / kEach * 9;
KILN_DEVICE int place_of_column(int column) { return column / kEach * 9 + column % kEach; }

struct Sums {
  Acc of[kThinTiles][kWords][kEach / 2][4];  // two columns by two thin rows each
  uint4 held[kAhead][kWords][4];             // of four lines
  i64 word;                                  // bytes from a line's first element to the lane's word

  __device__ __forceinline__ void begin(const Wide& wide, i64 first, i64 column0) {
    const i64 column = column0 + (int(threadIdx.x) & 31) / 4 * kEach;
    word = (column - wide.offset_of(first + int(threadIdx.x) / 32)) * i64(sizeof(TypeWide));
    _Pragma("unroll") for (int n = 0; n < kThinTiles; ++n)
      _Pragma("unroll") for (int v = 0; v < kWords; ++v)
        _Pragma("unroll") for (int i = 0; i < kEach / 2; ++i)
          _Pragma("unroll") for (int e = 0; e < 4; ++e) of[n][v][i][e] = Acc(0);
  }
  /// The turn that begins at line `k`.
  __device__ __forceinline__ void fetch(const Wide& wide, i64 k, i64 last) {
    const int warp = int(threadIdx.x) / 32, in_quad = int(threadIdx.x) & 3;
    _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
      _Pragma("unroll") for (int j = 0; j < 4; ++j) {
        const i64 line = k + warp + i64(a * kLines + in_quad * 4 + j) * kWarps;
        const unsigned char* at = wide.at(line, 0) + word;
        _Pragma("unroll") for (int v = 0; v < kWords; ++v)
          held[a][v][j] = wide.word(at + v * 128, line < last);
      }
  }
  __device__ __forceinline__ void mend(const Wide& wide, const Ends& ends, i64 k, i64 last) {
    const int warp = int(threadIdx.x) / 32, in_quad = int(threadIdx.x) & 3;
    _Pragma("unroll") for (int a = 0; a < kAhead; ++a)
      _Pragma("unroll") for (int j = 0; j < 4; ++j) {
        const i64 line = k + warp + i64(a * kLines + in_quad * 4 + j) * kWarps;
        _Pragma("unroll") for (int v = 0; v < kWords; ++v)
          if (line < last) ends.mend(wide, wide.at(line, 0) + word + v * 128, held[a][v][j]);
      }
  }
  /// Lines of the panel from `line` on.
  __device__ __forceinline__ void multiply(const Panel& panel, int line) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) & 31;
    _Pragma("unroll") for (int a = 0; a < kAhead; ++a) {
      const int place = place_of_line(line + warp) + a * kLines + lane % 4 * 4;
      Fragment thin[kThinTiles][2];
      _Pragma("unroll") for (int n = 0; n < kThinTiles; ++n) {
        const auto four =
            *reinterpret_cast<const FourLines*>(&panel.x[n * kInstructionRows + lane / 4][place]);
        thin[n][0] = four.pairs[0];
        thin[n][1] = four.pairs[1];
      }
      _Pragma("unroll") for (int v = 0; v < kWords; ++v) {
        const uint4(&of_line)[4] = held[a][v];
        multiply_pair(v, 0, of_line[0].x, of_line[1].x, of_line[2].x, of_line[3].x, thin);
        multiply_pair(v, 1, of_line[0].y, of_line[1].y, of_line[2].y, of_line[3].y, thin);
        multiply_pair(v, 2, of_line[0].z, of_line[1].z, of_line[2].z, of_line[3].z, thin);
        multiply_pair(v, 3, of_line[0].w, of_line[1].w, of_line[2].w, of_line[3].w, thin);
      }
    }
  }
  /// Two neighbouring columns of four lines, which become pairs along k.
  __device__ __forceinline__ void multiply_pair(int v, int i, u32 line0, u32 line1, u32 line2,
                                                u32 line3, const Fragment (&thin)[kThinTiles][2]) {
    const Fragment wide[4] = {__byte_perm(line0, line1, 0x5410), __byte_perm(line0, line1, 0x7632),
                              __byte_perm(line2, line3, 0x5410), __byte_perm(line2, line3, 0x7632)};
    _Pragma("unroll") for (int n = 0; n < kThinTiles; ++n)
      multiply_step(of[n][v][i], wide, thin[n]);
  }
  __device__ __forceinline__ void store_row(Acc (&part)[kPartSize], int t) const {
    const int lane = int(threadIdx.x) & 31;
    if (lane % 4 != t % kInstructionRows / 2) return;
    _Pragma("unroll") for (int v = 0; v < kWords; ++v)
      _Pragma("unroll") for (int i = 0; i < kEach / 2; ++i)
        _Pragma("unroll") for (int e = 0; e < 2; ++e)
          part[(v * 8 + lane / 4) * 9 + i * 2 + e] = of[t / kInstructionRows][v][i][e * 2 + t % 2];
  }
};
//% end
