// Family cuda_gemv_weights: axes, rules, parameters, launch and model of
// templates/cuda/gemv_weights/gemv_weights.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/common/row_adder.h"
#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/taken.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::gemv_weights {
namespace {

using C = CudaGemvWeights;

constexpr std::array<std::string_view, 19> kFiles{
    "cuda/common/abi.h",      "cuda/common/types.h",        "cuda/common/convert_ptx.h",
    "cuda/common/convert.h",  "cuda/common/epilogue.h",     "cuda/common/grid_ptx.h",
    "cuda/common/mma_ptx.h",  "cuda/weights/decode_ptx.h",  "cuda/gemv_weights/read_ptx.h",
    "cuda/weights/decode.h",  "cuda/weights/pairs.h",       "cuda/weights/scaling.h",
    "cuda/gemv/store.h",      "cuda/common/groups_ptx.h",   "cuda/common/group_args.h",
    "cuda/common/groups.h",   "cuda/gemv_weights/source.h", "cuda/gemv_weights/gemv_weights.cu",
    "cuda/common/add_rows.cu"};

struct Sizes {
  int code_bits, along;  // elements of k that share a scale; 0: a whole column
  int read;              // bytes of codes that a lane reads at once
  int chunk;             // k whose scales are fetched together
  int tiles_m, tiles_n;  // of 16 columns and of 8 rows of D
  int columns;           // of D in a tile
  int words;             // registers of a lane's codes of a chunk and 8 columns
  int registers;         // an estimate, of one thread
  int blocks;            // that fit one SM
  bool overlaps;         // grids may begin while the one before them ends
  std::int64_t chunks;   // of all of k
  std::int64_t grid;
  std::int64_t table_bytes;  // of groups
};

/// A quad of lanes reads neighbouring codes of a column, which meet in one instruction: no more
/// than a group. 16 bytes a lane are the most that an instruction loads.
int read_of(int bits, int along) { return along == 0 ? 16 : std::min(16, along * bits / 8 / 4); }

int registers_of(const Gemm& g, const C& c, const Sizes& w) {
  const int left = w.words * w.tiles_n * (32 / w.code_bits / 2);
  const int columns = 2 * w.tiles_m, sums = w.tiles_m * w.tiles_n * 4;
  const int fetched = w.along == 0 ? 0 : columns * (g.b.q.zero == Zero::none ? 1 : 2);
  const int factors = columns * (g.b.q.zero == Zero::none      ? 1
                                 : g.b.q.zero == Zero::integer ? 3
                                                               : 4);
  const int left_sums = g.b.q.zero == Zero::floating ? w.tiles_n * 4 : 0;
  // A scale of one byte has an address of its own at every read, and becomes a float by parts.
  const int bytes = g.b.q.scale == Scale::mx_32 ? 6 * columns : 0;
  return c.ahead * (columns * w.words + fetched) + 2 * left + 2 * sums + left_sums + factors +
         columns + w.tiles_n + bytes + 36;
}

Sizes sizes_of(const Problem& p, const DeviceCaps& d, const C& c) {
  const Gemm& g = p.gemm;
  Sizes w{};
  w.code_bits = bits_of(g.b.dtype);
  w.along = scale_block(g.b.q.scale).along;
  w.read = read_of(w.code_bits, w.along);
  w.chunk = std::max(w.along, 4 * w.read * 8 / w.code_bits);
  w.tiles_m = c.tile_n / 16;
  w.tiles_n = c.tile_m / 8;
  w.columns = c.tile_n / (gated(g) ? 2 : 1);
  w.words = w.chunk * w.code_bits / 8 / 4 / 4;
  w.registers = registers_of(g, c, w);
  // Each of an SM's quarters has registers of its own.
  const std::int64_t of_quarter = d.gpu.registers_unit / 4 / (round_up(w.registers, 8) * 32);
  w.blocks = static_cast<int>(std::clamp<std::int64_t>(
      std::min<std::int64_t>(4 * of_quarter, d.gpu.threads_unit / 32) / c.warps, 1, 32));
  w.overlaps = d.gpu.sm >= 90;
  w.chunks = ceil_div(g.k, w.chunk);
  w.grid = tiles_of_rows(g, c.tile_m) * ceil_div(g.n, w.columns);
  w.table_bytes = bytes_of_tables(room_for_groups(g));
  return w;
}

constexpr FirstRule<C> kFirst[] = {
    {"B holds weights, and the device has the matrix instruction (sm_80); m, n, k are at least 1",
     [](const Problem& p, const DeviceCaps& d, const C&) {
       const Gemm& g = p.gemm;
       return has_weights(g) && d.gpu.sm >= 80 && g.m >= 1 && g.n >= 1 && g.k >= 1;
     }},
    {"tile_n is 16, 32 or 64, tile_m 8, 16 or 32; warps 1 to 16, ahead 1 to 8",
     [](const Problem&, const DeviceCaps&, const C& c) {
       return (c.tile_n == 16 || c.tile_n == 32 || c.tile_n == 64) &&
              (c.tile_m == 8 || c.tile_m == 16 || c.tile_m == 32) && c.warps >= 1 &&
              c.warps <= 16 && c.ahead >= 1 && c.ahead <= 8;
     }}};

constexpr Rule<C, Sizes> kRules[] = {
    {"A and B are k-major, B is not packed",
     [](const Problem& p, const DeviceCaps&, const C&, const Sizes&) {
       return p.a_k_major && p.b_k_major && !p.gemm.b_packed;
     }},
    {"the alignment is that of a lane's reads, and k is whole reads",
     [](const Problem& p, const DeviceCaps&, const C&, const Sizes& w) {
       const int left = 32 / w.code_bits * size_of(p.gemm.a.dtype);  // of A, for a word of codes
       return line_alignment(p.gemm, Operand::b) >= w.read &&
              line_alignment(p.gemm, Operand::a) >= left &&
              p.gemm.k * w.code_bits / 8 % w.read == 0 && p.gemm.k * w.code_bits % 8 == 0;
     }},
    {"codes on their way, elements of A and sums fit the registers",
     [](const Problem&, const DeviceCaps& d, const C& c, const Sizes& w) {
       return w.registers <= std::min(255, d.gpu.registers_unit / (32 * c.warps));
     }},
    {"sums of all warps, and the tables of at most 4096 groups, fit 47 KiB",
     [](const Problem& p, const DeviceCaps&, const C& c, const Sizes& w) {
       return (!grouped(p.gemm) || p.gemm.batch <= kMostGroups) &&
              c.warps * c.tile_m * (c.tile_n + 1) * 4 + w.table_bytes <= (47 << 10);
     }},
    {"blocks, scales, m, n, k and a tile's bytes fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const C& c, const Sizes& w) {
       const Gemm& g = p.gemm;
       const std::int64_t most = std::int64_t{1} << 31;
       const std::int64_t groups = w.along == 0 ? 1 : g.k / w.along;
       const std::int64_t ahead = std::int64_t{w.chunk} * c.warps * (c.ahead + 1);
       return w.grid < most && g.m < most - 512 && g.n < most - 512 && g.k < most - ahead &&
              double(g.batch) * double(g.columns_of_b()) * double(groups) < double(most) &&
              g.lda() * size_of(g.a.dtype) < most / c.tile_m &&
              g.ldb() * w.code_bits / 8 < most / c.tile_n;
     }}};

/// Rows of a product; of groups as many as are expected.
double rows_of(const Gemm& g) {
  if (g.grouping() == Grouping::rows) return std::ceil(double(g.m) / double(g.batch));
  return g.grouping() == Grouping::masked ? expected_rows_of(g) : double(g.m);
}

constexpr std::array kTilesN{16, 32, 64};
constexpr std::array kWarps{1, 2, 4, 8, 16};
constexpr std::array kAhead{1, 2, 3, 4, 6, 8};

void enumerate(const Problem& p, const DeviceCaps&,
               const std::function<void(const Config&)>& visit) {
  if (!has_weights(p.gemm)) return;
  const double rows = rows_of(p.gemm);
  for (const int tile_m : {8, 16, 32}) {
    // More rows would read the weights again.
    if (rows > tile_m && tile_m < 32) continue;
    if (rows > 32 || (tile_m > 8 && tile_m / 2 >= rows)) continue;
    Product(kTilesN, kWarps, kAhead).each([&](int tile_n, int warps, int ahead) {
      visit(C{.tile_n = tile_n, .tile_m = tile_m, .warps = warps, .ahead = ahead});
    });
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const C& c, const Sizes& w) {
  Parameters out;
  add_common(out, p, d);
  add_weights(out, p.gemm);
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  out.constants.push_back({"using", "Fragment", "u32", "a register of an operand"});
  // What is multiplied are numbers of A's type.
  Gemm numbers = p.gemm;
  numbers.b.dtype = p.gemm.a.dtype;
  const MmaInstruction& instruction = *mma_instruction(numbers, d, 16);
  add("kMmaSums", instruction.accumulators(), "registers of sums of the matrix instruction");
  add("kMmaA", instruction.a_registers(), "registers of weights");
  add("kMmaB", instruction.b_registers(), "registers of A");
  add_mma_lists(out, instruction, numbers);
  add("kTilesM", w.tiles_m, "16 columns of D each, of a block");
  add("kTilesN", w.tiles_n, "8 rows of D each");
  add("kDecodeK", w.chunk, "k of a chunk, whose scales are fetched together");
  add("kRead", w.read, "bytes of codes that a lane reads at once");
  add("kWarps", c.warps, "of a block, which share k");
  add("kAhead", c.ahead, "chunks on their way to a warp");
  add("kBlocks", w.blocks, "that are to fit one SM");
  add_groups(out, p.gemm, c.tile_m);
  out.values["matrix"] = value_of(true);
  out.values["overlaps"] = value_of(w.overlaps);
  return out;
}

GpuLaunch launch(const Problem&, const DeviceCaps&, const C& c, const Sizes& w) {
  GpuLaunch out;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.grid);
  step.block.x = static_cast<unsigned>(c.warps * 32);
  step.overlaps_previous = w.overlaps;
  out.steps.push_back(step);
  return out;
}

/// Instructions that a warp issues for a chunk, as its main loop has them.
double issued(const Gemm& g, const Sizes& w) {
  const double decode = word_instructions(g);
  const double steps = w.code_bits == 4 ? 2 : 1;
  const double left = w.code_bits == 4 ? 7 : 3;
  const double scales = w.tiles_m * (8 + 4.0 * w.tiles_n + (g.b.q.zero == Zero::none ? 0 : 16));
  return w.words * (w.tiles_m * (2 * decode + 2 + steps * w.tiles_n) + w.tiles_n * left) + scales +
         20;
}

double predict(const Problem& p, const DeviceCaps& d, const C& c, const Sizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = 0.9 * (d.ghz > 0 ? d.ghz : 1.5), units = std::max(1, d.compute_units);
  const double blocks = grouped(g) ? std::max(1.0, rows_of(g) / c.tile_m + 0.5) * double(g.batch) *
                                         double(ceil_div(g.n, w.columns))
                                   : double(w.grid);
  const double per_unit = std::ceil(blocks / units);
  const double resident = std::clamp(per_unit, 1.0, double(w.blocks));
  const double mine = std::ceil(double(w.chunks) / c.warps);  // chunks of a warp
  const double chunk_bytes = double(c.tile_n) * w.chunk * w.code_bits / 8;
  // What a latency of about 900 cycles can deliver, and memory; A comes through L2.
  const double flight = resident * c.warps * std::min(mine, double(c.ahead)) * chunk_bytes;
  const double rate = std::min(0.92 * std::max(1, d.gpu.memory_gbs) / units / ghz, flight / 900);
  const double left_bytes = double(w.tiles_n) * 8 * w.chunk * size_of(g.a.dtype);
  const double chunks = per_unit * double(w.chunks);  // of an SM
  const double memory =
      chunks * (chunk_bytes + 0.15 * std::min(double(g.m) / 8, 1.0) * left_bytes) / rate;
  const double issue = chunks * issued(g, w) / std::min(4.0, resident * c.warps);
  const double waves = std::ceil(per_unit / resident);
  const double edges = waves * (700 + 30 * c.warps + double(c.tile_m) * c.tile_n / c.warps);
  return 2500 + (std::max(memory, issue) + 0.2 * std::min(memory, issue) + edges) / ghz;
}

/// Each warp has every kWarps-th chunk; the lanes of a quad have neighbouring reads.
std::string summation(const Problem&, const DeviceCaps&, const C& c, const Sizes& w) {
  const std::string chain =
      fmt::format("mma k16 chain of {}-bit codes, {} bytes a lane", w.code_bits, w.read);
  const std::string all = w.along == 0
                              ? fmt::format("chunks of {}, {}, scaled", w.chunk, chain)
                              : fmt::format("groups of {}, each {}, scaled", w.along, chain);
  return fmt::format("{} warps in turn: {}", c.warps, all);
}

constexpr TypedFamily<C, Sizes> kRow{.vendor = Vendor::nvidia,
                                     .files = kFiles,
                                     .first_rules = kFirst,
                                     .sizes = sizes_of,
                                     .rules = kRules,
                                     .enumerate = enumerate,
                                     .parameters = parameters,
                                     .predict_ns = predict,
                                     .launch = launch,
                                     .tile =
                                         [](const Problem&, const C& c, const Sizes& w) {
                                           return Tile{c.tile_m, w.columns, w.chunk * c.warps};
                                         },
                                     .summation = summation,
                                     .offers = cuda::kOffers | kAnyGroups |
                                               Features{Feature::weights, Feature::added_rows} |
                                               taken({"gate"}),
                                     .row_adder = &cuda::kRowAdder};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::gemv_weights
