// From the arguments of matmul() to kiln's problem and operands: shapes, layouts, epilogue, scales.
// Copies lists of integers on the CPU alone. Knows no engine.
#pragma once

#include <cstdint>
#include <vector>

#include "array.h"
#include "expression.h"
#include "kiln/engine.hpp"

namespace kiln::python {

/// The arguments of matmul(), borrowed; null: not given.
struct Arguments {
  PyObject* a = nullptr;
  PyObject* b = nullptr;
  PyObject* out = nullptr;
  PyObject* bias = nullptr;
  PyObject* activation = nullptr;
  PyObject* residual = nullptr;
  PyObject* alpha = nullptr;
  PyObject* beta = nullptr;
  PyObject* c = nullptr;
  PyObject* scale_a = nullptr;
  PyObject* scale_b = nullptr;
  PyObject* scale_d = nullptr;
  PyObject* amax_d = nullptr;
  PyObject* zero_a = nullptr;
  PyObject* column_sums_b = nullptr;
  PyObject* numerics = nullptr;
  PyObject* gate = nullptr;
  PyObject* groups = nullptr;
  PyObject* expected_rows = nullptr;
  PyObject* gather = nullptr;
  PyObject* scatter = nullptr;
  PyObject* add_rows = nullptr;
  PyObject* row_weights = nullptr;
  PyObject* out_dtype = nullptr;
  PyObject* threads = nullptr;
  PyObject* stream = nullptr;
  PyObject* engine = nullptr;
  PyObject* epilogue = nullptr;
  std::vector<NamedArgument> named;  // the epilogue's operands
};

/// A B that was packed, as Python holds it.
struct PackedObject {
  PackedB packed;
  DType type;
  int dims;
  std::int64_t batch, k, n;

  /// As what was packed, without its memory.
  Array as_array() const;
};

/// The packed B that an argument is, or null.
const PackedObject* packed_in(PyObject* object);

/// One call: what gemm() is told, and what has to live until it returns.
struct Call {
  Gemm gemm;
  Operands operands;
  Place place;
  py::object out;
  std::vector<py::object> kept;
  /// Copies of a CPU's lists, whose numbers become addresses: other threads may write an array
  /// while the call has left the interpreter's lock.
  std::vector<std::vector<std::int32_t>> lists;
  /// An expression's, which its operands point to.
  std::vector<double> numbers;
  py::dict results;  // what it stores beside D, by name
};

/// Whether a call gets memory for D where `out` is not given.
enum class Output { allocated, described };

/// Throws Python's exceptions: TypeError, kiln.BadInput with the argument, its shape and strides.
Call call_of(const Arguments& arguments, Output output);

/// The problem of packing b (as PackedB(b) has it), and b's memory.
struct Packing {
  Gemm gemm;
  Array b;
};
Packing packing_of(PyObject* b);

}  // namespace kiln::python
