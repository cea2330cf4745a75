// device:  sm_80
// problem: fp32 N N 3 4099 4096
// config:  cuda_gemv_n thin=4 warps=4 ahead=4 words=1 splits=1 matrix=0 swap=0

// ---- parameters ----
using TypeA = float;                // elements of A
using TypeB = float;                // elements of B
using TypeD = float;                // elements of C and D
using Acc = float;                  // accumulators
using Real = float;                 // what the epilogue computes in
constexpr int kThin = 4;            // rows of the thin operand that there is room for
constexpr int kWarps = 4;           // of a block, which take lines of k in turn
constexpr int kAhead = 4;           // lines on their way to a warp
constexpr int kPanel = 256;         // lines of the thin rows in shared memory at once
constexpr bool kAligned = false;    // lines of the wide operand begin with words
constexpr int kSplits = 1;          // parts that k is divided into
constexpr bool kSwap = false;       // thin is B
constexpr bool kThinAlongK = true;  // the thin operand's neighbours run along k
#define KILN_THIN TypeA
#define KILN_WIDE TypeB

// ---- cuda/gemv_n/sums.h ----
// Multiply-adds: each lane has one word of its warp's lines. Expects wide.h.

constexpr int kColumns = 32 * kEach;  // that a warp reads of a line
/// Columns of D of a block; a word less than it reads, where lines begin within a word.
constexpr int kTileColumns = kAligned ? kColumns : kColumns - kEach;
constexpr int kTurn = kWarps * kAhead;  // lines of k that a block multiplies between two fetches
static_assert(kPanel % kTurn == 0, "a panel is a whole number of turns");

/// The elements of the thin rows at one line of k.
struct alignas(16) ThinLine {
  Acc x[kThin];
};
struct Panel {
  ThinLine lines[kPanel];
};

/// Lays out `lines` lines of the thin rows, from line `k0` on; zero for rows that are not there,
/// and for the rest of the turn.
KILN_DEVICE void lay_out(Panel& panel, const Thin& thin, int rows, i64 k0, int lines) {
  const int end = int(ceil_div(lines, kTurn)) * kTurn;
  _Pragma("unroll 1") for (int line = int(threadIdx.x); line < end; line += kWarps * 32)
    _Pragma("unroll") for (int t = 0; t < kThin; ++t)
      panel.lines[line].x[t] = t < rows && line < lines ? widened(thin.at(t, k0 + line)) : Acc(0);
}

/// Of a warp's columns, those of a lane 33 places apart, so that lanes are in different banks.
constexpr int kPartSize = kEach * 33;
KILN_DEVICE int place_of_column(int column) { return column % kEach * 33 + column / kEach; }

struct Sums {
  Acc of[kThin][kEach];
  uint4 held[kAhead];
  i64 word;  // bytes from a line's first element to the lane's word

  __device__ __forceinline__ void begin(const Wide& wide, i64 first, i64 column0) {
    const i64 column = column0 + (int(threadIdx.x) & 31) * kEach;
    word = (column - wide.offset_of(first + int(threadIdx.x) / 32)) * i64(sizeof(TypeWide));
    _Pragma("unroll") for (int t = 0; t < kThin; ++t)
      _Pragma("unroll") for (int e = 0; e < kEach; ++e) of[t][e] = Acc(0);
  }
  /// The turn that begins at line `k`.
  __device__ __forceinline__ void fetch(const Wide& wide, i64 k, i64 last) {
    _Pragma("unroll") for (int a = 0; a < kAhead; ++a) {
      const i64 line = k + a * kWarps + int(threadIdx.x) / 32;
      held[a] = wide.word(wide.at(line, 0) + word, line < last);
    }
  }
  __device__ __forceinline__ void mend(const Wide& wide, const Ends& ends, i64 k, i64 last) {
    _Pragma("unroll") for (int a = 0; a < kAhead; ++a) {
      const i64 line = k + a * kWarps + int(threadIdx.x) / 32;
      if (line < last) ends.mend(wide, wide.at(line, 0) + word, held[a]);
    }
  }
  /// Lines of the panel from `line` on.
  __device__ __forceinline__ void multiply(const Panel& panel, int line) {
    _Pragma("unroll") for (int a = 0; a < kAhead; ++a) {
      const ThinLine& left = panel.lines[line + a * kWarps + int(threadIdx.x) / 32];
      Acc right[kEach];
      _Pragma("unroll") for (int e = 0; e < kEach; ++e) right[e] = element<TypeWide>(held[a], e);
      _Pragma("unroll") for (int t = 0; t < kThin; ++t)
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) of[t][e] += left.x[t] * right[e];
    }
  }
  __device__ __forceinline__ void store_row(Acc (&part)[kPartSize], int t) const {
    _Pragma("unroll") for (int e = 0; e < kEach; ++e)
      part[e * 33 + (int(threadIdx.x) & 31)] = of[t][e];
  }
};
