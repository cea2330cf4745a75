#include "generator/space/parameters.h"

#include <string_view>
#include <utility>

#include "generator/expression/code.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/fields.h"
#include "generator/problem/whole_factors.h"

namespace kiln {
Constant number(std::string name, std::int64_t value, std::string gloss) {
  return {"int", std::move(name), std::to_string(value), std::move(gloss)};
}

Constant flag(std::string name, bool value, std::string gloss) {
  return {"bool", std::move(name), value ? "true" : "false", std::move(gloss)};
}

std::string value_of(bool b) { return b ? "1" : "0"; }

std::string value_of(const GemmField& field, const Gemm& gemm) {
  const std::int64_t value = field.get(gemm);
  if (field.text_of != nullptr) return std::string(field.text_of(value));
  if (field.names.empty()) return std::to_string(value);
  return std::string(field.names[static_cast<std::size_t>(value)]);
}

void add_epilogue(TemplateValues& to, const Gemm& gemm) {
  for (const GemmField& field : kGemmFields)
    if (field.called().starts_with("epilogue."))
      to[std::string(field.name)] = value_of(field, gemm);
  expression::add_values(to, epilogue_of(gemm));
  to["integer_d"] = value_of(integer_epilogue(gemm));
}

}  // namespace kiln
