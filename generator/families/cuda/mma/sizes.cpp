#include "generator/families/cuda/mma/sizes.h"

#include <algorithm>
#include <array>
#include <bit>

#include "generator/expression/code.h"
#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"

#define KILN_DEVICE inline
#include "templates/cuda/common/banks.h"
#undef KILN_DEVICE

namespace kiln::cuda {
namespace {

/// Rows of one type and k: the newer device's first.
constexpr std::array<MmaInstruction, 10> kInstructions{{{fp16, 16, 16, 80},
                                                        {fp16, 16, 8, 75},
                                                        {bf16, 16, 16, 80},
                                                        {tf32, 16, 8, 80},
                                                        {s8, 16, 32, 80},
                                                        {fp8_e4m3, 16, 32, 89},
                                                        {fp64, 16, 8, 90},
                                                        {fp64, 16, 16, 90},
                                                        {fp64, 16, 4, 90},
                                                        {fp64, 8, 4, 80}}};

// The table checks itself: lanes times registers hold the operands, whole.
static_assert([] {
  for (const auto& i : kInstructions)
    if (i.a_registers() * i.packed() * 32 != i.rows * i.k ||
        i.b_registers() * i.packed() * 32 != 8 * i.k || i.accumulators() * 32 != i.rows * 8)
      return false;
  return true;
}());

bool is_byte(DType t) { return t == s8 || t == u8; }
bool is_fp8(DType t) { return t == fp8_e4m3 || t == fp8_e5m2; }

/// What the table calls a pair of operands.
DType class_of(const Gemm& g) {
  if (is_byte(g.a.dtype) && is_byte(g.b.dtype)) return s8;
  if (is_fp8(g.a.dtype) && is_fp8(g.b.dtype)) return fp8_e4m3;
  return g.a.dtype == g.b.dtype ? g.a.dtype : fp32;
}

/// Registers of a thread, by experience with NVRTC 13; blocks that then fit.
void add_registers(MmaSizes& w, const Problem& p, const DeviceCaps& d, const CudaMma& c) {
  const int words = size_of(w.a.type) == 8 ? 2 : 1;
  const int accumulators = w.warp_m * w.warp_n / 32 * words;
  // Of long steps the compiler reads one operand's tiles when it needs them.
  const int all = w.tiles_m * 4 + w.tiles_n * 2;
  const int least = std::min(w.tiles_m * 4, w.tiles_n * 2) + 8;
  const int read = c.ahead ? 2 * all : w.chunks > 1 ? std::min(all, least) : all;
  const int operands = read * w.chunks * words;
  // Stages that wait in registers, or the places that copies go to.
  const auto copies = static_cast<int>(ceil_div(w.stage_bytes, std::int64_t{w.unit} * w.threads));
  const int moving = w.async ? std::min(copies, 32) / 2 : copies * w.unit / 4;
  const int narrow = w.width >= 16 ? 0 : w.async ? 8 : w.width > 1 ? 16 : 32;
  const bool smooth = expression::uses_exponential(epilogue_of(p.gemm));
  w.registers = accumulators + operands + moving + narrow + 40 + (c.ahead ? 12 : 0) +
                (smooth ? 16 * words : 0);
  // With that many accumulators the compiler reads the next step's operands late: fp64 128 × 128 by
  // k of 8 fits.
  if (c.ahead && accumulators >= 128 && w.registers <= 280)
    w.registers = std::min(w.registers, 255);
  if (gathers(p.gemm))  // the row of each copy of A; beside a gate B's are worked out too
    w.registers += static_cast<int>(ceil_div(std::int64_t{w.a.pitch()} * w.a.lines(),
                                             std::int64_t{w.unit} * w.threads)) +
                   (gated(p.gemm) ? 8 : 0);
  const std::int64_t by_registers =
      d.gpu.registers_unit / (round_up(w.registers, 8) * std::int64_t{w.threads});
  // The driver keeps 1 KB of shared memory for itself in every block.
  const std::int64_t by_shared = d.gpu.shared_unit_bytes / (w.shared_bytes + w.table_bytes + 1024);
  const std::int64_t by_threads = d.gpu.threads_unit / w.threads;
  w.blocks = static_cast<int>(
      std::clamp<std::int64_t>(std::min({by_registers, by_shared, by_threads}), 1, 8));
}

}  // namespace

const MmaInstruction* mma_instruction(const Gemm& g, const DeviceCaps& d, int k) {
  for (const auto& row : kInstructions)
    if (row.type == class_of(g) && row.k == k && d.gpu.sm >= row.sm) return &row;
  return nullptr;
}

std::vector<int> mma_depths(const Gemm& g, const DeviceCaps& d) {
  if (class_of(g) == fp64) return d.gpu.sm >= 90 ? std::vector{8, 16} : std::vector{4};
  for (const int k : {32, 16, 8})
    if (mma_instruction(g, d, k) != nullptr) return {k};
  return {};
}

MmaSizes mma_sizes(const Problem& p, const DeviceCaps& d, const CudaMma& c) {
  const Gemm& g = p.gemm;
  const int size = size_of(g.a.dtype);
  MmaSizes w{};
  w.instruction = mma_instruction(g, d, c.instruction_k);
  w.a = {g.a.dtype, true, p.a_k_major, c.block_m, c.block_k};
  w.b = {g.b.dtype, false, p.b_k_major, c.block_n, c.block_k};
  w.near_a = near_rows(size, p.a_k_major, true);
  w.near_b = near_rows(size, p.b_k_major, false);
  const int chunk_k = size == 8 ? 8 : 32 / size;
  w.chunks = std::max(1, c.instruction_k / chunk_k);
  w.step_k = w.chunks * chunk_k;
  w.steps = c.block_k / w.step_k;
  w.warp_m = c.block_m / std::max(1, c.warps_m);
  w.warp_n = c.block_n / std::max(1, c.warps_n);
  w.tiles_m = w.warp_m / 16;
  w.tiles_n = w.warp_n / 8;
  w.threads = std::max(1, c.warps_m * c.warps_n) * 32;
  const int aligned = std::min(line_alignment(g, Operand::a), line_alignment(g, Operand::b));
  w.width = std::clamp(std::max(aligned, size), 1, 16);
  w.overlaps = d.gpu.sm >= 90;
  w.async = d.gpu.sm >= 80 && w.width >= 4;
  w.unit = w.async ? w.width : 16;
  const int d_size = size_of(g.d.dtype);
  w.store_width = std::min({8, std::max(1, alignment_of_d(g) / d_size), 16 / d_size});
  w.stage_bytes = std::int64_t{w.a.pitch()} * w.a.lines() + std::int64_t{w.b.pitch()} * w.b.lines();
  const int accumulator_size = size_of(g.accumulator);
  // After the main loop accumulators pass through the same memory, 16 rows of a warp at a time.
  const std::int64_t exchange_bytes =
      std::int64_t{w.threads} / 32 * 16 * sums_pitch(w.warp_n, w.near_b, accumulator_size);
  w.shared_bytes = std::max(c.stages * w.stage_bytes, exchange_bytes);
  w.table_bytes = bytes_of_tables(room_for_groups(g));
  add_registers(w, p, d, c);
  w.tiles =
      tiles_of_rows(g, std::max(1, c.block_m)) * ceil_div(g.columns_of_b(), std::max(1, c.block_n));
  w.stages_of_k = ceil_div(g.k, std::max(1, c.block_k));
  w.grid = w.tiles * c.splits;
  // Blocks take products' tiles in turn: how many there are a call knows.
  if (lists_products(g))
    w.grid = std::min(std::int64_t{w.blocks} * std::max(1, d.compute_units), w.tiles);
  if (c.stream)
    w.grid =
        std::min(std::int64_t{w.blocks} * std::max(1, d.compute_units), w.tiles * w.stages_of_k);
  if (c.sharing() == Sharing::tiles) return w;
  // A block whose stream-K share begins and ends within tiles stores partial accumulators of both.
  const std::int64_t parts = c.stream ? 2 * w.grid : w.grid;
  // Stream-K divides the tiles of one to two waves at most.
  w.counters = c.stream ? std::min(w.tiles, 2 * w.grid) : w.tiles;
  w.counter_bytes = kCounterBytes;
  w.workspace_bytes = kCounterBytes + parts * c.block_m * c.block_n * size_of(g.accumulator);
  return w;
}

}  // namespace kiln::cuda
