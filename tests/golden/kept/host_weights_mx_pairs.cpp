// device:  x86-64-v4
// problem: bf16_fp4 N T 1 4096 4096 group=mx32
// config:  host_weights isa=avx512 pairs=1 mr=1 nr=4 ahead=1 parallel=none

// ---- cpu/common/types.h ----
// Names of the element types. No headers are used anywhere, so that a generated source is
// self-contained.

template <typename T, int N>
using Vec = T __attribute__((ext_vector_type(N)));

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;

/// Storage of the 16-bit formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct E8m0 {
  u8 bits;
};

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vdpbf16ps
using TypeScale = E8m0;           // scales of B
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 32;       // elements along k that share a scale
constexpr int kMr = 1;            // rows of A in the tile
constexpr int kNr = 4;            // columns of B in the tile
constexpr int kRowUnit = 1;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 4;    // columns are divided among threads at multiples of this

// ---- cpu/common/small_floats.h ----
// Codes of blocks of 32 to numbers of fp32, exactly: elements (e2m1) and scales (e8m0). Expects
// types.h, vector.h.

/// The number of a code (e2m1).
constexpr float e2m1_number(int code) {
  const int quarters = code & 6 ? (2 + (code & 1)) << (code >> 1 & 3) : (code & 1) * 2;
  return float(quarters) / float(code & 8 ? -4 : 4);
}
/// Numbers of codes (e2m1) in the top bits of lanes: exponent and mantissa are moved to fp32's
/// place, where x is right but for zero, which is 0.5, and the denormal, which is 0.75 in place of
/// 0.5. 2x - 1 is right for these two and no less than x for the others. (The product by which
/// e4m3_to_float() makes denormals right is slow on Intel's processors where it meets one.)
template <int L>
KILN_INLINE Vec<float, L> e2m1_to_float(Vec<i32, L> top) {
  const auto x = bits_of<Vec<float, L>>(((top >> 6) & 0x01c00000) + 0x3f000000);
  const Vec<float, L> magnitude = __builtin_elementwise_min(x, x + (x - 1.0f));
  return bits_of<Vec<float, L>>(bits_of<Vec<i32, L>>(magnitude) | (top & i32(0x80000000u)));
}
template <>
struct RawOf<E8m0> {
  using type = u8;
};
/// 2^(code - 127), of which the least is a denormal; the last code is a NaN.
template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u8, L> raw, E8m0) {
  const Vec<u32, L> code = __builtin_convertvector(raw, Vec<u32, L>);
  const Vec<u32, L> first_or_last =
      ((code + 1u) & 0xffu) < 2u ? Vec<u32, L>(0x00400000u) : Vec<u32, L>(0u);
  return bits_of<Vec<Real, L>>((code << 23) | first_or_last);
}

// ---- cpu/weights/weights.cpp ----
// Few rows of A times weights of four or eight bits that are k-major: vectors run along k, codes
// become numbers in registers, and a tile of kMr × kNr accumulators is reduced across its lanes at
// the end. A vector of B holds kChunk codes, those of a lane side by side; slice j is the j-th code
// of every lane, and A's elements are arranged the same way first. The sum of a chunk is scaled,
// then added. Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

/// Codes in one element of the vectors that slices are taken from.
constexpr int kSlices = 8 * int(sizeof(Unit)) / kGroup / kCodeBits;
constexpr int kChunk = kLanes * kGroup * kSlices;
constexpr int kGroupsOfChunk = kChunk / kGroupK;

// --- codes to numbers
// ------------------------------------------------------------------------------

using Codes = Vec<u16, kLanes * 2>;

constexpr u16 bfloat_of(float value) { return u16(__builtin_bit_cast(u32, value) >> 16); }
constexpr float code_value(int code) { return e2m1_number(code); }

/// Of each zero point the numbers of all codes, twice: an index has five bits, a code four.
struct Tables {
  alignas(64) u16 of[16][32];
  constexpr Tables() : of() {
    for (int zero = 0; zero < 16; ++zero)
      for (int i = 0; i < 32; ++i) of[zero][i] = bfloat_of(code_value(i & 15) - code_value(zero));
  }
};
static constexpr Tables kTables;

/// Slice J of a chunk.
template <int J>
KILN_INLINE UnitVec slice(Codes codes, Vec<u16, 32> table) {
  using Words = Vec<short, 32>;
  return bits_of<UnitVec>(
      __builtin_ia32_permvarhi512(bits_of<Words>(table), bits_of<Words>(codes >> (J * kCodeBits))));
}

// --- scales and zero points
// ------------------------------------------------------------------------

/// Groups of a column, whole chunks and vectors of them.
KILN_INLINE i64 groups_of(i64 k) {
  return k / kGroupK;
}
KILN_INLINE i64 padded_groups(i64 k) {
  return round_up(round_up(groups_of(k), kGroupsOfChunk), kLanes);
}

/// `groups` numbers of any type as fp32, zeros behind them.
template <typename T>
static void read_numbers(float* to, const T* from, i64 groups, i64 padded) {
  for (i64 g = 0; g < padded; g += kLanes)
    store(to + g, load_real<kLanes>(from + g, int(g < groups ? smaller(groups - g, kLanes) : 0)));
}

template <typename V, int... I>
KILN_INLINE AccVec spread(V few, Sequence<int, I...>) {
  return __builtin_shufflevector(few, few, (I * kGroupsOfChunk / kLanes)...);
}
/// The numbers of a chunk's groups, one a lane.
KILN_INLINE AccVec of_chunk(const float* numbers, i64 chunk) {
  return spread(load<Vec<float, kGroupsOfChunk>>(numbers + chunk * kGroupsOfChunk), Iota<kLanes>{});
}

/// What a tile reads of one column.
struct Column {
  const u8* codes;
  const float* scales;
};

// --- A
// ---------------------------------------------------------------------------------------------

KILN_INLINE i64 chunks_of(i64 k) { return (k + kChunk - 1) / kChunk; }

template <int J, typename V, int... I>
KILN_INLINE auto every(V all, Sequence<int, I...>) {
  return __builtin_shufflevector(all, all, (I * kSlices + J)...);
}
/// The slices of a chunk of A, a vector of another row apart.
template <int J = 0>
KILN_INLINE void arrange(UnitVec* to, Vec<Raw<TypeA>, kChunk> all) {
  to[J * kMr] = units_along<kLanes, TypeA>(every<J>(all, Iota<kLanes * kGroup>{}));
  if constexpr (J + 1 < kSlices) arrange<J + 1>(to, all);
}

KILN_INLINE Vec<Raw<TypeA>, kChunk> chunk_of_a(const TypeA* from, i64 ld, i64 count) {
  (void)ld;
  return load_first<kChunk>(reinterpret_cast<const Raw<TypeA>*>(from), int(smaller(count, kChunk)));
}

/// All rows as [rows / kMr][chunks][kSlices][kMr] vectors, zeros beyond m and k.
static void arrange_rows(UnitVec* to, const KilnArgs& args) {
  const i64 chunks = chunks_of(args.k);
  for (i64 row = 0; row < round_up(args.m, kMr); ++row) {
    UnitVec* at = to + row / kMr * kMr * chunks * kSlices + row % kMr;
    for (i64 chunk = 0; chunk < chunks; ++chunk, at += kSlices * kMr) {
      const i64 k = chunk * kChunk;
      const TypeA* from = static_cast<const TypeA*>(args.a) + row * args.lda + k;
      arrange(at, row < args.m ? chunk_of_a(from, args.lda, args.k - k)
                               : Vec<Raw<TypeA>, kChunk>(Raw<TypeA>(0)));
    }
  }
}

// --- the tile
// --------------------------------------------------------------------------------------

/// Products of slice J and those after it, added to `part`.
template <int J = 0, typename... Table>
KILN_INLINE void add_slices(AccVec (&part)[kMr], const UnitVec* a, Codes codes, AccVec zero,
                            Table... table) {
  UnitVec b = slice<J>(codes, table...);
  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) part[i] = dot(part[i], a[J * kMr + i], b);
  if constexpr (J + 1 < kSlices) add_slices<J + 1>(part, a, codes, zero, table...);
}

/// kMr rows of A, arranged, by kNr columns; missing columns repeat the last one.
__attribute__((noinline)) static void tile(const UnitVec* a, const Column (&columns_of_b)[kNr],
                                           i64 pitch, i64 k, const Output& where, i64 row,
                                           i64 column, int rows, int columns) {
  const Output out = where;  // a copy that stores to D cannot alias
  AccVec acc[kMr][kNr];
  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) acc[i][j] = AccVec(Acc(0));
  }
  Column from[kNr];
  KILN_UNROLL
  for (int j = 0; j < kNr; ++j) from[j] = columns_of_b[j];

  auto step = [&](i64 chunk, auto codes_at) __attribute__((always_inline)) {
    const UnitVec* of_a = a + chunk * kSlices * kMr;
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) {
      const Codes codes = bits_of<Codes>(codes_at(from[j].codes + chunk * kVectorBytes));
      AccVec part[kMr];
      KILN_UNROLL
      for (int i = 0; i < kMr; ++i) part[i] = AccVec(Acc(0));
      const AccVec zero = AccVec(Acc(0));
      const int of_zero = 0;
      add_slices(part, of_a, codes, zero, load<Vec<u16, 32>>(kTables.of[of_zero]));
      const AccVec scale = of_chunk(from[j].scales, chunk);
      KILN_UNROLL
      for (int i = 0; i < kMr; ++i) acc[i][j] = fused(part[i], scale, acc[i][j]);
    }
  };
  using Bytes = Vec<u8, kVectorBytes>;
  const i64 whole = k / kChunk;
#pragma clang loop unroll(disable) vectorize(disable)
  for (i64 chunk = 0; chunk < whole; ++chunk) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j)
      __builtin_prefetch(from[j].codes + kNr * pitch + chunk * kVectorBytes);
    step(chunk, [](const u8* at) { return load<Bytes>(at); });
  }
  if (k % kChunk)
    step(whole, [&](const u8* at) {
      return load_first<kVectorBytes>(at, int((k % kChunk * kCodeBits + 7) / 8));
    });
  (void)pitch;

  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) {
    if (i >= rows) break;
    Vec<Acc, lanes_for(kNr)> total = Acc(0);
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) total[j] = add_lanes<kLanes>(acc[i][j]);
    finish<lanes_for(kNr)>(out, total, row + i, column, columns, {true, true});
  }
}

/// What one thread keeps in the workspace: A arranged, scales and zero points of a tile's columns.
KILN_INLINE i64 bytes_of_a(const KilnArgs& args) {
  return round_up(args.m, kMr) * chunks_of(args.k) * kSlices * i64(sizeof(UnitVec));
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return round_up(bytes_of_a(args) + 2 * kNr * padded_groups(args.k) * i64(sizeof(float)), 64);
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

static void multiply(const KilnArgs& args, char* own, const Output& out, i64 batch, Range columns) {
  UnitVec* const a = reinterpret_cast<UnitVec*>(own);
  float* const scales = reinterpret_cast<float*>(own + bytes_of_a(args));
  const i64 groups = groups_of(args.k), padded = padded_groups(args.k);
  const i64 pitch = args.ldb * kCodeBits / 8;
  arrange_rows(a, args);
  for (i64 j = columns.begin; j < columns.end; j += kNr) {
    const int width = int(smaller(kNr, columns.end - j));
    Column from[kNr];
    for (int c = 0; c < kNr; ++c) {
      const int at = c < width ? c : width - 1;
      const i64 first = (batch * args.n + j + at) * groups;
      from[c].codes = static_cast<const u8*>(args.b) + (j + at) * pitch;
      from[c].scales = scales + at * padded;
      if (c != at) continue;
      read_numbers(scales + c * padded, static_cast<const TypeScale*>(args.scale_b) + first, groups,
                   padded);
    }
    for (i64 i = 0; i < args.m; i += kMr)
      tile(a + i * chunks_of(args.k) * kSlices, from, pitch, args.k, out, i, j,
           int(smaller(kMr, args.m - i)), width);
  }
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Work work = work_of(args, thread, threads);
  char* const own = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const u8*>(all->b) + batch * args.stride_b * kCodeBits / 8;
    if (work.columns.begin < work.columns.end)
      multiply(args, own, output_of(args, batch), batch, work.columns);
  }
}
