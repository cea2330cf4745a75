// Family host_small: axes, rules, parameters and model of templates/cpu/small/small.cpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/small/config.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::host::small {
namespace {

/// Beyond this many multiply-adds, packing pays for itself and constant sizes gain nothing.
constexpr double kMostWork = 128.0 * 128 * 128;
/// Instructions that a body unrolled over all of k may have.
constexpr double kMostSteps = 8192;
/// Up to so many steps a body of all of k is offered: at 63³ one of 1638 takes 2 s to compile, one
/// of 208 0.3 s; at 55³ the long one was 0.4 % ahead, at 62³ and 63³ behind.
constexpr double kWorthUnrolling = 768;
/// Bytes of a k-major B that are turned at once.
constexpr double kMostTurned = 32 << 10;

constexpr std::array<std::string_view, 7> kFiles{
    "cpu/common/abi.h",      "cpu/common/types.h", "cpu/common/vector.h", "cpu/common/amax.h",
    "cpu/common/epilogue.h", "cpu/common/share.h", "cpu/small/small.cpp"};

double bytes_of_one_d(const Gemm& g) { return double(g.m) * double(g.n) * size_of(g.d.dtype); }

/// Whether the rows of a batch's D, all products' together, are whole vectors of `lanes` elements.
/// A masked store does not pass the caches, and putting lines together in memory first takes longer
/// than it saves (1000 products of 13³ fp32: 84 us, 64 without).
bool whole_vectors(const Gemm& g, int lanes) {
  return g.batch > 1 && g.n % lanes == 0 && g.d.ld % lanes == 0 && g.d.batch_stride % lanes == 0 &&
         lanes * size_of(g.d.dtype) >= 16;
}

/// Nothing is packed here, so pairs of bf16 would be put together anew in each step: they are
/// widened to fp32.
const DotInstruction* instruction(Isa isa, const Problem& p, const DeviceCaps& d) {
  const auto* row = host::widening_instruction(isa, p, d);
  return row != nullptr ? row : host::instruction(isa, p, d);
}

struct SmallSizes {
  const DotInstruction& row;
  int lanes;  // of a vector
};

/// Lanes of a narrow last vector: a power of two, 16 bytes at least; all where it would not be
/// narrower.
int edge_lanes(std::int64_t n, const SmallSizes& w) {
  const auto columns = n % w.lanes == 0 ? w.lanes : n % w.lanes;
  int lanes = w.lanes;
  while (lanes / 2 >= columns && lanes / 2 * w.row.acc_bytes >= 16) lanes /= 2;
  return lanes;
}

SmallSizes sizes_of(const Problem& p, const DeviceCaps& d, const HostSmall& c) {
  const auto& row = *instruction(c.isa, p, d);
  return {row, c.bytes / row.acc_bytes};
}

constexpr FirstRule<HostSmall> kFirst[] = {
    {"isa has an fp32 or fp64 instruction for the types",
     [](const Problem& p, const DeviceCaps& d, const HostSmall& c) {
       const auto* row = instruction(c.isa, p, d);
       return row != nullptr && (row->kind == Kind::f32 || row->kind == Kind::f64);
     }}};

constexpr Rule<HostSmall, SmallSizes> kRules[] = {
    {"m, n, k are at least 1, m*n*k at most 128^3, B is not packed, offsets fit 31 bits",
     [](const Problem& p, const DeviceCaps&, const HostSmall&, const SmallSizes&) {
       const Gemm& g = p.gemm;
       // Offsets are worked out in 32 bits.
       const double reach = double(std::max({g.m, g.n, g.k}) + 1) *
                            double(std::max({g.a.ld, g.b.ld, g.c.ld, g.d.ld}));
       return g.m >= 1 && g.n >= 1 && g.k >= 1 && !g.b_packed &&
              double(g.m) * double(g.n) * double(g.k) <= kMostWork && reach < 0x1p31;
     }},
    {"bytes is 16, 32 or 64, no more than the isa's vectors have",
     [](const Problem&, const DeviceCaps&, const HostSmall& c, const SmallSizes& w) {
       return (c.bytes == 16 || c.bytes == 32 || c.bytes == 64) && c.bytes <= w.row.vector_bytes;
     }},
    {"mr and nv are at least 1, and mr*nv + nv + 1 vectors fit the registers",
     [](const Problem&, const DeviceCaps&, const HostSmall& c, const SmallSizes&) {
       return c.mr >= 1 && c.nv >= 1 && c.mr * c.nv + c.nv + 1 <= host::vector_registers(c.isa);
     }},
    {"nv vectors of all k of a k-major B are at most 32 KiB",
     [](const Problem& p, const DeviceCaps&, const HostSmall& c, const SmallSizes&) {
       return !p.b_k_major || double(p.gemm.k) * c.nv * c.bytes <= kMostTurned;
     }},
    {"unroll is 0 to 64, and mr*nv*unroll at most 8192 (unroll=0: mr*nv*k)",
     [](const Problem& p, const DeviceCaps&, const HostSmall& c, const SmallSizes&) {
       const double steps = c.unroll == 0 ? double(p.gemm.k) : c.unroll;
       return c.unroll >= 0 && c.unroll <= 64 && c.mr * c.nv * steps <= kMostSteps;
     }},
    {"narrow_edge=1 needs avx512, a whole vector of columns and a rest of at most half of one",
     [](const Problem& p, const DeviceCaps&, const HostSmall& c, const SmallSizes& w) {
       return !c.narrow_edge ||
              (c.isa == Isa::avx512 && p.gemm.n > w.lanes && edge_lanes(p.gemm.n, w) < w.lanes);
     }},
    {"stream_d=1 needs a batch whose rows of D are whole vectors, of a vector instruction set",
     [](const Problem& p, const DeviceCaps&, const HostSmall& c, const SmallSizes& w) {
       return !c.stream_d || (c.isa != Isa::portable && whole_vectors(p.gemm, w.lanes));
     }},
    {"parallel is none, or batch with 2 or more threads and products",
     [](const Problem& p, const DeviceCaps& d, const HostSmall& c, const SmallSizes&) {
       const auto way = c.parallel;
       return way == Parallel::none ||
              (way == Parallel::batch && p.gemm.batch > 1 && d.compute_units > 1);
     }}};

constexpr int kMostVectors = 8, kMostRows = 28;  // of a register tile
constexpr std::array kUnrolls{0, 1, 4, 8};

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  if (double(g.m) * double(g.n) * double(g.k) > kMostWork) return;
  std::vector<Parallel> ways{Parallel::none};
  if (d.compute_units > 1 && g.batch > 1) ways.push_back(Parallel::batch);
  const bool beyond = !host::stays_in_cache(d, double(g.batch) * host::touched_bytes(g));
  for (const Isa isa : host::isas(d)) {
    const auto* row = instruction(isa, p, d);
    if (row == nullptr) continue;
    for (int bytes = 16; bytes <= row->vector_bytes; bytes *= 2) {
      const int lane_count = bytes / row->acc_bytes;
      const int across = int(ceil_div(g.n, lane_count));
      // A narrower vector only where it fills better.
      if (bytes < row->vector_bytes &&
          across * lane_count >= ceil_div(g.n, lane_count * 2) * lane_count * 2)
        continue;
      const bool narrows = isa == Isa::avx512 && bytes == row->vector_bytes && across > 1 &&
                           edge_lanes(g.n, {*row, lane_count}) < lane_count;
      const bool streams = beyond && isa != Isa::portable && whole_vectors(g, lane_count);
      Product(multiples(1, std::min(across, kMostVectors)),
              multiples(1, int(std::min<std::int64_t>(g.m, kMostRows))), kUnrolls, ways,
              no_yes(narrows), no_yes(streams))
          .each([&](int nv, int mr, int unroll, Parallel way, bool narrow, bool stream) {
            const bool even = g.m % mr == 0, full = mr * nv * 2 >= host::vector_registers(isa);
            if (!even && !full) return;
            if (unroll == 0 && double(mr) * nv * double(g.k) > kWorthUnrolling) return;
            visit(HostSmall{isa, bytes, mr, nv, unroll, way, narrow, stream});
          });
    }
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HostSmall& h,
                      const SmallSizes& w) {
  const auto& row = w.row;
  const Gemm& g = p.gemm;
  Parameters out;
  host::add_common(out, p, d, h.isa, row, h.bytes);
  const int nr = h.nv * w.lanes;
  const int tail_vectors = int(ceil_div(g.n % nr, w.lanes));
  const int tail_rows = int(g.m % h.mr);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kM", g.m, "rows of D");
  add("kN", g.n, "columns of D");
  add("kK", g.k, "columns of op(A)");
  add("kLda", g.a.ld, "elements between rows of A");
  add("kLdb", g.b.ld, "elements between rows of B");
  add("kLdc", g.c.ld, "elements between rows of C");
  add("kLdd", g.d.ld, "elements between rows of D");
  add("kMr", h.mr, "rows of the register tile");
  add("kNv", h.nv, "vectors across the register tile");
  if (tail_vectors > 0) add("kTailVectors", tail_vectors, "vectors that the last columns need");
  if (tail_rows > 0) add("kTailRows", tail_rows, "rows that are left over");
  if (h.narrow_edge)
    add("kEdgeLanes", edge_lanes(g.n, w), "lanes of the last columns' last vector");
  if (h.unroll > 0) add("kUnroll", h.unroll, "k steps in the inner loop's body");
  auto& v = out.values;
  const auto flag = [](bool b) { return std::string(b ? "1" : "0"); };
  v["unroll_all"] = flag(h.unroll == 0);
  v["whole_rows"] = flag(g.m >= h.mr);
  v["whole_columns"] = flag(g.n >= nr);
  v["tail_rows"] = flag(tail_rows > 0);
  v["tail_vectors"] = flag(tail_vectors > 0);
  v["lone_column"] = flag(host::stores_lone_column(g, w.lanes, g.n));
  v["narrow_edge"] = flag(h.narrow_edge);
  v["batched"] = flag(g.batch > 1);
  v["stream_rows"] = flag(h.stream_d);
  if (h.stream_d)
    add("kStreamed", w.lanes * size_of(g.d.dtype), "bytes of D in one store past the caches");
  host::add_shares(out, h.parallel, h.mr, nr, row.group);
  return out;
}

/// What one thread takes for a batch's operands, from where the caller has them; a line of D that
/// is not streamed is read before it is written.
double moved_ns(const Problem& p, const DeviceCaps& d, const HostSmall& h,
                const host::Rates& rate) {
  const Gemm& g = p.gemm;
  if (g.batch < 2) return 0;
  const double operands = host::touched_bytes(g), d_again = h.stream_d ? 0 : bytes_of_one_d(g);
  const auto batch = double(g.batch);
  return batch * (operands + d_again) / host::far_rate(d, rate, batch * operands, batch * operands);
}

/// The longer of both, and of the other what does not hide behind it (Zen 4, batches of 8³ and 16³
/// fp32 from memory: 14 and 77 ns of arithmetic a product, 25 and 100 of memory's; 25 and 102 ns,
/// streamed 19 and 97).
double beside_memory(double computed, double moved) {
  return std::max(computed, moved) + 0.2 * std::min(computed, moved);
}

double predict(const Problem& p, const DeviceCaps& d, const HostSmall& h, const SmallSizes& w) {
  const auto rate = host::rates(d, h.isa);
  const Gemm& g = p.gemm;
  const auto k = double(g.k);
  // A core whose units are half as wide as vectors computes two that fit them in the time of one
  // (Zen 4, 1000 products of 24³ fp32: three vectors of 32 bytes 277 us, two of 64 362 us).
  const int unit = microarchitecture(d).unit_bytes;
  const bool avx512 = h.isa == Isa::avx512, halves = avx512 && unit < h.bytes;
  const double pace = avx512 && !halves ? 64.0 / unit : 1;
  // Fitted, with what follows, to 220 configs of 10 cubes of 20 to 63 (Zen 4).
  const double loop = h.unroll == 0 ? 0 : 0.15 * k / h.unroll;
  const auto tile_ns = [&](std::int64_t rows, std::int64_t vectors, double saved) {
    if (rows == 0 || vectors == 0) return 0.0;
    const double all = double(rows * vectors), dots = all - double(rows) * saved;
    const double step = std::max({dots / pace, 0.67 * double(rows + vectors), rate.chains});
    return k * step / rate.dots_per_ns + 2 + loop + 0.3 * all;
  };
  const auto strip_ns = [&](std::int64_t vectors, double saved) {
    return double(g.m / h.mr) * tile_ns(h.mr, vectors, saved) + tile_ns(g.m % h.mr, vectors, saved);
  };
  const std::int64_t vectors = ceil_div(g.n, w.lanes), nr = std::int64_t(h.nv) * w.lanes;
  double one = double(g.n / nr) * strip_ns(h.nv, 0) +
               // A narrow last vector takes half the time, but loads the same.
               strip_ns(ceil_div(g.n % nr, w.lanes), h.narrow_edge && halves ? 0.25 : 0);
  // A vector is loaded for every column and a block transposed, of which what k lacks is left out.
  const double used = std::min<double>(double(g.k), w.lanes);
  const double turned = double(ceil_div(g.k, w.lanes)) * double(vectors) *
                        (w.lanes + 2 * used * std::log2(double(w.lanes))) / rate.dots_per_ns;
  const bool shared = h.parallel == Parallel::batch;
  if (p.b_k_major) one += turned;
  const double alone = beside_memory(double(g.batch) * one, moved_ns(p, d, h, rate));
  return 3 + (shared ? 2000 + alone / d.compute_units : alone);
}

constexpr TypedFamily<HostSmall, SmallSizes> kRow{
    .vendor = Vendor::cpu,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .division = [](const HostSmall& c) { return host::division(0, 0, 0, Inner::rows, c.parallel); },
    .summation = [](const Problem&, const DeviceCaps&, const HostSmall&,
                    const SmallSizes& w) { return host::chain(w.row); },
    .flags = [](const DeviceCaps& d, const HostSmall& c) { return host::flags(c.isa, d); },
    .offers = host::kOffers};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::small
