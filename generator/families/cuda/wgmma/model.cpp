// The model that ranks configs of cuda_wgmma. Its constants are fitted to 42 000 measured points of
// 700 shapes on an H200 (bf16, fp16, fp8; all layouts): the best of the first eight guesses is on
// average within 1.3 % of the best measured one for m ≤ 64, 1 % up to 512 and 0.4 % above, the
// first guess within 6, 6 and 3 %.
#include <algorithm>
#include <cmath>

#include "generator/expression/code.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"

namespace kiln::cuda::wgmma_model {
namespace {

// The numbers of the model. [fit]: to the points above; [measured] on an H200, as said beside it;
// [counted]: instructions of the generated code; [trial]: chosen by trial, no measurement is kept.

// --- A stage.
/// Bytes a cycle that shared memory gives to the instructions [fit].
constexpr double kSharedRate = 151, kSharedRateOfTwo = 145;
/// How much longer a right operand takes that is not k-major, by whether its rows are whole boxes
/// of 32 [fit].
constexpr double kMisfit32 = 1.5, kMisfit = 1.9;
constexpr double kLeastMultiply =
    57;                         // cycles of an instruction with registers, however few rows [fit]
constexpr double kL2Rate = 73;  // bytes a cycle of an SM [fit]
constexpr double kStraddlingRate = 47;  // bytes a nanosecond of rows that straddle lines [measured]
constexpr double kTurnPingpong = 14, kTurnOfTwo = 19;  // cycles from stage to stage [fit]
constexpr double kFirstWords = 40;    // cycles until a left operand is in registers [trial]
constexpr double kClusterStage = 10;  // cycles [fit]

// --- The end of a tile: cycles of a warpgroup for an element of D.
constexpr double kStoreList = 0.055;   // of 2 bytes, by 16 bytes [counted]
constexpr double kStoreStaged = 0.75;  // rows at any address [counted]
constexpr double kStorePaired = 0.14;  // two elements at a time [counted]
constexpr double kStoreBox = 0.044;    // of 2 bytes, a box [fit]
constexpr double kFinish = 650;        // cycles of any tile [fit]
constexpr double kMeeting = 600;  // cycles of clusters that exchange the largest values [trial]
constexpr double kShownPingpong = 0.5, kShown = 1.1;  // of it, before another tile [fit]
/// Instructions a cycle of a quarter of an SM that finish sums: of two warpgroups' warps beside
/// each other, of one's [trial].
constexpr double kFinishRate = 0.9, kFinishRateOfOne = 0.6;
constexpr double kWaitOfTurn = 600;    // cycles until a turn's matrices are there [trial]
constexpr double kShownBeside = 0.1;   // of what another warpgroup's products could hide [trial]
constexpr double kStreamTurns = 1.27;  // stream-K by turns, where tiles end within k [fit]
constexpr double kStreamRound = 0.1;   // of a tile, for the uneven end of stream-K [trial]

// --- Memory.
constexpr double kOfNominal = 0.94;    // of the card's rate [fit]
constexpr double kBytesBeyond = 0.67;  // of a byte, of those of rows that do not exist [fit]
constexpr double kPort = 158;          // bytes a nanosecond of a pair of SMs [fit]
constexpr double kLatency = 950;       // nanoseconds [fit]

// --- A call, in nanoseconds but where cycles are said.
constexpr double kClock = 0.87, kGhz = 2;  // the clock under load [fit]; where it is not known
constexpr double kCall = 940;              // [fit]
constexpr double kCluster = 840;           // launch of clusters of two [fit]
constexpr double kSecondLaunch = 1700, kSummedRate = 1500;  // and bytes a nanosecond [fit]
constexpr double kReduction = 4200, kTurnOfPart = 80;  // cycles, and of each turn of parts [fit]
constexpr double kPartRate = 43;                 // bytes a cycle of parts that are added [fit]
constexpr double kPartsOfStream = 3;             // that share a tile, at most [trial]
constexpr double kPack = 800, kPackRate = 2800;  // a copy's launch, bytes a nanosecond [trial]
constexpr double kExposed = 0.21;                // of the shorter of work and memory [fit]

// --- One order of tiles stands for all in the first guesses [trial].
constexpr double kHilbert = 1.02, kOtherWalk = 1.015, kSwapped = 1.01, kAlternating = 1.005;

/// Bytes a cycle that shared memory gives to the instructions. Two warpgroups of one tile get less
/// than one, or than two that take turns.
double shared_rate(const CudaWgmma& c) {
  return c.warpgroups == 1 || c.pingpong ? kSharedRate : kSharedRateOfTwo;
}

/// How much longer the instructions read a right operand that is not k-major, whose rows are not
/// whole boxes of 64.
double misfit(const WgmmaSizes& w, const CudaWgmma& c) {
  if (!w.right.across_k || c.right % 64 == 0) return 1;
  return c.right % 32 == 0 ? kMisfit32 : kMisfit;
}

/// Products of parts that a stage is multiplied by.
double products(const CudaWgmma& c) { return c.halves ? 3 : 1; }

/// Cycles of one stage: the instructions (right / 2 each, but no fewer than some), what shared
/// memory moves for them, or what L2 gives; and the turn-over between stages.
double stage_cycles(const Problem& p, const WgmmaSizes& w, const CudaWgmma& c, double ghz) {
  const double multiply = products(c) * 4.0 * c.left / 64 * std::max(c.right / 2.0, kLeastMultiply);
  const double read = products(c) * c.left / 64.0 * (64 + c.right) * 128;
  const double moved =
      (read + w.parts * double(c.left + c.right) * 128) * misfit(w, c) / shared_rate(c);
  const auto from_l2 = [&](const WgmmaSizes::Side& s, bool is_a, int rows) {
    const bool whole = s.pack || in_whole_lines(is_a ? p.gemm.a : p.gemm.b);
    return w.parts * rows * 128.0 / (whole ? kL2Rate : kStraddlingRate / ghz);
  };
  const double copied = from_l2(w.left, !c.swap, c.left) / c.cluster_right +
                        from_l2(w.right, c.swap, c.right) / c.cluster_left;
  const double turn = c.warpgroups == 1 ? 0 : c.pingpong ? kTurnPingpong : kTurnOfTwo;
  // The first words of a stage are waited for before its first instruction.
  const double fetched = w.left_registers ? kFirstWords : 0;
  return std::max({multiply, moved, copied}) + turn + fetched + (w.cluster > 1 ? kClusterStage : 0);
}

/// Groups of rows share one A and one D; of masked groups the rows that are expected count.
double rows_of(const Gemm& g) {
  if (g.grouping() == Grouping::rows) return double(g.m);
  return double(g.batch) * (g.grouping() == Grouping::masked ? expected_rows_of(g) : double(g.m));
}

/// Clusters' tiles; of groups as many as are expected, half of the last one of each being empty,
/// which is the only one of few rows. Products of a list have such ends along both sides.
double tiles_of(const Gemm& g, const WgmmaSizes& w, const CudaWgmma& c) {
  if (!grouped(g) || g.grouping() == Grouping::k) return double(w.tiles);
  const auto along = [](double lines, double tile) { return std::max(1.0, lines / tile + 0.5); };
  const double left = double(c.left) * c.cluster_left, right = double(c.right) * c.cluster_right;
  if (lists_products(g))
    return double(g.batch) * along(double(w.left.rows), left) * along(double(w.right.rows), right);
  const double each = along(rows_of(g) / double(g.batch), c.swap ? right : left);
  return each * double(g.batch) * double(c.swap ? w.tiles_left : w.tiles_right);
}

double bytes_of(const Gemm& g) {
  if (g.grouping() == Grouping::k)
    return double(g.k) * double(g.m + g.n) * size_of(g.a.dtype) + g.outputs() * size_of(g.d.dtype);
  return rows_of(g) * (double(g.k) * size_of(g.a.dtype) + double(g.n) * size_of(g.d.dtype)) +
         double(g.batch) * double(g.columns_of_b()) * double(g.k) * size_of(g.b.dtype);
}

/// Cycles of a warpgroup to store one element of D. Where rows of D stand at any
/// address they are counted in instructions, not fitted: 16 rows of 64 elements are some 9 turns of
/// 350 cycles through a warp's buffer, and a pair some 9 instructions of a warp.
double out_of_registers(const Problem& p, const WgmmaSizes& w, const CudaWgmma& c) {
  // By 16 bytes, some 5 instructions a unit instead of a box's.
  if (lists_products(p.gemm)) return kStoreList * size_of(p.gemm.d.dtype) / 2;
  if (w.store == WgmmaSizes::Store::staged) return kStoreStaged;
  return c.paired ? kStorePaired : kStoreBox * size_of(p.gemm.d.dtype) / 2;
}

/// Cycles until a tile's elements have gone through the expression behind the product. The work of
/// an expression has a wait for matrices, once for each turn of a tile, which is none for those
/// that are brought.
double expression_cycles(const Problem& p, const WgmmaSizes& w, const CudaWgmma& c) {
  const double threads = 128.0 * c.warpgroups * (c.pingpong ? 0.5 : 1);
  const double elements = double(c.left) * c.right / (gated(p.gemm) ? 2 : 1);
  const double of_thread = expression::work_of(epilogue_of(p.gemm)) * elements / threads;
  const double cycles = of_thread * (c.pingpong || c.warpgroups == 1 ? 1 / kFinishRateOfOne
                                                                     : c.warpgroups / kFinishRate);
  const double waits = c.bring ? kWaitOfTurn * w.parts_of_tile * w.turns_of_part : 0;
  return std::max(0.0, cycles - waits);
}

/// Bytes of rows that copies ask for and that do not exist; behind a group's lie the next one's.
/// They cost what others do: 72 rows in tiles of 64 took 25.2 us (6144×4096), 18.2 with copies that
/// end with the operand (H200). Across k a copy moves lines of 128 bytes, whatever part of them the
/// tile or the operand has.
double bytes_beyond(const Problem& p, const WgmmaSizes& w, const CudaWgmma& c) {
  const auto beyond = [&](const WgmmaSizes::Side& s, bool clipped, std::int64_t tile,
                          std::int64_t copies) {
    if (clipped || s.factors || grouped(p.gemm)) return 0.0;
    const std::int64_t line = 128 / size_of(s.type), box = std::min(tile, line);
    const std::int64_t moved = s.across_k ? ceil_div(s.rows, box) * line : round_up(s.rows, tile);
    return double(moved - s.rows) * double(copies);
  };
  const double rows =
      beyond(w.left, w.clip_left, std::int64_t{c.left} * c.cluster_left, w.tiles_right) +
      beyond(w.right, w.clip_right, std::int64_t{c.right} * c.cluster_right, w.tiles_left);
  return rows * 128 * double(w.stages_of_k) * double(p.gemm.batch);
}

/// Nanoseconds until the last tile's bytes have come from memory. Pairs of SMs share one port, and
/// memory serves the pairs that still ask alike: 80 tiles on 66 pairs (64 rows of 3072 bf16 each)
/// take 9.5 us, not the 7.5 us of their bytes, because 14 pairs go on alone with a second tile at
/// the rate of a port. Below that, a pair gets what its pipelines keep in flight for a latency.
double memory_ns(const Problem& p, const DeviceCaps& d, const WgmmaSizes& w, const CudaWgmma& c) {
  const double rate = kOfNominal * std::max(1, d.gpu.memory_gbs);
  const double bytes = bytes_of(p.gemm) + double(bytes_beside_d(p.gemm) + bytes_of_extras(p.gemm)) +
                       kBytesBeyond * bytes_beyond(p, w, c);
  const int sms = std::max(2, w.cluster);  // that work on one tile, or the two of a pair
  const double groups = std::max(1, d.compute_units / sms);
  const double flight = double(w.cluster) * c.stages * (c.left + c.right) * 128;
  const double port = kPort * sms / 2;
  const double one = std::min(port, flight / kLatency);
  const double two = std::min(port, 2 * flight / kLatency);
  if (c.sharing == Sharing::stream) return bytes / std::min(rate, groups * two);
  const double items = tiles_of(p.gemm, w, c) * c.splits;
  const double item = bytes / items;
  const double whole = std::floor(items / groups), rest = items - whole * groups;
  double ns = 0;
  if (whole > 0) ns += whole * item / std::min(whole > 1 ? two : one, rate / groups);
  if (rest > 0) ns += item / std::min(one, rate / rest);
  return ns;
}

}  // namespace
}  // namespace kiln::cuda::wgmma_model

namespace kiln::cuda {

bool in_whole_lines(const Matrix& m) { return m.ld * size_of(m.dtype) % 128 == 0; }

double wgmma_ns(const Problem& p, const DeviceCaps& d, const CudaWgmma& c, const WgmmaSizes& w) {
  using namespace wgmma_model;
  const double ghz = kClock * (d.ghz > 0 ? d.ghz : kGhz);
  const double tile = double(c.left) * c.right;
  const int splits = c.splits;
  const double per_cluster = tiles_of(p.gemm, w, c) * splits / w.clusters;
  const double rounds =
      c.sharing == Sharing::stream ? per_cluster + kStreamRound : std::ceil(per_cluster);
  // Where another tile follows, pingpong hides half of the epilogue.
  const double meeting = w.scale_pairs ? kMeeting : 0;
  const double finish = tile * out_of_registers(p, w, c) / c.warpgroups + kFinish + meeting;
  const double shown = c.pingpong ? kShownPingpong : kShown;
  const double stages = stages_of_tile(p.gemm, w.depth) / splits * stage_cycles(p, w, c, ghz);
  // Where warpgroups take turns, what one computes of its tile is behind the other's products.
  const double computed = expression_cycles(p, w, c);
  const double shown_of_it =
      c.pingpong ? kShownBeside * computed + std::max(0.0, computed - stages) : computed;
  // Two warpgroups that take turns wait for each other where a tile ends in the middle of k.
  const double turns = c.sharing == Sharing::stream && c.pingpong ? kStreamTurns : 1;
  const double cycles = turns * rounds * stages + (rounds - 1) * (shown * finish + shown_of_it);
  // What follows the last stage.
  double after = (finish + computed) / ghz + (w.cluster > 1 ? kCluster : 0);
  if (c.sharing == Sharing::summed) {
    // A second launch that waits for the first, and its traffic with L2.
    const double bytes = double(w.tiles) * w.cluster * splits * tile * 4;
    after += kSecondLaunch + bytes / kSummedRate;
  } else if (c.sharing != Sharing::tiles) {
    const double parts = c.sharing == Sharing::split ? splits : kPartsOfStream;
    after += (kReduction + std::max(std::ceil(parts / w.partials_at_once) * kTurnOfPart,
                                    parts * tile * 4 / kPartRate)) /
             ghz;
  }
  const double memory = memory_ns(p, d, w, c);
  double packing = 0;
  for (const auto* s : {&w.left, &w.right})
    if (s->pack) packing += kPack + 2.0 * double(s->packed.bytes) / kPackRate;
  const double work = cycles / ghz;
  // One order of tiles stands for all in the first guesses; the others come after other tiles, the
  // curve, which gained nothing beyond noise, last.
  const double walk = c.along == Along::hilbert                ? kHilbert
                      : c.along == Along::left && c.group == 8 ? 1.0
                                                               : kOtherWalk;
  // Turns at the tensor cores took 0.90 of the time in products of some 7 us, 1.10 in large ones
  // (H200).
  const double order = walk * (c.swap ? kSwapped : 1.0) * (c.alternate ? kAlternating : 1.0);
  return (kCall + packing + after + std::max(work, memory) + kExposed * std::min(work, memory)) *
         order;
}

}  // namespace kiln::cuda
