// What an expression stores of rows, of columns and of all elements of D, and a D that is not
// stored: memory for the values that a kernel leaves, and what becomes of them. Threads have lines,
// and every chain of additions has one order, so that the same call gives the same bits with any
// number of threads. Knows no kernel.
#pragma once

#include "generator/problem/problem.h"
#include "runtime/cpu/cpu.h"

namespace kiln {

class Reductions {
 public:
  /// Of a call of `gemm`, in canonical form. Both must live on.
  Reductions(const Gemm& gemm, const KilnArgs& call) : gemm_(gemm), call_(call) {}

  /// `to` leaves values in memory of the calling thread's that is valid until its next such call.
  /// Errors: device (no memory).
  Status redirect(KilnArgs& to);
  /// Stores what is made of them.
  void reduce(int threads);

 private:
  template <typename Real>
  void reduce_output(Operand which, int threads) const;

  const Gemm& gemm_;
  const KilnArgs& call_;
  std::array<void*, kExpressionOutputs> values_{};
};

/// `run(args)` with memory for values where the call reduces some, and what is made of them.
template <typename Run>
Status reducing(const HostArgs& args, int threads, Run&& run) {
  HostArgs own = args;
  own.reduced_of = nullptr;
  if (args.reduced_of == nullptr) return run(own);
  Reductions reductions(args.reduced_of->gemm, args);
  if (Status ok = reductions.redirect(own); !ok) return ok;
  if (Status ran = run(own); !ran) return ran;
  reductions.reduce(threads);
  return {};
}

}  // namespace kiln
