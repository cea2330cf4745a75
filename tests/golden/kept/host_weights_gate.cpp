// device:  x86-64-v4
// problem: bf16_int4 N T 1 14336 4096 group=128 gate=silu
// config:  host_weights isa=avx512 pairs=0 mr=1 nr=4 ahead=1 parallel=n

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
using TypeScale = float;          // scales of B
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 128;      // elements along k that share a scale
constexpr int kMr = 1;            // rows of A in the tile
constexpr int kNr = 4;            // columns of B in the tile
constexpr int kRowUnit = 1;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 2;    // columns are divided among threads at multiples of this

// ---- cpu/weights/weights.cpp ----
// Few rows of A times weights of four or eight bits that are k-major: vectors run along k, codes
// become numbers in registers, and a tile of kMr × kNr accumulators is reduced across its lanes at
// the end. A vector of B holds kChunk codes, those of a lane side by side; slice j is the j-th code
// of every lane, and A's elements are arranged the same way first. The sum of a chunk is scaled,
// then added. Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

/// Codes in one element of the vectors that slices are taken from.
constexpr int kSlices = 8 * int(sizeof(Unit)) / kGroup / kCodeBits;
constexpr int kChunk = kLanes * kGroup * kSlices;
constexpr int kGroupsOfChunk = 1;

// --- codes to numbers
// ------------------------------------------------------------------------------

using Codes = Vec<i32, kLanes>;

template <int... I>
KILN_INLINE AccVec numbers_of_codes(Sequence<int, I...>) {
  return AccVec{float((I ^ 8) - 8)...};
}

/// Slice J of a chunk; an index has four bits.
template <int J>
KILN_INLINE UnitVec slice(Codes codes, AccVec table) {
  return __builtin_ia32_permvarsf512(table, bits_of<Vec<int, kLanes>>(codes >> (J * kCodeBits)));
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
  return AccVec(numbers[chunk / (kGroupK / kChunk)]);
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

// A tile holds both factors of its elements of D.
constexpr int kColumns = kNr / 2, kFinishLanes = lanes_for(kColumns);

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
      add_slices(part, of_a, codes, zero, numbers_of_codes(Iota<kLanes>{}) - zero);
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
      __builtin_prefetch(from[j].codes + kColumns * pitch + chunk * kVectorBytes);
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
    constexpr int kApart = kColumns;
    Vec<Acc, kFinishLanes> both[2] = {Vec<Acc, kFinishLanes>(Acc(0)),
                                      Vec<Acc, kFinishLanes>(Acc(0))};
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) both[j / kApart][j % kApart] = add_lanes<kLanes>(acc[i][j]);
    finish_gated<kFinishLanes>(out, both[0], both[1], row + i, column / 2, columns / 2,
                               {true, true});
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
  columns = {2 * columns.begin, 2 * columns.end};  // of op(B): those of both factors
  for (i64 j = columns.begin; j < columns.end; j += kNr) {
    const int width = int(smaller(kNr, columns.end - j));
    Column from[kNr];
    for (int c = 0; c < kNr; ++c) {
      // In place of a column that does not exist the last one of its factor.
      const int factor = c / kColumns;
      const int at = factor * kColumns + int(smaller(c % kColumns, width / 2 - 1));
      const i64 of_b = factor * args.n + j / 2 + at % kColumns;
      const i64 first = (batch * 2 * args.n + of_b) * groups;
      from[c].codes = static_cast<const u8*>(args.b) + of_b * pitch;
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
