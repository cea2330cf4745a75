// The model that ranks configs of cuda_weights.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/weights/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda::weights_model {
namespace {

// The numbers of the model. [counted]: instructions of the generated code; [trial]: chosen by
// trial, no measurement is kept.

// --- A stage of a block, in cycles or instructions.
constexpr double kSharedRate = 128;                // bytes a cycle of shared memory [data sheet]
constexpr double kLeftHalfBytes = 2.5, kLeft = 1;  // of a word of A, by the codes [counted]
constexpr double kScale = 6, kScales = 10;         // of a tile's scale, of a row of them [counted]
constexpr double kAsyncCopy = 6, kCopy = 20, kCopies = 40;  // of a copy, of a stage's [counted]
constexpr double kTogether = 4;   // power that says how units in each other's way add [trial]
constexpr double kBarrier = 120;  // at the end of a stage [trial]

// --- A call, in cycles or, where said, nanoseconds.
constexpr double kClock = 0.87, kGhz = 1.5;  // the clock under load [trial]; where it is not known
constexpr double kLatency = 1000;            // that bytes on their way to an SM must cover [trial]
constexpr double kOfNominal = 0.92;          // of the card's rate of memory [trial]
constexpr double kOfA = 0.5;       // of A's bytes: L2 gives about twice what memory does [trial]
constexpr double kExposed = 0.15;  // of the shorter of work and memory [trial]
constexpr double kEdges = 1500, kStoreRate = 24;     // of a block; bytes a cycle of D [trial]
constexpr double kReduction = 1500, kPartRate = 40;  // and bytes a cycle of parts [trial]
constexpr double kCall = 2500;                       // nanoseconds [trial]
constexpr double kOtherGroup = 1.01;  // one order stands for all in the first guesses [trial]

/// Multiply-adds of one SM in a cycle by mma.sync, by data sheets (dense, fp32 accumulators); on
/// Hopper 0.62 of what wgmma does.
double products_per_cycle(int sm) {
  if (sm >= 110) return 512;
  if (sm >= 100) return 1024;
  if (sm >= 90) return 1270;
  return sm == 80 ? 1024 : 512;
}

/// Cycles of an SM for one stage of one block.
double stage_cycles(const Problem& p, const DeviceCaps& d, const WeightsSizes& w,
                    const CudaWeights& c, int resident) {
  const double k = c.block_k, warps = c.warps;
  const double multiply = double(c.tile_m) * c.tile_n * k / products_per_cycle(d.gpu.sm) *
                          std::max(1.0, 4.0 / (warps * resident));
  // Every warp reads all of A's tile, and its own codes.
  const double read = warps * c.tile_m * double(w.pitch_a) + double(c.tile_n) * w.pitch_b;
  const double shared = (read + double(w.stage_bytes)) / kSharedRate;
  // Instructions of a warp, as its main loop has them: of each word of codes of 8 columns, of A's
  // words, products, scales, copies.
  const double decodes = w.tiles_m * (k * w.code_bits / 64) * word_instructions(p.gemm);
  const double lefts = w.tiles_n * (k / 16) * (w.code_bits == 4 ? kLeftHalfBytes : kLeft);
  const double products = w.tiles_m * w.tiles_n * (k / 16);
  const double scales = w.along == 0 ? 0 : k / w.along * w.tiles_m * (w.tiles_n * kScale + kScales);
  const double copies =
      double(w.stage_bytes) / w.unit / w.threads * (w.async ? kAsyncCopy : kCopy) + kCopies;
  const double issue =
      warps * (decodes + lefts + products + scales + copies) / std::min(4.0, warps * resident);
  double sum = 0;
  for (const double part : {multiply, shared, issue}) sum += std::pow(part, kTogether);
  // At its end every stage has a barrier, which other blocks cover.
  return std::pow(sum, 1 / kTogether) + kBarrier / resident;
}

/// Blocks that have work; of groups as many as are expected, half of the last tile of each being
/// empty.
double blocks_of(const Gemm& g, const WeightsSizes& w, const CudaWeights& c) {
  if (!grouped(g)) return double(w.grid);
  const double rows =
      g.grouping() == Grouping::rows ? double(g.m) / double(g.batch) : expected_rows_of(g);
  return std::max(1.0, rows / c.tile_m + 0.5) * double(g.batch) * double(ceil_div(g.n, w.columns));
}

}  // namespace
}  // namespace kiln::cuda::weights_model

namespace kiln::cuda {

double weights_ns(const Problem& p, const DeviceCaps& d, const CudaWeights& c,
                  const WeightsSizes& w) {
  using namespace weights_model;
  const Gemm& g = p.gemm;
  const double ghz = kClock * (d.ghz > 0 ? d.ghz : kGhz), units = std::max(1, d.compute_units);
  const double blocks = blocks_of(g, w, c);
  const double stages = double(ceil_div(w.stages_of_k, c.splits));
  const int resident =
      static_cast<int>(std::clamp(std::ceil(blocks / units), 1.0, double(w.blocks)));
  const double per_unit = std::ceil(blocks / units);
  // Bytes on their way to an SM must cover the latency of memory.
  const double ahead = std::min(double(c.stages - 1), stages);
  const double bytes_per_cycle =
      std::min(double(std::max(1, d.gpu.memory_gbs)) / units / ghz * kOfNominal,
               double(w.stage_bytes) * ahead * resident / kLatency);
  // Parts of A come from L2.
  const double arrive =
      (double(c.tile_n) * w.pitch_b + kOfA * double(c.tile_m) * w.pitch_a) / bytes_per_cycle;
  const double busy = stage_cycles(p, d, w, c, resident);
  const double block = stages * (std::max(busy, arrive) + kExposed * std::min(busy, arrive));
  const double edges =
      kEdges + double(c.tile_m) * c.tile_n * size_of(g.d.dtype) / kStoreRate / resident;
  double cycles = per_unit * block + std::ceil(per_unit / resident) * edges;
  if (c.splits > 1)
    cycles += kReduction +
              double(c.tile_m) * c.tile_n * size_of(g.accumulator) * (c.splits + 1) / kPartRate;
  // Of configs that the model cannot tell apart one stands for all in the first guesses.
  return kCall + cycles / ghz * (c.group == 8 ? 1.0 : kOtherGroup);
}

}  // namespace kiln::cuda
