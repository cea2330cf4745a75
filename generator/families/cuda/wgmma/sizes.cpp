#include "generator/families/cuda/wgmma/sizes.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "generator/expression/code.h"
#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"

namespace kiln::cuda {
namespace {

constexpr int kRowBytes = 128;  // of k in one stage: what one swizzle atom is wide

/// How many rows of the right operand one buffer of 2 KB takes: what divides the tile and, unless D
/// is computed transposed, makes rows that a swizzle exists for.
int chunk_of(const CudaWgmma& c, int right, int size) {
  const int most = 128 / size;
  if (c.swap) {
    for (int rows = most; rows >= 16; rows -= 16)
      if (right % rows == 0) return rows;
    return 8;
  }
  for (int columns = most; columns > 8; columns /= 2)
    if (right % columns == 0) return columns;
  return 8;
}

/// For how many rows of a tile one scale is enough, wherever the tile begins. A gate's factors are
/// n lines apart (stacked) or alternate (interleaved), so their rows share fewer.
int scale_share(const Gemm& g, bool is_a, const CudaWgmma& c) {
  const int lines = scale_block(is_a ? g.a.q.scale : g.b.q.scale).lines;
  if (lines == 1) return 1;
  const bool left = is_a != c.swap, factors = !is_a && gated(g);
  const int rows = std::gcd(lines, left ? 64 : factors ? c.right / 2 : c.right);
  if (!factors) return rows;
  // Products of a list are of any n, so their stacked factors are any number of lines apart.
  if (interleaved(g)) return std::gcd(lines / 2, rows);
  // A thread's columns of the right operand share one by eights or not at all.
  const std::int64_t apart = lists_products(g) ? 1 : g.n;
  const int share = static_cast<int>(std::gcd(std::int64_t{rows}, apart));
  return left || share >= 8 ? share : 1;
}

WgmmaSizes::Side side(const Problem& p, bool is_a, const CudaWgmma& c) {
  const Gemm& g = p.gemm;
  const Matrix& m = is_a ? g.a : g.b;
  const bool pack = is_a ? c.pack_a : c.pack_b;
  const bool k_major = is_a ? p.a_k_major : p.b_k_major;
  // What lies across k keeps its direction while it is packed, where the instruction can turn it.
  const bool turned = pack && !k_major && size_of(m.dtype) != 2;
  return {c.halves ? DType::fp16 : m.dtype,
          is_a ? g.m : g.columns_of_b(),
          !is_a && gated(g),
          !k_major && !turned,
          pack,
          turned,
          pack || lists_products(g) ? MapOperand::workspace
          : is_a                    ? MapOperand::a
                                    : MapOperand::b,
          m.ld,
          lists_products(g) ? 0 : m.batch_stride,
          scale_share(g, is_a, c),
          {}};
}

/// kScaleBytes of templates/cuda/wgmma/tile.h.
std::int64_t scale_bytes(const WgmmaSizes& w, const CudaWgmma& c) {
  const int of_lane = ceil_div(c.right, 16) + (ceil_div(c.right, 16) % 4 == 0 ? 1 : 0);
  const int share = w.right.scale_share;
  const int right = share == 1 ? 4 * 4 * of_lane : round_up(c.right / share, 4);
  return std::int64_t{round_up(right + c.left / w.left.scale_share, 4)} * 4;
}

/// kScaleBytes of templates/cuda/wgmma/tile.h where scales are copied.
std::int64_t copied_scale_bytes(const WgmmaSizes& w, const CudaWgmma& c) {
  return c.left * 16 + c.right / w.right.scale_share * 128;
}

/// With split-K, stream-K, groups of k or lists the producer thread has more to compute; so have
/// lanes that bring rows by index, of which they keep eleven in a tile of 128, or the scales of
/// both factors of a gate. Where D has none, tiles from 256 x 96 on spill 32 bytes: those kernels
/// were timed and stored as they are. Both factors beside pairs of tiles spill 448 bytes with fewer
/// registers for the copies.
WgmmaRegisters wgmma_registers(const Gemm& g, const CudaWgmma& c, bool scale_pairs) {
  const bool scales_of_both = g.d.q.scale != Scale::none && g.a.q.scale != Scale::none;
  const bool cut = c.sharing != Sharing::tiles || g.grouping() == Grouping::k ||
                   lists_products(g) || c.gather || c.bring ||
                   (gated(g) && (scales_of_both || scale_pairs));
  switch (c.warpgroups) {
    case 1:
      return {255, 240, 56};
    case 2:
      if (c.gather) return {168, 216, 72};
      return cut ? WgmmaRegisters{168, 224, 56} : WgmmaRegisters{168, 232, 40};
    default:
      return cut ? WgmmaRegisters{128, 152, 56} : WgmmaRegisters{128, 160, 32};
  }
}

bool scaled(const Gemm& g) { return g.a.q.scale != Scale::none || g.b.q.scale != Scale::none; }

void add_scale_registers(WgmmaSizes& w, const CudaWgmma& c) {
  const int rows = w.left.scale_share < 64 ? 2 : 1;
  const int columns = w.right.scale_share == 1 ? w.accumulators / 2 : c.right / w.right.scale_share;
  w.scale_registers = rows * w.subtiles + columns;
  // Three warps bring them. More than two a lane, twice, spill.
  w.scales_at_once =
      !c.tma_scales && c.left / w.left.scale_share + c.right / w.right.scale_share > 2 * 3 * 32;
}

/// Columns of D in a tile.
int columns_of_d(const CudaWgmma& c, const WgmmaSizes& w) {
  return (c.swap ? c.left : c.right) / ((c.swap ? w.left : w.right).factors ? 2 : 1);
}

/// Of the largest magnitudes of D's rows: kStoreBytes of templates/cuda/wgmma/tile.h.
std::int64_t largest_bytes(const WgmmaSizes& w, const Gemm& g, const CudaWgmma& c) {
  if (!is_output(g, Operand::scale_d)) return 0;
  if (c.swap) return 20 * c.warpgroups * c.right;
  return w.scale_pairs ? round_up(c.warpgroups * 8 * (w.subtiles * 64 + 8), 128) : 0;
}

/// How many sums of a thread are finished together: enough loads in flight, and registers beside
/// the sums for what an expression reads, of the next ones as well, and makes of them.
int held_sums(const WgmmaSizes& w, const Gemm& g, const CudaWgmma& c) {
  const int room = w.registers.multiply - w.subtiles * w.accumulators;
  const Expression x = epilogue_of(g);
  // D has half of a gate's sums, and needs two of them for each element.
  const int sums_of_d = w.right.factors ? w.accumulators / 2 : w.accumulators;
  double of_sum = (gated(g) ? 2 : 1) + double(x.operands().size() + x.outputs().size());
  for (const ExtraOperand& operand : x.operands())
    if (!operand.index.empty() && !(c.bring && expression::is_matrix(operand))) of_sum += 0.5;
  constexpr int kOthers = 36;  // addresses, temporaries: without, some tiles spilled
  for (int held = 16; held > 4; held /= 2)
    if (sums_of_d % held == 0 && (c.paired || held * of_sum + kOthers <= room)) return held;
  return 4;
}

/// Brought::kBytes of templates/cuda/wgmma/bring.h, of all warpgroups and matrices.
std::int64_t bytes_of_part(const Gemm& g, const CudaWgmma& c, int right) {
  std::int64_t bytes = 0;
  for (const BroughtMatrix& m : brought_matrices(g))
    bytes += std::int64_t{64} * right * size_of(m.type);
  return bytes * (c.pingpong ? 1 : c.warpgroups);
}

void add_parts(WgmmaSizes& w, const Gemm& g, const CudaWgmma& c) {
  const int sums = w.right.factors ? w.accumulators / 2 : w.accumulators;
  const int subtiles = w.left.factors ? w.subtiles / 2 : w.subtiles;
  const int turns = sums / w.held;  // of 64 left rows
  for (int of_part = turns; of_part > 0 && w.turns_of_part == 0; --of_part) {
    const std::int64_t bytes = bytes_of_part(g, c, of_part * 2 * w.held);
    if (turns % of_part != 0 || bytes == 0 || bytes > w.stage_bytes) continue;
    w.turns_of_part = of_part;
    w.part_bytes = bytes;
    w.parts_of_tile = turns / of_part * subtiles;
  }
}

void add_shared(WgmmaSizes& w, const Problem& p, const CudaWgmma& c) {
  const std::int64_t right_rows = w.right.across_k ? round_up(c.right, 64) : c.right;
  w.stage_bytes = (c.left + right_rows) * kRowBytes * w.parts;
  if (rolls(p.gemm, c)) add_parts(w, p.gemm, c);
  const std::int64_t buffer = 16 * w.chunk * w.d_bytes;
  std::int64_t scales = 0;
  if (c.tma_scales) {
    scales = ceil_div(c.stages + 3, 4) * copied_scale_bytes(w, c);
  } else if (blocks_along_k(p.gemm.a.q.scale)) {
    scales = c.stages * scale_bytes(w, c);
  }
  w.shared_bytes = c.stages * w.stage_bytes + scales + largest_bytes(w, p.gemm, c) +
                   c.warpgroups * 4 * w.store_buffers * buffer + c.stages * 16 + c.warpgroups * 4 +
                   w.table_bytes;
  // Parts of their own lie where swizzles begin.
  if (c.bring && c.pingpong) w.shared_bytes += w.parts_of_tile * (w.part_bytes + 24) + 1024;
}

void add_workspace(WgmmaSizes& w, const Problem& p, const CudaWgmma& c) {
  // The order of templates/cuda/common/workspace.h.
  const bool counted = c.sharing == Sharing::split || c.sharing == Sharing::stream;
  if (counted) w.counter_bytes = kCounterBytes;
  w.workspace_bytes = w.counter_bytes;
  auto& a = c.swap ? w.right : w.left;
  auto& b = c.swap ? w.left : w.right;
  for (auto* side : {&a, &b}) {
    if (!side->pack) continue;
    const auto [length, lines] =
        side->across_k ? std::pair{side->rows, p.gemm.k} : std::pair{p.gemm.k, side->rows};
    side->packed = packed(length, lines, (side->batch_stride == 0 ? 1 : p.gemm.batch) * w.parts,
                          side->type, w.workspace_bytes);
    const std::int64_t exponents = c.halves ? side->rows * p.gemm.batch * 4 : 0;
    w.workspace_bytes = round_up(side->packed.offset + side->packed.bytes + exponents, 256);
  }
  if (c.sharing == Sharing::tiles) return;
  const std::int64_t regions = c.pingpong ? 1 : c.warpgroups;
  if (counted) w.counters = w.tiles * w.cluster * regions;
  const std::int64_t slots =
      c.sharing == Sharing::stream ? std::int64_t{2} * w.clusters : w.tiles * c.splits;
  w.workspace_bytes += slots * w.cluster * c.left * c.right * 4;
}

}  // namespace

WgmmaSizes wgmma_sizes(const Problem& p, const DeviceCaps& d, const CudaWgmma& c) {
  const Gemm& g = p.gemm;
  WgmmaSizes w{};
  w.parts = c.halves ? 2 : 1;
  w.table_bytes = bytes_of_tables(room_for_groups(g), lists_products(g) ? 3 : 2);
  w.left = side(p, !c.swap, c);
  w.right = side(p, c.swap, c);
  w.left_registers = w.left.across_k && size_of(w.left.type) == 4;
  // Copies of factors end with either's rows.
  w.clip_left = c.clip && !w.left.across_k && !w.left.factors;
  w.clip_right = c.clip && !w.right.across_k && !w.right.factors;
  w.depth = kRowBytes / size_of(w.left.type);
  w.warpgroup_rows = c.pingpong ? c.left : c.left / c.warpgroups;
  w.accumulators = c.right / 2;
  w.subtiles = w.warpgroup_rows / 64;
  w.scale_pairs = g.d.q.scale == Scale::line_128 && !c.swap && columns_of_d(c, w) % 128 == 64 &&
                  c.cluster_left == 1 && c.cluster_right == 2 && c.sharing == Sharing::tiles;
  w.registers = wgmma_registers(g, c, w.scale_pairs);
  if (blocks_along_k(g.a.q.scale)) add_scale_registers(w, c);
  // The compiler reads scales, and what zero points need, ahead of both factors' sums: with 144
  // sums of integers a thread spills, with 128 it does not.
  if (gated(g) && g.accumulator == s32 && scaled(g)) w.scale_registers = 88;
  w.in_turn =
      c.promote && !c.halves && w.subtiles > 1 && !sums_fit(w, 2 * w.subtiles * w.accumulators);
  // As many as fit the registers beside the accumulators.
  w.partials_at_once = std::clamp(96 / std::max(1, w.subtiles * w.accumulators), 1, 8);
  w.d_bytes = size_of(g.d.dtype);
  // TMA writes whole 16 bytes at a line's end: seen on an H200, where one element
  // behind lines of 1,022 bytes was overwritten.
  const bool whole = g.n * w.d_bytes % 16 == 0;
  const bool summed = c.sharing == Sharing::summed;
  const bool of_rows = grouped(g) && g.grouping() != Grouping::k;
  const bool one_pitch = !of_rows || g.d.batch_stride % g.d.ld == 0;  // of all groups' rows
  // Codes with scales by whole 16 bytes; other bytes go straight from registers.
  const int right_of_d = w.right.factors ? c.right / 2 : c.right;
  const bool codes = g.d.q.scale != Scale::none && (c.swap || right_of_d % 16 == 0);
  // The copy engine stores boxes of rows that follow one another. Rows of a list's products may end
  // anywhere, so warps store them, through buffers where elements have two bytes or more.
  const bool list = lists_products(g);
  const bool stored = g.epilogue.expression.stores_d();
  const bool tma = stored && !scatters(g) && !list && line_alignment(g, Operand::d) >= 16 &&
                   (w.d_bytes >= 2 || codes) && whole && one_pitch;
  w.pairable = !summed && !tma && !list && w.d_bytes == 2 && stored;
  const bool staged = list ? w.d_bytes >= 2 : w.pairable && !c.paired;
  w.store = !summed && tma ? WgmmaSizes::Store::tma
            : staged       ? WgmmaSizes::Store::staged
                           : WgmmaSizes::Store::direct;
  w.held = held_sums(w, g, c);
  w.chunk = rolls(g, c) ? 2 * w.held : chunk_of(c, right_of_d, std::max(w.d_bytes, 2));
  w.store_buffers = w.store == WgmmaSizes::Store::direct ? 0
                    : w.store == WgmmaSizes::Store::tma  ? 2
                                                         : 1;
  add_shared(w, p, c);
  // Rules see the sizes of clusters that one of them refuses.
  const int cluster_left = std::max(1, c.cluster_left);
  const int cluster_right = std::max(1, c.cluster_right);
  w.cluster = cluster_left * cluster_right;
  w.tiles_left = ceil_div(w.left.rows, std::int64_t{c.left} * cluster_left);
  w.tiles_right = ceil_div(w.right.rows, std::int64_t{c.right} * cluster_right);
  w.tiles = c.swap ? w.tiles_left * tiles_of_rows(g, std::int64_t{c.right} * cluster_right)
                   : w.tiles_right * tiles_of_rows(g, std::int64_t{c.left} * cluster_left);
  w.stages_of_k = ceil_div(g.k, w.depth);
  const std::int64_t room = std::max(1, d.compute_units / w.cluster);
  switch (c.sharing) {
    case Sharing::tiles:
      w.clusters = static_cast<int>(std::min(room, w.tiles));
      break;
    case Sharing::split:
    case Sharing::summed:
      w.clusters = static_cast<int>(std::min(room, w.tiles * c.splits));
      break;
    case Sharing::stream:
      w.clusters = static_cast<int>(std::min(room, w.tiles * w.stages_of_k));
      break;
  }
  add_workspace(w, p, c);
  return w;
}

bool rolls(const Gemm& g, const CudaWgmma& c) {
  const Expression epilogue = epilogue_of(g);
  // Scales of D follow from all of a tile; words of memory are of some types.
  if (epilogue.empty() || c.paired || c.sharing == Sharing::summed || g.d.q.scale != Scale::none ||
      !std::ranges::all_of(types_of_epilogue(g).operands, expression::is_operand_type))
    return false;
  // A comparison or a factor takes no longer in code for each sum.
  constexpr double kShort = 2;
  return gated(g) || !epilogue.operands().empty() || !epilogue.outputs().empty() ||
         epilogue.program()->reads_reduced() || epilogue.program()->half_of != nullptr ||
         expression::work_of(epilogue) > kShort;
}

bool loads_ahead(const Gemm& g, const CudaWgmma& c, const WgmmaSizes& w) {
  if (!rolls(g, c) || c.bring || c.sharing != Sharing::tiles) return false;
  int of_four = 0;  // registers of four sums
  bool reads = false;
  const Index along = c.swap ? Index::m : Index::n;
  const Expression epilogue = epilogue_of(g);
  const auto& operands = epilogue.operands();
  const expression::ExtraTypes types = types_of_epilogue(g);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ExtraOperand& x = operands[i];
    const std::int64_t shared = along == Index::n ? x.per_n : x.per_m;
    const bool side_by_side = !x.index.empty() && x.index.back() == along && shared == 1;
    reads |= expression::has_lines(x) || expression::has_index(x, Index::m) ||
             expression::has_index(x, Index::n);
    // Vectors across: two numbers of a thread for all its sums. Along: both lines share them.
    if (!expression::has_lines(x) && !expression::has_index(x, along)) continue;
    const int lines = expression::has_lines(x) ? 2 : 1;
    const int size = size_of(types.operands[i]);
    const auto words = [](int bytes) { return (bytes + 3) / 4; };
    const int apart = shared % 2 == 0 ? 1 : 2;
    of_four += lines * (side_by_side ? words(2 * size) : apart * words(size));
  }
  constexpr int kOthers = 64, kMostTurns = 4;  // addresses, temporaries, what multiplies needs
  const int sums = w.subtiles * w.accumulators, of_d = gated(g) ? sums / 2 : sums;
  return reads && of_d <= kMostTurns * w.held &&
         sums + of_d / 4 * of_four + kOthers <= w.registers.multiply;
}

std::vector<BroughtMatrix> brought_matrices(const Gemm& g) {
  const Expression x = epilogue_of(g);
  const std::vector<DType> types = types_of_epilogue(g).operands;
  const auto arguments = arguments_of_epilogue(g);
  std::vector<BroughtMatrix> all;
  for (std::size_t i = 0; i < x.operands().size(); ++i) {
    const ExtraOperand& operand = x.operands()[i];
    if (!expression::is_matrix(operand) || !expression::reads(*x.program(), i)) continue;
    const Operand which =
        arguments.empty() ? kOperands[index_of(Operand::x0) + i] : Operand::residual;
    all.push_back({i, which, types[i], operand.index.back() == Index::n});
  }
  return all;
}

bool may_bring(const Gemm& g, const CudaWgmma& c, const WgmmaSizes& w) {
  constexpr std::size_t kMostMatrices = 3;  // a launch has maps of other operands, too
  const std::vector<BroughtMatrix> all = brought_matrices(g);
  const auto fits = [&](const BroughtMatrix& m) {
    const int size = size_of(m.type);
    return leading_dimension(g, m.which) * size % 16 == 0 && size <= 4 &&
           batch_stride(g, m.which) * size % 16 == 0 &&
           (m.of_rows || g.grouping() != Grouping::rows);
  };
  // Other warps arrive at the barriers of places that bring scales of blocks or rows by index.
  return w.parts_of_tile > 0 && all.size() <= kMostMatrices && std::ranges::all_of(all, fits) &&
         c.sharing == Sharing::tiles && !lists_products(g) && !c.gather &&
         !blocks_along_k(g.a.q.scale);
}

Together wgmma_together(const Gemm& gemm, const CudaWgmma& config, const WgmmaSizes& sizes) {
  if (!expression::reduces_lines(gemm.epilogue.expression) || config.sharing != Sharing::tiles)
    return {};
  // Sums of a lane that are finished together lie in two left rows.
  const int right = 2 * sizes.held, left = 16;
  return config.swap ? Together{left, right} : Together{right, left};
}

bool aligned_for_copies(const Gemm& g, Operand which) {
  if (g.grouping() != Grouping::k) return line_alignment(g, which) >= 16;
  // Of lines along k, too: a box may begin at any element of one.
  Gemm whole = g;
  whole.groups = Groups{};
  whole.batch = 1;
  return line_alignment(whole, which) >= 16;
}

bool sums_fit(const WgmmaSizes& w, int sums) {
  // Where the kernel starts with 128 registers a thread, the assembler gives up on instructions
  // that alone need as many.
  // Both factors of tiles that share blocks of D's scales: 192 sums of 224 registers do not spill.
  const int spare = w.scale_pairs && w.in_turn ? 32 : 40;
  const int room = w.registers.launch <= 128 ? 96 : w.registers.multiply - spare;
  const int words = w.left_registers ? 2 * 16 * w.subtiles : 0;  // of two stages
  return sums + words <= room && sums + w.scale_registers <= w.registers.multiply - 10;
}

bool splits_fit(Sharing sharing, int splits, const WgmmaSizes& w) {
  const bool cut = sharing == Sharing::split || sharing == Sharing::summed;
  if (!cut) return splits == 1;
  return splits >= 2 && splits <= kMostSplits && w.stages_of_k >= splits;
}

bool scales_may_be_copied(const Gemm& g) {
  // Along the innermost dimension a copy begins at a multiple of 16 bytes, a group of rows
  // anywhere.
  if (g.a.q.order != ScaleOrder::lines && g.grouping() == Grouping::rows) return false;
  return g.a.q.scale == Scale::line_128 && g.b.q.scale == Scale::square_128 && !gated(g) &&
         !gathers(g) && g.grouping() != Grouping::k &&
         address_alignment(g, Operand::scale_a) >= 16 &&
         address_alignment(g, Operand::scale_b) >= 16 && ceil_div(g.k, 128) % 4 == 0 &&
         leading_dimension(g, Operand::scale_a) % 4 == 0;
}

bool scales_of_d_fit(const Gemm& g, const CudaWgmma& c, const WgmmaSizes& w) {
  if (g.d.q.scale == Scale::none || g.d.q.scale == Scale::tensor) return true;
  if (w.scale_pairs) return true;
  const int tile = columns_of_d(c, w);
  const int own = w.warpgroup_rows / (w.left.factors ? 2 : 1);  // of a warpgroup, where swapped
  const int share = g.d.q.scale == Scale::line ? tile : 128;
  if (c.sharing == Sharing::summed || tile % share != 0) return false;
  if (g.d.q.scale == Scale::line && tile < g.n) return false;
  if (!c.swap || own % share == 0) return true;
  return share % own == 0 && !c.pingpong && c.sharing == Sharing::tiles;
}

bool counters_fit(const WgmmaSizes& w) { return w.counters * 4 <= kCounterBytes; }

bool stream_fits(Sharing sharing, const WgmmaSizes& w) {
  if (sharing != Sharing::stream) return true;
  return 2.0 * w.clusters * double(w.stages_of_k) * (w.clusters + 1) < 2e9;
}

}  // namespace kiln::cuda
