// The Engine as a Python object, and the engines of calls that name none. Python's lock is released
// wherever kiln may compute, wait or end.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "array.h"
#include "kiln/engine.hpp"

namespace kiln::python {

class EngineObject {
 public:
  explicit EngineObject(OpenOptions options);

  /// Callers keep it while they use it: another thread may close this object meanwhile. Throws
  /// BadInput when it is closed.
  std::shared_ptr<Engine> engine() const;
  /// The last caller that uses the engine ends it.
  void close() { engine_.reset(); }
  bool closed() const { return engine_ == nullptr; }
  const std::string& device() const { return device_; }

 private:
  std::string device_;
  std::shared_ptr<Engine> engine_;
};

/// `given`, or where it is null that of all calls on this device that name none, opened by the
/// first of them. Throws TypeError, BadInput (closed), and what opening throws.
std::shared_ptr<Engine> engine_of(PyObject* given, const Place& place);
/// Ends the engines that engine_of() opened; the next call opens them anew.
void close_default_engines();

void bind_engine(py::module_& module);

}  // namespace kiln::python
