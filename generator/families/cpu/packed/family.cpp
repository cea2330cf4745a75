// Family host_packed: axes, rules and parameters of templates/cpu/packed/packed.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "generator/families/cpu/common/packed_layout.h"
#include "generator/families/cpu/packed/sizes.h"
#include "generator/space/typed_family.h"

namespace kiln::host::packed {
namespace {

using host::instruction;
using host::PackedSizes;

int lanes(const DotInstruction& row) { return row.vector_bytes / row.acc_bytes; }

constexpr std::array<std::string_view, 9> kFiles{
    "cpu/common/abi.h",      "cpu/common/types.h", "cpu/common/vector.h",
    "cpu/common/epilogue.h", "cpu/common/share.h", "cpu/common/pack.h",
    "cpu/common/panels.h",   "cpu/packed/ahead.h", "cpu/packed/packed.cpp"};

/// The most of L2 that a prefetched block may take, so that it does not evict the one in use.
constexpr double kAheadShare = 0.25;

constexpr int kMostLines = 8;  // a call: more would hold up the loads of the steps

struct Fetches {
  int a = 0, b = 0;
};

/// Which operands have a next block that prefetching helps, and at what rate: values of fetch_a and
/// fetch_b worth trying. Rows of A that lie across pages have none: each k of a tile is a line of
/// its own.
Fetches fetches(const Canonical& p, const DeviceCaps& d, const HostPacked& h) {
  const Gemm& g = p.gemm;
  const auto& row = *instruction(h.isa, p, d);
  const double room = kAheadShare * double(d.l2_bytes);
  const double kc = double(std::min<std::int64_t>(h.kc, g.k));
  const double calls = kc / row.group / 8;  // of one tile
  const double column_tiles =
      double(ceil_div(std::min<std::int64_t>(h.nc, g.n), h.nv * lanes(row)));
  const double row_tiles = double(ceil_div(g.m, h.mr));
  const auto lines = [&](double bytes, double tiles) {
    if (bytes > room) return 0;
    // Powers of two, so that more configs share their code.
    const auto wanted =
        static_cast<unsigned>(std::min<double>(kMostLines, std::ceil(bytes / 64 / tiles / calls)));
    return int(std::bit_ceil(wanted));
  };
  Fetches out{};
  if (calls < 1) return out;
  if (h.pack_a && h.mc < g.m)
    out.a = lines(h.mc * kc * size_of(g.a.dtype), double(h.mc) / h.mr * column_tiles);
  if (!h.pack_a && p.a_k_major)
    out.a = lines(h.mr * kc * size_of(g.a.dtype), h.inner == Inner::rows ? 1 : column_tiles);
  if (!g.b_packed && (h.nc < g.n || h.kc < g.k))
    out.b = lines(std::min<double>(h.nc, double(g.n)) * kc * size_of(g.b.dtype),
                  row_tiles * column_tiles);
  return out;
}

PackedSizes sizes_of(const Canonical& p, const DeviceCaps& d, const HostPacked& c) {
  const auto& row = *instruction(c.isa, p, d);
  return {row, lanes(row)};
}

constexpr FirstRule<HostPacked> kFirst[] = {
    {"isa has an instruction of this family for the types",
     [](const Canonical& p, const DeviceCaps& d, const HostPacked& c) {
       return c.isa != Isa::amx && instruction(c.isa, p, d) != nullptr;
     }},
    {"mr and nv are at least 1, and mr*nv + nv + 1 vectors fit the registers",
     [](const Canonical&, const DeviceCaps&, const HostPacked& c) {
       // One register more holds the broadcast; an accumulator that spills costs a store a
       // step.
       return c.mr >= 1 && c.nv >= 1 && c.mr * c.nv + c.nv + 1 <= host::vector_registers(c.isa);
     }}};

constexpr Rule<HostPacked, PackedSizes> kRules[] = {
    {"mc is a multiple of mr, nc of the register tile's columns, kc of 8",
     [](const Canonical&, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       return c.mc >= c.mr && c.mc % c.mr == 0 && c.nc >= 1 && c.nc % (c.nv * w.lanes) == 0 &&
              c.kc >= 8 && c.kc % 8 == 0;
     }},
    {"pack_a=0 needs an A that is k-major or has one k a lane",
     [](const Canonical& p, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       return c.pack_a || p.a_k_major || w.row.group == 1;
     }},
    {"pack_b=0 needs a B that is n-major, and isa=avx512 or one k a lane and n in whole vectors; "
     "no column sums of B",
     [](const Canonical& p, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       return c.pack_b || (!p.b_k_major && !host::shifts_a(p, w.row) &&
                           (c.isa == Isa::avx512 || (w.row.group == 1 && p.gemm.n % w.lanes == 0)));
     }},
    {"packed weights need pack_b=1 and no parallel=k",
     [](const Canonical& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return !p.gemm.b_packed || (c.pack_b && c.parallel != Parallel::k);
     }},
    {"parallel=batch needs 2 or more products",
     [](const Canonical& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return c.parallel != Parallel::batch || p.gemm.batch > 1;
     }},
    {"stream_d=1 needs kc >= k, no parallel=k, a D as wide as the accumulator, and vectors",
     [](const Canonical& p, const DeviceCaps&, const HostPacked& c, const PackedSizes& w) {
       return !c.stream_d ||
              (c.isa != Isa::portable && c.kc >= p.gemm.k && c.parallel != Parallel::k &&
               size_of(p.gemm.d.dtype) == w.row.acc_bytes);
     }},
    {"fetch_a and fetch_b are 0 to 8, fetch_a is 0 where an unpacked A is not k-major, fetch_b "
     "where B is packed weights",
     [](const Canonical& p, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       const auto fits = [](int lines, bool has) {
         return lines >= 0 && lines <= (has ? kMostLines : 0);
       };
       return fits(c.fetch_a, c.pack_a || p.a_k_major) && fits(c.fetch_b, !p.gemm.b_packed);
     }},
    {"unroll is 1 to 16, prefetch 0 to 64",
     [](const Canonical&, const DeviceCaps&, const HostPacked& c, const PackedSizes&) {
       return c.unroll >= 1 && c.unroll <= 16 && c.prefetch >= 0 && c.prefetch <= 64;
     }}};

std::vector<int> distinct(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return {values.begin(), values.end()};
}

struct TileShape {
  int mr, nv;
};

/// Register tiles worth trying: full ones for long loops, thin ones for thin problems.
std::vector<TileShape> tiles(Isa isa, const Canonical& p, int lane_count) {
  const int registers = host::vector_registers(isa);
  std::vector<TileShape> out;
  for (int nv = 1; nv <= 6; ++nv) {
    const int most = std::min((registers - 1 - nv) / nv, 14 * (nv > 1) + 28 * (nv == 1));
    for (int mr = 1; mr <= most; ++mr) {
      // Half of the registers hide the latency of the accumulators; a product of few columns is
      // bound by memory, where few rows side by side do best (they may share a cache set).
      const bool full = mr * nv >= registers / 2 || (nv * lane_count >= p.gemm.n && mr * nv >= 6);
      const bool all_rows = mr == p.gemm.m;
      const bool even_rows = p.gemm.m < 32 && p.gemm.m % mr == 0;
      const bool covers_n = nv * lane_count < p.gemm.n + lane_count;
      if ((full || all_rows || even_rows) && (covers_n || nv == 1)) out.push_back({mr, nv});
    }
  }
  return out;
}

// Of so many column tiles in a row of D a ragged one is a large part.
constexpr int kFewTiles = 4;

// One step at a time was never ahead of four (1 to 5 % behind on squares from 256 to 2048).
constexpr int kUnroll = 4;

struct Blocks {
  Inner inner;
  int mc, nc;
  auto operator<=>(const Blocks&) const = default;
};

/// The operand that the inner loop reads is held in L2 a block at a time; the other one is read
/// strip by strip, and its block has no reason to be small. `m` and `n` are whole tiles.
std::vector<Blocks> blocks(const Gemm& g, int mr, int nr, std::int64_t m, std::int64_t n) {
  std::vector<Blocks> out;
  const auto add = [&](Inner inner, std::int64_t mc, std::int64_t nc) {
    out.push_back(
        {inner, int(std::min(m, ceil_div(mc, mr) * mr)), int(std::min(n, ceil_div(nc, nr) * nr))});
  };
  for (const int mc : {96, 240, 480, 960}) add(Inner::rows, mc, 4096);
  // Few rows: B may be packed one strip at a time, since all of A follows in cache.
  if (g.m <= 512)
    for (const int nc : {nr, 4 * nr}) add(Inner::rows, 512, nc);
  for (const int nc : {128, 256, 512, 768, 1536, 4096}) add(Inner::columns, 1 << 20, nc);
  // A packed block of A stays in L2 beside that of B.
  for (const int mc : {48, 192})
    for (const int nc : {256, 512, 768}) add(Inner::columns, mc, nc);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void enumerate(const Canonical& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  std::vector<Parallel> ways{Parallel::none};
  if (d.compute_units > 1) {
    // One thread alone may win only where waking the others costs a share worth mentioning: below
    // some 0.3 ms.
    ways = {Parallel::m, Parallel::n, Parallel::k};
    if (p.gemm.flops() < 64e6) ways.push_back(Parallel::none);
    if (d.compute_units > 3) ways.push_back(Parallel::grid);
    if (p.gemm.batch > 1) ways.push_back(Parallel::batch);
  }
  // Past the caches only what they could not hold anyway.
  std::vector<bool> streams{false};
  if (double(p.gemm.m) * double(p.gemm.n) * size_of(p.gemm.d.dtype) > double(d.l2_bytes))
    streams.push_back(true);
  // Strips that were packed just now are in cache. Packed weights are not: where few rows leave
  // time, fetching them further ahead than the hardware does takes 5 to 20 % less.
  constexpr std::int64_t kFewRows = 64;
  const bool weights = p.gemm.b_packed;
  std::vector<int> prefetches{0};
  if (!weights) prefetches.push_back(8);
  if (weights && p.gemm.m <= kFewRows) prefetches.push_back(16);
  for (const Isa isa : host::isas(d)) {
    const auto* row = instruction(isa, p, d);
    if (row == nullptr) continue;
    for (const auto [mr, nv] : tiles(isa, p, lanes(*row))) {
      const int nr = nv * lanes(*row);
      const std::int64_t m = ceil_div(std::max<std::int64_t>(p.gemm.m, 1), mr) * mr;
      const std::int64_t n = ceil_div(std::max<std::int64_t>(p.gemm.n, 1), nr) * nr;
      const std::int64_t k = std::max<std::int64_t>(8, ceil_div(p.gemm.k, 8) * 8);
      const std::int64_t group = row->group;
      std::vector<std::int64_t> kcs;
      // Few rows read B once, at the memory's speed: short blocks read whole rows of it in order.
      if (p.gemm.m <= 16)
        for (const int kc : {16, 32, 64}) kcs.push_back(std::min<std::int64_t>(k, kc * group));
      for (const int kc : {128, 256, 384, 512, 1024, 4096})
        kcs.push_back(std::min<std::int64_t>(k, kc * group));
      for (const Blocks& b : blocks(p.gemm, mr, nr, m, n))
        for (const int kc : distinct(kcs))
          for (const bool pack_a : {false, true})
            for (const bool pack_b : {false, true})
              for (const Parallel way : ways)
                for (const int prefetch : prefetches)
                  for (const bool stream : streams) {
                    if (prefetch > 0 && pack_b && !weights) continue;
                    // Columns within few rows only help an A that is packed.
                    if (!pack_a && b.inner == Inner::columns && b.mc < m) continue;
                    HostPacked h{isa,    mr,      nv,  kc,      b.mc,     b.nc,  pack_a,
                                 pack_b, b.inner, way, kUnroll, prefetch, stream};
                    visit(h);
                    if (prefetch > 0) continue;
                    const Fetches next = fetches(p, d, h);
                    if (next.a + next.b == 0) continue;
                    h.fetch_a = next.a;
                    h.fetch_b = next.b;
                    visit(h);
                  }
    }
  }
}

Parameters parameters(const Canonical& p, const DeviceCaps& d, const HostPacked& h,
                      const PackedSizes& w) {
  const auto& row = w.row;
  Parameters out;
  host::add_common(out, p, d, h.isa, row, row.vector_bytes, h.any_epilogue);
  const int nr = h.nv * w.lanes;
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
  host::add_shares(out, h.parallel, h.mr, nr, row.group);
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
  // Units stand in memory as they are, so that one load reads one.
  v["direct_a"] = flag((row.kind == Kind::f32 && p.gemm.a.dtype == fp32) || row.kind == Kind::f64 ||
                       row.kind == Kind::bf16 || row.kind == Kind::vnni);
  if (h.parallel == Parallel::k) v["accumulate"] = "workspace";
  return out;
}

Tile tile(const Canonical& p, const HostPacked& h, const PackedSizes& w) {
  return host::tile_of(p, {h.mr, h.nv * w.lanes, h.kc, h.mc, h.nc, 1, w.lanes});
}

/// One accumulator an element; partial sums are added where a block of k ends, in D itself or,
/// where its type would round them, in the workspace. Which of both follows from the types alone
/// but for parallel=k.
std::string summation(const Canonical& p, const DeviceCaps& d, const HostPacked& h,
                      const PackedSizes& w) {
  const std::string blocks = h.kc < p.gemm.k ? fmt::format(" kc={}", h.kc) : "";
  const std::string chain = host::chain(w.row) + blocks;
  return h.parallel == Parallel::k ? fmt::format("{} threads, each {}", d.compute_units, chain)
                                   : chain;
}

/// A plain blocking for whatever the best instruction set of the device computes.
std::optional<HostPacked> fallback(const Canonical& p, const DeviceCaps& d) {
  if (p.gemm.scale_a != Scale::none || p.gemm.scale_b != Scale::none) return std::nullopt;
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
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = host::predict_packed,
    .division =
        [](const HostPacked& c) { return host::division(c.mc, c.nc, c.kc, c.inner, c.parallel); },
    .tile = tile,
    .summation = summation,
    .plain = fallback,
    .fallback = fallback,
    .flushed_by = [](const Gemm& g, const DeviceCaps& d,
                     const HostPacked& c) { return host::flushed_by(c.isa, g, d); },
    .flags = [](const DeviceCaps& d, const HostPacked& c) { return host::flags(c.isa, d); }};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::packed
