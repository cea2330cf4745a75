// tune(), explain() and packing, with Python's Ctrl-C and callbacks.
#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

void bind_tune(pybind11::module_& module);

}  // namespace kiln::python
