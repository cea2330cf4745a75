// A Python function that kiln calls: from whichever thread, with or without Python's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "lock.h"

namespace kiln::python {

namespace py = pybind11;

class Callback {
 public:
  explicit Callback(py::object function)
      : function_(new py::object(std::move(function)), [](py::object* held) {
          with_lock([&] { delete held; });  // where Python has ended, its objects have as well
        }) {}

  /// What it throws is reported as that of a destructor is, and the caller goes on. Nothing is
  /// called when Python ends.
  template <typename... T>
  void report(const T&... arguments) const {
    with_lock([&] {
      try {
        call_python(*function_, py::make_tuple(arguments...));
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable(*function_);
      } catch (const py::cast_error& error) {
        error.set_error();
        PyErr_WriteUnraisable(function_->ptr());
      }
    });
  }

 private:
  std::shared_ptr<py::object> function_;
};

}  // namespace kiln::python
