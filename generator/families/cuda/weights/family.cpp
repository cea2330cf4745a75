// Family cuda_weights: axes, rules and launch of templates/cuda/weights/weights.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/row_adder.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/weights/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/problem/taken.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::weights {
namespace {

using cuda::weights_sizes;
using cuda::WeightsSizes;

constexpr std::array<std::string_view, 29> kFiles{
    "cuda/common/abi.h",         "cuda/common/types.h",          "cuda/common/indices.h",
    "cuda/common/convert_ptx.h", "cuda/common/convert.h",        "cuda/common/amax.h",
    "cuda/common/epilogue.h",    "cuda/common/banks.h",          "cuda/common/ampere_ptx.h",
    "cuda/common/grid_ptx.h",    "cuda/common/mma_ptx.h",        "cuda/weights/decode_ptx.h",
    "cuda/weights/store_ptx.h",  "cuda/weights/decode.h",        "cuda/weights/pairs.h",
    "cuda/weights/copy.h",       "cuda/weights/scaling.h",       "cuda/weights/store.h",
    "cuda/mma/finish.h",         "cuda/common/groups_ptx.h",     "cuda/common/group_args.h",
    "cuda/common/groups.h",      "cuda/common/tile_scheduler.h", "cuda/common/partials_ptx.h",
    "cuda/common/partials.h",    "cuda/mma/combine_ptx.h",       "cuda/mma/combine.h",
    "cuda/weights/weights.cu",   "cuda/common/add_rows.cu"};

bool power_of_two(int x, int low, int high) {
  return x >= low && x <= high && std::has_single_bit(static_cast<unsigned>(x));
}

bool computes(const Gemm& g, const DeviceCaps& d) { return has_weights(g) && d.gpu.sm >= 80; }

constexpr FirstRule<CudaWeights> kFirst[] = {
    {"B holds weights, and the device has the matrix instruction and cp.async (sm_80); m, n, k are "
     "at least 1",
     [](const Problem& p, const DeviceCaps& d, const CudaWeights&) {
       const Gemm& g = p.gemm;
       return computes(g, d) && g.m >= 1 && g.n >= 1 && g.k >= 1;
     }},
    {"tile_n is 16 to 256, tile_m 8 to 128, block_k 64 to 256 and warps 1 to 8, powers of two; "
     "stages 2 to 16, group 1 to 64",
     [](const Problem&, const DeviceCaps&, const CudaWeights& c) {
       return power_of_two(c.tile_n, 16, 256) && power_of_two(c.tile_m, 8, 128) &&
              power_of_two(c.block_k, 64, 256) && power_of_two(c.warps, 1, 8) && c.stages >= 2 &&
              c.stages <= 16 && c.group >= 1 && c.group <= 64;
     }}};

constexpr Rule<CudaWeights, WeightsSizes> kRules[] = {
    {"A and B are k-major, B is not packed",
     [](const Problem& p, const DeviceCaps&, const CudaWeights&, const WeightsSizes&) {
       return p.a_k_major && p.b_k_major && !p.gemm.b_packed;
     }},
    {"every warp has at least 16 columns", [](const Problem&, const DeviceCaps&, const CudaWeights&,
                                              const WeightsSizes& w) { return w.tiles_m >= 1; }},
    {"a stage holds whole groups, and what is decoded together",
     [](const Problem&, const DeviceCaps&, const CudaWeights& c, const WeightsSizes& w) {
       return c.block_k % w.decode_k == 0;
     }},
    {"threads divide the copies of a line evenly",
     [](const Problem&, const DeviceCaps&, const CudaWeights&, const WeightsSizes& w) {
       return w.pitch_a / w.unit <= w.threads && w.pitch_b / w.unit <= w.threads;
     }},
    {"accumulators and numbers fit the registers",
     [](const Problem&, const DeviceCaps& d, const CudaWeights&, const WeightsSizes& w) {
       return w.registers <= std::min(255, d.gpu.registers_unit / w.threads);
     }},
    {"stages fit shared memory",
     [](const Problem&, const DeviceCaps& d, const CudaWeights&, const WeightsSizes& w) {
       return w.shared_bytes + w.table_bytes <= d.gpu.shared_block_bytes - 1024;
     }},
    {"groups: no splits, and at most 4096 of them",
     [](const Problem& p, const DeviceCaps&, const CudaWeights& c, const WeightsSizes&) {
       return !grouped(p.gemm) || (c.splits == 1 && p.gemm.batch <= cuda::kMostGroups);
     }},
    {"splits is 1 to 64, at most the stages of k",
     [](const Problem&, const DeviceCaps&, const CudaWeights& c, const WeightsSizes& w) {
       return c.splits >= 1 && c.splits <= 64 && (c.splits == 1 || w.stages_of_k >= c.splits);
     }},
    {"the counters of split-K fit 64 KiB",
     [](const Problem&, const DeviceCaps&, const CudaWeights& c, const WeightsSizes& w) {
       return c.splits == 1 || w.tiles * 4 <= cuda::kCounterBytes;
     }},
    {"tile numbers, stages of all splits, scales, m, n and k fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const CudaWeights& c, const WeightsSizes& w) {
       const Gemm& g = p.gemm;
       const std::int64_t most = std::int64_t{1} << 31;
       const std::int64_t groups = w.along == 0 ? 1 : g.k / w.along;
       return w.tiles * c.splits < most / 2 && w.stages_of_k * c.splits < most &&
              cuda::band_fits(c.group, ceil_div(g.m, c.tile_m)) && g.m < most - 512 &&
              g.n < most - 512 && g.k < most - 512 &&
              double(g.batch) * double(g.columns_of_b()) * double(groups) < double(most);
     }},
    {"k/splits elements are less than 1 GiB",
     [](const Problem& p, const DeviceCaps&, const CudaWeights& c, const WeightsSizes&) {
       return ceil_div(p.gemm.k, c.splits) * 2 < (std::int64_t{1} << 30) - 65536;
     }}};

/// Parts of split-K that keep every SM busy, and no more than two waves of blocks.
void visit_splits(const Problem& p, const DeviceCaps& d, CudaWeights c,
                  const std::function<void(const Config&)>& visit) {
  c.splits = 1;
  visit(c);
  if (grouped(p.gemm)) return;
  const auto w = weights_sizes(p, d, c);
  const std::int64_t room = std::int64_t{w.blocks} * std::max(1, d.compute_units);
  for (const int splits : {2, 3, 4, 6, 8, 12, 16, 32}) {
    if (w.tiles * splits > 2 * room || splits > w.stages_of_k) break;
    c.splits = splits;
    visit(c);
  }
}

void visit_stages(const Problem& p, const DeviceCaps& d, CudaWeights c,
                  const std::function<void(const Config&)>& visit) {
  for (const int block_k : {64, 128, 256})
    for (const int stages : {3, 4, 6, 8}) {
      c.block_k = block_k;
      c.stages = stages;
      if (weights_sizes(p, d, c).shared_bytes > d.gpu.shared_block_bytes) break;
      visit_splits(p, d, c, visit);
    }
}

constexpr std::array kTilesM{8, 16, 32, 64, 128};
constexpr std::array kTilesN{32, 64, 128, 256};
constexpr std::array kWarps{2, 4, 8};
constexpr std::array kGroups{8, 16};

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  if (!computes(p.gemm, d)) return;
  Product(kTilesM, kTilesN, kWarps, kGroups)
      .each([&](int tile_m, int tile_n, int warps, int group) {
        // A tile much wider than the problem computes nothing but zeros.
        if (tile_m > 8 && tile_m / 2 >= p.gemm.m) return;
        if (tile_n > 32 && tile_n / 2 >= p.gemm.columns_of_b()) return;
        if (tile_n < 16 * warps || tile_n > 64 * warps) return;
        if (group > 8 && p.gemm.m <= tile_m * 8) return;
        visit_stages(p, d, {.tile_n = tile_n, .tile_m = tile_m, .warps = warps, .group = group},
                     visit);
      });
}

GpuLaunch launch(const Problem&, const DeviceCaps&, const CudaWeights& c, const WeightsSizes& w) {
  GpuLaunch out;
  out.workspace_bytes = w.workspace_bytes;
  out.zeroed_bytes = c.splits > 1 ? cuda::kCounterBytes : 0;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.grid);
  step.block.x = static_cast<unsigned>(w.threads);
  step.dynamic_shared_bytes = static_cast<int>(w.shared_bytes);
  step.overlaps_previous = w.overlaps;
  out.steps.push_back(step);
  return out;
}

/// The sum of a group, or of a whole column, is scaled, then added. The instruction takes pairs in
/// the order in which they lie in words of codes. Parts of split-K end with stages.
std::string summation(const Problem&, const DeviceCaps&, const CudaWeights& c,
                      const WeightsSizes& w) {
  const std::string chain = fmt::format("mma k16 chain of {}-bit words, scaled", w.code_bits);
  const std::string all =
      w.along == 0 ? chain : fmt::format("groups of {}, each {}", w.along, chain);
  return c.splits == 1 ? all : fmt::format("{} parts of {} k, each {}", c.splits, c.block_k, all);
}

std::optional<CudaWeights> plain(const Problem& p, const DeviceCaps& d) {
  if (!computes(p.gemm, d)) return std::nullopt;
  return CudaWeights{.tile_n = 64, .tile_m = 16, .block_k = 128, .warps = 4, .stages = 3};
}

constexpr TypedFamily<CudaWeights, WeightsSizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = weights_sizes,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = cuda::weights_parameters,
    .predict_ns = cuda::weights_ns,
    .launch = launch,
    .tile =
        [](const Problem&, const CudaWeights& c, const WeightsSizes& w) {
          return Tile{c.tile_m, w.columns, c.block_k};
        },
    .summation = summation,
    .plain = plain,
    .offers = cuda::kOffers | kAnyGroups | taken({"gate", "amax_d"}) |
              Features{Feature::weights, Feature::indexed_rows, Feature::added_rows},
    .row_adder = &cuda::kRowAdder};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::weights
