// Family host_weights: axes, rules, parameters and model of templates/cpu/weights/weights.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/weights/config.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/gemm_types.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::host::weights {
namespace {

constexpr std::array<std::string_view, 9> kFiles{
    "cpu/common/abi.h",          "cpu/common/types.h", "cpu/common/vector.h",
    "cpu/common/small_floats.h", "cpu/common/amax.h",  "cpu/common/epilogue.h",
    "cpu/common/share.h",        "cpu/common/lanes.h", "cpu/weights/weights.cpp"};

/// The instruction that multiplies A by weights that became A's type, or fp32.
const DotInstruction* row_of(const Problem& p, const DeviceCaps& d, const HostWeights& c) {
  Problem decoded = p;
  decoded.gemm.b.dtype = p.gemm.a.dtype;
  if (!has_weights(p.gemm) || c.isa == Isa::amx) return nullptr;
  const auto* row =
      c.pairs ? instruction(c.isa, decoded, d) : widening_instruction(c.isa, decoded, d);
  return row != nullptr && c.pairs == (row->kind == Kind::bf16) ? row : nullptr;
}

struct WeightsSizes {
  const DotInstruction& row;
  int lanes;
  int chunk;     // codes of a vector
  int along;     // codes that share a scale; 0: a whole column
  bool several;  // groups in a chunk, not chunks in a group
  bool table;    // codes are indices of a vector of numbers
  int columns;   // of D in a tile
};

WeightsSizes sizes_of(const Problem& p, const DeviceCaps& d, const HostWeights& c) {
  const auto& row = *row_of(p, d, c);
  const int bits = bits_of(p.gemm.b.dtype), along = scale_block(p.gemm.b.q.scale).along;
  const int lanes = row.vector_bytes / row.acc_bytes, chunk = row.vector_bytes * 8 / bits;
  return {row,
          lanes,
          chunk,
          along,
          along > 0 && along < chunk,
          c.isa == Isa::avx512 && bits == 4,
          c.nr / (gated(p.gemm) ? 2 : 1)};
}

constexpr FirstRule<HostWeights> kFirst[] = {
    {"B holds weights, and isa multiplies A by numbers of A's type (pairs=1) or fp32",
     [](const Problem& p, const DeviceCaps& d, const HostWeights& c) {
       return row_of(p, d, c) != nullptr;
     }}};

constexpr Rule<HostWeights, WeightsSizes> kRules[] = {
    {"B is k-major and not packed",
     [](const Problem& p, const DeviceCaps&, const HostWeights&, const WeightsSizes&) {
       return p.b_k_major && !p.gemm.b_packed;
     }},
    {"pairs=1 needs codes of four bits, and zero points that are integers of whole chunks",
     [](const Problem& p, const DeviceCaps&, const HostWeights& c, const WeightsSizes& w) {
       if (!c.pairs) return true;
       return w.table &&
              (p.gemm.b.q.zero == Zero::none || (p.gemm.b.q.zero == Zero::integer && !w.several));
     }},
    {"a gate needs an even nr",
     [](const Problem& p, const DeviceCaps&, const HostWeights& c, const WeightsSizes&) {
       return !gated(p.gemm) || c.nr % 2 == 0;
     }},
    {"mr and nr are at least 1, and accumulators, the sums of a chunk and codes fit the registers",
     [](const Problem&, const DeviceCaps&, const HostWeights& c, const WeightsSizes&) {
       return c.mr >= 1 && c.nr >= 1 && c.mr * c.nr + c.mr + 4 <= host::vector_registers(c.isa);
     }},
    {"parallel is none, n, or batch with 2 or more products",
     [](const Problem& p, const DeviceCaps&, const HostWeights& c, const WeightsSizes&) {
       return c.parallel == Parallel::none || c.parallel == Parallel::n ||
              (c.parallel == Parallel::batch && p.gemm.batch > 1);
     }}};

// Beyond, the rows of A that each tile reads anew cost more than packing B.
constexpr std::int64_t kMostRows = 32;

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  if (!has_weights(p.gemm) || p.gemm.m > kMostRows) return;
  std::vector<Parallel> ways{Parallel::none};
  if (d.compute_units > 1) {
    ways.push_back(Parallel::n);
    if (p.gemm.batch > 1) ways.push_back(Parallel::batch);
  }
  const int factors = gated(p.gemm) ? 2 : 1;
  Product(host::isas(d), kNoYes, multiples(1, int(std::clamp<std::int64_t>(p.gemm.m, 1, 8))),
          multiples(factors, 8), kNoYes, ways)
      .each([&](Isa isa, bool pairs, int mr, int nr, bool ahead, Parallel way) {
        visit(HostWeights{isa, pairs, mr, nr, ahead, way});
      });
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HostWeights& h,
                      const WeightsSizes& w) {
  const Gemm& g = p.gemm;
  Parameters out;
  host::add_common(out, p, d, h.isa, w.row, w.row.vector_bytes);
  const CodeFormat& format = *code_format(g.b.dtype);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  host::add_weights(out, g);
  if (h.pairs && format.has_zero_points())
    out.constants.push_back({"bool", "kSignedCodes", format.has_sign() ? "true" : "false",
                             "codes are two's complement"});
  add("kMr", h.mr, "rows of A in the tile");
  add("kNr", h.nr, "columns of B in the tile");
  auto& v = out.values;
  v["table"] = value_of(w.table);
  v["several_groups"] = value_of(w.several);
  // Elsewhere the table's numbers are less the zero point.
  v["subtract"] = value_of(g.b.q.zero != Zero::none && (!w.table || w.several));
  v["ahead"] = value_of(h.ahead);
  host::add_shares(out, h.parallel, h.mr, w.columns, w.row.group);
  return out;
}

double predict(const Problem& p, const DeviceCaps& d, const HostWeights& h, const WeightsSizes& w) {
  const Gemm& g = p.gemm;
  const int threads = h.parallel == Parallel::none ? 1 : d.compute_units;
  const auto rate = host::rates(d, h.isa);
  double n = double(g.columns_of_b()), batch = double(g.batch);
  if (h.parallel == Parallel::n) n = std::min(n, std::ceil(std::ceil(n / h.nr) / threads) * h.nr);
  if (h.parallel == Parallel::batch) batch = std::ceil(batch / threads);
  const double k = double(g.k), tiles = std::ceil(double(g.m) / h.mr) * std::ceil(n / h.nr);
  const double chunks = std::ceil(k / w.chunk);
  const int slices = w.chunk / w.lanes / w.row.group;
  // A shift and a table's look-up; two shifts, a conversion and the zero point; or two shifts, a
  // mask, a product and what finds NaNs.
  const double decode = w.table ? 2 : code_format(g.b.dtype)->has_zero_points() ? 3.5 : 5;
  const double chunk =
      slices * (decode + h.mr * (w.row.kind == Kind::bf16 ? host::dots_of_a_pair(d) : 1)) + h.mr +
      4;
  const double compute = tiles * h.nr * (chunks * chunk + 8.0 * h.mr) / rate.dots_per_ns;
  const double bytes = n * k * bits_of(g.b.dtype) / 8;
  const double memory = bytes / rate.dram * (h.ahead ? 1 : 1.1);
  const double arrange = double(g.m) * k * 0.15;
  return batch * (arrange + std::max(compute, memory) + 0.2 * std::min(compute, memory)) +
         (threads > 1 ? 2000 : 0);
}

/// Lane i takes the codes of its own part of each chunk in turn; the sum of a chunk is scaled and
/// added. Lanes meet at the end of k, halves added to halves.
std::string summation(const Problem&, const DeviceCaps&, const HostWeights&,
                      const WeightsSizes& w) {
  return fmt::format("{} lanes, each chunks of {} {}, scaled", w.lanes, w.chunk / w.lanes,
                     host::chain(w.row));
}

std::optional<HostWeights> fallback(const Problem& p, const DeviceCaps& d) {
  if (p.gemm.m > kMostRows) return std::nullopt;
  HostWeights h{.isa = host::isas(d).front(), .mr = int(std::clamp<std::int64_t>(p.gemm.m, 1, 4))};
  h.nr = h.isa == Isa::avx512 ? 4 : 2;
  if (!p.b_k_major || p.gemm.b_packed || row_of(p, d, h) == nullptr) return std::nullopt;
  if (d.compute_units > 1)
    h.parallel = p.gemm.batch >= d.compute_units ? Parallel::batch : Parallel::n;
  return h;
}

constexpr TypedFamily<HostWeights, WeightsSizes> kRow{
    .vendor = Vendor::cpu,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .division =
        [](const HostWeights& c) { return host::division(0, 0, 0, Inner::rows, c.parallel); },
    .tile =
        [](const Problem& p, const HostWeights& c, const WeightsSizes& w) {
          return host::tile_of(p, {c.mr, w.columns, w.chunk, 0, 0, 1, 0});
        },
    .summation = summation,
    .fallback = fallback,
    .flushed_by = [](const Gemm&, const DeviceCaps&,
                     const HostWeights& c) { return c.pairs ? 0x1p-126 : 0; },
    .flags = [](const DeviceCaps& d, const HostWeights& c) { return host::flags(c.isa, d); },
    .offers = host::kOffersGroups | taken({"gate"}) | Features{Feature::weights}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::weights
