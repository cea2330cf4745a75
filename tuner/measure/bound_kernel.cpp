#include "tuner/measure/bound_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/workspace.h"

namespace kiln {
namespace {

constexpr std::size_t kPackedAlignment = 64;

void release(std::byte* bytes) { std::free(bytes); }

}  // namespace

BoundKernel::BoundKernel(HostKernel kernel, const Gemm& gemm, int threads)
    : kernel_(std::move(kernel)), problem_(canonicalise(gemm)), threads_(threads) {}

Result<BoundKernel::Bytes> BoundKernel::packed(const KilnArgs& args) const {
  const auto bytes = static_cast<std::size_t>(std::max(1LL, kernel_.packed_b_bytes(&args)));
  const std::size_t rounded = (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
  Bytes memory(static_cast<std::byte*>(std::aligned_alloc(kPackedAlignment, rounded)), release);
  if (!memory)
    return fail(ErrorCode::device, fmt::format("packed B: no memory for {} bytes", bytes));
  kernel_.pack_b(&args, memory.get());
  return memory;
}

Status BoundKernel::run(const Operands& operands) { return run(problem_, operands); }

Status BoundKernel::run(const Canonical& problem, const Operands& operands) {
  KilnArgs args = make_args(problem, operands);
  if (!kernel_.pack_b) return launch(kernel_, args, threads_);
  return packed(args).and_then([&](const Bytes& bytes) {
    args.b = bytes.get();
    return launch(kernel_, args, threads_);
  });
}

Result<Calls> BoundKernel::calls(const OperandSets& sets) {
  std::vector<KilnArgs> args;
  packed_sets_.clear();
  for (int i = 0; i < sets.count(); ++i) {
    args.push_back(make_args(problem_, sets[i]));
    if (!kernel_.pack_b) continue;
    auto bytes = packed(args.back());
    if (!bytes) return tl::unexpected(bytes.error());
    args.back().b = bytes->get();
    packed_sets_.push_back(std::move(*bytes));
  }
  const int threads = threads_used(kernel_, args.front(), threads_);
  const std::int64_t bytes = kernel_.workspace_bytes(&args.front(), threads);
  // Made here, for this thread: what can fail fails now, not in the timed loop.
  if (const auto made = workspace(bytes); !made) return tl::unexpected(made.error());
  return calls_over(sets.count(), [this, args = std::move(args), threads, bytes](int set) {
    (void)launch(kernel_, args[static_cast<std::size_t>(set)], threads, bytes);
  });
}

}  // namespace kiln
