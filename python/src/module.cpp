// kiln._kiln: matmul() and problem() as functions of CPython's fast calling convention, since
// pybind11's takes longer than a small product; everything else by pybind11.
#include <pybind11/pybind11.h>

#include <array>
#include <string_view>

#include "engine.h"
#include "errors.h"
#include "expression.h"
#include "lock.h"
#include "log.h"
#include "problem.h"
#include "product_list.h"
#include "tune.h"

namespace kiln::python {
namespace {

struct Keyword {
  const char* name;
  PyObject* Arguments::*field;
};

constexpr Keyword kKeywords[] = {
    {"out", &Arguments::out},
    {"bias", &Arguments::bias},
    {"activation", &Arguments::activation},
    {"residual", &Arguments::residual},
    {"alpha", &Arguments::alpha},
    {"beta", &Arguments::beta},
    {"c", &Arguments::c},
    {"scale_a", &Arguments::scale_a},
    {"scale_b", &Arguments::scale_b},
    {"scale_d", &Arguments::scale_d},
    {"amax_d", &Arguments::amax_d},
    {"zero_a", &Arguments::zero_a},
    {"column_sums_b", &Arguments::column_sums_b},
    {"numerics", &Arguments::numerics},
    {"gate", &Arguments::gate},
    {"groups", &Arguments::groups},
    {"expected_rows", &Arguments::expected_rows},
    {"gather", &Arguments::gather},
    {"scatter", &Arguments::scatter},
    {"add_rows", &Arguments::add_rows},
    {"row_weights", &Arguments::row_weights},
    {"out_dtype", &Arguments::out_dtype},
    {"threads", &Arguments::threads},
    {"engine", &Arguments::engine},
    {"stream", &Arguments::stream},
    {"epilogue", &Arguments::epilogue},
    {"a", &Arguments::a},
    {"b", &Arguments::b},
};

/// The keywords as Python's own objects: names in a call are nearly always the same ones.
std::array<PyObject*, std::size(kKeywords)> g_names;

/// Null: an argument of no such name.
const Keyword* keyword(PyObject* name) {
  for (std::size_t i = 0; i < g_names.size(); ++i)
    if (g_names[i] == name) return &kKeywords[i];
  for (const Keyword& row : kKeywords)
    if (PyUnicode_CompareWithASCIIString(name, row.name) == 0) return &row;
  return nullptr;
}

Arguments arguments_of(PyObject* const* values, Py_ssize_t count, PyObject* names) {
  if (count > 2) raise_type_error("only a and b are positional arguments");
  Arguments arguments;
  if (count > 0) arguments.a = values[0];
  if (count > 1) arguments.b = values[1];
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    const Keyword* const row = keyword(name);
    // An operand of the epilogue may be called as one of the product.
    if (row == nullptr || arguments.*row->field != nullptr)
      arguments.named.push_back({name, values[count + i]});
    else if (values[count + i] != Py_None)
      arguments.*row->field = values[count + i];
  }
  if (!arguments.named.empty() && arguments.epilogue == nullptr) {
    PyObject* const name = arguments.named.front().name;
    if (const Keyword* const row = keyword(name))
      raise_type_error(std::string(row->name) + " is given twice");
    raise_type_error(
        std::string("unexpected argument ").append(py::cast<std::string>(py::repr(name))));
  }
  if (arguments.a == nullptr || arguments.b == nullptr) raise_type_error("a and b are needed");
  return arguments;
}

/// What `f` returns, or null and its exception as Python's.
template <typename F>
PyObject* guarded(const F& f) noexcept {
  try {
    return f().release().ptr();
  } catch (const ForcedUnwind&) {  // of Python's code that arrays run: lock.h says why
    hang();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* matmul(PyObject*, PyObject* const* values, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> py::object {
    const Arguments arguments = arguments_of(values, count, names);
    Call call = call_of(arguments, Output::allocated);
    const auto engine = engine_of(arguments.engine, call.place);
    value_or_raise(without_lock([&] { return engine->gemm(call.gemm, call.operands); }));
    if (call.results.empty()) return std::move(call.out);
    if (call.out) call.results["d"] = std::move(call.out);
    return std::move(call.results);
  });
}

PyObject* problem(PyObject*, PyObject* const* values, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> py::object {
    const Call call = call_of(arguments_of(values, count, names), Output::described);
    value_or_raise(validate(call.gemm));
    return py::make_tuple(text(call.gemm), call.place.device());
  });
}

constexpr const char* kMatmul =
    R"(matmul(a, b, *, out=None, bias=None, activation=None, residual=None, alpha=1.0, beta=0.0, c=None, scale_a=None, scale_b=None, scale_d=None, amax_d=None, zero_a=None, column_sums_b=None, numerics="ieee", gate=None, groups=None, expected_rows=None, gather=None, scatter=None, add_rows=False, row_weights=None, out_dtype=None, threads=0, engine=None, stream=None, epilogue=None, **operands)
--

``activation(alpha * a @ b + beta * c + bias) + residual``, in ``out`` or a new array; with a gate,
``gate(x) * y + residual``, where x and y are the halves of ``alpha * a @ b + bias``.

``a`` is [m, k] and ``b`` [k, n], or one or both are batches: [batch, m, k], [batch, k, n]. Where
only ``a`` is one, its matrices lie one behind the other. ``b`` may be a `PackedB`. Of both,
``out``, ``c`` and ``residual``, rows or columns have adjacent elements (so a transposed array is
as good), and rows, columns and batches may lie further apart than they need to. Nothing is copied:
other strides raise ValueError.

- ``alpha``, ``beta``: numbers. With ``beta=0`` nothing of ``c`` counts; ``alpha=0`` is a factor like any
  other, unlike in BLAS: a NaN or an infinity in ``a`` or ``b`` makes NaN in ``out``.
- ``out``: overlaps no other array but ``c``, which may be the same one.
- ``bias``: shape (n,), or (m, 1) for a value a row; float32 (float64 where ``out`` is), or
  of ``out``'s dtype where that is float16 or bfloat16.
- ``activation``: "relu", "gelu" (tanh), "gelu_erf" or "silu".
- ``residual``: of the shape, dtype and strides of ``out``.
- ``c``: of the shape, dtype and order of ``out``; needs ``beta``.
- ``scale_a``, ``scale_b`` (of eight bits; integers have the first two shapes): float32 of shape (), (lines,), (lines, k / 128)
  or (lines / 128, k / 128), or uint8 of shape (lines, k / 32), rounded up; a line is a row of ``a`` or a
  column of ``b``. They are contiguous; of shape (lines, k / 128) they may have strides (1, lines) instead,
  or (1, lines rounded up to a multiple of 4). A batch comes before that, and groups, but those along k share scales of blocks. A
  ``b`` of float8_e4m3fn or int8 beside an ``a`` of 16 bits holds weights: ``scale_b`` is float32,
  bfloat16 or float16, of shape (n,), (n, k / 32), (n, k / 64), (n, k / 128) or (n / 128, k / 128),
  k being whole groups, or of MXFP8 uint8 of shape (n, k / 32).
- ``scale_d``: float32 scales of an ``out`` of float8_e4m3fn or int8, whose values are code times
  scale. One of shape () is read. Those of shape (m,), one a row, or (m, n / 128), rounded up, are
  written: the largest magnitude of the elements that share one by 448 or 127. A batch comes before
  that. There is no ``c`` and no ``residual``.
- ``amax_d``: float32 of shape () or (1,), written: the largest magnitude of ``out``, before it is
  rounded and divided by a scale; NaN where one element is. ``out`` is of floats, or has one scale.
- ``zero_a`` (int8 and uint8 with ``scale_a``): int32 of shape () or (m,), zero points of ``a``, whose
  values are (code - zero point) times scale; and ``column_sums_b``, the int32 sums of ``b``'s columns,
  of shape (n,). A batch comes before either, ``groups`` before the sums.
- ``numerics``: "fast" lets 8-bit floats be summed in a tensor core's accumulator along all of k, and
  weights times their scales be rounded to ``a``'s type; "tensor" lets tensor cores multiply float32 in parts.
- ``gate``: "relu", "gelu", "gelu_erf", "silu" or "sigmoid"; ``b`` then has 2n columns, those of x
  before those of y, or alternately with ":interleaved" behind the name. ``bias`` has shape (2n,), and
  there is no ``c`` and no ``activation``.
- ``groups`` (int32, one for each of ``b``'s [groups, k, n] matrices, in memory of the device): ``a``
  is [m, k] with the rows of all groups, and ``groups`` has the row behind the last one of each; or
  ``a`` is [groups, m, k], and ``groups`` has the number of rows that count. Other rows of ``out``
  are not written. Or ``a`` is [m, k] and ``b`` [k, n] with the k of all groups, ``groups`` has the
  index along k behind the last one of each, and ``out`` is [groups, m, n]. ``bias`` has shape
  (groups, n).
- ``expected_rows``: of a group, on average, where ``a`` is [groups, m, k]: kernels are chosen for so
  many. Any number is computed; m / 2 where it is not given.
- ``gather`` (int32, contiguous, in memory of the device; with ``groups`` and one ``a``): row r of the
  product is computed of row ``gather[r]`` of ``a``, so ``gather`` has as many as there are rows.
- ``scatter`` (likewise): row r is written to row ``scatter[r]`` of ``out``, which must be given. Rows
  that are of a group have a row of ``out`` each; there is no ``c`` and no ``residual``.
- ``add_rows`` (with ``scatter``): row r is added to row ``scatter[r]`` of ``out`` instead, in the order
  of r and in float32 (float64), times ``row_weights[r]`` where these are given (float32, contiguous, in
  memory of the device; ``add_rows`` may then be left out). Other rows of ``out`` become 0. A negative
  ``scatter[r]`` adds row r to none. ``beta * c`` is added once to each row of ``out``. Of a bias the
  dtype is float32 (float64).
- ``out_dtype``: where ``out`` is not given. int8 gives int32, 8-bit floats bfloat16, others their own.
- ``threads``: 0 is the engine's number.
- ``engine``: where none is given, one of the whole process.
- ``stream``: a cudaStream_t or hipStream_t as an integer, for arrays of a GPU.
- ``epilogue``: any function of the product's elements, in place of ``bias``, ``activation``,
  ``residual`` and ``gate``: "d=gelu(acc+b[n])*s[m]+r[m,n]", where ``acc`` is an element of
  ``alpha * a @ b + beta * c``. With ``acc0`` and ``acc1``, as in "d=silu(acc0)*acc1", it is a gate:
  ``b`` has 2n columns (see ``gate``; ``gate="expression:interleaved"`` where they alternate). Its operands are further arguments, by their names: arrays whose
  shape is what their indices say, of float32, float64, float16 or bfloat16; what has no index may
  be a number, which on a GPU is ``s[]:host`` (that takes whatever ``float()`` takes). Where it stores beside ``out``, as in ``d=acc;q[m]=sum(acc)``, the call returns a
  dictionary of all that it stores, ``d`` among them; arrays that are given by these names are written. Of this function's own arguments ``a``, ``b``, ``bias`` and ``residual``
  may be names of operands. docs/guide/expressions.md has the language. Or a function of ``acc`` and
  the operands, of `kiln.expressions`.

The same call gives the same bits. Other Python threads run meanwhile.

>>> import numpy as np
>>> x, w = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
>>> matmul(x, w.T, bias=np.array([-9, 0, 1, 2], np.float32), activation="relu")
array([[0., 3., 4., 5.],
       [0., 3., 4., 5.]], dtype=float32)
>>> matmul(x, w.T, epilogue='d=max(acc*s[m],low[])', s=np.array([1, 3], np.float32), low=4)
array([[4., 4., 4., 4.],
       [9., 9., 9., 9.]], dtype=float32)
)";

PyMethodDef g_functions[] = {
    {"matmul", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&matmul)),
     METH_FASTCALL | METH_KEYWORDS, kMatmul},
    {"problem", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&problem)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PYBIND11_MODULE(_kiln, module) {
  for (std::size_t i = 0; i < g_names.size(); ++i)
    g_names[i] = PyUnicode_InternFromString(kKeywords[i].name);
  bind_lock(module);
  bind_engine(module);
  bind_expression(module);
  bind_log(module);
  bind_product_list(module);
  bind_tune(module);
  if (PyModule_AddFunctions(module.ptr(), g_functions) != 0) throw py::error_already_set();
  module.attr("version") = version();
}

}  // namespace kiln::python
