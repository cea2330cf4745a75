// Written by kiln 0.3.0.
// device:  sm_90a
// problem: bf16_int4 N T 1 4096 4096 align=16 group=128 scale_type=bf16
// config:  cuda_gemv_weights tile_n=16 tile_m=8 warps=8 ahead=4
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_gemv_weights_94d6a95f0e8caf56.cu

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
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
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
using TypeA = Bfloat;                // elements of A
using TypeB = u8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using TypeScale = Bfloat;            // scales of B
constexpr int kCodeBits = 4;         // bits of an element of B
constexpr int kGroupK = 128;         // elements along k that share a scale
constexpr bool kSignedCodes = true;  // codes are two's complement
using Fragment = u32;                // a register of an operand
constexpr int kMmaSums = 4;          // registers of sums of the matrix instruction
constexpr int kMmaA = 4;             // registers of weights
constexpr int kMmaB = 2;             // registers of A
constexpr int kTilesM = 1;           // 16 columns of D each, of a block
constexpr int kTilesN = 1;           // 8 rows of D each
constexpr int kDecodeK = 128;        // k of a chunk, whose scales are fetched together
constexpr int kRead = 16;            // bytes of codes that a lane reads at once
constexpr int kWarps = 8;            // of a block, which share k
constexpr int kAhead = 4;            // chunks on their way to a warp
constexpr int kBlocks = 2;           // that are to fit one SM
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

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

// ---- cuda/common/grid_ptx.h ----
// Grids that overlap with the one before and the one behind, since Hopper.

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/common/mma_ptx.h ----
// The matrix instruction of a warp, of the shape that the parameters chose. The macros KILN_MMA…
// hold what only text can give: the instruction's name and its lists of operands.

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}

// ---- cuda/weights/decode_ptx.h ----
// Arithmetic on two small floats in one register, and on their bits. Expects types.h.

/// (x & mask) ^ bits. Left to the compiler it becomes two instructions, of one constant each.
KILN_DEVICE u32 masked_bits(u32 x, u32 mask, u32 bits) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits));
  return r;
}

/// x · y + z, rounded once.
KILN_DEVICE u32 fma_pairs(u32 x, u32 y, u32 z) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}

// ---- cuda/gemv_weights/read_ptx.h ----
// Codes from memory, each read once by one SM: they take no room in L1 from A. Expects types.h.

KILN_DEVICE void load_streamed(u32 (&to)[1], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(to[0]) : "l"(from));
}
KILN_DEVICE void load_streamed(u32 (&to)[2], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "l"(from));
}
KILN_DEVICE void load_streamed(u32 (&to)[4], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from));
}

// ---- cuda/weights/decode.h ----
// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.

constexpr int kPairs = 16 / kCodeBits;

constexpr u32 kOnes = 0x3f803f80;

/// What is added to the numbers of a column: less the offset that they have, less the zero point.
struct Offset {
  u32 pair;
};

KILN_DEVICE Offset offset_of(int zero) {
  Offset offset;
  // The sign bit was turned over, so that codes are 8 more than they count.
  const u32 more = u32(zero + (kSignedCodes ? 8 : 0));
  offset.pair = (0xc300 | more) * 0x10001;  // -(128 + more), twice
  return offset;
}

// ---- cuda/weights/pairs.h ----
// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  constexpr u32 kTurned = kSignedCodes ? 0x00080008 : 0;
  return fma_pairs(masked_bits(codes >> i * 4, 0x000f000f, 0x43004300 | kTurned), kOnes,
                   offset.pair);
}

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
  const u32 y[4] = {x[0], x[1], x[2], x[3]};
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    x[i] = __byte_perm(y[i / 2], y[i / 2 + 2], i % 2 == 0 ? 0x5410 : 0x7632);
}

// ---- cuda/weights/scaling.h ----
// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.

constexpr int kLaneColumns = kTilesM * 2;
constexpr int kGroups = kDecodeK / kGroupK;

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
};

/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
};

struct Scaling {
  const TypeScale* scales;
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    s.groups = int(args.k) / kGroupK;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      const int column = min(column0 + c * 8 + lane / 4, int(args.n) - 1);
      s.first[c] = u32(int(batch) * int(args.n) + column) * u32(s.groups);
    }
    return s;
  }

  /// Those of chunk `chunk` of all of k. Groups beyond k have scale 0.
  __device__ __forceinline__ void fetch(Fetched& to, int chunk) const {
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const int group = chunk * kGroups + g;
      const bool exists = group < groups;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        const u32 at = first[c] + u32(exists ? group : 0);
        to.scale[c][g] = exists ? scales[at] : TypeScale{};
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        f.scale[c][g] = to_real(from.scale[c][g]);
        f.offset[c][g] = offset_of(0);
      }
    return f;
  }
};

// ---- cuda/gemv/store.h ----
// A sum becomes an element of D. Expects convert.h, epilogue.h.

KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  *d = from_real(x, TypeD{});
}

// ---- cuda/gemv_weights/source.h ----
// Codes and elements of A on their way from memory to a lane's registers, in the order in which the
// matrix instruction takes them. Expects scaling.h, pairs.h, read_ptx.h.

constexpr int kWords = kRead / 4;       // of a read of codes
constexpr int kWordSteps = kPairs / 2;  // of the matrix instruction, of a word
constexpr int kWordCodes = 32 / kCodeBits;
constexpr int kLaneCodes = kWords * kWordCodes;      // of a read
constexpr int kReads = kDecodeK / (4 * kLaneCodes);  // of a chunk
constexpr int kTileN = kTilesM * 16, kTileM = kTilesN * 8;

/// A lane's codes of a chunk, and the elements of A that they meet.
using Codes = u32[kReads][kLaneColumns][kWords];
using Left = u32[kReads][kTilesN][kWords][kPairs];

struct alignas(kPairs * 4) SomeA {
  u32 x[kPairs];
};

/// Where a lane reads. Columns and rows that do not exist repeat the last ones: nothing of them is
/// stored.
struct Source {
  const unsigned char *codes, *left;  // of the block's first column and row, this lane's first byte
  u32 column[kLaneColumns], row[kTilesN];  // bytes from there on
  int k;  // codes from the lane's first one on

  static __device__ __forceinline__ Source at(const KilnGpuArgs& args, i64 batch, i64 row0,
                                              i64 column0, int lane) {
    Source s;
    const int first = lane % 4 * kLaneCodes;
    s.codes = static_cast<const unsigned char*>(args.b) +
              ((batch * args.stride_b + column0 * args.ldb) * kCodeBits + first * kCodeBits) / 8;
    s.left = static_cast<const unsigned char*>(args.a) +
             (batch * args.stride_a + row0 * args.lda + first) * i64(sizeof(TypeA));
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c)
      s.column[c] =
          u32(min(i64(c * 8 + lane / 4), args.n - 1 - column0) * args.ldb * kCodeBits / 8);
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      s.row[j] = u32(min(i64(j * 8 + lane / 4), args.m - 1 - row0) * args.lda * i64(sizeof(TypeA)));
    s.k = int(args.k) - first;
    return s;
  }

  /// Beyond k there are zeros: of A, so that it does not matter what the codes mean.
  __device__ __forceinline__ void fetch(Codes& to, int chunk) const {
    _Pragma("unroll") for (int r = 0; r < kReads; ++r) {
      const int at = chunk * kDecodeK + r * 4 * kLaneCodes;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        if (at < k) {
          load_streamed(to[r][c], codes + column[c] + i64(at) * kCodeBits / 8);
        } else {
          _Pragma("unroll") for (int w = 0; w < kWords; ++w) to[r][c][w] = 0;
        }
      }
    }
  }
  __device__ __forceinline__ void fetch(Left& to, int chunk) const {
    _Pragma("unroll") for (int r = 0; r < kReads; ++r) {
      const int at = chunk * kDecodeK + r * 4 * kLaneCodes;
      _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
        _Pragma("unroll") for (int w = 0; w < kWords; ++w) {
          SomeA some = {};
          if (at < k)
            some = *reinterpret_cast<const SomeA*>(left + row[j] +
                                                   (i64(at) + w * kWordCodes) * i64(sizeof(TypeA)));
          _Pragma("unroll") for (int i = 0; i < kPairs; ++i) to[r][j][w][i] = some.x[i];
          pair_alike(to[r][j][w]);
        }
    }
  }
};

// ---- cuda/gemv_weights/gemv_weights.cu ----
// Few rows of A times weights of four or eight bits that are k-major, bound by memory: codes go
// from memory to the registers in which they are decoded. A block has 16·kTilesM columns, its warps
// share k in chunks, one after the other in turn, and each has kAhead chunks on their way. The
// weights are the left operand of the matrix instruction; any order of k will do as long as both
// operands agree, so that the bytes that a lane reads serve as they lie. A is read through L1,
// which all warps of an SM share. Expects source.h, mma_ptx.h, grid_ptx.h, cuda/gemv/store.h.

/// Sums of 16 columns and 8 rows each.
using Sums = Acc[kTilesM][kTilesN][4];

/// Adds the products of a chunk.
KILN_DEVICE void multiply(Sums& sums,
                          const Codes& codes, const Left& left, const Factors& factors) {
  _Pragma("unroll") for (int r = 0; r < kReads; ++r)
    _Pragma("unroll") for (int w = 0; w < kWords; ++w)
      _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
        _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
          u32 numbers[4];
          _Pragma("unroll") for (int e = 0; e < 4; ++e)
            numbers[e] = pair_of(codes[r][i * 2 + e % 2][w], s * 2 + e / 2,
                                 factors.offset[i * 2 + e % 2][0]);
          _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
            mma_sync(sums[i][j], numbers, left[r][j][w] + s * 2);
        }
      }
}

/// What the codes' scales, and zero points between codes, make of sums.
KILN_DEVICE void add_scaled(Sums& to, const Sums& sums,
                            const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        Acc sum = sums[i][j][e];
        to[i][j][e] += factors.scale[i * 2 + e / 2][0] * sum;
      }
}

/// The sums of a warp's chunks of `chunks` in all.
KILN_DEVICE void run(Sums& sums, const Source& source, const Scaling& scaling, int warp,
                     int chunks) {
  Codes codes[kAhead];
  Left left;
  Fetched fetched[kAhead];
  _Pragma("unroll") for (int s = 0; s < kAhead; ++s) {
    source.fetch(codes[s], warp + s * kWarps);
    scaling.fetch(fetched[s], warp + s * kWarps);
  }
  source.fetch(left, warp);
  _Pragma("unroll 1") for (int first = warp; first < chunks; first += kAhead * kWarps)
    _Pragma("unroll") for (int s = 0; s < kAhead; ++s) {
      const int chunk = first + s * kWarps;
      if (chunk >= chunks) break;
      Left here;
      _Pragma("unroll") for (int i = 0; i < int(sizeof(Left) / sizeof(u32)); ++i)
        (&here[0][0][0][0])[i] = (&left[0][0][0][0])[i];
      source.fetch(left, chunk + kWarps);
      const Factors factors = scaling.factors(fetched[s], chunk);
      Sums parts = {};
      multiply(parts, codes[s], here, factors);
      add_scaled(sums, parts, factors);
      scaling.fetch(fetched[s], chunk + kAhead * kWarps);
      source.fetch(codes[s], chunk + kAhead * kWarps);
    }
}

extern "C" __global__ void __launch_bounds__(kWarps * 32, kBlocks) kiln_gemm(
    const __grid_constant__ KilnGpuArgs args
) {
  __shared__ Acc parts[kWarps][kTileM][kTileN + 1];
  const int lane = int(threadIdx.x) % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0);
  const u32 down = u32(args.m + kTileM - 1) / kTileM, across = u32(args.n + kTileN - 1) / kTileN;
  // Rows first: their blocks read the same codes.
  const u32 tile = blockIdx.x / down, batch = tile / across;
  const i64 row0 = i64(blockIdx.x % down) * kTileM, column0 = i64(tile % across) * kTileN;
  const Source source = Source::at(args, batch, row0, column0, lane);
  const Scaling scaling = Scaling::at(args, batch, int(column0), lane);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  Sums sums = {};
  run(sums, source, scaling, warp, int((args.k + kDecodeK - 1) / kDecodeK));
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        parts[warp][j * 8 + lane % 4 * 2 + e % 2][i * 16 + e / 2 * 8 + lane / 4] = sums[i][j][e];
  __syncthreads();
  const Output out = output_of(args, batch);
  for (int i = int(threadIdx.x); i < kTileM * kTileN; i += kWarps * 32) {
    const int row = i / kTileN, column = i % kTileN;
    if (row0 + row >= out.rows || column0 + column >= out.columns) continue;
    Acc sum = parts[0][row][column];
    _Pragma("unroll") for (int w = 1; w < kWarps; ++w) sum += parts[w][row][column];
    store_one(out, sum, row0 + row, column0 + column);
  }
}
