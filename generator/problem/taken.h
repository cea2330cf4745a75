// Fields of the problem as features, by name: what a family says it takes.
#pragma once

#include <initializer_list>
#include <string_view>

#include "generator/problem/features.h"
#include "generator/problem/fields.h"

namespace kiln {

/// The features of fields that families without them refuse. A name that is not one of a row with a
/// rule does not compile.
consteval Features taken(std::initializer_list<std::string_view> fields) {
  Features all;
  for (const std::string_view field : fields) {
    const std::size_t row = field_index(field);
    if (kGemmFields.at(row).rule.empty()) throw "every family takes the field";
    all = all | Features::of_field(row);
  }
  return all;
}

}  // namespace kiln
