// An expression that reads what it reduces, `s[m]=max(abs(acc));d=acc/s[m]`, as two without such
// values: what kernels compute behind the product, and what a step behind the reductions computes.
// Blocks of lines are reduced by that step itself. Knows programs; knows no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "generator/expression/program.h"

namespace kiln::expression {

/// Both halves have the operands and the outputs of the whole under the same numbers.
struct Halves {
  /// What kernels compute. Behind the outputs of the whole stand the reductions that `behind`
  /// reads, and the values of each element that it reads.
  Program product;
  /// The same where D has that value, in memory and of a type of its own, while the step behind
  /// stores the caller's D: not empty where there is such a value and kernels store no other D.
  Program product_in_d;
  /// What `behind` reads that is reduced of blocks, an output each. Its operands are those of
  /// `behind`, of which it reads the first ones.
  Program blocks;
  /// Behind the operands of the whole stand those reductions, those values, and those of blocks.
  Program behind;
  std::size_t outputs = 0;  // of the whole
  std::size_t lines = 0;    // reductions of whole lines that `behind` reads
  /// Values of each element that it reads, one for each product at most; the target of an output of
  /// `product` that is one has a type where that is a cast to 16 bits, which keep it.
  std::size_t kept = 0;
  /// Which of the outputs of `product` an operand of `behind` is, by its number behind the whole's.
  std::size_t output_of(std::size_t read) const { return outputs + read; }
  /// Which output of `product` is the first value of each element that `behind` reads.
  std::size_t first_kept() const { return outputs + lines; }
  /// Which operand of `behind` the first value of a block is.
  std::size_t first_block() const { return behind.operands.size() - blocks.outputs.size(); }
  /// Whether `behind` stores something of each element, something of rows and of columns.
  bool stores_elements = false, stores_rows = false, stores_columns = false;
};

/// Of what kernels compute: whether D is the first value of each element that the step behind
/// reads.
bool keeps_in_d(const Expression& product);

/// What output i of a product's half reduces, of rows or of columns, may be a value that it keeps
/// of each element: which output that is. Both are the same memory where kernels leave a value of
/// each element. What is kept in 16 bits is memory of its own, since reductions read values.
std::optional<std::size_t> shared_kept(const Program& product, std::size_t i);

/// Whether output i of a product's half is the value that it keeps of each element, in 16 bits.
bool keeps_narrow(const Program& product, std::size_t i);

/// Whether all that it reads of what it reduces is of pairs of neighbours along n: threads that
/// hold both need no step behind.
bool reads_pairs_alone(const Expression& expression);

/// Of what kernels compute: whether all that is reduced is of rows, and a step follows, which then
/// reduces each row itself.
bool reduces_rows_behind(const Expression& product);

/// What such an expression reduces, an output for each Op::reduced.
Program shown_to_neighbours(const Program& whole);

/// Of a program that reads what it reduces.
Halves halves_of(const Program& whole);

/// Outputs of `product` that its kernels need beside those of the whole.
int hidden_outputs(const Program& whole);

}  // namespace kiln::expression
