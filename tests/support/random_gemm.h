// Seeded problems for property tests: every type row, layout, epilogue and output type turns up,
// sizes are small and ragged. The same seed gives the same problems on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string_view>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "kiln/gemm.hpp"

namespace kiln::test {

class RandomGemm {
 public:
  explicit RandomGemm(std::uint64_t seed, std::int64_t largest = 70)
      : random_(seed), largest_(largest) {}

  /// A valid problem.
  Gemm next() { return next(kCpuTypeRows[below(kCpuTypeRows.size())]); }
  /// One of these types.
  Gemm next(const TypeRow& row) {
    Gemm g = Gemm::row_major(size(), size(), size());
    g.a.dtype = row.a;
    g.b.dtype = row.b;
    g.accumulator = row.accumulator;
    g.c.dtype = g.d.dtype = output(row);
    g.a.transposed = one_in(2);
    g.b.transposed = one_in(2);
    g.a.order = order();
    g.b.order = order();
    g.c.order = g.d.order = order();
    if (one_in(3)) g.batch = 2;
    if (one_in(2)) add_epilogue(g);
    if (row.accumulator == s32) add_scales(g);
    if (one_in(2)) loosen(g);
    if (const Gemm tensor = g.with_numerics(Numerics::tensor); validate(tensor) && one_in(2))
      g = tensor;
    return g;
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  /// Sizes at and beside the vector and tile edges are as likely as all others together.
  std::int64_t size() {
    static constexpr std::int64_t kEdges[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65};
    if (one_in(2)) return std::min(largest_, kEdges[below(std::size(kEdges))]);
    return 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(largest_)));
  }

  Order order() { return one_in(3) ? Order::column_major : Order::row_major; }

  DType output(const TypeRow& row) {
    std::uint64_t skip = below(6);
    DType chosen = row.usual_output();
    for (const auto& type : kDTypes)
      if (row.allows_output(type.type) && skip-- == 0) chosen = type.type;
    return chosen;
  }

  void add_epilogue(Gemm& g) {
    g.epilogue.bias = static_cast<Bias>(below(3));
    g.epilogue.activation = static_cast<Activation>(below(5));
    g.epilogue.residual = one_in(2);
    g.epilogue.bias_as_d = one_in(2);
    if (!validate(g)) g.epilogue.bias_as_d = false;
    if (!one_in(4)) return;
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

  /// Leading dimensions and strides beyond the tight ones.
  void loosen(Gemm& g) {
    for (Matrix* matrix : g.matrices()) {
      const Operand which = matrix == &g.a   ? Operand::a
                            : matrix == &g.b ? Operand::b
                            : matrix == &g.c ? Operand::c
                                             : Operand::d;
      matrix->ld = leading_dimension(g, which) + static_cast<std::int64_t>(below(9));
      if (g.batch > 1)
        matrix->batch_stride = batch_stride(g, which) + static_cast<std::int64_t>(below(33));
    }
  }

  std::mt19937_64 random_;
  std::int64_t largest_;
};

}  // namespace kiln::test
