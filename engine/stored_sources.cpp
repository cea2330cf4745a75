// Plans of stored kernels whose code has sizes as arguments: those that the fitted model chooses,
// and those of classes of CPUs.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cache/records/class_kernels.h"
#include "engine/engine_impl.h"
#include "generator/problem/device_class.h"
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

}  // namespace

std::vector<ClassChoice> ClassSource::choices(const BestKey& key, double error) {
  std::vector<ClassChoice> all;
  // The order of summation is this device's, whichever class a kernel is of.
  const AllowedSummation order = allowed_by(key);
  for (const DeviceCaps& of_class : stored_.kernels.classes_of_cpus(key.device, *engine_.store)) {
    if (!lies_alike(key.gemm, key.device, of_class)) continue;
    const DeviceCaps limited = limited_to_class(key.device, of_class);
    KernelClass& known =
        stored_.kernels.of(class_key(of_class, key.gemm), *engine_.store, engine_.now);
    BestKey as = key;
    as.device = limited;
    as.determinism = Determinism::run_to_run;
    for (const auto& [ns, kernel] : known.ranked(as)) {
      const Config& config = kernel->config();
      if (takes_epilogue(config) && order.allows(config)) all.push_back({ns * error, kernel});
    }
  }
  std::ranges::stable_sort(all, {}, &ClassChoice::ns);
  return all;
}

std::optional<SharedPlan> ClassSource::below(const Miss& miss, double below_ns) {
  if (miss.threads > kMostClassThreads) return std::nullopt;
  const BestKey key = engine_.key_of(miss.gemm(), miss.threads);
  const KernelClass& own = stored_.kernels.of(key, *engine_.store, engine_.now);
  // Times of kernels that were never measured here err by what others of this device do.
  const double error = own.model ? own.model->mean() : 1;
  const std::vector<ClassChoice> all = choices(key, error);
  for (const auto& [ns, kernel] : all) {
    if (ns >= below_ns) break;
    const DeviceCaps& of_class = kernel->made_on();
    if (!serves(*kernel, key.gemm, limited_to_class(key.device, of_class), *engine_.store) ||
        !engine_.admission.make_ready(*kernel))
      continue;
    if (auto plan =
            bound(miss, Match::model, kernel->config(), class_reason(kernels_in(all), *kernel, ns),
                  kernel->code, nullptr, class_name(of_class)))
      return plan;
  }
  return std::nullopt;
}

void StoredSource::add_relatives(std::vector<RankedKernel>& ranked, const BestKey& key) {
  const std::vector<DeviceCaps>& relatives =
      stored_.kernels.relatives(engine_.device, *engine_.store);
  if (relatives.empty()) return;
  std::set<Config> own;
  for (const RankedKernel& choice : ranked) own.insert(choice.kernel->config());
  const KernelClass& known = stored_.kernels.of(key, *engine_.store, engine_.now);
  for (const DeviceCaps& relative : relatives) {
    BestKey there = key;
    there.device = relative;
    KernelClass& theirs = stored_.kernels.of(there, *engine_.store, engine_.now);
    const double error = error_of_relatives(known.model ? &*known.model : nullptr,
                                            theirs.model ? &*theirs.model : nullptr, key.gemm);
    for (const auto& [ns, kernel] : theirs.ranked(key))
      if (!own.contains(kernel->config())) ranked.push_back({ns * error, kernel});
  }
  std::ranges::stable_sort(ranked, {}, &RankedKernel::ns);
}

std::optional<SharedPlan> StoredSource::find(const Miss& miss) {
  for (const Gemm& as : served_by(miss.gemm())) {
    const BestKey key = engine_.key_of(as, miss.threads);
    KernelClass& known = stored_.kernels.of(key, *engine_.store, engine_.now);
    std::vector<RankedKernel> ranked = known.ranked(key);
    add_relatives(ranked, key);
    for (const auto& [ns, kernel] : ranked) {
      if (!serves(*kernel, key.gemm, key.device, *engine_.store) ||
          !engine_.admission.make_ready(*kernel))
        continue;
      if (auto plan = classes_.below(miss, ns)) return plan;
      const DeviceCaps& made_on = kernel->made_on();
      const bool own = made_on == key.device;
      if (auto plan = bound(miss, Match::nearest, kernel->config(),
                            choice_reason(known, kernels_in(ranked), *kernel, ns, own) +
                                origin_text(made_on, own),
                            kernel->code, &key.gemm))
        return plan;
    }
  }
  return std::nullopt;
}

}  // namespace kiln
