// device:  sm_75
// problem: fp16 N N 333 444 555 epilogue=residual
// config:  cuda_mma block_m=64 block_n=64 block_k=32 warps_m=2 warps_n=2 stages=2 instruction_k=8 bits_a=2 base_a=4 shift_a=1 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = Half;               // elements of B
using TypeD = Half;               // elements of C and D
using Acc = float;                // accumulators
using Real = float;               // what the epilogue computes in
using Fragment = u32;             // a register of an operand
constexpr int kBlockM = 64;       // rows of D in a block's tile
constexpr int kBlockN = 64;       // columns of D in it
constexpr int kBlockK = 32;       // k of one stage
constexpr int kWarpsM = 2;        // warps that share the tile's rows
constexpr int kThreads = 128;     // of a block
constexpr int kBlocks = 3;        // that are to fit one SM
constexpr int kTilesM = 2;        // 16 rows each, of a warp
constexpr int kTilesN = 4;        // 8 columns each, of a warp
constexpr int kChunks = 1;        // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 16;        // k of one step
constexpr int kMmaSums = 4;       // registers of sums of the matrix instruction
constexpr int kMmaA = 2;          // registers of A
constexpr int kMmaB = 1;          // registers of B
constexpr int kWidth = 2;         // bytes that are read at once
constexpr int kUnit = 16;         // bytes of one copy to shared memory
constexpr int kBitsA = 2;         // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;         // the first of them
constexpr int kShiftA = 1;        // with bits of the line's number from here on
constexpr int kBitsB = 3;         // the same for B
constexpr int kBaseB = 4;         // 
constexpr int kShiftB = 0;        // 
constexpr int kStoreWidth = 1;    // elements of D stored at once
constexpr int kGroup = 8;         // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;   // A's neighbours run along k
constexpr bool kAlongKB = false;  // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), \
  "r"((b)[0])

// ---- cuda/mma/copy.h ----
// From memory to shared memory: every thread's share of one operand's tile, kWidth bytes at a time,
// which the operand's alignment decides. What lies outside the operand becomes zeros. Expects
// read.h.

template <typename T, typename Tile, bool AlongK, int Rows>
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
    return c;
  }

  /// Bytes of copy `i` that exist.
  __device__ __forceinline__ int valid(int i) const {
    return i * kLinesAtOnce < lines ? max(0, min(bytes, kUnit)) : 0;
  }
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
        const unsigned char* here = line_from + s * kWidth;
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
};
