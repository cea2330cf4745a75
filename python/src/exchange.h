// DLPack's table of C functions, by which PyTorch (2.10) and others give their tensors, streams and
// new tensors without calls of Python. Knows no problem and no engine.
#pragma once

#include <dlpack/dlpack.h>
#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// As DLPack 1.3 defines it; Debian's header is older.
class Exchange {
 public:
  /// The table of an object's type. Null: it has none that is known here.
  static const Exchange* of(PyObject* object);

  /// The tensor, without waiting for its stream; valid while nothing of its library runs. False: it
  /// cannot be given so (it has a gradient, say), and no exception is set.
  bool read(PyObject* object, DLTensor& tensor) const;
  /// The stream on which the library works now on this device. Throws Python's exception.
  void* stream(const DLDevice& device) const;
  /// A new tensor of this shape, type and device, row-major. Throws Python's exception.
  py::object empty(DLTensor prototype) const;

 private:
  struct Managed;
  struct Version {
    std::uint32_t major, minor;
  };

  Version version_;
  const void* previous_;
  int (*allocate_)(DLTensor*, Managed**, void* context,
                   void (*set_error)(void* context, const char* kind, const char* message));
  int (*from_object_)(void*, Managed**);
  int (*to_object_)(Managed*, void**);
  int (*view_)(void*, DLTensor*);
  int (*stream_)(DLDeviceType, std::int32_t, void**);
};

}  // namespace kiln::python
