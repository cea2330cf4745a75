#include "generator/space/parameters.h"

#include <string_view>
#include <type_traits>
#include <utility>

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

void add_epilogue(TemplateValues& to, const Gemm& gemm) {
  for_each_epilogue_field(gemm.epilogue, [&]<typename T>(std::string_view name, const T& field) {
    if constexpr (std::is_enum_v<T>)
      to[std::string(name)] = EnumNames<T>::names[static_cast<std::size_t>(field)];
    else
      to[std::string(name)] = value_of(field);
  });
  to["integer_d"] = value_of(integer_epilogue(gemm));
}

}  // namespace kiln
