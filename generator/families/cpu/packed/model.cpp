// The analytic model of family host_packed: arithmetic, traffic of each memory level and packing.
// It only ranks. What a core does in a cycle is its row of common/microarchitectures.h, every other
// number is a row of model_numbers.h.
#include <algorithm>
#include <cmath>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/packed/model_numbers.h"
#include "generator/families/cpu/packed/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"

namespace kiln::host::packed_model {
namespace {

/// The part of the problem that the slowest thread does, in the units the model counts.
struct Share {
  Share(const Problem& problem, const DeviceCaps& device, const HostPacked& config,
        const PackedSizes& sizes)
      : p(problem),
        d(device),
        h(config),
        row(sizes.row),
        core(microarchitecture(d)),
        rate(rates(d, h.isa)),
        dots_per_ns(host::dots_per_ns(d, row)),
        threads(h.parallel == Parallel::none ? 1 : d.compute_units),
        lanes(sizes.lanes),
        nr(h.nv * sizes.lanes),
        factors(gated(p.gemm) ? 2 : 1),
        m(double(p.gemm.m)),
        n(double(p.gemm.columns_of_b())),
        nc(double(h.nc) * factors),
        k(double(p.gemm.k)),
        batch(double(p.gemm.batch)) {
    const auto part = [&](double size, double unit) {
      return std::min(size, std::ceil(std::ceil(size / unit) / threads) * unit);
    };
    if (h.parallel == Parallel::m) m = part(m, h.mr);
    if (h.parallel == Parallel::n) n = part(n, nr);
    if (h.parallel == Parallel::k) k = part(k, 4);
    if (h.parallel == Parallel::batch) batch = std::ceil(batch / threads);
    if (h.parallel == Parallel::grid) (m >= n ? m : n) = std::max(m, n) / threads;
    groups = std::ceil(k / row.group);
    k_blocks = std::max(1.0, std::ceil(k / h.kc));
    tiles = std::ceil(m / h.mr) * std::ceil(n / nr) * k_blocks;
    unit = row.acc_bytes;
    bytes_a = m * k * size_of(p.gemm.a.dtype);
    bytes_b = n * k * size_of(p.gemm.b.dtype);
    const double depth = groups / k_blocks * unit;
    strip_a = h.mr * depth;
    strip_b = nr * depth;
    block = h.inner == Inner::rows ? std::min<double>(h.mc, m) * depth : std::min(nc, n) * depth;
    // The packed operand that the inner loop does not hold comes from L3 when it is beyond L2: B
    // for every block of rows, A for every block of columns.
    const double rest = h.inner == Inner::rows ? std::min(nc, n) * depth * h.pack_b
                                               : std::min<double>(h.mc, m) * depth * h.pack_a;
    spills = rest > 0 && rest + block > kBlocksInL2 * d.l2_bytes;
  }

  const Problem& p;
  const DeviceCaps& d;
  const HostPacked& h;
  const DotInstruction& row;
  const Microarchitecture& core;
  const Rates rate;
  const double dots_per_ns;
  const int threads, lanes, nr, factors;
  double m, n, nc, k, batch;             // n, nc and nr of op(B)
  double groups, k_blocks, tiles, unit;  // of k, of k, in all; bytes
  double bytes_a, bytes_b;               // where the caller has them
  double strip_a, strip_b, block;        // bytes as tiles read them
  bool spills;
};

double bytes_of_d(const Share& s) { return s.m * s.n / s.factors * size_of(s.p.gemm.d.dtype); }

double touched(const Share& s) { return s.bytes_a + s.bytes_b + bytes_of_d(s); }
bool in_cache(const Share& s) { return stays_in_cache(s.d, touched(s)); }

/// Where the caller's matrices are found, `bytes` of them being one thread's.
double far_rate(const Share& s, double bytes) {
  return host::far_rate(s.d, s.rate, touched(s), bytes * s.threads);
}

bool fetches(const HostPacked& h) { return h.fetch_a > 0 || h.fetch_b > 0; }

/// A step of the tile issues mr·nv dots; loads beyond two a cycle stall it.
double compute_ns(const Share& s) {
  const auto& h = s.h;
  const Matrix& a = s.p.gemm.a;
  // An unpacked A that is converted on the way costs several instructions a broadcast; one of many
  // rows needs more base registers than there are, and rows a multiple of a page apart have all
  // their lines in one set of L1.
  const bool converts = !h.pack_a && s.row.kind == Kind::f32 && a.dtype != fp32;
  const bool one_set = (a.ld * size_of(a.dtype)) % kPage == 0 && h.mr > kRowsOfASet;
  const bool scattered = !h.pack_a && s.p.a_k_major && (h.mr > kRowsOfPointers || one_set);
  const bool paged =
      !h.pack_a && !s.p.a_k_major && h.kc > kStepsOnPages && a.ld * size_of(a.dtype) >= kRowApart;
  const double dots = double(h.mr) * h.nv;
  // Vectors of an unpacked B across lines are two loads each.
  const Matrix& b = s.p.gemm.b;
  const bool unaligned = !h.pack_b && (b.ld * size_of(b.dtype)) % s.row.vector_bytes != 0;
  // Units of several k are put together from their rows, as many vectors at a time as a unit has
  // elements, some two instructions each.
  const double vectors_b = std::ceil(double(h.nv) / s.row.group) * s.row.group;
  const double gathered = !h.pack_b && s.row.group > 1 ? kGatheredLoads * vectors_b / h.nv : 1.0;
  const double loads =
      h.nv * (unaligned ? kUnalignedLoads : 1.0) * gathered +
      h.mr * (converts ? kConvertingLoads : 1.0) * (scattered ? kScatteredLoads : 1.0);
  // Signed bytes of an unpacked A are made unsigned one broadcast at a time.
  const double flips = !h.pack_a && host::shifts_a(s.p, s.row) ? h.mr : 0;
  const double latency = s.rate.chains;  // fewer accumulators than that wait
  double step = std::max({dots + flips, loads, latency}) / dots + kLoadStall * loads / dots;
  if (unaligned) step *= kUnalignedStep;
  if (h.unroll == 1) step *= kSingleStep;
  if (h.prefetch > 0) step *= kPrefetchingStep;
  if (fetches(h)) step *= kFetchingStep;
  // The last tile is as narrow as it needs to be and skips rows that D has not.
  const double vectors = std::ceil(s.n * s.row.acc_bytes / s.row.vector_bytes);
  const double left = std::fmod(s.m, h.mr);
  const double rows =
      s.m - left + (left > 0 ? std::min<double>(h.mr, std::max(left, latency / h.nv)) : 0);
  return rows * vectors * s.groups * step / s.dots_per_ns +
         s.tiles * (kTileDots + kStoreDots * dots) / s.dots_per_ns +
         (paged ? s.tiles / s.k_blocks * s.k * s.core.page_ns : 0);
}

/// Traffic of blocks and strips to the registers.
double stream_ns(const Share& s) {
  const auto& h = s.h;
  const bool by_rows = h.inner == Inner::rows;
  const double streamed = by_rows ? s.strip_a : s.strip_b;
  const double resident = by_rows ? s.strip_b : s.strip_a;
  const double level = s.block + resident < kTilesInL1 * s.d.l1_bytes ? s.rate.l1
                       : s.block < kBlockInL2 * s.d.l2_bytes          ? s.rate.l2
                                                                      : s.rate.l3;
  double ns = s.tiles * streamed / level;
  // A strip that outgrows L1 is read again for every tile.
  if (resident > kStripInL1 * s.d.l1_bytes) ns += s.tiles * resident / s.rate.l2;
  // Rows of an unpacked B lie pages apart: every step misses the TLB and no prefetcher follows.
  const Matrix& b = s.p.gemm.b;
  if (!h.pack_b && double(b.ld) * size_of(b.dtype) >= kRowApart &&
      s.strip_b > kStripOfPages * s.d.l1_bytes)
    ns *= kPagedStream;
  if (s.spills)
    ns += (by_rows ? std::ceil(s.m / h.mc) * s.n : std::ceil(s.n / s.nc) * s.m) * s.groups *
          s.unit / s.rate.l3;
  return ns;
}

/// By how much longer a B whose rows are pages apart takes from beyond L2 than one that is read in
/// order. Prefetchers follow some of a tile's rows (4515×5×3407 bf16, A and B exchanged, with kc =
/// 16, 24, 32, 64, 128: 2.5, 3.9, 4.9, 8 and 9 ms). Packing takes 64 columns of each row, or 256
/// with `long_runs` (64×14336×4096 fp32 without its products, kc = 32, 128, 512: 33, 38, 50 ms;
/// 54 without; 16 in order).
double scattered_b(const Share& s) {
  const Matrix& b = s.p.gemm.b;
  const double row_bytes = double(b.ld) * size_of(b.dtype);
  // Units of several rows are read a few lines of each row at a time, however near the next row is.
  const bool near = row_bytes < kRowApart;
  if (in_cache(s) || row_bytes < (s.row.group > 1 ? kNarrowRow : kRowApart)) return 1;
  if (s.h.pack_b && (s.p.gemm.b_packed || has_weights(s.p.gemm) || s.p.b_k_major)) return 1;
  if (s.h.pack_b && s.h.long_runs)
    return near ? 1
                : std::clamp(kLongRuns + kLongRunsDoubling *
                                             std::log2(std::min<double>(s.h.kc, s.k) / kLongRunsK),
                             kLongRunsLeast, kLongRunsMost);
  if (s.h.pack_b) return kShortRuns;
  const double rows =
      std::clamp(std::min<double>(s.h.kc, s.k) / kFollowedRows, 1.0, kUnfollowedMost);
  return rows * (s.h.prefetch > 0 ? 1 : kNotPrefetched);
}

/// A, from where the caller has it.
double read_a_ns(const Share& s) {
  const double a_passes = std::ceil(s.n / s.nc), far = far_rate(s, s.bytes_a + s.bytes_b);
  const double again = std::max(far, s.bytes_a < kAgainInL2 * s.d.l2_bytes ? s.rate.l2 : s.rate.l3);
  return s.bytes_a / far + s.bytes_a * (a_passes - 1) / again;
}

/// B, likewise.
double read_b_ns(const Share& s) {
  const double passes = s.h.pack_b ? 1 : std::ceil(s.m / s.h.mc);
  return s.bytes_b * passes * scattered_b(s) / far_rate(s, s.bytes_a + s.bytes_b);
}

/// Nothing is computed while a block of B is packed, so it is waited for, unless it was fetched
/// ahead.
double waiting_for_b_ns(const Share& s) {
  const bool waits = s.h.pack_b && !s.p.gemm.b_packed && s.h.fetch_b == 0;
  return waits ? kWaitingForB * read_b_ns(s) : 0;
}

/// By how much longer a line of D takes than its bytes from where D lies. More rows that are
/// written side by side have more lines on their way, until these leave L1 before the next tile's
/// columns fill them (843×369×4 fp32, Xeon: 4 rows 163 us, 9 rows 150, 27 rows 134, 100 rows 115,
/// 240 rows 160, 500 rows 200 to 700). Where rows are pages apart, every tile down the columns is
/// on other pages than the last.
double lines_of_d(const Share& s) {
  const Matrix& d = s.p.gemm.d;
  const bool by_rows = s.h.inner == Inner::rows;
  if (double(d.ld) * size_of(d.dtype) >= kPage) return by_rows ? kPagedRows : 1;
  const double rows = by_rows ? std::min<double>(s.h.mc, s.m) : s.h.mr;
  const double line = s.row.vector_bytes, held = rows * (s.nr * size_of(d.dtype) + line);
  const double beyond = std::max(0.0, std::log2(held / (kLinesInL1 * s.d.l1_bytes)));
  return (kOneRow - kRowsDoubling * std::log2(std::max(rows, 1.0))) *
         (1 + kBeyondDoubling * beyond);
}

/// What D takes beyond its bytes for the pieces that it is written in. Streamed down the columns,
/// every piece has ends that share their lines (144 configs of 9 products of k = 4 to 91, Zen 4).
double pieces_ns(const Share& s) {
  const Matrix& d = s.p.gemm.d;
  const bool by_rows = s.h.inner == Inner::rows;
  const double run = by_rows ? s.nr : std::min(s.nc, s.n);
  const bool mixed = s.h.stream_d && d.ld * size_of(d.dtype) % 64 != 0;
  return s.m * std::ceil(s.n / run) * s.core.run_ns +
         (mixed ? bytes_of_d(s) / 64 * s.core.mixed_line_ns * (by_rows ? kMixedRows : 1) : 0);
}

/// D in the order of its rows: what memory takes without reading it first, and the ends of runs,
/// which share lines with their neighbours.
double rows_ns(const Share& s) {
  const Matrix& d = s.p.gemm.d;
  const double bytes = bytes_of_d(s), n = s.n / s.factors, width = std::min<double>(s.h.nc, n);
  const bool joined = width >= n && double(d.ld) == n;
  const bool mixed = d.ld * size_of(d.dtype) % 64 != 0;
  const double ends = joined ? 0 : s.m * std::ceil(n / width) * (mixed ? kMixedEndNs : kLineEndNs);
  return kRowsOfMemory * bytes / far_rate(s, bytes) + ends;
}

/// The strip of rows that waits is stored and loaded beside the arithmetic, and most of both does
/// not hide behind it (740×2358×166, two strips of 113 KB: 11 % longer than where tiles write D).
double waiting_rows_ns(const Share& s) {
  if (!s.h.rows_d) return 0;
  const double width = std::min<double>(s.h.nc, s.n / s.factors);
  const bool in_l1 =
      2 * s.h.mr * width * size_of(s.p.gemm.d.dtype) < kWaitingRowsInL1 * s.d.l1_bytes;
  return bytes_of_d(s) * (in_l1 ? kWaitingL1 / s.rate.l1 : kWaitingL2 / s.rate.l2);
}

/// A stored line is read first, unless it is streamed.
double results_ns(const Share& s) {
  const double bytes = bytes_of_d(s);
  if (s.h.swap || s.factors == 2) {  // accumulators wait in the workspace, D is written once
    const double waiting = s.m * std::min(s.nc, s.n) * s.unit;
    const double level = waiting < kWaitingInL2 * s.d.l2_bytes ? s.rate.l2 : s.rate.l3;
    return 2 * bytes / far_rate(s, bytes) + 2 * s.m * s.n * s.unit * (s.k_blocks - 1) / level;
  }
  if (s.h.rows_d) return rows_ns(s);
  // Between blocks of k, D's columns of a block of B are found in a cache.
  const double touches = s.h.stream_d ? 1 : 2;
  const double far = far_rate(s, bytes), again = std::max(far, s.rate.l3);
  return bytes * touches * (lines_of_d(s) / far + (s.k_blocks - 1) / again) + pieces_ns(s);
}

/// Short rows of an unpacked A, and of a block of an unpacked B, end before the hardware's
/// prefetchers have begun, and so do the pieces of packed weights' panels that a block of k is.
double late_ns(const Share& s) {
  const double row_bytes = std::min<double>(s.h.kc, s.k) * size_of(s.p.gemm.a.dtype);
  const double total = s.bytes_a + s.bytes_b;
  if (total <= s.d.l2_bytes) return 0;
  double ns = 0;
  if (s.p.gemm.b_packed)
    ns += std::ceil(s.n / s.lanes) * s.k_blocks * s.core.piece_ns *
          (s.h.prefetch > 0 ? kPieceFetched : 1);
  // Each row loses some lines' time before they follow it.
  if (!s.h.pack_b && s.h.inner == Inner::rows)
    ns += s.bytes_b / far_rate(s, total) *
          std::min(kLateMost, kLateBytes / (std::min(s.nc, s.n) * size_of(s.p.gemm.b.dtype)));
  if (!s.h.pack_a && s.p.a_k_major)
    ns += s.bytes_a * std::ceil(s.n / s.nc) / far_rate(s, total) *
          std::min(kLateMost, kLateBytes / std::max(row_bytes, 1.0));
  return ns;
}

/// Packed weights come from memory while the first tile of a column reads them, and not while the
/// others compute, unless the next block's are fetched meanwhile: by so much of what could hide
/// longer (4096×4096 fp32 on a Xeon, no, 16 steps and the next block ahead: 8 to 9.4, 7.2 to 8 and
/// 7.2 to 9.2 ms with 16 rows, 19.9, 17.9 and 16.7 with 64, 35.2, 32.8 and 29.7 with 128).
double waiting_for_panels_ns(const Share& s, double others) {
  if (s.h.fetch_b > 0) return kPanelsFetched * others;
  return (s.h.prefetch > 0 ? kPanelsPrefetched : kPanels) * others;
}

/// The share of transposed_ns or copied_ns that a unit takes, by the bytes of a block's panels:
/// packing is bound by where its stores go.
double by_panel(const Share& s, double bytes) {
  return std::clamp(kPanelInL1 + kPanelDoubling * std::log2(bytes / s.d.l1_bytes), kPanelLeast,
                    kPanelMost);
}

/// Units that packing B handles: whole squares of a vector's lanes where it transposes, else as
/// many vectors as a unit has elements.
double packed_units(const Share& s) {
  const auto whole = [](double size, double unit) { return std::ceil(size / unit) * unit; };
  if (s.p.b_k_major)
    return whole(s.n, s.lanes) * s.k_blocks * whole(s.groups / s.k_blocks, s.lanes);
  return whole(s.n, s.lanes * s.row.group) * s.groups;
}

double packing_ns(const Share& s) {
  const auto& h = s.h;
  const double spilled = s.spills ? kSpilledPacking : 1;
  double ns = 0;
  if (h.pack_a)
    ns += s.m * s.groups * std::ceil(s.n / s.nc) *
          (s.p.a_k_major ? s.core.transposed_ns : s.core.copied_ns) *
          (h.inner == Inner::columns ? spilled : 1);
  if (h.pack_b && !s.p.gemm.b_packed)
    ns += packed_units(s) * (s.p.b_k_major ? s.core.transposed_ns : s.core.copied_ns) *
          by_panel(s, std::min(s.nc, s.n) / s.nr * s.strip_b) *
          (h.inner == Inner::rows ? spilled : 1);
  return ns;
}

/// `parallel` names rows and columns of D; those of the transposed product are exchanged.
HostPacked seen_by_product(HostPacked h) {
  if (h.swap && (h.parallel == Parallel::m || h.parallel == Parallel::n))
    h.parallel = h.parallel == Parallel::m ? Parallel::n : Parallel::m;
  return h;
}

/// Rows of D that a transposing store finishes one by one.
double transposing_ns(const Share& s) {
  if (!s.h.swap) return 0;
  return s.n * std::ceil(s.m / s.h.mr) * kTransposedLineNs;
}

double predict(const DeviceCaps& device, const HostPacked& config, const PackedSizes& sizes) {
  const HostPacked seen = seen_by_product(config);
  const Share s(sizes.product, device, seen, sizes);
  const double compute = compute_ns(s), stream = stream_ns(s), results = results_ns(s);
  const double waiting = waiting_for_b_ns(s);
  const double memory = read_a_ns(s) + (waiting > 0 ? 0 : read_b_ns(s)) + results;
  const double longest = std::max({compute, stream, memory});
  const double others = compute + stream + memory - longest;
  double exposed = (s.h.pack_a ? kExposedPacking : kExposed) * others + late_ns(s);
  const bool from_memory = far_rate(s, s.bytes_a + s.bytes_b) <= s.rate.dram;
  // What is fetched ahead hides behind arithmetic, but an operand that is read in order and takes
  // longer to come from memory than the arithmetic is only held up. D is not fetched that far
  // ahead.
  if (fetches(s.h)) {
    const auto held_up = [&](int lines, double read) {
      return from_memory && lines > 0 && read >= kMostOfCompute * compute ? kHeldUp * read : 0;
    };
    exposed = kExposedFetched * others + held_up(s.h.fetch_a, read_a_ns(s));
    if (scattered_b(s) <= 1) exposed += held_up(s.h.fetch_b, read_b_ns(s));
  }
  if (s.p.gemm.b_packed && from_memory) exposed += waiting_for_panels_ns(s, others);
  if (longest != memory) exposed += kExposedResults * results;
  double shared = kCallNs;
  if (s.threads > 1) shared += kTeamNs;
  if (s.h.parallel == Parallel::k)
    shared += 2 * s.m * s.n * s.unit * s.threads / s.rate.l3 + kReduceNs;
  return s.batch * (longest + exposed + waiting + packing_ns(s) + transposing_ns(s) +
                    waiting_rows_ns(s)) +
         shared;
}

}  // namespace
}  // namespace kiln::host::packed_model

namespace kiln::host {

double predict_packed(const DeviceCaps& device, const HostPacked& config,
                      const PackedSizes& sizes) {
  return packed_model::predict(device, config, sizes);
}

}  // namespace kiln::host
