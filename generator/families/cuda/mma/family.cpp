// Family cuda_mma: axes, rules and launch of templates/cuda/mma/mma.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/row_adder.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"
#include "generator/problem/spelling.h"
#include "generator/problem/taken.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::mma {
namespace {

using cuda::conflict_free;
using cuda::mma_sizes;
using cuda::MmaSizes;
using cuda::TileLines;

constexpr std::array<std::string_view, 30> kFiles{"cuda/common/abi.h",
                                                  "cuda/common/list_abi.h",
                                                  "cuda/common/list_chunk.h",
                                                  "cuda/common/types.h",
                                                  "cuda/common/indices.h",
                                                  "cuda/common/convert_ptx.h",
                                                  "cuda/common/convert.h",
                                                  "cuda/common/amax.h",
                                                  "cuda/common/epilogue.h",
                                                  "cuda/common/banks.h",
                                                  "cuda/common/ampere_ptx.h",
                                                  "cuda/common/grid_ptx.h",
                                                  "cuda/common/mma_ptx.h",
                                                  "cuda/common/mma.h",
                                                  "cuda/mma/read.h",
                                                  "cuda/common/groups_ptx.h",
                                                  "cuda/common/group_args.h",
                                                  "cuda/common/groups.h",
                                                  "cuda/common/tile_scheduler.h",
                                                  "cuda/mma/copy.h",
                                                  "cuda/mma/place.h",
                                                  "cuda/mma/finish.h",
                                                  "cuda/mma/store.h",
                                                  "cuda/common/partials_ptx.h",
                                                  "cuda/common/partials.h",
                                                  "cuda/mma/combine_ptx.h",
                                                  "cuda/mma/combine.h",
                                                  "cuda/mma/mma.cu",
                                                  "cuda/common/add_rows.cu",
                                                  "cuda/common/take_list.cu"};

/// Every derived size depends on these; mma_sizes() has no meaning for other configs.
bool sizes_known(const CudaMma& c) {
  const auto within = [](int x, int low, int high) { return x >= low && x <= high; };
  return within(c.block_m, 16, 256) && within(c.block_n, 16, 256) && within(c.block_k, 8, 256) &&
         within(c.warps_m, 1, 16) && within(c.warps_n, 1, 16) && within(c.stages, 2, 16) &&
         c.warps_m * c.warps_n <= 32;
}

/// Threads of a block copy the same part of every line of a tile.
bool shares(const TileLines& t, const MmaSizes& w) {
  if (t.pitch() % w.unit != 0) return false;
  const int units = t.pitch() / w.unit;
  return units <= w.threads && w.threads % units == 0;
}

constexpr FirstRule<CudaMma> kFirst[] = {
    {"the device has a matrix instruction of instruction_k for the types; m, n, k are at least "
     "1, B is not packed",
     [](const Problem& p, const DeviceCaps& d, const CudaMma& c) {
       const Gemm& g = p.gemm;
       return cuda::mma_instruction(g, d, c.instruction_k) != nullptr && g.m >= 1 && g.n >= 1 &&
              g.k >= 1 && !g.b_packed;
     }},
    {"scales of a D of fp8 need sm_89, which has instructions for it",
     [](const Problem& p, const DeviceCaps& d, const CudaMma&) {
       return p.gemm.d.dtype != DType::fp8_e4m3 || p.gemm.d.q.scale == Scale::none ||
              d.gpu.sm >= 89;
     }},
    {"block_m and block_n are 16 to 256, block_k 8 to 256, stages 2 to 16, group 1 to 64, with "
     "at most 32 warps",
     [](const Problem&, const DeviceCaps&, const CudaMma& c) {
       return sizes_known(c) && c.group >= 1 && c.group <= 64;
     }}};

constexpr Rule<CudaMma, MmaSizes> kRules[] = {
    {"a warp's part of the tile is a multiple of 16 x 16, and the warps fit a block",
     [](const Problem&, const DeviceCaps& d, const CudaMma& c, const MmaSizes& w) {
       return c.block_m % c.warps_m == 0 && c.block_n % c.warps_n == 0 && w.warp_m % 16 == 0 &&
              w.warp_n % 16 == 0 && w.threads <= d.gpu.threads_block;
     }},
    {"block_k is whole steps of the instruction, an even number with ahead=1",
     [](const Problem&, const DeviceCaps&, const CudaMma& c, const MmaSizes& w) {
       const int k = c.block_k;
       // Steps that are read ahead alternate between two sets of registers.
       return w.steps >= 1 && k % w.step_k == 0 && (!c.ahead || w.steps % 2 == 0);
     }},
    {"gate: half of a warp's columns is whole reads of B and whole stores of D; columns that "
     "alternate are k-major",
     [](const Problem& p, const DeviceCaps&, const CudaMma&, const MmaSizes& w) {
       if (!gated(p.gemm)) return true;
       const int together = std::max(w.store_width, 16 / size_of(p.gemm.accumulator));
       const int half = w.warp_n / 2;
       if (half % together != 0) return false;
       // A list's products are of any n.
       const std::int64_t apart = lists_products(p.gemm) ? 1 : p.gemm.n;
       return p.b_k_major ||
              (!interleaved(p.gemm) && half * size_of(p.gemm.b.dtype) % w.unit == 0 &&
               apart * size_of(p.gemm.b.dtype) % w.width == 0);
     }},
    {"groups: no splits, stream=0, and at most 4096 of them",
     [](const Problem& p, const DeviceCaps&, const CudaMma& c, const MmaSizes&) {
       return !grouped(p.gemm) ||
              (c.sharing() == Sharing::tiles && p.gemm.batch <= cuda::kMostGroups);
     }},
    {"threads divide the copies of A and B evenly",
     [](const Problem&, const DeviceCaps&, const CudaMma&, const MmaSizes& w) {
       return shares(w.a, w) && shares(w.b, w);
     }},
    {"copies without cp.async need stages=2 and ahead=0",
     [](const Problem&, const DeviceCaps&, const CudaMma& c, const MmaSizes& w) {
       return w.async || (c.stages == 2 && !c.ahead);
     }},
    {"the swizzles of A and B leave no bank conflicts",
     [](const Problem&, const DeviceCaps&, const CudaMma& c, const MmaSizes& w) {
       const auto fits = [](const TileLines& t, Exchange e) {
         return cuda::is_sound(t, e) && cuda::turns_lost(t, e) == 0;
       };
       return fits(w.a, c.exchange_a()) && fits(w.b, c.exchange_b());
     }},
    {"accumulators and operands fit the registers",
     [](const Problem&, const DeviceCaps& d, const CudaMma&, const MmaSizes& w) {
       return w.registers <= std::min(255, d.gpu.registers_unit / w.threads);
     }},
    {"stages fit shared memory",
     [](const Problem&, const DeviceCaps& d, const CudaMma&, const MmaSizes& w) {
       return w.shared_bytes + w.table_bytes <= d.gpu.shared_block_bytes - 1024;
     }},
    {"8-bit floats need numerics=fast where tensor cores truncate their sums",
     [](const Problem& p, const DeviceCaps& d, const CudaMma&, const MmaSizes&) {
       const bool small = is_floating(p.gemm.a.dtype) && bits_of(p.gemm.a.dtype) == 8;
       return !small || !truncates_sums(d) || p.gemm.numerics == Numerics::fast;
     }},
    {"splits is 1 to 64, at most the stages of k, and 1 with stream=1",
     [](const Problem&, const DeviceCaps&, const CudaMma& c, const MmaSizes& w) {
       const int splits = c.splits;
       return splits >= 1 && splits <= 64 && (splits == 1 || !c.stream) &&
              (splits == 1 || w.stages_of_k >= splits);
     }},
    {"the counters of split-K and stream-K fit 64 KiB",
     [](const Problem&, const DeviceCaps&, const CudaMma&, const MmaSizes& w) {
       return w.counters * 4 <= cuda::kCounterBytes;
     }},
    {"stream-K shares of k fit 31 bits",
     [](const Problem&, const DeviceCaps&, const CudaMma& c, const MmaSizes& w) {
       if (!c.stream) return true;
       return 2.0 * double(w.grid) * double(w.stages_of_k) * double(w.grid + 1) < 2e9;
     }},
    {"tile numbers, stages of all splits, m, n and k fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const CudaMma& c, const MmaSizes& w) {
       const std::int64_t most = std::int64_t{1} << 31;
       return w.tiles * c.splits < most / 2 && w.stages_of_k * c.splits < most &&
              cuda::band_fits(c.group, ceil_div(p.gemm.columns_of_b(), c.block_n)) &&
              p.gemm.m < most - 512 && p.gemm.columns_of_b() < most - 512 && p.gemm.k < most - 512;
     }},
    {"k/splits elements are less than 1 GiB",
     [](const Problem& p, const DeviceCaps&, const CudaMma& c, const MmaSizes&) {
       const int size = std::max(size_of(p.gemm.a.dtype), size_of(p.gemm.b.dtype));
       return ceil_div(p.gemm.k, c.splits) * size < (std::int64_t{1} << 30) - 65536;
     }}};

/// A block's tile and the warps that share it.
struct Shape {
  int m, n, warps_m, warps_n;
};
constexpr Shape kShapes[] = {
    {16, 64, 1, 4},   {16, 128, 1, 4},  {32, 32, 2, 1},   {32, 64, 1, 2},   {32, 64, 2, 2},
    {32, 128, 1, 4},  {64, 32, 2, 1},   {64, 64, 2, 1},   {64, 64, 2, 2},   {64, 64, 2, 4},
    {64, 128, 2, 2},  {64, 128, 2, 4},  {64, 256, 1, 4},  {128, 32, 4, 1},  {128, 64, 2, 2},
    {128, 64, 4, 2},  {128, 128, 2, 2}, {128, 128, 2, 4}, {128, 128, 4, 2}, {128, 128, 4, 4},
    {128, 256, 2, 4}, {256, 64, 4, 1},  {256, 128, 4, 2}, {96, 96, 2, 2},   {192, 128, 4, 2},
    {128, 96, 4, 2},  {160, 128, 2, 4}, {256, 128, 4, 4}, {128, 256, 4, 4}};

/// Rounds of tiles beyond which an idle last one costs less than 2 %.
constexpr std::int64_t kMostRounds = 64;

void visit_sharings(const Problem& p, const DeviceCaps& d, CudaMma c,
                    const std::function<void(const Config&)>& visit) {
  c.splits = 1;
  visit(c);
  if (grouped(p.gemm)) return;
  const auto w = mma_sizes(p, d, c);
  if (w.instruction == nullptr) return;
  const std::int64_t room = std::int64_t{w.blocks} * std::max(1, d.compute_units);
  // What the last wave leaves idle is worth sharing out.
  if (w.tiles % room != 0 && w.tiles < kMostRounds * room && w.stages_of_k >= 4) {
    c.stream = true;
    visit(c);
    c.stream = false;
  }
  for (const int splits : {2, 3, 4, 6, 8, 16, 32}) {
    if (w.tiles * splits > 2 * room || splits * 4 > w.stages_of_k) break;
    c.splits = splits;
    visit(c);
  }
}

void visit_stages(const Problem& p, const DeviceCaps& d, CudaMma c, bool few,
                  const std::function<void(const Config&)>& visit) {
  const auto w = mma_sizes(p, d, c);
  if (!w.async) {
    c.stages = 2;
    return visit_sharings(p, d, c, visit);
  }
  for (const int stages : {2, 3, 4, 6}) {
    c.stages = stages;
    if (few && stages != 3) continue;
    if (w.stage_bytes * stages > d.gpu.shared_block_bytes - 1024) break;
    for (const bool ahead : {false, true}) {
      c.ahead = ahead;
      visit_sharings(p, d, c, visit);
    }
  }
}

/// Hopper's own matrix instruction reads these operands as they are and is the faster one.
bool wgmma_is_better(const Problem& p, const DeviceCaps& d) {
  const int size = size_of(p.gemm.a.dtype);
  const bool readable = size == 2 || (size <= 4 && p.a_k_major && p.b_k_major);
  return d.gpu.sm == 90 && d.gpu.arch_specific &&
         std::min(line_alignment(p.gemm, Operand::a), line_alignment(p.gemm, Operand::b)) >= 16 &&
         readable;
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  const int size = size_of(g.a.dtype);
  // There a few points are enough, so that the search spends its time on the others.
  const bool few = wgmma_is_better(p, d);
  const std::vector<int> depths = few         ? std::vector{128}
                                  : size <= 2 ? std::vector{64, 128}
                                              : std::vector{64, 128, 256};  // bytes of k
  const auto instructions = cuda::mma_depths(g, d);
  Product(instructions, kShapes, depths).each([&](int instruction_k, const auto& s, int bytes) {
    // A tile much wider than the problem computes nothing but zeros.
    if ((s.m >= 32 && s.m / 2 >= g.m) || (s.n >= 64 && s.n / 2 >= g.columns_of_b())) return;
    CudaMma c{.block_m = s.m,
              .block_n = s.n,
              .block_k = bytes / size,
              .warps_m = s.warps_m,
              .warps_n = s.warps_n,
              .instruction_k = instruction_k};
    const auto a = conflict_free({g.a.dtype, true, p.a_k_major, c.block_m, c.block_k});
    const auto b = conflict_free({g.b.dtype, false, p.b_k_major, c.block_n, c.block_k});
    if (!a || !b) return;
    c.bits_a = a->bits, c.base_a = a->base, c.shift_a = a->shift;
    c.bits_b = b->bits, c.base_b = b->base, c.shift_b = b->shift;
    for (const int group : {8, 16}) {
      if (group == 16 && (few || g.m <= s.m * 8 || g.columns_of_b() <= s.n)) continue;
      c.group = group;
      visit_stages(p, d, c, few, visit);
    }
  });
}

GpuLaunch launch(const Problem&, const DeviceCaps&, const CudaMma&, const MmaSizes& w) {
  GpuLaunch out;
  out.workspace_bytes = w.workspace_bytes;
  out.zeroed_bytes = w.counter_bytes;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.grid);
  step.block.x = static_cast<unsigned>(w.threads);
  step.dynamic_shared_bytes = static_cast<int>(w.shared_bytes);
  step.overlaps_previous = w.overlaps;
  out.steps.push_back(step);
  return out;
}

/// Parts of split-K end with stages and are added in the order of k. Where stream-K divides k
/// follows from the number of tiles.
std::string summation(const Problem&, const DeviceCaps&, const CudaMma& c, const MmaSizes&) {
  if (c.stream) return {};
  const std::string chain = fmt::format("mma k{} chain", c.instruction_k);
  return c.splits == 1 ? chain
                       : fmt::format("{} parts of {} k, each {}", c.splits, c.block_k, chain);
}

std::optional<CudaMma> plain(const Problem& p, const DeviceCaps& d) {
  const Gemm& g = p.gemm;
  const auto depths = cuda::mma_depths(g, d);
  if (depths.empty()) return std::nullopt;
  CudaMma c{.block_m = 64,
            .block_n = 64,
            .block_k = 128 / size_of(g.a.dtype),
            .warps_m = 2,
            .warps_n = 2,
            .stages = 2,
            .instruction_k = depths.front()};
  const auto a = conflict_free({g.a.dtype, true, p.a_k_major, c.block_m, c.block_k});
  const auto b = conflict_free({g.b.dtype, false, p.b_k_major, c.block_n, c.block_k});
  if (!a || !b) return std::nullopt;
  c.bits_a = a->bits, c.base_a = a->base, c.shift_a = a->shift;
  c.bits_b = b->bits, c.base_b = b->base, c.shift_b = b->shift;
  return c;
}

constexpr TypedFamily<CudaMma, MmaSizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = mma_sizes,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = cuda::mma_parameters,
    .predict_ns = cuda::mma_ns,
    .launch = launch,
    .tile =
        [](const Problem& p, const CudaMma& c, const MmaSizes&) {
          return Tile{c.block_m, gated(p.gemm) ? c.block_n / 2 : c.block_n, c.block_k};
        },
    .summation = summation,
    .plain = plain,
    // Floats' are applied by families that promote sums of 8-bit floats or have no need to.
    .offers = cuda::kOffers | kAnyGroups | taken({"gate", "amax_d"}) |
              Features{Feature::scales_of_integers, Feature::lists, Feature::indexed_rows,
                       Feature::added_rows, Feature::scale_of_d},
    .row_adder = &cuda::kRowAdder};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::mma
