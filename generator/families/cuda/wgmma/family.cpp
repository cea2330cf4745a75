// Family cuda_wgmma: axes and rules of templates/cuda/wgmma/wgmma.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/row_adder.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/problem/taken.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::wgmma {
namespace {

using cuda::wgmma_sizes;
using cuda::WgmmaSizes;

constexpr std::array<std::string_view, 52> kFiles{"cuda/common/abi.h",
                                                  "cuda/common/list_abi.h",
                                                  "cuda/common/list_chunk.h",
                                                  "cuda/common/types.h",
                                                  "cuda/common/indices.h",
                                                  "cuda/common/convert_ptx.h",
                                                  "cuda/common/convert.h",
                                                  "cuda/common/amax.h",
                                                  "cuda/common/epilogue.h",
                                                  "cuda/common/workspace.h",
                                                  "cuda/common/hopper_ptx.h",
                                                  "cuda/common/tensor_map_ptx.h",
                                                  "cuda/common/grid_ptx.h",
                                                  "cuda/common/unaligned.h",
                                                  "cuda/wgmma/pack.cu",
                                                  "cuda/wgmma/split.cu",
                                                  "cuda/wgmma/wgmma_ptx.h",
                                                  "cuda/wgmma/wgmma.h",
                                                  "cuda/wgmma/registers_ptx.h",
                                                  "cuda/wgmma/registers.h",
                                                  "cuda/common/hilbert.h",
                                                  "cuda/common/groups_ptx.h",
                                                  "cuda/common/group_args.h",
                                                  "cuda/common/groups.h",
                                                  "cuda/common/tile_scheduler.h",
                                                  "cuda/common/partials_ptx.h",
                                                  "cuda/common/partials.h",
                                                  "cuda/wgmma/tile.h",
                                                  "cuda/wgmma/ring.h",
                                                  "cuda/wgmma/tma_scales.h",
                                                  "cuda/wgmma/bring_ptx.h",
                                                  "cuda/wgmma/bring.h",
                                                  "cuda/wgmma/copy.h",
                                                  "cuda/wgmma/gather_ptx.h",
                                                  "cuda/wgmma/gather.h",
                                                  "cuda/wgmma/consumer.h",
                                                  "cuda/wgmma/edges.h",
                                                  "cuda/wgmma/scales_ptx.h",
                                                  "cuda/wgmma/scales.h",
                                                  "cuda/wgmma/wgmma.cu",
                                                  "cuda/common/swizzle.h",
                                                  "cuda/wgmma/store_ptx.h",
                                                  "cuda/wgmma/roll_ptx.h",
                                                  "cuda/wgmma/store.h",
                                                  "cuda/wgmma/quantise_ptx.h",
                                                  "cuda/wgmma/quantise.h",
                                                  "cuda/wgmma/combine_ptx.h",
                                                  "cuda/wgmma/combine.h",
                                                  "cuda/wgmma/reduce.h",
                                                  "cuda/wgmma/kernel.cu",
                                                  "cuda/common/add_rows.cu",
                                                  "cuda/common/take_list.cu"};

/// Operands that are not k-major: the instruction transposes 2-byte elements; 4-byte elements are
/// transposed on the way to registers, which feed the left side only.
bool may_run_across_k(DType t, bool left) { return size_of(t) == 2 || (left && size_of(t) == 4); }

/// Whether a batch's two factors of B lie as far apart as batches do from each other's, and a tile
/// has as many lines of either: a warpgroup's sums of both are a thread's own. Products of a list
/// have tensor maps of their own, which begin at multiples of 16 bytes where lines run along k.
bool factors_fit(const Problem& p, const CudaWgmma& c) {
  const Gemm& g = p.gemm;
  const bool stacked = !interleaved(g);
  const int rows = c.pingpong ? c.left : c.left / std::max(1, c.warpgroups);
  if (c.swap && rows % 128 != 0) return false;
  // Packing turns over what is not of 2 bytes.
  const bool across = !p.b_k_major && (!c.pack_b || size_of(g.b.dtype) == 2);
  if (across)
    return !lists_products(g) && size_of(g.b.dtype) == 2 && stacked && g.batch == 1 &&
           g.n % 8 == 0 && (c.swap || c.right % 128 == 0);
  if (!c.swap && c.right % 16 != 0) return false;
  return g.batch == 1 || lists_products(g) ||
         (stacked && (c.pack_b || g.b.batch_stride == 2 * g.n * g.b.ld));
}

/// Whether fp32 may be multiplied in parts.
bool splits(const Gemm& g) { return g.numerics == Numerics::tensor; }

/// Whether two warpgroups promote the sums of one tile.
bool may_alternate(const CudaWgmma& c) {
  return c.promote && !c.halves && !c.pingpong && c.warpgroups == 2;
}

constexpr FirstRule<CudaWgmma> kFirst[] = {
    {"the device is sm_90a",
     [](const Problem&, const DeviceCaps& d, const CudaWgmma&) {
       return d.gpu.sm == 90 && d.gpu.arch_specific;
     }},
    {"wgmma has an instruction for the types; m, n, k are at least 1, B is not packed",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       const Gemm& g = p.gemm;
       const auto known = [&](DType t) { return c.halves || !cuda::wgmma_type(t).empty(); };
       return known(g.a.dtype) && known(g.b.dtype) && g.m >= 1 && g.n >= 1 && g.k >= 1 &&
              !g.b_packed;
     }},
    {"halves=1 needs numerics=tensor and pack_a=1, pack_b=1, promote=1, clip=0",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return !c.halves || (splits(p.gemm) && c.pack_a && c.pack_b && c.promote && !c.clip);
     }},
    {"pack_a=0 needs an A that TMA can address",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return c.pack_a || (aligned_for_copies(p.gemm, Operand::a) &&
                           (p.a_k_major || may_run_across_k(p.gemm.a.dtype, !c.swap)));
     }},
    {"pack_b=0 needs a B that TMA can address",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return c.pack_b || (aligned_for_copies(p.gemm, Operand::b) &&
                           (p.b_k_major || may_run_across_k(p.gemm.b.dtype, c.swap)));
     }},
    {"left is a multiple of 64, right of 8 (of 16 above 32 for integers), both at most 256",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       const bool bytes = !is_floating(p.gemm.a.dtype);
       return c.right >= 8 && c.right <= 256 && c.right % (bytes && c.right > 32 ? 16 : 8) == 0 &&
              c.left >= 64 && c.left <= 256 && c.left % 64 == 0;
     }},
    {"scale_d: halves=0",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return p.gemm.d.q.scale == Scale::none || !c.halves;
     }},
    {"gate: halves=0", [](const Problem& p, const DeviceCaps&,
                          const CudaWgmma& c) { return !gated(p.gemm) || !c.halves; }},
    {"gate by an expression: paired=0",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return !gated_by_expression(p.gemm) || !c.paired;
     }},
    {"groups: sharing=tiles, halves=0, pack_a=0 (where rows of A are by index it or gather=1), "
     "pack_b=0, clip=0, and at most 4096 of them",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return !grouped(p.gemm) || (c.sharing == Sharing::tiles && !c.halves &&
                                   c.pack_a == (gathers(p.gemm) && !c.gather) && !c.pack_b &&
                                   !c.clip && p.gemm.batch <= cuda::kMostGroups);
     }},
    {"gather=1 needs rows of A by index, no scales of blocks, tiles of at most 128 rows of A (96 "
     "with warpgroups=3), and blocks of a cluster that share none",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       // The lanes that bring rows keep their numbers in registers.
       return !c.gather || (gathers(p.gemm) && !blocks_along_k(p.gemm.a.q.scale) &&
                            (c.swap ? c.right : c.left) <= (c.warpgroups == 3 ? 96 : 128) &&
                            (c.swap ? c.cluster_left : c.cluster_right) == 1);
     }},
    {"groups of k: both A and B are k-major, or neither is",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma&) {
       // Across k a group's lines are a stage's last ones, along k they lie where all of k has
       // them.
       return p.gemm.grouping() != Grouping::k || p.a_k_major == p.b_k_major;
     }},
    {"gate: B's factors, two matrices to TMA, are whole tiles' halves",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c) {
       return !gated(p.gemm) || factors_fit(p, c);
     }},
    {"warpgroups is 1 to 3 and divides left into multiples of 64; pingpong=1 needs warpgroups=2",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c) {
       if (c.pingpong) return c.warpgroups == 2;
       return c.warpgroups >= 1 && c.warpgroups <= 3 && c.left % (64 * c.warpgroups) == 0;
     }}};

constexpr Rule<CudaWgmma, WgmmaSizes> kRules[] = {
    {"accumulators, register operands and scales fit the registers",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       const int all = w.subtiles * w.accumulators;
       return sums_fit(w, c.halves    ? 3 * all
                          : w.in_turn ? all + w.accumulators
                          : c.promote ? 2 * all
                                      : all);
     }},
    {"gate of a list: 64 left rows a warpgroup, or swap=1 and right at most 128",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       // What a product's D needs in registers beside more sums: 120 to 1528 bytes were spilled.
       return !gated(p.gemm) || !lists_products(p.gemm) || w.subtiles == 1 ||
              (c.swap && w.subtiles * w.accumulators <= 128);
     }},
    {"scale_d=1x128 or line of a list with swap=1: at most 128 sums a thread, promoted ones among "
     "them",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       // 176 spilled 484 bytes.
       return !is_output(p.gemm, Operand::scale_d) || !lists_products(p.gemm) || !c.swap ||
              (c.promote ? 2 : 1) * w.subtiles * w.accumulators <= 128;
     }},
    {"promote=1 needs 8-bit float operands or halves=1",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes&) {
       return !c.promote || c.halves || cuda::wgmma_type(p.gemm.a.dtype).starts_with('e');
     }},
    {"alternate=1 needs promote=1, halves=0, pingpong=0, warpgroups=2 and all of their sums at "
     "once",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return !c.alternate || (may_alternate(c) && !w.in_turn);
     }},
    {"promote=0 needs at most 15564 elements of k for one accumulator of 8-bit floats",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes&) {
       // Tensor cores truncate such accumulators to about 13 bits, towards zero. The loss grows by
       // about sqrt(k) / 2^17.5 of sum |a||b|: what verification grants (reference.cpp of the
       // tuner) is no more than twice that of k = 2^14.
       constexpr double kLongest = 0x1p14 * 0.95;
       const bool truncated = size_of(p.gemm.a.dtype) == 1 && p.gemm.accumulator == DType::fp32;
       return c.promote || !truncated || double(p.gemm.k) / std::max(1, c.splits) <= kLongest;
     }},
    {"promote=0 of 8-bit floats needs numerics=fast",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes&) {
       return c.promote || !cuda::wgmma_type(p.gemm.a.dtype).starts_with('e') ||
              p.gemm.numerics == Numerics::fast;
     }},
    {"tma_scales=1 needs swap=0, sharing=tiles, and scales that TMA can address: 1x128:128x128, "
     "align=16 and four, eight, twelve ... of them along k (and m, where a block's lie side by "
     "side, and no groups of rows then); no gate, no groups of k",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes&) {
       return !c.tma_scales ||
              (cuda::scales_may_be_copied(p.gemm) && !c.swap && c.sharing == Sharing::tiles);
     }},
    {"bring=1 needs sharing=tiles, gather=0 and one to three matrices of D's shape that the "
     "epilogue reads, whose lines begin at multiples of 16 bytes and of which a place of the ring "
     "holds some turns of a tile; no lists, no scales of blocks, no columns beside groups of rows",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return !c.bring || cuda::may_bring(p.gemm, c, w);
     }},
    {"scale_order: fewer than 2^31 scales of either operand",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma&, const WgmmaSizes&) {
       constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
       return !orders_scales(p.gemm) ||
              (span(p.gemm, Operand::scale_a) <= kMost && span(p.gemm, Operand::scale_b) <= kMost);
     }},
    {"cluster_left*cluster_right is 1 or 2, and right a multiple of 8*cluster_left",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes&) {
       // Four blocks do not fit all groups of SMs, nor do 32 clusters of four fit at once: at
       // 5000³ squares took 1.7 times the time of pairs (H200).
       const int blocks = c.cluster_left * c.cluster_right;
       const bool known = blocks == 1 || (blocks == 2 && c.cluster_left >= 1);
       return known && c.right % (8 * c.cluster_left) == 0;
     }},
    {"stages is 2 to 64, and stages fit shared memory",
     [](const Problem&, const DeviceCaps& d, const CudaWgmma& c, const WgmmaSizes& w) {
       return c.stages >= 2 && c.stages <= 64 && w.shared_bytes <= d.gpu.shared_block_bytes;
     }},
    {"splits is 2 to 128 and at most the stages of k with sharing=split or summed, otherwise 1",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return cuda::splits_fit(c.sharing, c.splits, w);
     }},
    {"clip=1 needs an operand that is k-major",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return !c.clip || w.clip_left || w.clip_right;
     }},
    {"paired=1 needs swap=0, no sharing=summed, and a D of 2-byte elements that TMA cannot "
     "store",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return !c.paired || (!c.swap && w.pairable);
     }},
    {"the counters of split-K and stream-K fit 64 KiB",
     [](const Problem&, const DeviceCaps&, const CudaWgmma&, const WgmmaSizes& w) {
       return cuda::counters_fit(w);
     }},
    {"scale_d: 1x128 needs a tile of D with whole blocks of 128 columns (or, with swap=0, "
     "cluster_right=2, sharing=tiles, two tiles that have them), line one of all columns; not "
     "sharing=summed, and sharing=tiles, pingpong=0 where warpgroups share a block",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return cuda::scales_of_d_fit(p.gemm, c, w);
     }},
    {"group is 1 to 64", [](const Problem&, const DeviceCaps&, const CudaWgmma& c,
                            const WgmmaSizes&) { return c.group >= 1 && c.group <= 64; }},
    {"along=hilbert needs a group that is a power of two",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes&) {
       return c.along != Along::hilbert || std::has_single_bit(static_cast<unsigned>(c.group));
     }},
    {"stream-K shares of k fit 31 bits",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       return cuda::stream_fits(c.sharing, w);
     }},
    {"tile numbers and stages of all splits fit 31 bits",
     [](const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
       const std::int64_t across = c.along == Along::right ? w.tiles_left : w.tiles_right;
       return w.tiles * c.splits < std::int64_t{1} << 30 &&
              w.tiles * w.cluster * c.left * c.right < std::int64_t{1} << 37 &&
              cuda::band_fits(c.group, across) &&
              std::int64_t{w.stages_of_k} * (c.splits + 1) < std::int64_t{1} << 31;
     }},
    {"packed operands are less than 32 GiB, each of their lines less than 4 GiB",
     [](const Problem&, const DeviceCaps&, const CudaWgmma&, const WgmmaSizes& w) {
       const std::int64_t most = (std::int64_t{1} << 31) * 16;
       const auto fits = [&](const WgmmaSizes::Side& s) {
         return s.packed.bytes < most && s.packed.pitch < std::int64_t{1} << 32;
       };
       return fits(w.left) && fits(w.right);
     }},
    {"m, n, k and batch fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const CudaWgmma&, const WgmmaSizes& w) {
       const std::int64_t most = std::int64_t{1} << 31;
       return p.gemm.m < most - 512 && p.gemm.n < most - 512 && p.gemm.k < most - 512 &&
              p.gemm.batch * w.parts < most;
     }}};

/// A tile and who multiplies it.
struct Shape {
  int left, right, warpgroups;
  bool pingpong;
};

std::vector<Shape> shapes(bool gate) {
  std::vector<Shape> all;
  for (int right : {8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256}) {
    all.push_back({64, right, 1, false});
    all.push_back({128, right, 2, false});
    // Both factors' 64 lines in one warpgroup, where B is the left operand.
    if (gate && right <= 128) all.push_back({128, right, 1, false});
    if (right >= 64) all.push_back({64, right, 2, true});
    if (right >= 64 && right <= 208) all.push_back({128, right, 2, true});
    if (right >= 64 && right <= 208) all.push_back({256, right, 2, false});
    if (right >= 96 && right <= 192) all.push_back({192, right, 3, false});
  }
  return all;
}

constexpr std::pair<Along, int> kGroups[] = {
    {Along::left, 8}, {Along::left, 16}, {Along::right, 8}};
/// Squares of a curve: the largest that the grid holds.
constexpr int kSquares[] = {16, 8, 4};

/// The orders of tiles worth trying: one where they are a line, a curve only where not all of them
/// run at once.
std::vector<std::pair<Along, int>> orders(const Problem& p, const DeviceCaps& d, const CudaWgmma& c,
                                          bool walks) {
  if (!walks) return {kGroups[0]};
  std::vector<std::pair<Along, int>> all(std::begin(kGroups), std::end(kGroups));
  const auto w = wgmma_sizes(p, d, c);
  const auto fits = [&](int side) { return std::min(w.tiles_left, w.tiles_right) >= side; };
  const auto* const side = std::find_if(std::begin(kSquares), std::end(kSquares), fits);
  if (side != std::end(kSquares) && w.tiles > w.clusters) all.emplace_back(Along::hilbert, *side);
  return all;
}

/// As many stages as shared memory holds, k has use for, and the ring's bookkeeping stays small.
int most_stages(const Problem& p, const DeviceCaps& d, CudaWgmma c) {
  const auto shared = [&](int stages) {
    c.stages = stages;
    return wgmma_sizes(p, d, c).shared_bytes;
  };
  // Four stages more cost the same whatever their number.
  const std::int64_t none = shared(0), four = shared(4) - none;
  const std::int64_t fit = (d.gpu.shared_block_bytes - none) * 4 / four;
  auto most = static_cast<int>(std::min<std::int64_t>(fit, 16));
  // Places of copied scales come by fours.
  while (c.tma_scales && most >= 2 && shared(most) > d.gpu.shared_block_bytes) --most;
  return most;
}

void visit_sharings(const Problem& p, const DeviceCaps& d, CudaWgmma c,
                    const std::function<void(const Config&)>& visit) {
  c.sharing = Sharing::tiles;
  c.splits = 1;
  visit(c);
  if (cuda::may_bring(p.gemm, c, wgmma_sizes(p, d, c))) {
    CudaWgmma bringing = c;
    bringing.bring = true;
    bringing.stages = most_stages(p, d, bringing);
    if (bringing.stages >= 2) visit(bringing);
  }
  if (cuda::scales_may_be_copied(p.gemm) && !c.swap) {
    CudaWgmma copied = c;
    copied.tma_scales = true;
    copied.stages = most_stages(p, d, copied);
    if (copied.stages >= 2) visit(copied);
  }
  if (grouped(p.gemm)) return;
  const auto w = wgmma_sizes(p, d, c);
  const std::int64_t room = std::max(1, d.compute_units / w.cluster);
  if (w.tiles % room != 0 && w.stages_of_k >= 4 && w.tiles < 8 * room) {
    c.sharing = Sharing::stream;
    visit(c);
  }
  c.sharing = Sharing::split;
  for (const int splits : {2, 3, 4, 5, 6, 8, 11, 12, 16, 24, 32}) {
    if (w.tiles * splits > 3 * room || splits * 4 > w.stages_of_k) continue;
    c.splits = splits;
    visit(c);
  }
  // What another launch adds has its own way out.
  if (c.paired) return;
  // The reduction is no longer one block's work, so only a full device limits the number of splits.
  c.sharing = Sharing::summed;
  const auto filled = static_cast<int>(room / std::max<std::int64_t>(1, w.tiles));
  for (const int splits : std::set<int>{2, 4, 8, 16, 32, 64, filled}) {
    if (splits < 2 || splits > kMostSplits || w.tiles * splits > room) continue;
    if (splits * 2 > w.stages_of_k) continue;
    c.splits = splits;
    visit(c);
  }
}

/// Whether a thirtieth or more of the rows that tiles copy do not exist.
bool overhangs(const WgmmaSizes::Side& side, int tile) {
  const std::int64_t copied = round_up(side.rows, tile);
  return !side.across_k && !side.factors && (copied - side.rows) * 30 >= copied;
}

/// All orders and sharings of a config's tiles, with as many stages as there is room for.
void visit_orders(const Problem& p, const DeviceCaps& d, CudaWgmma c, bool walks,
                  const std::function<void(const Config&)>& visit) {
  const int most = most_stages(p, d, c);
  if (most < 2) return;
  c.stages = most;
  const auto w = wgmma_sizes(p, d, c);
  if (!c.clip && !c.halves && !grouped(p.gemm) &&
      (overhangs(w.left, c.left) || overhangs(w.right, c.right))) {
    CudaWgmma clipped = c;
    clipped.clip = true;
    visit_orders(p, d, clipped, walks, visit);
  }
  for (const auto& [along, group] : orders(p, d, c, walks)) {
    c.along = along;
    c.group = group;
    const bool small_floats = cuda::wgmma_type(p.gemm.a.dtype).starts_with('e');
    const bool may = c.halves || small_floats;
    const bool must = c.halves || (small_floats && p.gemm.numerics != Numerics::fast);
    for (const bool promote : {false, true}) {
      if (promote ? !may : must) continue;
      c.promote = promote;
      for (const bool alternate : {false, true}) {
        if (alternate && !may_alternate(c)) continue;
        c.alternate = alternate;
        visit_sharings(p, d, c, visit);
      }
    }
  }
}

/// All tiles, clusters, orders and sharings of a config's operands.
void visit_tiles(const Problem& p, const DeviceCaps& d, CudaWgmma c,
                 const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  const std::int64_t n = g.columns_of_b();
  for (const auto& s : shapes(gated(g))) {
    const std::int64_t right_rows = c.swap ? g.m : n, left_rows = c.swap ? n : g.m;
    // A tile much wider than the problem computes nothing but zeros.
    if (s.right >= 16 && s.right / 2 >= right_rows && s.right > 16) continue;
    if (s.left >= 128 && s.left / 2 >= left_rows) continue;
    for (const auto& [cl, cr] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
      if ((cl > 1 && left_rows <= s.left) || (cr > 1 && right_rows <= s.right)) continue;
      c.left = s.left;
      c.right = s.right;
      c.warpgroups = s.warpgroups;
      c.pingpong = s.pingpong;
      c.cluster_left = cl;
      c.cluster_right = cr;
      c.keep_right = right_rows <= 128 && left_rows > 1024;
      const bool walks = left_rows > s.left && right_rows > s.right;
      c.paired = false;
      visit_orders(p, d, c, walks, visit);
      if (c.swap || !wgmma_sizes(p, d, c).pairable) continue;
      c.paired = true;
      visit_orders(p, d, c, walks, visit);
    }
  }
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  if (d.gpu.sm != 90 || g.m < 1 || g.n < 1 || g.k < 1) return;
  if (splits(g))
    for (const bool swap : {false, true})
      visit_tiles(p, d,
                  {.swap = swap, .pack_a = true, .pack_b = true, .promote = true, .halves = true},
                  visit);
  if (cuda::wgmma_type(g.a.dtype).empty()) return;
  const auto must_pack = [&](Operand which, bool k_major, bool left) {
    return !aligned_for_copies(g, which) ||
           (!k_major && !may_run_across_k(dtype_of(g, which), left));
  };
  for (const bool swap : {false, true}) {
    // Rows that are by index are copied by warps, or put in order for the copy engine first.
    const bool pack_a = gathers(g) || must_pack(Operand::a, p.a_k_major, !swap);
    const bool pack_b = must_pack(Operand::b, p.b_k_major, swap);
    visit_tiles(p, d, {.swap = swap, .pack_a = pack_a, .pack_b = pack_b}, visit);
    if (gathers(g) && !must_pack(Operand::a, p.a_k_major, !swap) && !blocks_along_k(g.a.q.scale))
      visit_tiles(p, d, {.swap = swap, .pack_b = pack_b, .gather = true}, visit);
    // What comes from registers may also be packed, k-major, first.
    const bool left_across = swap ? !p.b_k_major : !p.a_k_major;
    if (size_of(g.a.dtype) != 4 || !left_across || (swap ? pack_b : pack_a)) continue;
    visit_tiles(p, d, {.swap = swap, .pack_a = pack_a || !swap, .pack_b = pack_b || swap}, visit);
  }
}

/// The instruction's k is 32 bytes for all types. Accumulators of 8-bit floats are added in fp32
/// after each stage with promote=1. Parts of split-K end with stages; the block that comes last
/// adds them in the order of k, a launch of its own every eighth part first. Which operand is the
/// left one changes no product, but which low parts of halves come first. Where stream-K divides k
/// follows from the number of tiles.
std::string summation(const Problem&, const DeviceCaps&, const CudaWgmma& c, const WgmmaSizes& w) {
  const std::string chain =
      c.halves    ? fmt::format("wgmma chain of halves, {}'s low ones first, each {} k added",
                             c.swap ? 'B' : 'A', w.depth)
      : c.promote ? fmt::format("wgmma chain, each {} k added", w.depth)
                  : "wgmma chain";
  switch (c.sharing) {
    case Sharing::tiles:
      return chain;
    case Sharing::split:
      return fmt::format("{} parts of {} k, each {}", c.splits, w.depth, chain);
    case Sharing::summed:
      return fmt::format("{} parts of {} k by eights, each {}", c.splits, w.depth, chain);
    case Sharing::stream:
      return {};
  }
  return {};
}

/// 8-bit floats are promoted: any k allows that. What TMA may not be able to address is packed.
/// Both factors of 128 columns of D are 256 lines of B, whose sums fit the registers as the left
/// operand.
std::optional<CudaWgmma> plain(const Problem& p, const DeviceCaps&) {
  const Gemm& g = p.gemm;
  const bool wide = gated(g) && g.d.q.scale == Scale::line_128;
  return CudaWgmma{.left = wide ? 256 : 128,
                   .right = 128,
                   .stages = splits(g) || wide ? 3 : 4,  // a stage may hold both parts
                   .warpgroups = 2,
                   .swap = wide,
                   .pack_a = true,
                   .pack_b = true,
                   .promote = splits(g) || cuda::wgmma_type(g.a.dtype).starts_with('e'),
                   .halves = splits(g)};
}

constexpr TypedFamily<CudaWgmma, WgmmaSizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = wgmma_sizes,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = cuda::wgmma_parameters,
    .predict_ns = cuda::wgmma_ns,
    .launch = cuda::wgmma_launch,
    .tile =
        [](const Problem&, const CudaWgmma& c, const WgmmaSizes& w) {
          const std::int64_t left = std::int64_t{c.left} * c.cluster_left;
          const std::int64_t right = std::int64_t{c.right} * c.cluster_right;
          const std::int64_t of_d = w.left.factors || w.right.factors ? 2 : 1;
          return c.swap ? Tile{right, left / of_d, w.depth} : Tile{left, right / of_d, w.depth};
        },
    .summation = summation,
    .plain = plain,
    .ragged =
        [](const CudaWgmma& c) {
          CudaWgmma clipped = c;
          clipped.clip = true;
          return clipped;
        },
    .offers =
        cuda::kOffers | kAnyGroups | taken({"gate", "amax_d"}) |
        Features{Feature::scales_of_integers, Feature::scales_of_lines, Feature::scales_of_blocks,
                 Feature::scale_orders, Feature::lists, Feature::indexed_rows, Feature::added_rows,
                 Feature::scale_of_d, Feature::scales_of_d},
    .together = [](const Problem& p, const CudaWgmma& c,
                   const WgmmaSizes& w) { return cuda::wgmma_together(p.gemm, c, w); },
    .row_adder = &cuda::kRowAdder,
    .holds_pairs = true,
    .keeps_in_d = true};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::wgmma
