// device:  sm_90a
// problem: bf16 N T 3 5000 777
// config:  cuda_gemv rows=16 width=0 warps=4 swap=0 matrix=1

// ---- parameters ----
using TypeA = Bfloat;               // elements of A
using TypeB = Bfloat;               // elements of B
using TypeD = Bfloat;               // elements of C and D
using Acc = float;                  // accumulators
using Real = float;                 // what the epilogue computes in
constexpr int kThin = 3;            // rows of the thin operand
using Fragment = u32;               // a register of an operand
constexpr int kChunks = 1;          // parts of a step of the instruction
constexpr int kMmaSums = 4;         // accumulator registers of the matrix instruction
constexpr int kMmaA = 4;            // registers of the wide operand
constexpr int kMmaB = 2;            // registers of the thin one
constexpr int kClasses = 8;         // places within a word where rows begin
constexpr int kSteps = 7;           // words of a row that a lane has
constexpr int kPanel = 99;          // words of each thin row in shared memory
constexpr int kResident = 5;        // blocks that are to fit one SM
constexpr int kWarps = 4;           // of a block
constexpr bool kSwap = false;       // thin is B
constexpr bool kThinAlongK = true;  // the thin operand's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])
#define KILN_THIN TypeA
#define KILN_WIDE TypeB

// ---- cuda/common/unaligned.h ----
// 16 bytes from any address: the two aligned words that hold them, cut. Expects types.h.

/// The aligned words around 16 bytes.
struct Fetched {
  uint4 low, high;
  int shift;  // bytes before them in the first word
};

/// Whether those words lie inside [begin, end).
KILN_DEVICE bool words_inside(const unsigned char* at, const unsigned char* begin,
                              const unsigned char* end) {
  const unsigned char* word = at - (reinterpret_cast<u64>(at) & 15);
  return word >= begin && word + 32 <= end;
}

KILN_DEVICE Fetched fetch_words(const unsigned char* at) {
  Fetched f = {};
  f.shift = int(reinterpret_cast<u64>(at) & 15);
  const auto* word = reinterpret_cast<const uint4*>(at - f.shift);
  f.low = word[0];
  if (f.shift) f.high = word[1];
  return f;
}

/// The bytes one by one, zero outside [begin, end). Those that are not there repeat the first or
/// last, so that all loads are on their way together.
KILN_DEVICE uint4 fetch_bytes(const unsigned char* at, const unsigned char* begin,
                              const unsigned char* end) {
  const i64 first = begin - at, last = end - at - 1;
  u32 bytes[16], words[4] = {};
  _Pragma("unroll") for (int i = 0; i < 16; ++i) bytes[i] = at[max(first, min(i64(i), last))];
  _Pragma("unroll") for (int i = 0; i < 16; ++i)
    words[i / 4] |= (i >= first && i <= last ? bytes[i] : 0) << i % 4 * 8;
  return uint4{words[0], words[1], words[2], words[3]};
}

/// The bytes where they belong. Words are chosen bit by bit of their number, which keeps all of
/// them in registers.
KILN_DEVICE uint4 shifted(const Fetched& f) {
  const u32 all[8] = {f.low.x, f.low.y, f.low.z, f.low.w, f.high.x, f.high.y, f.high.z, f.high.w};
  const bool one = (f.shift & 4) != 0, two = (f.shift & 8) != 0;
  u32 from[5];
  _Pragma("unroll") for (int i = 0; i < 5; ++i) {
    const u32 near = one ? all[i + 1] : all[i];
    const u32 far = one ? all[i + 3 < 8 ? i + 3 : 7] : all[i + 2];
    from[i] = two ? far : near;
  }
  const int bits = f.shift % 4 * 8;
  return uint4{__funnelshift_r(from[0], from[1], bits), __funnelshift_r(from[1], from[2], bits),
               __funnelshift_r(from[2], from[3], bits), __funnelshift_r(from[3], from[4], bits)};
}

// ---- cuda/gemv/matrix.cu ----
// The same on matrix instructions: 16 wide rows of a block by the thin ones, up to 8, along all of
// k. Each warp has a part of k and fetches all of it at once; what it multiplies by lies in shared
// memory, its words cut where the wide rows' are. Any order of k will do as long as both operands
// agree, so that a lane's word of 8 elements serves two instructions as it is. Expects words.h,
// grid_ptx.h, mma.h, unaligned.h.

constexpr int kColumns = 8;  // of the instruction
static_assert(kThin <= kColumns, "thin rows are the instruction's columns");

/// Element `e` of the word at `place` of a panel: 0 stands before the first whole word.
KILN_DEVICE i64 element_at(int head, int place, int e) { return head + i64(place - 1) * kEach + e; }

/// What a block brings to shared memory, in pieces for its threads: the thin rows' whole words, and
/// element by element what is ragged of either operand.
struct Pieces {
  static constexpr int kThreads = kWarps * 32;
  /// Ragged words of the thin rows, and the two whole ones beside which there may be nothing to
  /// read.
  static constexpr int kThinWords = 2 * kThin + 2;
  static constexpr int kEnds = (16 * 2 * kEach + kThreads - 1) / kThreads;
  static constexpr int kSingles = (kThinWords * kEach + kThreads - 1) / kThreads;
  static constexpr int kWhole = ((kPanel - 2) * kThin + kThreads - 1) / kThreads;

  TypeWide ends[kEnds];
  TypeThin singles[kSingles];
  uint4 low[kWhole], high[kWhole];

  static __device__ __forceinline__ int number(int j) { return int(threadIdx.x) + j * kThreads; }
  /// `rows` is the number of thin rows.
  static __device__ __forceinline__ int row_of_single(int word, int rows) {
    return word < 2 * rows ? word / 2 : word == 2 * rows ? 0 : rows - 1;
  }
  static __device__ __forceinline__ int place_of_single(int word, int words, int rows) {
    return word < 2 * rows ? word % 2 * (words + 1) : word == 2 * rows ? 1 : words;
  }
  /// Whole words are numbered place by place; the first and the last are taken element by element.
  static __device__ __forceinline__ bool is_whole(int i, int words, int rows) {
    return i > 0 && i < words * kThin - 1 - (kThin - rows) && (kThin == rows || i % kThin < rows);
  }
  static __device__ __forceinline__ const unsigned char* whole_at(const Thin& thin, int i,
                                                                  int head) {
    return reinterpret_cast<const unsigned char*>(thin.from + i % kThin * thin.ld +
                                                  element_at(head, i / kThin + 1, 0));
  }

  template <typename WideRow>
  __device__ __forceinline__ void fetch(const WideRow& wide_row, const Thin& thin, int rows,
                                        int head, int words, i64 k) {
    _Pragma("unroll") for (int j = 0; j < kEnds; ++j) {
      const int i = number(j), row = i / (2 * kEach);
      const i64 at = element_at(head, i / kEach % 2 * (words + 1), i % kEach);
      ends[j] = TypeWide{};
      if (row < 16 && at >= 0 && at < k) ends[j] = wide_row(row)[at];
    }
    _Pragma("unroll") for (int j = 0; j < kSingles; ++j) {
      const int word = number(j) / kEach;
      const i64 at = element_at(head, place_of_single(word, words, rows), number(j) % kEach);
      singles[j] = TypeThin{};
      if (word < 2 * rows + 2 && at >= 0 && at < k)
        singles[j] = thin.at(row_of_single(word, rows), at);
    }
    _Pragma("unroll") for (int j = 0; j < kWhole; ++j) {
      const int i = number(j);
      low[j] = high[j] = uint4{};
      if (!is_whole(i, words, rows)) continue;
      if constexpr (kThinAlongK) {
        const Fetched f = fetch_words(whole_at(thin, i, head));
        low[j] = f.low;
        high[j] = f.high;
      } else {
        Word<TypeThin> word;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e)
          word.x[e] = thin.at(i % kThin, element_at(head, i / kThin + 1, e));
        low[j] = reinterpret_cast<const uint4&>(word);
      }
    }
  }

  __device__ __forceinline__ void store(uint4 (&panel)[kThin][kPanel], uint4 (&wide_ends)[16][2],
                                        const Thin& thin, int rows, int head, int words) const {
    _Pragma("unroll") for (int j = 0; j < kEnds; ++j) {
      const int i = number(j), row = i / (2 * kEach);
      if (row < 16)
        reinterpret_cast<TypeWide*>(&wide_ends[row][i / kEach % 2])[i % kEach] = ends[j];
    }
    _Pragma("unroll") for (int j = 0; j < kSingles; ++j) {
      const int word = number(j) / kEach;
      if (word >= 2 * rows + 2) continue;
      uint4& to = panel[row_of_single(word, rows)][place_of_single(word, words, rows)];
      reinterpret_cast<TypeThin*>(&to)[number(j) % kEach] = singles[j];
    }
    _Pragma("unroll") for (int j = 0; j < kWhole; ++j) {
      const int i = number(j);
      if (!is_whole(i, words, rows)) continue;
      const int shift = int(reinterpret_cast<u64>(whole_at(thin, i, head)) & 15);
      panel[i % kThin][i / kThin + 1] =
          kThinAlongK ? shifted(Fetched{low[j], high[j], shift}) : low[j];
    }
  }
};

/// sums += wide · thin over one word of each row: `wide` has those of rows g and g + 8.
KILN_DEVICE void multiply_words(Acc (&sums)[4], const uint4 (&wide)[2], const uint4& thin) {
  const Fragment low[4] = {wide[0].x, wide[1].x, wide[0].y, wide[1].y},
                 low_thin[2] = {thin.x, thin.y};
  const Fragment high[4] = {wide[0].z, wide[1].z, wide[0].w, wide[1].w},
                 high_thin[2] = {thin.z, thin.w};
  multiply_step(sums, low, low_thin);
  multiply_step(sums, high, high_thin);
}

// So many blocks a unit that those of the next grid find room while this one's run.
extern "C" __global__ void __launch_bounds__(kWarps * 32, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  // Words of the thin rows: one with what stands before the first whole word of the wide rows, the
  // whole ones, one with what stands behind.
  __shared__ uint4 panel[kThin][kPanel];
  __shared__ uint4 ends[16][2];  // the same ragged ones of the wide rows
  __shared__ Acc parts[kWarps][16][kColumns];
  const int lane = int(threadIdx.x) & 31, warp = int(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
  const i64 wide_rows = kSwap ? args.m : args.n, k = args.k;
  const u32 blocks = gridDim.x / u32(args.batch), batch = blockIdx.x / blocks;
  const u32 block = blockIdx.x - batch * blocks;
  const i64 row0 = block % kClasses + i64(block / kClasses) * (16 * kClasses);
  if (row0 >= wide_rows) return;
  const i64 wide_ld = kSwap ? args.lda : args.ldb;
  const auto* wide = static_cast<const TypeWide*>(kSwap ? args.a : args.b) +
                     batch * (kSwap ? args.stride_a : args.stride_b) + row0 * wide_ld;
  const Thin thin{static_cast<const TypeThin*>(kSwap ? args.b : args.a) +
                      batch * (kSwap ? args.stride_b : args.stride_a),
                  kSwap ? args.ldb : args.lda};

  // The same for all rows of the block: elements before the first whole word, words.
  const int begin = int(reinterpret_cast<u64>(wide) & 15) / int(sizeof(TypeWide));
  const int head = int(min(i64((kEach - begin) % kEach), k));
  const int words = int((k - head) / kEach);
  // Rows that are not there are read as copies of the first.
  const auto wide_row = [&](int number) {
    const i64 row = number * kClasses;
    return wide + (row0 + row < wide_rows ? row : 0) * wide_ld;
  };
  const TypeWide* rows[2] = {wide_row(g), wide_row(g + 8)};
  const int first = warp * (kSteps * 4) + t;
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  uint4 held[kSteps][2];
  _Pragma("unroll") for (int s = 0; s < kSteps; ++s)
    _Pragma("unroll") for (int r = 0; r < 2; ++r)
      held[s][r] = first + s * 4 < words
                       ? reinterpret_cast<const uint4*>(rows[r] + head)[first + s * 4]
                       : uint4{};
  // All of it on its way before any of it is stored; behind the wide rows' words, because all
  // blocks want the same ones.
  Pieces pieces;
  const int thin_count = thin_rows(args);
  pieces.fetch(wide_row, thin, thin_count, head, words, k);
  pieces.store(panel, ends, thin, thin_count, head, words);
  __syncthreads();

  // Two chains of instructions, of which each waits for the one before it.
  Acc sums[2][4] = {};
  const auto thin_word = [&](bool there, int place) {
    return there && g < thin_count ? panel[g < kThin ? g : 0][place] : uint4{};
  };
  _Pragma("unroll") for (int s = 0; s < kSteps; ++s) {
    const int at = first + s * 4;
    multiply_words(sums[s % 2], held[s], thin_word(at < words, at + 1));
  }
  if (warp == 0) {
    uint4 ragged[2] = {};
    if (t < 2)
      _Pragma("unroll") for (int r = 0; r < 2; ++r) ragged[r] = ends[g + r * 8][t];
    multiply_words(sums[1], ragged, thin_word(t < 2, t * (words + 1)));
  }
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    parts[warp][g + i / 2 * 8][t * 2 + i % 2] = sums[0][i] + sums[1][i];
  __syncthreads();
  const Output out = output_of(args, batch);
  for (int i = int(threadIdx.x); i < 16 * thin_count; i += kWarps * 32) {
    const int row = i % 16, column = i / 16;
    Acc sum = parts[0][row][column];
    _Pragma("unroll") for (int w = 1; w < kWarps; ++w) sum += parts[w][row][column];
    const i64 there = row0 + i64(row) * kClasses;
    if (there < wide_rows) store_one(out, sum, kSwap ? there : column, kSwap ? column : there);
  }
}
