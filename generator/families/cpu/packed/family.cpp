// Family host_packed: rules and parameters of templates/cpu/packed/packed.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "generator/families/cpu/common/packed_layout.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/packed/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/space/typed_family.h"

namespace kiln::host::packed {
namespace {

using host::instruction;
using host::PackedSizes;

constexpr std::array<std::string_view, 18> kFiles{
    "cpu/common/abi.h",          "cpu/common/types.h",   "cpu/common/vector.h",
    "cpu/common/small_floats.h", "cpu/common/amax.h",    "cpu/common/lines.h",
    "cpu/common/epilogue.h",     "cpu/common/share.h",   "cpu/common/pack.h",
    "cpu/common/panels.h",       "cpu/common/decode.h",  "cpu/packed/ahead.h",
    "cpu/packed/transposed.h",   "cpu/packed/operand.h", "cpu/packed/tile.h",
    "cpu/packed/rows.h",         "cpu/packed/memory.h",  "cpu/packed/packed.cpp"};

PackedSizes sizes_of(const Problem& p, const DeviceCaps& d, const HostPacked& c) {
  const auto& row = *row_of(p, d, c);
  const int columns = c.nv * lanes(row) / (gated(p.gemm) ? 2 : 1);
  return {row, lanes(row), columns, c.swap ? transposed(p) : p};
}

constexpr FirstRule<HostPacked> kFirst[] = {
    {"isa has an instruction of this family for the types",
     [](const Problem& p, const DeviceCaps& d, const HostPacked& c) {
       return c.isa != Isa::amx && instruction(c.isa, p, d) != nullptr;
     }},
    {"widen=1 needs operands that isa multiplies in pairs of bf16",
     [](const Problem& p, const DeviceCaps& d, const HostPacked& c) {
       return !c.widen || instruction(c.isa, p, d)->kind == Kind::bf16;
     }},
    {"mr and nv are at least 1, and mr*nv + nv + 1 vectors fit the registers",
     [](const Problem&, const DeviceCaps&, const HostPacked& c) {
       // One register more holds the broadcast; an accumulator that spills costs a store a
       // step.
       return c.mr >= 1 && c.nv >= 1 && c.mr * c.nv + c.nv + 1 <= host::vector_registers(c.isa);
     }},
    {"a gate needs an even nv, any_epilogue=0, swap=0 and no parallel=k",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c) {
       return !gated(p.gemm) ||
              (c.nv % 2 == 0 && !c.any_epilogue && !c.swap && c.parallel != Parallel::k);
     }}};

constexpr Rule<HostPacked, PackedSizes> kRules[] = {
    {"mc is a multiple of mr, nc of the register tile's columns, kc of 8",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       return c.mc >= c.mr && c.mc % c.mr == 0 && c.nc >= 1 && c.nc % w.columns == 0 && c.kc >= 8 &&
              c.kc % 8 == 0;
     }},
    {"pack_a=0 needs an A that is k-major or has one k a lane",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       return c.pack_a || w.product.a_k_major || w.row.group == 1;
     }},
    {"pack_b=0 needs a B that is n-major, and isa=avx512 or one k a lane and n in whole vectors; "
     "no column sums of B",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       const Problem& p = w.product;
       return c.pack_b || (!p.b_k_major && !host::shifts_a(p, w.row) &&
                           (c.isa == Isa::avx512 || (w.row.group == 1 && p.gemm.n % w.lanes == 0)));
     }},
    {"packed weights need pack_b=1, swap=0, widen=0 and no parallel=k",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return !p.gemm.b_packed || (c.pack_b && !c.swap && !c.widen && c.parallel != Parallel::k);
     }},
    {"weights in groups need pack_b=1, swap=0, fetch_b=0, no parallel=k and kc of whole runs of 32",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return !has_weights(p.gemm) || (c.pack_b && !c.swap && c.fetch_b == 0 &&
                                       c.parallel != Parallel::k && c.kc % 32 == 0);
     }},
    {"swap=1 needs stream_d=0 and no parallel=k",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return !c.swap || (!c.stream_d && c.parallel != Parallel::k);
     }},
    {"parallel=batch needs 2 or more products",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return c.parallel != Parallel::batch || p.gemm.batch > 1;
     }},
    {"stream_d=1 and rows_d=1 need a D that kernels store",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return (!c.stream_d && !c.rows_d) || p.gemm.epilogue.expression.stores_d();
     }},
    {"stream_d=1 needs kc >= k, no parallel=k, and vectors",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return !c.stream_d ||
              (c.isa != Isa::portable && c.kc >= p.gemm.k && c.parallel != Parallel::k);
     }},
    {"fetch_a and fetch_b are 0 to 8, fetch_a is 0 where an unpacked A is not k-major",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       const Problem& p = w.product;
       const int most_a = c.pack_a || p.a_k_major ? kMostLines : 0;
       return c.fetch_a >= 0 && c.fetch_a <= most_a && c.fetch_b >= 0 && c.fetch_b <= kMostLines;
     }},
    {"rows_d=1 needs kc >= k, inner=columns, swap=0, stream_d=0, no parallel=k, and vectors",
     [](const Problem& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return !c.rows_d || (c.kc >= p.gemm.k && c.inner == Inner::columns && !c.swap &&
                            !c.stream_d && c.parallel != Parallel::k && c.isa != Isa::portable);
     }},
    {"long_runs=1 needs an operand to pack whose k is not adjacent",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       const Problem& p = w.product;
       const bool packs_b = c.pack_b && !p.gemm.b_packed && !has_weights(p.gemm);
       return !c.long_runs || (packs_b && !p.b_k_major) || (c.pack_a && !p.a_k_major);
     }},
    {"unroll is 1 to 16, prefetch 0 to 64",
     [](const Problem&, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return c.unroll >= 1 && c.unroll <= 16 && c.prefetch >= 0 && c.prefetch <= 64;
     }}};

// Of so many column tiles in a row of D a ragged one is a large part.
constexpr int kFewTiles = 4;

Parameters parameters(const Problem&, const DeviceCaps& d, const HostPacked& h,
                      const PackedSizes& w) {
  const auto& row = w.row;
  const Problem& p = w.product;
  Parameters out;
  host::add_common(out, p, d, h.isa, row, row.vector_bytes, h.any_epilogue);
  const int nr = w.columns;
  const bool shifted = host::shifts_a(p, row);
  const bool pack_b = h.pack_b && !p.gemm.b_packed;
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kMr", h.mr, "rows of the register tile");
  add("kNv", h.nv, "vectors across the register tile");
  add("kUnroll", h.unroll, "k steps in the inner loop's body");
  if (h.prefetch > 0) add("kPrefetch", h.prefetch, "k steps that B is prefetched ahead");
  // Where the last columns are a large part of n.
  const int tail_columns = p.gemm.n < kFewTiles * nr ? int(p.gemm.n % nr) : 0;
  if (tail_columns > 0) {
    add("kTailColumns", tail_columns, "columns that are left over, which have a tile of their own");
    out.constants.back().hint = true;
  }
  out.values["lone_column"] = value_of(host::stores_lone_column(p.gemm, w.lanes, tail_columns));
  // In rows and columns of D.
  host::add_shares(out, h.parallel, h.swap ? nr : h.mr, h.swap ? h.mr : nr, row.group);
  if (h.swap)
    add("kFinishLanes", std::min(w.lanes, int(std::bit_ceil(unsigned(std::max(h.mr, 2))))),
        "elements of a row of D that are finished at once");
  const bool weights = p.gemm.b_packed;
  const PackedLayout given = weights ? packed_layout(p, d) : PackedLayout{};
  add("kPanelStep", given.step, "rows of a panel of B are a multiple of this");
  add("kColumnSums", weights ? given.column_sums : shifted,
      "rows of column sums behind a panel of B");
  if (h.pack_a || shifted)
    out.constants.push_back({"u32", "kFlip", shifted ? "0x80808080u" : "0u",
                             "turns signed bytes of A into unsigned ones"});
  out.constants.push_back({"bool", "kPackA", h.pack_a ? "true" : "false", "A is copied to strips"});
  out.constants.push_back({"bool", "kPackB", pack_b ? "true" : "false", "B is copied to panels"});

  if (h.fetch_a > 0) add("kFetchA", h.fetch_a, "lines of A's next rows that 8 steps fetch ahead");
  if (h.fetch_b > 0) add("kFetchB", h.fetch_b, "lines of B's next block that 8 steps fetch ahead");

  auto& v = out.values;
  const auto flag = [](bool b) { return std::string(b ? "1" : "0"); };
  v["fetch_a"] = flag(h.fetch_a > 0);
  v["fetch_b"] = flag(h.fetch_b > 0);
  v["tail_columns"] = flag(tail_columns > 0);
  v["pack_a"] = flag(h.pack_a);
  v["pack_b"] = flag(pack_b);
  v["b_packed"] = flag(p.gemm.b_packed);
  v["packed_b"] = flag(pack_b || p.gemm.b_packed);
  v["column_sums"] = flag(shifted);
  v["flip_a"] = flag(shifted && !h.pack_a);
  v["prefetch"] = flag(h.prefetch > 0);
  v["stream_d"] = flag(h.stream_d);
  v["fetch_d"] = flag(!h.stream_d && !h.swap && !h.rows_d);
  v["rows_d"] = flag(h.rows_d);
  v["swap"] = flag(h.swap);
  v["long_runs"] = flag(h.long_runs);
  host::add_weights(out, p.gemm);
  // Units stand in memory as they are, so that one load reads one.
  v["direct_a"] = flag((row.kind == Kind::f32 && p.gemm.a.dtype == fp32) || row.kind == Kind::f64 ||
                       row.kind == Kind::bf16 || row.kind == Kind::vnni);
  if (h.swap || h.parallel == Parallel::k) v["accumulate"] = "workspace";
  return out;
}

Tile tile(const Problem& p, const HostPacked& h, const PackedSizes& w) {
  const int nr = w.columns;
  return host::tile_of(p, h.swap ? Tile{nr, h.mr, h.kc, h.nc, h.mc, w.lanes, 1}
                                 : Tile{h.mr, nr, h.kc, h.mc, h.nc, 1, w.lanes});
}

/// One accumulator an element; partial sums are added where a block of k ends, in D itself or,
/// where its type would round them or there is a gate, in the workspace. Which of both follows from
/// types and gate alone but for parallel=k. With `swap` blocks of k change nothing: whole
/// accumulators wait.
std::string summation(const Problem& p, const DeviceCaps& d, const HostPacked& h,
                      const PackedSizes& w) {
  const std::string blocks = h.kc < p.gemm.k && !h.swap ? fmt::format(" kc={}", h.kc) : "";
  const std::string chain = host::chain(w.row) + blocks;
  return h.parallel == Parallel::k ? fmt::format("{} threads, each {}", d.compute_units, chain)
                                   : chain;
}

/// A plain blocking for whatever the best instruction set of the device computes.
std::optional<HostPacked> fallback(const Problem& p, const DeviceCaps& d) {
  const Isa isa = host::isas(d).front();
  const auto* row = instruction(isa, p, d);
  if (row == nullptr) return std::nullopt;
  HostPacked h;
  h.isa = isa;
  h.mr = isa == Isa::portable ? 4 : 6;
  h.nv = isa == Isa::avx512 ? 4 : 2;
  h.kc = 256 * row->group;
  h.mc = h.mr * 40;
  h.nc = h.nv * lanes(*row) * 12;
  h.pack_a = h.pack_b = true;
  h.inner = Inner::columns;
  h.prefetch = 0;
  if (d.compute_units > 1)
    h.parallel = p.gemm.batch >= d.compute_units ? Parallel::batch
                 : p.gemm.m > p.gemm.n           ? Parallel::m
                                                 : Parallel::n;
  return h;
}

constexpr TypedFamily<HostPacked, PackedSizes> kRow{
    .vendor = Vendor::cpu,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = host::enumerate_packed,
    .parameters = parameters,
    .predict_ns = [](const Problem&, const DeviceCaps& d, const HostPacked& c,
                     const PackedSizes& w) { return host::predict_packed(d, c, w); },
    .division =
        [](const HostPacked& c) { return host::division(c.mc, c.nc, c.kc, c.inner, c.parallel); },
    .tile = tile,
    .summation = summation,
    .plain = fallback,
    .fallback = fallback,
    .flushed_by = [](const Gemm& g, const DeviceCaps& d,
                     const HostPacked& c) { return c.widen ? 0 : host::flushed_by(c.isa, g, d); },
    .flags = [](const DeviceCaps& d, const HostPacked& c) { return host::flags(c.isa, d); },
    .offers = host::kOffersGroups | taken({"gate"}) |
              Features{Feature::weights, Feature::scales_of_integers}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::packed
