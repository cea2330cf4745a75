#include "generator/expression/functions.h"

#include <iterator>

namespace kiln::expression {
namespace {

/// Of an operator, whose implementations are the compilers'.
constexpr Function infix(int function, std::string_view name, std::string_view sign, Course course,
                         int binds, double roundoffs) {
  return {.function = function,
          .name = name,
          .arity = 2,
          .course = course,
          .roundoffs = roundoffs,
          .infix = sign,
          .binds = binds};
}
/// Of two numbers.
constexpr Function comparison(int function, std::string_view name, std::string_view sign) {
  return infix(function, name, sign, Course::comparison, kBindsComparison, 0);
}
/// Of one number, which rises and is off by so many roundoffs.
constexpr Function rising(int function, std::string_view name, std::string_view code,
                          double roundoffs) {
  return {.function = function,
          .name = name,
          .arity = 1,
          .course = Course::rising,
          .roundoffs = roundoffs,
          .code = code};
}
/// Falls up to `lowest`. x times a factor from 0 to 1 that may be off by so many roundoffs of 1.
constexpr Function valley(int function, std::string_view name, std::string_view code,
                          double of_argument, double lowest) {
  Function row = rising(function, name, code, of_argument == 0 ? 0 : 1);
  row.course = Course::valley;
  row.of_argument = of_argument;
  row.lowest = lowest;
  return row;
}
/// Made of e^x.
constexpr Function of_exponential(Function row) {
  row.exponential = true;
  return row;
}
/// Of numbers from 0 on.
constexpr Function of_positive(Function row, Course course) {
  row.course = course;
  row.domain = 0;
  return row;
}
/// So many instructions of a GPU's thread: read from the sizes of a kernel's code for sm_90a with
/// the function and without.
constexpr Function of_work(double work, Function row) {
  row.work = work;
  return row;
}
/// Of several numbers, in each of which it rises; exact.
constexpr Function chosen(int function, std::string_view name, std::string_view code, int arity) {
  Function row = rising(function, name, code, 0);
  row.arity = arity;
  return row;
}

}  // namespace

// What an implementation may be off is what those of templates are seen to be, twice over.
constexpr Function kFunctions[] = {
    infix(function_add, "add", "+", Course::sum, kBindsSum, 1),
    infix(function_subtract, "subtract", "-", Course::difference, kBindsSum, 1),
    infix(function_multiply, "multiply", "*", Course::product, kBindsProduct, 1),
    of_work(8, infix(function_divide, "divide", "/", Course::quotient, kBindsProduct, 4)),
    comparison(function_less, "less", "<"),
    comparison(function_at_most, "at_most", "<="),
    comparison(function_more, "more", ">"),
    comparison(function_at_least, "at_least", ">="),
    comparison(function_equal, "equal", "=="),
    comparison(function_differ, "differ", "!="),
    {.function = function_negate,
     .name = kNegate,
     .arity = 1,
     .course = Course::falling,
     .roundoffs = 0},
    {.function = function_where,
     .name = kWhere,
     .arity = 3,
     .course = Course::choice,
     .roundoffs = 0},
    of_work(2, chosen(function_min, "min", "smaller", 2)),
    of_work(2, chosen(function_max, "max", "larger", 2)),
    of_work(5, chosen(function_clamp, "clamp", "clamped", 3)),
    chosen(function_relu, "relu", "relu", 1),
    chosen(function_round, "round", "nearest", 1),
    valley(function_abs, "abs", "absolute", 0, 0),
    of_work(7, of_exponential(rising(function_exp, "exp", "exponential", 8))),
    of_work(24, of_positive(rising(function_log, "log", "logarithm", 8), Course::rising)),
    of_work(14, of_positive(rising(function_sqrt, "sqrt", "root", 2), Course::rising)),
    of_work(3, of_positive(rising(function_rsqrt, "rsqrt", "inverse_root", 6), Course::falling)),
    of_work(16, of_exponential(rising(function_tanh, "tanh", "tangent", 8))),
    of_work(20, of_exponential(rising(function_erf, "erf", "error_function", 8))),
    of_work(12, of_exponential(rising(function_sigmoid, "sigmoid", "sigmoid", 12))),
    of_work(4, of_exponential(valley(function_silu, "silu", "silu", 16, -1.2784645427610738))),
    of_work(8, of_exponential(valley(function_gelu, "gelu", "gelu_tanh", 16, -0.752461410862257))),
    of_work(47, of_exponential(
                    valley(function_gelu_erf, "gelu_erf", "gelu_erf", 16, -0.7517915246935645))),
    {.function = function_remainder,
     .name = "remainder",
     .arity = 2,
     .course = Course::remainder,
     .roundoffs = 0,
     .work = 4,
     .code = "remainder",
     .infix = "%",
     .binds = kBindsProduct},
    {.function = function_random,
     .name = "random",
     .arity = 3,
     .course = Course::drawn,
     .roundoffs = 0,
     .work = 6,
     .code = "drawn"},
    // Casts have the names of their types.
    chosen(function_fp32, "fp32", "to_fp32", 1),
    of_work(2, chosen(function_fp16, "fp16", "to_fp16", 1)),
    of_work(2, chosen(function_bf16, "bf16", "to_bf16", 1)),
    of_work(4, chosen(function_e4m3, "fp8_e4m3", "to_e4m3", 1)),
    of_work(5, chosen(function_s8, "s8", "to_s8", 1)),
};
const int kFunctionCount = static_cast<int>(std::size(kFunctions));
static_assert([] {
  for (int i = 0; i < static_cast<int>(std::size(kFunctions)); ++i)
    if (kFunctions[i].function != i) return false;
  return true;
}());

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
