// The points of cuda_small's space: which register tiles, blocks and pipelines are worth a try.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "generator/families/cuda/small/sizes.h"

namespace kiln::cuda::small {
namespace {

/// Fewer products are too few blocks for any device; other families divide one of them further.
constexpr std::int64_t kFewestProducts = 16;

struct Lanes {
  int m, n;
};

/// Lanes that a product keeps busy where as many products as fit share a warp.
double lanes_of_warp(int lanes) {
  return lanes > 32 ? double(round_up(lanes, 32)) : 32.0 / (32 / lanes);
}

/// What a product costs in instructions of lanes, those that do nothing for it included.
double cost_of(const Problem& p, const DeviceCaps& d, const CudaSmall& c) {
  const auto w = small_sizes(p, d, c);
  const double sums = double(w.a.each) * w.b.each, k = double(p.gemm.k);
  const double reads = double(w.a.each) / w.a.vector * (1 + 0.5 * w.a.turns) +
                       double(w.b.each) / w.b.vector * (1 + 0.5 * w.b.turns);
  return lanes_of_warp(w.lanes) * (k * (sums + reads) + 8 * sums + 60);
}

/// Lanes along a side: each number that gives a lane one row less than the one before.
std::vector<int> lanes_along(std::int64_t rows) {
  std::vector<int> all;
  for (std::int64_t each = rows; each >= 1; --each) {
    const int lanes = static_cast<int>(ceil_div(rows, each));
    if (all.empty() || all.back() != lanes) all.push_back(lanes);
  }
  return all;
}

/// The best ways to share a product among 1, 2, 3 to 4, 5 to 8, … up to 256 lanes.
std::array<Lanes, 9> ways_to_share(const Problem& p, const DeviceCaps& d, CudaSmall c) {
  const Gemm& g = p.gemm;
  std::array<Lanes, 9> best{};
  std::array<double, 9> least{};
  for (const int m : lanes_along(g.m))
    for (const int n : lanes_along(g.n)) {
      if (m * n > 256) continue;
      if (ceil_div(g.m, m) * ceil_div(g.n, n) * size_of(g.accumulator) > 512) continue;
      c.lanes_m = m;
      c.lanes_n = n;
      const auto i = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(m * n - 1)));
      const double cost = cost_of(p, d, c);
      if (best[i].m != 0 && cost >= least[i]) continue;
      best[i] = {m, n};
      least[i] = cost;
    }
  return best;
}

bool widen(const Problem& p, const DeviceCaps& d, CudaSmall& c) {
  const int size = std::max(size_of(p.gemm.a.dtype), size_of(p.gemm.b.dtype));
  for (const auto copy : {SmallCopy::async, SmallCopy::registers})
    for (const int width : {16, 8, 4, 2}) {
      c.copy = copy;
      c.width = width;
      if (width < size || (copy == SmallCopy::async && (d.gpu.sm < 80 || width < 4))) continue;
      if (small_copies(c, small_sizes(p, d, c))) return true;
    }
  return false;
}

struct Pipeline {
  int stages, turns;
};
constexpr std::array kPipelines{Pipeline{1, 1}, Pipeline{2, 0}, Pipeline{3, 0}, Pipeline{2, 4}};
constexpr std::array kThreads{32, 64, 128, 256};

void visit_blocks(const Problem& p, const DeviceCaps& d, CudaSmall c,
                  const std::function<void(const Config&)>& visit) {
  const int lanes = c.lanes_m * c.lanes_n;
  for (const int threads : kThreads) {
    if (threads < lanes && (threads < 256 || lanes > 256)) continue;
    c.products = std::max(1, threads / lanes);
    if (threads > 32 && c.products * lanes <= threads / 2) continue;
    c.stages = 1;
    if (!widen(p, d, c)) continue;
    for (const Pipeline& pipeline : kPipelines) {
      if (c.copy == SmallCopy::registers && pipeline.stages > 1) continue;
      c.stages = pipeline.stages;
      c.turns = pipeline.turns;
      c.resident = small_resident(d, small_sizes(p, d, c));
      visit(c);
    }
  }
}

}  // namespace

void enumerate_small(const Problem& p, const DeviceCaps& d,
                     const std::function<void(const Config&)>& visit) {
  const Gemm& g = p.gemm;
  if (std::max({g.m, g.n, g.k}) > kMostSmall || std::min({g.m, g.n, g.k}) < 1 || g.b_packed ||
      g.batch < kFewestProducts)
    return;
  const int vector = 16 / size_of(g.a.dtype);
  CudaSmall c{.products = 1,
              .depth = static_cast<int>(std::min<std::int64_t>(g.k, vector)),
              .width = std::max(size_of(g.a.dtype), size_of(g.b.dtype))};
  const int depth = c.depth;
  for (const auto store : {SmallStore::direct, SmallStore::shared}) {
    c.store = store;
    c.depth = depth;
    for (const Lanes& lanes : ways_to_share(p, d, c)) {
      if (lanes.m == 0) continue;
      const std::int64_t sums = ceil_div(g.m, lanes.m) * ceil_div(g.n, lanes.n);
      c.lanes_m = lanes.m;
      c.lanes_n = lanes.n;
      for (const int steps : {depth, depth / 2}) {
        if (steps < 1 || (steps < depth && sums < 32)) continue;
        c.depth = steps;
        visit_blocks(p, d, c, visit);
      }
      c.depth = depth;
    }
    for (const int lanes_m : {8, 16, 32}) {
      if (lanes_m > 8 && lanes_m >= 2 * g.m) continue;
      visit_blocks(p, d,
                   CudaSmall{.lanes_m = lanes_m,
                             .lanes_n = 4,
                             .depth = g.a.dtype == fp64 ? 8 : 16,
                             .matrix = true,
                             .store = store},
                   visit);
    }
  }
}

}  // namespace kiln::cuda::small
