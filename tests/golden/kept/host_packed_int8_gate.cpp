// device:  x86-64-v4
// problem: int8 N T 100 90 3000 out=bf16 epilogue=bias_col gate=silu
// config:  host_packed isa=avx512 mr=6 nv=4 kc=1024 mc=96 nc=96 pack_a=1 pack_b=1 inner=columns parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = i8;                   // elements of A
using TypeB = i8;                   // elements of B
using TypeD = Bfloat;               // elements of C and D
constexpr int kVectorBytes = 64;    // accumulators of vpdpbusd
constexpr int kMr = 6;              // rows of the register tile
constexpr int kNv = 4;              // vectors across the register tile
constexpr int kUnroll = 1;          // k steps in the inner loop's body
constexpr int kTailColumns = 26;    // columns that are left over, which have a tile of their own
constexpr int kRowUnit = 6;         // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;     // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;       // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 1;      // rows of column sums behind a panel of B
constexpr u32 kFlip = 0x80808080u;  // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;       // A is copied to strips
constexpr bool kPackB = true;       // B is copied to panels

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
  i64 columns;  // of D
  Partial partial;
  // None.
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
  out.columns = args.n;
  // None.
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

/// e^x to about 1 ulp: 2^n times a polynomial in the rest, |rest| ≤ ln 2 / 2.
template <int L>
KILN_INLINE Vec<float, L> exponential(Vec<float, L> x) {
  Vec<float, L> clamped = __builtin_elementwise_min(
      __builtin_elementwise_max(x, Vec<float, L>(-104.0f)), Vec<float, L>(89.0f));
  Vec<float, L> n = __builtin_elementwise_roundeven(clamped * 1.44269504f);
  using V = Vec<float, L>;
  V r = fused(n, V(-0.693359375f), clamped);  // ln 2 in two parts: the first is exact times n
  r = fused(n, V(2.12194440e-4f), r);
  V p = fused(r, V(1.0f / 5040), V(1.0f / 720));
  p = fused(p, r, V(1.0f / 120));
  p = fused(p, r, V(1.0f / 24));
  p = fused(p, r, V(1.0f / 6));
  p = fused(p, r, V(0.5f));
  p = fused(p * r, r, r) + 1.0f;
  // Two factors, because n reaches beyond the exponents of normal floats at both ends.
  Vec<i32, L> whole = __builtin_convertvector(n, Vec<i32, L>), half = whole >> 1;
  auto power = [](Vec<i32, L> e) { return bits_of<Vec<float, L>>((e + 127) << 23); };
  Vec<float, L> y = p * power(half) * power(whole - half);
  return x == x ? y : x;
}

template <int L>
KILN_INLINE Vec<Real, L> silu(Vec<Real, L> x) {
  return x / (Real(1) + exponential<L>(-x));
}

/// One element.
template <typename T>
KILN_INLINE Real element(const T* from) {
  return to_real<2>(Vec<Raw<T>, 2>(*reinterpret_cast<const Raw<T>*>(from)), T{})[0];
}
/// The same value for all lanes.
template <int L, typename T>
KILN_INLINE Vec<Real, L> same(const T* from) {
  return Vec<Real, L>(element(from));
}
/// `count` elements that lie `stride` apart.
template <int L, typename T>
KILN_INLINE Vec<Real, L> apart(const T* from, i64 stride, int count) {
  Vec<Real, L> x = Real(0);
  for (int i = 0; i < L; ++i)
    if (i < count) x[i] = element(from + i * stride);
  return x;
}
/// The indices of the lanes from the first one's on.
template <int L, int... I>
KILN_INLINE Vec<Real, L> counted(i64 first, Sequence<int, I...>) {
  return Vec<Real, L>{Real(first + I)...};
}

/// Finishes L elements of one row of D: `columns` of them exist, the first at (row, column). `low`
/// and `high` are the accumulators of both factors, in the order of the columns of op(B). Those of
/// earlier k lie side by side, two vectors for one of D.
template <int L>
KILN_INLINE void finish_gated(const Output& out, Vec<Acc, L> low, Vec<Acc, L> high, i64 row,
                              i64 column, int columns, Pass pass) {
  const auto waiting = [&](int which) { return out.partial.at(row, 2 * column) + which * L; };
  if (!pass.first) {
    low += load<Vec<Acc, L>>(waiting(0));
    high += load<Vec<Acc, L>>(waiting(1));
  }
  if (!pass.last) {
    store(waiting(0), low);
    return store(waiting(1), high);
  }
  Vec<Real, L> first = __builtin_convertvector(low, Vec<Real, L>) * out.alpha;
  Vec<Real, L> second = __builtin_convertvector(high, Vec<Real, L>) * out.alpha;
  first += load_first<L>(out.bias + column, columns);
  second += load_first<L>(out.bias + out.columns + column, columns);
  Vec<Real, L> v = first;
  {
    using Value = Vec<Real, L>;
    // None.
    const Value acc0 = v;
    const Value acc1 = second;
    v = silu(acc0) * acc1;
  }
  TypeD* d = out.d + row * out.ldd + column;
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}

// ---- cpu/packed/operand.h ----
// Where a tile reads: rows of A and columns of B, packed or as the caller left them, by units of
// kGroup elements of k. Expects abi.h, vector.h, panels.h, ahead.h and the parameters.

/// The operands of one tile: A's rows and B's columns, packed or where the caller left them.
struct Operand {
  const Unit* a;  // [k / kGroup][kMr]
  const Unit* b;  // kNv panels
  i64 b_pitch;    // bytes from one to the next
  const Unit* sums;  // of the first panel's columns; null: an earlier block of k had them
  i64 apart;  // from the columns of B of a factor, where they lie, to those of the other
};

/// Rows of units of panels, one k step of each: N / 2 of the first factor's that lie beside one
/// another, and as many of the second's. A base for each and a pitch reach six panels.
template <int N>
struct FactorRows {
  const char *first, *second;
  i64 pitch;

  __attribute__((always_inline)) FactorRows(const Unit* at, i64 apart, i64 bytes_apart)
      : first(reinterpret_cast<const char*>(at)),
        second(reinterpret_cast<const char*>(at + apart)),
        pitch(bytes_apart) {
    __asm__("" : "+r"(second), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    return j < N / 2 ? first + j * pitch : second + (j - N / 2) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    second += sizeof(UnitVec);
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
      start = load<AccVec>(FactorRows<N>(in.sums, in.apart, in.b_pitch).of(j)) * -128;
    }
    KILN_UNROLL
    for (int i = 0; i < M; ++i) acc[i][j] = start;
  }
  FactorRows<N> right(in.b, in.apart, in.b_pitch);

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
  // Fetches are spread over the steps: all at once they would hold every fill buffer while the
  // first steps wait for B (measured for D alone: 12 % at n = 1024, kc = 384).
  const i64 fetches = kRagged ? 0 : smaller(M, whole / kStepsPerFetch);  // D's rows
  for (i64 i = 0; i < fetches; ++i) {
    KILN_UNROLL
    for (int j = 0; j < N / 2; ++j)
      if (!kRagged && i < M) __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
    KILN_UNROLL
    for (int j = 0; j < N / 2; ++j)
        if (!kRagged && i < M && pass.last) {
          const i64 to = row + i, first = column + j * kLanes;
          // None.
        }
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
    for (int s = 0; s < kStepsPerFetch; ++s) step(g++, kGroup);
  }
#pragma clang loop unroll(disable) vectorize(disable)
  for (; g < whole; ++g) step(g, kGroup);
  if (k % kGroup) step(whole, k % kGroup);

  // Where the vectors of both factors under vector s of D are.
  const auto low = [](int s) { return s; };
  const auto high = [](int s) { return N / 2 + s; };
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
      for (int s = 0; s < N / 2; ++s)
        finish_gated<kLanes>(out, sums[i][low(s)], sums[i][high(s)], row + i, column + s * kLanes,
                             columns - s * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int s = 0; s < N / 2; ++s)
        finish_gated<kLanes>(out, acc[i][low(s)], acc[i][high(s)], row + i, column + s * kLanes,
                             kMasked && s == N / 2 - 1 ? columns - s * kLanes : kLanes, pass);
    }
  }
}

/// A ragged tile of as many vectors as the columns need or one more, N at most: a tile for each
/// number of vectors would take a fifth longer to compile.
template <int N>
KILN_INLINE void ragged_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                             int rows, int columns, Pass pass) {
  if constexpr (N > 2)
    if (columns <= (N / 2 - 1) * kLanes)
      return ragged_tile<N - 2>(in, k, out, row, column, rows, columns, pass);
  tile<kMr, N, Lacks::both>(in, k, out, row, column, rows, columns, pass);
}

KILN_INLINE void any_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                          int rows, int columns, Pass pass) {
  if (rows == kMr && columns == kNr)
    return tile<kMr, kNv, Lacks::nothing>(in, k, out, row, column, rows, columns, pass);
  if (rows == kMr && columns == kTailColumns) {
    constexpr int kVectors = (kTailColumns + kLanes - 1) / kLanes * 2;
    return tile<kMr, kVectors, Lacks::columns>(in, k, out, row, column, rows, columns, pass);
  }
  ragged_tile<kNv>(in, k, out, row, column, rows, columns, pass);
}

// ---- cpu/packed/memory.h ----
// Where a thread reads A and B, and what it keeps in the workspace. Expects abi.h, share.h,
// panels.h and the parameters.

KILN_INLINE const TypeA* a_at(const KilnArgs& args, i64 row, i64 k) {
  return static_cast<const TypeA*>(args.a) + row * args.lda + k;
}

KILN_INLINE const TypeB* b_at(const KilnArgs& args, i64 k, i64 column) {
  return static_cast<const TypeB*>(args.b) + column * args.ldb + k;
}

/// Packs the columns of op(B) from `column` over k.
KILN_INLINE void pack_columns(const KilnArgs& args, Unit* to, i64 column, i64 width, i64 k0,
                              i64 k) {
  pack_panels_along(to, b_at(args, k0, column), args.ldb, width, k);
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
  return kPackB ? round_up(2 *
                               panels_units(smaller(args.division.nc, args.n),
                                            smaller(args.division.kc, args.k)) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
}
/// Accumulators of a row of a block: of both factors, whole vectors.
KILN_INLINE i64 waiting_in_row(const KilnArgs& args) {
  return 2 * round_up(smaller(args.division.nc, args.n), kLanes);
}
/// Partial accumulators that later k is added to, where D's type would round them.
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  return args.k > args.division.kc
             ? round_up(args.m * waiting_in_row(args) * i64(sizeof(Acc)), kLine)
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
// Columns are those of D, under each of which are two of op(B).

/// Multiplies one block of A (rows) with one block of B (columns) over k.
static void block(const KilnArgs& args, const Memory& memory,
                  const Output& out,
                  Range rows,
                  Range columns, i64 k0, i64 k, Pass pass) {
  for (i64 i = rows.begin; i < rows.end; i += kMr)
    pack_along<kMr, kFlip>(memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup),
                           a_at(args, i, k0), args.lda, int(smaller(kMr, rows.end - i)), k);
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    in.b = memory.b + panels_units(j - columns.begin, k);
    in.apart = panels_units(columns.end - columns.begin, k);
    in.b_pitch = panel_units(k) * i64(sizeof(Unit));
    in.sums = in.b + panel_groups(k) * kLanes;
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
    out.partial = {memory.partial, waiting_in_row(args), rows.begin, 2 * j};
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      const i64 width = block_columns.end - j;
      pack_columns(args, memory.b, j, width, k0, k);
      pack_columns(args, memory.b + panels_units(width, k), args.n + j, width, k0, k);
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
}
