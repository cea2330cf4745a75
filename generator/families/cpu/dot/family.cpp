// Family host_dot: axes, rules, parameters and model of templates/cpu/dot/dot.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/dot/config.h"
#include "generator/problem/gate.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::host::dot {
namespace {

using host::instruction;

constexpr std::array<std::string_view, 8> kFiles{
    "cpu/common/abi.h",      "cpu/common/types.h", "cpu/common/vector.h", "cpu/common/amax.h",
    "cpu/common/epilogue.h", "cpu/common/share.h", "cpu/common/lanes.h",  "cpu/dot/dot.cpp"};

struct DotSizes {
  const DotInstruction& row;
  int step;      // k of a vector
  bool shifted;  // A is shifted to unsigned bytes
  int columns;   // of D in a tile
};

DotSizes sizes_of(const Problem& p, const DeviceCaps& d, const HostDot& c) {
  const auto& row = *instruction(c.isa, p, d);
  return {row, row.vector_bytes / row.acc_bytes * row.group, host::shifts_a(p, row),
          c.nr / (gated(p.gemm) ? 2 : 1)};
}

constexpr FirstRule<HostDot> kFirst[] = {
    {"isa has an instruction of this family for the types",
     [](const Problem& p, const DeviceCaps& d, const HostDot& c) {
       return c.isa != Isa::amx && instruction(c.isa, p, d) != nullptr;
     }}};

constexpr Rule<HostDot, DotSizes> kRules[] = {
    {"pack_a where A is m-major, pack_b where B is n-major, not both, B not packed before",
     [](const Problem& p, const DeviceCaps&, const HostDot& c, const DotSizes&) {
       return c.pack_a != p.a_k_major && c.pack_b != p.b_k_major && !(c.pack_a && c.pack_b) &&
              !p.gemm.b_packed;
     }},
    {"a gate needs an even nr, any_epilogue=0 and pack_b=0",
     [](const Problem& p, const DeviceCaps&, const HostDot& c, const DotSizes&) {
       return !gated(p.gemm) || (c.nr % 2 == 0 && !c.any_epilogue && !c.pack_b);
     }},
    {"mc is 0 with pack_b: each block of rows would copy B again",
     [](const Problem&, const DeviceCaps&, const HostDot& c, const DotSizes&) {
       return !c.pack_b || c.mc == 0;
     }},
    {"mr and nr are at least 1, and accumulators and operands fit the registers",
     [](const Problem&, const DeviceCaps&, const HostDot& c, const DotSizes& w) {
       return c.mr >= 1 && c.nr >= 1 &&
              c.mr * c.nr + c.nr * (w.shifted ? 2 : 1) + 1 <= host::vector_registers(c.isa);
     }},
    {"ahead=1 needs pack_a=0: rows that were copied are in cache",
     [](const Problem&, const DeviceCaps&, const HostDot& c, const DotSizes&) {
       return !c.ahead || !c.pack_a;
     }},
    {"kc is a multiple of a vector's k, mc of mr",
     [](const Problem&, const DeviceCaps&, const HostDot& c, const DotSizes& w) {
       return c.kc >= 0 && c.kc % w.step == 0 && c.mc >= 0 && c.mc % c.mr == 0;
     }},
    {"parallel is none, m, n, or batch with 2 or more products",
     [](const Problem& p, const DeviceCaps&, const HostDot& c, const DotSizes&) {
       return c.parallel == Parallel::none || c.parallel == Parallel::m ||
              c.parallel == Parallel::n || (c.parallel == Parallel::batch && p.gemm.batch > 1);
     }},
    {"prefetch is 0 to 64", [](const Problem&, const DeviceCaps&, const HostDot& c,
                               const DotSizes&) { return c.prefetch >= 0 && c.prefetch <= 64; }}};

constexpr int kMostRows = 8, kMostColumns = 12;  // of a register tile
constexpr std::array kBlocksOfRows{0, 16, 48, 96};
constexpr std::array kPrefetches{0, 8, 16};

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  // What is copied is small; tiles of other families fill vectors with its rows otherwise.
  constexpr std::int64_t kMostCopied = 64;
  const bool pack_a = !p.a_k_major, pack_b = !p.b_k_major;
  if ((pack_a && (pack_b || p.gemm.m > kMostCopied)) || (pack_b && p.gemm.n > kMostCopied) ||
      p.gemm.b_packed || (pack_b && gated(p.gemm)))
    return;
  const int factors = gated(p.gemm) ? 2 : 1;
  // Few columns stay in cache, and A is what is read from memory.
  constexpr std::int64_t kFewColumns = 16;
  const bool streams_a = !pack_a && p.gemm.n <= kFewColumns && p.gemm.m > p.gemm.n;
  std::vector<Parallel> ways{Parallel::none};
  if (d.compute_units > 1) {
    ways.insert(ways.end(), {Parallel::n, Parallel::m});
    if (p.gemm.batch > 1) ways.push_back(Parallel::batch);
  }
  for (const Isa isa : host::isas(d)) {
    const auto* row = instruction(isa, p, d);
    if (row == nullptr) continue;
    const int registers = host::vector_registers(isa);
    const int step = row->vector_bytes / row->acc_bytes * row->group;
    const auto fills = [&](int mr, int nr) {
      const int accumulators = mr * nr;
      // One row of A cannot fill the registers: there, more than a few columns only cost reach.
      const bool full =
          accumulators * 2 >= registers || mr == 1 || mr == p.gemm.m || nr == p.gemm.columns_of_b();
      return mr <= std::max<std::int64_t>(p.gemm.m, 1) && accumulators + nr + 1 <= registers &&
             full;
    };
    const std::array depths{0, 16 * step, 32 * step, 64 * step};
    Product(multiples(1, kMostRows), multiples(factors, kMostColumns), depths, kBlocksOfRows, ways,
            kPrefetches)
        .each([&](int mr, int nr, int kc, int mc, Parallel way, int prefetch) {
          if (!fills(mr, nr) || kc >= p.gemm.k) return;
          if (mc > 0 && (mc >= p.gemm.m || pack_b)) return;
          HostDot config{isa, mr,       nr,     kc,    int(ceil_div(mc, mr) * mr),
                         way, prefetch, pack_a, pack_b};
          visit(config);
          if (prefetch > 0 || !streams_a) return;
          config.ahead = true;
          visit(config);
        });
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HostDot& h, const DotSizes& w) {
  const auto& row = w.row;
  Parameters out;
  host::add_common(out, p, d, h.isa, row, row.vector_bytes, h.any_epilogue);
  const int tail_rows = int(p.gemm.m % h.mr);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kMr", h.mr, "rows of A in the tile");
  add("kNr", h.nr, "rows of B^T in the tile");
  if (tail_rows > 0) {
    add("kTailRows", tail_rows, "rows that are left over, which have a tile of their own");
    out.constants.back().hint = true;
  }
  if (h.prefetch > 0) add("kPrefetch", h.prefetch, "vectors that B is prefetched ahead");
  auto& v = out.values;
  const auto flag = [](bool b) { return std::string(b ? "1" : "0"); };
  v["shift_a"] = flag(w.shifted);
  v["blocked_k"] = flag(h.kc > 0);
  v["blocked_m"] = flag(h.mc > 0);
  v["prefetch"] = flag(h.prefetch > 0);
  v["ahead"] = flag(h.ahead);
  v["tail_rows"] = flag(tail_rows > 0);
  v["pack_a"] = flag(h.pack_a);
  v["pack_b"] = flag(h.pack_b);
  host::add_shares(out, h.parallel, h.mr, w.columns, row.group);
  return out;
}

// The numbers of the model. [measured]: as said beside it; [counted]: instructions of the generated
// code; [trial]: chosen by trial, no measurement is kept.
constexpr double kConvertingLoads = 3;  // instructions for a load that converts [counted]
// Nanoseconds at a tile's end: of an accumulator, also between blocks of k, and of the tile
// [trial].
constexpr double kFinishNs = 2.5, kPassNs = 1, kTileNs = 10;
constexpr double kTilesInL1 = 0.8, kTilesInL2 = 0.7;  // what stays there for the next tile [trial]
constexpr double kFarBytes = 64e6;   // found in L3 below that, else in memory [trial]
constexpr double kAgainInL2 = 0.25;  // of L2: an A that stays there from call to call [trial]
/// Rows of A that nobody prefetches end before the hardware's prefetchers have begun (4008×3×1529
/// bf16: 1.3 to 1.5 ms, 0.88 with `ahead`) [measured].
constexpr double kLateRows = 1.5;
constexpr double kCopiedNs = 0.35;  // of an element, one by one [trial]
constexpr double kExposed = 0.35;   // of what is not the longest part [trial]
constexpr double kTeamNs = 2000;    // to wake the other threads [trial]

double predict(const Problem& p, const DeviceCaps& d, const HostDot& h, const DotSizes& w) {
  const auto& row = w.row;
  const auto rate = host::rates(d, h.isa);
  const Gemm& g = p.gemm;
  const int threads = h.parallel == Parallel::none ? 1 : d.compute_units;
  double m = double(g.m), n = double(g.columns_of_b()), batch = double(g.batch);
  const auto part = [&](double size, double unit) {
    return std::min(size, std::ceil(std::ceil(size / unit) / threads) * unit);
  };
  if (h.parallel == Parallel::m) m = part(m, h.mr);
  if (h.parallel == Parallel::n) n = part(n, h.nr);
  if (h.parallel == Parallel::batch) batch = std::ceil(batch / threads);
  const double k = double(g.k), steps = std::ceil(k / w.step);
  const double columns = std::ceil(n / h.nr);
  const double tiles = std::ceil(m / h.mr) * columns;
  const double passes = h.kc > 0 ? std::ceil(k / h.kc) : 1;

  const bool converts = row.kind == Kind::f32 && g.a.dtype != fp32;
  const double accumulators = double(h.mr) * h.nr,
               loads = (h.mr + h.nr) * (converts ? kConvertingLoads : 1.0);
  // Rows of the last tile that do not exist are not computed: it has a tile of its own.
  const double compute =
      m * columns * h.nr * steps * std::max({accumulators, loads, rate.chains}) / accumulators /
          host::dots_per_ns(d, row) +
      tiles * (accumulators * kFinishNs + passes * accumulators * kPassNs + kTileNs);

  const double kc = h.kc > 0 ? std::min<double>(h.kc, k) : k;
  // Rows of A are held for the next columns, where there are any.
  const double held_rows = columns <= 1 ? h.mr : h.mc > 0 ? std::min<double>(h.mc, m) : m;
  const double a_block = held_rows * kc * size_of(g.a.dtype),
               b_tile = h.nr * kc * size_of(g.b.dtype);
  const double near = a_block + b_tile;
  const double level = near < kTilesInL1 * d.l1_bytes   ? rate.l1
                       : near < kTilesInL2 * d.l2_bytes ? rate.l2
                                                        : rate.l3;
  const double stream = tiles * steps * (h.mr + h.nr) * row.vector_bytes / level;
  const double bytes_b = n * k * size_of(g.b.dtype) * (h.mc > 0 ? std::ceil(m / h.mc) : 1);
  const double far = bytes_b < d.l2_bytes ? rate.l2 : bytes_b < kFarBytes ? rate.l3 : rate.dram;
  const double bytes_a = m * k * size_of(g.a.dtype);
  const double far_a = bytes_a < kAgainInL2 * d.l2_bytes ? rate.l2
                       : bytes_a < kFarBytes             ? rate.l3
                                                         : rate.dram;
  const double memory = bytes_b / far + bytes_a / far_a * (h.ahead ? 1 : kLateRows);
  const double copied = h.pack_a ? m * k : h.pack_b ? n * k : 0;
  const double copy = copied * kCopiedNs;
  const double longest = std::max({compute, stream, memory});
  const double others = compute + stream + memory - longest;
  return batch * (copy + longest + kExposed * others) + (threads > 1 ? kTeamNs : 0);
}

/// Lane i of an accumulator takes every step's unit i; the lanes meet at the end of k, halves added
/// to halves. Blocks of k change nothing: whole accumulators wait in the workspace.
std::string summation(const Problem&, const DeviceCaps&, const HostDot&, const DotSizes& w) {
  return fmt::format("{} lanes, each {}", w.row.vector_bytes / w.row.acc_bytes, host::chain(w.row));
}

constexpr TypedFamily<HostDot, DotSizes> kRow{
    .vendor = Vendor::cpu,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .division =
        [](const HostDot& c) { return host::division(c.mc, 0, c.kc, Inner::rows, c.parallel); },
    .tile =
        [](const Problem& p, const HostDot& c, const DotSizes& w) {
          return host::tile_of(p, {c.mr, w.columns, c.kc > 0 ? c.kc : w.step, c.mc, 0, 1, 0});
        },
    .summation = summation,
    .flushed_by = [](const Gemm& g, const DeviceCaps& d,
                     const HostDot& c) { return host::flushed_by(c.isa, g, d); },
    .flags = [](const DeviceCaps& d, const HostDot& c) { return host::flags(c.isa, d); },
    .offers = host::kOffersGroups | taken({"gate"}) | Features{Feature::scales_of_integers}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::dot
