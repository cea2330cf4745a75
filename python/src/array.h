// Arrays of Python as a call sees them: NumPy's, those of any library that speaks DLPack, and those
// with __cuda_array_interface__. Nothing is copied. Knows no problem and no engine.
#pragma once

#include <pybind11/numpy.h>

#include <array>
#include <span>
#include <string>

#include "kiln/dtype.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A device whose memory holds an array.
struct Place {
  enum class Kind { cpu, cuda, hip } kind = Kind::cpu;
  int index = 0;

  bool operator==(const Place&) const = default;
  /// As OpenOptions::device has it.
  std::string device() const;
};

inline constexpr int kMostDims = 3;  // a batch of matrices

/// One argument of a call. `strides` are in elements.
struct Array {
  const char* name = "";
  int least_dims = 1;  // that it must have
  void* data = nullptr;
  DType type = DType::fp32;
  int dims = 0;
  std::array<std::int64_t, kMostDims> sizes{}, strides{};
  bool writable = true;
  Place place;
  void* stream = nullptr;  // on which the array's library works, where it tells
  py::object kept;         // what owns the memory, where that is not the argument itself
};

/// Reads the argument called `name`. `stream` is where a GPU's array will be used; null: where its
/// library works (Array::stream), else the default stream. Throws Python's
/// TypeError (no array, an element type that kiln does not know) or kiln.BadInput (dimensions,
/// strides).
Array read_array(PyObject* object, const char* name, void* stream, int least_dims = 1);

/// Whether the elements lie row by row without gaps.
bool is_tight(const Array& array);

/// "(3, 4)", "(3,)".
std::string tuple_text(std::span<const std::int64_t> values);
/// "a = float32 array of shape (3, 4), strides (1, 3)", for errors.
std::string described(const Array& array);

/// The type that a text ("float32", "fp32"), a NumPy dtype or scalar type, or a dtype of another
/// library stands for. Throws TypeError, which names the argument.
DType type_from(py::handle object, const char* name);
/// The name of a type in Python's array libraries: "float32".
std::string_view python_name(DType type);

/// An array that nothing was stored to, row-major, of the library that `like` comes from, on its
/// device, which is `place`.
py::object empty_like(PyObject* like, const Place& place, int dims, const std::int64_t* sizes,
                      DType type);

}  // namespace kiln::python
