// The points of cuda_simt's space: which tiles, pipelines and orders are worth a try.
#include <algorithm>
#include <bit>

#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/simt/sizes.h"
#include "generator/problem/extent.h"

namespace kiln::cuda {
namespace {

/// A tile, a thread's accumulators, the lanes along m, and the occupancy in blocks.
struct Shape {
  int block_m, block_n, thread_m, thread_n, lanes_m, resident;
};
constexpr Shape kShapes[] = {
    {128, 256, 8, 16, 4, 1}, {256, 128, 16, 8, 4, 1}, {128, 128, 8, 16, 4, 2},
    {128, 128, 16, 8, 4, 2}, {128, 128, 16, 8, 8, 2}, {64, 256, 8, 16, 4, 2},
    {256, 64, 16, 8, 8, 2},  {192, 128, 16, 8, 4, 1}, {128, 192, 16, 8, 4, 1},
    {64, 128, 8, 16, 4, 4},  {128, 64, 16, 8, 8, 4},  {128, 128, 8, 8, 4, 2},
    {128, 128, 8, 8, 4, 1},  {128, 256, 8, 8, 4, 1},  {64, 128, 8, 8, 4, 3},
    {64, 128, 8, 8, 4, 4},   {128, 64, 8, 8, 4, 3},   {64, 64, 8, 8, 4, 6},
    {64, 64, 4, 8, 4, 4},    {64, 64, 4, 4, 4, 3},    {32, 64, 4, 4, 4, 6},
    {32, 32, 4, 4, 4, 8},    {16, 32, 4, 4, 4, 8},    {32, 32, 4, 2, 4, 4},
    {16, 16, 2, 2, 4, 8},    {96, 128, 8, 8, 4, 1},   {128, 192, 8, 8, 4, 1}};

/// How copies, stages and shared memory go together.
struct Pipeline {
  SimtCopy copy;
  int stages;
  bool ahead;
  SimtLines lines;
};
constexpr Pipeline kPipelines[] = {{SimtCopy::async, 2, true, SimtLines::padded},
                                   {SimtCopy::async, 3, true, SimtLines::padded},
                                   {SimtCopy::async, 4, true, SimtLines::padded},
                                   {SimtCopy::async, 3, false, SimtLines::padded},
                                   {SimtCopy::registers, 2, true, SimtLines::padded},
                                   {SimtCopy::registers, 2, true, SimtLines::exchanged},
                                   {SimtCopy::registers, 2, false, SimtLines::exchanged},
                                   {SimtCopy::registers, 2, false, SimtLines::padded},
                                   {SimtCopy::registers, 1, false, SimtLines::padded}};

/// Ways to divide k: not at all; split-K or stream-K where tiles would leave SMs idle.
void visit_sharing(const Problem& p, const DeviceCaps& d, CudaSimt c,
                   const std::function<void(const Config&)>& visit) {
  visit(c);
  const auto w = simt_sizes(p, d, c);
  const std::int64_t room = std::int64_t{d.compute_units} * c.resident;
  if (w.tiles > 12 * room) return;
  c.sharing = Sharing::stream;
  if (w.tiles % room != 0) visit(c);
  c.sharing = Sharing::split;
  for (const int splits : {2, 3, 4, 6, 8, 12, 16, 32}) {
    if (w.tiles * splits > 3 * room || splits * 8 > w.passes) continue;
    c.splits = splits;
    visit(c);
  }
}

/// The most elements of an operand that layout, alignment and threads let be read at once.
int widest(const Gemm& g, Operand which, bool along_k, const CudaSimt& c, int rows, int threads) {
  const int size = size_of(dtype_of(g, which));
  const bool turned = along_k && c.copy != SimtCopy::registers;
  for (int width = turned ? 1 : std::min(16, line_alignment(g, which)) / size; width > 1;
       width /= 2)
    if (cuda::shares(rows, width, along_k, threads, c.block_k)) return width;
  return 1;
}

/// Tiles copied by warps of their own. Which order and how short a loop suit the registers and the
/// caches of instructions, only measuring tells.
void visit_fed(const Problem& p, const DeviceCaps& d, CudaSimt c,
               const std::function<void(const Config&)>& visit) {
  c.copy = SimtCopy::warps;
  c.stages = 4;
  c.ahead = true;
  c.lines = SimtLines::padded;
  for (const auto order : {SimtOrder::columns, SimtOrder::folded, SimtOrder::rows})
    for (const int unroll : {8, 2}) {
      c.order = order;
      c.unroll = unroll;
      visit_sharing(p, d, c, visit);
    }
}

}  // namespace

void enumerate_simt(const Problem& p, const DeviceCaps& d,
                    const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  for (const int lanes_m : {1, 4})
    visit(CudaSimt{.block_m = lanes_m * 8,
                   .block_n = 32 / lanes_m,
                   .block_k = 1,
                   .thread_m = 1,
                   .thread_n = 1,
                   .lanes_m = lanes_m,
                   .stages = 0,
                   .lines = SimtLines::plain});
  for (const auto& s : kShapes) {
    if (s.block_m > 64 && s.block_m >= 4 * g.m) continue;
    if (s.block_n > 64 && s.block_n >= 4 * g.columns_of_b()) continue;
    for (const int block_k : {16, 32})
      for (const int group : {4, 8}) {
        CudaSimt c{.block_m = s.block_m,
                   .block_n = s.block_n,
                   .block_k = block_k,
                   .thread_m = s.thread_m,
                   .thread_n = s.thread_n,
                   .lanes_m = s.lanes_m,
                   .copy = SimtCopy::warps,
                   .resident = s.resident,
                   .group = group};
        const int threads = simt_sizes(p, d, c).threads;
        c.width_a = widest(g, Operand::a, p.a_k_major, c, c.block_m, threads);
        c.width_b = widest(g, Operand::b, p.b_k_major, c, c.block_n, threads);
        if (!reads_one_factor(p, c)) c.width_b = 1;
        visit_fed(p, d, c, visit);
      }
    for (const auto& pipeline : kPipelines)
      for (const int block_k : {8, 16, 32}) {
        CudaSimt c{.block_m = s.block_m,
                   .block_n = s.block_n,
                   .block_k = block_k,
                   .thread_m = s.thread_m,
                   .thread_n = s.thread_n,
                   .lanes_m = s.lanes_m,
                   .copy = pipeline.copy,
                   .stages = pipeline.stages,
                   .ahead = pipeline.ahead,
                   .lines = pipeline.lines,
                   .resident = s.resident};
        const int threads = simt_sizes(p, d, c).threads;
        c.width_a = widest(g, Operand::a, p.a_k_major, c, c.block_m, threads);
        c.width_b = widest(g, Operand::b, p.b_k_major, c, c.block_n, threads);
        if (!reads_one_factor(p, c)) c.width_b = 1;
        for (const auto order : {SimtOrder::pairs, SimtOrder::columns})
          for (const int group : {4, 8}) {
            if (order != SimtOrder::pairs && c.thread_m * c.thread_n < 64) continue;
            c.order = order;
            c.group = group;
            visit_sharing(p, d, c, visit);
          }
      }
  }
}

}  // namespace kiln::cuda
