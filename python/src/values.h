// Plain values out of Python objects, for arguments that are read without pybind11's signatures.
// Each throws TypeError or kiln.BadInput, which names the argument.
#pragma once

#include <Python.h>

#include <string_view>

namespace kiln::python {

double number(PyObject* object, const char* name);
int integer(PyObject* object, const char* name);
/// An address that Python holds as an integer.
void* address(PyObject* object, const char* name);
/// As long as the object lives.
std::string_view text(PyObject* object, const char* name);

}  // namespace kiln::python
