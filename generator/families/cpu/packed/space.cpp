// The space of host_packed: which register tiles, blocks and forms are worth trying.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/packed/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/space/axes.h"

namespace kiln::host::packed {
namespace {

/// The most of L2 that a prefetched block may take, so that it does not evict the one in use.
constexpr double kAheadShare = 0.25;

struct Fetches {
  int a = 0, b = 0;
};

/// Which operands have a next block that prefetching helps, and at what rate: values of fetch_a and
/// fetch_b worth trying. Rows of A that lie across pages have none: each k of a tile is a line of
/// its own.
Fetches fetches(const Problem& p, const DeviceCaps& d, const HostPacked& h) {
  const Gemm& g = p.gemm;
  const auto& row = *row_of(p, d, h);
  const double room = kAheadShare * double(d.l2_bytes);
  const double kc = double(std::min<std::int64_t>(h.kc, g.k));
  const double calls = kc / row.group / 8;  // of one tile
  const int factors = gated(g) ? 2 : 1;
  const double column_tiles =
      double(ceil_div(std::min<std::int64_t>(h.nc, g.n), h.nv * lanes(row) / factors));
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
  const int element = g.b_packed ? row.input_bytes : size_of(g.b.dtype);
  if (!has_weights(g) && (h.nc < g.n || h.kc < g.k))
    out.b = lines(std::min<double>(h.nc, double(g.n)) * factors * kc * element,
                  row_tiles * column_tiles);
  return out;
}

std::vector<int> distinct(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return {values.begin(), values.end()};
}

struct TileShape {
  int mr, nv;
};

/// Register tiles worth trying: full ones for long loops, thin ones for thin problems. With a gate
/// a vector of D takes two of the tile.
std::vector<TileShape> tiles(Isa isa, const Problem& p, int lane_count) {
  const int registers = vector_registers(isa);
  std::vector<TileShape> out;
  const int least = gated(p.gemm) ? 2 : 1;
  for (int nv = least; nv <= 6; nv += least) {
    const int most = std::min((registers - 1 - nv) / nv, 14 * (nv > 1) + 28 * (nv == 1));
    for (int mr = 1; mr <= most; ++mr) {
      // Half of the registers hide the latency of the accumulators; a product of few columns is
      // bound by memory, where few rows side by side do best (they may share a cache set).
      const std::int64_t columns = nv / least * lane_count;
      const bool full = mr * nv >= registers / 2 || (columns >= p.gemm.n && mr * nv >= 6);
      const bool all_rows = mr == p.gemm.m;
      const bool even_rows = p.gemm.m < 32 && p.gemm.m % mr == 0;
      const bool covers_n = columns < p.gemm.n + lane_count;
      if (mr > p.gemm.m && mr > 1) continue;  // a tile of all rows is as good
      if ((full || all_rows || even_rows) && (covers_n || nv == least)) out.push_back({mr, nv});
    }
  }
  return out;
}

// One step at a time was never ahead of four (1 to 5 % behind on squares from 256 to 2048).
constexpr int kUnroll = 4;

/// Values of kc; `apart`: rows of B lie apart in memory.
std::vector<int> blocks_of_k(const Gemm& g, int group, bool apart) {
  const std::int64_t k = std::max<std::int64_t>(8, ceil_div(g.k, 8) * 8);
  std::vector<std::int64_t> values;
  // Few rows read B once, at the memory's speed: short blocks read whole rows of it in order, no
  // more of them at a time than the prefetchers follow.
  if (g.m <= 16) values = {8, 16, 32, 64};
  // Packing reads B so too; with more rows the arithmetic takes longer than that.
  if (apart && g.m > 16 && g.m <= 128) values = {32, 64};
  // Runs of weights are whole.
  if (has_weights(g)) values.clear();
  for (const int steps : {128, 256, 384, 512, 1024, 4096}) values.push_back(steps * group);
  const std::int64_t most = has_weights(g) ? ceil_div(k, 32) * 32 : k;
  for (std::int64_t& value : values) value = std::min(most, value);
  return distinct(values);
}

struct Blocks {
  Inner inner;
  int mc, nc;
  auto operator<=>(const Blocks&) const = default;
};

/// The operand that the inner loop reads is held in L2 a block at a time; the other one is read
/// strip by strip, and its block has no reason to be small. `m` and `n` are whole tiles; `d_room`
/// is what D may take between blocks of k.
std::vector<Blocks> blocks(const Gemm& g, int mr, int nr, std::int64_t m, std::int64_t n,
                           double d_room) {
  std::vector<Blocks> out;
  const std::int64_t factors = gated(g) ? 2 : 1;  // of B, whose columns `nc` is
  const auto add = [&](Inner inner, std::int64_t mc, std::int64_t nc) {
    out.push_back({inner, int(std::min(m, ceil_div(mc, mr) * mr)),
                   int(std::min(n, ceil_div(nc, nr * factors) * nr))});
  };
  for (const int mc : {96, 240, 480, 960}) add(Inner::rows, mc, 4096);
  // Few rows read B once: whole rows of it are one run (1×11008×4096 fp32 on a Xeon: 11.8 ms, 12.8
  // to 22 with 4128 columns at a time).
  if (g.m <= 16 && double(m) * double(n) * size_of(g.d.dtype) <= d_room) add(Inner::rows, 96, n);
  // Few rows: B may be packed one strip at a time, since all of A follows in cache.
  if (g.m <= 512)
    for (const int nc : {nr, 4 * nr}) add(Inner::rows, 512, nc * factors);
  for (const int nc : {128, 256, 512, 768, 1536, 4096}) add(Inner::columns, 1 << 20, nc);
  // A packed block of A stays in L2 beside that of B.
  for (const int mc : {48, 192})
    for (const int nc : {256, 512, 768}) add(Inner::columns, mc, nc);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The axes of one form, besides instruction sets, tiles and blocks, which follow from each other.
struct Choices {
  std::vector<bool> packs_a{false, true}, packs_b{false, true};
  std::vector<Parallel> ways{Parallel::none};
  std::vector<int> prefetches{0};
  std::vector<bool> streams{false};
};

Choices choices(const Problem& p, const DeviceCaps& d, bool swap) {
  Choices out;
  if (has_weights(p.gemm)) out.packs_b = {true};
  if (d.compute_units > 1) {
    // One thread alone may win only where waking the others costs a share worth mentioning: below
    // some 0.3 ms.
    out.ways = {Parallel::m, Parallel::n};
    if (!swap && !gated(p.gemm) && !has_weights(p.gemm)) out.ways.push_back(Parallel::k);
    if (p.gemm.flops() < 64e6) out.ways.push_back(Parallel::none);
    if (d.compute_units > 3) out.ways.push_back(Parallel::grid);
    if (p.gemm.batch > 1) out.ways.push_back(Parallel::batch);
  }
  // Past the caches only what they could not hold anyway.
  if (!swap && double(p.gemm.m) * double(p.gemm.n) * size_of(p.gemm.d.dtype) > double(d.l2_bytes))
    out.streams.push_back(true);
  // Strips that were packed just now are in cache. Packed weights are not: where few rows leave
  // time, fetching them further ahead than the hardware does takes 5 to 20 % less.
  constexpr std::int64_t kFewRows = 64;
  if (!p.gemm.b_packed) out.prefetches.push_back(8);
  if (p.gemm.b_packed && p.gemm.m <= kFewRows) out.prefetches.push_back(16);
  return out;
}

/// What a config is made of besides tiles, blocks and what `Choices` has.
struct Form {
  bool swap = false, widen = false;
};

/// Which operands come from memory, along rows whose k is not adjacent.
struct RowsFromMemory {
  bool a, b, b_apart;  // b_apart: and each row on pages of its own
};

RowsFromMemory rows_from_memory(const Problem& p, const DeviceCaps& d) {
  const bool beyond = !stays_in_cache(d, double(p.gemm.batch) * touched_bytes(p.gemm));
  const bool b = beyond && !p.gemm.b_packed && !has_weights(p.gemm) && !p.b_k_major;
  return {beyond && !p.a_k_major, b, b && rows_apart(p.gemm.b)};
}

/// Units of several rows are put together a vector's columns at a time, which no prefetcher follows
/// in narrow rows either.
bool long_runs(const RowsFromMemory& rows, const DotInstruction& row, const HostPacked& h) {
  const bool dotted = row.group > 1;
  return (h.pack_b && (rows.b_apart || (rows.b && dotted))) || (h.pack_a && rows.a && dotted);
}

/// Whether a point is worth trying that no rule forbids; `m` is whole tiles.
bool worth_trying(const Problem& p, const HostPacked& h, std::int64_t m) {
  // Strips that were packed just now are in cache.
  if (h.prefetch > 0 && h.pack_b && !p.gemm.b_packed) return false;
  // Columns within few rows only help an A that is packed.
  return h.pack_a || h.inner == Inner::rows || h.mc >= m;
}

/// All configs of one form: `p` is the problem or, with `swap`, its transposed product.
void enumerate_form(const Problem& p, const DeviceCaps& d, Form form,
                    const std::function<void(const Config&)>& visit) {
  const Choices may = choices(p, d, form.swap);
  const RowsFromMemory rows = rows_from_memory(p, d);
  for (const Isa isa : isas(d)) {
    const HostPacked start{.isa = isa, .unroll = kUnroll, .swap = form.swap, .widen = form.widen};
    const auto* row = row_of(p, d, start);
    if (row == nullptr) continue;
    const std::vector<int> kcs = blocks_of_k(p.gemm, row->group, rows.b_apart);
    for (const TileShape tile : tiles(isa, p, lanes(*row))) {
      const int nr = tile.nv * lanes(*row) / (gated(p.gemm) ? 2 : 1);
      const std::int64_t m = ceil_div(std::max<std::int64_t>(p.gemm.m, 1), tile.mr) * tile.mr;
      const std::int64_t n = ceil_div(std::max<std::int64_t>(p.gemm.n, 1), nr) * nr;
      const std::vector<Blocks> all =
          blocks(p.gemm, tile.mr, nr, m, n, kAheadShare * double(d.l2_bytes));
      Product(all, kcs, may.packs_a, may.packs_b, may.ways, may.prefetches, may.streams)
          .each([&](const Blocks& b, int kc, bool pack_a, bool pack_b, Parallel way, int prefetch,
                    bool stream) {
            HostPacked h = start;
            h.mr = tile.mr, h.nv = tile.nv;
            h.kc = kc, h.mc = b.mc, h.nc = b.nc;
            h.pack_a = pack_a, h.pack_b = pack_b;
            h.inner = b.inner, h.parallel = way;
            h.prefetch = prefetch;
            if (!worth_trying(p, h, m)) return;
            // Along rows D leaves in their order, down the columns tile by tile.
            h.rows_d = stream && b.inner == Inner::columns;
            h.stream_d = stream && !h.rows_d;
            h.long_runs = long_runs(rows, *row, h);
            visit(h);
            if (prefetch > 0) return;
            const Fetches next = fetches(p, d, h);
            if (next.a + next.b == 0) return;
            h.fetch_a = next.a;
            h.fetch_b = next.b;
            visit(h);
          });
    }
  }
}

}  // namespace
}  // namespace kiln::host::packed

namespace kiln::host {

/// The transposed product is offered where D has few columns, which would fill few lanes.
void enumerate_packed(const Problem& p, const DeviceCaps& d,
                      const std::function<void(const Config&)>& visit) {
  constexpr std::int64_t kFewColumns = 64;
  const bool weights = p.gemm.b_packed;
  const bool swaps = !weights && !has_weights(p.gemm) && !gated(p.gemm) &&
                     p.gemm.n <= kFewColumns && p.gemm.n < p.gemm.m;
  const auto* row = instruction(isas(d).front(), p, d);
  const bool widens = !weights && row != nullptr && row->kind == Kind::bf16 && slow_pairs(d);
  for (const bool widen : {false, true}) {
    if (widen && !widens) continue;
    packed::enumerate_form(p, d, {false, widen}, visit);
    if (swaps) packed::enumerate_form(transposed(p), d, {true, widen}, visit);
  }
}

}  // namespace kiln::host
