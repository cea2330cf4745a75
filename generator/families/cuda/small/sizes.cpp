#include "generator/families/cuda/small/sizes.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "generator/problem/extent.h"

namespace kiln::cuda::small {
namespace {

int doubled_while(int most, auto&& fits) {
  int value = 1;
  while (value * 2 <= most && fits(value * 2)) value *= 2;
  return value;
}

/// Cycles of shared memory for a warp's read of one vector of an operand.
int turns_of_read(const CudaSmall& c, const SmallOperand& o, bool is_a, int pitch, int apart) {
  std::array<int, 32> addresses{};
  const int lanes = c.lanes_m * c.lanes_n;
  int bytes = o.vector * o.size;
  for (int thread = 0; thread < 32; ++thread) {
    const int team = std::min(thread / lanes, c.products - 1), lane = thread % lanes;
    int row = (is_a ? lane / c.lanes_n : lane % c.lanes_n) * o.group, k = 0;
    if (c.matrix && o.size == 8) {
      row = thread / 4;
      k = thread % 4;
    } else if (c.matrix) {  // lines of 8 × 8 matrices
      row = o.along_k ? thread % 8 : 0;
      k = o.along_k ? thread / 8 % 2 * 8 : thread % 8;
    }
    row = std::min(row, o.rows - 1);
    const int place = team * apart + (o.along_k ? row * pitch + k : k * pitch + row);
    addresses[static_cast<std::size_t>(thread)] = place * o.size;
  }
  if (bytes < 4) {  // two lanes may share a word
    for (int& address : addresses) address &= ~3;
    bytes = 4;
  }
  return 32 * bytes / std::min(128, 32 * bytes) + turns_lost(addresses, bytes);
}

/// What a layout of shared memory follows from.
struct Reads {
  int lanes_m, lanes_n, products;
  bool matrix, is_a, along_k, flat;
  int size, rows, run, lines, group, vector, width;
  auto operator<=>(const Reads&) const = default;
};
struct Layout {
  int pitch, apart, turns;
};

/// The layout in which reads have the fewest bank conflicts, and of these the smallest.
Layout best_layout(const CudaSmall& c, const SmallOperand& o, bool is_a) {
  if (o.flat) {
    const int apart = o.run * o.lines;
    return {o.run, apart, turns_of_read(c, o, is_a, o.run, apart)};
  }
  const int bytes = std::max({c.width, o.vector * o.size, c.matrix ? 16 : 4});
  const int unit = std::max(1, bytes / o.size);  // elements
  const int least = static_cast<int>(round_up(o.run, unit));
  Layout best{};
  for (const int of_line : {0, 1, 2})
    for (const int of_product : {0, 1, 2, 4}) {
      const int pitch = least + of_line * unit, apart = pitch * o.lines + of_product * unit;
      const int turns = turns_of_read(c, o, is_a, pitch, apart);
      if (best.turns == 0 || std::pair(turns, apart) < std::pair(best.turns, best.apart))
        best = {pitch, apart, turns};
    }
  return best;
}

void lay_out(const CudaSmall& c, SmallOperand& o, bool is_a) {
  const Reads reads{c.lanes_m, c.lanes_n, std::min(c.products, 32),
                    c.matrix,  is_a,      o.along_k,
                    o.flat,    o.size,    o.rows,
                    o.run,     o.lines,   o.group,
                    o.vector,  c.width};
  // Hundreds of configs share a few layouts, and each is asked for by every rule.
  thread_local std::map<Reads, Layout> known;
  constexpr std::size_t kMostKnown = 10'000;  // of some hundred problems: a thread may live long
  if (known.size() >= kMostKnown) known.clear();
  const auto [place, fresh] = known.try_emplace(reads);
  if (fresh) place->second = best_layout(c, o, is_a);
  o.pitch = place->second.pitch;
  o.apart = place->second.apart;
  o.turns = place->second.turns;
}

bool is_dense(const Gemm& g, Operand which, std::int64_t run, std::int64_t lines) {
  return (lines == 1 || leading_dimension(g, which) == run) &&
         (g.batch == 1 || batch_stride(g, which) == run * lines);
}

SmallOperand operand_of(const Gemm& g, const CudaSmall& c, bool is_a, bool along_k, int group) {
  const Operand which = is_a ? Operand::a : Operand::b;
  SmallOperand o{};
  o.along_k = along_k;
  o.size = size_of(dtype_of(g, which));
  o.rows = static_cast<int>(is_a ? g.m : g.n);
  const int k = static_cast<int>(g.k), lanes = is_a ? c.lanes_m : c.lanes_n;
  o.run = along_k ? k : o.rows;
  o.lines = along_k ? o.rows : k;
  o.dense = is_dense(g, which, o.run, o.lines);
  const std::int64_t product = std::int64_t{o.run} * o.lines * o.size;
  // On a GPU an element's address is a multiple of its size.
  const bool by_line = std::max(line_alignment(g, which), o.size) % c.width == 0;
  o.flat = !by_line && o.dense;
  o.aligned = by_line || (o.dense && std::max(g.alignment, o.size) % c.width == 0 &&
                          product * c.products % c.width == 0);
  // What lanes may read at once lies at a multiple of it in every product.
  const auto whole = [&](int elements) {
    return !o.flat || (o.run % elements == 0 && product % (elements * o.size) == 0);
  };
  const int most = std::max(1, 16 / o.size);
  if (c.matrix) {
    o.group = group;
    o.vector = o.size == 8 ? 1 : 8;
    o.each = is_a ? 2 * static_cast<int>(ceil_div(o.rows, 2 * lanes))
                  : 2 * static_cast<int>(ceil_div(o.rows, 8));
  } else {
    o.group = along_k ? group : doubled_while(most, [&](int r) {
      return o.rows % r == 0 && r * lanes <= o.rows && whole(r);
    });
    o.vector = along_k ? doubled_while(most, [&](int v) { return c.depth % v == 0 && whole(v); })
                       : o.group;
    o.each = static_cast<int>(ceil_div(o.rows / o.group, lanes)) * o.group;
  }
  lay_out(c, o, is_a);
  const int of_line = static_cast<int>(ceil_div(std::int64_t{o.run} * o.size, c.width));
  o.copies =
      o.flat ? static_cast<int>(product * c.products / c.width) : of_line * o.lines * c.products;
  o.bytes = round_up(std::int64_t{o.apart} * c.products * o.size, 16);
  return o;
}

/// Columns of D that a lane has side by side where B's elements do not say.
int columns_together(const Gemm& g, const CudaSmall& c) {
  if (c.matrix) return 2;
  if (c.store == SmallStore::shared) return 1;
  const int size = size_of(g.d.dtype), most = std::min(16, alignment_of_d(g)) / size;
  return doubled_while(most, [&](int r) { return g.n % r == 0 && r * c.lanes_n <= g.n; });
}

const MmaInstruction* instruction_of(const Gemm& g, const DeviceCaps& d) {
  if (g.a.dtype != g.b.dtype) return nullptr;
  if (size_of(g.a.dtype) == 2) return mma_instruction(g, d, 16);
  if (g.a.dtype != fp64) return nullptr;
  const MmaInstruction* const long_one = mma_instruction(g, d, 8);
  return long_one != nullptr ? long_one : mma_instruction(g, d, 4);
}

/// Of one thread, by experience with NVRTC 13.
int registers_of(const Gemm& g, const CudaSmall& c, const SmallSizes& w) {
  const int words = size_of(g.accumulator) / 4, sums = w.a.each * w.b.each * words;
  if (c.matrix) {
    const int fragments = 2 * w.a.each + 2 * w.b.each;
    return sums + fragments * words + 64;
  }
  // Lanes read the factors of a few steps before they multiply.
  const auto factors = [&](const SmallOperand& o) {
    return o.each * (o.along_k ? c.depth : std::max(1, c.depth / 2));
  };
  return sums + (factors(w.a) + factors(w.b)) * words + 56;
}

}  // namespace

SmallSizes small_sizes(const Problem& p, const DeviceCaps& d, const CudaSmall& c) {
  const Gemm& g = p.gemm;
  SmallSizes w{};
  w.a = operand_of(g, c, true, p.a_k_major, 1);
  w.b = operand_of(g, c, false, p.b_k_major, columns_together(g, c));
  w.instruction = c.matrix ? instruction_of(g, d) : nullptr;
  w.lanes = c.lanes_m * c.lanes_n;
  w.threads = static_cast<int>(round_up(std::int64_t{w.lanes} * c.products, 32));
  // A body that the nearest cache of instructions holds.
  constexpr int kBody = 1024;
  const int step = c.matrix ? w.a.each * w.b.each / 4 : w.a.each * w.b.each * c.depth;
  const int all = std::max(1, static_cast<int>(g.k) / c.depth);
  w.unroll = std::clamp(kBody / std::max(1, step), 1, all);
  w.registers = registers_of(g, c, w);
  const int size = size_of(g.d.dtype);
  w.dense_d = is_dense(g, Operand::d, g.n, g.m);
  const int together = static_cast<int>(std::gcd(std::int64_t{w.b.group}, g.n));
  w.store_width = c.store == SmallStore::shared
                      ? std::min(together, 16 / size_of(g.accumulator))
                      : std::min({together, 16 / size, std::max(1, alignment_of_d(g) / size)});
  const std::int64_t elements_d = g.m * g.n * c.products;
  w.width_d = doubled_while(16 / size, [&](int elements) {
    const bool of_row =
        g.n % elements == 0 && line_alignment(g, Operand::d) % (elements * size) == 0;
    return of_row || (w.dense_d && g.alignment % (elements * size) == 0 && g.n % elements != 0 &&
                      elements_d % elements == 0);
  });
  w.overlaps = d.gpu.sm >= 90;
  w.stage_bytes = w.a.bytes + w.b.bytes;
  w.shared_bytes =
      c.stages * w.stage_bytes +
      (c.store == SmallStore::shared ? round_up(elements_d * size_of(g.accumulator), 16) : 0);
  w.groups = ceil_div(g.batch, c.products);
  const std::int64_t at_once = std::int64_t{std::max(1, d.compute_units)} * c.resident;
  w.grid = c.turns == 0 ? std::min(w.groups, at_once) : ceil_div(w.groups, c.turns);
  return w;
}

bool small_copies(const CudaSmall& c, const SmallSizes& w) {
  const auto brings = [&](const SmallOperand& o) {
    const int run = o.flat ? o.run * o.lines : o.run;
    return o.aligned && (c.copy == SmallCopy::async || run * o.size % c.width == 0);
  };
  return brings(w.a) && brings(w.b);
}

int small_resident(const DeviceCaps& d, const SmallSizes& w) {
  constexpr std::int64_t kMostBlocks = 32, kReserved = 1024;  // of an SM; bytes of each
  const std::int64_t by_registers =
      d.gpu.registers_unit / (round_up(std::min(w.registers, 255), 8) * w.threads);
  const std::int64_t by_shared = d.gpu.shared_unit_bytes / (w.shared_bytes + kReserved);
  return static_cast<int>(
      std::max<std::int64_t>(1, std::min({kMostBlocks, by_registers, by_shared,
                                          std::int64_t{d.gpu.threads_unit} / w.threads})));
}

}  // namespace kiln::cuda::small
