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

}  // namespace kiln
