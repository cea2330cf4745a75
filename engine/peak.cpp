#include "engine/peak.h"

#include <algorithm>

#include "engine/engine_impl.h"
#include "runtime/cpu/probe.h"

namespace kiln {

double Engine::Impl::raised_peak(const BestKey& key, double probed, double kernel) {
  const DType type = key.gemm.a.dtype;
  if (gpu || !has_fma_probe(type)) return 0;
  const double stored = store->peak(key.device, type);
  const double known = std::max(stored, probed);
  if (!(known > 0)) return 0;
  const double raised = std::max(known, kernel);
  // One that cannot be kept (a read-only file) is seen again: nothing to tell anybody.
  if (raised > stored) (void)store->raise_peak(key.device, type, raised);
  return raised;
}

double raised_peak(Engine& engine, const Gemm& gemm, int threads, double probed, double kernel) {
  Engine::Impl& impl = engine.impl();
  return impl.raised_peak(impl.key_of(impl.spelt(gemm), threads), probed, kernel);
}

}  // namespace kiln
