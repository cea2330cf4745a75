// device:  x86-64-v4
// problem: int8 N T 32 512 1024 out=fp32 packed_b=1
// config:  host_packed isa=avx512 mr=8 nv=2 kc=1024 mc=32 nc=256 pack_a=1 pack_b=1 inner=columns parallel=none unroll=1 prefetch=16 stream_d=0 fetch_a=0 fetch_b=2

// ---- parameters ----
using TypeA = i8;                   // elements of A
using TypeB = i8;                   // elements of B
using TypeD = float;                // elements of C and D
constexpr int kVectorBytes = 64;    // accumulators of vpdpbusd
constexpr int kMr = 8;              // rows of the register tile
constexpr int kNv = 2;              // vectors across the register tile
constexpr int kUnroll = 1;          // k steps in the inner loop's body
constexpr int kPrefetch = 16;       // k steps that B is prefetched ahead
constexpr int kRowUnit = 8;         // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;     // columns are divided among threads at multiples of this
constexpr int kPanelStep = 16;      // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 1;      // rows of column sums behind a panel of B
constexpr u32 kFlip = 0x80808080u;  // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;       // A is copied to strips
constexpr bool kPackB = false;      // B is copied to panels
constexpr int kFetchB = 2;          // lines of B's next block that 8 steps fetch ahead

// ---- cpu/common/panels.h ----
// Panels of B: one vector of columns over k, a row of units for each kGroup of k, zeros where k
// ends early, anything where columns do, and behind them the sums of the columns where kColumnSums
// says so. They are packed here, a block of k at a time, or lie over all of k in a B that was
// packed once for every m (generator/families/cpu/common/packed_layout.h). Expects pack.h, share.h,
// kNv, kPanelStep, kColumnSums.

constexpr int kNr = kNv * kLanes;
/// Rows of units in a panel: a multiple of kPanelStep.
KILN_INLINE i64 panel_groups(i64 k) { return round_up((k + kGroup - 1) / kGroup, kPanelStep); }
/// Units from one panel to the next, a row of column sums included. A tile reads several side by
/// side. Whole pages apart, or nearly, they would contend for the same parts of memory and caches,
/// so large ones have a quarter of a page between them.
KILN_INLINE i64 panel_units(i64 k) {
  constexpr i64 kPageRows = 4096 / i64(kLanes * sizeof(Unit));
  const i64 rows = panel_groups(k) + kColumnSums;
  const bool whole = rows >= 16 * kPageRows && (rows + kPageRows / 16) % kPageRows <= kPageRows / 8;
  return (rows + (whole ? kPageRows * 17 / 64 : 0)) * kLanes;
}
/// Units that the panels of so many columns take.
KILN_INLINE i64 panels_units(i64 columns, i64 k) {
  return (columns + kLanes - 1) / kLanes * panel_units(k);
}

// ---- cpu/packed/operand.h ----
// Where a tile reads: rows of A and columns of B, packed or as the caller left them, by units of
// kGroup elements of k. Expects abi.h, vector.h, panels.h, ahead.h and the parameters.

/// What is read after the current tiles, of A and of B.
struct Next {
  Ahead b;
};

/// The operands of one tile: A's rows and B's columns, packed or where the caller left them.
struct Operand {
  const Unit* a;  // [k / kGroup][kMr]
  const Unit* b;  // kNv panels
  i64 b_pitch;    // bytes from one to the next
  const Unit* sums;  // of the first panel's columns; null: an earlier block of k had them
  Next* next;
};

/// Rows of units of panels that lie beside one another, one k step of each. Two bases and a pitch
/// reach six panels: a register for each would leave too few for the rows of an unpacked A, and the
/// compiler would compute the addresses anew in each step (measured: half the speed at kNv = 6).
template <int N, bool Ragged>
struct PanelRows {
  const char *first, *fourth;
  const char* last;  // of a ragged tile, which may have a panel less than N
  i64 pitch;

  __attribute__((always_inline)) PanelRows(const Unit* at, i64 bytes_apart, int columns)
      : first(reinterpret_cast<const char*>(at)), pitch(bytes_apart) {
    fourth = first + 3 * pitch;
    last = first + (columns - 1) / kLanes * pitch;
    __asm__("" : "+r"(fourth), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    if (Ragged && j == N - 1) return last;
    return j < 3 ? first + j * pitch : fourth + (j - 3) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    fourth += sizeof(UnitVec);
    last += sizeof(UnitVec);
  }
};

// ---- cpu/packed/tile.h ----
// The register tile of kMr rows by kNv vectors: whole, and where rows or columns are left over.
// Expects operand.h, epilogue.h, decode.h, transposed.h.

constexpr int kStepsPerFetch = 8;
/// What a tile lacks: nothing, columns of its last vector, or rows, columns and perhaps that
/// vector.
enum class Lacks { nothing, columns, both };

/// One register tile: M rows by N vectors over k. A ragged tile, which may lack both, skips missing
/// rows, by branches that are predicted. There are some of each width, so they are short: their
/// loop is not unrolled (no difference in speed) and finish() is not repeated.
template <int M, int N, Lacks What>
__attribute__((noinline)) static void tile(const Operand& operands, i64 k, const Output& where,
                                           i64 row, i64 column, int rows, int columns, Pass pass) {
  constexpr bool kRagged = What == Lacks::both, kMasked = What != Lacks::nothing;
  const Operand in = operands;  // copies that stores to D cannot alias
  const Output out = where;
  AccVec acc[M][N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    // A's bytes were shifted by 128 to be unsigned; the column sums undo it.
    AccVec start = AccVec(0);
    if (in.sums) {
      const int panel = kRagged && j == N - 1 ? (columns - 1) / kLanes : j;  // as PanelRows
      start = load<AccVec>(reinterpret_cast<const char*>(in.sums) + panel * in.b_pitch) * -128;
    }
    KILN_UNROLL
    for (int i = 0; i < M; ++i) acc[i][j] = start;
  }
  PanelRows<N, kRagged> right(in.b, in.b_pitch, columns);

  auto step = [&](i64 g, i64 count) __attribute__((always_inline)) {
    UnitVec b[N];
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      b[j] = load<UnitVec>(right.of(j));
    }
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      __builtin_prefetch(right.of(j) + kPrefetch * sizeof(UnitVec));
    }
    right.advance();
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      UnitVec a = UnitVec(in.a[g * kMr + i]);
      KILN_UNROLL
      for (int j = 0; j < N; ++j) acc[i][j] = dot(acc[i][j], a, b[j]);
      KILN_UNROLL
      for (int j = 0; j < N; ++j) complete(acc[i][j]);
    }
  };
  const i64 whole = k / kGroup;
  i64 g = 0;
  // Fetches are spread over the steps: all at once they would hold every fill buffer while the
  // first steps wait for B (measured for D alone: 12 % at n = 1024, kc = 384).
  const i64 fetches = whole / kStepsPerFetch;
  for (i64 i = 0; i < fetches; ++i) {
    fetch<kFetchB>(in.next->b);
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      if (!kRagged && i < M) __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
    for (int s = 0; s < kStepsPerFetch; ++s) step(g++, kGroup);
  }
#pragma clang loop unroll(disable) vectorize(disable)
  for (; g < whole; ++g) step(g, kGroup);
  if (k % kGroup) step(whole, k % kGroup);

  if constexpr (kRagged) {
    AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) {
#pragma clang loop unroll(disable)
      for (int j = 0; j * kLanes < columns; ++j)
        finish<kLanes>(out, sums[i][j], row + i, column + j * kLanes, columns - j * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
        finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes,
                       kMasked && j == N - 1 ? columns - j * kLanes : kLanes, pass);
    }
  }
}

/// A ragged tile of as many vectors as the columns need or one more, N at most: a tile for each
/// number of vectors would take a fifth longer to compile.
template <int N>
KILN_INLINE void ragged_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                             int rows, int columns, Pass pass) {
  constexpr int kNarrower = N > 2 ? N - 2 : 1;
  if constexpr (N > 1)
    if (columns <= kNarrower * kLanes)
      return ragged_tile<kNarrower>(in, k, out, row, column, rows, columns, pass);
  tile<kMr, N, Lacks::both>(in, k, out, row, column, rows, columns, pass);
}

KILN_INLINE void any_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                          int rows, int columns, Pass pass) {
  if (rows == kMr && columns == kNr)
    return tile<kMr, kNv, Lacks::nothing>(in, k, out, row, column, rows, columns, pass);
  ragged_tile<kNv>(in, k, out, row, column, rows, columns, pass);
}

// ---- cpu/packed/memory.h ----
// Where a thread reads A and B, and what it keeps in the workspace. Expects abi.h, share.h,
// panels.h and the parameters.

KILN_INLINE const TypeA* a_at(const KilnArgs& args, i64 row, i64 k) {
  return static_cast<const TypeA*>(args.a) + row * args.lda + k;
}

/// What one thread keeps in the workspace, in bytes; see thread_memory().
struct Memory {
  Unit* a;
  Unit* b;
  Acc* partial;
};
constexpr i64 kLine = 64;
KILN_INLINE i64 bytes_of_a(const KilnArgs& args) {
  return kPackA ? round_up((smaller(args.division.mc, round_up(args.m, kMr)) *
                                (smaller(args.division.kc, args.k) / kGroup + 1) +
                            kLanes) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
}
KILN_INLINE i64 bytes_of_b(const KilnArgs& args) {
  return kPackB ? round_up(panels_units(smaller(args.division.nc, args.n),
                                        smaller(args.division.kc, args.k)) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
}
/// Partial accumulators that later k is added to, where D's type would round them.
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  return args.k > args.division.kc
             ? round_up(args.m * smaller(args.division.nc, args.n) * i64(sizeof(Acc)), kLine)
             : 0;
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args);
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  return {reinterpret_cast<Unit*>(base), reinterpret_cast<Unit*>(base + bytes_of_a(args)),
          reinterpret_cast<Acc*>(base + bytes_of_a(args) + bytes_of_b(args))};
}

// ---- cpu/packed/packed.cpp ----
// Packed macro-kernel: blocks of k, n and m around a register tile. Expects share.h, pack.h,
// tile.h, memory.h.

/// The block of B after the one at (k0, j): the next along k or, after the last, along n.
KILN_INLINE Ahead piece_ahead(const KilnArgs& args, Range columns, Range ks, i64 j, i64 k0) {
  const KilnDivision& blocks = args.division;
  if ((k0 += blocks.kc) >= ks.end) {
    k0 = ks.begin;
    j += blocks.nc;
  }
  if (j >= columns.end) return piece(args.b, 0, 1, 1);
  const i64 k = smaller(blocks.kc, ks.end - k0), width = smaller(blocks.nc, columns.end - j);
  const Unit* panel = static_cast<const Unit*>(args.b) + panels_units(j, args.k);
  return piece(panel + k0 / kGroup * kLanes, panel_units(args.k) * i64(sizeof(Unit)),
               (k + kGroup - 1) / kGroup * i64(sizeof(UnitVec)), (width + kLanes - 1) / kLanes);
}

/// Multiplies one block of A (rows) with one block of B (columns) over k.
static void block(const KilnArgs& args, const Memory& memory,
                  const Output& out,
                  Range rows,
                  i64 last_row, Next& next,
                  Range columns, i64 k0, i64 k, Pass pass) {
  for (i64 i = rows.begin; i < rows.end; i += kMr)
    pack_along<kMr, kFlip>(memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup),
                           a_at(args, i, k0), args.lda, int(smaller(kMr, rows.end - i)), k);
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    in.next = &next;
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    const Unit* panel = static_cast<const Unit*>(args.b) + panels_units(j, args.k);
    in.b = panel + k0 / kGroup * kLanes;
    in.b_pitch = panel_units(args.k) * i64(sizeof(Unit));
    in.sums = pass.first ? panel + panel_groups(args.k) * kLanes : nullptr;
    any_tile(in, k, out, i, j, int(smaller(kMr, rows.end - i)), int(smaller(kNr, columns.end - j)),
             pass);
  };
  // Both orders in one loop: the call of a tile is long, and stands here once.
  const bool inner_columns = args.division.inner_columns != 0;
  for (i64 i = rows.begin, j = columns.begin; i < rows.end && j < columns.end;) {
    one(i, j);
    if (inner_columns) {
      if ((j += kNr) < columns.end) continue;
      j = columns.begin;
      i += kMr;
    } else {
      if ((i += kMr) < rows.end) continue;
      i = rows.begin;
      j += kNr;
    }
  }
}

/// One batch: everything that one thread does of it.
static void multiply(const KilnArgs& args, const Memory& memory, Output out, Range rows,
                     Range columns, Range ks) {
  if (rows.begin == rows.end) return;
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  for (i64 j = columns.begin; j < columns.end; j += nc) {
    const Range block_columns{j, smaller(j + nc, columns.end)};
    out.partial = {memory.partial, smaller(nc, args.n), rows.begin, j};
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      Next next;
      next.b = piece_ahead(args, columns, ks, j, k0);
      for (i64 i = rows.begin; i < rows.end; i += mc)
        block(args, memory, out, {i, smaller(i + mc, rows.end)},
              rows.end, next,
              block_columns, k0, k, pass);
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  const Work work = work_of(args, thread, threads);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const Unit*>(all->b) + batch * panels_units(args.n, args.k);
    Output out = output_of(args, batch);
    multiply(args, memory, out, work.rows,
             work.columns, work.ks);
  }
}
