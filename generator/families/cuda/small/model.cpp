// The model that ranks configs of cuda_small: counts of what an SM issues, of what its shared
// memory serves, and of what memory delivers to the copies in flight.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/small/sizes.h"

namespace kiln::cuda::small {
namespace {

constexpr double kFastDoubles = 2, kSlowDoubles = 32;  // cycles of a scheduler a multiply-add
constexpr double kLatency = 900;                       // cycles from memory, under load
constexpr double kOfNominal = 0.87;                    // of the card's rate of memory
constexpr double kCopy = 5;   // instructions of a copy, its addresses included
constexpr double kStore = 5;  // of an element of D without an epilogue, its rounding included
constexpr double kFinished = 6, kPlace = 30;  // the same out of shared memory; of some at once
constexpr double kGroup = 70;                 // of a group: pointers, barrier, the loop
constexpr double kCall = 2500;                // nanoseconds
constexpr double kBeside = 0.15;              // of what is not the bound, that is not hidden either

bool fast_doubles(const DeviceCaps& d) {
  return d.gpu.sm == 80 || d.gpu.sm == 90 || d.gpu.sm == 100;
}

/// Vectors of an operand that a lane reads for all of k.
double reads_of(const Gemm& g, const SmallOperand& o) {
  return o.each * double(g.k) / std::max(1, o.vector);
}

/// Instructions that a lane's product takes, its epilogue not included.
double issued(const Gemm& g, const DeviceCaps& d, const CudaSmall& c, const SmallSizes& w) {
  const double k = double(g.k), sums = double(w.a.each) * w.b.each;
  if (c.matrix) {
    const double steps = std::ceil(k / c.depth), tiles = sums / 4;
    const double rate = g.a.dtype == fp64 ? 16 : 2;  // cycles of a scheduler
    const double loads = g.a.dtype == fp64 ? 2 * w.a.each + w.b.each : (w.a.each + w.b.each) / 2.0;
    return steps * (tiles * rate + loads * 2);
  }
  const double one = g.accumulator != fp64 ? 1 : fast_doubles(d) ? kFastDoubles : kSlowDoubles;
  const double widened =
      (g.a.dtype != g.accumulator ? w.a.each : 0) + (g.b.dtype != g.accumulator ? w.b.each : 0);
  return k * (sums * one + 1.25 * widened) + reads_of(g, w.a) + reads_of(g, w.b);
}

}  // namespace

double small_ns(const Problem& p, const DeviceCaps& d, const CudaSmall& c, const SmallSizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = d.ghz > 0 ? d.ghz : 1.5, units = std::max(1, d.compute_units);
  const double warps = w.threads / 32.0;
  const double elements = double(w.a.each) * w.b.each;
  const double copies = double(w.a.copies + w.b.copies) / w.threads;
  const double registers = c.copy == SmallCopy::registers ? 2 : 1;
  const bool left = c.store == SmallStore::shared;
  const double of_block = double(g.m) * double(g.n) * c.products;  // elements of D
  const double store =
      left ? elements + of_block / w.threads * (kFinished + kPlace / w.width_d) : elements * kStore;
  // Few warps leave schedulers without one that is ready.
  const double ready = std::max(1.0, 8 / (warps * c.resident));
  const double issue =
      ready * warps / 4 * (issued(g, d, c, w) + copies * kCopy * registers + store + kGroup);
  // Shared memory writes and reads 128 bytes a cycle.
  const double d_bytes = of_block * size_of(g.d.dtype);
  const double reads = c.matrix
                           ? double(w.stage_bytes) / 128 * 2
                           : warps * (reads_of(g, w.a) * w.a.turns + reads_of(g, w.b) * w.b.turns);
  const double shared = reads + double(w.stage_bytes) / 128 +
                        (left ? 2.5 * of_block * size_of(g.accumulator) / 128 : 0);
  const double operands =
      double(w.a.rows) * double(g.k) * w.a.size + double(w.b.rows) * double(g.k) * w.b.size;
  const double bytes = operands * c.products + d_bytes;
  const double rate = kOfNominal * std::max(1, d.gpu.memory_gbs) / units / ghz;  // bytes a cycle
  // Elements that leave one by one, not side by side with other lanes', cost whole sectors of L2.
  const double scattered =
      c.store == SmallStore::direct && w.store_width * size_of(g.d.dtype) < 16 ? 1.0 * d_bytes : 0;
  const double per_unit = double(w.groups) / units;
  const double at_once = std::min<double>(c.resident, std::ceil(per_unit));
  // Of stages, one is being multiplied; a single one is on its way for part of the time.
  const double on_way = c.stages == 1 ? 0.5 : c.stages - 1;
  const double flight = at_once * on_way * operands * c.products;
  const double memory = std::max((bytes + 0.5 * scattered) / rate,
                                 operands * c.products * kLatency / std::max(1.0, flight));
  const double most = std::max({issue, shared, memory});
  const double group = most + kBeside * (issue + shared + memory - most);
  // Where blocks take shares in turn the longest share counts, otherwise blocks fill in.
  const double shares = c.turns == 0 ? std::ceil(per_unit / at_once) * at_once : per_unit + 0.3;
  const double edges = kLatency * 2 + most * std::min(at_once, 2.0);
  return kCall + (shares * group + edges) / ghz;
}

}  // namespace kiln::cuda::small
