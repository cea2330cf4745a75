// device:  x86-64-v4
// problem: fp16 T T 3716 686 4
// config:  host_packed isa=avx512 mr=14 nv=2 kc=8 mc=3724 nc=704 pack_a=1 pack_b=1 inner=columns parallel=none unroll=4 prefetch=0 stream_d=1 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = Half;               // elements of B
using TypeD = Half;               // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kMr = 14;           // rows of the register tile
constexpr int kNv = 2;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kRowUnit = 14;      // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels

// ---- cpu/common/lines.h ----
// D in whole lines past the caches, wherever its rows begin: a store that fills a line spares
// reading it first, and where nothing reads D soon it need not evict what is read again. Finished
// elements wait in the thread's memory, as far from a line's begin as in D. Expects vector.h, and
// from the parameters: TypeD.

constexpr i64 kLineElements = 64 / i64(sizeof(TypeD));

/// Elements that wait for the rest of their lines: some rows of D, `pitch` elements each.
struct Lines {
  TypeD* waiting;   // 64-byte aligned
  i64 pitch;        // whole lines, one more than a tile's columns and what precedes them fill
  i64 row, column;  // of D, which the first of them are
  i64 begin, end;   // columns that are written one after the other

  /// Elements between a line's begin and `d`.
  static i64 before(const TypeD* d) {
    return i64(reinterpret_cast<unsigned long long>(d) % 64 / sizeof(TypeD));
  }
  /// Where element (row, column) waits; `d` is the place of (row, this->column) in D.
  TypeD* at(const TypeD* d, i64 at_row, i64 at_column) const {
    return waiting + (at_row - row) * pitch + before(d) + (at_column - column);
  }
};

/// Elements of a row of `lines` for `columns` columns at a time.
constexpr i64 line_pitch(i64 columns) { return (columns / kLineElements + 3) * kLineElements; }

/// Writes what waits of `rows` rows and `columns` columns: whole lines, and the ends of what is
/// written in one go. The rest of a row's last line waits for the next columns.
template <typename Where>
KILN_INLINE void write_lines(const Where& out, int rows, i64 columns) {
  using Line = Vec<Raw<TypeD>, int(kLineElements)>;
  const Lines& lines = out.lines;
#pragma clang loop unroll(disable)
  for (int i = 0; i < rows; ++i) {
    TypeD* d = out.d + (lines.row + i) * out.ldd + lines.column;
    const i64 before = Lines::before(d), filled = before + columns;
    auto* const to = reinterpret_cast<Raw<TypeD>*>(d - before);
    auto* const from = reinterpret_cast<Raw<TypeD>*>(lines.waiting + i * lines.pitch);
    // A D that is not aligned to its type has no whole lines; streamed stores would trap there.
    const bool streams = reinterpret_cast<unsigned long long>(to) % 64 == 0;
    // Elements of the first line that belong to other columns.
    i64 others = before - (lines.column - lines.begin);
    i64 at = 0;
    for (; at + kLineElements <= filled; at += kLineElements) {
      if (at == 0 && others > 0)
        store_first<int(kLineElements)>(to + others, load<Line>(from + others),
                                        int(kLineElements - others));
      else if (streams)
        __builtin_nontemporal_store(load<Line>(from + at), reinterpret_cast<Line*>(to + at));
      else
        store(to + at, load<Line>(from + at));
    }
    if (at == filled) continue;
    if (lines.column + columns == lines.end) {
      if (at > 0 || others < 0) others = 0;
      store_first<int(kLineElements)>(to + at + others, load<Line>(from + at + others),
                                      int(filled - at - others));
    } else if (at > 0) {
      store(from, load<Line>(from + at));
    }
  }
}

// ---- cpu/common/epilogue.h ----
// From accumulators to D: alpha, beta·C, the expression that follows, rounding — in that order.
// Expects vector.h, lines.h where D is streamed, and from the parameters: TypeD.

/// Partial accumulators of earlier k, where D's type would round them: that of element (row,
/// column) of D lies at (row - row0, column - column0).
struct Partial {
  Acc* sums;
  i64 ld, row0, column0;
  Acc* at(i64 row, i64 column) const { return sums + (row - row0) * ld + (column - column0); }
};

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;         // null when beta == 0: C is then never read
  const TypeD* residual;  // laid out as D
  const Real* bias;
  i64 ldd, ldc;
  Real alpha, beta;
  Partial partial;
  Lines lines;
};

KILN_INLINE Output output_of(const KilnArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual =
      static_cast<const TypeD*>(args.residual) + (args.residual ? batch * args.stride_d : 0);
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

/// Finishes L accumulators of one row: `columns` of them exist, the first at (row, column).
template <int L>
KILN_INLINE void finish(const Output& out, Vec<Acc, L> sum, i64 row, i64 column, int columns,
                        Pass pass) {
  TypeD* d = out.lines.at(out.d + row * out.ldd + out.lines.column, row, column);
  if (!pass.first) sum += load_first<L>(out.partial.at(row, column), columns);
  if (!pass.last) return store_first<L>(out.partial.at(row, column), sum, columns);
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  if (out.c) v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}

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
  Output out = where;
  out.lines.row = row, out.lines.column = column;
  AccVec acc[M][N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    AccVec start = AccVec(Acc(0));
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
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
  for (; g < whole; ++g) step(g, kGroup);

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
  write_lines(out, kRagged ? rows : M, columns);
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

KILN_INLINE const TypeB* b_at(const KilnArgs& args, i64 k, i64 column) {
  return static_cast<const TypeB*>(args.b) + column * args.ldb + k;
}

/// What one thread keeps in the workspace, in bytes; see thread_memory().
struct Memory {
  Unit* a;
  Unit* b;
  Acc* partial;
  TypeD* lines;
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
/// Lines of D that are not whole yet, of a tile.
constexpr i64 kLinePitch = line_pitch(kNr);
constexpr i64 kBytesOfLines = kMr * kLinePitch * i64(sizeof(TypeD));
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args) + kBytesOfLines;
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  char* const partial = base + bytes_of_a(args) + bytes_of_b(args);
  return {reinterpret_cast<Unit*>(base), reinterpret_cast<Unit*>(base + bytes_of_a(args)),
          reinterpret_cast<Acc*>(partial),
          reinterpret_cast<TypeD*>(partial + bytes_of_partial(args))};
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
  // Both orders in one loop: the call of a tile is long, and stands here once.
  const bool inner_columns = args.division.inner_columns != 0;
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    in.b = memory.b + panels_units(j - columns.begin, k);
    in.b_pitch = panel_units(k) * i64(sizeof(Unit));
    const i64 width = smaller(kNr, columns.end - j);
    Output to = out;
    if (!inner_columns) to.lines.begin = j, to.lines.end = j + width;
    any_tile(in, k, to, i, j, int(smaller(kMr, rows.end - i)), int(width), pass);
  };
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
    out.lines = {memory.lines, kLinePitch, 0, 0, block_columns.begin, block_columns.end};
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      pack_panels_along(memory.b, b_at(args, k0, j), args.ldb, block_columns.end - j, k);
      for (i64 i = rows.begin; i < rows.end; i += mc)
        block(args, memory, out, {i, smaller(i + mc, rows.end)},
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
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    Output out = output_of(args, batch);
    multiply(args, memory, out, work.rows,
             work.columns, work.ks);
  }
  __builtin_ia32_sfence();  // streamed stores come before whatever the caller does next
}
