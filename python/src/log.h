// kiln's messages as Python hears them.
#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

void bind_log(py::module_& module);

}  // namespace kiln::python
