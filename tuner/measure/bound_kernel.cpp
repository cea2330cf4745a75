#include "tuner/measure/bound_kernel.h"

#include <utility>

#include "generator/space/family.h"
#include "runtime/cpu/reductions.h"
#include "runtime/workspace.h"

namespace kiln {

BoundKernel::BoundKernel(HostKernel kernel, const Config& config, const Gemm& gemm,
                         const DeviceCaps& device)
    : kernel_(std::move(kernel)),
      division_(division_of(config)),
      problem_(Problem::of(gemm).value()),
      threads_(device.compute_units) {
  if (gemm.b_packed) layout_ = packed_layout(problem_, device);
}

Status BoundKernel::run(const Operands& operands) { return run(problem_, operands); }

Status BoundKernel::run(const Problem& problem, const Operands& operands) {
  HostArgs args = make_args(problem, operands, division_);
  if (!layout_) return launch(kernel_, args, threads_);
  return pack_b(*layout_, problem, args.b, threads_).and_then([&](const PackedCopy& packed) {
    args.b = packed.data.get();
    return launch(kernel_, args, threads_);
  });
}

Result<Calls> BoundKernel::calls(const OperandSets& sets) {
  std::vector<HostArgs> args;
  packed_sets_.clear();
  for (int i = 0; i < sets.count(); ++i) {
    args.push_back(make_args(problem_, sets[i], division_));
    if (!layout_) continue;
    auto packed = pack_b(*layout_, problem_, args.back().b, threads_);
    if (!packed) return tl::unexpected(packed.error());
    args.back().b = packed->data.get();
    packed_sets_.push_back(std::move(*packed));
  }
  const int threads = threads_used(kernel_, args.front(), threads_);
  const std::int64_t bytes = kernel_.workspace_bytes(&args.front(), threads);
  // Made here, for this thread: what can fail fails now, not in the timed loop.
  if (const auto made = workspace(bytes_of_call(args.front(), bytes)); !made)
    return tl::unexpected(made.error());
  if (HostArgs one = args.front(); one.reduced_of != nullptr)
    if (Status made = redirect_reduced(problem_.gemm, one); !made)
      return tl::unexpected(made.error());
  return calls_over(sets.count(), [this, args = std::move(args), threads, bytes](int set) {
    (void)launch(kernel_, args[static_cast<std::size_t>(set)], threads, bytes);
  });
}

}  // namespace kiln
