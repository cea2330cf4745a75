// Objects of Python whose __init__ never ran, as X.__new__(X) makes them: pybind11 would give them
// memory that nothing was written to.
#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include "errors.h"

namespace kiln::python {

namespace py = pybind11;

/// The T of an object. Throws TypeError where it is none, or was never made. `what` names the
/// class.
template <typename T>
T& made(py::handle object, const char* what) {
  if (!py::isinstance<T>(object))
    raise_type_error(fmt::format("{}: must be a kiln.{}", Py_TYPE(object.ptr())->tp_name, what));
  auto* const instance = reinterpret_cast<py::detail::instance*>(object.ptr());
  const auto* const type = py::detail::get_type_info(typeid(T), /*throw_if_missing=*/true);
  if (!instance->get_value_and_holder(type).holder_constructed())
    raise_type_error(fmt::format("{}.__init__ was not called", what));
  return py::cast<T&>(object);
}

/// A class whose objects kiln alone makes: Python has no way to get one of its own.
template <typename T>
void make_nowhere_else(const py::class_<T>& type) {
  reinterpret_cast<PyTypeObject*>(type.ptr())->tp_new = nullptr;
}

}  // namespace kiln::python
