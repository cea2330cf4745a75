// Family hip_mfma: axes, rules, parameters, launch and model of templates/hip/mfma/mfma.hip.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::hip::mfma {
namespace {

using hip::Element;
using hip::mfma_sizes;
using hip::MfmaSizes;

constexpr std::array<std::string_view, 23> kFiles{
    "cuda/common/abi.h",        "cuda/common/list_abi.h",  "cuda/common/list_chunk.h",
    "hip/common/types.h",       "hip/common/device.h",     "hip/common/memory_gcn.h",
    "hip/common/memory.h",      "hip/common/convert.h",    "hip/common/epilogue.h",
    "hip/mfma/mfma.h",          "hip/mfma/stage.h",        "hip/mfma/turned_gcn.h",
    "hip/mfma/turned.h",        "hip/mfma/pace.h",         "hip/common/schedule.h",
    "cuda/common/group_args.h", "hip/common/groups.h",     "hip/mfma/mfma.hip",
    "hip/mfma/mainloop.h",      "hip/common/combine.h",    "hip/common/store.h",
    "hip/mfma/kernel.hip",      "hip/common/take_list.hip"};

bool shares_evenly(const HipMfma& c) {
  return c.waves_m >= 1 && c.waves_n >= 1 && c.waves_m * c.waves_n <= 16 && c.tile_m >= 1 &&
         c.tile_n >= 1 && c.tile_m % (c.waves_m * c.rows) == 0 &&
         c.tile_n % (c.waves_n * c.rows) == 0;
}

/// Bytes of one operand that a stage's offsets span.
double reach(const Matrix& m, bool along, int rows, int tile_k, std::int64_t line) {
  const double lines = along ? rows : tile_k;
  return (lines * double(m.ld) + double(line)) * size_of(m.dtype);
}

/// Narrower loads are combined in registers, which waits for them at once.
bool whole_words(bool along_or_turned, int width) { return !along_or_turned || width >= 4; }

constexpr FirstRule<HipMfma> kFirst[] = {
    {"the target has a matrix instruction of rows and k for the types; m and n are at least 1, "
     "B is not packed",
     [](const Problem& p, const DeviceCaps& d, const HipMfma& c) {
       const Gemm& g = p.gemm;
       return g.m >= 1 && g.n >= 1 && !g.b_packed &&
              hip::mfma_for(d.arch, g.b.dtype, g.a.dtype, c.rows, c.k) != nullptr;
     }},
    {"tile_m is a multiple of waves_m*rows, tile_n of waves_n*rows, and waves are at most 16",
     [](const Problem&, const DeviceCaps&, const HipMfma& c) { return shares_evenly(c); }}};

constexpr Rule<HipMfma, MfmaSizes> kRules[] = {
    {"groups: splits=1", [](const Problem& p, const DeviceCaps&, const HipMfma& c,
                            const MfmaSizes&) { return !grouped(p.gemm) || c.splits == 1; }},
    {"depth is 32 to 512, a multiple of 16 and whole steps of the instruction",
     [](const Problem&, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
       if (c.depth < 32 || c.depth > 512 || c.depth % 16 != 0) return false;
       return w.steps >= 1 && w.steps * (64 / c.rows) * w.step_units * 16 == c.depth;
     }},
    {"turn=1 needs gfx950, elements of 1 or 2 bytes, and an operand that is not k-major with a "
     "power of two as its tile",
     [](const Problem&, const DeviceCaps& d, const HipMfma& c, const MfmaSizes& w) {
       if (!c.turn) return true;
       const auto power = [](int n) { return (n & (n - 1)) == 0; };
       return hip::arch_set(d.arch) == hip::kGfx950 && w.element <= 2 &&
              (w.turned_a || w.turned_b) && (!w.turned_a || power(c.tile_m)) &&
              (!w.turned_b || power(c.tile_n));
     }},
    {"threads divide the copies of A and B evenly",
     [](const Problem&, const DeviceCaps&, const HipMfma&, const MfmaSizes& w) {
       return w.width_a > 0 && w.width_b > 0;
     }},
    {"staging=direct and pace=interleaved need operands whose lines end alike: no list, and no "
     "k-major operand in groups of k",
     [](const Problem&, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
       return (c.staging != Staging::direct && c.pace != Pace::interleaved) ||
              (!w.edges_a && !w.edges_b);
     }},
    {"staging=direct needs gfx942 or gfx950, k-major operands or turn=1, loads of 4 bytes (16 "
     "on gfx950) that threads divide evenly, and no banks=padded",
     [](const Problem&, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
       return c.staging != Staging::direct || (w.direct_bytes > 0 && c.banks != Banks::padded);
     }},
    {"pace=pingpong needs 8 waves and two buffers, pace=interleaved 4 waves, 2 steps and "
     "4-byte loads, both priority=0 and fence=0",
     [](const Problem&, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
       if (c.pace == Pace::free) return true;
       if (c.priority || c.fence) return false;
       // Reads of the next step lie between this one's products: there must be a next one.
       if (c.pace == Pace::interleaved)
         return w.waves == 4 && w.steps >= 2 && whole_words(w.along_a || w.turned_a, w.width_a) &&
                whole_words(w.along_b || w.turned_b, w.width_b);
       // Two waves on each SIMD; of two stages one is filled while the other is read. Direct
       // loads are in flight for all steps but one.
       return w.waves == 8 && c.staging != Staging::single &&
              (c.staging == Staging::twice || w.steps * w.parts >= 2);
     }},
    {"swizzled banks need a depth of 16 times a power of two",
     [](const Problem&, const DeviceCaps&, const HipMfma& c, const MfmaSizes&) {
       const int units = c.depth / 16;
       return c.banks == Banks::plain || c.banks == Banks::padded || (units & (units - 1)) == 0;
     }},
    {"stages fit shared memory",
     [](const Problem&, const DeviceCaps& d, const HipMfma&, const MfmaSizes& w) {
       return w.shared_bytes <= d.gpu.shared_block_bytes;
     }},
    {"accumulators, fragments and the next stage fit the registers",
     [](const Problem&, const DeviceCaps&, const HipMfma&, const MfmaSizes& w) {
       return w.registers <= hip::register_limit(w.waves);
     }},
    {"splits is 1 to 64, with 2 or more stages of k each",
     [](const Problem& p, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
       return c.splits >= 1 && c.splits <= 64 &&
              (c.splits == 1 || ceil_div(p.gemm.k, w.tile_k) >= 2 * c.splits);
     }},
    {"group is 1 to 64, chunk 0 to 1024, 0 on a device of one chiplet",
     [](const Problem&, const DeviceCaps& d, const HipMfma& c, const MfmaSizes&) {
       return c.group >= 1 && c.group <= 64 && c.chunk >= 0 && c.chunk <= 1024 &&
              (c.chunk == 0 || d.gpu.chiplets > 1);
     }},
    {"offsets in a tile fit 31 bits, and the grid has fewer than 2^32 threads",
     [](const Problem& p, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
       const Gemm& g = p.gemm;
       const std::int64_t most = std::int64_t{1} << 31;
       const auto fits = static_cast<double>(most);
       return reach(g.a, p.a_k_major, c.tile_m, w.tile_k, p.a_k_major ? g.k : g.m) < fits &&
              reach(g.b, p.b_k_major, c.tile_n, w.tile_k, p.b_k_major ? g.k : g.n) < fits &&
              g.k < most / 8 && hip::launchable(w.blocks, w.threads);
     }}};

/// The layout of rows with the fewest cycles of bank conflicts, the first of equals.
Banks best_banks(const Problem& p, const DeviceCaps& d, HipMfma c) {
  Banks best = Banks::by_row;
  int least = -1;
  for (const Banks banks :
       {Banks::by_row, Banks::by_pair, Banks::by_four, Banks::padded, Banks::plain}) {
    if (banks == Banks::padded && c.staging == Staging::direct) continue;
    c.banks = banks;
    const auto w = mfma_sizes(p, d, c);
    if (w.shared_bytes > d.gpu.shared_block_bytes) continue;
    const auto turns = hip::stage_turns(w, d, c);
    const int taken = turns.reads.taken + turns.writes.taken;
    if (least >= 0 && taken >= least) continue;
    least = taken;
    best = banks;
  }
  return best;
}

constexpr std::array kTiles{16, 32, 64, 96, 128, 192, 256};
constexpr std::array kDepths{64, 128, 256};
constexpr std::array kStagings{Staging::single, Staging::twice, Staging::direct};
constexpr std::pair<int, int> kWaves[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2},
                                          {1, 4}, {4, 1}, {2, 4}, {4, 2}};

void visit_launches(const Problem& p, const DeviceCaps& d, HipMfma c,
                    const std::function<void(const Config&)>& visit) {
  const auto w = mfma_sizes(p, d, c);
  const bool many = w.tiles > d.compute_units;
  std::vector<Pace> paces;
  for (const Pace pace : {Pace::free, Pace::pingpong, Pace::interleaved}) {
    c.pace = pace;
    if (broken_rule(p, d, c).empty()) paces.push_back(pace);
  }
  if (paces.empty()) return;
  std::vector<int> chunks{0}, groups{4};
  if (d.gpu.chiplets >= 2 && many) chunks.push_back(d.arch == "gfx950" ? 64 : 16);
  if (many && w.tiles_m > 4) groups.push_back(8);
  Product(paces, chunks, groups, kNoYes).each([&](Pace pace, int chunk, int group, bool steered) {
    if (steered && pace != Pace::free) return;
    c.pace = pace;
    c.chunk = chunk;
    c.group = group;
    c.priority = c.fence = steered;
    visit(c);
  });
  c.chunk = 0;
  c.group = 4;
  c.pace = paces.front();
  c.priority = c.fence = c.pace == Pace::free;
  for (const int splits : {2, 3, 4, 6, 8, 12, 16, 32}) {
    if (w.tiles * splits > 3 * d.compute_units) break;
    c.splits = splits;
    visit(c);
  }
}

void visit_tiles(const Problem& p, const DeviceCaps& d, HipMfma c,
                 const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  Product(kTiles, kTiles, kWaves, kDepths, kStagings, kNoYes)
      .each([&](int m, int n, std::pair<int, int> waves, int depth, Staging staging, bool turn) {
        // A tile much larger than the problem computes nothing but zeros.
        if ((m > 16 && m / 2 >= g.m) || (n > 16 && n / 2 >= g.n)) return;
        c.tile_m = m;
        c.tile_n = n;
        c.waves_m = waves.first;
        c.waves_n = waves.second;
        c.depth = depth;
        c.staging = staging;
        c.turn = turn;
        const int count = waves.first * waves.second;
        if (!shares_evenly(c) || m * n / count > 128 * 128) return;
        // Waves with less than one instruction's square of work only wait for each other.
        if (m * n >= 64 * 64 && count == 1) return;
        c.pace = Pace::free;
        c.banks = Banks::plain;
        if (!broken_rule(p, d, c).empty()) return;
        c.banks = best_banks(p, d, c);
        visit_launches(p, d, c, visit);
      });
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  if (g.m < 1 || g.n < 1 || g.b_packed) return;
  const auto fits = [&](const hip::MfmaInstruction& i) {
    return i.mn >= 16 && hip::mfma_for(d.arch, g.b.dtype, g.a.dtype, i.mn, i.k) == &i;
  };
  double best = 0;
  for (const auto& i : hip::kMfma)
    if (fits(i)) best = std::max(best, i.flops() / i.cycles);
  for (const auto& i : hip::kMfma) {
    // Older instructions that later targets keep at their old rate only cost time to try.
    if (!fits(i) || i.flops() / i.cycles < best) continue;
    visit_tiles(p, d, {.rows = i.mn, .k = i.k, .chunk = 0}, visit);
  }
}

/// The builtin's type of an operand of this many registers.
std::string fragment_type(const hip::MfmaInstruction& i) {
  const int count = i.a_per_lane(), words = i.a_registers();
  switch (i.a) {
    case Element::f64:
      return "double";
    case Element::f32:
      return "float";
    case Element::xf32:
      return fmt::format("Vector<float, {}>", count);
    case Element::f16:
      return fmt::format("Vector<_Float16, {}>", count);
    case Element::bf16:
      return fmt::format("Vector<{}, {}>", count == 8 ? "__bf16" : "i16", count);
    default:
      if (words == 1) return "i32";
      if (words == 2) return "i64";
      return fmt::format("Vector<i32, {}>", words);
  }
}

/// The f8f6f4 instruction's code of an operand's format.
int format_code(DType t) { return t == fp8_e5m2 ? 1 : 0; }

void add_sizes(Parameters& out, const MfmaSizes& w, const HipMfma& c, const DeviceCaps& d) {
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kTileM", c.tile_m, "rows of D in a block's tile");
  add("kTileN", c.tile_n, "columns of it");
  add("kTileK", w.tile_k, "k of one stage");
  add("kElement", w.element, "bytes of an element of A and B");
  add("kDepthBytes", c.depth, "of a row in one stage");
  add("kRowBytes", w.row_bytes, "from row to row in shared memory");
  if (w.swizzle_shift >= 0)
    add("kSwizzleShift", w.swizzle_shift, "bits of the row that the swizzle leaves out");
  add("kWavesM", c.waves_m, "waves along m");
  add("kWavesN", c.waves_n, "waves along n");
  add("kThreads", w.threads, "of a block");
  add("kWavesPerUnit", (w.waves + 3) / 4, "waves of a block that share a SIMD");
  add("kRows", c.rows, "rows and columns of one instruction");
  add("kSums", w.instruction->accumulators_per_lane(),
      "accumulators of a lane, for one instruction");
  add("kStages", w.stages, "in shared memory");
  add("kSharedBytes", w.shared_bytes, "of all stages");
  if (c.staging == Staging::direct) {
    add("kDirectBytes", w.direct_bytes, "of a lane's load into shared memory");
  } else {
    add("kWidthA", w.width_a, "bytes of a load of A");
    add("kWidthB", w.width_b, "bytes of a load of B");
  }
  if (c.pace == Pace::pingpong) add("kParts", w.parts, "of a step");
  if (c.pace == Pace::interleaved)
    add("kReads", w.step_units * (w.blocks_m * (1 + w.turned_a) + w.blocks_n * (1 + w.turned_b)),
        "of shared memory by a lane in one step");
  add("kGroup", c.group, "rows of tiles in a band of the rasterization");
  add("kSplits", c.splits, "parts that k is divided into");
  if (c.chunk > 0) {
    add("kChiplets", d.gpu.chiplets, "that blocks are dealt to in turn");
    add("kChunk", c.chunk, "neighbouring blocks that one chiplet gets");
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HipMfma& c, const MfmaSizes& w) {
  const Gemm& g = p.gemm;
  const auto& i = *w.instruction;
  Parameters out;
  hip::add_common(out, p, d);
  const auto use = [&](const char* name, std::string type, const char* gloss) {
    out.constants.push_back({"using", name, std::move(type), gloss});
  };
  use("FragmentA", fragment_type(i), "a lane's part of the instruction's first operand: of B");
  use("FragmentB", fragment_type(i), "and of its second one: of A");
  const int d_bytes = size_of(g.d.dtype);
  const bool wide = i.sum != Element::f64 && (lists_products(g) || g.n % 4 == 0) && d_bytes <= 4 &&
                    alignment_of_d(g) >= 4 * d_bytes;
  if (wide) use("Four", fmt::format("Vector<u{}, 4>", 8 * d_bytes), "four elements of D");
  add_sizes(out, w, c, d);
  out.constants.push_back(flag("kAlongA", w.along_a, "A's rows lie along k"));
  out.constants.push_back(flag("kAlongB", w.along_b, "B's rows lie along k"));
  if (i.scaled()) {
    out.constants.push_back(number("kFormatA", format_code(g.b.dtype), "of the first operand"));
    out.constants.push_back(number("kFormatB", format_code(g.a.dtype), "of the second"));
  }
  out.constants.push_back(
      {"define", "KILN_MFMA", fmt::format("mfma_{0}x{0}x{1}_{2}", i.mn, i.k, name(g.a.dtype)), ""});
  out.constants.push_back(
      {"define", "KILN_MFMA_BUILTIN", fmt::format("__builtin_amdgcn_{}", i.builtin), ""});
  auto& v = out.values;
  v["scaled"] = value_of(i.scaled());
  v["direct"] = value_of(c.staging == Staging::direct);
  v["pipeline"] = name(c.staging);
  v["swizzle"] = value_of(w.swizzle_shift >= 0);
  v["priority"] = value_of(c.priority || c.pace == Pace::pingpong);
  v["fence"] = value_of(c.fence || c.pace != Pace::free);
  v["pace"] = name(c.pace);
  v["turned"] = value_of(w.turned_a || w.turned_b);
  v["turned_a"] = value_of(w.turned_a);
  v["turned_b"] = value_of(w.turned_b);
  v["element"] = std::to_string(w.element);
  v["ragged_k"] = value_of(w.ragged_k);
  v["edges"] = value_of(w.edges_a || w.edges_b);
  v["edges_a"] = value_of(w.edges_a);
  v["edges_b"] = value_of(w.edges_b);
  v["along_a"] = value_of(w.along_a);
  v["along_b"] = value_of(w.along_b);
  v["remap"] = value_of(c.chunk > 0);
  v["split"] = value_of(c.splits > 1);
  v["wide_store"] = value_of(wide);
  return out;
}

GpuLaunch launch(const Problem& p, const DeviceCaps&, const HipMfma&, const MfmaSizes& w) {
  if (p.gemm.m == 0 || p.gemm.n == 0 || p.gemm.batch == 0) return {};
  GpuLaunch out = hip::one_step(w.blocks, w.threads);
  out.workspace_bytes = w.workspace_bytes + hip::bytes_of_tile_counts(p.gemm);
  out.zeroed_bytes = w.counter_bytes;
  return out;
}

/// Matrix instructions of gfx90a take denormal inputs for zero.
double flushed_by(const Gemm& g, const DeviceCaps& d, const HipMfma&) {
  if (d.arch != "gfx90a") return 0;
  if (g.a.dtype == fp16) return 0x1p-14;
  return g.a.dtype == bf16 ? 0x1p-126 : 0;
}

/// Which k an instruction adds follows from its rows and k alone: lanes hold units of 16 bytes of
/// k. Parts of split-K are equal numbers of stages, added in the order of k.
std::string summation(const Problem&, const DeviceCaps&, const HipMfma& c, const MfmaSizes& w) {
  const std::string chain = fmt::format("mfma {0}x{0}x{1} chain", c.rows, c.k);
  if (c.splits == 1) return chain;
  return fmt::format("{} parts of {} k, each {}", c.splits, w.tile_k, chain);
}

/// The fastest instruction, of 16 rows where there is a choice: few rows fill it better.
std::optional<HipMfma> plain(const Problem& p, const DeviceCaps& d) {
  const hip::MfmaInstruction* best = nullptr;
  const auto rank = [](const auto& i) { return std::pair(i.flops() / i.cycles, -i.mn); };
  for (const auto& i : hip::kMfma)
    if (i.mn >= 16 && hip::mfma_for(d.arch, p.gemm.b.dtype, p.gemm.a.dtype, i.mn, i.k) == &i &&
        (best == nullptr || rank(i) > rank(*best)))
      best = &i;
  if (best == nullptr) return std::nullopt;
  HipMfma c{.rows = best->mn, .k = best->k, .staging = Staging::single, .chunk = 0};
  c.tile_m = c.tile_n = 64, c.depth = 128, c.waves_m = c.waves_n = 2;
  return c;
}

constexpr TypedFamily<HipMfma, MfmaSizes> kRow{
    .vendor = Vendor::amd,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = mfma_sizes,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = hip::predict_mfma_ns,
    .launch = launch,
    .tile =
        [](const Problem&, const HipMfma& c, const MfmaSizes& w) {
          return Tile{c.tile_m, c.tile_n, w.tile_k};
        },
    .summation = summation,
    .plain = plain,
    .flushed_by = flushed_by,
    .offers = kOffers | kAnyGroups | Features{Feature::scales_of_integers, Feature::lists}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::hip::mfma
