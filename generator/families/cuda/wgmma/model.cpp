// The model that ranks configs of cuda_wgmma. Its constants are fitted to 601 measured points of 23
// shapes on an H200: among the first eight guesses the best measured one is within 3 %, but for one
// shape (11 %).
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/wgmma/sizes.h"

namespace kiln::cuda {
namespace {

/// Cycles of one stage: the instructions (right / 2 each, but no fewer than reading 64 left rows
/// takes), what shared memory moves for them, or what L2 gives; and the turn-over between stages.
double stage_cycles(const Canonical& p, const WgmmaSizes& w, const CudaWgmma& c, double ghz) {
  const double multiply = 4.0 * c.left / 64 * std::max(c.right / 2.0, 31.0);
  const double read = c.left / 64.0 * (64 + c.right) * 128;
  // Shared memory was not seen to limit two pingpong warpgroups: 128 × 128 tiles ran at
  // about 530 cycles a stage where this rate would allow 600.
  const double moved = (read + double(c.left + c.right) * 128) / (c.pingpong ? 162 : 136);
  // Whole lines never limited; rows that straddle lines came at 47 bytes a nanosecond and SM.
  const auto from_l2 = [&](const WgmmaSizes::Side& s, bool is_a, int rows) {
    const bool whole = s.pack || in_whole_lines(is_a ? p.gemm.a : p.gemm.b);
    return whole ? 0.0 : rows * 128.0 / 47 * ghz;
  };
  const double copied = from_l2(w.left, !c.swap, c.left) / c.cluster_right +
                        from_l2(w.right, c.swap, c.right) / c.cluster_left;
  const double turn = c.warpgroups == 1 ? 0 : c.pingpong ? 14 : 19;
  // The first words of a stage are waited for before its first instruction.
  const double fetched = w.left_registers ? 40 : 0;
  return std::max({multiply, moved, copied}) + turn + fetched + (w.cluster > 1 ? 10 : 0);
}

double bytes_of(const Gemm& g) {
  return double(g.batch) * (double(g.m) * double(g.k) * size_of(g.a.dtype) +
                            double(g.n) * double(g.k) * size_of(g.b.dtype) +
                            double(g.m) * double(g.n) * size_of(g.d.dtype));
}

/// Cycles of a warpgroup to store one element of D. Where rows of D stand at any
/// address they are counted in instructions, not fitted: 16 rows of 64 elements are some 9 turns of
/// 350 cycles through a warp's buffer, and a pair some 9 instructions of a warp.
double out_of_registers(const Canonical& p, const WgmmaSizes& w, const CudaWgmma& c) {
  if (w.store == WgmmaSizes::Store::staged) return 0.75;
  return c.paired ? 0.14 : 0.044 * size_of(p.gemm.d.dtype) / 2;
}

/// Bytes of rows that copies ask for and that do not exist. They cost what others do: 72 rows in
/// tiles of 64 took 25.2 us (6144×4096), 18.2 with copies that end with the operand (H200).
double bytes_beyond(const Canonical& p, const WgmmaSizes& w, const CudaWgmma& c) {
  const auto beyond = [&](const WgmmaSizes::Side& s, bool clipped, std::int64_t tile,
                          std::int64_t copies) {
    if (s.across_k || clipped) return 0.0;
    return double(round_up(s.rows, tile) - s.rows) * double(copies);
  };
  const double rows =
      beyond(w.left, w.clip_left, std::int64_t{c.left} * c.cluster_left, w.tiles_right) +
      beyond(w.right, w.clip_right, std::int64_t{c.right} * c.cluster_right, w.tiles_left);
  return rows * 128 * double(w.stages_of_k) * double(p.gemm.batch);
}

}  // namespace

bool in_whole_lines(const Matrix& m) { return m.ld * size_of(m.dtype) % 128 == 0; }

double wgmma_ns(const Canonical& p, const DeviceCaps& d, const CudaWgmma& c, const WgmmaSizes& w) {
  const double ghz = 0.87 * (d.ghz > 0 ? d.ghz : 2.0);  // the clock under load
  const double tile = double(c.left) * c.right;
  const int splits = c.splits;
  const double per_cluster = double(w.tiles) * splits / w.clusters;
  const double rounds = c.sharing == Sharing::stream ? per_cluster + 0.1 : std::ceil(per_cluster);
  // Where another tile follows, pingpong hides half of the epilogue; otherwise the epilogue also
  // delays the next tile's start.
  const double finish = tile * out_of_registers(p, w, c) / c.warpgroups + 1214;
  const double shown = c.pingpong ? 0.5 : 1.9;
  double cycles = rounds * double(w.stages_of_k) / splits * stage_cycles(p, w, c, ghz) +
                  (rounds * shown + 1 - shown) * finish;
  double added = 0;
  if (c.sharing == Sharing::summed) {
    // A second launch that waits for the first, and its traffic with L2.
    const double bytes = double(w.tiles) * w.cluster * splits * tile * 4;
    added = 1900 + bytes / 3500;
  } else if (c.sharing != Sharing::tiles) {
    const double parts = c.sharing == Sharing::split ? splits : 3;
    cycles += 4000 + std::max(std::ceil(parts / w.partials_at_once) * 750, parts * tile * 4 / 64);
  }
  const double memory =
      (bytes_of(p.gemm) + bytes_beyond(p, w, c)) / (0.8 * std::max(1, d.gpu.memory_gbs));
  double packing = 0;
  for (const auto* s : {&w.left, &w.right})
    if (s->pack) packing += 800 + 2.0 * double(s->packed.bytes) / 2800;
  const double work = cycles / ghz;
  // One order of tiles stands for all in the first guesses; the others come after other tiles, the
  // curve, which gained nothing beyond noise, last.
  const double walk = c.along == Along::hilbert                ? 1.02
                      : c.along == Along::left && c.group == 8 ? 1.0
                                                               : 1.015;
  const double order = walk * (c.swap ? 1.01 : 1.0);
  return (1550 + packing + added + std::max(work, memory) + 0.28 * std::min(work, memory)) * order;
}

}  // namespace kiln::cuda
