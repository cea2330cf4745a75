// device:  x86-64-v4
// problem: bf16 T N 4515 5 3407
// config:  host_packed isa=avx512 mr=5 nv=4 kc=16 mc=5 nc=4544 pack_a=1 pack_b=0 inner=rows parallel=none unroll=4 prefetch=8 stream_d=0 fetch_a=0 fetch_b=0 swap=1

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vdpbf16ps
constexpr int kMr = 5;            // rows of the register tile
constexpr int kNv = 4;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kPrefetch = 8;      // k steps that B is prefetched ahead
constexpr int kRowUnit = 64;      // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 5;    // columns are divided among threads at multiples of this
constexpr int kFinishLanes = 8;   // elements of a row of D that are finished at once
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = false;    // B is copied to panels

// ---- cpu/packed/transposed.h ----
// What computes D^T: the call with its operands exchanged, and tiles that are transposed while they
// are stored in D. Expects epilogue.h, pack.h, share.h and, from the parameters, kFinishLanes.

template <typename T>
KILN_INLINE void exchange(T& a, T& b) {
  const T kept = a;
  a = b;
  b = kept;
}

/// The call as its transposed product. C and D stay as they are: only a tile's store sees them.
KILN_INLINE KilnArgs transposed(KilnArgs args) {
  exchange(args.a, args.b);
  exchange(args.m, args.n);
  exchange(args.lda, args.ldb);
  exchange(args.stride_a, args.stride_b);
  return args;
}

KILN_INLINE Work transposed(Work work) {
  exchange(work.rows, work.columns);
  return work;
}

/// Where the accumulators of a tile wait for the next block of k.
KILN_INLINE Acc* waiting(const Output& out, i64 row, i64 column, int i, int j) {
  return out.partial.at(row + i, column + j * kLanes);
}

/// Finishes a tile of D^T: its row is a column of D. Accumulators are transposed a square of
/// kFinishLanes at a time, since a row of D gets only as many elements as the tile has rows.
template <int M, int N>
KILN_INLINE void finish_transposed(const Output& out, const AccVec (&acc)[M][N], i64 row,
                                   i64 column, int rows, int columns) {
  constexpr int P = kFinishLanes;
  AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
  }
  for (int i = 0; i < rows; i += P) {
#pragma clang loop unroll(disable)
    for (int l = 0; l < columns; l += P) {
      Vec<Unit, P> block[P];
      KILN_UNROLL
      for (int r = 0; r < P; ++r)  // in place of a row that does not exist, the last one
        block[r] =
            load<Vec<Unit, P>>(reinterpret_cast<const Acc*>(sums[smaller(i + r, M - 1)]) + l);
      transpose<P>(block);
      Vec<Unit, P> lines[P];
      KILN_UNROLL
      for (int r = 0; r < P; ++r) lines[r] = block[r];
#pragma clang loop unroll(disable)
      for (int r = 0; r < P && l + r < columns; ++r)
        finish<P>(out, bits_of<Vec<Acc, P>>(lines[r]), column + l + r, row + i, rows - i,
                  {true, true});
    }
  }
}

// ---- cpu/packed/operand.h ----
// Where a tile reads: rows of A and columns of B, packed or as the caller left them, by units of
// kGroup elements of k. Expects abi.h, vector.h, panels.h, ahead.h and the parameters.

/// The operands of one tile: A's rows and B's columns, packed or where the caller left them.
struct Operand {
  const Unit* a;  // [k / kGroup][kMr]
  const TypeB* b;
  i64 ldb;
};

// ---- cpu/packed/tile.h ----
// The register tile of kMr rows by kNv vectors: whole, and where rows or columns are left over.
// Expects operand.h, epilogue.h, decode.h, transposed.h.

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
    AccVec start = AccVec(Acc(0));
    KILN_UNROLL
    for (int i = 0; i < M; ++i) acc[i][j] = start;
  }
  const auto width = [&](int j) { return kMasked ? columns - j * kLanes : kLanes; };
  if (!pass.first) {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
      acc[i][j] = load_first<kLanes>(waiting(out, row, column, i, j), width(j));
    }
  }

  auto step = [&](i64 g, i64 count) __attribute__((always_inline)) {
    UnitVec b[N];
    KILN_UNROLL
    for (int j = 0; j < N; j += kGroup) {
      UnitVec units[kGroup];
      load_panels(units, in.b + g * kGroup * in.ldb + j * kLanes, in.ldb, count,
                  int(smaller(kGroup * kLanes, (kMasked ? columns : N * kLanes) - j * kLanes)));
      KILN_UNROLL
      for (int s = 0; s < kGroup && j + s < N; ++s) b[j + s] = units[s];
    }
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      __builtin_prefetch(in.b + (g + kPrefetch) * kGroup * in.ldb + j * kLanes);
    }
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
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
  for (; g < whole; ++g) step(g, kGroup);
  if (k % kGroup) step(whole, k % kGroup);

  if (pass.last)
    return finish_transposed<M, N>(out, acc, row, column, kRagged ? rows : M,
                                   kMasked ? columns : N * kLanes);
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    if (kRagged && i >= rows) continue;
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      store_first<kLanes>(waiting(out, row, column, i, j), acc[i][j], width(j));
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
  return static_cast<const TypeA*>(args.a) + k * args.lda + row;
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

/// Multiplies one block of A (rows) with one block of B (columns) over k.
static void block(const KilnArgs& args, const Memory& memory,
                  const Output& out,
                  Range rows,
                  Range columns, i64 k0, i64 k, Pass pass) {
  pack_across<kMr, kFlip>(memory.a, a_at(args, rows.begin, k0), args.lda, rows.end - rows.begin, k,
                          (k + kGroup - 1) / kGroup * kMr);
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    in.b = static_cast<const TypeB*>(args.b) + k0 * args.ldb + j;
    in.ldb = args.ldb;
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
      for (i64 i = rows.begin; i < rows.end; i += mc)
        block(args, memory, out, {i, smaller(i + mc, rows.end)},
              block_columns, k0, k, pass);
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(transposed(*args)) * threads;
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  const Work work = transposed(work_of(*all, thread, threads));
  const KilnArgs exchanged = transposed(*all);
  all = &exchanged;
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    Output out = output_of(args, batch);
    multiply(args, memory, out, work.rows,
             work.columns, work.ks);
  }
}
