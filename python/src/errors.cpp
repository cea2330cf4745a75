#include "errors.h"

#include <pybind11/pybind11.h>

namespace kiln::python {
namespace {

namespace py = pybind11;

const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input:
      return "BadInput";
    case ErrorCode::unsupported:
      return "Unsupported";
    case ErrorCode::device:
      return "DeviceError";
    case ErrorCode::compiler:
      return "CompilerError";
    case ErrorCode::database:
      return "DatabaseError";
    case ErrorCode::not_tuned:
      return "NotTuned";
    case ErrorCode::verification:
      return "VerificationError";
    case ErrorCode::internal:
      return "InternalError";
  }
  return "InternalError";
}

}  // namespace

void raise_error(const Error& error) {
  const py::object type = py::module_::import("kiln.errors").attr(class_of(error.code));
  PyErr_SetObject(type.ptr(), py::str(error.message).ptr());
  throw py::error_already_set();
}

void raise_bad_input(std::string message) {
  raise_error({.code = ErrorCode::bad_input, .message = std::move(message)});
}

void raise_type_error(const std::string& message) {
  PyErr_SetString(PyExc_TypeError, message.c_str());
  throw py::error_already_set();
}

}  // namespace kiln::python
