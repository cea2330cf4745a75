// As much of JSON Schema (draft 2020-12) as the schemas in data/ use. A keyword that is not known
// here is an error: a schema must not say what nobody checks.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

namespace kiln::test {

inline bool has_type(const nlohmann::json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  throw std::runtime_error("schema: type " + type);
}

/// What is wrong with `value`, a sentence each.
inline std::vector<std::string> schema_errors(const nlohmann::json& schema,
                                              const nlohmann::json& value,
                                              const std::string& at = "$") {
  std::vector<std::string> errors;
  const auto add = [&](const std::vector<std::string>& more) {
    errors.insert(errors.end(), more.begin(), more.end());
  };
  for (const auto& [keyword, rule] : schema.items()) {
    if (keyword == "$schema" || keyword == "title" || keyword == "description") continue;
    if (keyword == "type") {
      const auto types = rule.is_array() ? rule : nlohmann::json::array({rule});
      if (std::ranges::none_of(types, [&](const auto& type) { return has_type(value, type); }))
        errors.push_back(fmt::format("{} is no {}: {}", at, rule.dump(), value.dump()));
    } else if (keyword == "properties") {
      for (const auto& [name, part] : rule.items())
        if (value.is_object() && value.contains(name))
          add(schema_errors(part, value[name], at + "." + name));
    } else if (keyword == "required") {
      for (const auto& name : rule)
        if (value.is_object() && !value.contains(name.get<std::string>()))
          errors.push_back(fmt::format("{} lacks {}", at, name.dump()));
    } else if (keyword == "items") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        add(schema_errors(rule, value[i], fmt::format("{}[{}]", at, i)));
    } else if (keyword == "enum") {
      if (std::ranges::find(rule, value) == rule.end())
        errors.push_back(fmt::format("{} = {}: not in {}", at, value.dump(), rule.dump()));
    } else if (keyword == "pattern") {
      if (value.is_string() &&
          !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        errors.push_back(fmt::format("{} = {}: does not match", at, value.dump()));
    } else {
      throw std::runtime_error("schema: keyword " + keyword);
    }
  }
  return errors;
}

}  // namespace kiln::test
