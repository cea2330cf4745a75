#include "exchange.h"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace kiln::python {
namespace {

const Exchange* find(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  PyObject* const capsule = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name);
  const void* table =
      capsule == nullptr ? nullptr : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_XDECREF(capsule);  // the type has it, for good
  if (table == nullptr) PyErr_Clear();
  return static_cast<const Exchange*>(table);
}

}  // namespace

const Exchange* Exchange::of(PyObject* object) {
  struct Known {
    PyTypeObject* type = nullptr;
    const Exchange* exchange = nullptr;
  };
  // A program has few types of arrays. Types that are kept here never end.
  static std::array<Known, 8> all;
  static std::size_t oldest = 0;
  PyTypeObject* const type = Py_TYPE(object);
  for (const Known& known : all)
    if (known.type == type) return known.exchange;
  const Exchange* found = find(type);
  if (found != nullptr && (found->version_.major != 1 || found->view_ == nullptr)) found = nullptr;
  Py_INCREF(type);
  Py_XDECREF(std::exchange(all[oldest++ % all.size()], Known{type, found}).type);
  return found;
}

bool Exchange::read(PyObject* object, DLTensor& tensor) const {
  // Its gradient would be lost silently: __dlpack__ says so in the library's own words.
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  PyObject* const asked = PyObject_GetAttr(object, name);
  const bool refused = asked != nullptr && PyObject_IsTrue(asked) != 0;
  Py_XDECREF(asked);
  if (!refused) PyErr_Clear();
  if (!refused && view_(object, &tensor) == 0) return true;
  PyErr_Clear();
  return false;
}

void* Exchange::stream(const DLDevice& device) const {
  void* stream = nullptr;
  if (stream_(device.device_type, device.device_id, &stream) != 0) throw py::error_already_set();
  return stream;
}

py::object Exchange::empty(DLTensor prototype) const {
  Managed* made = nullptr;
  std::string why = "no tensor could be made";
  const auto note = [](void* context, const char* kind, const char* message) {
    *static_cast<std::string*>(context) = std::string(kind) + ": " + message;
  };
  if (allocate_(&prototype, &made, &why, note) != 0) throw std::runtime_error(why);
  void* object = nullptr;
  if (to_object_(made, &object) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
}

}  // namespace kiln::python
