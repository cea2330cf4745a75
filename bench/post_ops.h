// What follows a product as a chain of oneDNN's post-ops. Pure functions over problems; knows no
// library.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "generator/problem/operand.h"
#include "generator/problem/problem.h"

namespace kiln::onednn {

/// Functions of one number, then those of two.
enum class Algorithm : std::uint8_t {
  relu,
  tanh,
  square,
  abs,
  sqrt,
  linear,  // alpha x + beta
  logistic,
  exp,
  gelu_tanh,
  swish,  // x logistic(alpha x)
  log,
  clip,  // to alpha .. beta
  gelu_erf,
  round,
  add,
  multiply,
  max,
  min,
  divide,
  subtract
};
constexpr bool is_binary(Algorithm algorithm) { return algorithm >= Algorithm::add; }

/// One step: of the element so far, or of that and an element of an operand.
struct PostOp {
  Algorithm algorithm = Algorithm::linear;
  float alpha = 0, beta = 0;
  std::optional<Operand> operand = {};  // of a call
  /// Whether the operand has an element for each product of a batch, row and column.
  std::array<bool, 3> along{};
  bool column_major = false;  // of a matrix
};

/// In order; empty where nothing follows. Nothing: oneDNN has no such chain (several outputs, what
/// lines are reduced to, an element that is used twice, a function that it lacks).
std::optional<std::vector<PostOp>> post_ops(const Problem& problem);

}  // namespace kiln::onednn
