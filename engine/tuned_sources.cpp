// Plans of what was tuned: for the very problem, for its range, and on a GPU with this one's code.
#include <fmt/format.h>

#include <utility>

#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "engine/vendor.h"
#include "generator/families/cuda/library/config.h"
#include "generator/problem/size.h"
#include "generator/problem/spelling.h"
#include "generator/space/summation.h"
#include "tuner/measure/vendor_library.h"

namespace kiln {
namespace {

std::string range_reason(const RangeRecord& range, const RangeCell& cell) {
  return fmt::format("tuned as {}: up to {} = {} the kernel of {} ({}, {})", text(range.range),
                     name(range.range.size), cell.last, cell.tuned_at, range.created,
                     range.database.string());
}

}  // namespace

std::optional<SharedPlan> ExactSource::find(const Miss& miss) {
  const auto record = engine_.exact_record(miss.gemm(), miss.threads);
  return record ? of(miss, *record) : std::nullopt;
}

std::optional<SharedPlan> ExactSource::of(const Miss& miss, const Record& record) {
  if (auto plan = library(miss, record)) return plan;
  const Config& config = record.measured.config;
  KernelCode kernel;
  if (!record.image.empty()) {
    if (auto loaded = engine_.admission.load(record.image))
      kernel = std::move(*loaded);
    else
      engine_.admission.not_loaded(record.measured.binary_key, loaded.error());
    if (engine_.admission.machine_refused()) return std::nullopt;
  }
  if (!kernel) {  // quarantined, not trusted or lost: it is compiled again from the config
    auto built = engine_.admission.admitted(record.key, config);
    if (!built) {
      engine_.warn(tl::unexpected(built.error()));
      return std::nullopt;
    }
    kernel = built->kernel;
  } else if (record.launch.empty() || !record.measured.verified ||
             (!engine_.gpu && record.validators.runtime != engine_.now.runtime)) {
    // A cubin is what the device itself executes: another driver runs the very same instructions.
    const StoredBinary code{.key = record.measured.binary_key, .image = record.image};
    if (const Status proof = engine_.admission.prove(record.key, config, kernel, code); !proof) {
      engine_.warn(proof);
      return std::nullopt;
    }
    if (record.launch.empty()) engine_.warn(engine_.store->winners().stamp(record));
  }
  return bound(miss, Match::exact, config,
               fmt::format("tuned for exactly this problem ({}, {})", record.created,
                           record.database.string()),
               std::move(kernel), &record.key.gemm);
}

std::optional<SharedPlan> ExactSource::library(const Miss& miss, const Record& record) {
  const Gemm& gemm = miss.gemm();
  if (engine_.backend.library == nullptr || !engine_.options.allow_vendor) return std::nullopt;
  // In which order the library sums is not known.
  if (engine_.options.determinism == Determinism::batch_invariant) return std::nullopt;
  // Integer sums stored as they are: there the library knows no alpha and beta but 0 and 1.
  if (gemm.d.dtype == DType::s32) return std::nullopt;
  // The library keeps the addresses of bias and scales in what calls share.
  if (gemm.epilogue.bias != Bias::none || gemm.a.q.scale != Scale::none ||
      gemm.b.q.scale != Scale::none)
    return std::nullopt;
  const auto version = cuda::cublaslt_version_number();
  if (!version) return std::nullopt;
  const std::vector<Measured> rows =
      engine_.store->measurements().known(record.key, record.validators);
  const auto best = preferred_library(record.measured, rows, *version);
  if (!best) return std::nullopt;
  auto plan = engine_.recorder.new_plan(gemm, miss.threads);
  auto library =
      engine_.backend.library(engine_.gpu, plan->problem, VendorLibrary::kWorkspaceBytes);
  const int choice = best->config.as<CudaLibrary>().choice;
  if (!library || choice >= library->choices()) return std::nullopt;
  plan->match = Match::exact;
  plan->expected_ns = best->timing().median_ns;
  plan->config = text(best->config);
  plan->reason =
      fmt::format("the vendor's library won the race by {:.1f} %, and is allowed",
                  (record.measured.timing().median_ns / best->timing().median_ns - 1) * 100);
  plan->gpu = GpuPlan::of_library(engine_.gpu_shared, plan->problem, std::move(*library), choice);
  return plan;
}

std::optional<SharedPlan> RangeSource::find(const Miss& miss) {
  DeviceCaps own = engine_.device;
  own.compute_units = miss.threads;
  return of(own, miss);
}

std::optional<SharedPlan> RangeSource::of(const DeviceCaps& owner, const Miss& miss) {
  for (const Gemm& as : served_by(miss.gemm())) {
    const BestKey here = engine_.key_of(as, miss.threads);
    BestKey key = here;
    key.device = owner;
    const AllowedSummation order(key.problem(), here.device, key.determinism);
    for (const Size size : kSizes) {
      const std::int64_t value = key.gemm.*member_of(size);
      for (TunedRange& range : stored_.ranges.of(key, size, *engine_.store)) {
        if (value < range.record.range.first || value > range.record.range.last()) continue;
        const RangeCell& cell = range.record.table.at(value);
        StoredKernel* const kernel = kernel_of(range, cell, *engine_.store, engine_.now);
        if (kernel == nullptr || !serves(*kernel, key.gemm, here.device, *engine_.store) ||
            !order.allows(cell.config) || !engine_.admission.make_ready(*kernel))
          continue;
        const bool own = owner == here.device;
        if (auto plan = bound(miss, own ? Match::range : Match::nearest, cell.config,
                              range_reason(range.record, cell) + origin_text(owner, own),
                              kernel->code, &key.gemm))
          return plan;
      }
    }
  }
  return std::nullopt;
}

std::optional<Record> RelativeSource::won_by(const BestKey& key) {
  for (const TuningPolicy policy : engine_.policies()) {
    BestKey under = key;
    under.policy = engine_.policy_name(policy);
    if (auto won = engine_.best(under, engine_.now)) return won;
  }
  return std::nullopt;
}

std::optional<SharedPlan> RelativeSource::find(const Miss& miss) {
  for (const DeviceCaps& relative : stored_.kernels.relatives(engine_.device, *engine_.store)) {
    for (const Gemm& as : served_by(miss.gemm())) {
      BestKey key = engine_.key_of(as, miss.threads);
      key.device = relative;
      const auto won = won_by(key);
      const AllowedSummation order(key.problem(), engine_.device, key.determinism);
      if (!won || !order.allows(won->measured.config)) continue;
      for (StoredKernel& kernel : stored_.kernels.of(key, *engine_.store, engine_.now).kernels) {
        const Config& config = kernel.config();
        if (config != won->measured.config ||
            !serves(kernel, key.gemm, engine_.device, *engine_.store) ||
            !engine_.admission.make_ready(kernel))
          continue;
        if (auto plan = bound(miss, Match::nearest, config,
                              fmt::format("tuned for this problem ({}, {}){}", won->created,
                                          won->database.string(), origin_text(relative, false)),
                              kernel.code, &key.gemm))
          return plan;
      }
    }
    if (auto plan = ranges_.of(relative, miss)) return plan;
  }
  return std::nullopt;
}

}  // namespace kiln
