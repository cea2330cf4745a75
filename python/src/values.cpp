#include "values.h"

#include <fmt/format.h>

#include "errors.h"

namespace kiln::python {
namespace {

[[noreturn]] void raise_no(const char* what, PyObject* object, const char* name) {
  PyErr_Clear();
  raise_type_error(fmt::format("{} = {}: must be {}", name, Py_TYPE(object)->tp_name, what));
}

}  // namespace

double number(PyObject* object, const char* name) {
  const double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) raise_no("a number", object, name);
  return value;
}

int integer(PyObject* object, const char* name) {
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(object, &overflow);
  if (value == -1 && PyErr_Occurred()) raise_no("an integer", object, name);
  if (overflow != 0 || value != static_cast<int>(value))
    raise_bad_input(fmt::format("{}: does not fit 32 bits", name));
  return static_cast<int>(value);
}

void* address(PyObject* object, const char* name) {
  void* value = PyLong_AsVoidPtr(object);
  if (value == nullptr && PyErr_Occurred()) raise_no("an address", object, name);
  return value;
}

std::string_view text(PyObject* object, const char* name) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (bytes == nullptr) raise_no("a str", object, name);
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace kiln::python
