// Family cuda_simt: axes, rules, parameters and launch of templates/cuda/simt/simt.cu.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "generator/families/cuda/simt/plan.h"
#include "generator/families/cuda/wgmma/plan.h"

namespace kiln {
namespace {

using cuda::plan;
using cuda::shares;

const CudaSimt& typed(const Config& c) { return std::get<CudaSimt>(c); }

constexpr std::array<std::string_view, 13> kFiles{
    "cuda/common/abi.h",      "cuda/common/types.h",   "cuda/common/convert.h",
    "cuda/common/epilogue.h", "cuda/common/swizzle.h", "cuda/common/cp_async.h",
    "cuda/common/hopper.h",   "cuda/simt/ring.h",      "cuda/simt/lanes.h",
    "cuda/common/work.h",     "cuda/simt/copy.h",      "cuda/simt/simt.cu",
    "cuda/simt/fed.cu"};

int quad_of(const Gemm& g) { return 16 / size_of(g.accumulator); }
bool is_power_of_two(int x) { return x > 0 && std::has_single_bit(static_cast<unsigned>(x)); }

/// Elements of D that a thread has side by side.
int run_of(const Gemm& g, const CudaSimt& c) {
  return c.spread ? std::gcd(c.thread_n, quad_of(g)) : c.thread_n;
}

/// Activations are long code: they are expanded once a row of accumulators, not once an
/// accumulator.
bool staged(const Canonical& p, const CudaSimt& c) {
  return c.stages > 0 && p.gemm.epilogue.activation != Activation::none;
}

bool copied_async(const Canonical& p, const DeviceCaps& d, const CudaSimt& c) {
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

const std::array kRules{
    Rule{"D is not an 8-bit float, B is not packed",
         [](const Canonical& p, const DeviceCaps&, const Config&) {
           return p.gemm.d.dtype != fp8_e4m3 && p.gemm.d.dtype != fp8_e5m2 && !p.gemm.b_packed;
         }},
    Rule{"8-bit float operands need sm_89 or later",
         [](const Canonical& p, const DeviceCaps& d, const Config&) {
           const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
           return d.gpu.sm >= 89 || (!is_fp8(p.gemm.a.dtype) && !is_fp8(p.gemm.b.dtype));
         }},
    Rule{"lanes_m is a power of two up to 32, block_m a multiple of lanes_m*thread_m and block_n "
         "of 32/lanes_m*thread_n, and the warps fit a block",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& s = typed(c);
           if (!is_power_of_two(s.lanes_m) || s.lanes_m > 32 || s.thread_m < 1 || s.thread_n < 1 ||
               s.block_m < 1 || s.block_n < 1 || s.block_m > 1024 || s.block_n > 1024)
             return false;
           return s.block_m % (s.lanes_m * s.thread_m) == 0 &&
                  s.block_n % (32 / s.lanes_m * s.thread_n) == 0 &&
                  plan(p, d, s).block_threads <= d.gpu.threads_block;
         }},
    Rule{"block_k is a power of two from 4 to 64 (1 with stages=0), and threads divide the copies "
         "of A and B evenly",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& s = typed(c);
           if (s.stages == 0) return s.block_k == 1 && s.width_a == 1 && s.width_b == 1;
           const int threads = plan(p, d, s).threads;
           return s.block_k >= 4 && s.block_k <= 64 && is_power_of_two(s.block_k) &&
                  shares(s.block_m, s.width_a, p.a_k_major, threads, s.block_k) &&
                  shares(s.block_n, s.width_b, p.b_k_major, threads, s.block_k);
         }},
    Rule{"a read of several elements is 2 to 16 bytes, a power of two that divides the alignment",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto fits = [&](int width, DType t) {
             const int bytes = width * size_of(t);
             return width == 1 ||
                    (bytes <= 16 && is_power_of_two(bytes) && p.gemm.alignment % bytes == 0);
           };
           return fits(typed(c).width_a, p.gemm.a.dtype) && fits(typed(c).width_b, p.gemm.b.dtype);
         }},
    Rule{"copy=async and copy=warps need sm_80 and copies of 4, 8 or 16 bytes of the accumulator's "
         "type (or tf32), of one element along k",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           return typed(c).copy == SimtCopy::registers || copied_async(p, d, typed(c));
         }},
    Rule{"copy=warps needs sm_90a or a later arch-specific target, stages >= 2, ahead=1, "
         "lines=padded, whole "
         "consumer warpgroups and registers for them; other copies need unroll=0",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& s = typed(c);
           if (s.copy != SimtCopy::warps) return s.unroll == 0;
           return d.gpu.sm >= 90 && d.gpu.arch_specific && s.stages >= 2 && s.ahead &&
                  s.lines == SimtLines::padded && plan(p, d, s).threads % 128 == 0 &&
                  plan(p, d, s).consumer_registers > 0;
         }},
    Rule{"copy=warps needs an even unroll that divides block_k",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& s = typed(c);
           if (s.copy != SimtCopy::warps) return true;
           return s.unroll >= 2 && s.unroll % 2 == 0 && s.block_k % s.unroll == 0 &&
                  plan(p, d, s).passes * (s.block_k / s.unroll) < std::int64_t{1} << 31;
         }},
    Rule{"order=folded needs an even thread_m",
         [](const Canonical&, const DeviceCaps&, const Config& c) {
           return typed(c).order != SimtOrder::folded || typed(c).thread_m % 2 == 0;
         }},
    Rule{"stages is 0 to 8, at most 2 with copy=registers, 2 or more with ahead=1; stages=0 needs "
         "lines=plain and order=pairs",
         [](const Canonical&, const DeviceCaps&, const Config& c) {
           const auto& s = typed(c);
           if (s.stages < 0 || s.stages > 8 || (s.ahead && s.stages < 2)) return false;
           if (s.stages == 0) return s.lines == SimtLines::plain && s.order == SimtOrder::pairs;
           return s.copy != SimtCopy::registers || s.stages <= 2;
         }},
    Rule{"block_m and block_n are multiples of 4, with lines=exchanged of 32 or powers of two",
         [](const Canonical&, const DeviceCaps&, const Config& c) {
           const auto& s = typed(c);
           const auto fits = [](int rows) {
             return rows % 32 == 0 || (is_power_of_two(rows) && rows >= 4);
           };
           // Padding and exchanging both keep quads whole.
           if (s.stages == 0) return true;
           return s.block_m % 4 == 0 && s.block_n % 4 == 0 &&
                  (s.lines != SimtLines::exchanged || (fits(s.block_m) && fits(s.block_n)));
         }},
    Rule{"accumulators, operands and copies in flight fit the registers of resident blocks",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& s = typed(c);
           const auto w = plan(p, d, s);
           if (s.resident < 1 || s.resident * w.block_threads > d.gpu.threads_unit) return false;
           const double reads =
               s.stages == 0
                   ? 0
                   : double(s.block_m / s.width_a + s.block_n / s.width_b) * s.block_k / w.threads;
           // Data in flight in registers, or the addresses of cp.async copies.
           const double copies =
               s.stages == 0 || s.copy == SimtCopy::warps ? 0
               : s.copy == SimtCopy::registers
                   ? double(s.block_m + s.block_n) * s.block_k / w.threads * w.words
                   : 1.5 * reads;
           const int factors = (s.thread_m + s.thread_n) * (s.ahead ? 2 : 1);
           const double wanted = (s.thread_m * s.thread_n + factors) * w.words + copies;
           // Addresses, counters and what the compiler reads early: counted in compiled kernels.
           const int others = s.copy != SimtCopy::warps && s.ahead ? 40 : 24;
           const int room = s.copy == SimtCopy::warps
                                ? w.consumer_registers
                                : std::min(255, d.gpu.registers_unit / (w.threads * s.resident));
           return wanted + others <= room;
         }},
    Rule{"stages of resident blocks fit shared memory",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto bytes = plan(p, d, typed(c)).shared_bytes;
           // 16 bytes more for the flag of a split tile.
           return bytes + 16 <= d.gpu.shared_block_bytes &&
                  (bytes + 1024) * typed(c).resident <= d.gpu.shared_unit_bytes;
         }},
    Rule{"sharing is tiles, split or stream",
         [](const Canonical&, const DeviceCaps&, const Config& c) {
           return typed(c).sharing != Sharing::summed;
         }},
    Rule{"splits is 2 to 64 and at most the passes over k with sharing=split, otherwise 1",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& s = typed(c);
           if (s.sharing != Sharing::split) return s.splits == 1;
           return s.splits >= 2 && s.splits <= 64 && plan(p, d, s).passes >= s.splits;
         }},
    Rule{"the counters of split-K and stream-K fit 64 KiB",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           return typed(c).sharing == Sharing::tiles ||
                  plan(p, d, typed(c)).tiles * 4 <= cuda::kCounterBytes;
         }},
    Rule{"sharing=stream needs k >= 1, and stream-K shares of k fit 31 bits",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           if (typed(c).sharing != Sharing::stream) return true;
           const auto w = plan(p, d, typed(c));
           // Without passes no block has a share of the divided tiles.
           return w.passes > 0 &&
                  2.0 * double(w.blocks) * double(w.passes) * double(w.blocks + 1) < 2e9;
         }},
    Rule{"group is 1 to 64, and tile numbers and passes over k fit 31 bits",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           return typed(c).group >= 1 && typed(c).group <= 64 &&
                  cuda::band_fits(typed(c).group, ceil_div(p.gemm.n, typed(c).block_n)) &&
                  plan(p, d, typed(c)).tiles * typed(c).splits < std::int64_t{1} << 30 &&
                  plan(p, d, typed(c)).passes < std::int64_t{1} << 31;
         }},
};

template <typename E>
std::string name_of(E value) {
  for (const auto& named : names_of(value))
    if (named.value == value) return std::string(named.name);
  return {};
}

void add_values(Parameters& out, const Canonical& p, const CudaSimt& c) {
  out.values["staged"] = value_of(staged(p, c));
  out.values["stages"] = c.stages == 0 ? "none" : std::to_string(c.stages);
  out.values["copy"] = name_of(c.copy);
  out.values["lines"] = name_of(c.lines);
  out.values["sharing"] = name_of(c.sharing);
  out.values["sums_of_warps"] = value_of(false);
  out.values["ahead"] = value_of(c.ahead);
  out.values["order"] = name_of(c.order);
  out.values["hopper"] = value_of(c.copy == SimtCopy::warps);
}

Parameters parameters(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& c = typed(config);
  const auto w = plan(p, d, c);
  Parameters out;
  cuda::add_common(out, p, d);
  add_values(out, p, c);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  const int aligned = std::max(1, p.gemm.alignment / size_of(p.gemm.d.dtype));
  const int together = std::min({run_of(p.gemm, c), aligned, 16 / size_of(p.gemm.d.dtype)});
  add("kBlockM", c.block_m, "rows of D in a block's tile");
  add("kBlockN", c.block_n, "columns of D in it");
  add("kBlockK", c.block_k, "k of one pass");
  add("kThreadM", c.thread_m, "rows of a thread's sums");
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
  add("kStoreWidth", std::gcd(together, run_of(p.gemm, c)), "elements of D stored at once");
  add("kGroup", c.group, "rows of tiles walked together");
  if (c.sharing != Sharing::tiles)
    add("kCounterBytes", w.zeroed_bytes, "front of the workspace, counters of tiles");
  if (c.sharing == Sharing::split) add("kSplits", c.splits, "parts that k is cut into");
  out.constants.push_back(flag("kAlongKA", p.a_k_major, "A's neighbours run along k"));
  out.constants.push_back(flag("kAlongKB", p.b_k_major, "B's neighbours run along k"));
  return out;
}

GpuLaunch launch(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto w = plan(p, d, typed(config));
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

namespace cuda {

bool shares(int rows, int width, bool along_k, int threads, int block_k) {
  const auto one_divides = [](int a, int b) {
    return a > 0 && b > 0 && (a % b == 0 || b % a == 0);
  };
  constexpr int kSector = 8;  // elements of k that are read together from a row, as in the template
  if (threads <= 0 || !is_power_of_two(width) || rows * block_k % (width * threads) != 0)
    return false;
  if (!along_k) return rows % width == 0 && one_divides(threads, rows / width);
  const int piece = std::min(block_k, kSector);
  if (piece % width != 0) return false;
  const int across = piece / width;
  return threads % across == 0 && one_divides(threads / across, rows);
}

SimtPlan plan(const Canonical& p, const DeviceCaps& d, const CudaSimt& c) {
  const Gemm& g = p.gemm;
  SimtPlan w{};
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
  const int pad = c.lines == SimtLines::padded ? 2 * quad_of(g) : 0;
  w.shared_bytes =
      std::int64_t{c.stages} *
      ((c.block_m + c.block_n + pad) * c.block_k * size_of(g.accumulator) + (fed ? 16 : 0));
  if (staged(p, c)) {
    const std::int64_t lines =
        std::int64_t{c.block_m} / std::max(1, c.thread_m) * c.block_n * size_of(g.accumulator);
    // A ring is filled meanwhile for the next tile.
    w.shared_bytes = fed ? w.shared_bytes + lines : std::max(w.shared_bytes, lines);
  }
  w.tiles = ceil_div(g.m, std::max(1, c.block_m)) * ceil_div(g.n, std::max(1, c.block_n)) * g.batch;
  w.passes = ceil_div(g.k, std::max(1, c.block_k));
  if (c.sharing == Sharing::tiles) {
    w.blocks = w.tiles;
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

Family simt_family() {
  return {CudaSimt::kFamily, kFiles, cuda::enumerate_simt,  kRules, parameters, simt_ns,
          Vendor::nvidia,    launch, cuda::only_line_scales};
}

Config simt_fallback(const Canonical& p) {
  const bool small = p.gemm.m <= 32 || p.gemm.n <= 32;
  CudaSimt c{.block_m = small ? 32 : 64,
             .block_n = small ? 32 : 64,
             .block_k = 16,
             .thread_m = 4,
             .thread_n = small ? 4 : 8};
  if (!band_fits(c.group, ceil_div(p.gemm.n, c.block_n))) c.group = 1;
  return c;
}

}  // namespace cuda
}  // namespace kiln
