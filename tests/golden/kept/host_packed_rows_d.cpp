// device:  x86-64-v4
// problem: u8s8 T T 3880 227 91
// config:  host_packed isa=avx512 mr=14 nv=2 kc=96 mc=196 nc=256 pack_a=1 pack_b=1 inner=columns parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0 long_runs=1 rows_d=1

// ---- parameters ----
using TypeA = u8;                 // elements of A
using TypeB = i8;                 // elements of B
using TypeD = i32;                // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vpmaddwd
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
// Where finished rows of D wait until they are written, one after the other. Expects vector.h, and
// from the parameters: TypeD.

constexpr i64 kLineElements = 64 / i64(sizeof(TypeD));

/// Elements between a line's begin and `d`.
KILN_INLINE i64 before_line(const TypeD* d) {
  return i64(reinterpret_cast<unsigned long long>(d) % 64 / sizeof(TypeD));
}

/// Where a strip of rows of D waits.
struct Strip {
  TypeD* first;  // element (row, column)
  i64 pitch;     // to the next row
  i64 row, column;

  TypeD* at(i64 at_row, i64 at_column) const {
    return first + (at_row - row) * pitch + (at_column - column);
  }
};

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
  Strip strip;
  bool whole;  // alpha and beta are whole numbers of 32 bits, and nothing else needs fractions
  u32 whole_alpha, whole_beta;
};

/// Whether a factor is a whole number of 32 bits, which `to` then is, modulo 2^32.
KILN_INLINE bool whole_factor(double x, u32& to) {
  const bool fits = x >= -0x1p31 && x < 0x1p31;
  const i32 whole = fits ? i32(x) : 0;
  to = u32(whole);
  return fits && double(whole) == x;
}

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
  const bool whole_alpha = whole_factor(args.alpha, out.whole_alpha);
  out.whole = whole_factor(args.beta, out.whole_beta) && whole_alpha;
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

/// alpha, beta·C and the rest of accumulators of one row, in 32 bits that wrap: exact where the
/// result fits them.
template <int L>
KILN_INLINE Vec<i32, L> finished_whole(const Output& out, Vec<i32, L> sum, i64 row, i64 column,
                                       int columns) {
  Vec<u32, L> x = bits_of<Vec<u32, L>>(sum);
  if (out.whole_alpha != 1) x *= out.whole_alpha;
  if (out.c)
    x += bits_of<Vec<u32, L>>(load_first<L>(out.c + row * out.ldc + column, columns)) *
         out.whole_beta;
  return bits_of<Vec<i32, L>>(x);
}
/// Finishes L accumulators of one row: `columns` of them exist, the first at (row, column).
template <int L>
KILN_INLINE void finish(const Output& out, Vec<Acc, L> sum, i64 row, i64 column, int columns,
                        Pass pass) {
  TypeD* d = out.strip.at(row, column);
  if (!pass.first) sum += load_first<L>(out.partial.at(row, column), columns);
  if (!pass.last) return store_first<L>(out.partial.at(row, column), sum, columns);
  if (out.whole) {
    const Vec<i32, L> x = finished_whole<L>(out, sum, row, column, columns);
    return store_first<L>(d, x, columns);
  }
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  if (out.c) v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}

// ---- cpu/packed/rows.h ----
// D in the order of its rows, past the caches. What tiles write is a piece of each of their rows,
// and memory takes 64 bytes of each of 28 rows in turn three to five times slower than the same
// bytes in the order of addresses. So a strip of rows waits in the thread's memory, and while tiles
// compute the next one it is written, whole lines at a time, rows that are adjacent in memory as
// one run. Expects lines.h, share.h, operand.h.

using LineOfD = Vec<Raw<TypeD>, int(kLineElements)>;

/// Runs of adjacent elements that are copied to D.
struct Outgoing {
  const TypeD* from;
  TypeD* to;
  i64 length;      // of a run
  i64 pitch, ldd;  // from one run to the next, where they wait and in D
  i64 runs;        // left, the current one included
  i64 at;          // elements of it that were copied

  /// Copies so many lines, or what there is.
  void write(i64 lines) {
    while (lines > 0 && runs > 0) {
      const i64 whole = smaller(lines, (length - at) / kLineElements);
      // A D that is not aligned to its type has no whole lines; streamed stores would trap there.
      if (whole > 0 && reinterpret_cast<unsigned long long>(to + at) % 64 == 0) {
        for (const i64 end = at + whole * kLineElements; at < end; at += kLineElements)
          __builtin_nontemporal_store(load<LineOfD>(from + at),
                                      reinterpret_cast<LineOfD*>(to + at));
        lines -= whole;
      } else {
        const i64 count = smaller(kLineElements - before_line(to + at), length - at);
        store_first<int(kLineElements)>(reinterpret_cast<Raw<TypeD>*>(to + at),
                                        load<LineOfD>(from + at), int(count));
        at += count;
        --lines;
      }
      if (at < length) continue;
      --runs;
      at = 0;
      from += pitch;
      to += ldd;
    }
  }
  void write_all() { write(i64(1) << 62); }
};

/// A row of so many columns, in whole lines.
KILN_INLINE i64 whole_lines(i64 columns) {
  return (columns + kLineElements - 1) / kLineElements * kLineElements;
}
/// Elements that a strip of kMr rows takes, with the lines that it shares with others.
KILN_INLINE i64 strip_elements(i64 columns) {
  return kMr * whole_lines(columns) + 2 * kLineElements;
}

/// The strip that tiles write and the one before it, which leaves.
struct Strips {
  TypeD* memory;  // of two strips
  TypeD* d;
  i64 ldd, column, width;  // D's, and the block's columns

  Outgoing outgoing{};
  i64 quota = 0;  // lines that leave with each tile
  Strip current{};
  i64 rows = 0;                 // of the current strip
  TypeD* base = nullptr;        // the line in which it begins
  bool second = false;          // of the two in memory
  i64 skip = 0;                 // elements of that line that others write
  const TypeD* rest = nullptr;  // the last line of the strip before, which is not whole

  /// Rows that are adjacent are one run, and share lines.
  bool joined() const { return ldd == width; }

  /// Tiles write rows from `row` on next.
  const Strip& begin(i64 row, i64 count) {
    send(false);
    base = memory + (second ? strip_elements(width) : 0);
    second = !second;
    if (joined()) {
      const i64 before = before_line(d + row * ldd + column);
      if (rest)
        store(base, load<LineOfD>(rest));
      else
        skip = before;
      current = {base + before, width, row, column};
    } else {
      current = {base, whole_lines(width), row, column};
    }
    rows = count;
    return current;
  }
  /// Called for each tile.
  void write_some() { outgoing.write(quota); }
  void end() {
    send(true);
    outgoing.write_all();
  }

  /// What was finished follows what leaves.
  void send(bool last) {
    outgoing.write_all();
    if (rows == 0) return;
    TypeD* const to = d + current.row * ldd + column;
    const i64 tiles = (width + kNr - 1) / kNr;
    if (joined()) {
      const i64 before = before_line(to), filled = before + rows * width;
      const i64 ready = last ? filled : filled / kLineElements * kLineElements;
      rest = base + ready;
      if (ready == 0) return;
      outgoing = {base + skip, to - before + skip, ready - skip, 0, 0, 1, 0};
      quota = ready / kLineElements / tiles + 1;
      skip = 0;
    } else {
      outgoing = {base, to, width, current.pitch, ldd, rows, 0};
      quota = rows * (width / kLineElements + 2) / tiles + 1;
    }
  }
};

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
  TypeD* rows;
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
/// Two strips of D's rows.
KILN_INLINE i64 bytes_of_rows(const KilnArgs& args) {
  const i64 elements = strip_elements(smaller(args.division.nc, args.n));
  return 2 * elements * i64(sizeof(TypeD));
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args) + bytes_of_rows(args);
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
                  Output out,
                  Range rows,
                  Range columns, i64 k0, i64 k, Pass pass) {
  pack_across<kMr, kFlip>(memory.a, a_at(args, rows.begin, k0), args.lda, rows.end - rows.begin, k,
                          (k + kGroup - 1) / kGroup * kMr);
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    in.b = memory.b + panels_units(j - columns.begin, k);
    in.b_pitch = panel_units(k) * i64(sizeof(Unit));
    any_tile(in, k, out, i, j, int(smaller(kMr, rows.end - i)), int(smaller(kNr, columns.end - j)),
             pass);
  };
  Strips strips{memory.rows, out.d, out.ldd, columns.begin, columns.end - columns.begin};
  for (i64 i = rows.begin; i < rows.end; i += kMr) {
    out.strip = strips.begin(i, smaller(kMr, rows.end - i));
    for (i64 j = columns.begin; j < columns.end; j += kNr) {
      one(i, j);
      strips.write_some();
    }
  }
  strips.end();
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
