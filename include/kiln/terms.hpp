/// @file
/// Expressions (kiln/expression.hpp) written with the operators of C++:
///
///     using namespace kiln::terms;
///     const Term y = acc() + operand({"r", {Index::m, Index::n}});
///     const auto epilogue = to_expression(relu(y), {{{"q", {Index::m}}, y * y, Reduction::sum}});
///
/// is `d=relu(acc+r[m,n]);q[m]=sum((acc+r[m,n])*(acc+r[m,n]))`, where y is computed once.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kiln/expression.hpp"

namespace kiln::terms {

/// A value of an element of D. Copies are cheap; a term that is used twice is computed once.
class KILN_API Term {
 public:
  struct Node;
  Term(double number);
  /// For the functions below: a function or an operator of the language, and its arguments.
  static Term call(std::string_view name, std::vector<Term> of);
  /// For the functions below: a name of the language, with what stands behind it.
  static Term leaf(std::string_view text);
  const Node* node() const { return node_.get(); }

 private:
  explicit Term(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

/// alpha * op(A) * op(B) + beta * C.
inline Term acc() { return Term::leaf("acc"); }
/// alpha times each of a gate's two products.
inline Term acc0() { return Term::leaf("acc0"); }
inline Term acc1() { return Term::leaf("acc1"); }
/// The element's row and column in D.
inline Term row() { return Term::leaf("m"); }
inline Term column() { return Term::leaf("n"); }
/// An element of memory; equal operands are one.
KILN_API Term operand(const ExtraOperand& operand);

inline Term operator+(const Term& x, const Term& y) { return Term::call("+", {x, y}); }
inline Term operator-(const Term& x, const Term& y) { return Term::call("-", {x, y}); }
inline Term operator*(const Term& x, const Term& y) { return Term::call("*", {x, y}); }
inline Term operator/(const Term& x, const Term& y) { return Term::call("/", {x, y}); }
/// The remainder of whole numbers.
inline Term operator%(const Term& x, const Term& y) { return Term::call("%", {x, y}); }
inline Term operator-(const Term& x) { return Term::call("negate", {x}); }

/// What where() chooses by.
struct Comparison {
  std::string_view sign;
  Term x, y;
};
inline Comparison operator<(const Term& x, const Term& y) { return {"<", x, y}; }
inline Comparison operator<=(const Term& x, const Term& y) { return {"<=", x, y}; }
inline Comparison operator>(const Term& x, const Term& y) { return {">", x, y}; }
inline Comparison operator>=(const Term& x, const Term& y) { return {">=", x, y}; }
inline Comparison operator==(const Term& x, const Term& y) { return {"==", x, y}; }
inline Comparison operator!=(const Term& x, const Term& y) { return {"!=", x, y}; }
inline Term where(const Comparison& c, const Term& yes, const Term& no) {
  return Term::call("where", {Term::call(c.sign, {c.x, c.y}), yes, no});
}

/// @name The functions of the language
/// @{
inline Term min(const Term& x, const Term& y) { return Term::call("min", {x, y}); }
inline Term max(const Term& x, const Term& y) { return Term::call("max", {x, y}); }
inline Term clamp(const Term& x, const Term& low, const Term& high) {
  return Term::call("clamp", {x, low, high});
}
inline Term abs(const Term& x) { return Term::call("abs", {x}); }
inline Term exp(const Term& x) { return Term::call("exp", {x}); }
inline Term log(const Term& x) { return Term::call("log", {x}); }
inline Term sqrt(const Term& x) { return Term::call("sqrt", {x}); }
inline Term rsqrt(const Term& x) { return Term::call("rsqrt", {x}); }
inline Term tanh(const Term& x) { return Term::call("tanh", {x}); }
inline Term erf(const Term& x) { return Term::call("erf", {x}); }
inline Term sigmoid(const Term& x) { return Term::call("sigmoid", {x}); }
inline Term silu(const Term& x) { return Term::call("silu", {x}); }
inline Term gelu(const Term& x) { return Term::call("gelu", {x}); }
inline Term gelu_erf(const Term& x) { return Term::call("gelu_erf", {x}); }
inline Term relu(const Term& x) { return Term::call("relu", {x}); }
inline Term round(const Term& x) { return Term::call("round", {x}); }
inline Term square(const Term& x) { return Term::call("square", {x}); }
inline Term sign(const Term& x) { return Term::call("sign", {x}); }
inline Term expm1(const Term& x) { return Term::call("expm1", {x}); }
inline Term log1p(const Term& x) { return Term::call("log1p", {x}); }
inline Term softplus(const Term& x) { return Term::call("softplus", {x}); }
inline Term logsigmoid(const Term& x) { return Term::call("logsigmoid", {x}); }
inline Term mish(const Term& x) { return Term::call("mish", {x}); }
inline Term quick_gelu(const Term& x) { return Term::call("quick_gelu", {x}); }
inline Term hardsigmoid(const Term& x) { return Term::call("hardsigmoid", {x}); }
inline Term hardswish(const Term& x) { return Term::call("hardswish", {x}); }
inline Term relu6(const Term& x) { return Term::call("relu6", {x}); }
inline Term leaky_relu(const Term& x, const Term& a) { return Term::call("leaky_relu", {x, a}); }
inline Term elu(const Term& x, const Term& a) { return Term::call("elu", {x, a}); }
inline Term selu(const Term& x) { return Term::call("selu", {x}); }
inline Term softsign(const Term& x) { return Term::call("softsign", {x}); }
inline Term softcap(const Term& x, const Term& c) { return Term::call("softcap", {x, c}); }
/// The nearest value of the type: bf16, fp16, fp32, fp8_e4m3 or s8.
inline Term cast(const Term& x, DType type) { return Term::call(name(type), {x}); }
inline Term random(const Term& seed, const Term& x, const Term& y) {
  return Term::call("random", {seed, x, y});
}
/// @}

/// One value of the elements of each row (`per` = {Index::m}), of each column (n) or of all (none).
/// `x` may not be made of such values.
KILN_API Term reduced(Reduction how, const Term& x, const std::vector<Index>& per);
/// One value of each `size` neighbours of a row: 2, 4, … or 128. `x` may not be made of such
/// values.
KILN_API Term reduced_of_blocks(Reduction how, const Term& x, std::int64_t size);
/// Of each two neighbours of a row the value in the even column, in the odd one.
inline Term even(const Term& x) { return reduced_of_blocks(Reduction::even, x, 2); }
inline Term odd(const Term& x) { return reduced_of_blocks(Reduction::odd, x, 2); }
/// x in even columns, y in odd ones.
inline Term pair(const Term& x, const Term& y) { return Term::call("pair", {x, y}); }

/// What is stored beside D.
struct Stored {
  ExtraOperand target;
  Term value;
  /// Over the indices of m and n that the target lacks; none: `value` is what is stored.
  Reduction reduction = Reduction::none;
};

/// D gets `d`. Operands and outputs are in the order of Expression::operands() and outputs().
/// Errors: as of Expression::parse(), with the column of the text that the terms are.
KILN_API Result<Expression> to_expression(const Term& d, const std::vector<Stored>& beside = {});
/// The same without a D.
KILN_API Result<Expression> to_expression(const std::vector<Stored>& stored);

}  // namespace kiln::terms
