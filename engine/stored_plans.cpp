// Plans of stored kernels whose code has sizes as arguments: those that a tuned range's table
// names, those that the fitted model chooses, and those of classes of CPUs.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "cache/class_kernels.h"
#include "engine/engine_impl.h"
#include "generator/problem/size.h"
#include "generator/problem/spelling.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

/// How many kernels these are: some are of several problems.
template <typename Choices>
std::size_t kernels_in(const Choices& choices) {
  std::set<std::pair<Config, std::string>> codes;
  for (const auto& [ns, kernel] : choices) codes.emplace(kernel->config(), kernel->row.binary_key);
  return codes.size();
}

/// `own`: the kernel was tuned on this device. A relative's is ranked by the most that it may take.
std::string choice_reason(const KernelClass& known, std::size_t count, const StoredKernel& kernel,
                          double ns, bool own) {
  const std::string by = known.model
                             ? fmt::format(
                                   "the model fitted to {} shapes of this device "
                                   "(errors of {:.0f} %)",
                                   known.model->quality().shapes, known.model->spread() * 100)
                             : "the analytic model";
  return fmt::format(
      "the choice of {} among {} stored kernels that have sizes as arguments: {:.1f} us "
      "expected{}, tuned for {}",
      by, count, ns / 1e3, own || !known.model ? "" : " at most", text(kernel.record->key.gemm));
}

std::string class_reason(std::size_t kernels, const StoredKernel& kernel, double ns) {
  return fmt::format(
      "the analytic model's choice, with this CPU's caches and threads, among {} stored kernels "
      "that serve every CPU with {} ({}); never measured on this one: {:.1f} us expected",
      kernels, class_name(kernel.made_on()), kernel.record->database.string(), ns / 1e3);
}

std::string range_reason(const RangeRecord& range, const RangeCell& cell) {
  return fmt::format("tuned as {}: up to {} = {} the kernel of {} ({}, {})", text(range.range),
                     name(range.range.size), cell.last, cell.tuned_at, range.created,
                     range.database.string());
}

/// Whose measurements a choice among kernels of another GPU is of.
std::string told_of(const DeviceCaps& owner, bool own) {
  if (own) return {};
  return fmt::format("; made and measured on {}, whose code and launch are this device's",
                     owner.model);
}

}  // namespace

std::optional<SharedPlan> Engine::Impl::range_plan(const Gemm& gemm, int threads) {
  DeviceCaps own = device;
  own.compute_units = threads;
  return range_plan_of(own, gemm, threads);
}

std::optional<SharedPlan> Engine::Impl::range_plan_of(const DeviceCaps& owner, const Gemm& gemm,
                                                      int threads) {
  for (const Gemm& as : served_by(gemm)) {
    const BestKey here = key_of(as, threads);
    BestKey key = here;
    key.device = owner;
    const AllowedSummation order(key.problem(), here.device, key.determinism);
    for (const Size size : kSizes) {
      const std::int64_t value = key.gemm.*member_of(size);
      for (TunedRange& range : tuned_ranges.of(key, size, *store)) {
        if (value < range.record.range.first || value > range.record.range.last()) continue;
        const RangeCell& cell = range.record.table.at(value);
        StoredKernel* const kernel = kernel_of(range, cell, *store, now);
        if (kernel == nullptr || !serves(*kernel, key.gemm, here.device, *store) ||
            !order.allows(cell.config) || !admission.make_ready(*kernel))
          continue;
        const bool own = owner == here.device;
        auto plan = bound_plan(gemm, threads, own ? Match::range : Match::nearest, cell.config,
                               range_reason(range.record, cell) + told_of(owner, own), kernel->code,
                               &key.gemm);
        if (plan) return *plan;
        warn(tl::unexpected(plan.error()));
      }
    }
  }
  return std::nullopt;
}

std::vector<ClassChoice> Engine::Impl::class_choices(const BestKey& key, double error) {
  std::vector<ClassChoice> choices;
  // The order of summation is this device's, whichever class a kernel is of.
  const AllowedSummation order(key.problem(), key.device, key.determinism);
  for (const DeviceCaps& of_class : stored_kernels.classes_of_cpus(key.device, *store)) {
    if (!lies_alike(key.gemm, key.device, of_class)) continue;
    const DeviceCaps limited = limited_to_class(key.device, of_class);
    KernelClass& known = stored_kernels.of(class_key(of_class, key.gemm), *store, now);
    BestKey as = key;
    as.device = limited;
    as.determinism = Determinism::run_to_run;
    for (const auto& [ns, kernel] : known.ranked(as)) {
      const Config& config = kernel->config();
      if (takes_epilogue(config) && order.allows(config)) choices.push_back({ns * error, kernel});
    }
  }
  std::ranges::stable_sort(choices, {}, &ClassChoice::ns);
  return choices;
}

std::optional<SharedPlan> Engine::Impl::class_plan(const Gemm& gemm, int threads, double below_ns) {
  if (threads > kMostClassThreads) return std::nullopt;
  const BestKey key = key_of(gemm, threads);
  const KernelClass& own = stored_kernels.of(key, *store, now);
  // Times of kernels that were never measured here err by what others of this device do.
  const double error = own.model ? own.model->mean() : 1;
  const std::vector<ClassChoice> choices = class_choices(key, error);
  for (const auto& [ns, kernel] : choices) {
    if (ns >= below_ns) break;
    const DeviceCaps& of_class = kernel->made_on();
    if (!serves(*kernel, key.gemm, limited_to_class(key.device, of_class), *store) ||
        !admission.make_ready(*kernel))
      continue;
    auto plan = bound_plan(gemm, threads, Match::model, kernel->config(),
                           class_reason(kernels_in(choices), *kernel, ns), kernel->code, nullptr,
                           class_name(of_class));
    if (plan) return *plan;
    warn(tl::unexpected(plan.error()));
  }
  return std::nullopt;
}

std::optional<SharedPlan> Engine::Impl::relative_plan(const Gemm& gemm, int threads) {
  for (const DeviceCaps& relative : stored_kernels.relatives(device, *store)) {
    for (const Gemm& as : served_by(gemm)) {
      BestKey key = key_of(as, threads);
      key.device = relative;
      const auto won = best(key, now);
      const AllowedSummation order(key.problem(), device, key.determinism);
      if (!won || !order.allows(won->measured.config)) continue;
      for (StoredKernel& kernel : stored_kernels.of(key, *store, now).kernels) {
        const Config& config = kernel.config();
        if (config != won->measured.config || !serves(kernel, key.gemm, device, *store) ||
            !admission.make_ready(kernel))
          continue;
        auto plan = bound_plan(gemm, threads, Match::nearest, config,
                               fmt::format("tuned for this problem ({}, {}){}", won->created,
                                           won->database.string(), told_of(relative, false)),
                               kernel.code, &key.gemm);
        if (plan) return *plan;
        warn(tl::unexpected(plan.error()));
      }
    }
    if (auto plan = range_plan_of(relative, gemm, threads)) return plan;
  }
  return std::nullopt;
}

void Engine::Impl::add_relatives(std::vector<RankedKernel>& ranked, const BestKey& key) {
  const std::vector<DeviceCaps>& relatives = stored_kernels.relatives(device, *store);
  if (relatives.empty()) return;
  std::set<Config> own;
  for (const RankedKernel& choice : ranked) own.insert(choice.kernel->config());
  const KernelClass& known = stored_kernels.of(key, *store, now);
  for (const DeviceCaps& relative : relatives) {
    BestKey there = key;
    there.device = relative;
    KernelClass& theirs = stored_kernels.of(there, *store, now);
    const double error = error_of_relatives(known.model ? &*known.model : nullptr,
                                            theirs.model ? &*theirs.model : nullptr, key.gemm);
    for (const auto& [ns, kernel] : theirs.ranked(key))
      if (!own.contains(kernel->config())) ranked.push_back({ns * error, kernel});
  }
  std::ranges::stable_sort(ranked, {}, &RankedKernel::ns);
}

std::optional<SharedPlan> Engine::Impl::stored_plan(const Gemm& gemm, int threads) {
  for (const Gemm& as : served_by(gemm)) {
    const BestKey key = key_of(as, threads);
    KernelClass& known = stored_kernels.of(key, *store, now);
    std::vector<RankedKernel> ranked = known.ranked(key);
    add_relatives(ranked, key);
    for (const auto& [ns, kernel] : ranked) {
      if (!serves(*kernel, key.gemm, key.device, *store) || !admission.make_ready(*kernel))
        continue;
      if (auto plan = class_plan(gemm, threads, ns)) return plan;
      const DeviceCaps& made_on = kernel->made_on();
      const bool own = made_on == key.device;
      auto plan = bound_plan(
          gemm, threads, Match::nearest, kernel->config(),
          choice_reason(known, kernels_in(ranked), *kernel, ns, own) + told_of(made_on, own),
          kernel->code, &key.gemm);
      if (plan) return *plan;
      warn(tl::unexpected(plan.error()));
    }
  }
  return class_plan(gemm, threads, std::numeric_limits<double>::infinity());
}

}  // namespace kiln
