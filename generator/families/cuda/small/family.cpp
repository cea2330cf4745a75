// Family cuda_small: rules, launch and order of templates/cuda/small/small.cu.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "generator/families/cuda/small/config.h"
#include "generator/families/cuda/small/sizes.h"
#include "generator/problem/extent.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::small {
namespace {

using C = CudaSmall;
using Sizes = SmallSizes;

constexpr std::array<std::string_view, 14> kFiles{
    "cuda/common/abi.h",      "cuda/common/types.h",    "cuda/common/convert_ptx.h",
    "cuda/common/convert.h",  "cuda/common/epilogue.h", "cuda/common/ampere_ptx.h",
    "cuda/common/grid_ptx.h", "cuda/common/mma_ptx.h",  "cuda/common/mma.h",
    "cuda/small/copy.h",      "cuda/small/factors.h",   "cuda/small/matrix.h",
    "cuda/small/store.h",     "cuda/small/small.cu"};

bool is_between(std::int64_t x, std::int64_t least, std::int64_t most) {
  return least <= x && x <= most;
}

bool is_float(DType t) { return t == fp32 || t == tf32 || t == fp64 || t == fp16 || t == bf16; }

constexpr FirstRule<C> kFirst[] = {
    {"m, n and k are 1 to 64, A and B are fp32, tf32, fp64, fp16 or bf16, B is not packed",
     [](const Problem& p, const DeviceCaps&, const C&) {
       const Gemm& g = p.gemm;
       return is_between(g.m, 1, kMostSmall) && is_between(g.n, 1, kMostSmall) &&
              is_between(g.k, 1, kMostSmall) && is_float(g.a.dtype) && is_float(g.b.dtype) &&
              !g.b_packed;
     }},
    {"lanes_m, lanes_n and products are at least 1, and all their lanes fit a block",
     [](const Problem&, const DeviceCaps& d, const C& c) {
       return c.lanes_m >= 1 && c.lanes_n >= 1 && c.products >= 1 &&
              std::int64_t{c.lanes_m} * c.lanes_n * c.products <= d.gpu.threads_block;
     }},
    {"width is 2, 4, 8 or 16 bytes, and whole elements",
     [](const Problem& p, const DeviceCaps&, const C& c) {
       return is_between(c.width, 2, 16) && (c.width & (c.width - 1)) == 0 &&
              c.width % size_of(p.gemm.a.dtype) == 0 && c.width % size_of(p.gemm.b.dtype) == 0;
     }},
    {"depth is 1 to 16 and at most k, stages is 1 to 8, resident 1 to 32, turns 0 or more",
     [](const Problem& p, const DeviceCaps&, const C& c) {
       return is_between(c.depth, 1, std::min<std::int64_t>(16, p.gemm.k)) &&
              is_between(c.stages, 1, 8) && is_between(c.resident, 1, 32) && c.turns >= 0;
     }}};

/// What ldmatrix reads begins at a multiple of 16 bytes, and its 8 rows exist.
bool loads_matrices(const SmallOperand& o) {
  return o.pitch % 8 == 0 && o.apart % 8 == 0 && (o.along_k || o.rows % 8 == 0);
}

constexpr Rule<C, Sizes> kRules[] = {
    {"width divides where lines begin, or those of a block's products where they are adjacent",
     [](const Problem&, const DeviceCaps&, const C&, const Sizes& w) {
       return w.a.aligned && w.b.aligned;
     }},
    {"copy=async needs sm_80 and width >= 4; copy=registers needs stages=1 and lines of whole "
     "copies",
     [](const Problem&, const DeviceCaps& d, const C& c, const Sizes& w) {
       if (c.copy == SmallCopy::async) return d.gpu.sm >= 80 && c.width >= 4;
       return c.stages == 1 && small_copies(c, w);
     }},
    {"lanes_m is at most m and lanes_n at most n, unless matrix=1",
     [](const Problem& p, const DeviceCaps&, const C& c, const Sizes&) {
       return c.matrix || (c.lanes_m <= p.gemm.m && c.lanes_n <= p.gemm.n);
     }},
    {"matrix=1 needs lanes_n=4, lanes_m of 8, 16 or 32, and depth=16 (fp64: 8) that divides k",
     [](const Problem& p, const DeviceCaps&, const C& c, const Sizes&) {
       if (!c.matrix) return true;
       return c.lanes_n == 4 && (c.lanes_m == 8 || c.lanes_m == 16 || c.lanes_m == 32) &&
              c.depth == (p.gemm.a.dtype == fp64 ? 8 : 16) && p.gemm.k % c.depth == 0;
     }},
    {"matrix=1 needs fp16, bf16 or fp64 on both sides, a device with their instruction, and of "
     "16-bit operands lines of whole 16 bytes",
     [](const Problem& p, const DeviceCaps&, const C& c, const Sizes& w) {
       if (!c.matrix) return true;
       return w.instruction != nullptr &&
              (p.gemm.a.dtype == fp64 || (loads_matrices(w.a) && loads_matrices(w.b)));
     }},
    {"accumulators and factors fit the registers of resident blocks",
     [](const Problem&, const DeviceCaps& d, const C& c, const Sizes& w) {
       return w.threads * c.resident <= d.gpu.threads_unit &&
              w.registers <= std::min(255, d.gpu.registers_unit / (w.threads * c.resident));
     }},
    {"stages of resident blocks fit shared memory",
     [](const Problem&, const DeviceCaps& d, const C& c, const Sizes& w) {
       return w.shared_bytes <= d.gpu.shared_block_bytes &&
              (w.shared_bytes + 1024) * c.resident <= d.gpu.shared_unit_bytes;
     }},
    {"the grid has fewer than 2^31 blocks",
     [](const Problem&, const DeviceCaps&, const C&, const Sizes& w) {
       return w.grid < std::int64_t{1} << 31;
     }}};

GpuLaunch launch(const Problem&, const DeviceCaps&, const C&, const Sizes& w) {
  GpuLaunch out;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.grid);
  step.block.x = static_cast<unsigned>(w.threads);
  step.dynamic_shared_bytes = static_cast<int>(w.shared_bytes);
  step.overlaps_previous = w.overlaps;
  if (step.grid.x > 0) out.steps.push_back(step);
  return out;
}

/// One k after the other in one accumulator, or one matrix instruction after the other.
std::string summation(const Problem&, const DeviceCaps&, const C& c, const Sizes& w) {
  return c.matrix ? fmt::format("mma k{} chain", w.instruction->k) : "fma chain";
}

constexpr TypedFamily<C, Sizes> kRow{.vendor = Vendor::nvidia,
                                     .files = kFiles,
                                     .first_rules = kFirst,
                                     .sizes = small_sizes,
                                     .rules = kRules,
                                     .enumerate = enumerate_small,
                                     .parameters = small_parameters,
                                     .predict_ns = small_ns,
                                     .launch = launch,
                                     .summation = summation,
                                     .offers = kOffers};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::small
