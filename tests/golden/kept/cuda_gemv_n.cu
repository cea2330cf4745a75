// Written by kiln 0.3.0.
// device:  sm_90a
// problem: bf16 N N 3 4099 4096
// config:  cuda_gemv_n thin=4 warps=8 ahead=2 words=2 splits=4 matrix=1 swap=0
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_gemv_n_c79f83fb4f94bcd6.cu

// ---- cuda/common/abi.h ----
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

// ---- cuda/common/types.h ----
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
using TypeA = Bfloat;                 // elements of A
using TypeB = Bfloat;                 // elements of B
using TypeD = Bfloat;                 // elements of C and D
using Acc = float;                    // accumulators
using Real = float;                   // what the epilogue computes in
constexpr int kThin = 4;              // rows of the thin operand that there is room for
constexpr int kWarps = 8;             // of a block, which take lines of k in turn
constexpr int kAhead = 2;             // groups of 16 lines on their way to a warp
constexpr int kPanel = 512;           // lines of the thin rows in shared memory at once
constexpr bool kAligned = false;      // lines of the wide operand begin with words
using Fragment = u32;                 // a register of an operand
constexpr int kWords = 2;             // of a lane, 8 words of the line apart
constexpr int kChunks = 1;            // parts of a step of the instruction
constexpr int kMmaSums = 4;           // accumulator registers of the matrix instruction
constexpr int kMmaA = 4;              // registers of the wide operand
constexpr int kMmaB = 2;              // registers of the thin one
constexpr int kSplits = 4;            // parts that k is divided into
constexpr int kCounterBytes = 65536;  // front of the workspace, counters of tiles
constexpr bool kSwap = false;         // thin is B
constexpr bool kThinAlongK = true;    // the thin operand's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])
#define KILN_THIN TypeA
#define KILN_WIDE TypeB

// ---- cuda/common/convert_ptx.h ----
// Conversions of one instruction, on the bits of small floats. Rounding is to nearest even. Of two
// values in a register the first is in the low half. Expects types.h.

KILN_DEVICE float half_to_float(u16 bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
KILN_DEVICE u16 float_to_half(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_halves(float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
/// Saturates; NaN becomes 0.
KILN_DEVICE i32 float_to_int(float x) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
KILN_DEVICE u16 float_to_bfloat(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_bfloats(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// ---- cuda/common/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects convert_ptx.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) { return Real(half_to_float(x.bits)); }
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) { return float_to_int(float(x)); }
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{float_to_half(float(x))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  return Bfloat{float_to_bfloat(float(x))};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return floats_to_bfloats(float(low), float(high));
}

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  // Nothing reads these two: stored kernels, which are known by their tokens, have them.
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

KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) { return x; }

// ---- cuda/gemv/read.h ----
// Elements of the thin and of the wide operand on their way to sums, and the sum of a warp. Expects
// convert.h.

using TypeThin = KILN_THIN;
using TypeWide = KILN_WIDE;

/// Rows of the thin operand, kThin at most.
KILN_DEVICE int thin_rows(const KilnGpuArgs& args) { return int(kSwap ? args.n : args.m); }

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

// ---- cuda/gemv/store.h ----
// A sum becomes an element of D. Expects convert.h, epilogue.h.

KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  *d = from_real(x, TypeD{});
}

// ---- cuda/gemv/words.h ----
// Wide rows at any address, read by the aligned 16-byte words that lie in them whole. Rows as far
// apart as a word has elements begin at the same place within a word, whatever their distance: a
// block takes rows of one such class. Expects read.h.

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

/// Element `e` of a word. Short ones are cut from 32 bits, which saves an instruction of each.
template <typename T>
KILN_DEVICE Acc element(const uint4& word, int e) {
  if constexpr (sizeof(T) < 4) {
    const u32 all[4] = {word.x, word.y, word.z, word.w};
    const u32 bits = all[e * sizeof(T) / 4] >> e * sizeof(T) % 4 * 8;
    const u16 two = u16(bits);
    const u8 one = u8(bits);
    if constexpr (sizeof(T) == 2) return widened(reinterpret_cast<const T&>(two));
    return widened(reinterpret_cast<const T&>(one));
  } else {
    return widened(reinterpret_cast<const Word<T>&>(word).x[e]);
  }
}

// ---- cuda/common/grid_ptx.h ----
// Grids that overlap with the one before and the one behind, since Hopper.

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/common/partials_ptx.h ----
// Who is the last to store its part of a tile.

/// Adds one; how many came before. Releases what this thread has seen stored, acquires what the
/// others released.
KILN_DEVICE u32 count_arrival(u32* counter) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

// ---- cuda/simt/combine_ptx.h ----
// Accumulators to and from the workspace, past L1, which may hold what another block has
// overwritten since.

KILN_DEVICE void store_past_l1(float* to, float x) {
  asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
KILN_DEVICE void store_past_l1(double* to, double x) {
  asm volatile("st.global.cg.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}
KILN_DEVICE void store_past_l1(i32* to, i32 x) {
  asm volatile("st.global.cg.s32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
KILN_DEVICE void load_past_l1(float& x, const float* from) {
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(double& x, const double* from) {
  asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
}
KILN_DEVICE void load_past_l1(i32& x, const i32* from) {
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
}

// ---- cuda/common/mma_ptx.h ----
// The matrix instruction of a warp, of the shape that the parameters chose. The macros KILN_MMA…
// hold what only text can give: the instruction's name and its lists of operands.

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}

// ---- cuda/common/mma.h ----
// The matrix instructions of a warp that make a step. Expects mma_ptx.h.

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

// ---- cuda/gemv_n/wide.h ----
// The wide operand, whose lines run across k, read by aligned words. Expects read.h, words.h.

static_assert(kAligned || kWarps % kEach == 0,
              "lines of a warp begin at the same place within a word");

/// The wide operand of a batch.
struct Wide {
  const TypeWide* from;  // line 0
  i64 ld;
  /// Words from `begin` to before `end` lie inside the operand; the one in front of `begin` and the
  /// one at `end` may hold some of its elements.
  const unsigned char *begin, *end;

  static __device__ __forceinline__ Wide of(const TypeWide* from, i64 ld, i64 lines, i64 columns) {
    Wide wide{from, ld};
    wide.begin = wide.at(0, 0) + (16 - (reinterpret_cast<u64>(from) & 15)) % 16;
    wide.end = wide.at(lines - 1, columns);
    wide.end -= reinterpret_cast<u64>(wide.end) & 15;
    return wide;
  }
  __device__ __forceinline__ const unsigned char* at(i64 k, i64 column) const {
    return reinterpret_cast<const unsigned char*>(from + k * ld + column);
  }
  /// Elements in front of line `k` in its first word.
  __device__ __forceinline__ int offset_of(i64 k) const {
    return int(reinterpret_cast<u64>(from + k * ld) & 15) / int(sizeof(TypeWide));
  }
  __device__ __forceinline__ uint4 word(const unsigned char* word, bool there) const {
    return there && word >= begin && word < end ? *reinterpret_cast<const uint4*>(word) : uint4{};
  }
};

/// The words in front of `begin` and at `end`, zero where the operand is not. Read one element a
/// thread, since what lies around an operand is not read.
struct Ends {
  uint4 words[2];

  /// Whether lines from `first` to before `last` have elements there.
  static __device__ __forceinline__ bool are_of(const Wide& wide, i64 first, i64 last,
                                                i64 columns) {
    return wide.at(first, 0) < wide.begin || wide.at(last - 1, columns) > wide.end;
  }
  __device__ __forceinline__ void fetch(const Wide& wide, i64 lines, i64 columns) {
    const int i = int(threadIdx.x);
    if (i >= 2 * kEach) return;
    const auto* at =
        reinterpret_cast<const TypeWide*>(i < kEach ? wide.begin - 16 : wide.end) + i % kEach;
    const bool there = at >= wide.from && at < wide.from + (lines - 1) * wide.ld + columns;
    reinterpret_cast<TypeWide*>(words)[i] = there ? *at : TypeWide{};
  }
  /// Replaces a word that was taken for zero.
  __device__ __forceinline__ void mend(const Wide& wide, const unsigned char* at,
                                       uint4& word) const {
    if (at == wide.begin - 16) word = words[0];
    if (at == wide.end) word = words[1];
  }
};

// ---- cuda/gemv_n/matrix_sums.h ----
// Matrix instructions: 16 lines of k at a time, of which the lanes of a quad have four each; eight
// lanes have words side by side. Columns of the wide operand are the instruction's rows, thin rows
// its columns. Expects wide.h, mma.h.

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

// ---- cuda/gemv_n/gemv_n.cu ----
// A thin operand (at most kThin rows) times a wide one whose lines run across k, at any address,
// read by the aligned 16-byte words that hold its elements. The warps of a block take lines of k in
// turn, so that all lines of a warp begin at the same place within a word; where the warps' sums
// meet, their columns are brought in line. k may be divided among blocks. "Thin" is A, or B when
// kSwap. Expects wide.h, grid_ptx.h, store.h, sums.h or matrix_sums.h and, where k is divided,
// partials_ptx.h, combine_ptx.h.

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  __shared__ Panel panel;
  __shared__ Acc parts[kWarps][kPartSize];
  __shared__ Ends ends;
  const int warp = int(threadIdx.x) / 32;
  const i64 columns = kSwap ? args.m : args.n;
  const int rows = thin_rows(args);
  const u32 tiles = u32(ceil_div(columns, kTileColumns));
  const u32 tile = blockIdx.x % tiles, split = blockIdx.x / tiles % kSplits;
  const u32 batch = blockIdx.x / tiles / kSplits;
  const Thin thin{static_cast<const TypeThin*>(kSwap ? args.b : args.a) +
                      batch * (kSwap ? args.stride_b : args.stride_a),
                  kSwap ? args.ldb : args.lda};
  const auto wide = Wide::of(static_cast<const TypeWide*>(kSwap ? args.a : args.b) +
                                 batch * (kSwap ? args.stride_a : args.stride_b),
                             kSwap ? args.lda : args.ldb, args.k, columns);
  const i64 column0 = i64(tile) * kTileColumns;
  const i64 lines = ceil_div(args.k, kSplits), first = split * lines;
  const i64 last = min(args.k, first + lines);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  Sums sums;
  sums.begin(wide, first, column0);
  sums.fetch(wide, first, last);
  const bool at_ends = Ends::are_of(wide, first, last, columns);
  if (at_ends) ends.fetch(wide, args.k, columns);
  for (i64 k0 = first; k0 < last; k0 += kPanel) {
    const int here = int(min(last - k0, i64(kPanel)));
    lay_out(panel, thin, rows, k0, here);
    __syncthreads();
    for (int line = 0; line < here; line += kTurn) {
      if (at_ends) sums.mend(wide, ends, k0 + line, last);
      sums.multiply(panel, line);
      // Fetched when all before are used: the hardware waits for the youngest load with the oldest.
      sums.fetch(wide, k0 + line + kTurn, last);
    }
    __syncthreads();
  }

  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(args.workspace) + kCounterBytes) +
      i64(batch * tiles + tile) * (kSplits * kThin * kTileColumns);
  _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
    if (t >= rows) break;
    sums.store_row(parts[warp], t);
    __syncthreads();
    for (int i = int(threadIdx.x); i < kTileColumns; i += kWarps * 32) {
      Acc sum = Acc(0);
      _Pragma("unroll") for (int w = 0; w < kWarps; ++w)
        sum += parts[w][place_of_column(i + wide.offset_of(first + w))];
      store_past_l1(partial + (i64(split) * kThin + t) * kTileColumns + i, sum);
    }
    __syncthreads();
  }
  // The block that stores its part last adds up all of them, in the order of k.
  __shared__ int is_last;
  if (threadIdx.x == 0) {
    u32* counter = static_cast<u32*>(args.workspace) + batch * tiles + tile;
    const bool all = count_arrival(counter) == u32(kSplits - 1);
    if (all) *counter = 0;
    is_last = all;
  }
  __syncthreads();
  if (!is_last) return;
  const Output out = output_of(args, batch);
  _Pragma("unroll 1") for (int i = int(threadIdx.x); i < rows * kTileColumns; i += kWarps * 32) {
    const int t = i / kTileColumns;
    const i64 column = column0 + i % kTileColumns;
    if (column >= columns) continue;
    Acc part[kSplits];
    _Pragma("unroll") for (int s = 0; s < kSplits; ++s)
      load_past_l1(part[s], partial + i64(s) * (kThin * kTileColumns) + i);
    Acc sum = part[0];
    _Pragma("unroll") for (int s = 1; s < kSplits; ++s) sum += part[s];
    store_one(out, sum, kSwap ? column : t, kSwap ? t : column);
  }
}
