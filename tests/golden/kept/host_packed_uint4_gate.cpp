// device:  x86-64-v3
// problem: bf16_uint4 N N 64 129 256 epilogue=bias_col group=32 zero=int gate=silu
// config:  host_packed isa=avx2 mr=2 nv=4 kc=96 mc=48 nc=32 pack_a=1 pack_b=1 inner=rows parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 32;  // accumulators of vfmadd231ps
constexpr int kMr = 2;            // rows of the register tile
constexpr int kNv = 4;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kRowUnit = 2;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 16;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels
using TypeScale = float;          // scales of B
using TypeZero = u8;              // its zero points
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 32;       // elements along k that share a scale

// ---- cpu/common/decode.h ----
// Panels of B from weights of four or eight bits: codes become numbers, less zero points and times
// scales, while they are packed. Expects panels.h, kCodeBits, TypeScale and, unless whole columns
// share a scale, kGroupK, of which blocks of k hold whole ones or which hold whole runs.

/// B of one batch.
struct Weights {
  const u8* codes;
  i64 pitch;  // bytes between lines
  const TypeScale* scales;
  const void* zeros;
  i64 first, groups;  // place of the batch's first scale; scales of a column
};

KILN_INLINE Weights weights_of(const KilnArgs& args, i64 batch) {
  Weights w;
  w.codes = static_cast<const u8*>(args.b) + batch * args.stride_b * kCodeBits / 8;
  w.pitch = args.ldb * kCodeBits / 8;
  w.scales = static_cast<const TypeScale*>(args.scale_b);
  w.zeros = args.zero_b;
  w.groups = args.k / kGroupK;
  w.first = batch * 2 * args.n * w.groups;
  return w;
}

/// What the elements of a group are shifted and scaled by, a lane for each column of a panel.
struct Group {
  AccVec scale;
  AccVec zero;
};

/// Of the group that holds k; missing columns repeat the last one.
KILN_INLINE Group group_of(const Weights& w, i64 column, int width, i64 k) {
  float scale[kLanes];
  float zero[kLanes];
  for (int c = 0; c < kLanes; ++c) {
    i64 at = w.first + (column + smaller(c, width - 1)) * w.groups;
    at += k / kGroupK;
    scale[c] = load_real<2>(w.scales + at, 1)[0];
    const int code = static_cast<const u8*>(w.zeros)[at / 2] >> (at % 2 * 4) & 15;
    zero[c] = float(code);
  }
  return {load<AccVec>(scale), load<AccVec>(zero)};
}

KILN_INLINE AccVec decoded(AccVec codes, const Group& group) {
  codes -= group.zero;
  return codes * group.scale;
}

template <typename V, int... I>
KILN_INLINE auto in_turns(V low, V high, Sequence<int, I...>) {
  return __builtin_shufflevector(low, high, (I / 2 + I % 2 * (kLanes / 2))...);
}

/// kLanes codes that lie side by side from the first of a byte on; `count` of them exist.
KILN_INLINE AccVec load_codes(const u8* from, i64 count) {
  count = smaller(count, kLanes);
  const auto bytes = load_first<kLanes / 2>(from, int((count + 1) / 2));
  auto codes = in_turns(bytes & 15, bytes >> 4, Iota<kLanes>{});
  return __builtin_convertvector(codes, AccVec);
}

template <int... I>
KILN_INLINE AccVec from_second(AccVec low, AccVec high, Sequence<int, I...>) {
  return __builtin_shufflevector(low, high, (I + 1)...);
}

/// As load_codes(), from the second code of a byte on.
KILN_INLINE AccVec load_codes_within(const u8* from, i64 count) {
  const AccVec last = load_codes(from + kLanes / 2, count == kLanes ? 1 : 0);
  return from_second(load_codes(from, count + 1), last, Iota<kLanes>{});
}

/// Columns [column, column + width) over k from k0 on. A run of k lies in one group.
__attribute__((noinline)) static void pack_weights(Unit* to, const Weights& w, i64 k0, i64 column,
                                                   i64 columns, i64 k) {
  constexpr int kRun = 32;
  for (i64 run = 0; run < k; run += kRun) {
    const i64 end = smaller(run + kRun, k);
    for (i64 j = 0; j < columns; j += kLanes) {
      Unit* const panel = to + panels_units(j, k);
      const int width = int(smaller(kLanes, columns - j));
      const Group group = group_of(w, column + j, width, k0 + run);
      // The second factor's columns begin within a byte where D has an odd number of them.
      const bool within = column % 2 != 0;
      for (i64 p = run; p < end; ++p) {
        const u8* const from = w.codes + (k0 + p) * w.pitch + (column + j) / 2;
        store(panel + p * kLanes,
              decoded(within ? load_codes_within(from, width) : load_codes(from, width), group));
      }
    }
  }
  end_panels(to, columns, k);
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
                     const Weights& weights,
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
      pack_weights(memory.b, weights, k0, j, width, k);
      pack_weights(memory.b + panels_units(width, k), weights, k0, args.n + j, width, k);
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
    Output out = output_of(args, batch);
    multiply(args, memory, out, work.rows,
             weights_of(*all, batch),
             work.columns, work.ks);
  }
}
