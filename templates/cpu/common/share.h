// How work is divided among threads, and the reduction of split-K. Expects epilogue.h and the units
// of division that apply: kRowUnit, kColumnUnit, kKUnit.
#pragma once

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
  //% if split_k
  (void)args;
  return threads;
  //% else
  i64 parts = 1;
  switch (args->division.parallel) {
    case kilnParallelBatch:
      parts = args->batch;
      break;
    case kilnParallelM:
      parts = (args->m + kRowUnit - 1) / kRowUnit;
      break;
    case kilnParallelN:
      parts = (args->n + kColumnUnit - 1) / kColumnUnit;
      break;
    case kilnParallelGrid:
      parts = threads;
      break;
  }
  return parts < 1 ? 1 : int(smaller(parts, threads));
  //% end
}

KILN_INLINE Work work_of(const KilnArgs& args, int thread, int threads) {
  Work work{{0, args.batch}, {0, args.m}, {0, args.n}, {0, args.k}};
  if (threads == 1) return work;
  //% if split_k
  work.ks = share(args.k, kKUnit, thread, threads);
  //% else
  switch (args.division.parallel) {
    case kilnParallelBatch:
      work.batches = share(args.batch, 1, thread, threads);
      break;
    case kilnParallelM:
      work.rows = share(args.m, kRowUnit, thread, threads);
      break;
    case kilnParallelN:
      work.columns = share(args.n, kColumnUnit, thread, threads);
      break;
    case kilnParallelGrid: {
      // The most square grid of all threads: down × across.
      int across = 1;
      for (int c = 1; c <= threads; ++c)
        if (threads % c == 0 && args.n * i64(threads / c) >= args.m * i64(c)) across = c;
      const int down = threads / across;
      work.rows = share(args.m, kRowUnit, thread % down, down);
      work.columns = share(args.n, kColumnUnit, thread / down, across);
      break;
    }
    default:
      if (thread != 0) work.batches.end = 0;
  }
  //% end
  return work;
}

//% if split_k
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
//% end
