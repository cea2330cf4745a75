// Functions of expressions that are written in the language itself, a row each: the parser puts
// what a row says in the place of a call, so that nothing else knows them.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace kiln::expression {

struct Definition {
  std::string_view name;
  std::array<std::string_view, 3> parameters;  // as many as have a name
  std::string_view text;                       // statements, of which `d` is the function's value
  constexpr int arity() const {
    int count = 0;
    for (const std::string_view parameter : parameters) count += parameter.empty() ? 0 : 1;
    return count;
  }
};

/// A name occurs once, and is none of kFunctions.
std::span<const Definition> definitions();

/// Null: there is none.
const Definition* definition_named(std::string_view name);

}  // namespace kiln::expression
