#include "generator/problem/operands.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/workspace.h"

namespace kiln {
namespace {

static_assert(kBiasPerRow == static_cast<int>(Bias::per_row) &&
              kBiasPerColumn == static_cast<int>(Bias::per_column));
static_assert(kActivationRelu == static_cast<int>(Activation::relu) &&
              kActivationGeluTanh == static_cast<int>(Activation::gelu_tanh) &&
              kActivationGeluErf == static_cast<int>(Activation::gelu_erf) &&
              kActivationSilu == static_cast<int>(Activation::silu));

struct Call {
  KilnGemmFn gemm;
  const KilnArgs* args;
};

/// `args` is the caller's own copy.
Status run_alone(KilnGemmFn gemm, KilnArgs& args, std::int64_t workspace_bytes) {
  Result<void*> memory = workspace(workspace_bytes);
  if (!memory) return tl::unexpected(std::move(memory).error());
  args.workspace = *memory;
  args.barrier = barrier_words();
  gemm(&args, 0, 1);
  return {};
}

Status run_on_team(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, KilnArgs& args, int threads,
                   std::int64_t workspace_bytes) {
  TeamLease team(threads);
  if (team.threads() != threads) workspace_bytes = ask_workspace(&args, team.threads());
  Result<void*> memory = workspace(workspace_bytes);
  if (!memory) return tl::unexpected(std::move(memory).error());
  args.workspace = *memory;
  args.barrier = barrier_words();
  Call call{gemm, &args};
  const bool ran = team.run(
      [](void* context, int thread, int count) {
        const Call& c = *static_cast<const Call*>(context);
        c.gemm(c.args, thread, count);
      },
      &call);
  return ran ? Status{} : run_alone(gemm, args, ask_workspace(&args, 1));
}

Status run(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, KilnArgs& args, int threads,
           std::int64_t workspace_bytes) {
  if (threads > 1) return run_on_team(gemm, ask_workspace, args, threads, workspace_bytes);
  return run_alone(gemm, args, workspace_bytes);
}

}  // namespace

KilnArgs make_args(const Canonical& problem, const Operands& operands,
                   const KilnDivision& division) {
  auto args = kernel_args<KilnArgs>(problem, operands);
  args.division = division;
  // Structured bindings: what an epilogue gets later, kernels that take any must be told.
  const auto& [bias, activation, residual] = problem.gemm.epilogue;
  args.bias_kind = static_cast<int>(bias);
  args.activation = static_cast<int>(activation);
  args.adds_residual = residual;
  return args;
}

int threads_used(const HostKernel& kernel, const KilnArgs& args, int threads) {
  return threads > 1 && kernel.threads != nullptr ? kernel.threads(&args, threads) : threads;
}

Status launch(const HostKernel& kernel, const KilnArgs& args, int threads) {
  threads = threads_used(kernel, args, threads);
  return launch(kernel, args, threads, kernel.workspace_bytes(&args, threads));
}

Status launch(const HostKernel& kernel, const KilnArgs& args, int threads,
              std::int64_t workspace_bytes) {
  if (kernel.direct != nullptr && threads == 1) {
    kernel.direct(args.a, args.b, args.c, args.d, args.bias, args.residual, args.alpha, args.beta);
    return {};
  }
  KilnArgs own = args;
  return run(kernel.gemm, kernel.workspace_bytes, own, threads, workspace_bytes);
}

Status launch(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, KilnArgs args, int threads,
              std::int64_t workspace_bytes) {
  return run(gemm, ask_workspace, args, threads, workspace_bytes);
}

}  // namespace kiln
