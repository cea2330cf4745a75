// Family host_amx: axes, rules, parameters and model of templates/cpu/amx/amx.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "generator/families/cpu/amx/config.h"
#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/common/packed_layout.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/gate.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::host::amx {
namespace {

using host::instruction;

constexpr int kTile = 16;      // rows of a tile, and 32-bit columns of it
constexpr int kTileCount = 8;  // tile registers
constexpr double kTileBytes = 1024;

constexpr std::array<std::string_view, 15> kFiles{
    "cpu/common/abi.h",    "cpu/common/types.h",    "cpu/common/vector.h", "cpu/common/amax.h",
    "cpu/common/lines.h",  "cpu/common/epilogue.h", "cpu/common/share.h",  "cpu/common/pack.h",
    "cpu/common/panels.h", "cpu/amx/amx.h",         "cpu/amx/tile.h",      "cpu/amx/copies.h",
    "cpu/amx/memory.h",    "cpu/amx/blocks.h",      "cpu/amx/amx.cpp"};

struct AmxSizes {
  const DotInstruction& row;
  int step;  // k of a tile
};

/// The instruction that multiplies the operands, or their parts; null where there is none.
const DotInstruction* instruction_of(const Problem& p, const DeviceCaps& d, bool thirds) {
  if (!thirds) return instruction(Isa::amx, p, d);
  return p.gemm.numerics == Numerics::tensor ? dot_instruction(Isa::amx, d.cpu, bf16, bf16)
                                             : nullptr;
}

/// Products of parts for each of the operands'.
int products(const HostAmx& c) { return c.thirds ? 6 : 1; }
int parts(const HostAmx& c) { return c.thirds ? 3 : 1; }

AmxSizes sizes_of(const Problem& p, const DeviceCaps& d, const HostAmx& c) {
  const auto& row = *instruction_of(p, d, c.thirds);
  return {row, kTile * row.group};
}

/// Whether nothing that follows the product asks for the row or the column of an element. What is
/// laid out as D is found by the element's place.
bool lies_flat(const Gemm& g) {
  const Expression epilogue = epilogue_of(g);
  if (epilogue.empty()) return true;
  const std::span<const expression::Argument> arguments = arguments_of_epilogue(g);
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i) {
    const ExtraOperand& x = epilogue.operands()[i];
    const bool as_d = i < arguments.size() && arguments[i] == expression::Argument::residual;
    if (!as_d && (expression::has_index(x, Index::m) || expression::has_index(x, Index::n)))
      return false;
  }
  return epilogue.outputs().empty() && !epilogue.program()->uses(expression::Op::index) &&
         !epilogue.program()->reads_reduced() && epilogue.program()->half_of == nullptr;
}

/// Whether tiles that overlap may stream D: each row of one is some whole lines.
bool streams_rows(const Problem& p, const HostAmx& c) {
  const int bytes = size_of(p.gemm.d.dtype);
  return c.overlap && c.kc >= p.gemm.k && !gated(p.gemm) && bytes > 1 &&
         c.nt * kTile * bytes % 64 == 0;
}

/// Bytes of k of one block that a tile of accumulators reads of the left operand, and of the right.
struct TileBytes {
  double left, right;
};
TileBytes tile_bytes(const Problem& p, const HostAmx& c) {
  const double k = double(std::min<std::int64_t>(c.kc, p.gemm.k)) * parts(c) *
                   (c.thirds ? size_of(bf16) : size_of(p.gemm.a.dtype));
  return {c.mt * kTile * k, c.nt * kTile * k};
}

/// Whether the right operand's tiles would push the left one's out of L1, and are too many to be
/// found there again themselves.
bool right_streams(const Problem& p, const DeviceCaps& d, const HostAmx& c) {
  const TileBytes read = tile_bytes(p, c);
  const std::int64_t columns = c.swap ? p.gemm.m : p.gemm.n;
  return read.left + read.right > 0.5 * d.l1_bytes &&
         std::min<std::int64_t>(c.nc, columns) > 2 * c.nt * kTile;
}

constexpr FirstRule<HostAmx> kFirst[] = {
    {"isa has an instruction of this family for the types",
     [](const Problem& p, const DeviceCaps& d, const HostAmx& c) {
       return c.isa == Isa::amx && instruction_of(p, d, c.thirds) != nullptr;
     }}};

constexpr Rule<HostAmx, AmxSizes> kRules[] = {
    {"mt and nt are at least 1, and mt*nt + mt + nt tiles fit the 8 registers",
     [](const Problem&, const DeviceCaps&, const HostAmx& c, const AmxSizes&) {
       return c.mt >= 1 && c.nt >= 1 && c.mt * c.nt + c.mt + c.nt <= kTileCount;
     }},
    {"kc is a multiple of a tile's k, nc of 16*nt",
     [](const Problem&, const DeviceCaps&, const HostAmx& c, const AmxSizes& w) {
       return c.kc >= w.step && c.kc % w.step == 0 && c.nc >= c.nt * kTile &&
              c.nc % (c.nt * kTile) == 0;
     }},
    {"mc is a multiple of 16*mt", [](const Problem&, const DeviceCaps&, const HostAmx& c,
                                     const AmxSizes&) { return c.mc % (c.mt * kTile) == 0; }},
    {"stream_d=1 needs mc > 0, or overlap=1, all of k in kc, no gate and whole lines of D in 16*nt "
     "columns; swap=0, no parallel=k",
     [](const Problem& p, const DeviceCaps&, const HostAmx& c, const AmxSizes&) {
       return !c.stream_d ||
              ((c.mc > 0 || streams_rows(p, c)) && !c.swap && c.parallel != Parallel::k);
     }},
    {"overlap=1 needs mc = 0", [](const Problem&, const DeviceCaps&, const HostAmx& c,
                                  const AmxSizes&) { return !c.overlap || c.mc == 0; }},
    {"long_runs=1 needs thirds=0 and a right operand to pack whose k is not adjacent",
     [](const Problem& p, const DeviceCaps&, const HostAmx& c, const AmxSizes&) {
       return !c.long_runs ||
              (!c.thirds && !p.gemm.b_packed && !(c.swap ? p.a_k_major : p.b_k_major));
     }},
    {"packed weights need swap=0, no parallel=k, and an AVX-512 instruction of the same units",
     [](const Problem& p, const DeviceCaps& d, const HostAmx& c, const AmxSizes& w) {
       if (!p.gemm.b_packed) return true;
       const PackedLayout given = packed_layout(p, d);
       return !c.swap && c.parallel != Parallel::k && given.lanes == kTile && given.step == kTile &&
              given.group == w.row.group;
     }},
    {"copy_left=1 needs a k-major left operand, thirds=0 and mc=0: those always copy it",
     [](const Problem& p, const DeviceCaps&, const HostAmx& c, const AmxSizes&) {
       return !c.copy_left || (!c.thirds && c.mc == 0 && (c.swap ? p.b_k_major : p.a_k_major));
     }},
    {"thirds=1 needs a B that is not packed",
     [](const Problem& p, const DeviceCaps&, const HostAmx& c, const AmxSizes&) {
       return !c.thirds || !p.gemm.b_packed;
     }},
    {"parallel=batch needs 2 or more products",
     [](const Problem& p, const DeviceCaps&, const HostAmx& c, const AmxSizes&) {
       return c.parallel != Parallel::batch || p.gemm.batch > 1;
     }}};

/// A value of a list of blocks, whole units, but no more than the size has.
int limit(std::int64_t value, std::int64_t size, int unit) {
  return int(std::min(ceil_div(value, unit), ceil_div(std::max<std::int64_t>(size, 1), unit)) *
             unit);
}

std::vector<int> within(std::vector<int> sizes, std::int64_t size, int unit) {
  for (int& value : sizes) value = limit(value, size, unit);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Axes that neither form of kernel changes.
struct Common {
  bool thirds;
  int step;      // k of a tile
  int bytes;     // of an element in a block of tiles
  bool streams;  // what stays in cache finds D there
  std::vector<Parallel> ways{Parallel::none};
};

Common common_of(const Problem& p, const DeviceCaps& d, const DotInstruction& row) {
  const bool thirds = p.gemm.numerics == Numerics::tensor;
  Common out{
      .thirds = thirds,
      .step = kTile * row.group,
      .bytes = thirds ? 6 : size_of(p.gemm.a.dtype),
      .streams = !host::stays_in_cache(d, double(p.gemm.batch) * host::touched_bytes(p.gemm))};
  if (d.compute_units > 1) {
    out.ways.insert(out.ways.end(), {Parallel::m, Parallel::n, Parallel::k});
    if (d.compute_units > 3) out.ways.push_back(Parallel::grid);
    if (p.gemm.batch > 1) out.ways.push_back(Parallel::batch);
  }
  return out;
}

/// Tiles along m and n of a block of accumulators.
using TileShape = std::array<int, 2>;
constexpr std::array<TileShape, 6> kStripShapes{{{2, 2}, {1, 3}, {3, 1}, {1, 2}, {2, 1}, {1, 1}}};
constexpr std::array<TileShape, 4> kBlockShapes{{{2, 2}, {2, 1}, {1, 2}, {1, 1}}};

/// Kernels without blocks of rows (mc = 0).
void enumerate_strips(const Problem& p, const DeviceCaps& d, const Common& common,
                      const std::function<void(const Config&)>& visit) {
  // Three parts of a left block of 16 or 32 rows stay in L1 where k is short.
  const std::vector<int> depths = within(common.thirds ? std::vector{128, 256, 512, 1024, 2048}
                                                       : std::vector{512, 1024, 2048, 4096, 16384},
                                         p.gemm.k, common.step);
  // Rows of D may all begin at lines.
  const bool lines = p.gemm.ldd() * size_of(p.gemm.d.dtype) % 64 == 0;
  Product(kStripShapes, kNoYes).each([&](const TileShape& shape, bool swap) {
    const auto [mt, nt] = shape;
    const std::vector<int> strips =
        within({64, 192, 512, 1024, 4096}, swap ? p.gemm.m : p.gemm.n, nt * kTile);
    HostAmx config{.mt = mt, .nt = nt, .swap = swap, .thirds = common.thirds};
    Product(kNoYes, depths, strips, common.ways, kNoYes, kNoYes)
        .each([&](bool copy, int kc, int nc, Parallel way, bool overlap, bool stream) {
          if (overlap && kc <= 2 * common.step) return;  // too few steps to overlap with
          config.copy_left = copy, config.kc = kc, config.nc = nc;
          config.parallel = way, config.overlap = overlap, config.stream_d = stream;
          config.right_t1 = right_streams(p, d, config);
          if (!stream || (common.streams && lines && !swap && streams_rows(p, config)))
            visit(config);
        });
  });
}

/// Blocks: a strip of rows and a panel of columns over kc fit L1, or nearly; their accumulators
/// take up to half of L2.
void enumerate_blocks(const Problem& p, const DeviceCaps& d, const Common& common,
                      const std::function<void(const Config&)>& visit) {
  const auto scattered = [&](bool swap) {
    return common.streams && !p.gemm.b_packed && !(swap ? p.a_k_major : p.b_k_major) &&
           host::rows_apart(swap ? p.gemm.a : p.gemm.b);
  };
  constexpr int kAll = 1 << 20;                        // columns: where their panels fit half of L2
  std::vector<int> depths{384, 512, 768, 1024, 2048};  // bytes
  for (int& depth : depths) depth /= common.bytes;
  depths = within(depths, p.gemm.k, common.step);
  Product(kBlockShapes, kNoYes).each([&](const TileShape& shape, bool swap) {
    const auto [mt, nt] = shape;
    const std::int64_t rows = swap ? p.gemm.n : p.gemm.m, columns = swap ? p.gemm.m : p.gemm.n;
    HostAmx config{.mt = mt, .nt = nt, .swap = swap, .thirds = common.thirds};
    config.long_runs = !common.thirds && scattered(swap);
    const std::vector<int> panels =
        within({64, 128, 256, 512, 1024, 2048, kAll}, columns, nt * kTile);
    const std::vector<int> strips = within({32, 64, 128, 256, 512}, rows, mt * kTile);
    Product(depths, panels, strips, no_yes(common.streams && !swap), common.ways)
        .each([&](int kc, int nc, int mc, bool stream, Parallel way) {
          if (nc > 1024 && double(nc) * kc * common.bytes > 0.5 * d.l2_bytes) return;
          config.kc = kc, config.nc = nc, config.mc = mc;
          config.stream_d = stream, config.parallel = way;
          config.right_t1 = right_streams(p, d, config);
          visit(config);
        });
  });
}

void enumerate(const Problem& p, const DeviceCaps& d,
               const std::function<void(const Config&)>& visit) {
  const auto* row = instruction_of(p, d, p.gemm.numerics == Numerics::tensor);
  if (row == nullptr) return;
  const Common common = common_of(p, d, *row);
  enumerate_strips(p, d, common, visit);
  enumerate_blocks(p, d, common, visit);
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const HostAmx& h, const AmxSizes& w) {
  const auto& row = w.row;
  const Gemm& g = p.gemm;
  Parameters out;
  host::add_common(out, p, d, Isa::amx, row, row.vector_bytes, h.any_epilogue);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kMt", h.mt, "tiles of 16 rows in a block of accumulators");
  add("kNt", h.nt, "tiles of 16 columns in it");
  add("kNv", h.nt, "vectors across it");
  add("kPanelStep", kTile, "rows of a panel of the right operand are a multiple of this");
  add("kColumnSums", g.b_packed && packed_layout(p, d).column_sums,
      "rows of column sums behind a panel");
  const int height = h.mt * kTile, width = h.nt * kTile;
  host::add_shares(out, h.parallel, h.swap ? width : height, h.swap ? height : width,
                   kTile / 4 * row.group);
  auto& v = out.values;
  const auto flag = [](bool b) { return std::string(b ? "1" : "0"); };
  v["masks"] = "1";
  v["swap"] = flag(h.swap);
  v["copy_left"] = flag(h.copy_left);
  v["left_k_major"] = flag(h.swap ? p.b_k_major : p.a_k_major);
  v["left_signed"] = flag((h.swap ? g.b.dtype : g.a.dtype) == s8);
  v["right_signed"] = flag((h.swap ? g.a.dtype : g.b.dtype) == s8);
  v["b_packed"] = flag(g.b_packed);
  v["right_k_major"] = flag(h.swap ? p.a_k_major : p.b_k_major);
  v["column_sums"] = "0";
  v["thirds"] = flag(h.thirds);
  v["blocked"] = flag(h.mc > 0);
  v["stream_d"] = flag(h.stream_d && h.mc > 0);
  v["stream_rows"] = flag(h.stream_d && h.mc == 0);
  if (h.stream_d && h.mc == 0)
    out.constants.push_back(number("kStreamed", 64, "bytes of D in one store past the caches"));
  // Nothing in the epilogue depends on the row or the column of an element.
  v["flat_rows"] = flag(h.mc > 0 && !h.swap && !h.stream_d && h.parallel != Parallel::k &&
                        g.a.q.scale == Scale::none && g.b.q.scale == Scale::none &&
                        g.a.q.zero == Zero::none && (h.any_epilogue || lies_flat(g)));
  v["overlap"] = flag(h.overlap);
  v["long_runs"] = flag(h.long_runs);
  v["right_t1"] = flag(h.right_t1);
  if (h.parallel == Parallel::k) v["accumulate"] = "workspace";
  return out;
}

// The numbers of the model. [measured]: on a Xeon (Sapphire Rapids), as said beside it or in
// docs/performance-log.md, 2026-11-25; [counted]: instructions of the generated code; [trial]:
// chosen by trial, no measurement is kept.

// --- What stays in a cache, as shares of it [trial].
constexpr double kStripInL1 = 0.5, kStripInL2 = 0.6;  // of strips' operands
// A left block has half of L1, or five sixths (0.5 / 0.6) where the right one's tiles go past it.
constexpr double kPastL1 = 0.6;
constexpr double kTilesInL1 = 0.6, kLeftInL1 = 0.85;  // of both operands, of the left one alone
constexpr double kSpilling = 0.9;                     // of L1: from there on all tiles come from L2
constexpr double kBlocksInL2 = 0.6, kPanelsInL2 = 0.5;

// --- Strips.
constexpr double kThirdsLoads = 4;  // loads of thirds, of those of one product [counted]
constexpr double kFinishRow = 4, kFinish = 60;  // cycles of 16 accumulators, of their block [trial]
constexpr double kExposed = 0.3;                // of the shorter of arithmetic and streams [trial]
/// Of reading rows that come no faster than they are multiplied: they are only held up by asking
/// for them ahead (16×4096×4096: int8 1.77 ms instead of 1.27, bf16 3.24 instead of 2.52).
constexpr double kHeldUp = 0.35;
// To pack a unit of the right operand, and the share of its bytes' time beside it [trial].
constexpr double kTransposedNs = 0.35, kCopiedNs = 0.25;
constexpr double kPackedOnce = 0.5;
// To copy left rows, in L2's time for their bytes: k-major ones, others [trial].
constexpr double kCopyInPlace = 8, kCopy = 32;
constexpr double kStreamD = 0.8, kOverlapD = 1.2, kStoreD = 2;  // of D's bytes' time [trial]
constexpr double kPartialBytes = 8;  // to and from L3, of an accumulator between passes [counted]

// --- Blocks.
constexpr double kRightTile = 6, kSpilledTile = 20;  // cycles from L2 beside products [measured]
constexpr double kAccumulators = 54;  // cycles of a tile of them, there and back [measured]
constexpr double kCrowded = 0.3;      // of what L2 holds beyond its share [trial]
constexpr double kAgain = 0.5;        // of reading copies again: half hides [trial]
constexpr double kOfMemory = 0.75;    // of memory's rate, while elements are copied [trial]
// Nanoseconds of an element beside it [trial].
constexpr double kSplitNs = 1, kTransposedLeftNs = 0.15, kTransposedRightNs = 0.05;
constexpr double kStreamedBlock = 1.5, kStoredBlock = 3;  // of D's bytes' time [trial]

// --- A call, in nanoseconds [trial].
constexpr double kCallNs = 60, kTeamNs = 2000, kReduceNs = 1000;

/// What one thread does, in elements of the left operand's rows and the right one's columns.
struct Share {
  double left, right, k, batch;
};

Share share_of(const Problem& p, const DeviceCaps& d, const HostAmx& h, const AmxSizes& w) {
  const Gemm& g = p.gemm;
  const int threads = h.parallel == Parallel::none ? 1 : d.compute_units;
  double m = double(g.m), n = double(g.n), k = double(g.k), batch = double(g.batch);
  const int height = h.mt * kTile, width = h.nt * kTile;
  const auto part = [&](double size, double unit) {
    return std::min(size, std::ceil(std::ceil(size / unit) / threads) * unit);
  };
  if (h.parallel == Parallel::m) m = part(m, h.swap ? width : height);
  if (h.parallel == Parallel::n) n = part(n, h.swap ? height : width);
  if (h.parallel == Parallel::k) k = part(k, w.step);
  if (h.parallel == Parallel::batch) batch = std::ceil(batch / threads);
  if (h.parallel == Parallel::grid) (m >= n ? m : n) = std::max(m, n) / threads;
  return {h.swap ? n : m, h.swap ? m : n, k, batch};
}

/// Bytes a nanosecond at which the caller's matrices come.
double found(const Problem& p, const DeviceCaps& d, const host::Rates& rate) {
  const double touched = double(p.gemm.batch) * host::touched_bytes(p.gemm);
  return host::stays_in_cache(d, touched) ? rate.l2 : rate.dram;
}

/// One product of a share, of which neither operand's copy outlives its block.
double predict_strips(const Problem& p, const DeviceCaps& d, const HostAmx& h, const AmxSizes& w,
                      const Share& s) {
  const auto rate = host::rates(d, Isa::amx);
  const Gemm& g = p.gemm;
  const int height = h.mt * kTile, width = h.nt * kTile;
  const int bytes = h.thirds ? parts(h) * size_of(bf16) : size_of(g.a.dtype);
  const double blocks = std::ceil(s.left / height) * std::ceil(s.right / width);
  const double steps = std::ceil(s.k / w.step), passes = std::ceil(s.k / h.kc);
  const host::Microarchitecture& core = host::microarchitecture(d);
  const double dots = core.tile_cycles * h.mt * h.nt * products(h);
  const double loads = kTileBytes / core.load_bytes * (h.mt + h.nt) * (h.thirds ? kThirdsLoads : 1);
  const double compute =
      blocks *
      (steps * std::max(dots, loads) + passes * (kFinishRow * 16.0 * h.mt * h.nt + kFinish)) *
      rate.cycle;
  const double strip = std::min<double>(h.nc, s.right) * std::min<double>(h.kc, s.k) * bytes;
  const auto level = [&](double held) {
    return held < kStripInL1 * d.l1_bytes   ? rate.l1
           : held < kStripInL2 * d.l2_bytes ? rate.l2
                                            : rate.l3;
  };
  // Both operands' tiles come from where their blocks stay while they are used again.
  const double block = tile_bytes(p, h).left * (h.right_t1 ? kPastL1 : 1);
  const double stream =
      parts(h) * blocks * steps * 1024 * (h.nt / level(strip) + h.mt / level(block));
  const double work = std::max(compute, stream) + kExposed * std::min(compute, stream);
  // A strip's first tiles wait for its rows; where they are not in place, a copy does.
  const double left_bytes = s.left * s.k * bytes * std::ceil(s.right / h.nc);
  const double far = left_bytes < d.l2_bytes       ? rate.l2
                     : left_bytes < core.far_bytes ? rate.l3
                                                   : rate.dram;
  const double panels = std::ceil(std::min<double>(h.nc, s.right) / width);
  double time = std::max(left_bytes / far, work / panels) + work * (1 - 1 / panels);
  if (h.overlap && left_bytes / far > work) time += kHeldUp * left_bytes / far;
  if (!g.b_packed) {
    const bool along = h.swap ? p.a_k_major : p.b_k_major;
    time += s.right * s.k *
            ((along ? kTransposedNs : kCopiedNs) / w.row.group +
             bytes / found(p, d, rate) * kPackedOnce);
  }
  const bool in_place = !h.thirds && (h.swap ? p.b_k_major : p.a_k_major);
  if (h.copy_left || !in_place) time += left_bytes / rate.l2 * (in_place ? kCopyInPlace : kCopy);
  // D, and before it partial accumulators, far apart in memory.
  const double d_bytes = s.left * s.right * size_of(g.d.dtype);
  return time +
         (h.stream_d  ? kStreamD
          : h.overlap ? kOverlapD
                      : kStoreD) *
             d_bytes / found(p, d, rate) +
         kPartialBytes * (passes - 1) * s.left * s.right / rate.l3;
}

/// The same with blocks of rows (mc > 0).
double predict_blocks(const Problem& p, const DeviceCaps& d, const HostAmx& h, const AmxSizes& w,
                      const Share& s) {
  const auto rate = host::rates(d, Isa::amx);
  const Gemm& g = p.gemm;
  const int height = h.mt * kTile, width = h.nt * kTile;
  const double source = size_of(g.a.dtype), bytes = h.thirds ? parts(h) * size_of(bf16) : source;
  const double kc = std::min<double>(h.kc, s.k), mc = std::min<double>(h.mc, s.left),
               nc = std::min<double>(h.nc, s.right);
  const double blocks = std::ceil(s.left / height) * std::ceil(s.right / width);
  const double steps = std::ceil(s.k / w.step), passes = std::ceil(s.k / h.kc);
  // Tiles of the right operand come from L2; those of the left one do when a strip and a panel do
  // not fit L1. So do accumulators, once each way in every pass.
  // What goes past L1 takes none of it.
  const TileBytes read = tile_bytes(p, h);
  const double in_l1 = (read.left + (h.right_t1 ? 0 : read.right)) / d.l1_bytes;
  const double spilled =
      std::clamp((in_l1 - (h.right_t1 ? kLeftInL1 : kTilesInL1)) / kSpilling, 0.0, 1.0);
  const double step = host::microarchitecture(d).tile_cycles * h.mt * h.nt * products(h) +
                      parts(h) * (kRightTile * h.nt + kSpilledTile * spilled * h.mt);
  const double sums = kAccumulators * h.mt * h.nt * (passes - 0.5);
  const double held = 4 * mc * nc + (mc + nc) * kc * bytes;
  const double crowded = std::max(0.0, held / (kBlocksInL2 * d.l2_bytes) - 1);
  double time = blocks * (steps * step + sums) * rate.cycle * (1 + kCrowded * crowded);
  // Copies that outlive L2 are read again for every block of the other operand.
  const double rights = s.right * s.k * bytes, lefts = s.left * s.k * bytes;
  if (nc * s.k * bytes > kPanelsInL2 * d.l2_bytes)
    time += kAgain * rights * (std::ceil(s.left / h.mc) - 1) / rate.l3;
  time += kAgain * lefts * (std::ceil(s.right / h.nc) - 1) / rate.l3;
  // Copying reads memory as fast as it comes; splitting into parts and transposing take longer.
  const double element = source / (kOfMemory * found(p, d, rate)) + (h.thirds ? kSplitNs : 0);
  const bool left_turned = !(h.swap ? p.b_k_major : p.a_k_major);
  const bool right_turned = h.swap ? p.a_k_major : p.b_k_major;
  time += s.left * s.k * (element + (left_turned ? kTransposedLeftNs : 0));
  if (!g.b_packed) time += s.right * s.k * (element + (right_turned ? kTransposedRightNs : 0));
  // A line of D that is not streamed is read before it is written.
  const double d_bytes = s.left * s.right * size_of(g.d.dtype);
  return time + (h.stream_d ? kStreamedBlock : kStoredBlock) * d_bytes / found(p, d, rate);
}

double predict(const Problem& p, const DeviceCaps& d, const HostAmx& h, const AmxSizes& w) {
  const Share s = share_of(p, d, h, w);
  const int threads = h.parallel == Parallel::none ? 1 : d.compute_units;
  double shared = threads > 1 ? kTeamNs : 0;
  if (h.parallel == Parallel::k)
    shared += 2 * s.left * s.right * 4 * threads / host::rates(d, Isa::amx).l3 + kReduceNs;
  return s.batch * (h.mc > 0 ? predict_blocks(p, d, h, w, s) : predict_strips(p, d, h, w, s)) +
         shared + kCallNs;
}

Tile tile(const Problem& p, const HostAmx& h, const AmxSizes&) {
  const int height = h.mt * kTile, width = h.nt * kTile;
  return host::tile_of(
      p, h.swap ? Tile{width, height, h.kc, h.nc, h.mc} : Tile{height, width, h.kc, h.mc, h.nc});
}

/// Every instruction adds a tile's k to the accumulators; blocks of k as in host_packed, but that
/// with mc the accumulators wait between them as they are. Which operand is the left one changes no
/// product, but the order of those of thirds.
std::string summation(const Problem& p, const DeviceCaps& d, const HostAmx& h, const AmxSizes& w) {
  const std::string blocks = h.mc == 0 && h.kc < p.gemm.k ? fmt::format(" kc={}", h.kc) : "";
  const std::string chain =
      host::chain(w.row) +
      (h.thirds ? fmt::format(" of thirds, {}'s on the left", h.swap ? 'B' : 'A') : "") + blocks;
  return h.parallel == Parallel::k ? fmt::format("{} threads, each {}", d.compute_units, chain)
                                   : chain;
}

/// Square blocks of accumulators, and enough k a block that adding partial sums costs little.
std::optional<HostAmx> plain(const Problem& p, const DeviceCaps&) {
  return HostAmx{
      .mt = 2, .nt = 2, .kc = 2048, .nc = 512, .thirds = p.gemm.numerics == Numerics::tensor};
}

constexpr TypedFamily<HostAmx, AmxSizes> kRow{
    .vendor = Vendor::cpu,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .division =
        [](const HostAmx& c) {
          return host::division(c.mc, c.nc, c.kc, Inner::columns, c.parallel);
        },
    .tile = tile,
    .summation = summation,
    .plain = plain,
    .flushed_by =
        [](const Gemm& g, const DeviceCaps& d, const HostAmx& c) {
          if (!c.thirds) return host::flushed_by(c.isa, g, d);
          return dot_instruction(c.isa, d.cpu, bf16, bf16)->flushes ? 0x1p-126 : 0;
        },
    .flags = [](const DeviceCaps& d, const HostAmx& c) { return host::flags(c.isa, d); },
    .offers = host::kOffersGroups | Features{Feature::scales_of_integers}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::host::amx
