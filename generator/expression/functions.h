// The functions and operators of expressions, a row each: what texts and references know of them.
// Their values are in templates/cuda/check/functions.h, kernels have each under its name in
// templates/{cpu,cuda}/common/functions.h.
#pragma once

#include <math.h>

#include <cstdint>
#include <limits>
#include <string_view>

namespace kiln::expression {

#define KILN_DEVICE inline
#include "templates/cuda/check/functions.h"
#undef KILN_DEVICE

/// What is known of a function beside its value, so that an interval can be pushed through it.
enum class Course : std::uint8_t {
  rising,      // in every argument
  falling,     // of one argument
  valley,      // falls up to `lowest`, then rises; of one argument
  sum,         // x + y, and likewise
  difference,  //
  product,     //
  quotient,    //
  comparison,  // of two arguments: no number
  choice,      // where(c, x, y)
  drawn,       // a number from 0 to 1 that follows from whole numbers alone
  remainder    // of whole numbers; of others it is any number
};

struct Function {
  int function;  // its ExpressionFunction
  std::string_view name;
  int arity;
  Course course;
  /// How far an implementation may be off, in unit roundoffs of its result and of its argument; 0:
  /// it is exact.
  double roundoffs = 1, of_argument = 0;
  double work = 1;              // instructions of a GPU's thread, for models
  bool exponential = false;     // made of e^x
  std::string_view code = {};   // its name in templates, where that is another
  std::string_view infix = {};  // between its two arguments, where it is an operator
  int binds = 0;                // operators: how tightly
  double lowest = 0;            // of a valley; its value at -infinity is not agreed on
  /// Below it, and at it where the function is infinite there, arguments give NaN.
  double domain = -std::numeric_limits<double>::infinity();
};

inline constexpr int kBindsComparison = 1, kBindsSum = 2, kBindsProduct = 3, kBindsSign = 4;

/// The sign in front of a value, and what chooses by a comparison.
inline constexpr std::string_view kNegate = "negate", kWhere = "where";

/// In the order of ExpressionFunction; a name occurs once.
extern const Function kFunctions[];
extern const int kFunctionCount;

/// -1: there is none.
int function_named(std::string_view name);
int operator_named(std::string_view infix);

}  // namespace kiln::expression
