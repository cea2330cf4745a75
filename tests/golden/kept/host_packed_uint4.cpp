// device:  x86-64-v4
// problem: bf16_uint4 N T 512 4096 4096 group=128 scale_type=bf16 zero=int
// config:  host_packed isa=avx512 mr=8 nv=3 kc=512 mc=192 nc=528 pack_a=1 pack_b=1 inner=columns parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kMr = 8;            // rows of the register tile
constexpr int kNv = 3;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kRowUnit = 8;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 48;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels
using TypeScale = Bfloat;         // scales of B
using TypeZero = u8;              // its zero points
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 128;      // elements along k that share a scale

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
  w.first = batch * args.n * w.groups;
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
      for (i64 p = run; p < end; p += kLanes) {
        Vec<Unit, kLanes> rows[kLanes];
        KILN_UNROLL
        for (int c = 0; c < kLanes; ++c)
          rows[c] = load_codes(
              w.codes + (column + j + smaller(c, width - 1)) * w.pitch + (k0 + p) * kCodeBits / 8,
              end - p);
        transpose<kLanes>(rows);
        KILN_UNROLL
        for (int r = 0; r < kLanes; ++r)
          if (p + r < end) store(panel + (p + r) * kLanes, decoded(rows[r], group));
      }
    }
  }
  end_panels(to, columns, k);
}
