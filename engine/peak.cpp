#include "engine/peak.h"

#include <algorithm>

#include "cache/records/devices.h"
#include "engine/engine_impl.h"
#include "generator/problem/timed_flops.h"
#include "runtime/cpu/probe.h"
#include "runtime/memory.h"

namespace kiln {

double TuningSession::raised_peak(const BestKey& key, double probed, double kernel) {
  const DType type = key.gemm.a.dtype;
  if (engine_.gpu || !has_fma_probe(type)) return 0;
  const double stored = engine_.store->devices().peak(key.device, type);
  const double known = std::max(stored, probed);
  if (!(known > 0)) return 0;
  const double raised = std::max(known, kernel);
  // One that cannot be kept (a read-only file) is seen again: nothing to tell anybody.
  if (raised > stored) (void)engine_.store->devices().raise_peak(key.device, type, raised);
  return raised;
}

double flops_per_second(const Gemm& gemm, const Timing& timing) {
  return timing.median_ns > 0 ? timed_flops(gemm) / (timing.median_ns * 1e-9) : 0;
}

double raised_peak(Engine& engine, const Gemm& gemm, int threads, double probed, double kernel) {
  Engine::Impl& impl = engine.impl();
  return impl.tuning.raised_peak(impl.key_of(impl.with_defaults(gemm), threads), probed, kernel);
}

std::optional<StoredRoofline> stored_roofline(Engine& engine, const Gemm& gemm, int threads) {
  Engine::Impl& impl = engine.impl();
  const Gemm full = impl.with_defaults(gemm);
  const auto count = impl.threads_of(threads);
  if (!count) return std::nullopt;
  return stored_roofline(*impl.store, impl.key_of(full, *count).device, full);
}

Status keep_limits(Engine& engine, const MachineLimits& limits) {
  return engine.impl().store->devices().put_limits(limits);
}

Status measure_limits_once(Engine& engine, int threads) {
  constexpr std::int64_t kRoom = std::int64_t{2} << 30;
  Engine::Impl& impl = engine.impl();
  if (impl.gpu || impl.device.vendor != Vendor::cpu) return {};
  const auto count = impl.threads_of(threads);
  if (!count) return tl::unexpected(count.error());
  DeviceCaps device = impl.device;
  device.compute_units = *count;
  const bool kept = impl.store->lasting() && impl.store->path() != kInMemory;
  if (impl.store->devices().limits(device) || !kept || available_memory() < kRoom) return {};
  const auto limits = measure_limits(device);
  if (!limits) return tl::unexpected(limits.error());
  return impl.store->devices().put_limits(*limits);
}

}  // namespace kiln
