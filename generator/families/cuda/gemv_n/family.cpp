// Family cuda_gemv_n: axes, rules, parameters, launch and model of templates/cuda/gemv_n/gemv_n.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cuda/gemv_n/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/problem/extent.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::gemv_n {
namespace {

using C = CudaGemvN;

/// Accumulators of more rows than this do not fit the registers beside the operands.
constexpr int kMostThin = 16;
constexpr int kMatrixLines = 16;  // of k, of a matrix instruction

constexpr std::array<std::string_view, 17> kFiles{
    "cuda/common/abi.h",          "cuda/common/types.h",     "cuda/common/convert_ptx.h",
    "cuda/common/convert.h",      "cuda/common/epilogue.h",  "cuda/gemv/read.h",
    "cuda/gemv/store.h",          "cuda/gemv/words.h",       "cuda/common/grid_ptx.h",
    "cuda/common/partials_ptx.h", "cuda/simt/combine_ptx.h", "cuda/common/mma_ptx.h",
    "cuda/common/mma.h",          "cuda/gemv_n/wide.h",      "cuda/gemv_n/sums.h",
    "cuda/gemv_n/matrix_sums.h",  "cuda/gemv_n/gemv_n.cu"};

struct Sizes {
  std::int64_t thin, wide;  // rows of either side, as the problem has them
  int each;                 // elements of a word
  bool aligned;             // lines begin with words
  int columns, tile;        // that a warp reads of a line, and of D of a block
  int turn, panel;          // lines of k between two fetches, and of the thin rows in shared memory
  int registers;            // an estimate, of one thread
  int resident;             // blocks of an SM
  std::int64_t shared_bytes, tiles, blocks;
  const MmaInstruction* instruction;  // null where matrix=1 has none
  bool overlaps;                      // grids may begin while the one before them ends
};

std::int64_t thin_of(const Gemm& g, const C& c) { return c.swap ? g.n : g.m; }
int thin_tiles(const C& c) { return (c.thin + 7) / 8; }

int registers_of(const Gemm& g, const C& c, const Sizes& w) {
  if (c.matrix) return c.words * (16 * (c.ahead + thin_tiles(c)) + 6 * c.ahead) + 40;
  const int words = size_of(g.accumulator) / 4;
  return words * (c.thin * w.each + w.each) + 4 * c.ahead + 36;
}

/// As the templates lay shared memory out: a panel of the thin rows, the warps' sums, and with
/// splits=1 the whole tile.
std::int64_t shared_bytes_of(const Gemm& g, const C& c, const Sizes& w) {
  const std::int64_t sum = size_of(g.accumulator);
  const std::int64_t panel = c.matrix ? std::int64_t{16} * thin_tiles(c) * (w.panel + 16)
                                      : w.panel * round_up(c.thin * sum, 16);
  const std::int64_t part = c.matrix ? w.columns / w.each * 9 : w.each * 33;
  return panel + c.warps * part * sum + (c.splits == 1 ? c.thin * w.tile * sum : 0);
}

Sizes sizes_of(const Problem& p, const DeviceCaps& d, const C& c) {
  const Gemm& g = p.gemm;
  Sizes w{};
  w.thin = thin_of(g, c);
  w.wide = c.swap ? g.m : g.n;
  w.each = 16 / size_of(c.swap ? g.a.dtype : g.b.dtype);
  w.aligned = line_alignment(g, c.swap ? Operand::a : Operand::b) >= 16;
  w.columns = (c.matrix ? 8 * c.words : 32) * w.each;
  w.tile = w.aligned ? w.columns : w.columns - w.each;
  w.turn = c.warps * c.ahead * (c.matrix ? kMatrixLines : 1);
  // Lines that are laid out together: each time all warps wait for memory.
  const int lines = c.matrix ? 512 : 256;
  w.panel = std::max(1, lines / w.turn) * w.turn;
  w.registers = registers_of(g, c, w);
  const int threads = 32 * c.warps;
  const int block = static_cast<int>(round_up(w.registers, 8)) * threads;
  w.resident = std::max(1, std::min(d.gpu.registers_unit / block, d.gpu.threads_unit / threads));
  w.shared_bytes = shared_bytes_of(g, c, w);
  w.tiles = ceil_div(w.wide, w.tile) * g.batch;
  w.blocks = w.tiles * c.splits;
  w.instruction =
      g.a.dtype == g.b.dtype && size_of(g.a.dtype) == 2 ? mma_instruction(g, d, 16) : nullptr;
  w.overlaps = d.gpu.sm >= 90;
  return w;
}

constexpr FirstRule<C> kFirst[] = {
    {"m (n with swap=1) is 1 to thin, the other side's operand is not k-major, B is not packed",
     [](const Problem& p, const DeviceCaps&, const C& c) {
       const std::int64_t thin = thin_of(p.gemm, c);
       return thin >= 1 && thin <= c.thin && !p.gemm.b_packed &&
              !(c.swap ? p.a_k_major : p.b_k_major);
     }},
    {"thin is 1, 2, 4, 8 or 16, warps 1 to 32, ahead 1 to 8, splits 1 to 64, words 1, 2 or 4 with "
     "matrix=1 and 1 without",
     [](const Problem&, const DeviceCaps&, const C& c) {
       const bool words = c.words == 1 || (c.matrix && (c.words == 2 || c.words == 4));
       return c.thin >= 1 && c.thin <= kMostThin && (c.thin & (c.thin - 1)) == 0 && c.warps >= 1 &&
              c.warps <= 32 && c.ahead >= 1 && c.ahead <= 8 && c.splits >= 1 && c.splits <= 64 &&
              words;
     }},
    {"8-bit float operands need sm_89 or later",
     [](const Problem& p, const DeviceCaps& d, const C&) {
       const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
       return d.gpu.sm >= 89 || (!is_fp8(p.gemm.a.dtype) && !is_fp8(p.gemm.b.dtype));
     }}};

constexpr Rule<C, Sizes> kRules[] = {
    {"warps is a multiple of the elements of 16 bytes, unless lines are aligned to these",
     [](const Problem&, const DeviceCaps&, const C& c, const Sizes& w) {
       return w.aligned || c.warps % w.each == 0;
     }},
    {"matrix=1 needs 16-bit operands and a device with their instruction",
     [](const Problem&, const DeviceCaps&, const C& c, const Sizes& w) {
       return !c.matrix || w.instruction != nullptr;
     }},
    {"accumulators and lines on their way fit the registers",
     [](const Problem&, const DeviceCaps& d, const C& c, const Sizes& w) {
       return w.registers <= std::min(255, d.gpu.registers_unit / (32 * c.warps));
     }},
    {"a panel of the thin rows and the warps' sums fit 47 KiB",
     [](const Problem&, const DeviceCaps&, const C&, const Sizes& w) {
       return w.shared_bytes <= (47 << 10);
     }},
    {"with splits, k has at least as many lines, and a counter a tile fits 64 KiB",
     [](const Problem& p, const DeviceCaps&, const C& c, const Sizes& w) {
       return c.splits == 1 || (p.gemm.k >= c.splits && w.tiles * 4 <= kCounterBytes);
     }},
    {"the grid has fewer than 2^31 blocks",
     [](const Problem&, const DeviceCaps&, const C&, const Sizes& w) {
       return w.blocks < std::int64_t{1} << 31;
     }}};

constexpr std::array kWarps{2, 4, 8, 16};
constexpr std::array kWords{1, 2, 4};
constexpr std::array kAhead{1, 2, 4, 8};
constexpr std::array kSplits{1, 2, 3, 4, 6, 8, 16, 32};

void enumerate(const Problem& p, const DeviceCaps&,
               const std::function<void(const Config&)>& visit) {
  for (const bool swap : {false, true}) {
    const std::int64_t thin = swap ? p.gemm.n : p.gemm.m;
    if (thin > kMostThin) continue;
    for (const int room : {1, 2, 4, 8, 16}) {
      if (room < thin || (room > 1 && room / 2 >= thin)) continue;
      Product(kNoYes, kWarps, kWords, kAhead, kSplits)
          .each([&](bool matrix, int warps, int words, int ahead, int splits) {
            if (!matrix && words > 1) return;
            visit(C{.thin = room,
                    .warps = warps,
                    .ahead = ahead,
                    .words = words,
                    .splits = splits,
                    .matrix = matrix,
                    .swap = swap});
          });
    }
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const C& c, const Sizes& w) {
  Parameters out;
  add_common(out, p, d);
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kThin", c.thin, "rows of the thin operand that there is room for");
  add("kWarps", c.warps, "of a block, which take lines of k in turn");
  add("kAhead", c.ahead,
      c.matrix ? "groups of 16 lines on their way to a warp" : "lines on their way to a warp");
  add("kPanel", w.panel, "lines of the thin rows in shared memory at once");
  out.constants.push_back(
      flag("kAligned", w.aligned, "lines of the wide operand begin with words"));
  if (c.matrix) {
    const MmaInstruction& m = *w.instruction;
    out.constants.push_back({"using", "Fragment", "u32", "a register of an operand"});
    add("kWords", c.words, "of a lane, 8 words of the line apart");
    add("kChunks", 1, "parts of a step of the instruction");
    add("kMmaSums", m.accumulators(), "accumulator registers of the matrix instruction");
    add("kMmaA", m.a_registers(), "registers of the wide operand");
    add("kMmaB", m.b_registers(), "registers of the thin one");
    add_mma_lists(out, m, p.gemm);
  }
  add("kSplits", c.splits, "parts that k is divided into");
  if (c.splits > 1)
    add("kCounterBytes", kCounterBytes, "front of the workspace, counters of tiles");
  out.constants.push_back(flag("kSwap", c.swap, "thin is B"));
  out.constants.push_back(flag("kThinAlongK", c.swap ? p.b_k_major : p.a_k_major,
                               "the thin operand's neighbours run along k"));
  out.constants.push_back({"define", "KILN_THIN", c.swap ? "TypeB" : "TypeA", ""});
  out.constants.push_back({"define", "KILN_WIDE", c.swap ? "TypeA" : "TypeB", ""});
  out.values["by_words"] = out.values["any_thin"] = value_of(true);
  out.values["matrix"] = value_of(c.matrix);
  out.values["overlaps"] = value_of(w.overlaps);
  out.values["splits"] = value_of(c.splits > 1);
  out.values["sharing"] = name(c.splits > 1 ? Sharing::split : Sharing::tiles);
  out.values["summed"] = value_of(false);
  return out;
}

GpuLaunch launch(const Problem& p, const DeviceCaps&, const C& c, const Sizes& w) {
  GpuLaunch out;
  if (c.splits > 1) {
    out.zeroed_bytes = kCounterBytes;
    out.workspace_bytes = kCounterBytes + w.blocks * c.thin * w.tile * size_of(p.gemm.accumulator);
  }
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.blocks);
  step.block.x = static_cast<unsigned>(c.warps * 32);
  step.overlaps_previous = w.overlaps;
  if (step.grid.x > 0) out.steps.push_back(step);
  return out;
}

Tile tile(const Problem&, const C& c, const Sizes& w) {
  const std::int64_t turn = std::int64_t{w.turn} * c.splits;
  return c.swap ? Tile{w.tile, c.thin, turn} : Tile{c.thin, w.tile, turn};
}

double predict(const Problem& p, const DeviceCaps& d, const C& c, const Sizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = d.ghz > 0 ? d.ghz : 1.5, units = std::max(1, d.compute_units);
  const double lines = std::ceil(double(g.k) / c.splits);  // of a block
  const int together = c.matrix ? kMatrixLines : 1;
  const double steps = std::ceil(lines / (c.warps * together));  // of a warp
  const double step_bytes = double(w.columns) * together * 16 / w.each;
  const double per_unit = std::ceil(double(w.blocks) / units);
  const double resident = std::clamp(per_unit, 1.0, double(w.resident));
  // Of a step: loads and their addresses, the thin rows' elements, and the products.
  const double issued = c.matrix ? 20 + c.words * (44.0 + 4.0 * thin_tiles(c))
                                 : 22 + w.each * (1.0 + c.thin) + c.thin / 4.0;
  const double issue = per_unit * c.warps * steps * issued / std::min(4.0, resident * c.warps);
  // What a latency of about 900 cycles can deliver, and memory.
  const double flight = resident * c.warps * std::min(steps, double(c.ahead)) * step_bytes;
  const double rate = std::min(0.85 * std::max(1, d.gpu.memory_gbs) / units / ghz, flight / 900);
  const double memory = per_unit * c.warps * steps * step_bytes / rate;
  const double waves = std::ceil(per_unit / resident);
  const double layouts = std::ceil(lines / w.panel);
  const double sums = double(w.thin) * (80 + double(w.tile) / 32);
  const double combine = c.splits == 1 ? 0 : 1500 + 30.0 * c.splits * double(w.thin) / c.warps;
  const double edges = waves * (900 + 500 * layouts + sums + combine);
  return 2500 + (std::max(memory, issue) + 0.2 * std::min(memory, issue) + edges) / ghz;
}

/// Which lines a warp has depends on the number of warps and of parts alone.
std::string summation(const Problem&, const DeviceCaps&, const C& c, const Sizes&) {
  return fmt::format("{} parts of k, {} warps in turn, each {}", c.splits, c.warps,
                     c.matrix ? "mma k16 chain, quads of lines" : "fma chain");
}

constexpr TypedFamily<C, Sizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .launch = launch,
    .tile = tile,
    .summation = summation,
    .offers = cuda::kOffers | Features{Feature::scales_of_integers, Feature::scales_of_lines}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::gemv_n
