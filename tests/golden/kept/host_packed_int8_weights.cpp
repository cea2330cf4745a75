// device:  x86-64-v4
// problem: int8 N T 32 512 1024 out=fp32 packed_b=1
// config:  host_packed isa=avx512 mr=8 nv=2 kc=1024 mc=32 nc=512 pack_a=1 pack_b=1 inner=columns parallel=none unroll=1 prefetch=0 stream_d=0 ahead=0

// ---- parameters ----
using TypeA = i8;                 // elements of A
using TypeB = i8;                 // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vpmaddwd
constexpr int kMr = 8;            // rows of the register tile
constexpr int kNv = 2;            // vectors across the register tile
constexpr int kKc = 1024;         // k of one block
constexpr int kMc = 32;           // rows of one block of A
constexpr int kNc = 512;          // columns of one block of B
constexpr int kUnroll = 1;        // k steps in the inner loop's body
constexpr int kColumnSums = 0;    // rows of column sums behind a packed strip of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = false;    // B is copied to strips

// ---- cpu/common/strips.h ----
// Strips of B: kNr columns over k, packed, with the sums of their columns where signs were shifted;
// and a whole B packed once by the caller. Expects pack.h, share.h, kNv, kKc, kColumnSums.

constexpr int kNr = kNv * kLanes;
/// Rows of units in a strip. Tiles read them 16 at a time, the last ones being zeros.
KILN_INLINE i64 strip_groups(i64 k) {
  return (k + kGroup - 1) / kGroup;
}
/// Units that a packed strip of B takes, a row of column sums included where signs were shifted.
KILN_INLINE i64 strip_units(i64 k) { return (strip_groups(k) + kColumnSums) * kNr; }

/// Packs columns [0, width) of B, k rows, as one strip.
static void pack_strip(Unit* to, const TypeB* from, i64 ldb, int width, i64 k) {
  pack_along<kNr, 0>(to, from, ldb, width, k);
}

KILN_INLINE const TypeB* b_at(const KilnArgs& args, i64 k, i64 column) {
  return static_cast<const TypeB*>(args.b) + column * args.ldb + k;
}
/// Packed B: blocks of kKc along k; in each, strips of kNr columns.
KILN_INLINE i64 strips(const KilnArgs& args) { return (args.n + kNr - 1) / kNr; }
KILN_INLINE i64 packed_units(const KilnArgs& args) {
  return (args.k / kKc * strip_units(kKc) + strip_units(args.k % kKc)) * strips(args) + kLanes;
}
KILN_INLINE i64 strip_offset(const KilnArgs& args, i64 k0, i64 k, i64 column) {
  return k0 / kKc * strip_units(kKc) * strips(args) + strip_units(k) * (column / kNr);
}

extern "C" long long kiln_packed_b_bytes(const KilnArgs* args) {
  return args->batch * packed_units(*args) * i64(sizeof(Unit));
}

extern "C" void kiln_pack_b(const KilnArgs* all, void* packed) {
  KilnArgs args = *all;
  for (i64 batch = 0; batch < args.batch; ++batch) {
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    Unit* to = static_cast<Unit*>(packed) + batch * packed_units(args);
    for (i64 k0 = 0; k0 < args.k || k0 == 0; k0 += kKc) {
      const i64 k = smaller(kKc, args.k - k0);
      for (i64 j = 0; j < args.n; j += kNr)
        pack_strip(to + strip_offset(args, k0, k, j), b_at(args, k0, j), args.ldb,
                   int(smaller(kNr, args.n - j)), k);
    }
  }
}
