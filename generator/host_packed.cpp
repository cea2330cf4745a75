// Family host_packed: axes, rules, parameters and model of templates/host/packed.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generator/host.h"

namespace kiln {
namespace {

using host::ceil_div;
using host::instruction;

const HostPacked& typed(const Config& c) { return std::get<HostPacked>(c); }

int lanes(const DotInstruction& row) { return row.vector_bytes / row.acc_bytes; }

constexpr std::array<std::string_view, 8> kFiles{
    "host/abi.h",   "host/types.h", "host/vector.h", "host/epilogue.h",
    "host/share.h", "host/pack.h",  "host/strips.h", "host/packed.cpp"};

const std::array kRules{
    Rule{"instruction set computes these types",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           return instruction(typed(c).isa, p, d) != nullptr;
         }},
    Rule{"register tile fits the vector registers",
         [](const Canonical&, const DeviceCaps&, const Config& c) {
           const auto& h = typed(c);
           // One register more holds the broadcast; an accumulator that spills costs a store a
           // step.
           return h.mr >= 1 && h.nv >= 1 && h.mr * h.nv + h.nv + 1 <= host::vector_registers(h.isa);
         }},
    Rule{"blocks are whole tiles",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& h = typed(c);
           const auto* row = instruction(h.isa, p, d);
           return h.mc >= h.mr && h.mc % h.mr == 0 && h.nc >= 1 &&
                  h.nc % (h.nv * lanes(*row)) == 0 && h.kc >= 8 && h.kc % 8 == 0;
         }},
    Rule{"an unpacked A needs no sign shift, and whole units in memory",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& h = typed(c);
           const auto* row = instruction(h.isa, p, d);
           return h.pack_a || (!host::shifts_a(p, *row) && (p.a_k_major || row->group == 1));
         }},
    Rule{"an unpacked B lies along n, one element a lane, under masks",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& h = typed(c);
           const auto* row = instruction(h.isa, p, d);
           return h.pack_b || (!p.b_k_major && row->group == 1 &&
                               (h.isa == Isa::avx512 || p.gemm.n % lanes(*row) == 0));
         }},
    Rule{"a packed B is read packed, in whole blocks of k",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           return !p.gemm.b_packed || (typed(c).pack_b && typed(c).parallel != Parallel::k);
         }},
    Rule{"threads share something that there is",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           switch (typed(c).parallel) {
             case Parallel::none:
               return true;
             case Parallel::batch:
               return p.gemm.batch > 1 && d.compute_units > 1;
             default:
               return d.compute_units > 1;
           }
         }},
    Rule{"a streamed D is written once, in whole vectors",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& h = typed(c);
           const auto* row = instruction(h.isa, p, d);
           return !h.stream_d ||
                  (h.isa != Isa::portable && h.kc >= p.gemm.k && h.parallel != Parallel::k &&
                   size_of(p.gemm.d.dtype) == row->acc_bytes);
         }},
    Rule{"unrolling and prefetching stay within reason",
         [](const Canonical&, const DeviceCaps&, const Config& c) {
           return typed(c).unroll >= 1 && typed(c).unroll <= 16 && typed(c).prefetch >= 0 &&
                  typed(c).prefetch <= 64;
         }},
};

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
      const bool full = mr * nv >= registers * 5 / 8;
      const bool all_rows = mr == p.gemm.m;
      const bool even_rows = p.gemm.m < 32 && p.gemm.m % mr == 0;
      const bool covers_n = nv * lane_count < p.gemm.n + lane_count;
      if ((full || all_rows || even_rows) && (covers_n || nv == 1)) out.push_back({mr, nv});
    }
  }
  return out;
}

void enumerate(const Canonical& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  std::vector<Parallel> ways{Parallel::none};
  if (d.compute_units > 1) {
    ways = {Parallel::none, Parallel::m, Parallel::n, Parallel::k};
    if (d.compute_units > 3) ways.push_back(Parallel::grid);
    if (p.gemm.batch > 1) ways.push_back(Parallel::batch);
  }
  // Past the caches only what they could not hold anyway.
  std::vector<bool> streams{false};
  if (double(p.gemm.m) * double(p.gemm.n) * size_of(p.gemm.d.dtype) > double(d.l2_bytes))
    streams.push_back(true);
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
      for (const int kc : {128, 256, 384, 512, 1024})
        kcs.push_back(std::min<std::int64_t>(k, kc * group));
      for (const Inner inner : {Inner::rows, Inner::columns}) {
        // The operand that the inner loop walks is held in L2 a block at a time; the other one is
        // read strip by strip, and its block has no reason to be small.
        std::vector<std::int64_t> mcs, ncs;
        if (inner == Inner::rows) {
          for (const int mc : {96, 240, 480, 960})
            mcs.push_back(std::min(m, ceil_div(mc, mr) * mr));
          ncs = {std::min(n, ceil_div(4096, nr) * nr)};
        } else {
          mcs = {std::min(m, ceil_div(1 << 20, mr) * mr)};
          for (const int nc : {128, 256, 512, 768, 1536, 4096})
            ncs.push_back(std::min(n, ceil_div(nc, nr) * nr));
        }
        for (const int kc : distinct(kcs))
          for (const int mc : distinct(mcs))
            for (const int nc : distinct(ncs))
              for (const bool pack_a : {false, true})
                for (const bool pack_b : {false, true})
                  for (const Parallel way : ways)
                    for (const int unroll : {1, 4})
                      for (const int prefetch : {0, 8})
                        for (const bool stream : streams)
                          visit(HostPacked{isa, mr, nv, kc, mc, nc, pack_a, pack_b, inner, way,
                                           unroll, prefetch, stream});
      }
    }
  }
}

Parameters parameters(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& h = typed(config);
  const auto& row = *instruction(h.isa, p, d);
  Parameters out;
  host::add_common(out, p, h.isa, row, row.vector_bytes);
  const int lane_count = lanes(row), nr = h.nv * lane_count;
  const bool sums = host::shifts_a(p, row);
  const bool pack_b = h.pack_b && !p.gemm.b_packed;
  // A tail that is a large part of the problem gets a tile of its own size.
  const int tail_columns = int(p.gemm.n % nr);
  const int tail_vectors = int(ceil_div(tail_columns, lane_count)) % h.nv;
  const int tail_rows = p.gemm.m < 4 * h.mr ? int(p.gemm.m % h.mr) : 0;
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(host::number(name, value, gloss));
  };
  add("kMr", h.mr, "rows of the register tile");
  add("kNv", h.nv, "vectors across the register tile");
  if (tail_vectors > 0) add("kTailVectors", tail_vectors, "vectors that the last columns need");
  if (tail_rows > 0) add("kTailRows", tail_rows, "rows that are left over");
  add("kKc", h.kc, "k of one block");
  add("kMc", h.mc, "rows of one block of A");
  add("kNc", h.nc, "columns of one block of B");
  add("kUnroll", h.unroll, "k steps in the inner loop's body");
  if (h.prefetch > 0) add("kPrefetch", h.prefetch, "k steps that B is prefetched ahead");
  host::add_shares(out, h.parallel, h.mr, nr, row.group);
  add("kColumnSums", sums, "rows of column sums behind a packed strip of B");
  if (h.pack_a)
    out.constants.push_back({"u32", "kFlip", sums ? "0x80808080u" : "0u",
                             "turns signed bytes of A into unsigned ones"});
  out.constants.push_back({"bool", "kPackA", h.pack_a ? "true" : "false", "A is copied to strips"});
  out.constants.push_back({"bool", "kPackB", pack_b ? "true" : "false", "B is copied to strips"});

  auto& v = out.values;
  const auto flag = [](bool b) { return std::string(b ? "1" : "0"); };
  v["pack_a"] = flag(h.pack_a);
  v["pack_b"] = flag(pack_b);
  v["b_packed"] = flag(p.gemm.b_packed);
  v["packed_b"] = flag(pack_b || p.gemm.b_packed);
  v["column_sums"] = flag(sums);
  v["prefetch"] = flag(h.prefetch > 0);
  v["stream_d"] = flag(h.stream_d);
  v["tail_vectors"] = flag(tail_vectors > 0);
  v["tail_rows"] = flag(tail_rows > 0);
  v["inner"] = name(h.inner);
  // Units stand in memory as they are, so that one load reads one.
  v["direct_a"] = flag((row.kind == Kind::f32 && p.gemm.a.dtype == fp32) || row.kind == Kind::f64 ||
                       row.kind == Kind::bf16 || row.kind == Kind::vnni);
  if (h.parallel == Parallel::k) v["accumulate"] = "workspace";
  return out;
}

/// Time of the slowest thread: the larger of arithmetic and of each memory level's traffic, plus
/// packing and a fixed cost a tile.
double predict(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& h = typed(config);
  const auto& row = *instruction(h.isa, p, d);
  const auto rate = host::rates(d, h.isa);
  const Gemm& g = p.gemm;
  const int nr = h.nv * lanes(row);
  const int threads = h.parallel == Parallel::none ? 1 : d.compute_units;
  double m = double(g.m), n = double(g.n), k = double(g.k), batch = double(g.batch);
  const auto part = [&](double size, double unit) {
    return std::ceil(std::ceil(size / unit) / threads) * unit;
  };
  if (h.parallel == Parallel::m) m = std::min(m, part(m, h.mr));
  if (h.parallel == Parallel::n) n = std::min(n, part(n, nr));
  if (h.parallel == Parallel::k) k = std::min(k, part(k, 4));
  if (h.parallel == Parallel::batch) batch = std::ceil(batch / threads);
  if (h.parallel == Parallel::grid) (m >= n ? m : n) = std::max(m, n) / threads;

  const double row_tiles = std::ceil(m / h.mr);
  const double vectors = std::ceil(n / lanes(row));  // the last tile is as narrow as it needs to be
  const double column_tiles = std::ceil(n / nr);
  const double groups = std::ceil(k / row.group);
  const double k_blocks = std::max(1.0, std::ceil(k / h.kc));
  const double unit = row.acc_bytes;

  // A step of the tile issues mr·nv dots; loads beyond two a cycle stall it. An unpacked A that is
  // converted on the way costs several instructions a broadcast; one of more than ten rows needs
  // more base registers than there are (measured: 14 rows run at a third of the speed).
  const bool converts = !h.pack_a && row.kind == Kind::f32 && g.a.dtype != fp32;
  // An unpacked A that lies along m has every k on a page of its own (measured at lda = 1024: half
  // the speed).
  const bool paged =
      !h.pack_a && !p.a_k_major && h.kc > 64 && double(g.a.ld) * size_of(g.a.dtype) >= 1024;
  const bool scattered = !h.pack_a && p.a_k_major && h.mr > 10;
  const double dots = double(h.mr) * h.nv;
  const double loads = h.nv + h.mr * (converts ? 4.0 : 1.0) * (scattered || paged ? 3.0 : 1.0);
  const double latency = 8.0;  // 4 cycles × 2 a cycle: fewer accumulators than that wait
  const double step = std::max({dots, loads, latency}) / dots;
  const double compute = row_tiles * h.mr * vectors * groups * step / rate.dots_per_ns +
                         row_tiles * column_tiles * k_blocks * (20 + 2 * dots) / rate.dots_per_ns;

  const double strip_a = h.mr * groups / k_blocks * unit, strip_b = nr * groups / k_blocks * unit;
  const double streamed = h.inner == Inner::rows ? strip_a : strip_b;
  const double block = h.inner == Inner::rows
                           ? std::min<double>(h.mc, m) * groups / k_blocks * unit
                           : std::min<double>(h.nc, n) * groups / k_blocks * unit;
  const double resident = h.inner == Inner::rows ? strip_b : strip_a;
  const double level = block + resident < 0.8 * d.l1_bytes ? rate.l1
                       : block < 0.7 * d.l2_bytes          ? rate.l2
                                                           : rate.l3;
  double stream = row_tiles * column_tiles * k_blocks * streamed / level;
  // A strip that outgrows L1 is read again for every tile.
  if (resident > 0.7 * d.l1_bytes)
    stream += row_tiles * column_tiles * k_blocks * resident / rate.l2;
  // Rows of an unpacked B lie pages apart: every step misses the TLB and no prefetcher follows
  // (measured: half the speed at n = 1024).
  const bool pages = !h.pack_b && double(g.b.ld) * size_of(g.b.dtype) >= 1024;
  if (pages && strip_b > 0.5 * d.l1_bytes) stream *= 3;

  const double bytes_a = m * k * size_of(g.a.dtype), bytes_b = n * k * size_of(g.b.dtype);
  const double a_passes = std::ceil(n / h.nc), b_passes = h.pack_b ? 1 : std::ceil(m / h.mc);
  const double total = bytes_a + bytes_b;
  const double far = total < d.l2_bytes ? rate.l2 : total < 64e6 ? rate.l3 : rate.dram;
  const double bytes_d = m * n * size_of(g.d.dtype);
  const double d_far = bytes_d < d.l2_bytes ? rate.l2 : bytes_d < 64e6 ? rate.l3 : rate.dram;
  // A stored line is read first, unless it is streamed; down the columns of D every tile is on
  // other pages than the last (measured at k = 16: 20 to 30 %).
  const double d_traffic =
      bytes_d * (h.stream_d ? 1 : 2) * (h.inner == Inner::rows ? 1.3 : 1) * k_blocks / d_far;
  double memory = (bytes_a * a_passes + bytes_b * b_passes) / far + d_traffic;

  const double along = 0.35, across = 0.12;  // ns a unit, transposed or copied
  double packing = 0;
  if (h.pack_a) packing += m * groups * a_passes * (p.a_k_major ? along : across);
  if (h.pack_b && !g.b_packed) packing += n * groups * (p.b_k_major ? along : across);
  double shared = 0;
  if (threads > 1) shared = 2000;
  if (h.parallel == Parallel::k) shared += 2 * m * n * unit * threads / rate.l3 + 1000;
  return batch * (std::max({compute, stream, memory}) + 0.3 * std::min({compute, stream, memory}) +
                  packing) +
         shared;
}

}  // namespace

namespace host {
Family packed_family() {
  return {HostPacked::kFamily, kFiles, enumerate, kRules, parameters, predict};
}
}  // namespace host

Config fallback_config(const Canonical& p, const DeviceCaps& d) {
  const Isa isa = host::isas(d).front();
  const auto& row = *instruction(isa, p, d);
  HostPacked h;
  h.isa = isa;
  h.mr = isa == Isa::portable ? 4 : 6;
  h.nv = isa == Isa::avx512 ? 4 : 2;
  h.kc = 256 * row.group;
  h.mc = h.mr * 40;
  h.nc = h.nv * lanes(row) * 12;
  h.pack_a = h.pack_b = true;
  h.inner = Inner::columns;
  h.prefetch = 0;
  if (d.compute_units > 1)
    h.parallel = p.gemm.batch >= d.compute_units ? Parallel::batch
                 : p.gemm.m > p.gemm.n           ? Parallel::m
                                                 : Parallel::n;
  return h;
}
}  // namespace kiln
