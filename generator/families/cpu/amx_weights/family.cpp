// Family host_amx_weights: axes, rules, parameters and model of templates/cpu/amx_weights.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cpu/amx_weights/config.h"
#include "generator/families/cpu/common/host.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/gemm_types.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::host::amx_weights {
namespace {

constexpr int kTile = 16;      // rows of a tile, and 32-bit columns of it
constexpr int kTileCount = 8;  // tile registers
constexpr double kTileBytes = 1024;
constexpr int kStep = 32;  // k of a tile
/// Elements along k whose sum is scaled at once where a column has one scale.
constexpr int kScaledAlone = 128;

constexpr std::array<std::string_view, 12> kFiles{
    "cpu/common/abi.h",         "cpu/common/types.h",
    "cpu/common/vector.h",      "cpu/common/small_floats.h",
    "cpu/common/amax.h",        "cpu/common/epilogue.h",
    "cpu/common/share.h",       "cpu/common/pack.h",
    "cpu/common/panels.h",      "cpu/amx/amx.h",
    "cpu/amx_weights/decode.h", "cpu/amx_weights/weights.cpp"};

/// The instruction that multiplies A by weights that became A's type; null where there is none.
const DotInstruction* row_of(const Problem& p, const DeviceCaps& d) {
  if (!has_weights(p.gemm) || p.gemm.a.dtype != bf16) return nullptr;
  return dot_instruction(Isa::amx, d.cpu, bf16, bf16);
}

struct AmxWeightsSizes {
  const DotInstruction& row;
  int scaled;  // elements along k whose sum is scaled at once
  int strip;   // columns of D
};

AmxWeightsSizes sizes_of(const Problem& p, const DeviceCaps& d, const HostAmxWeights& c) {
  const int along = scale_block(p.gemm.b.q.scale).along;
  return {*row_of(p, d), along == 0 ? kScaledAlone : along, c.mt * kTile / (gated(p.gemm) ? 2 : 1)};
}

constexpr FirstRule<HostAmxWeights> kFirst[] = {
    {"B holds weights, A is bf16, and the device has AMX-BF16",
     [](const Problem& p, const DeviceCaps& d, const HostAmxWeights& c) {
       return c.isa == Isa::amx && row_of(p, d) != nullptr;
     }}};

constexpr Rule<HostAmxWeights, AmxWeightsSizes> kRules[] = {
    {"B is k-major and not packed, zero points are none or integers",
     [](const Problem& p, const DeviceCaps&, const HostAmxWeights&, const AmxWeightsSizes&) {
       return p.b_k_major && !p.gemm.b_packed && p.gemm.b.q.zero != Zero::floating;
     }},
    {"mt and nt are at least 1, and mt*nt + mt + nt tiles fit the 8 registers",
     [](const Problem&, const DeviceCaps&, const HostAmxWeights& c, const AmxWeightsSizes&) {
       return c.mt >= 1 && c.nt >= 1 && c.mt * c.nt + c.mt + c.nt <= kTileCount;
     }},
    {"a gate needs an even mt",
     [](const Problem& p, const DeviceCaps&, const HostAmxWeights& c, const AmxWeightsSizes&) {
       return !gated(p.gemm) || c.mt % 2 == 0;
     }},
    {"kc is a multiple of a group (128 where a column is one), nc of 16*mt (with a gate 8*mt) and "
     "mc "
     "of 16*nt",
     [](const Problem&, const DeviceCaps&, const HostAmxWeights& c, const AmxWeightsSizes& w) {
       return c.kc >= w.scaled && c.kc % w.scaled == 0 && c.nc >= w.strip && c.nc % w.strip == 0 &&
              c.mc >= c.nt * kTile && c.mc % (c.nt * kTile) == 0;
     }},
    {"parallel is none, n, or batch with 2 or more products",
     [](const Problem& p, const DeviceCaps&, const HostAmxWeights& c, const AmxWeightsSizes&) {
       return c.parallel == Parallel::none || c.parallel == Parallel::n ||
              (c.parallel == Parallel::batch && p.gemm.batch > 1);
     }}};

/// Sizes of blocks within a size, each a multiple of `unit`.
std::vector<int> within(std::vector<int> sizes, std::int64_t size, int unit) {
  const std::int64_t all = ceil_div(std::max<std::int64_t>(size, 1), unit);
  for (int& value : sizes) value = int(std::min(ceil_div(value, unit), all) * unit);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  if (row_of(p, d) == nullptr) return;
  std::vector<Parallel> ways{Parallel::none};
  if (d.compute_units > 1) {
    ways.push_back(Parallel::n);
    if (p.gemm.batch > 1) ways.push_back(Parallel::batch);
  }
  const int scaled = sizes_of(p, d, {}).scaled;
  const int factors = gated(p.gemm) ? 2 : 1;
  for (const auto& shape : {std::array{2, 2}, {3, 1}, {1, 3}, {2, 1}, {1, 2}, {1, 1}}) {
    if (shape[0] % factors != 0) continue;
    Product(within({512, 1024, 2048, 4096}, p.gemm.k, scaled),
            within({64, 256, 1024}, p.gemm.n, shape[0] * kTile / factors),
            within({64, 128, 256, 512}, p.gemm.m, shape[1] * kTile), ways)
        .each([&](int kc, int nc, int mc, Parallel way) {
          visit(HostAmxWeights{Isa::amx, shape[0], shape[1], kc, nc, mc, way});
        });
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HostAmxWeights& h,
                      const AmxWeightsSizes& w) {
  const Gemm& g = p.gemm;
  Parameters out;
  host::add_common(out, p, d, Isa::amx, w.row, w.row.vector_bytes);
  host::add_weights(out, g);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  const CodeFormat& format = *code_format(g.b.dtype);
  if (bits_of(g.b.dtype) == 4 && format.has_zero_points())
    out.constants.push_back({"bool", "kSignedCodes", format.has_sign() ? "true" : "false",
                             "codes are two's complement"});
  add("kScaledK", w.scaled, "elements along k whose sum is scaled at once");
  add("kMt", h.mt, "tiles of 16 columns of B in a block of accumulators");
  add("kNt", h.nt, "tiles of 16 rows of A in it");
  add("kNv", h.nt, "vectors across it");
  add("kPanelStep", kTile, "rows of a panel of A are a multiple of this");
  add("kColumnSums", 0, "rows of column sums behind a panel");
  host::add_shares(out, h.parallel, h.nt * kTile, w.strip, w.row.group);
  auto& v = out.values;
  for (const char* other : {"b_packed", "column_sums", "left_signed", "right_signed"})
    v[other] = "0";
  return out;
}

/// Cycles of products are those of host_amx; those of scaling and decoding are counted in
/// instructions.
double predict(const Problem& p, const DeviceCaps& d, const HostAmxWeights& h,
               const AmxWeightsSizes& w) {
  constexpr double kScaleCycles = 30;  // of a tile that is scaled
  const host::Microarchitecture& core = host::microarchitecture(d);
  const double load = kTileBytes / core.load_bytes;
  const Gemm& g = p.gemm;
  const int threads = h.parallel == Parallel::none ? 1 : d.compute_units;
  const auto rate = host::rates(d, Isa::amx);
  const int bits = bits_of(g.b.dtype), height = h.mt * kTile, width = h.nt * kTile;
  double n = double(g.columns_of_b()), batch = double(g.batch);
  if (h.parallel == Parallel::n)
    n = std::min(n, std::ceil(std::ceil(n / height) / threads) * height);
  if (h.parallel == Parallel::batch) batch = std::ceil(batch / threads);
  const double k = double(g.k), m = double(g.m);
  const double strips = std::ceil(n / height), across = std::ceil(m / width);
  const double steps = std::ceil(k / kStep), parts = std::ceil(k / w.scaled);
  const double mc = std::min<double>(h.mc, m), kc = std::min<double>(h.kc, k),
               nc = std::min<double>(double(h.nc) * height / w.strip, n);
  // Panels of A stream from L2, where a block of them is to stay.
  const double held = mc * kc * 2 + mc * nc * 4;
  const double far = held > 0.7 * d.l2_bytes ? 2 : 1;
  const double dots =
      steps * std::max(core.tile_cycles * h.mt * h.nt, load * h.mt + 20.0 * far * h.nt);
  const double scales = parts * (kScaleCycles * h.mt * h.nt + 10);
  // Of a row of a tile: a load, an expansion, two operations, a look-up and a store, or twice so.
  const double decode = bits == 4 ? 3.0 : code_format(g.b.dtype)->has_zero_points() ? 7.0 : 10.0;
  const double decodes =
      std::ceil(m / h.mc) * steps * height * decode + std::ceil(m / h.mc) * parts * height * 4.0;
  const double compute = strips * (across * (dots + scales) + decodes) * rate.cycle;
  const double bytes = n * k * bits / 8 * std::ceil(m / h.mc);
  const double memory = bytes / rate.dram;
  const double rows = m * k * 0.12, ends = m * n * (0.3 + 3.0 * size_of(g.d.dtype) / rate.dram);
  return batch * (rows + ends + std::max(compute, memory) + 0.3 * std::min(compute, memory)) +
         (threads > 1 ? 2000 : 0);
}

/// Every instruction adds a tile's k to the sum of a group, which is scaled, then added.
std::string summation(const Problem&, const DeviceCaps&, const HostAmxWeights&,
                      const AmxWeightsSizes& w) {
  return fmt::format("parts of {}, each {}, scaled", w.scaled, host::chain(w.row));
}

constexpr TypedFamily<HostAmxWeights, AmxWeightsSizes> kRow{
    .vendor = Vendor::cpu,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .division =
        [](const HostAmxWeights& c) {
          return host::division(c.mc, c.nc, c.kc, Inner::rows, c.parallel);
        },
    .tile =
        [](const Problem& p, const HostAmxWeights& c, const AmxWeightsSizes& w) {
          return host::tile_of(p, {c.nt * kTile, w.strip, c.kc, c.mc, c.nc});
        },
    .summation = summation,
    .flushed_by = [](const Gemm&, const DeviceCaps&, const HostAmxWeights&) { return 0x1p-126; },
    .flags = [](const DeviceCaps& d, const HostAmxWeights& c) { return host::flags(c.isa, d); },
    .offers = host::kOffersGroups | taken({"gate"}) | Features{Feature::weights}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::amx_weights
