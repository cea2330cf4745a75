// What the Engine asks of its device: how problems are spelt, the compiler, loading code, and the
// vendor's library.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/engine_impl.h"
#include "engine/list_check.h"
#include "engine/vendor.h"
#include "generator/problem/operands.h"
#include "generator/problem/spelling.h"
#include "tuner/measure/vendor_library.h"

namespace kiln {

Gemm Engine::Impl::spelt(const Gemm& gemm) const { return spelt_for(gemm, device); }

Gemm Engine::Impl::spelt(const Gemm& gemm, const Operands& operands) const {
  // What the addresses have in common.
  std::uintptr_t all = kUsualAlignment;
  if (operands.list != nullptr && Problem::of(gemm)) all |= bits_of_list(gemm, operands);
  for_each_operand([&](auto which) {
    if constexpr (row_of(which).matrix)
      if (which != Operand::c || operands.beta != 0)
        all |= reinterpret_cast<std::uintptr_t>(pointer<which>(operands));
    if constexpr (which == Operand::scale_a || which == Operand::scale_b)
      if (follows_alignment(gemm, which))
        all |= reinterpret_cast<std::uintptr_t>(pointer<which>(operands));
  });
  Gemm copy = gemm;
  copy.alignment = static_cast<int>(all & (~all + 1));
  return copy;
}

std::optional<SharedPlan> Engine::Impl::library_plan(const Gemm& gemm, int threads,
                                                     const Record& record) {
  if (backend.library == nullptr || !options.allow_vendor) return std::nullopt;
  // In which order the library sums is not known.
  if (options.determinism == Determinism::batch_invariant) return std::nullopt;
  // Integer sums stored as they are: there the library knows no alpha and beta but 0 and 1.
  if (gemm.d.dtype == DType::s32) return std::nullopt;
  // The library keeps the addresses of bias and scales in what calls share.
  if (gemm.epilogue.bias != Bias::none || gemm.scale_a != Scale::none ||
      gemm.scale_b != Scale::none)
    return std::nullopt;
  const auto version = cuda::cublaslt_version_number();
  if (!version) return std::nullopt;
  const std::vector<Measured> rows = store->known(record.key, record.validators);
  const auto best = preferred_library(record.measured, rows, *version);
  if (!best) return std::nullopt;
  auto plan = new_plan(gemm, threads);
  auto library = backend.library(gpu, plan->problem, VendorLibrary::kWorkspaceBytes);
  const int choice = std::get<CudaLibrary>(best->config).choice;
  if (!library || choice >= library->choices()) return std::nullopt;
  plan->match = Match::exact;
  plan->expected_ns = best->timing().median_ns;
  plan->config = text(best->config);
  plan->reason =
      fmt::format("the vendor's library won the race by {:.1f} %, and is allowed",
                  (record.measured.timing().median_ns / best->timing().median_ns - 1) * 100);
  plan->gpu = GpuPlan::of_library(gpu_shared, plan->problem, std::move(*library), choice);
  return plan;
}

}  // namespace kiln
