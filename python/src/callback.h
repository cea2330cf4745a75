// A Python function that kiln calls: from whichever thread, with or without Python's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace kiln::python {

namespace py = pybind11;

class Callback {
 public:
  explicit Callback(py::object function)
      : function_(new py::object(std::move(function)), [](py::object* held) {
          const py::gil_scoped_acquire locked;
          delete held;
        }) {}

  /// What it throws is reported as that of a destructor is, and the caller goes on.
  template <typename... T>
  void report(const T&... arguments) const {
    const py::gil_scoped_acquire locked;
    try {
      (*function_)(arguments...);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable(*function_);
    }
  }

 private:
  std::shared_ptr<py::object> function_;
};

}  // namespace kiln::python
