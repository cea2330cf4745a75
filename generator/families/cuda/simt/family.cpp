// Family cuda_simt: axes, rules, parameters and launch of templates/cuda/simt/simt.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "generator/expression/code.h"
#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/row_adder.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/simt/sizes.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/problem/taken.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::simt {
namespace {

using cuda::reads_one_factor;
using cuda::shares;
using cuda::simt_sizes;
using cuda::SimtSizes;

constexpr std::array<std::string_view, 27> kFiles{
    "cuda/common/abi.h",          "cuda/common/list_abi.h",     "cuda/common/list_chunk.h",
    "cuda/common/types.h",        "cuda/common/indices.h",      "cuda/common/convert_ptx.h",
    "cuda/common/convert.h",      "cuda/common/amax.h",         "cuda/common/epilogue.h",
    "cuda/common/swizzle.h",      "cuda/common/cp_async_ptx.h", "cuda/common/hopper_ptx.h",
    "cuda/simt/ring.h",           "cuda/simt/lanes.h",          "cuda/common/groups_ptx.h",
    "cuda/common/group_args.h",   "cuda/common/groups.h",       "cuda/common/tile_scheduler.h",
    "cuda/common/partials_ptx.h", "cuda/common/partials.h",     "cuda/simt/combine_ptx.h",
    "cuda/simt/combine.h",        "cuda/simt/copy.h",           "cuda/simt/simt.cu",
    "cuda/simt/fed.cu",           "cuda/common/add_rows.cu",    "cuda/common/take_list.cu"};

int quad_of(const Gemm& g) { return 16 / size_of(g.accumulator); }
bool is_power_of_two(int x) { return x > 0 && std::has_single_bit(static_cast<unsigned>(x)); }

/// Elements of D that a thread has side by side.
int run_of(const Gemm& g, const CudaSimt& c) {
  return c.spread ? std::gcd(c.thread_n, quad_of(g)) : c.thread_n;
}

/// Long code behind a product is expanded once a row of accumulators, not once an accumulator. The
/// factors of a gate meet in shared memory.
bool staged(const Problem& p, const CudaSimt& c) {
  constexpr double kShort = 6;  // one operand and its addition
  return c.stages > 0 && (gated(p.gemm) || expression::work_of(epilogue_of(p.gemm)) > kShort);
}

bool copied_async(const Problem& p, const DeviceCaps& d, const CudaSimt& c) {
  const auto side = [&](const Matrix& m, bool along_k, int width) {
    const int bytes = width * size_of(m.dtype);
    const bool accumulator_type =
        m.dtype == p.gemm.accumulator || (m.dtype == tf32 && p.gemm.accumulator == fp32);
    return accumulator_type && (bytes == 4 || bytes == 8 || bytes == 16) &&
           (!along_k || width == 1);
  };
  return d.gpu.sm >= 80 && c.stages >= 1 && side(p.gemm.a, p.a_k_major, c.width_a) &&
         side(p.gemm.b, p.b_k_major, c.width_b);
}

constexpr Rule<CudaSimt, SimtSizes> kRules[] = {
    {"B is not packed", [](const Problem& p, const DeviceCaps&, const CudaSimt&,
                           const SimtSizes&) { return !p.gemm.b_packed; }},
    {"8-bit float operands need sm_89 or later",
     [](const Problem& p, const DeviceCaps& d, const CudaSimt&, const SimtSizes&) {
       const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
       return d.gpu.sm >= 89 || (!is_fp8(p.gemm.a.dtype) && !is_fp8(p.gemm.b.dtype));
     }},
    {"gate: stages >= 1 without copy=warps, an even block_n, and reads of B are of one factor",
     [](const Problem& p, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       return !gated(p.gemm) || (c.stages >= 1 && c.copy != SimtCopy::warps && c.block_n % 2 == 0 &&
                                 reads_one_factor(p, c));
     }},
    {"groups: sharing=tiles without copy=warps, and at most 4096 of them",
     [](const Problem& p, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       return !grouped(p.gemm) || (c.sharing == Sharing::tiles && c.copy != SimtCopy::warps &&
                                   p.gemm.batch <= cuda::kMostGroups);
     }},
    {"lanes_m is a power of two up to 32, block_m a multiple of lanes_m*thread_m and block_n "
     "of 32/lanes_m*thread_n, and the warps fit a block",
     [](const Problem&, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
       if (!is_power_of_two(c.lanes_m) || c.lanes_m > 32 || c.thread_m < 1 || c.thread_n < 1 ||
           c.block_m < 1 || c.block_n < 1 || c.block_m > 1024 || c.block_n > 1024)
         return false;
       return c.block_m % (c.lanes_m * c.thread_m) == 0 &&
              c.block_n % (32 / c.lanes_m * c.thread_n) == 0 &&
              w.block_threads <= d.gpu.threads_block;
     }},
    {"block_k is a power of two from 4 to 64 (1 with stages=0), and threads divide the copies "
     "of A and B evenly",
     [](const Problem& p, const DeviceCaps&, const CudaSimt& c, const SimtSizes& w) {
       if (c.stages == 0) return c.block_k == 1 && c.width_a == 1 && c.width_b == 1;
       const int threads = w.threads;
       return c.block_k >= 4 && c.block_k <= 64 && is_power_of_two(c.block_k) &&
              shares(c.block_m, c.width_a, p.a_k_major, threads, c.block_k) &&
              shares(c.block_n, c.width_b, p.b_k_major, threads, c.block_k);
     }},
    {"a read of several elements is 2 to 16 bytes, a power of two that divides the alignment",
     [](const Problem& p, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       const auto fits = [&](int width, Operand which) {
         const int bytes = width * size_of(dtype_of(p.gemm, which));
         return width == 1 || (bytes <= 16 && is_power_of_two(bytes) &&
                               line_alignment(p.gemm, which) % bytes == 0);
       };
       return fits(c.width_a, Operand::a) && fits(c.width_b, Operand::b);
     }},
    {"copy=async and copy=warps need sm_80 and copies of 4, 8 or 16 bytes of the accumulator's "
     "type (or tf32), of one element along k",
     [](const Problem& p, const DeviceCaps& d, const CudaSimt& c, const SimtSizes&) {
       return c.copy == SimtCopy::registers || copied_async(p, d, c);
     }},
    {"copy=warps needs sm_90a or a later arch-specific target, stages >= 2, ahead=1, "
     "lines=padded, whole "
     "consumer warpgroups and registers for them; other copies need unroll=0",
     [](const Problem&, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
       if (c.copy != SimtCopy::warps) return c.unroll == 0;
       return d.gpu.sm >= 90 && d.gpu.arch_specific && c.stages >= 2 && c.ahead &&
              c.lines == SimtLines::padded && w.threads % 128 == 0 && w.consumer_registers > 0;
     }},
    {"copy=warps needs an even unroll that divides block_k",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes& w) {
       if (c.copy != SimtCopy::warps) return true;
       return c.unroll >= 2 && c.unroll % 2 == 0 && c.block_k % c.unroll == 0 &&
              w.passes * (c.block_k / c.unroll) < std::int64_t{1} << 31;
     }},
    {"order=folded needs an even thread_m",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       return c.order != SimtOrder::folded || c.thread_m % 2 == 0;
     }},
    {"stages is 0 to 8, at most 2 with copy=registers, 2 or more with ahead=1; stages=0 needs "
     "lines=plain and order=pairs",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       if (c.stages < 0 || c.stages > 8 || (c.ahead && c.stages < 2)) return false;
       if (c.stages == 0) return c.lines == SimtLines::plain && c.order == SimtOrder::pairs;
       return c.copy != SimtCopy::registers || c.stages <= 2;
     }},
    {"block_m and block_n are multiples of 4, with lines=exchanged of 32 or powers of two",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       const auto fits = [](int rows) {
         return rows % 32 == 0 || (is_power_of_two(rows) && rows >= 4);
       };
       // Padding and exchanging both keep quads whole.
       if (c.stages == 0) return true;
       return c.block_m % 4 == 0 && c.block_n % 4 == 0 &&
              (c.lines != SimtLines::exchanged || (fits(c.block_m) && fits(c.block_n)));
     }},
    {"accumulators, operands and copies in flight fit the registers of resident blocks",
     [](const Problem& p, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
       if (c.resident < 1 || c.resident * w.block_threads > d.gpu.threads_unit) return false;
       const double reads = c.stages == 0 ? 0
                                          : double(c.block_m / c.width_a + c.block_n / c.width_b) *
                                                c.block_k / w.threads;
       // Data in flight in registers, or the addresses of cp.async copies.
       const double copies = c.stages == 0 || c.copy == SimtCopy::warps ? 0
                             : c.copy == SimtCopy::registers
                                 ? double(c.block_m + c.block_n) * c.block_k / w.threads * w.words
                                 : 1.5 * reads;
       const int factors = (c.thread_m + c.thread_n) * (c.ahead ? 2 : 1);
       const double rows = !gathers(p.gemm) ? 0
                           : c.stages == 0  ? c.thread_m
                                            : double(c.block_m) * c.block_k / c.width_a / w.threads;
       // A product of a list has pointers, pitches and sizes of its own.
       const double list = lists_products(p.gemm) ? 24 : 0;
       const double wanted = (c.thread_m * c.thread_n + factors) * w.words + copies + rows + list;
       // Addresses, counters and what the compiler reads early: counted in compiled kernels.
       const int others = c.copy != SimtCopy::warps && c.ahead ? 40 : 24;
       const int room = c.copy == SimtCopy::warps
                            ? w.consumer_registers
                            : std::min(255, d.gpu.registers_unit / (w.threads * c.resident));
       return wanted + others <= room;
     }},
    {"stages of resident blocks fit shared memory",
     [](const Problem&, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
       const auto bytes = w.shared_bytes + w.table_bytes;
       // 16 bytes more for the flag of a split tile.
       return bytes + 16 <= d.gpu.shared_block_bytes &&
              (bytes + 1024) * c.resident <= d.gpu.shared_unit_bytes;
     }},
    {"sharing is tiles, split or stream",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes&) {
       return c.sharing != Sharing::summed;
     }},
    {"splits is 2 to 64 and at most the passes over k with sharing=split, otherwise 1",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes& w) {
       if (c.sharing != Sharing::split) return c.splits == 1;
       return c.splits >= 2 && c.splits <= 64 && w.passes >= c.splits;
     }},
    {"the counters of split-K and stream-K fit 64 KiB",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes& w) {
       return c.sharing == Sharing::tiles || w.tiles * 4 <= cuda::kCounterBytes;
     }},
    {"sharing=stream needs k >= 1, and stream-K shares of k fit 31 bits",
     [](const Problem&, const DeviceCaps&, const CudaSimt& c, const SimtSizes& w) {
       if (c.sharing != Sharing::stream) return true;
       // Without passes no block has a share of the divided tiles.
       return w.passes > 0 &&
              2.0 * double(w.blocks) * double(w.passes) * double(w.blocks + 1) < 2e9;
     }},
    {"group is 1 to 64, and tile numbers and passes of all splits fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const CudaSimt& c, const SimtSizes& w) {
       return c.group >= 1 && c.group <= 64 &&
              cuda::band_fits(c.group, ceil_div(p.gemm.columns_of_b(), c.block_n)) &&
              w.tiles * c.splits < std::int64_t{1} << 30 &&
              w.passes * c.splits < std::int64_t{1} << 31;
     }}};

template <typename E>
std::string name_of(E value) {
  for (const auto& named : names_of(value))
    if (named.value == value) return std::string(named.name);
  return {};
}

void add_values(Parameters& out, const Problem& p, const CudaSimt& c) {
  out.values["staged"] = value_of(staged(p, c));
  out.values["stages"] = c.stages == 0 ? "none" : std::to_string(c.stages);
  out.values["copy"] = name_of(c.copy);
  out.values["lines"] = name_of(c.lines);
  cuda::add_tile_scheduler(out.values, p.gemm, c.sharing);
  out.values["ahead"] = value_of(c.ahead);
  out.values["order"] = name_of(c.order);
  out.values["hopper"] = value_of(c.copy == SimtCopy::warps);
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const CudaSimt& c,
                      const SimtSizes& w) {
  Parameters out;
  cuda::add_common(out, p, d);
  add_values(out, p, c);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  const int aligned = std::max(1, alignment_of_d(p.gemm) / size_of(p.gemm.d.dtype));
  // Of a tile's row in shared memory, where a gate has half of it.
  const int run = gated(p.gemm) ? std::gcd(run_of(p.gemm, c), c.block_n / 2) : run_of(p.gemm, c);
  const int together = std::min({run, aligned, 16 / size_of(p.gemm.d.dtype)});
  add("kBlockM", c.block_m, "rows of D in a block's tile");
  add("kBlockN", c.block_n, "columns of D in it");
  add("kBlockK", c.block_k, "k of one pass");
  add("kThreadM", c.thread_m, "rows of a thread's accumulators");
  add("kThreadN", c.thread_n, "columns of them");
  add("kLanesM", c.lanes_m, "lanes of a warp along the rows");
  out.constants.push_back(
      flag("kSpread", c.spread, "other lanes' rows and columns lie between a thread's quads"));
  add("kThreads", w.threads,
      c.copy == SimtCopy::warps ? "of a block multiply, as many copy" : "of a block");
  add("kResident", c.resident, "blocks of a unit at once");
  if (c.stages > 0) {
    add("kWidthA", c.width_a, "elements of A read at once");
    add("kWidthB", c.width_b, "elements of B read at once");
    add("kStages", c.stages, "tiles of A and B in shared memory");
  }
  if (c.copy == SimtCopy::warps) {
    add("kUnroll", c.unroll, "steps of k of one turn of the loop");
    add("kCopyRegisters", cuda::kSimtProducerRegisters, "of a thread that copies");
    add("kSumRegisters", w.consumer_registers, "of a thread that multiplies");
  }
  add("kStoreWidth", std::gcd(together, run), "elements of D stored at once");
  cuda::add_groups(out, p.gemm, c.block_m, c.block_k, gated(p.gemm) ? c.block_n / 2 : c.block_n);
  add("kGroup", c.group, "rows of tiles in a band of the rasterization");
  if (c.sharing != Sharing::tiles)
    add("kCounterBytes", w.zeroed_bytes, "front of the workspace, counters of tiles");
  if (c.sharing == Sharing::split) add("kSplits", c.splits, "parts that k is divided into");
  out.constants.push_back(flag("kAlongKA", p.a_k_major, "A's neighbours run along k"));
  out.constants.push_back(flag("kAlongKB", p.b_k_major, "B's neighbours run along k"));
  return out;
}

GpuLaunch launch(const Problem&, const DeviceCaps&, const CudaSimt&, const SimtSizes& w) {
  GpuLaunch out;
  out.workspace_bytes = w.workspace_bytes;
  out.zeroed_bytes = w.zeroed_bytes;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.blocks);
  step.block.x = static_cast<unsigned>(w.block_threads);
  step.dynamic_shared_bytes = static_cast<int>(w.shared_bytes);
  if (step.grid.x > 0) out.steps.push_back(step);
  return out;
}

}  // namespace
}  // namespace kiln::cuda::simt

namespace kiln::cuda {

bool reads_one_factor(const Problem& p, const CudaSimt& c) {
  if (!gated(p.gemm) || p.b_k_major || c.width_b == 1) return true;
  return !interleaved(p.gemm) && !lists_products(p.gemm) && p.gemm.n % c.width_b == 0 &&
         c.block_n / 2 % c.width_b == 0;
}

bool shares(int rows, int width, bool along_k, int threads, int block_k) {
  const auto one_divides = [](int a, int b) {
    return a > 0 && b > 0 && (a % b == 0 || b % a == 0);
  };
  constexpr int kSector = 8;  // elements of k that are read together from a row, as in the template
  if (threads <= 0 || !simt::is_power_of_two(width) || rows * block_k % (width * threads) != 0)
    return false;
  if (!along_k) return rows % width == 0 && one_divides(threads, rows / width);
  const int piece = std::min(block_k, kSector);
  if (piece % width != 0) return false;
  const int across = piece / width;
  return threads % across == 0 && one_divides(threads / across, rows);
}

SimtSizes simt_sizes(const Problem& p, const DeviceCaps& d, const CudaSimt& c) {
  const Gemm& g = p.gemm;
  SimtSizes w{};
  const std::int64_t rows = std::max(1, c.lanes_m * c.thread_m);
  const std::int64_t columns = std::max(1, 32 / std::clamp(c.lanes_m, 1, 32) * c.thread_n);
  w.threads = static_cast<int>(c.block_m / rows * (c.block_n / columns) * 32);
  w.words = size_of(g.accumulator) / 4;
  const bool fed = c.copy == SimtCopy::warps;
  w.block_threads = w.threads * (fed ? 2 : 1);
  if (fed && w.threads > 0 && c.resident > 0) {
    // What the launch gives every thread, in steps of 8; half of them keep a few, the others take.
    const int given = d.gpu.registers_unit / (w.block_threads * c.resident) / 8 * 8;
    if (given <= 128) w.consumer_registers = std::max(0, 2 * given - kSimtProducerRegisters);
  }
  w.table_bytes = bytes_of_tables(room_for_groups(g));
  const int pad = c.lines == SimtLines::padded ? 2 * simt::quad_of(g) : 0;
  w.shared_bytes =
      std::int64_t{c.stages} *
      ((c.block_m + c.block_n + pad) * c.block_k * size_of(g.accumulator) + (fed ? 16 : 0));
  if (simt::staged(p, c)) {
    const std::int64_t lines =
        std::int64_t{c.block_m} / std::max(1, c.thread_m) * c.block_n * size_of(g.accumulator);
    // A ring is filled meanwhile for the next tile.
    w.shared_bytes = fed ? w.shared_bytes + lines : std::max(w.shared_bytes, lines);
  }
  w.tiles =
      tiles_of_rows(g, std::max(1, c.block_m)) * ceil_div(g.columns_of_b(), std::max(1, c.block_n));
  w.passes = ceil_div(g.k, std::max(1, c.block_k));
  if (c.sharing == Sharing::tiles) {
    // Each block counts the tiles of groups once.
    w.blocks = grouped(g)
                   ? std::min(w.tiles, std::int64_t{d.compute_units} * std::max(1, c.resident))
                   : w.tiles;
    return w;
  }
  const bool stream = c.sharing == Sharing::stream;
  w.blocks = stream ? std::min(std::int64_t{d.compute_units} * c.resident,
                               w.tiles * std::max<std::int64_t>(1, w.passes))
                    : w.tiles * c.splits;
  w.zeroed_bytes = kCounterBytes;
  w.workspace_bytes = kCounterBytes + (stream ? 2 * w.blocks : w.blocks) * c.block_m * c.block_n *
                                          size_of(g.accumulator);
  return w;
}

}  // namespace kiln::cuda

namespace kiln::cuda::simt {
namespace {

/// Legal for every valid problem on every NVIDIA device.
std::optional<CudaSimt> fallback(const Problem& p, const DeviceCaps&) {
  const bool small = p.gemm.m <= 32 || p.gemm.n <= 32;
  CudaSimt c{.block_m = small ? 32 : 64,
             .block_n = small ? 32 : 64,
             .block_k = 16,
             .thread_m = 4,
             .thread_n = small ? 4 : 8};
  if (!cuda::band_fits(c.group, ceil_div(p.gemm.columns_of_b(), c.block_n))) c.group = 1;
  return c;
}

/// One k after the other in one accumulator. Parts of split-K end with passes and are added in the
/// order of k. Where stream-K divides k follows from the number of tiles.
std::string summation(const Problem&, const DeviceCaps&, const CudaSimt& c,
                      const cuda::SimtSizes&) {
  if (c.sharing == Sharing::tiles) return "fma chain";
  if (c.sharing != Sharing::split) return {};
  return fmt::format("{} parts of {} k, each fma chain", c.splits, c.block_k);
}

/// Small enough for every type.
std::optional<CudaSimt> plain(const Problem&, const DeviceCaps&) {
  return CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4};
}

constexpr TypedFamily<CudaSimt, cuda::SimtSizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .sizes = cuda::simt_sizes,
    .rules = kRules,
    .enumerate = cuda::enumerate_simt,
    .parameters = parameters,
    .predict_ns = cuda::simt_ns,
    .launch = launch,
    .tile =
        [](const Problem& p, const CudaSimt& c, const cuda::SimtSizes&) {
          return Tile{c.block_m, gated(p.gemm) ? c.block_n / 2 : c.block_n, c.block_k};
        },
    .summation = summation,
    .plain = plain,
    .fallback = fallback,
    .offers = cuda::kOffers | kAnyGroups | taken({"gate", "amax_d"}) |
              Features{Feature::scales_of_integers, Feature::scales_of_lines, Feature::lists,
                       Feature::indexed_rows, Feature::added_rows},
    .row_adder = &cuda::kRowAdder};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::simt
