#include "generator/expression/functions.h"

#include <cmath>
#include <iterator>
#include <numbers>

namespace kiln::expression {
namespace {

using D = double;

// A NaN stays a NaN in all of them.
double smaller(D x, D y, D) { return x < y || x != x ? x : y; }
double larger(D x, D y, D) { return x > y || x != x ? x : y; }
double clamped(D x, D low, D high) { return smaller(larger(x, low, 0), high, 0); }
double sigmoid(D x, D, D) { return 1 / (1 + std::exp(-x)); }
double silu(D x, D, D) { return x / (1 + std::exp(-x)); }
double gelu(D x, D, D) {  // x/2 (1 + tanh u) as x / (1 + e^(-2u)), which does not cancel
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}
double gelu_erf(D x, D, D) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

/// Of an operator, whose implementations are the compilers'.
constexpr Function infix(std::string_view name, std::string_view sign, Course course, int binds,
                         double roundoffs, double (*of)(D, D, D)) {
  return {.name = name,
          .arity = 2,
          .course = course,
          .of = of,
          .roundoffs = roundoffs,
          .infix = sign,
          .binds = binds};
}
/// Made of e^x.
constexpr Function of_exponential(Function row) {
  row.exponential = true;
  return row;
}
/// Of two numbers.
constexpr Function comparison(std::string_view name, std::string_view sign, double (*of)(D, D, D)) {
  return infix(name, sign, Course::comparison, kBindsComparison, 0, of);
}
/// Of one number, which rises and is off by so many roundoffs.
constexpr Function rising(std::string_view name, std::string_view code, double roundoffs,
                          double (*of)(D, D, D)) {
  return {.name = name,
          .arity = 1,
          .course = Course::rising,
          .of = of,
          .roundoffs = roundoffs,
          .code = code};
}
/// Falls up to `lowest`. x times a factor from 0 to 1 that may be off by so many roundoffs of 1.
constexpr Function valley(std::string_view name, std::string_view code, double of_argument,
                          double lowest, double (*of)(D, D, D)) {
  Function row = rising(name, code, of_argument == 0 ? 0 : 1, of);
  row.course = Course::valley;
  row.of_argument = of_argument;
  row.lowest = lowest;
  return row;
}
/// Of numbers from 0 on.
constexpr Function of_positive(Function row, Course course) {
  row.course = course;
  row.domain = 0;
  return row;
}
/// Of several numbers, in each of which it rises; exact.
constexpr Function chosen(std::string_view name, std::string_view code, int arity,
                          double (*of)(D, D, D)) {
  Function row = rising(name, code, 0, of);
  row.arity = arity;
  return row;
}

}  // namespace

// What an implementation may be off is what those of templates are seen to be, twice over.
const Function kFunctions[] = {
    infix("add", "+", Course::sum, kBindsSum, 1, [](D x, D y, D) { return x + y; }),
    infix("subtract", "-", Course::difference, kBindsSum, 1, [](D x, D y, D) { return x - y; }),
    infix("multiply", "*", Course::product, kBindsProduct, 1, [](D x, D y, D) { return x * y; }),
    infix("divide", "/", Course::quotient, kBindsProduct, 2, [](D x, D y, D) { return x / y; }),
    comparison("less", "<", [](D x, D y, D) { return D(x < y); }),
    comparison("at_most", "<=", [](D x, D y, D) { return D(x <= y); }),
    comparison("more", ">", [](D x, D y, D) { return D(x > y); }),
    comparison("at_least", ">=", [](D x, D y, D) { return D(x >= y); }),
    comparison("equal", "==", [](D x, D y, D) { return D(x == y); }),
    comparison("differ", "!=", [](D x, D y, D) { return D(x != y); }),
    {.name = kNegate,
     .arity = 1,
     .course = Course::falling,
     .of = [](D x, D, D) { return -x; },
     .roundoffs = 0},
    {.name = kWhere,
     .arity = 3,
     .course = Course::choice,
     .of = [](D c, D x, D y) { return c != 0 ? x : y; },
     .roundoffs = 0},
    chosen("min", "smaller", 2, smaller),
    chosen("max", "larger", 2, larger),
    chosen("clamp", "clamped", 3, clamped),
    chosen("relu", "relu", 1, [](D x, D, D) { return x < 0 ? 0 : x; }),
    chosen("round", "nearest", 1, [](D x, D, D) { return std::nearbyint(x); }),
    valley("abs", "absolute", 0, 0, [](D x, D, D) { return std::fabs(x); }),
    of_exponential(rising("exp", "exponential", 8, [](D x, D, D) { return std::exp(x); })),
    of_positive(rising("log", "logarithm", 8, [](D x, D, D) { return std::log(x); }),
                Course::rising),
    of_positive(rising("sqrt", "root", 2, [](D x, D, D) { return std::sqrt(x); }), Course::rising),
    of_positive(rising("rsqrt", "inverse_root", 6, [](D x, D, D) { return 1 / std::sqrt(x); }),
                Course::falling),
    of_exponential(rising("tanh", "tangent", 8, [](D x, D, D) { return std::tanh(x); })),
    of_exponential(rising("erf", "error_function", 8, [](D x, D, D) { return std::erf(x); })),
    of_exponential(rising("sigmoid", "sigmoid", 12, sigmoid)),
    of_exponential(valley("silu", "silu", 16, -1.2784645427610738, silu)),
    of_exponential(valley("gelu", "gelu_tanh", 16, -0.752461410862257, gelu)),
    of_exponential(valley("gelu_erf", "gelu_erf", 16, -0.7517915246935645, gelu_erf)),
};
const int kFunctionCount = static_cast<int>(std::size(kFunctions));

int function_named(std::string_view name) {
  for (int i = 0; i < kFunctionCount; ++i)
    if (kFunctions[i].name == name && kFunctions[i].infix.empty() && name != kNegate) return i;
  return -1;
}

int operator_named(std::string_view infix) {
  for (int i = 0; i < kFunctionCount; ++i)
    if (!infix.empty() && kFunctions[i].infix == infix) return i;
  return -1;
}

}  // namespace kiln::expression
