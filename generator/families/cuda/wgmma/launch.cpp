// How a config of cuda_wgmma is launched: tensor maps, and the steps that pack, multiply and add.
#include <algorithm>
#include <utility>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"

namespace kiln::cuda {
namespace {

enum class BoxEnd : std::uint8_t { with_tile, with_rows };

/// Both factors of B, one behind the other as batches are; a box holds lines of one of them.
void see_factors(MapLines& lines, const WgmmaSizes& w, const WgmmaSizes::Side& s, const Gemm& g,
                 const CudaWgmma& c) {
  const bool stacked = !interleaved(g);
  lines.batch *= 2;
  if (s.across_k) {
    lines.length = g.n;
    lines.stride = g.n * size_of(s.type);
    lines.box_lines = w.depth;
    return;
  }
  lines.lines = g.n;
  lines.stride = stacked ? g.n * lines.pitch : lines.pitch;
  if (!stacked) lines.pitch *= 2;
  lines.box_lines = (c.swap ? w.warpgroup_rows : c.right) / 2;
}

/// The second dimension becomes a box's lines, the third all of k, as the copies of
/// templates/cuda/wgmma/copy.h want them that end with a group. The map begins where the operand
/// does: a box wholly outside of a map makes the copy engine ask for the map's first address, which
/// must exist (H100: an illegal address where it lay before the operand).
void end_with_groups(MapLines& lines) {
  lines.batch = lines.lines;
  lines.stride = lines.pitch;
  lines.lines = lines.box_lines;
}

/// Of a list's products: the largest one's, at the beginning of the workspace. kiln_take_list makes
/// each product's own of it.
TensorMapSpec map_of(const WgmmaSizes& w, const WgmmaSizes::Side& s, const Gemm& g,
                     const CudaWgmma& c, int tile, int sharers, BoxEnd end = BoxEnd::with_tile) {
  const std::int64_t size = size_of(s.type);
  MapLines lines{.operand = s.operand,
                 .offset = s.packed.offset,
                 .type = s.type,
                 .batch = (s.batch_stride == 0 ? 1 : g.batch) * w.parts,
                 .pitch = s.pack              ? s.packed.pitch
                          : lists_products(g) ? round_up(s.ld * size, 16)
                                              : s.ld * size,
                 .stride = s.pack ? s.packed.stride : s.batch_stride * size};
  lines.length = s.across_k ? s.rows : g.k;
  lines.lines = s.across_k ? g.k : s.rows;
  lines.box_length = s.across_k ? static_cast<int>(128 / size) : w.depth;
  lines.box_lines = (s.across_k ? w.depth : tile) / sharers;
  // The last block's share of the rows.
  if (const std::int64_t rest = s.rows % lines.box_lines; rest != 0 && end == BoxEnd::with_rows)
    lines.box_lines = static_cast<int>(rest);
  if (s.factors) see_factors(lines, w, s, g, c);
  if (g.grouping() == Grouping::k && s.across_k) end_with_groups(lines);
  return tensor_map(lines);
}

/// With groups of rows the second dimension is a box's rows, the third all of D's, as store_rows()
/// of templates/cuda/wgmma/store.h wants them.
TensorMapSpec map_of_d(const WgmmaSizes& w, const Gemm& g, const CudaWgmma& c) {
  const std::int64_t size = size_of(g.d.dtype), pitch = g.d.ld * size;
  const int rows = c.swap ? w.chunk : 16;
  MapLines lines{.operand = MapOperand::d,
                 .offset = 0,
                 .type = g.d.dtype,
                 .length = g.n,
                 .lines = g.m,
                 .batch = g.batch,
                 .pitch = pitch,
                 .stride = g.d.batch_stride * size,
                 .box_length = c.swap ? 16 : w.chunk,
                 .box_lines = rows};
  if (grouped(g) && g.grouping() != Grouping::k) {
    lines.offset = -rows * pitch;
    lines.lines = rows;
    // One more, where the last group ends.
    lines.batch = (g.batch - 1) * (g.d.batch_stride / g.d.ld) + g.m + 1;
    lines.stride = pitch;
  }
  return tensor_map(lines);
}

/// A's: for each row four stages' scales, or for each of four stages the rows'; B's: those of one
/// square of columns.
TensorMapSpec map_of_scales(const Gemm& g, const CudaWgmma& c, MapOperand which) {
  const bool a = which == MapOperand::scale_a;
  const Operand scales = a ? Operand::scale_a : Operand::scale_b;
  const Extent e = extent(g, scales);
  const std::int64_t pitch = leading_dimension(g, scales);
  MapLines lines{.operand = which,
                 .offset = 0,
                 .type = DType::fp32,
                 .length = e.length,
                 .lines = e.lines,
                 .batch = a && g.grouping() == Grouping::rows ? 1 : g.batch,
                 .pitch = pitch * 4,
                 .stride = e.lines * pitch * 4,
                 .box_length = 4,
                 .box_lines = a ? c.left : 1};
  if (order_of_scales(g, scales) != ScaleOrder::lines) std::swap(lines.box_length, lines.box_lines);
  return tensor_map(lines);
}

/// Of a matrix that an expression reads: boxes of bring.h.
TensorMapSpec map_of_brought(const WgmmaSizes& w, const Gemm& g, const CudaWgmma& c,
                             const BroughtMatrix& m) {
  const std::int64_t size = size_of(m.type);
  const int right = w.turns_of_part * 2 * w.held;  // of a part, which has 64 left rows
  const bool along_right = m.of_rows != c.swap;
  const int bytes = static_cast<int>(size) * (along_right ? right : 64);
  const int box = bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : bytes % 32 == 0 ? 32 : 16;
  MapLines lines{
      .operand = m.which == Operand::residual
                     ? MapOperand::residual
                     : static_cast<MapOperand>(static_cast<std::size_t>(MapOperand::extra) +
                                               index_of_extra(m.which)),
      .offset = 0,
      .type = m.type,
      .length = m.of_rows ? g.n : g.m,
      .lines = m.of_rows ? g.m : g.n,
      .batch = batch_stride(g, m.which) == 0 ? 1 : g.batch,
      .pitch = leading_dimension(g, m.which) * size,
      .stride = batch_stride(g, m.which) * size,
      .box_length = box / static_cast<int>(size),
      .box_lines = along_right ? 64 : right};
  return tensor_map(lines);
}

/// Blocks cover an operand that is copied as it is; one that is transposed is copied tile by tile,
/// several tiles a block.
GpuStep pack_step(const Problem& p, const DeviceCaps& d, const WgmmaSizes& w) {
  GpuStep step;
  step.entry = "kiln_pack";
  step.block.x = 256;
  std::int64_t blocks = 1;
  for (const auto* side : {&w.left, &w.right})
    if (side->pack)
      blocks = std::max(
          blocks, side->turned
                      ? std::min<std::int64_t>(4 * d.compute_units,
                                               ceil_div(side->rows * p.gemm.k, 4096) * p.gemm.batch)
                      : ceil_div(side->packed.bytes, 16 * 256));
  step.grid.x = static_cast<unsigned>(blocks);
  step.grid.y = w.left.pack && w.right.pack ? 2 : 1;
  step.overlaps_previous = true;
  return step;
}

/// A block for each row that runs along k, or for 16 that do not, a few a unit in turn.
GpuStep split_step(const Problem& p, const DeviceCaps& d, const WgmmaSizes& w) {
  GpuStep step;
  step.entry = "kiln_split";
  step.block.x = 256;
  const std::int64_t most = std::int64_t{32} * d.compute_units;
  std::int64_t blocks = 1;
  for (const auto* side : {&w.left, &w.right})
    blocks = std::max(blocks, ceil_div(side->rows, side->turned ? 16 : 1) * p.gemm.batch);
  step.grid.x = static_cast<unsigned>(std::min(blocks, most));
  step.grid.y = 2;
  step.overlaps_previous = true;
  return step;
}

/// Blocks that reduce the partials of 128 accumulators each, with a gate of 128 of either factor,
/// as templates/cuda/wgmma/reduce.h counts them.
GpuStep sum_step(const WgmmaSizes& w, const CudaWgmma& c, bool gate) {
  GpuStep step;
  step.entry = "kiln_sum";
  step.block.x = 256;
  step.grid.x = static_cast<unsigned>(w.tiles * w.cluster * c.left * c.right / (gate ? 256 : 128));
  step.overlaps_previous = true;
  return step;
}

}  // namespace

GpuLaunch wgmma_launch(const Problem& p, const DeviceCaps& d, const CudaWgmma& c,
                       const WgmmaSizes& w) {
  const Gemm& g = p.gemm;
  GpuLaunch out;
  out.workspace_bytes = w.workspace_bytes;
  out.zeroed_bytes = w.counter_bytes;
  out.maps = {map_of(w, w.left, g, c, c.left, c.cluster_right),
              map_of(w, w.right, g, c, c.right, c.cluster_left)};
  if (c.halves)
    out.steps.push_back(split_step(p, d, w));
  else if (c.pack_a || c.pack_b)
    out.steps.push_back(pack_step(p, d, w));
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.clusters * w.cluster);
  step.block.x = static_cast<unsigned>((c.warpgroups + 1) * 128);
  step.cluster.x = static_cast<unsigned>(w.cluster);
  step.dynamic_shared_bytes = static_cast<int>(w.shared_bytes);
  if (lists_products(g))
    out.entry_maps = 2;
  else
    step.maps = {0, 1};
  step.overlaps_previous = true;
  const auto add_map = [&](const TensorMapSpec& map) {
    step.maps.push_back(static_cast<int>(out.maps.size()));
    out.maps.push_back(map);
  };
  if (w.clip_left) add_map(map_of(w, w.left, g, c, c.left, c.cluster_right, BoxEnd::with_rows));
  if (w.clip_right) add_map(map_of(w, w.right, g, c, c.right, c.cluster_left, BoxEnd::with_rows));
  if (w.store == WgmmaSizes::Store::tma) add_map(map_of_d(w, g, c));
  if (c.tma_scales)
    for (const MapOperand which : {MapOperand::scale_a, MapOperand::scale_b})
      add_map(map_of_scales(g, c, which));
  if (c.bring)
    for (const BroughtMatrix& m : brought_matrices(g)) add_map(map_of_brought(w, g, c, m));
  out.steps.push_back(step);
  if (c.sharing == Sharing::summed) out.steps.push_back(sum_step(w, c, gated(g)));
  return out;
}

}  // namespace kiln::cuda
