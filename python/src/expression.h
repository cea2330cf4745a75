// The operands of an expression among the arguments of a call: their types and layouts become the
// expression's. Knows no engine.
#pragma once

#include <functional>
#include <vector>

#include "array.h"
#include "kiln/engine.hpp"

namespace kiln::python {

/// An argument whose name is none of matmul()'s own.
struct NamedArgument {
  PyObject* name;
  PyObject* value;
};

/// What is known of a call when its expression is read.
struct ExpressionCall {
  const Gemm& gemm;  ///< with sizes and types
  Place place;
  /// The argument of this name, or null.
  std::function<PyObject*(const char*)> argument;
  /// Reads an array of the call's device.
  std::function<Array(PyObject*, const char*)> read;
  /// Makes the array of an output that is not given; empty: the call is only described.
  std::function<py::object(const std::vector<std::int64_t>& shape, DType type)> make;
};

/// `parsed` with the types and leading dimensions of its operands and outputs; their pointers go to
/// `operands`, numbers of Python to `numbers`, which must not move until the call is over, and what
/// is stored beside D to `results`, by name. Throws Python's
/// TypeError (an operand is missing, or of another type) and kiln.BadInput (a shape, strides).
Expression expression_of(const Expression& parsed, const ExpressionCall& call, Operands& operands,
                         std::vector<double>& numbers, py::dict& results);

void bind_expression(py::module_& module);

}  // namespace kiln::python
