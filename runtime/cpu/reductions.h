// Memory for what a call needs where its expression reduces: values that kernels leave, reductions
// that are read but not stored, and a D that is not stored. Knows no kernel.
#pragma once

#include "generator/problem/problem.h"
#include "runtime/cpu/cpu.h"

namespace kiln {

/// `to`, which has the arguments of a call of `gemm`, in canonical form, gets memory of the calling
/// thread's that is valid until its next such call. Errors: device (no memory).
Status redirect_reduced(const Gemm& gemm, KilnArgs& to);

/// `run(args)` and, where the call reduces, `reduce(args)` behind it.
template <typename Run, typename Reduce>
Status reducing(const HostArgs& args, Run&& run, Reduce&& reduce) {
  HostArgs own = args;
  own.reduced_of = nullptr;
  if (args.reduced_of == nullptr) return run(own);
  if (Status ok = redirect_reduced(args.reduced_of->gemm, own); !ok) return ok;
  if (Status ran = run(own); !ran) return ran;
  if (expression::reduces(args.reduced_of->gemm.epilogue.expression)) {
    own.d = args.d;
    reduce(own);
  }
  return {};
}

}  // namespace kiln
