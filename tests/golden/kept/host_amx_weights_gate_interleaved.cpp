// device:  x86-64-v4
// problem: bf16_int4 N T 40 512 1024 group=128 gate=silu:interleaved
// config:  host_amx_weights isa=amx mt=2 nt=1 kc=512 nc=96 mc=48 parallel=none

// ---- parameters ----
using TypeA = Bfloat;                // elements of A
using TypeB = u8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
constexpr int kVectorBytes = 64;     // accumulators of tdpbf16ps
using TypeScale = float;             // scales of B
constexpr int kCodeBits = 4;         // bits of an element of B
constexpr int kGroupK = 128;         // elements along k that share a scale
constexpr bool kSignedCodes = true;  // codes are two's complement
constexpr int kScaledK = 128;        // elements along k whose sum is scaled at once
constexpr int kMt = 2;               // tiles of 16 columns of B in a block of accumulators
constexpr int kNt = 1;               // tiles of 16 rows of A in it
constexpr int kNv = 1;               // vectors across it
constexpr int kPanelStep = 16;       // rows of a panel of A are a multiple of this
constexpr int kColumnSums = 0;       // rows of column sums behind a panel
constexpr int kRowUnit = 16;         // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 16;      // columns are divided among threads at multiples of this

// ---- cpu/amx_weights/weights.cpp ----
// Rows of A times weights of four or eight bits that are k-major, by tile registers. Weights are
// the left operand, whose rows run along k as codes do, so D is computed transposed; A is packed in
// panels of 16 rows. The codes of a strip of columns become bf16 in L1, as many of k at a time as
// share a scale, and meet all rows of A's block; their sum leaves the registers, is scaled and
// added to an accumulator in cache. Expects abi.h, panels.h, share.h, amx.h, decode.h and the
// parameters.

constexpr int kHeight = kMt * kTileRows;  // columns of op(B) in a strip
constexpr int kWidth = kNt * kTileRows;   // rows of A that a strip meets at once
constexpr int kTileSums = kTileRows * kLanes;
constexpr int kTileOfNumbers = kTileRows * kTileBytes;
constexpr i64 kLine = 64;
static_assert(kLanes == kTileRows, "a tile of sums is square");
constexpr int kColumns = kHeight / 2;  // of D under a strip, which holds both factors

/// What is read of one column of op(B) in a block of k.
struct Column {
  const u8* codes;
  const TypeScale* scales;
};

// --- memory of a thread
// -----------------------------------------------------------------------------

struct Memory {
  Unit* rows;     // A's block: of each block of k its panels
  Acc* sums;      // tiles [columns / 16][rows / 16]
  char* numbers;  // tiles [steps of a scale][kMt]
  Acc* part;      // tiles [kMt][kNt]
  float* scales;  // [groups of a block of k][kHeight]
  u8* zeros;      // the same
};

KILN_INLINE i64 rows_of_block(const KilnArgs& args) {
  return round_up(smaller(args.division.mc, args.m), kWidth);
}
KILN_INLINE i64 columns_of_block(const KilnArgs& args) {
  return round_up(2 * smaller(args.division.nc, args.n), kHeight);
}
/// Of `rows` rows over all blocks of k.
KILN_INLINE i64 units_of_rows(const KilnArgs& args, i64 rows) {
  const i64 kc = args.division.kc;
  return args.k / kc * panels_units(rows, kc) + panels_units(rows, args.k % kc);
}
KILN_INLINE i64 scaled_parts(i64 k) { return (k + kScaledK - 1) / kScaledK; }

/// Takes the parts of a thread's memory in turn.
struct Carver {
  char* at;
  i64 used = 0;
  template <typename T>
  T* take(i64 count) {
    T* const part = reinterpret_cast<T*>(at + used);
    used += round_up(count * i64(sizeof(T)), kLine);
    return part;
  }
};
KILN_INLINE Memory carve(const KilnArgs& args, Carver& from) {
  const i64 rows = rows_of_block(args);
  const i64 parts = scaled_parts(smaller(args.division.kc, args.k)) * kHeight;
  Memory memory;
  memory.rows = from.take<Unit>(units_of_rows(args, rows) + kLanes);
  memory.sums = from.take<Acc>(columns_of_block(args) * rows);
  memory.numbers = from.take<char>(kScaledK / kStep * kMt * kTileOfNumbers);
  memory.part = from.take<Acc>(kMt * kNt * kTileSums);
  memory.scales = from.take<float>(parts);
  memory.zeros = from.take<u8>(parts);
  return memory;
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  Carver carver{nullptr};
  carve(args, carver);
  return carver.used;
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

// --- operands
// ---------------------------------------------------------------------------------------

/// Packs `rows` rows of A from row `i0` on, a block of k after another.
static void pack_rows(Unit* to, const KilnArgs& args, i64 i0, i64 rows) {
  const i64 kc = args.division.kc;
  const TypeA* const a = static_cast<const TypeA*>(args.a);
  for (i64 k0 = 0; k0 < args.k; k0 += kc) {
    const i64 k = smaller(kc, args.k - k0);
    pack_panels_along(to, a + i0 * args.lda + k0, args.lda, rows, k);
    to += panels_units(round_up(rows, kWidth), k);
  }
}

KILN_INLINE i64 groups_of(i64 k) {
  return k / kScaledK;
}

/// Scales and zero points of a strip, those of neighbouring columns side by side.
static void read_factors(const Memory& memory, const KilnArgs& args,
                         const Column (&columns)[kHeight], i64 k0, i64 k) {
  const i64 parts = scaled_parts(k);
  for (i64 part = 0; part < parts; part += kLanes)
    for (int c = 0; c < kHeight; c += kLanes) {
      UnitVec block[kLanes];
      KILN_UNROLL
      for (int i = 0; i < kLanes; ++i)
        block[i] = bits_of<UnitVec>(load_real<kLanes>(columns[c + i].scales + k0 / kScaledK + part,
                                                      int(smaller(parts - part, kLanes))));
      transpose<kLanes>(block);
      for (int i = 0; i < kLanes && part + i < parts; ++i)
        store(memory.scales + (part + i) * kHeight + c, block[i]);
    }
  (void)args;
}

/// The numbers of a strip's codes, `count` of each column from byte `at` on, whole steps.
KILN_INLINE void decode(const Memory& memory, const Column (&columns)[kHeight], i64 at, i64 count,
                        i64 part, i64 ahead) {
  using Bytes = Vec<u8, kStepBytes>;
  for (int c = 0; c < kHeight; ++c) {
    const u8* from = columns[c].codes + at;
    char* to = memory.numbers + c / kTileRows * kTileOfNumbers + c % kTileRows * kTileBytes;
    const int zero = 0;
    // Of the next strip: a column's share of a block is too short for the processor to look ahead.
    for (i64 byte = round_up(at, kLine); byte < at + count * kCodeBits / 8; byte += kLine)
      __builtin_prefetch(columns[c].codes + ahead + byte);
    i64 left = count;
    for (; left >= kStep; left -= kStep, from += kStepBytes, to += kMt * kTileOfNumbers)
      store(to, numbers(load<Bytes>(from), zero));
    if (left > 0)
      store(to, numbers(load_first<kStepBytes>(from, int((left * kCodeBits + 7) / 8)), zero));
  }
  (void)part;
}

// --- tiles
// ------------------------------------------------------------------------------------------

template <int... I>
KILN_INLINE void zero_sums(Sequence<int, I...>) {
  (tile_zero<I>(), ...);
}
template <int... I>
KILN_INLINE void store_sums(Acc* to, Sequence<int, I...>) {
  (tile_store<I>(to + I * kTileSums, kTileBytes), ...);
}
template <int... I>
KILN_INLINE void load_left(const char* from, Sequence<int, I...>) {
  (tile_load<kMt * kNt + I>(from + I * kTileOfNumbers, kTileBytes), ...);
}
template <int... J>
KILN_INLINE void load_right(const Unit* from, i64 pitch, Sequence<int, J...>) {
  (tile_load<kMt * kNt + kMt + J>(from + J * pitch, kTileBytes), ...);
}
template <int... I>
KILN_INLINE void dots(Sequence<int, I...>) {
  (tile_dot<I, kMt * kNt + I / kNt, kMt * kNt + kMt + I % kNt>(), ...);
}

/// Adds the scaled products of decoded numbers and A's panels from `panels` on, `steps` of each, to
/// the accumulators of a strip and `rows` rows.
__attribute__((noinline)) static void multiply_part(const Memory& memory, const Unit* panels,
                                                    i64 pitch, i64 steps, i64 rows, Acc* sums,
                                                    i64 sums_pitch, const float* scales) {
  for (i64 j = 0; j < rows; j += kWidth, panels += kNt * pitch) {
    zero_sums(Iota<kMt * kNt>{});
    for (i64 step = 0; step < steps; ++step) {
      load_right(panels + step * kTileRows * kLanes, pitch, Iota<kNt>{});
      load_left(memory.numbers + step * kMt * kTileOfNumbers, Iota<kMt>{});
      dots(Iota<kMt * kNt>{});
    }
    store_sums(memory.part, Iota<kMt * kNt>{});
    KILN_UNROLL
    for (int i = 0; i < kMt; ++i) {
      KILN_UNROLL
      for (int t = 0; t < kNt; ++t) {
        const Acc* const part = memory.part + (i * kNt + t) * kTileSums;
        Acc* const sum = sums + i * sums_pitch + (j / kTileRows + t) * kTileSums;
        KILN_UNROLL
        for (int r = 0; r < kTileRows; ++r)
          store(sum + r * kLanes,
                fused(load<AccVec>(part + r * kLanes), AccVec(scales[i * kTileRows + r]),
                      load<AccVec>(sum + r * kLanes)));
      }
    }
  }
}

/// A tile of sums with rows of D as vectors.
KILN_INLINE void turn_tile(UnitVec (&to)[kLanes], const Acc* tile) {
  KILN_UNROLL
  for (int r = 0; r < kLanes; ++r) to[r] = load<UnitVec>(tile + r * kLanes);
  transpose<kLanes>(to);
}

/// Finishes `width` columns of D from column j0 on and `rows` rows from row i0 on.
static void finish_block(const Acc* sums, i64 sums_pitch, const Output& where, i64 i0, i64 j0,
                         i64 rows, i64 width) {
  const Output out = where;           // a copy that stores to D cannot alias
  constexpr i64 kTilesOfD = kMt / 2;  // of a strip
  for (i64 i = 0; i < rows; i += kTileRows)
    for (i64 j = 0; j < width; j += kTileRows) {
      const i64 strip = j / kTileRows / kTilesOfD, tile = j / kTileRows % kTilesOfD;
      const i64 low = strip * kMt + 2 * tile, high = low + 1;
      UnitVec first[kLanes], second[kLanes];
      turn_tile(first, sums + low * sums_pitch + i / kTileRows * kTileSums);
      turn_tile(second, sums + high * sums_pitch + i / kTileRows * kTileSums);
      for (int r = 0; r < kLanes && i + r < rows; ++r)
        finish_gated<kLanes>(out, bits_of<AccVec>(first[r]), bits_of<AccVec>(second[r]), i0 + i + r,
                             j0 + j, int(width - j), {true, true});
    }
}

// --- the product
// ------------------------------------------------------------------------------------

/// A strip of columns from column `j` on over a block of k.
static void multiply_strip(const KilnArgs& args, const Memory& memory, const Unit* panels,
                           i64 batch, i64 j, i64 end, i64 k0, i64 k, i64 rows, Acc* sums,
                           i64 sums_pitch) {
  Column columns[kHeight];
  for (int c = 0; c < kHeight; ++c) {
    const i64 column = 2 * smaller(j + c / 2, end - 1) + c % 2;
    const i64 first = (batch * 2 * args.n + column) * groups_of(args.k);
    columns[c].codes = static_cast<const u8*>(args.b) + (column * args.ldb + k0) * kCodeBits / 8;
    columns[c].scales = static_cast<const TypeScale*>(args.scale_b) + first;
  }
  read_factors(memory, args, columns, k0, k);
  for (i64 at = 0, part = 0; at < k; at += kScaledK, ++part) {
    const i64 count = smaller(kScaledK, k - at);
    decode(memory, columns, at * kCodeBits / 8, count, part, kHeight * args.ldb * kCodeBits / 8);
    multiply_part(memory, panels + at / kGroup * kLanes, panel_units(k),
                  (count + kStep - 1) / kStep, rows, sums, sums_pitch,
                  memory.scales + part * kHeight);
  }
}

static void multiply(const KilnArgs& args, const Memory& memory, const Output& out, i64 batch,
                     Range columns) {
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  for (i64 i0 = 0; i0 < args.m; i0 += mc) {
    const i64 rows = smaller(mc, args.m - i0);
    const i64 sums_pitch = round_up(rows, kWidth) * kLanes;
    pack_rows(memory.rows, args, i0, rows);
    for (i64 j0 = columns.begin; j0 < columns.end; j0 += nc) {
      const i64 width = smaller(nc, columns.end - j0);
      for (i64 at = 0; at < round_up(2 * width, kHeight) * sums_pitch / kLanes; at += kLanes)
        store(memory.sums + at, AccVec(Acc(0)));
      const Unit* panels = memory.rows;
      for (i64 k0 = 0; k0 < args.k; k0 += kc) {
        const i64 k = smaller(kc, args.k - k0);
        for (i64 j = 0; j < width; j += kColumns)
          multiply_strip(args, memory, panels, batch, j0 + j, columns.end, k0, k, rows,
                         memory.sums + 2 * j / kTileRows * sums_pitch, sums_pitch);
        panels += panels_units(round_up(rows, kWidth), k);
      }
      finish_block(memory.sums, sums_pitch, out, i0, j0, rows, width);
    }
  }
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Work work = work_of(args, thread, threads);
  if (work.columns.begin == work.columns.end) return;
  Carver carver{static_cast<char*>(args.workspace) + thread * bytes_of_thread(args)};
  const Memory memory = carve(args, carver);
  TileSession tiles;
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const u8*>(all->b) + batch * args.stride_b * kCodeBits / 8;
    multiply(args, memory, output_of(args, batch), batch, work.columns);
  }
}
