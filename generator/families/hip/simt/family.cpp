// Family hip_simt: axes, rules, parameters, launch and model of templates/hip/simt/simt.hip.
#include <algorithm>
#include <array>

#include "generator/families/hip/common/hip.h"
#include "generator/families/hip/simt/config.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"
#include "kiln/numeric.hpp"

namespace kiln::hip::simt {
namespace {

constexpr std::array<std::string_view, 11> kFiles{
    "cuda/common/abi.h",     "cuda/common/list_abi.h",   "cuda/common/list_chunk.h",
    "hip/common/types.h",    "hip/common/device.h",      "hip/common/convert.h",
    "hip/common/epilogue.h", "cuda/common/group_args.h", "hip/common/groups.h",
    "hip/simt/simt.hip",     "hip/common/take_list.hip"};

struct SimtSizes {
  int threads;  // of a block
  std::int64_t blocks;
};

SimtSizes sizes_of(const Problem& p, const DeviceCaps&, const HipSimt& c) {
  const int tile_m = std::max(1, c.tile_m), tile_n = std::max(1, c.tile_n);
  return {c.tile_m / std::max(1, c.each_m) * (c.tile_n / std::max(1, c.each_n)),
          tiles_of_rows(p.gemm, tile_m) * ceil_div(p.gemm.columns_of_b(), tile_n)};
}

/// Scales of floats are read where those of a product of its own would lie: scales of A's rows do
/// not where groups have parts of them, and those of blocks along k do not where groups have parts
/// of k.
bool scales_suit_groups(const Problem& p, const DeviceCaps&, const HipSimt&, const SimtSizes&) {
  const Gemm& g = p.gemm;
  if (g.accumulator == s32) return true;
  if (g.grouping() == Grouping::k)
    return !blocks_along_k(g.a.q.scale) && !blocks_along_k(g.b.q.scale);
  return !(g.grouping() == Grouping::rows || g.grouping() == Grouping::masked) ||
         g.a.q.scale == Scale::none;
}

constexpr Rule<HipSimt, SimtSizes> kRules[] = {
    {"B is not packed", [](const Problem& p, const DeviceCaps&, const HipSimt&,
                           const SimtSizes&) { return !p.gemm.b_packed; }},
    {"a gate needs an even each_n and no groups",
     [](const Problem& p, const DeviceCaps&, const HipSimt& c, const SimtSizes&) {
       return !gated(p.gemm) || (c.each_n % 2 == 0 && !grouped(p.gemm));
     }},
    {"groups of floats have no scales of A's rows, those of k none of blocks", scales_suit_groups},
    {"each_m*each_n and tile_k are 1 to 64, pad is 0 to 16, and whole 32s of threads divide "
     "the tile and the copies of A and B evenly",
     [](const Problem&, const DeviceCaps& d, const HipSimt& c, const SimtSizes& w) {
       if (c.each_m < 1 || c.each_n < 1 || c.tile_k < 1 || c.tile_k > 64) return false;
       if (c.each_m * c.each_n > 64 || c.pad < 0 || c.pad > 16) return false;
       if (c.tile_m % c.each_m != 0 || c.tile_n % c.each_n != 0) return false;
       return w.threads >= 32 && w.threads <= d.gpu.threads_block && w.threads % 32 == 0 &&
              c.tile_m * c.tile_k % w.threads == 0 && c.tile_n * c.tile_k % w.threads == 0;
     }},
    {"the tiles of A and B fit shared memory",
     [](const Problem& p, const DeviceCaps& d, const HipSimt& c, const SimtSizes&) {
       return (c.tile_m + c.tile_n + 2 * c.pad) * c.tile_k * size_of(p.gemm.accumulator) <=
              d.gpu.shared_block_bytes;
     }},
    {"the grid has fewer than 2^32 threads",
     [](const Problem&, const DeviceCaps&, const HipSimt&, const SimtSizes& w) {
       return hip::launchable(w.blocks, w.threads);
     }}};

constexpr std::array kTiles{16, 32, 64, 128};
constexpr std::array kDepths{8, 16, 32};
/// Rows and columns of a thread.
constexpr std::array<std::pair<int, int>, 6> kEach{
    {{1, 1}, {2, 2}, {4, 4}, {8, 4}, {4, 8}, {8, 8}}};
constexpr std::array kPads{0, 4};

void enumerate(const Problem& p, const DeviceCaps&,
               const std::function<void(const Config&)>& visit) {
  if (p.gemm.b_packed) return;
  Product(kTiles, kTiles, kDepths, kEach, kPads)
      .each([&](int m, int n, int k, std::pair<int, int> each, int pad) {
        visit(HipSimt{.tile_m = m,
                      .tile_n = n,
                      .tile_k = k,
                      .each_m = each.first,
                      .each_n = each.second,
                      .pad = pad});
      });
}

/// How one operand's elements are stored and scaled.
void add_scaled(Parameters& out, const char* side, const Matrix& m, Scale scale) {
  const auto add = [&](std::string name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name + side, value, gloss));
  };
  const ScaleBlock block = scale_block(scale);
  add("kBits", bits_of(m.dtype), "of an element");
  add("kMantissa", small_format_of(m.dtype).mantissa, "of these");
  add("kLines", scale == Scale::none ? 0 : block.lines, "rows that share a scale, 0: without");
  add("kAlongOf", block.along, "of k that share it, 0: all");
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HipSimt& c, const SimtSizes&) {
  Parameters out;
  hip::add_common(out, p, d);
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kTileM", c.tile_m, "rows of D in a block's tile");
  add("kTileN", c.tile_n, "columns of it");
  add("kTileK", c.tile_k, "k of one step");
  add("kEachM", c.each_m, "rows of a thread");
  add("kEachN", c.each_n, "columns of it");
  add("kPad", c.pad, "elements between rows of k in shared memory");
  const bool scaled = p.gemm.a.q.scale != Scale::none || p.gemm.b.q.scale != Scale::none;
  if (scaled && p.gemm.accumulator != s32) {
    add_scaled(out, "A", p.gemm.a, p.gemm.a.q.scale);
    add_scaled(out, "B", p.gemm.b, p.gemm.b.q.scale);
  }
  out.constants.push_back(flag("kAlongA", p.a_k_major, "A's rows lie along k"));
  out.constants.push_back(flag("kAlongB", p.b_k_major, "B's rows lie along k"));
  return out;
}

GpuLaunch launch(const Problem& p, const DeviceCaps&, const HipSimt&, const SimtSizes& w) {
  GpuLaunch out = hip::one_step(w.blocks, w.threads);
  if (!out.steps.empty()) out.workspace_bytes = hip::bytes_of_tile_counts(p.gemm);
  return out;
}

double predict(const Problem& p, const DeviceCaps& d, const HipSimt& c, const SimtSizes& w) {
  const Gemm& g = p.gemm;
  // A compute unit does 128 fused steps a cycle; reads of shared memory and conversions take as
  // long again unless a thread reuses what it reads.
  const double reuse = double(c.each_m * c.each_n) / (c.each_m + c.each_n);
  const double of_block = double(c.tile_m) * c.tile_n * k_of_product(g) / 128 * (1 + 2 / reuse);
  const double barriers = stages_of_tile(g, c.tile_k) * 100;
  const double rounds = double(ceil_div(w.blocks, std::int64_t{2} * d.compute_units)) * 2;
  const double clock = d.ghz > 0 ? d.ghz : 1;
  return rounds * (of_block + barriers / 2 + 500) / clock + 2000;
}

/// One k after the other in one accumulator.
std::string summation(const Problem&, const DeviceCaps&, const HipSimt&, const SimtSizes&) {
  return "fma chain";
}

std::optional<HipSimt> plain(const Problem&, const DeviceCaps&) {
  return HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16, .each_m = 2, .each_n = 2, .pad = 4};
}

constexpr TypedFamily<HipSimt, SimtSizes> kRow{
    .vendor = Vendor::amd,
    .files = kFiles,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .launch = launch,
    .tile =
        [](const Problem& p, const HipSimt& c, const SimtSizes&) {
          return Tile{c.tile_m, gated(p.gemm) ? c.tile_n / 2 : c.tile_n, c.tile_k};
        },
    .summation = summation,
    .plain = plain,
    .offers = kOffers | kAnyGroups | taken({"gate"}) |
              Features{Feature::scales_of_integers, Feature::scales_of_lines,
                       Feature::scales_of_blocks, Feature::scales_mx_32, Feature::lists}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::hip::simt
