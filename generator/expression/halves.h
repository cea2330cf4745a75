// An expression that reads what it reduces, `s[m]=max(abs(acc));d=acc/s[m]`, as two without such
// values: what kernels compute behind the product, and what a step behind the reductions computes.
// Knows programs; knows no memory.
#pragma once

#include <cstdint>
#include <vector>

#include "generator/expression/program.h"

namespace kiln::expression {

/// Both halves have the operands and the outputs of the whole under the same numbers.
struct Halves {
  /// What kernels compute. Behind the outputs of the whole stand the reductions that `behind`
  /// reads, and the value of each element that it reads, if it does.
  Program product;
  /// Behind the operands of the whole stand those reductions and that value.
  Program behind;
  std::size_t outputs = 0;  // of the whole
  std::size_t lines = 0;    // reductions that `behind` reads
  bool keeps = false;       // whether it reads a value of each element
  /// Which of the outputs of `product` an operand of `behind` is, by its number behind the whole's.
  std::size_t output_of(std::size_t read) const { return outputs + read; }
  /// Whether `behind` stores something of each element, something of rows and of columns.
  bool stores_elements = false, stores_rows = false, stores_columns = false;
};

/// Whether what output i of a product's half reduces, of rows or of columns, is the value that it
/// keeps of each element: both are the same memory where kernels leave a value of each element.
bool shares_kept(const Program& product, std::size_t i);

/// Of a program that reads what it reduces.
Halves halves_of(const Program& whole);

/// Outputs of `product` that its kernels need beside those of the whole.
int hidden_outputs(const Program& whole);

}  // namespace kiln::expression
