// Family cuda_wgmma_weights: axes and rules of templates/cuda/wgmma_weights/multiply.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/row_adder.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/cuda/wgmma_weights/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/groups.h"
#include "generator/problem/spelling.h"
#include "generator/problem/taken.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::wgmma_weights {
namespace {

using cuda::wgmma_weights_sizes;
using cuda::WgmmaWeightsSizes;

constexpr std::array<std::string_view, 35> kFiles{"cuda/common/abi.h",
                                                  "cuda/common/types.h",
                                                  "cuda/common/convert_ptx.h",
                                                  "cuda/common/convert.h",
                                                  "cuda/common/epilogue.h",
                                                  "cuda/common/workspace.h",
                                                  "cuda/common/hopper_ptx.h",
                                                  "cuda/common/grid_ptx.h",
                                                  "cuda/wgmma/wgmma_ptx.h",
                                                  "cuda/wgmma/wgmma.h",
                                                  "cuda/wgmma/registers_ptx.h",
                                                  "cuda/common/swizzle.h",
                                                  "cuda/weights/decode_ptx.h",
                                                  "cuda/weights/decode.h",
                                                  "cuda/weights/scaling.h",
                                                  "cuda/wgmma_weights/read_ptx.h",
                                                  "cuda/wgmma_weights/fragment.h",
                                                  "cuda/common/groups_ptx.h",
                                                  "cuda/common/group_args.h",
                                                  "cuda/common/groups.h",
                                                  "cuda/common/tile_scheduler.h",
                                                  "cuda/common/partials_ptx.h",
                                                  "cuda/common/partials.h",
                                                  "cuda/wgmma/tile.h",
                                                  "cuda/wgmma/ring.h",
                                                  "cuda/wgmma/consumer.h",
                                                  "cuda/wgmma_weights/multiply.cu",
                                                  "cuda/wgmma/store_ptx.h",
                                                  "cuda/wgmma/roll_ptx.h",
                                                  "cuda/wgmma/store.h",
                                                  "cuda/wgmma/combine_ptx.h",
                                                  "cuda/wgmma/combine.h",
                                                  "cuda/wgmma/reduce.h",
                                                  "cuda/wgmma/kernel.cu",
                                                  "cuda/common/add_rows.cu"};

bool computes(const Gemm& g, const DeviceCaps& d) {
  return has_weights(g) && d.gpu.sm == 90 && d.gpu.arch_specific && g.m >= 1 && g.n >= 1 &&
         g.k >= 1;
}

bool may_round(const Gemm& g, const DeviceCaps& d) {
  return g.numerics == Numerics::fast && rounds_weights(g, d);
}

constexpr FirstRule<CudaWgmmaWeights> kFirst[] = {
    {"B holds weights, the device is sm_90a, m, n and k are at least 1",
     [](const Problem& p, const DeviceCaps& d, const CudaWgmmaWeights&) {
       return computes(p.gemm, d);
     }},
    {"tile_m is a multiple of 8 up to 256, warpgroups 1 to 3, block_k 64, 128 or 256, stages 2 to "
     "64, group 1 to 64, turn 0, 2 or 4",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights& c) {
       return c.tile_m >= 8 && c.tile_m <= 256 && c.tile_m % 8 == 0 && c.warpgroups >= 1 &&
              c.warpgroups <= 3 && (c.block_k == 64 || c.block_k == 128 || c.block_k == 256) &&
              c.stages >= 2 && c.stages <= 64 && c.group >= 1 && c.group <= 64 &&
              (c.turn == 0 || c.turn == 2 || c.turn == 4);
     }}};

constexpr Rule<CudaWgmmaWeights, WgmmaWeightsSizes> kRules[] = {
    {"A and B are k-major, B is not packed",
     [](const Problem& p, const DeviceCaps&, const CudaWgmmaWeights&, const WgmmaWeightsSizes&) {
       return p.a_k_major && p.b_k_major && !p.gemm.b_packed;
     }},
    {"TMA can address A and B: 16-byte aligned addresses, pitches and batch strides",
     [](const Problem& p, const DeviceCaps&, const CudaWgmmaWeights&, const WgmmaWeightsSizes&) {
       return aligned_for_copies(p.gemm, Operand::a) && aligned_for_copies(p.gemm, Operand::b);
     }},
    {"gate: a batch's two factors lie as far apart as batches do from each other's",
     [](const Problem& p, const DeviceCaps&, const CudaWgmmaWeights&, const WgmmaWeightsSizes&) {
       const Gemm& g = p.gemm;
       return !gated(g) || g.batch == 1 ||
              (!interleaved(g) && g.b.batch_stride == 2 * g.n * g.b.ld);
     }},
    {"groups: sharing=tiles, and at most 4096 of them",
     [](const Problem& p, const DeviceCaps&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes&) {
       return !grouped(p.gemm) ||
              (c.sharing == Sharing::tiles && p.gemm.batch <= cuda::kMostGroups);
     }},
    {"round_weights=1 needs numerics=fast, groups along k and, beside an A of fp16, scales of fp16",
     [](const Problem& p, const DeviceCaps& d, const CudaWgmmaWeights& c,
        const WgmmaWeightsSizes&) { return !c.round_weights || may_round(p.gemm, d); }},
    {"zero points are integers, or there are none, or round_weights=1",
     [](const Problem& p, const DeviceCaps&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes&) {
       return p.gemm.b.q.zero != Zero::floating || c.round_weights;
     }},
    {"a turn is of one stage, or round_weights=1 and there are more stages",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes&) {
       // The next turn's first codes are read before the last stage of this one is free.
       return c.turn == 0 || (c.round_weights && c.stages > c.turn);
     }},
    {"a turn holds whole groups, a stage at most 128 bytes of a column's codes",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
       return (w.along == 0 || c.block_k * c.stages_of_turn() % w.along == 0) &&
              w.code_pitch <= 128;
     }},
    {"accumulators and numbers fit the registers",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights&, const WgmmaWeightsSizes& w) {
       // Where the kernel starts with 128 registers a thread, the assembler gives up on
       // instructions that alone need as many.
       const auto& registers = w.wgmma.registers;
       return w.registers <= registers.multiply &&
              (registers.launch > 128 || w.wgmma.accumulators <= 64);
     }},
    {"stages fit shared memory",
     [](const Problem&, const DeviceCaps& d, const CudaWgmmaWeights&, const WgmmaWeightsSizes& w) {
       return w.wgmma.shared_bytes <= d.gpu.shared_block_bytes;
     }},
    {"splits is 2 to 128 and at most the stages of k with sharing=split or summed, otherwise 1",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
       return cuda::splits_fit(c.sharing, c.splits, w.wgmma);
     }},
    {"the counters of split-K and stream-K fit 64 KiB",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights&, const WgmmaWeightsSizes& w) {
       return cuda::counters_fit(w.wgmma);
     }},
    {"stream-K shares of k fit 31 bits",
     [](const Problem&, const DeviceCaps&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
       return cuda::stream_fits(c.sharing, w.wgmma);
     }},
    {"tile numbers, stages of all splits, scales, m, n, k and batch fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const CudaWgmmaWeights& c,
        const WgmmaWeightsSizes& w) {
       const Gemm& g = p.gemm;
       const std::int64_t most = std::int64_t{1} << 31;
       const std::int64_t groups = w.along == 0 ? 1 : g.k / w.along;
       return w.wgmma.tiles * c.splits < most / 2 &&
              w.wgmma.tiles * c.tile_m * w.wgmma_config.left < std::int64_t{1} << 37 &&
              w.wgmma.stages_of_k * (c.splits + 1) < most &&
              cuda::band_fits(c.group, w.wgmma.tiles_right) && g.m < most - 512 &&
              g.n < most - 512 && g.k < most - 512 && g.batch < most &&
              double(g.batch) * double(g.columns_of_b()) * double(groups) < double(most);
     }}};

void visit_sharings(const Problem& p, const DeviceCaps& d, CudaWgmmaWeights c,
                    const std::function<void(const Config&)>& visit) {
  visit(c);
  if (grouped(p.gemm)) return;
  const auto w = wgmma_weights_sizes(p, d, c).wgmma;
  const std::int64_t room = std::max(1, d.compute_units);
  if (w.tiles % room != 0 && w.stages_of_k >= 4 && w.tiles < 8 * room) {
    c.sharing = Sharing::stream;
    visit(c);
  }
  for (const Sharing sharing : {Sharing::split, Sharing::summed}) {
    c.sharing = sharing;
    const auto filled = static_cast<int>(std::min<std::int64_t>(room / w.tiles, kMostSplits));
    for (const int splits : std::set<int>{2, 3, 4, 6, 8, 12, 16, filled}) {
      if (splits < 2 || w.tiles * splits > 2 * room || splits * 2 > w.stages_of_k) continue;
      c.splits = splits;
      visit(c);
    }
  }
}

/// As many stages as shared memory holds, k has use for, and the ring's bookkeeping stays small.
void visit_stages(const Problem& p, const DeviceCaps& d, CudaWgmmaWeights c,
                  const std::function<void(const Config&)>& visit) {
  for (const int block_k : {64, 128, 256}) {
    c.block_k = block_k;
    // Two stages of 64 k have the turn of one of 128, and are refilled one after the other.
    c.turn = c.round_weights && block_k == 64 ? 2 : 0;
    c.stages = 0;
    const auto w = wgmma_weights_sizes(p, d, c).wgmma;
    const std::int64_t fit = (d.gpu.shared_block_bytes - w.shared_bytes) / (w.stage_bytes + 16);
    c.stages = static_cast<int>(std::min<std::int64_t>(fit, 16));
    if (c.stages <= c.stages_of_turn()) break;
    visit_sharings(p, d, c, visit);
  }
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  if (!computes(g, d)) return;
  for (const int tile_m : {8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256}) {
    // A tile much wider than the problem computes nothing but zeros.
    if (tile_m > 16 && tile_m / 2 >= g.m) continue;
    for (const int warpgroups : {1, 2, 3}) {
      if (warpgroups > 1 && 32 * warpgroups >= g.n) continue;
      for (const int group : {8, 16}) {
        if (group == 16 && (g.m <= tile_m * 8 || g.n <= std::int64_t{512} * warpgroups)) continue;
        CudaWgmmaWeights c{.tile_m = tile_m, .warpgroups = warpgroups, .group = group};
        visit_stages(p, d, c, visit);
        c.round_weights = true;
        if (may_round(g, d)) visit_stages(p, d, c, visit);
      }
    }
  }
}

/// The sum of a group, or of a whole column, is scaled, then added, or weights are rounded first.
/// Parts of split-K end with stages; a launch of its own adds every eighth part first.
std::string summation(const Problem& p, const DeviceCaps&, const CudaWgmmaWeights& c,
                      const WgmmaWeightsSizes& w) {
  if (c.sharing == Sharing::stream) return {};
  const std::string all =
      c.round_weights ? fmt::format("wgmma k16 chain of weights as {}", name(p.gemm.a.dtype))
      : w.along == 0  ? "wgmma k16 chain, scaled"
                      : fmt::format("groups of {}, each wgmma k16 chain, scaled", w.along);
  if (c.sharing == Sharing::tiles) return all;
  return fmt::format("{} parts of {} k{}, each {}", c.splits, c.block_k * c.stages_of_turn(),
                     c.sharing == Sharing::summed ? " by eights" : "", all);
}

constexpr TypedFamily<CudaWgmmaWeights, WgmmaWeightsSizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = wgmma_weights_sizes,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = cuda::wgmma_weights_parameters,
    .predict_ns = cuda::wgmma_weights_ns,
    .launch = cuda::wgmma_weights_launch,
    .tile =
        [](const Problem&, const CudaWgmmaWeights& c, const WgmmaWeightsSizes&) {
          return Tile{c.tile_m, 64 * c.warpgroups, c.block_k * c.stages_of_turn()};
        },
    .summation = summation,
    .offers = cuda::kOffers |
              Features{Feature::weights, Feature::groups_of_rows, Feature::masked_groups,
                       Feature::added_rows} |
              taken({"gate"}),
    .together =
        [](const Problem&, const CudaWgmmaWeights&, const WgmmaWeightsSizes& w) {
          return cuda::wgmma_together(w.numbers.gemm, w.wgmma_config, w.wgmma);
        },
    .row_adder = &cuda::kRowAdder};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::wgmma_weights
