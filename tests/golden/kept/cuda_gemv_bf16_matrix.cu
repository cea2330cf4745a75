// Written by kiln 0.1.0.
// device:  sm_90a
// problem: bf16 N T 3 5000 777
// config:  cuda_gemv rows=16 width=0 warps=4 swap=0 matrix=1
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_gemv_af940781e752174f.cu

// ---- cuda/abi.h ----
// The contract between a generated GPU kernel and whoever launches it: plain C, no headers, so that
// a generated source stays self-contained (this file is pasted into it).

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements. The
/// first parameter of every kernel, by value; tensor maps follow it in the order of GpuLaunch.
struct KilnGpuArgs {
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  void* workspace;       // 256-byte aligned
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- cuda/types.h ----
// Names of the element types and the mark of device functions. No headers are used anywhere, so
// that a generated source is self-contained.

#define KILN_DEVICE static __device__ __forceinline__
// A kernel takes what it needs of the shared parts; the rest is no mistake.
#pragma nv_diag_suppress 177

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct Float8E4 {
  u8 bits;
};
struct Float8E5 {
  u8 bits;
};

static __device__ constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- parameters ----
using TypeA = Bfloat;               // elements of A
using TypeB = Bfloat;               // elements of B
using TypeD = Bfloat;               // elements of C and D
using Acc = float;                  // sums
using Real = float;                 // what sums are finished in
constexpr int kThin = 3;            // rows of the thin operand
using Fragment = u32;               // a register of an operand
constexpr int kChunks = 1;          // parts of a step of the instruction
constexpr int kMmaSums = 4;         // registers of sums of the matrix instruction
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

// ---- cuda/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects types.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return Real(y);
}
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(float(x)));
  return y;
}
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x)));
  return y;
}
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  Bfloat y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x)));
  return y;
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(float(high)), "f"(float(low)));
  return y;
}

// ---- cuda/epilogue.h ----
// What happens to a sum: alpha, beta·C, bias, activation, residual, in that order, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  const TypeD* residual;
  const Real* bias;
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  return out;
}

/// Bias and activation of one element; those outside D read nothing.
KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) {
  return x;
}

// ---- cuda/gemv.cu ----
// A thin operand (at most 16 rows) times a wide one whose rows run along k: each warp takes kRows
// wide rows, its lanes walk along k together, and their sums meet at the end. Bound by memory, and
// content with any address. "Thin" is A, or B when kSwap. Expects convert.h, epilogue.h.

using TypeThin = KILN_THIN;
using TypeWide = KILN_WIDE;

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Real x = Real(sum) * out.alpha;
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  *d = from_real(x, TypeD{});
}

// ---- cuda/gemv_words.h ----
// Wide rows at any address, read by the aligned 16-byte words that lie in them whole. Rows as far
// apart as a word has elements begin at the same place within a word, whatever their distance: a
// block takes rows of one such class. Expects gemv.cu.

constexpr int kEach = 16 / sizeof(TypeWide);  // elements of a word
static_assert(sizeof(TypeThin) == sizeof(TypeWide), "a word of either holds as many elements");

template <typename T>
struct alignas(16) Word {
  T x[kEach];
};

struct Thin {
  const TypeThin* from;
  i64 ld;
  __device__ __forceinline__ TypeThin at(int t, i64 k) const {
    return from[kThinAlongK ? t * ld + k : k * ld + t];
  }
};

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/mma.h ----
// The matrix instruction of a warp: one wrapper for the shape that the parameters chose, and what
// instructions make a step. The macros KILN_MMA… hold what only text can give: the instruction's
// name and its lists of operands.

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}

/// 16 rows by 8 columns over one step of k. Registers of A go down 8 rows first, then along k.
KILN_DEVICE void multiply_step(Acc (&sums)[4], const Fragment (&a)[kChunks * 4],
                               const Fragment (&b)[kChunks * 2]) {
  if constexpr (kMmaSums == 2) {
    _Pragma("unroll") for (int k = 0; k < kChunks * 2; ++k)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        mma_sync(sums + half * 2, a + k * 2 + half, b + k);
  } else {
    _Pragma("unroll") for (int k = 0; k < kChunks * 4 / kMmaA; ++k)
      mma_sync(sums, a + k * kMmaA, b + k * kMmaB);
  }
}

// ---- cuda/unaligned.h ----
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
  _Pragma("unroll") for (int i = 0; i < 16; ++i) words[i / 4] |=
      (i >= first && i <= last ? bytes[i] : 0) << i % 4 * 8;
  return uint4{words[0], words[1], words[2], words[3]};
}

/// The bytes where they belong. Words are chosen bit by bit of their number, which keeps all of them
/// in registers.
KILN_DEVICE uint4 shifted(const Fetched& f) {
  const u32 all[8] = {f.low.x,  f.low.y,  f.low.z,  f.low.w,
                      f.high.x, f.high.y, f.high.z, f.high.w};
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

// ---- cuda/gemv_mma.cu ----
// The same on matrix instructions: 16 wide rows of a block by the thin ones, up to 8, along all of
// k. Each warp has a part of k and fetches all of it at once; what it multiplies by lies in shared
// memory, its words cut where the wide rows' are. Any order of k will do as long as both operands
// agree, so that a lane's word of 8 elements serves two instructions as it is. Expects gemv_words.h,
// mma.h, unaligned.h.

constexpr int kColumns = 8;  // of the instruction
static_assert(kThin <= kColumns, "thin rows are the instruction's columns");

/// Element `e` of the word at `place` of a panel: 0 stands before the first whole word.
KILN_DEVICE i64 element_at(int head, int place, int e) {
  return head + i64(place - 1) * kEach + e;
}

/// What a block brings to shared memory, in pieces for its threads: the thin rows' whole words, and
/// element by element what is ragged of either operand.
struct Pieces {
  static constexpr int kThreads = kWarps * 32;
  /// Ragged words of the thin rows, and the two whole ones beside which there may be nothing to read.
  static constexpr int kThinWords = 2 * kThin + 2;
  static constexpr int kEnds = (16 * 2 * kEach + kThreads - 1) / kThreads;
  static constexpr int kSingles = (kThinWords * kEach + kThreads - 1) / kThreads;
  static constexpr int kWhole = ((kPanel - 2) * kThin + kThreads - 1) / kThreads;

  TypeWide ends[kEnds];
  TypeThin singles[kSingles];
  uint4 low[kWhole], high[kWhole];

  static __device__ __forceinline__ int number(int j) { return int(threadIdx.x) + j * kThreads; }
  static __device__ __forceinline__ int row_of_single(int word) {
    return word < 2 * kThin ? word / 2 : word == 2 * kThin ? 0 : kThin - 1;
  }
  static __device__ __forceinline__ int place_of_single(int word, int words) {
    return word < 2 * kThin ? word % 2 * (words + 1) : word == 2 * kThin ? 1 : words;
  }
  /// Whole words are numbered place by place; the first and the last are taken element by element.
  static __device__ __forceinline__ bool is_whole(int i, int words) {
    return i > 0 && i < words * kThin - 1;
  }
  static __device__ __forceinline__ const unsigned char* whole_at(const Thin& thin, int i, int head) {
    return reinterpret_cast<const unsigned char*>(thin.from + i % kThin * thin.ld +
                                                  element_at(head, i / kThin + 1, 0));
  }

  template <typename WideRow>
  __device__ __forceinline__ void fetch(const WideRow& wide_row, const Thin& thin, int head, int words,
                                        i64 k) {
    _Pragma("unroll") for (int j = 0; j < kEnds; ++j) {
      const int i = number(j), row = i / (2 * kEach);
      const i64 at = element_at(head, i / kEach % 2 * (words + 1), i % kEach);
      ends[j] = TypeWide{};
      if (row < 16 && at >= 0 && at < k) ends[j] = wide_row(row)[at];
    }
    _Pragma("unroll") for (int j = 0; j < kSingles; ++j) {
      const int word = number(j) / kEach;
      const i64 at = element_at(head, place_of_single(word, words), number(j) % kEach);
      singles[j] = TypeThin{};
      if (word < kThinWords && at >= 0 && at < k) singles[j] = thin.at(row_of_single(word), at);
    }
    _Pragma("unroll") for (int j = 0; j < kWhole; ++j) {
      const int i = number(j);
      low[j] = high[j] = uint4{};
      if (!is_whole(i, words)) continue;
      if constexpr (kThinAlongK) {
        const Fetched f = fetch_words(whole_at(thin, i, head));
        low[j] = f.low;
        high[j] = f.high;
      } else {
        Word<TypeThin> word;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) word.x[e] =
            thin.at(i % kThin, element_at(head, i / kThin + 1, e));
        low[j] = reinterpret_cast<const uint4&>(word);
      }
    }
  }

  __device__ __forceinline__ void store(uint4 (&panel)[kThin][kPanel], uint4 (&wide_ends)[16][2],
                                        const Thin& thin, int head, int words) const {
    _Pragma("unroll") for (int j = 0; j < kEnds; ++j) {
      const int i = number(j), row = i / (2 * kEach);
      if (row < 16) reinterpret_cast<TypeWide*>(&wide_ends[row][i / kEach % 2])[i % kEach] = ends[j];
    }
    _Pragma("unroll") for (int j = 0; j < kSingles; ++j) {
      const int word = number(j) / kEach;
      if (word >= kThinWords) continue;
      uint4& to = panel[row_of_single(word)][place_of_single(word, words)];
      reinterpret_cast<TypeThin*>(&to)[number(j) % kEach] = singles[j];
    }
    _Pragma("unroll") for (int j = 0; j < kWhole; ++j) {
      const int i = number(j);
      if (!is_whole(i, words)) continue;
      const int shift = int(reinterpret_cast<u64>(whole_at(thin, i, head)) & 15);
      panel[i % kThin][i / kThin + 1] = kThinAlongK ? shifted(Fetched{low[j], high[j], shift}) : low[j];
    }
  }
};

/// sums += wide · thin over one word of each row: `wide` has those of rows g and g + 8.
KILN_DEVICE void multiply_words(Acc (&sums)[4], const uint4 (&wide)[2], const uint4& thin) {
  const Fragment low[4] = {wide[0].x, wide[1].x, wide[0].y, wide[1].y}, low_thin[2] = {thin.x, thin.y};
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
    _Pragma("unroll") for (int r = 0; r < 2; ++r) held[s][r] =
        first + s * 4 < words ? reinterpret_cast<const uint4*>(rows[r] + head)[first + s * 4]
                              : uint4{};
  // All of it on its way before any of it is stored; behind the wide rows' words, because all blocks
  // want the same ones.
  Pieces pieces;
  pieces.fetch(wide_row, thin, head, words, k);
  pieces.store(panel, ends, thin, head, words);
  __syncthreads();

  // Two chains of instructions, of which each waits for the one before it.
  Acc sums[2][4] = {};
  const auto thin_word = [&](bool there, int place) {
    return there && g < kThin ? panel[g < kThin ? g : 0][place] : uint4{};
  };
  _Pragma("unroll") for (int s = 0; s < kSteps; ++s) {
    const int at = first + s * 4;
    multiply_words(sums[s % 2], held[s], thin_word(at < words, at + 1));
  }
  if (warp == 0) {
    uint4 ragged[2] = {};
    if (t < 2) _Pragma("unroll") for (int r = 0; r < 2; ++r) ragged[r] = ends[g + r * 8][t];
    multiply_words(sums[1], ragged, thin_word(t < 2, t * (words + 1)));
  }
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    parts[warp][g + i / 2 * 8][t * 2 + i % 2] = sums[0][i] + sums[1][i];
  __syncthreads();
  const Output out = output_of(args, batch);
  for (int i = int(threadIdx.x); i < 16 * kThin; i += kWarps * 32) {
    const int row = i % 16, column = i / 16;
    Acc sum = parts[0][row][column];
    _Pragma("unroll") for (int w = 1; w < kWarps; ++w) sum += parts[w][row][column];
    const i64 there = row0 + i64(row) * kClasses;
    if (there < wide_rows) store_one(out, sum, kSwap ? there : column, kSwap ? column : there);
  }
}
