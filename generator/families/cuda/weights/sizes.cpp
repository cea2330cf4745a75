#include "generator/families/cuda/weights/sizes.h"

#include <algorithm>
#include <bit>

#include "generator/expression/code.h"
#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"

namespace kiln::cuda {
namespace {

/// Registers of a thread, and blocks that then fit.
void add_registers(WeightsSizes& w, const Problem& p, const DeviceCaps& d, const CudaWeights& c) {
  const Gemm& g = p.gemm;
  const int steps = w.decode_k / 16, sums = w.tiles_m * w.tiles_n * 4;
  const bool along_k = w.along > 0, rest = g.b.q.zero == Zero::floating;
  const int parts = along_k ? w.tiles_m * w.at_once * 4 : 0;
  const int left_sums = rest ? (along_k ? w.at_once : w.tiles_n) * 4 : 0;
  // Tiles of A that come later meet the same numbers; else only the codes wait.
  const bool kept = along_k && w.at_once < w.tiles_n;
  const int numbers = kept ? w.tiles_m * steps * 4 : w.tiles_m * (steps * w.code_bits / 8 + 8);
  // Of a column and group: the scale and the zero point that are fetched, and what they become.
  const int offsets = g.a.dtype == fp16 && w.code_bits == 4 ? 2 : 1;
  const int each = g.b.q.zero == Zero::none ? 2 : 3 + offsets + (rest ? 2 : 0);
  const int factors = w.tiles_m * 2 * ((along_k ? w.decode_k / w.along : 1) * each + 1);
  const bool smooth = expression::uses_exponential(epilogue_of(g));
  // Elements of A on their way: a lane's reads of 4-bit codes meet twice as many.
  const int left = w.at_once * (w.code_bits == 4 ? 2 : 0);
  // The assembler keeps elements of A, and the addresses of later ones, across groups.
  const int groups = along_k ? w.decode_k / w.along : 1;
  const int held = kept ? 36 + (groups - 1) * w.tiles_m * w.tiles_n * 2 : 0;
  w.registers = sums + parts + left_sums + numbers + factors + left + held + 48 +
                (w.async ? 0 : 8) + (smooth ? 16 : 0);
  if (gathers(g))  // the row of each copy of A
    w.registers += static_cast<int>(
        ceil_div(std::int64_t{c.tile_m} * w.pitch_a, std::int64_t{w.unit} * w.threads));
  const std::int64_t by_registers =
      d.gpu.registers_unit / (round_up(w.registers, 8) * std::int64_t{w.threads});
  // The driver keeps 1 KB of shared memory for itself in every block.
  const std::int64_t by_shared = d.gpu.shared_unit_bytes / (w.shared_bytes + w.table_bytes + 1024);
  const std::int64_t by_threads = d.gpu.threads_unit / w.threads;
  w.blocks = static_cast<int>(
      std::clamp<std::int64_t>(std::min({by_registers, by_shared, by_threads}), 1, 8));
}

}  // namespace

Exchange exchange_of_codes(int pitch) {
  // Lines that share 128 bytes of banks already differ; the others exchange units of 16 bytes.
  const int near = std::min(pitch, 128);
  return {std::countr_zero(static_cast<unsigned>(near / 16)), 4,
          std::countr_zero(static_cast<unsigned>(128 / near))};
}

Exchange exchange_of_left(int code_bits) {
  // A word of every lane of two rows, or half a word of four, covers all banks.
  return code_bits == 4 ? Exchange{1, 6, 0} : Exchange{2, 5, 0};
}

WeightsSizes weights_sizes(const Problem& p, const DeviceCaps& d, const CudaWeights& c) {
  const Gemm& g = p.gemm;
  WeightsSizes w{};
  w.code_bits = bits_of(g.b.dtype);
  w.along = scale_block(g.b.q.scale).along;
  w.decode_k = w.along == 0 ? std::min(128, c.block_k) : std::max(256 / w.code_bits, w.along);
  w.tiles_m = c.tile_n / 16 / c.warps;
  w.tiles_n = c.tile_m / 8;
  w.columns = c.tile_n / (gated(g) ? 2 : 1);
  // Chains of products enough to cover their latency; fewer where registers also keep numbers.
  const int chains = w.tiles_n * w.tiles_m <= 8 ? 8 : 4;
  w.at_once = std::min(w.tiles_n, std::max(1, chains / std::max(1, w.tiles_m)));
  w.pitch_a = c.block_k * size_of(g.a.dtype);
  w.pitch_b = c.block_k * w.code_bits / 8;
  w.exchange_a = exchange_of_left(w.code_bits);
  w.exchange_b = exchange_of_codes(w.pitch_b);
  w.threads = c.warps * 32;
  w.overlaps = d.gpu.sm >= 90;
  const int aligned = std::min(line_alignment(g, Operand::a), line_alignment(g, Operand::b));
  w.async = aligned >= 4;
  w.unit = w.async ? std::min(aligned, 16) : 4;
  const int d_size = size_of(g.d.dtype);
  w.store_width = std::min({8, std::max(1, alignment_of_d(g) / d_size), 16 / d_size});
  w.stage_bytes = std::int64_t{c.tile_n} * w.pitch_b + std::int64_t{c.tile_m} * w.pitch_a;
  // After the main loop accumulators pass through the same memory, 8 rows of a warp at a time.
  const std::int64_t exchange_bytes = std::int64_t{c.warps} * 8 * (w.tiles_m * 16 * 4 + 16);
  w.shared_bytes = std::max(c.stages * w.stage_bytes, exchange_bytes);
  w.table_bytes = bytes_of_tables(room_for_groups(g));
  add_registers(w, p, d, c);
  w.tiles = tiles_of_rows(g, c.tile_m) * ceil_div(g.n, w.columns);
  w.stages_of_k = ceil_div(g.k, c.block_k);
  w.grid = w.tiles * c.splits;
  if (c.splits > 1)
    w.workspace_bytes = kCounterBytes + w.grid * c.tile_m * c.tile_n * size_of(g.accumulator);
  return w;
}

}  // namespace kiln::cuda
