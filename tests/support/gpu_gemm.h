// Seeded problems for GPU kernels: the type rows of one vendor, every layout, alignments between
// one element and 16 bytes, small ragged sizes.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/space/space.h"
#include "kiln/gemm.hpp"

namespace kiln::test {

class RandomGpuGemm {
 public:
  RandomGpuGemm(std::uint64_t seed, std::int64_t largest) : random_(seed), largest_(largest) {}

  /// A valid problem of one of `rows`.
  Gemm next(const std::vector<TypeRow>& rows) {
    const TypeRow& row = rows[below(rows.size())];
    Gemm g = Gemm::row_major(size(), size(), size());
    g.a.dtype = row.a;
    g.b.dtype = row.b;
    g.accumulator = row.accumulator;
    g.c.dtype = g.d.dtype = output(row);
    g.a.transposed = below(2) == 0;
    g.b.transposed = below(2) == 0;
    if (below(3) == 0) g.c.order = g.d.order = Order::column_major;
    if (below(4) == 0) g.batch = 2;
    if (below(3) == 0) add_epilogue(g);
    if (row.accumulator == s32) add_scales(g);
    for (const Numerics kind : {Numerics::fast, Numerics::tensor})
      if (const Gemm other = g.with_numerics(kind); below(2) == 0 && validate(other)) g = other;
    lay_out(g, below(2) == 0 ? 16 : size_of(g.a.dtype) << below(3));
    return g;
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  /// Around the edges of tiles, and anything.
  std::int64_t size() {
    static constexpr std::int64_t kEdges[] = {1, 8, 63, 64, 65, 127, 128, 129, 200};
    if (below(2) == 0) return std::min(largest_, kEdges[below(std::size(kEdges))]);
    return 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(largest_)));
  }

  DType output(const TypeRow& row) {
    std::vector<DType> all;
    for (const auto& type : kDTypes)
      if (row.allows_output(type.type)) all.push_back(type.type);
    return all[below(all.size())];
  }

  void add_epilogue(Gemm& g) {
    g.epilogue.bias = static_cast<Bias>(below(3));
    g.epilogue.activation = static_cast<Activation>(below(5));
    g.epilogue.residual = below(2) == 0;
    g.epilogue.bias_as_d = below(2) == 0;
    if (!validate(g)) g.epilogue.bias_as_d = false;
    if (below(3) != 0) return;
    const auto gate = static_cast<Gate>(1 + below(5));
    const Gemm gated =
        g.with_activation(Activation::none).with_gate(gate, static_cast<GateOrder>(below(2)));
    if (validate(gated)) g = gated;
  }

  /// Of integers, where D can have what they give.
  void add_scales(Gemm& g) {
    static constexpr Scale kKinds[] = {Scale::none, Scale::line, Scale::tensor};
    static constexpr Zero kZeros[] = {Zero::none, Zero::line, Zero::tensor};
    const Gemm scaled = g.scaled(kKinds[below(3)], kKinds[below(3)]);
    if (validate(scaled)) g = scaled;
    const Gemm zeros = g.with_zero_points_of_a(kZeros[below(3)]);
    if (validate(zeros)) g = zeros;
  }

  /// Leading dimensions and strides that are multiples of `bytes`, some more than tight; of every
  /// eighth matrix of one element.
  void lay_out(Gemm& g, int bytes) {
    g.alignment = std::min(bytes, 16);
    for (const Operand which : {Operand::a, Operand::b, Operand::c, Operand::d}) {
      Matrix& matrix = which == Operand::a   ? g.a
                       : which == Operand::b ? g.b
                       : which == Operand::c ? g.c
                                             : g.d;
      const std::int64_t step =
          below(8) == 0 ? 1 : std::max<std::int64_t>(1, g.alignment / size_of(matrix.dtype));
      const auto up = [&](std::int64_t x) { return (x + step - 1) / step * step; };
      matrix.ld = up(leading_dimension(g, which) + static_cast<std::int64_t>(below(20)));
      if (g.batch > 1)
        matrix.batch_stride = up(batch_stride(g, which) + static_cast<std::int64_t>(below(40)));
    }
  }

  std::mt19937_64 random_;
  std::int64_t largest_;
};

}  // namespace kiln::test
