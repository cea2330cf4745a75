// What a config of cuda_weights becomes in its source: constants, macros, choices.
#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/weights/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {
namespace {

void add_sizes(Parameters& out, const WeightsSizes& w, const CudaWeights& c) {
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kTileN", c.tile_n, "columns of D in a block's tile");
  add("kTileM", c.tile_m, "rows of D in it");
  add("kBlockK", c.block_k, "k of one stage");
  add("kDecodeK", w.decode_k, "k of a chunk, which is decoded together");
  add("kThreads", w.threads, "of a block");
  add("kBlocks", w.blocks, "that are to fit one SM");
  add("kTilesM", w.tiles_m, "16 columns each, of a warp");
  add("kTilesN", w.tiles_n, "8 rows each, of a warp");
  if (w.along > 0) add("kAtOnce", w.at_once, "tiles of 8 rows whose sums wait for a scale");
  add("kStages", c.stages, "of the ring");
  add("kUnit", w.unit, "bytes of one copy to shared memory");
  add("kBitsA", w.exchange_a.bits, "of a byte's place in a line of A that are exchanged");
  add("kBaseA", w.exchange_a.base, "the first of them");
  add("kBitsB", w.exchange_b.bits, "the same for B, from bit 4 on");
  add("kShiftB", w.exchange_b.shift, "with bits of the line's number from here on");
  add("kStoreWidth", w.store_width, "elements of D stored at once");
  add("kGroup", c.group, "tiles along n in a band of the rasterization");
  if (c.splits > 1) {
    add("kCounterBytes", kCounterBytes, "front of the workspace, counters of tiles");
    add("kSplits", c.splits, "parts that k is divided into");
  }
}

}  // namespace

Parameters weights_parameters(const Problem& p, const DeviceCaps& d, const CudaWeights& c,
                              const WeightsSizes& w) {
  const Gemm& g = p.gemm;
  Parameters out;
  add_common(out, p, d);
  add_weights(out, g);
  out.constants.push_back({"using", "Fragment", "u32", "a register of an operand"});
  add_sizes(out, w, c);
  add_groups(out, g, c.tile_m);
  // What is multiplied are numbers of A's type.
  Gemm numbers = g;
  numbers.b.dtype = g.a.dtype;
  const MmaInstruction& instruction = *mma_instruction(numbers, d, 16);
  out.constants.push_back(number("kMmaSums", instruction.accumulators(),
                                 "registers of sums of the matrix instruction"));
  out.constants.push_back(number("kMmaA", instruction.a_registers(), "registers of weights"));
  out.constants.push_back(number("kMmaB", instruction.b_registers(), "registers of A"));
  add_mma_lists(out, instruction, numbers);
  if (c.splits > 1) add_pairs(out, numbers);
  auto& v = out.values;
  v["matrix"] = value_of(true);
  v["async"] = value_of(w.async);
  v["overlaps"] = value_of(w.overlaps);
  add_tile_scheduler(v, g, c.sharing());
  // D is computed transposed.
  v["groups_right"] = value_of(grouped(g));
  for (const char* other : {"double", "short_runs", "tf32"}) v[other] = "0";
  return out;
}

}  // namespace kiln::cuda
