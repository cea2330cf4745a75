// Plans of stored kernels whose code has sizes as arguments: those that a tuned range's table
// names, and those that the fitted model chooses.
#include <fmt/format.h>

#include "engine/engine_impl.h"
#include "generator/problem/size.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

std::string choice_reason(const KernelClass& known, const StoredKernel& kernel, double ns) {
  const std::string by = known.model
                             ? fmt::format(
                                   "the model fitted to {} shapes of this device "
                                   "(errors of {:.0f} %)",
                                   known.model->quality().shapes, known.model->spread() * 100)
                             : "the analytic model";
  return fmt::format(
      "the choice of {} among {} stored kernels that have sizes as arguments: {:.1f} us "
      "expected, tuned for {}",
      by, known.kernels.size(), ns / 1e3, text(kernel.record.key.gemm));
}

std::string range_reason(const RangeRecord& range, const RangeCell& cell) {
  return fmt::format("tuned as {}: up to {} = {} the kernel of {} ({}, {})", text(range.range),
                     name(range.range.size), cell.last, cell.tuned_at, range.created,
                     range.database.string());
}

}  // namespace

bool Engine::Impl::make_ready(StoredKernel& kernel) {
  if (!kernel.proved) kernel.proved = store->envelope_proven(kernel.record);
  if (!*kernel.proved) return false;
  if (kernel.code) return true;
  kernel.proved = false;  // but for what follows
  const Record& made = kernel.record;
  const auto code = store->code(made.measured.binary_key);
  if (!code) return false;
  auto loaded = load(code->image);
  if (!loaded) {
    store->quarantine_binary(code->key, loaded.error().message);
    return false;
  }
  // As for an exact record: another libc or kernel below it is one more verification.
  if (!gpu && made.validators.runtime != now.runtime) {
    const StoredBinary binary{.key = made.measured.binary_key, .image = code->image};
    if (const Status proof = prove(made.key, made.measured.config, *loaded, binary); !proof) {
      warn(proof);
      return false;
    }
  }
  kernel.code = std::move(*loaded);
  kernel.proved = true;
  return true;
}

std::optional<SharedPlan> Engine::Impl::range_plan(const Gemm& gemm, int threads) {
  // A kernel for rows at less aligned addresses serves this problem as well.
  for (Gemm as = gemm; as.alignment >= 1; as.alignment /= 2) {
    const BestKey key = key_of(as, threads);
    const Canonical problem = canonicalise(key.gemm);
    const AllowedSummation order(key.gemm, key.device, key.determinism);
    for (const Size size : kSizes) {
      const std::int64_t value = key.gemm.*member_of(size);
      for (TunedRange& range : tuned_ranges.of(key, size, *store)) {
        if (value < range.record.range.first || value > range.record.range.last()) continue;
        const RangeCell& cell = range.record.table.at(value);
        StoredKernel* const kernel = kernel_of(range, cell, *store, now);
        if (kernel == nullptr || !broken_rule(problem, key.device, cell.config).empty() ||
            !order.allows(cell.config) || !serves(*kernel, key.gemm, key.device) ||
            !make_ready(*kernel))
          continue;
        auto plan = bound_plan(gemm, threads, Match::range, cell.config,
                               range_reason(range.record, cell), kernel->code, &key.gemm);
        if (plan) return *plan;
        warn(tl::unexpected(plan.error()));
      }
    }
  }
  return std::nullopt;
}

std::optional<SharedPlan> Engine::Impl::stored_plan(const Gemm& gemm, int threads) {
  // As above.
  for (Gemm as = gemm; as.alignment >= 1; as.alignment /= 2) {
    const BestKey key = key_of(as, threads);
    KernelClass& known = stored_kernels.of(key, *store, now);
    for (const auto& [ns, kernel] : known.ranked(key)) {
      if (!serves(*kernel, key.gemm, key.device) || !make_ready(*kernel)) continue;
      auto plan = bound_plan(gemm, threads, Match::nearest, kernel->record.measured.config,
                             choice_reason(known, *kernel, ns), kernel->code, &key.gemm);
      if (plan) return *plan;
      warn(tl::unexpected(plan.error()));
    }
  }
  return std::nullopt;
}

}  // namespace kiln
