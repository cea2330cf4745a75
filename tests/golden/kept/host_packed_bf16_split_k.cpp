// device:  x86-64-v4
// problem: bf16 N T 64 96 4096
// config:  host_packed isa=avx512 mr=8 nv=3 kc=512 mc=64 nc=96 pack_a=1 pack_b=1 inner=columns parallel=k unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vdpbf16ps
constexpr int kMr = 8;            // rows of the register tile
constexpr int kNv = 3;            // vectors across the register tile
constexpr int kUnroll = 1;        // k steps in the inner loop's body
constexpr int kKUnit = 8;         // k is divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels

// ---- cpu/common/share.h ----
// How work is divided among threads, and the reduction of split-K. Expects epilogue.h and the units
// of division that apply: kRowUnit, kColumnUnit, kKUnit.

KILN_INLINE i64 round_up(i64 size, i64 unit) { return (size + unit - 1) / unit * unit; }
KILN_INLINE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

struct Range {
  i64 begin, end;
};
/// Part `part` of `parts` of [0, size), divided at multiples of `unit`.
KILN_INLINE Range share(i64 size, i64 unit, int part, int parts) {
  const i64 units = (size + unit - 1) / unit;
  return {smaller(units * part / parts * unit, size),
          smaller(units * (part + 1) / parts * unit, size)};
}

/// What one thread does of a problem. A batch, a row or a column belongs to one thread; only with
/// split-K do threads work on the same elements, each on its own part of k.
struct Work {
  Range batches, rows, columns, ks;
};

extern "C" int kiln_threads(const KilnArgs* args, int threads) {
  (void)args;
  return threads;
}

KILN_INLINE Work work_of(const KilnArgs& args, int thread, int threads) {
  Work work{{0, args.batch}, {0, args.m}, {0, args.n}, {0, args.k}};
  if (threads == 1) return work;
  work.ks = share(args.k, kKUnit, thread, threads);
  return work;
}

extern "C" int sched_yield();

/// Waits until all threads have come here. Two words: arrivals, and how often all have arrived.
static void wait_for_all(unsigned* barrier, int threads) {
  const unsigned round = __atomic_load_n(&barrier[1], __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&barrier[0], 1, __ATOMIC_ACQ_REL) == unsigned(threads)) {
    __atomic_store_n(&barrier[0], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier[1], round + 1, __ATOMIC_RELEASE);
  } else {
    // More threads than cores may be waiting: then only giving the core away lets the last one
    // come.
    for (int spins = 0; __atomic_load_n(&barrier[1], __ATOMIC_ACQUIRE) == round; ++spins)
      if (spins > 4096) sched_yield();
  }
}

/// Adds the threads' partial accumulators in thread order, so that the result does not depend on
/// timing. Thread t's lie at `sums + t * stride`, tight rows of n.
static void reduce(const KilnArgs& args, const Output& out, const Acc* sums, i64 stride, int thread,
                   int threads) {
  const Range rows = share(args.m, 1, thread, threads);
  for (i64 i = rows.begin; i < rows.end; ++i) {
    for (i64 j = 0; j < args.n; j += kLanes) {
      const int columns = int(smaller(kLanes, args.n - j));
      AccVec sum = AccVec(Acc(0));
      for (int t = 0; t < threads; ++t)
        sum += load_first<kLanes>(sums + t * stride + i * args.n + j, columns);
      finish<kLanes>(out, sum, i, j, columns, {true, true});
    }
  }
}
