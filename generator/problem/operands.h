// The pointers of a call, by operand: every struct that holds them (Operands, KilnArgs,
// KilnGpuArgs) names its members as kOperandRows does. Binding a call's pointers to a kernel's
// arguments happens here and nowhere else. Costs nothing at run time: every loop is unrolled by the
// compiler.
#pragma once

#include <type_traits>
#include <utility>

#include "generator/problem/canonical.h"
#include "generator/problem/extent.h"
#include "kiln/engine.hpp"

namespace kiln {

/// The member of `pointers` for one operand. An operand without a line here does not compile.
template <Operand kWhich, typename Pointers>
constexpr auto& pointer(Pointers& pointers) {
  if constexpr (kWhich == Operand::a) {
    return pointers.a;
  } else if constexpr (kWhich == Operand::b) {
    return pointers.b;
  } else if constexpr (kWhich == Operand::c) {
    return pointers.c;
  } else if constexpr (kWhich == Operand::d) {
    return pointers.d;
  } else if constexpr (kWhich == Operand::bias) {
    return pointers.bias;
  } else if constexpr (kWhich == Operand::residual) {
    return pointers.residual;
  } else if constexpr (kWhich == Operand::scale_a) {
    return pointers.scale_a;
  } else {
    static_assert(kWhich == Operand::scale_b);
    return pointers.scale_b;
  }
}

template <typename F, std::size_t... kIndex>
[[gnu::always_inline]] constexpr void for_each_operand(F&& f, std::index_sequence<kIndex...>) {
  (f(std::integral_constant<Operand, static_cast<Operand>(kIndex)>{}), ...);
}

/// Calls `f` once for each operand with a std::integral_constant, whose value is the Operand and a
/// constant expression.
template <typename F>
[[gnu::always_inline]] constexpr void for_each_operand(F&& f) {
  for_each_operand(std::forward<F>(f), std::make_index_sequence<kOperandCount>{});
}

/// The same member, for an operand that is known at run time only.
template <typename Pointers>
const void* pointer(const Pointers& pointers, Operand which) {
  const void* found = nullptr;
  for_each_operand([&](auto each) {
    if (which == each) found = pointer<each>(pointers);
  });
  return found;
}

/// Copies pointers, alpha and beta of a call from one struct to another. `swapped`: one of the two
/// is of a canonical problem that computes D transposed, where A and B change places, and so do
/// their scales.
template <typename To, typename From>
[[gnu::always_inline]] inline void bind_operands(To& to, const From& from, bool swapped) {
  for_each_operand([&](auto each) __attribute__((always_inline)) {
    constexpr Operand kOther = row_of(each).swapped;
    if constexpr (kOther == each)
      pointer<each>(to) = pointer<each>(from);
    else
      pointer<each>(to) = swapped ? pointer<kOther>(from) : pointer<each>(from);
  });
  to.alpha = from.alpha;
  to.beta = from.beta;
}

/// What a kernel is called with, workspace aside: `Args` is KilnArgs or KilnGpuArgs.
template <typename Args>
Args kernel_args(const Canonical& problem, const Operands& operands) {
  const Gemm& g = problem.gemm;
  Args args{};
  args.m = g.m, args.n = g.n, args.k = g.k, args.batch = g.batch;
  args.lda = g.a.ld, args.ldb = g.b.ld, args.ldc = g.c.ld, args.ldd = g.d.ld;
  args.stride_a = g.a.batch_stride, args.stride_b = g.b.batch_stride;
  args.stride_c = g.c.batch_stride, args.stride_d = g.d.batch_stride;
  bind_operands(args, operands, problem.swapped);
  return args;
}

}  // namespace kiln
