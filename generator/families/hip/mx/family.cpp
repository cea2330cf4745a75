// Family hip_mx: axes, rules, parameters, launch and model of templates/hip/mx/mx.hip.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "generator/families/hip/mfma/sizes.h"
#include "generator/families/hip/mx/config.h"
#include "generator/problem/extent.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::hip::mx {
namespace {

constexpr std::array<std::string_view, 14> kFiles{
    "cuda/common/abi.h",       "hip/common/types.h",  "hip/common/device.h",
    "hip/common/memory_gcn.h", "hip/common/memory.h", "hip/common/convert.h",
    "hip/common/epilogue.h",   "hip/mx/mx.h",         "hip/mx/stage.h",
    "hip/common/schedule.h",   "hip/mx/mx.hip",       "hip/common/combine.h",
    "hip/common/store.h",      "hip/mx/kernel.hip"};

/// Bytes of nothing behind each row in shared memory.
constexpr int kPad = 16;

const hip::MfmaInstruction* instruction_of(const DeviceCaps& d, int rows) {
  for (const auto& i : hip::kMfma)
    if (i.scaled() && i.mn == rows && (i.archs & hip::arch_set(d.arch)) != 0) return &i;
  return nullptr;
}

/// The instruction's code of an operand's format.
int format_code(DType t) {
  constexpr DType kFormats[] = {fp8_e4m3, fp8_e5m2, fp6_e2m3, fp6_e3m2, fp4_e2m1};
  return static_cast<int>(std::ranges::find(kFormats, t) - std::begin(kFormats));
}

int power_of_two_in(std::int64_t value, int most) {
  int power = 1;
  while (power < most && value % (power * 2) == 0) power *= 2;
  return power;
}

/// Bytes of one load of codes, as in hip_mfma: within a line, and of more than two only where
/// addresses are multiples of four.
int load_width(const Gemm& g, Operand which) {
  const int aligned = line_alignment(g, which);
  const int width = power_of_two_in(bytes_of(dtype_of(g, which), g.k), 16);
  return aligned >= 4 ? width : std::min(width, aligned);
}

/// A problem and a config as the kernel sees them.
struct MxSizes {
  int waves, threads, stages;
  int row_a, row_b;  // bytes of a row in one stage, in memory
  int blocks_m, blocks_n;
  std::int64_t shared_bytes;
  int registers;  // of a lane, roughly
  std::int64_t tiles_m, tiles_n, tiles, blocks;
  std::int64_t counter_bytes, workspace_bytes;
};

MxSizes sizes_of(const Problem& p, const DeviceCaps&, const HipMx& c) {
  const Gemm& g = p.gemm;
  MxSizes w{};
  w.waves = c.waves_m * c.waves_n;
  w.threads = 64 * w.waves;
  w.stages = c.staging == Staging::single ? 1 : 2;
  w.row_a = c.tile_k * bits_of(g.a.dtype) / 8;
  w.row_b = c.tile_k * bits_of(g.b.dtype) / 8;
  w.blocks_m = c.tile_m / c.waves_m / c.rows;
  w.blocks_n = c.tile_n / c.waves_n / c.rows;
  w.shared_bytes =
      std::int64_t{w.stages} * (c.tile_m * (w.row_a + kPad) + c.tile_n * (w.row_b + kPad));
  const int next = (c.tile_m * w.row_a + c.tile_n * w.row_b) / 4 / w.threads;
  const int scales = (w.blocks_m + w.blocks_n) * (1 + c.tile_k / 128);
  // Registers of one lane's codes; those of six bits pass through two whole units.
  const auto words = [](DType t) { return bits_of(t) == 4 ? 4 : 8; };
  const int six = bits_of(g.a.dtype) == 6 || bits_of(g.b.dtype) == 6 ? 32 : 0;
  w.registers = w.blocks_m * w.blocks_n * c.rows * c.rows / 64 + next +
                w.blocks_n * words(g.b.dtype) + 2 * words(g.a.dtype) + scales + six + 48;
  w.tiles_m = ceil_div(g.m, c.tile_m);
  w.tiles_n = ceil_div(g.n, c.tile_n);
  w.tiles = w.tiles_m * w.tiles_n * g.batch;
  w.blocks = w.tiles * c.splits;
  if (c.splits > 1) {
    w.counter_bytes = round_up(w.tiles * 4, 256);
    w.workspace_bytes = w.counter_bytes + w.blocks * c.tile_m * c.tile_n * size_of(g.accumulator);
  }
  return w;
}

bool shares_evenly(const HipMx& c) {
  return c.waves_m >= 1 && c.waves_n >= 1 && c.waves_m * c.waves_n <= 16 && c.tile_m >= 16 &&
         c.tile_n >= 16 && c.tile_m % (c.waves_m * c.rows) == 0 &&
         c.tile_n % (c.waves_n * c.rows) == 0;
}

constexpr FirstRule<HipMx> kFirst[] = {
    {"the target has a scaled matrix instruction of rows; m and n are at least 1",
     [](const Problem& p, const DeviceCaps& d, const HipMx& c) {
       return p.gemm.m >= 1 && p.gemm.n >= 1 && instruction_of(d, c.rows) != nullptr;
     }},
    {"both operands are k-major",
     [](const Problem& p, const DeviceCaps&, const HipMx&) { return p.a_k_major && p.b_k_major; }},
    {"tile_m is a multiple of waves_m*rows, tile_n of waves_n*rows, and waves are at most 16",
     [](const Problem&, const DeviceCaps&, const HipMx& c) { return shares_evenly(c); }},
    {"tile_k is 128 or 256", [](const Problem&, const DeviceCaps&, const HipMx& c) {
       return c.tile_k == 128 || c.tile_k == 256;
     }}};

constexpr Rule<HipMx, MxSizes> kRules[] = {
    {"threads divide the copies of A and B evenly",
     [](const Problem&, const DeviceCaps&, const HipMx& c, const MxSizes& w) {
       return c.tile_m * w.row_a / 16 % w.threads == 0 && c.tile_n * w.row_b / 16 % w.threads == 0;
     }},
    {"staging is single or twice",
     [](const Problem&, const DeviceCaps&, const HipMx& c, const MxSizes&) {
       return c.staging == Staging::single || c.staging == Staging::twice;
     }},
    {"stages fit shared memory",
     [](const Problem&, const DeviceCaps& d, const HipMx&, const MxSizes& w) {
       return w.shared_bytes <= d.gpu.shared_block_bytes;
     }},
    {"accumulators, fragments and the next stage fit the registers",
     [](const Problem&, const DeviceCaps&, const HipMx&, const MxSizes& w) {
       return w.registers <= hip::register_limit(w.waves);
     }},
    {"splits is 1 to 64, with 2 or more stages of k each",
     [](const Problem& p, const DeviceCaps&, const HipMx& c, const MxSizes&) {
       return c.splits >= 1 && c.splits <= 64 &&
              (c.splits == 1 || ceil_div(p.gemm.k, c.tile_k) >= 2 * c.splits);
     }},
    {"group is 1 to 64, chunk 0 to 1024, 0 on a device of one chiplet",
     [](const Problem&, const DeviceCaps& d, const HipMx& c, const MxSizes&) {
       return c.group >= 1 && c.group <= 64 && c.chunk >= 0 && c.chunk <= 1024 &&
              (c.chunk == 0 || d.gpu.chiplets > 1);
     }},
    {"offsets in a tile fit 31 bits, and the grid has fewer than 2^32 threads",
     [](const Problem& p, const DeviceCaps&, const HipMx& c, const MxSizes& w) {
       const Gemm& g = p.gemm;
       const std::int64_t most = std::int64_t{1} << 31;
       return (c.tile_m + 1) * bytes_of(g.a.dtype, g.a.ld) < most &&
              (c.tile_n + 1) * bytes_of(g.b.dtype, g.b.ld) < most && g.k < most / 8 &&
              hip::launchable(w.blocks, w.threads);
     }}};

constexpr std::array kRows{16, 32};  // of an instruction
constexpr std::array kTiles{16, 32, 64, 128, 256};
constexpr std::array kDepths{128, 256};
constexpr std::array kStagings{Staging::single, Staging::twice};
constexpr std::pair<int, int> kWaves[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2},
                                          {1, 4}, {4, 1}, {2, 4}, {4, 2}};

void visit_launches(const Problem& p, const DeviceCaps& d, HipMx c,
                    const std::function<void(const Config&)>& visit) {
  const auto w = sizes_of(p, d, c);
  const bool many = w.tiles > d.compute_units;
  for (const int chunk : {0, 64}) {
    if (chunk > 0 && (d.gpu.chiplets < 2 || !many)) continue;
    for (const int group : {4, 8}) {
      if (group != 4 && (!many || w.tiles_m <= 4)) continue;
      c.chunk = chunk;
      c.group = group;
      visit(c);
    }
  }
  c.chunk = 0;
  c.group = 4;
  for (const int splits : {2, 3, 4, 6, 8, 12, 16, 32}) {
    if (w.tiles * splits > 3 * d.compute_units) break;
    c.splits = splits;
    visit(c);
  }
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  if (g.m < 1 || g.n < 1 || g.a.q.scale != Scale::mx_32) return;
  Product(kRows, kTiles, kTiles, kWaves, kDepths, kStagings)
      .each([&](int rows, int m, int n, std::pair<int, int> waves, int depth, Staging staging) {
        // A tile much larger than the problem computes nothing but zeros.
        if ((m > rows && m / 2 >= g.m) || (n > rows && n / 2 >= g.n)) return;
        HipMx c{.rows = rows, .tile_m = m, .tile_n = n, .tile_k = depth};
        c.waves_m = waves.first, c.waves_n = waves.second, c.staging = staging;
        if (!shares_evenly(c) || !broken_rule(p, d, c).empty()) return;
        visit_launches(p, d, c, visit);
      });
}

void add_sizes(Parameters& out, const Problem& p, const DeviceCaps& d, const HipMx& c,
               const MxSizes& w) {
  const Gemm& g = p.gemm;
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kTileM", c.tile_m, "rows of D in a block's tile");
  add("kTileN", c.tile_n, "columns of it");
  add("kTileK", c.tile_k, "k of one stage");
  add("kBitsA", bits_of(g.a.dtype), "of a code of A");
  add("kBitsB", bits_of(g.b.dtype), "of a code of B");
  add("kWavesM", c.waves_m, "waves along m");
  add("kWavesN", c.waves_n, "waves along n");
  add("kThreads", w.threads, "of a block");
  add("kWavesPerUnit", (w.waves + 3) / 4, "waves of a block that share a SIMD");
  add("kRows", c.rows, "rows and columns of one instruction");
  add("kSums", c.rows * c.rows / 64, "accumulators of a lane, for one instruction");
  add("kStages", w.stages, "in shared memory");
  add("kSharedBytes", w.shared_bytes, "of all stages");
  add("kWidthA", load_width(g, Operand::a), "bytes of a load of A");
  add("kWidthB", load_width(g, Operand::b), "bytes of a load of B");
  add("kScaleWidth", power_of_two_in(g.k / 32, 4), "bytes of a load of scales");
  add("kFormatA", format_code(g.b.dtype), "of the instruction's first operand, B");
  add("kFormatB", format_code(g.a.dtype), "of the second, A");
  add("kGroup", c.group, "rows of tiles in a band of the rasterization");
  add("kSplits", c.splits, "parts that k is divided into");
  if (c.chunk > 0) {
    add("kChiplets", d.gpu.chiplets, "that blocks are dealt to in turn");
    add("kChunk", c.chunk, "neighbouring blocks that one chiplet gets");
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HipMx& c, const MxSizes& w) {
  const Gemm& g = p.gemm;
  const auto& i = *instruction_of(d, c.rows);
  Parameters out;
  hip::add_common(out, p, d);
  const int d_bytes = size_of(g.d.dtype);
  const bool wide = g.n % 4 == 0 && alignment_of_d(g) >= 4 * d_bytes;
  if (wide)
    out.constants.push_back(
        {"using", "Four", fmt::format("Vector<u{}, 4>", 8 * d_bytes), "four elements of D"});
  add_sizes(out, p, d, c, w);
  out.constants.push_back(
      {"define", "KILN_MFMA", fmt::format("mfma_scale_{0}x{0}x{1}", i.mn, i.k), ""});
  out.constants.push_back(
      {"define", "KILN_MFMA_BUILTIN", fmt::format("__builtin_amdgcn_{}", i.builtin), ""});
  auto& v = out.values;
  v["has_fp8"] = "0";  // codes go into the instruction as they are
  v["direct"] = v["priority"] = v["fence"] = "0";
  v["pipeline"] = name(c.staging);
  v["ragged_k"] = value_of(g.k % c.tile_k != 0);
  v["remap"] = value_of(c.chunk > 0);
  v["split"] = value_of(c.splits > 1);
  v["wide_store"] = value_of(wide);
  return out;
}

GpuLaunch launch(const Problem& p, const DeviceCaps&, const HipMx&, const MxSizes& w) {
  if (p.gemm.m == 0 || p.gemm.n == 0) return {};
  GpuLaunch out = hip::one_step(w.blocks, w.threads);
  out.workspace_bytes = w.workspace_bytes;
  out.zeroed_bytes = w.counter_bytes;
  return out;
}

double predict(const Problem& p, const DeviceCaps& d, const HipMx& c, const MxSizes& w) {
  const Gemm& g = p.gemm;
  const auto& i = *instruction_of(d, c.rows);
  const bool bytes_wide = bits_of(g.a.dtype) == 8 || bits_of(g.b.dtype) == 8;
  const int by_shared = static_cast<int>(d.gpu.shared_unit_bytes / w.shared_bytes);
  const int waves_of_simd = 512 / std::clamp(w.registers, 64, 512);
  const int resident = std::clamp(std::min(by_shared, waves_of_simd * 4 / w.waves), 1, 8);
  const double waves = double(w.waves) * resident;  // of a compute unit, on four SIMDs
  const double steps = double(c.tile_k) / i.k;
  const double multiply = double(w.waves) * steps * w.blocks_m * w.blocks_n *
                          (bytes_wide ? i.cycles : i.cycles / 2) / 4 * (c.rows == 32 ? 1.1 : 1.0) *
                          4 / std::min(4.0, waves);
  // Units of 16 bytes at 128 bytes a cycle; codes of six bits take whole units for their halves.
  const auto units = [](int bits) { return bits == 4 ? 1.0 : 2.0; };
  const double reads =
      double(w.waves) * steps * 8 *
      (w.blocks_m * units(bits_of(g.a.dtype)) + w.blocks_n * units(bits_of(g.b.dtype)));
  const double shared = reads + (c.tile_m * w.row_a + c.tile_n * w.row_b) / 128.0;
  constexpr double kBarrier = 60, kMemory = 800;  // cycles
  double stage = waves >= 8 ? std::max(multiply, shared) + 0.15 * std::min(multiply, shared)
                            : multiply + 0.5 * shared;
  stage += kBarrier / resident * (c.staging == Staging::single ? 2 : 1);
  const double stages = double(ceil_div(ceil_div(g.k, c.tile_k), c.splits));
  const double rounds =
      double(ceil_div(w.blocks, std::int64_t{d.compute_units} * resident)) * resident;
  const double store = double(c.tile_m) * c.tile_n * size_of(g.d.dtype) / 64 + kMemory;
  double cycles = rounds * (stages * stage + store / resident) + 2 * kMemory;
  if (c.splits > 1) cycles += kMemory + double(c.tile_m) * c.tile_n * 4 * c.splits / 64;
  const double clock = d.ghz > 0 ? d.ghz : 1;
  const double through_l2 = double(w.blocks) * stages * (c.tile_m * w.row_a + c.tile_n * w.row_b) *
                            (c.chunk > 0 ? 0.9 : 1.0);
  const double l2_ns = through_l2 / (d.compute_units * 32.0 * clock);
  const double memory_ns =
      double(span_bytes(g, Operand::a) + span_bytes(g, Operand::b) + span_bytes(g, Operand::d)) /
      std::max(1, d.gpu.memory_gbs) / 0.8;
  return std::max({cycles / clock, l2_ns, memory_ns}) + 0.2 * (l2_ns + memory_ns) + 2000;
}

/// As in hip_mfma.
std::string summation(const Problem&, const DeviceCaps&, const HipMx& c, const MxSizes&) {
  const std::string chain = fmt::format("scaled mfma {0}x{0} chain", c.rows);
  return c.splits == 1 ? chain
                       : fmt::format("{} parts of {} k, each {}", c.splits, c.tile_k, chain);
}

std::optional<HipMx> plain(const Problem&, const DeviceCaps&) {
  return HipMx{.rows = 16,
               .tile_m = 64,
               .tile_n = 64,
               .tile_k = 256,
               .waves_m = 2,
               .waves_n = 2,
               .staging = Staging::single};
}

constexpr TypedFamily<HipMx, MxSizes> kRow{.vendor = Vendor::amd,
                                           .files = kFiles,
                                           .first_rules = kFirst,
                                           .sizes = sizes_of,
                                           .rules = kRules,
                                           .enumerate = enumerate,
                                           .parameters = parameters,
                                           .predict_ns = predict,
                                           .launch = launch,
                                           .tile =
                                               [](const Problem&, const HipMx& c, const MxSizes&) {
                                                 return Tile{c.tile_m, c.tile_n, c.tile_k};
                                               },
                                           .summation = summation,
                                           .plain = plain,
                                           .offers = kOffers | Features{Feature::scales_mx_32}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::hip::mx
