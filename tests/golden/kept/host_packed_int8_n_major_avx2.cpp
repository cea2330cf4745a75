// device:  x86-64-v3
// problem: fp16_int8 N N 64 128 256 group=k zero=float
// config:  host_packed isa=avx2 mr=4 nv=2 kc=64 mc=96 nc=64 pack_a=1 pack_b=1 inner=rows parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = i8;                 // elements of B
using TypeD = Half;               // elements of C and D
constexpr int kVectorBytes = 32;  // accumulators of vfmadd231ps
constexpr int kMr = 4;            // rows of the register tile
constexpr int kNv = 2;            // vectors across the register tile
constexpr int kUnroll = 1;        // k steps in the inner loop's body
constexpr int kRowUnit = 4;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 16;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels
using TypeScale = float;          // scales of B
using TypeZero = float;           // its zero points
constexpr int kCodeBits = 8;      // bits of an element of B

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
  w.groups = 1;
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
    scale[c] = load_real<2>(w.scales + at, 1)[0];
    zero[c] = load_real<2>(static_cast<const TypeZero*>(w.zeros) + at, 1)[0];
  }
  return {load<AccVec>(scale), load<AccVec>(zero)};
}

KILN_INLINE AccVec decoded(AccVec codes, const Group& group) {
  codes -= group.zero;
  return codes * group.scale;
}

/// kLanes codes that lie side by side from the first of a byte on; `count` of them exist.
KILN_INLINE AccVec load_codes(const u8* from, i64 count) {
  count = smaller(count, kLanes);
  return __builtin_convertvector(load_first<kLanes>(reinterpret_cast<const i8*>(from), int(count)),
                                 AccVec);
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
      for (i64 p = run; p < end; ++p)
        store(
            panel + p * kLanes,
            decoded(load_codes(w.codes + (k0 + p) * w.pitch + (column + j) * kCodeBits / 8, width),
                    group));
    }
  }
  end_panels(to, columns, k);
}
