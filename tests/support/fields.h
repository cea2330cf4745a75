// Problems that differ in one field.
#pragma once

#include <optional>
#include <vector>

#include "generator/problem/fields.h"

namespace kiln::test {

/// `base` with the value after the one that the field has, the first after the last of an enum;
/// nothing where `base` lacks what that value needs.
inline std::optional<Gemm> with_next_value(const Gemm& base, const GemmField& field) {
  Gemm changed = base;
  if (field.number_of != nullptr)
    return field.set(changed, field.number_of(field.get(base) == 0 ? "d=acc*2" : "d=acc*3").value())
               ? std::optional(changed)
               : std::nullopt;
  const std::int64_t value = field.get(base) + 1;
  const std::int64_t values = field.flag ? 2 : std::ssize(field.names);
  if (!field.set(changed, values == 0 ? value : value % values)) return std::nullopt;
  return changed;
}

/// Problems of which some have each field: plain, with a gate, masked, by index.
inline std::vector<Gemm> bases_of_fields() {
  const Gemm plain = Gemm::row_major(3, 5, 7);
  return {plain, plain.with_gate(Gate::silu), plain.grouped(2, Grouping::masked),
          plain.grouped(2, Grouping::rows).gathered().scattered()};
}

}  // namespace kiln::test
