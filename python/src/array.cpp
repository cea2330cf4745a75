#include "array.h"

#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "errors.h"
#include "exchange.h"
#include "lock.h"
#include "values.h"

namespace kiln::python {
namespace {

struct TypeName {
  DType type;
  std::string_view name;  // of NumPy, ml_dtypes and PyTorch
  DLDataType dlpack;
};

// Codes that DLPack 1.1 gave to the 8-bit floats; Debian's header is older.
constexpr std::uint8_t kE4m3fn = 10, kE4m3fnuz = 11, kE5m2 = 12, kE5m2fnuz = 13;

constexpr TypeName kTypes[] = {
    {DType::fp32, "float32", {kDLFloat, 32, 1}},
    {DType::fp64, "float64", {kDLFloat, 64, 1}},
    {DType::fp16, "float16", {kDLFloat, 16, 1}},
    {DType::bf16, "bfloat16", {kDLBfloat, 16, 1}},
    {DType::s8, "int8", {kDLInt, 8, 1}},
    {DType::u8, "uint8", {kDLUInt, 8, 1}},
    {DType::s32, "int32", {kDLInt, 32, 1}},
    {DType::fp8_e4m3, "float8_e4m3fn", {kE4m3fn, 8, 1}},
    {DType::fp8_e5m2, "float8_e5m2", {kE5m2, 8, 1}},
    {DType::fp8_e4m3fnuz, "float8_e4m3fnuz", {kE4m3fnuz, 8, 1}},
    {DType::fp8_e5m2fnuz, "float8_e5m2fnuz", {kE5m2fnuz, 8, 1}},
};

const TypeName* row_of(std::string_view name) {
  for (const TypeName& row : kTypes)
    if (row.name == name || kiln::name(row.type) == name) return &row;
  return nullptr;
}

[[noreturn]] void raise_unknown_type(std::string_view field, std::string_view type) {
  std::string known;
  for (const TypeName& row : kTypes) known += fmt::format(" {}", row.name);
  raise_type_error(fmt::format("{} = {}: must be one of{}", field, type, known));
}

DType numpy_type(const py::dtype& dtype, const char* name) {
  const char order = dtype.byteorder();
  if (order == '=' || order == '|') {
    switch (dtype.char_()) {
      case 'f':
        return DType::fp32;
      case 'd':
        return DType::fp64;
      case 'e':
        return DType::fp16;
      case 'b':
        return DType::s8;
      case 'B':
        return DType::u8;
      case 'i':
        return DType::s32;
      default:
        break;
    }
    if (const TypeName* row = row_of(py::str(dtype.attr("name")).cast<std::string>()))
      return row->type;
  }
  raise_unknown_type(std::string(name) + ".dtype", py::str(dtype.attr("str")).cast<std::string>());
}

/// Before anything is copied: an array of C holds what a foreign description lists.
void check_dims(const Array& array, std::int64_t dims) {
  if (dims < array.least_dims || dims > kMostDims)
    raise_bad_input(fmt::format("{} has {} dimensions: must be {} to {}", array.name, dims,
                                array.least_dims, kMostDims));
}

std::span<const std::int64_t> sizes_of(const Array& array) {
  return {array.sizes.data(), static_cast<std::size_t>(array.dims)};
}

/// What a library says of its own arrays may be wrong: no size is negative, and no array has more
/// bytes than an int64 counts, so that products of sizes do not overflow.
void check_sizes(const Array& array) {
  const std::span<const std::int64_t> sizes = sizes_of(array);
  for (const std::int64_t size : sizes)
    if (size < 0)
      raise_bad_input(
          fmt::format("{}.shape = {}: must not be negative", array.name, tuple_text(sizes)));
  std::int64_t bytes = size_of(array.type);
  for (const std::int64_t size : sizes)
    if (size > 1 && __builtin_mul_overflow(bytes, size, &bytes))
      raise_bad_input(fmt::format("{}.shape = {}: more bytes of {} than 64 bits count", array.name,
                                  tuple_text(sizes), python_name(array.type)));
}

/// The same for strides, in elements: a size times its stride does not overflow. A stride of one
/// element or none means nothing.
void check_strides(const Array& array) {
  const std::span strides(array.strides.data(), static_cast<std::size_t>(array.dims));
  for (std::size_t i = 0; i < strides.size(); ++i) {
    std::int64_t bytes = size_of(array.type);
    if (array.sizes[i] > 1 && (__builtin_mul_overflow(bytes, strides[i], &bytes) ||
                               __builtin_mul_overflow(bytes, array.sizes[i], &bytes)))
      raise_bad_input(fmt::format("{}: strides of {} elements reach further than 64 bits count",
                                  array.name, tuple_text(strides)));
  }
}

/// Strides in bytes become strides in elements. There is one for each dimension.
void set_strides(Array& array, std::span<const std::int64_t> bytes) {
  const int size = size_of(array.type);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] % size != 0)
      raise_bad_input(fmt::format("{}: strides of {} bytes are not whole elements of {}",
                                  array.name, tuple_text(bytes), python_name(array.type)));
    array.strides[i] = bytes[i] / size;
  }
}

void set_tight_strides(Array& array) {
  std::int64_t stride = 1;
  for (int i = array.dims - 1; i >= 0; --i) {
    array.strides[i] = stride;
    stride *= array.sizes[i];
  }
}

void read_numpy(const py::array& object, Array& array) {
  const auto dims = static_cast<int>(object.ndim());
  check_dims(array, dims);
  array.data = const_cast<void*>(object.data());
  array.type = numpy_type(object.dtype(), array.name);
  array.dims = dims;
  array.writable = object.writeable();
  std::array<std::int64_t, 3> bytes{};
  for (int i = 0; i < dims; ++i) {
    array.sizes[i] = object.shape(i);
    bytes[i] = object.strides(i);
  }
  set_strides(array, std::span(bytes).first(static_cast<std::size_t>(dims)));
}

Place dlpack_place(const DLTensor& tensor, const char* name) {
  switch (tensor.device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost:
      return {};
    case kDLCUDA:
    case kDLCUDAManaged:
      return {Place::Kind::cuda, tensor.device.device_id};
    case kDLROCM:
      return {Place::Kind::hip, tensor.device.device_id};
    default:
      raise_bad_input(fmt::format("{}: DLPack device type {}: must be a CPU, CUDA or ROCm", name,
                                  static_cast<int>(tensor.device.device_type)));
  }
}

DType dlpack_type(const DLDataType& type, const char* name) {
  for (const TypeName& row : kTypes)
    if (row.dlpack.code == type.code && row.dlpack.bits == type.bits && type.lanes == 1)
      return row.type;
  raise_unknown_type(
      std::string(name) + ".dtype",
      fmt::format("DLPack's code {}, {} bits, {} lanes", type.code, type.bits, type.lanes));
}

void read_tensor(const DLTensor& tensor, Array& array) {
  check_dims(array, tensor.ndim);
  array.place = dlpack_place(tensor, array.name);
  if (array.place.index < 0)
    raise_bad_input(fmt::format("{}: DLPack's device_id = {}: must not be negative", array.name,
                                array.place.index));
  array.type = dlpack_type(tensor.dtype, array.name);
  array.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  array.dims = tensor.ndim;
  if (tensor.shape == nullptr && tensor.ndim > 0)
    raise_bad_input(fmt::format("{}: DLPack's shape is null, ndim = {}", array.name, tensor.ndim));
  std::copy_n(tensor.shape, tensor.ndim, array.sizes.begin());
  check_sizes(array);
  if (tensor.strides != nullptr)
    std::copy_n(tensor.strides, tensor.ndim, array.strides.begin());
  else
    set_tight_strides(array);
}

/// False: the array's type has no table of C functions, or it does not give this array.
bool read_exchanged(PyObject* object, void* stream, Array& array) {
  const Exchange* const exchange = Exchange::of(object);
  DLTensor tensor{};
  if (exchange == nullptr || !exchange->read(object, tensor)) return false;
  read_tensor(tensor, array);
  if (array.place.kind != Place::Kind::cpu)
    array.stream = stream != nullptr ? stream : exchange->stream(tensor.device);
  return true;
}

/// The array of a tensor whose capsule is kept; not taken over, it frees the tensor itself.
void read_dlpack(py::handle object, void* stream, Array& array) {
  // Without a stream the producer waits for its own, so that a GPU's default stream may read on.
  const py::object export_to = object.attr("__dlpack__");
  py::dict named;
  if (stream != nullptr) named["stream"] = py::int_(reinterpret_cast<std::uintptr_t>(stream));
  array.kept = call_python(export_to, py::tuple(), named);
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(array.kept.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  read_tensor(managed->dl_tensor, array);
}

/// A field of __cuda_array_interface__. Throws TypeError where it is absent.
py::object field_of(const py::dict& interface, const char* field, const Array& array) {
  if (interface.contains(field)) return interface[field];
  raise_type_error(fmt::format("{}: its __cuda_array_interface__ has no '{}'", array.name, field));
}

/// The items of a field that must be a tuple (numba gives lists as well).
std::vector<py::object> items_of(const py::object& value, const char* field, const Array& array) {
  if (!py::isinstance<py::tuple>(value) && !py::isinstance<py::list>(value))
    raise_type_error(fmt::format("{}.{} = {}: must be a tuple", array.name, field,
                                 Py_TYPE(value.ptr())->tp_name));
  std::vector<py::object> items;
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(value))
    items.push_back(py::reinterpret_borrow<py::object>(item));
  return items;
}

/// Throws TypeError (no integer) or BadInput (does not fit), which names the field and the value.
std::int64_t integer_of(const py::object& value, const char* field, const Array& array) {
  int overflow = 0;
  const long long number = PyLong_Check(value.ptr())
                               ? PyLong_AsLongLongAndOverflow(value.ptr(), &overflow)
                               : PyNumber_AsSsize_t(value.ptr(), PyExc_OverflowError);
  if (overflow == 0 && !PyErr_Occurred()) return number;
  const bool too_large = overflow != 0 || PyErr_ExceptionMatches(PyExc_OverflowError);
  PyErr_Clear();
  const std::string said =
      fmt::format("{}.{}: {}: ", array.name, field, py::cast<std::string>(py::repr(value)));
  if (too_large) raise_bad_input(said + "does not fit 64 bits");
  raise_type_error(said + "must be an integer");
}

/// numba's arrays, among others. They do not say which of the GPUs holds them: the first is taken.
void read_cuda_interface(const py::dict& interface, Array& array) {
  const auto shape = items_of(field_of(interface, "shape", array), "shape", array);
  check_dims(array, static_cast<std::int64_t>(shape.size()));
  const auto data = items_of(field_of(interface, "data", array), "data", array);
  if (data.size() != 2)
    raise_bad_input(
        fmt::format("{}.data has {} items: must be an address and whether it is read-only",
                    array.name, data.size()));
  const py::object type = field_of(interface, "typestr", array);
  if (!py::isinstance<py::str>(type))
    raise_type_error(
        fmt::format("{}.typestr = {}: must be a str", array.name, Py_TYPE(type.ptr())->tp_name));
  array.place = {Place::Kind::cuda, 0};
  array.type = numpy_type(py::dtype(py::cast<std::string>(type)), array.name);
  array.data = address(data[0].ptr(), "the address in __cuda_array_interface__");
  array.writable = PyObject_IsTrue(data[1].ptr()) == 0;
  if (PyErr_Occurred()) throw py::error_already_set();
  array.dims = static_cast<int>(shape.size());
  for (int i = 0; i < array.dims; ++i) array.sizes[i] = integer_of(shape[i], "shape", array);
  check_sizes(array);
  if (!interface.contains("strides") || interface["strides"].is_none())
    return set_tight_strides(array);
  const auto strides = items_of(interface["strides"], "strides", array);
  if (strides.size() != shape.size())
    raise_bad_input(fmt::format("{}.strides has {} items, its shape {}: must have as many",
                                array.name, strides.size(), shape.size()));
  std::array<std::int64_t, kMostDims> bytes{};
  for (std::size_t i = 0; i < strides.size(); ++i)
    bytes[i] = integer_of(strides[i], "strides", array);
  set_strides(array, std::span(bytes).first(strides.size()));
}

}  // namespace

std::string Place::device() const {
  switch (kind) {
    case Kind::cpu:
      return "cpu";
    case Kind::cuda:
      return fmt::format("cuda:{}", index);
    case Kind::hip:
      return fmt::format("hip:{}", index);
  }
  return "cpu";
}

Array read_array(PyObject* object, const char* name, void* stream, int least_dims) {
  Array array{.name = name, .least_dims = least_dims};
  if (py::isinstance<py::array>(object)) {
    read_numpy(py::reinterpret_borrow<py::array>(object), array);
  } else if (read_exchanged(object, stream, array)) {
  } else if (const py::handle handle = object; py::hasattr(handle, "__dlpack__")) {
    read_dlpack(handle, stream, array);
  } else if (py::hasattr(handle, "__cuda_array_interface__")) {
    read_cuda_interface(py::dict(handle.attr("__cuda_array_interface__")), array);
  } else {
    raise_type_error(
        fmt::format("{} = {}: must be a NumPy array, or have __dlpack__ or "
                    "__cuda_array_interface__",
                    name, Py_TYPE(object)->tp_name));
  }
  check_sizes(array);
  check_strides(array);
  // Strides between elements that are not there may be anything.
  const std::span<const std::int64_t> sizes = sizes_of(array);
  if (std::ranges::find(sizes, 0) != sizes.end()) set_tight_strides(array);
  return array;
}

bool is_tight(const Array& array) {
  Array tight = array;
  set_tight_strides(tight);
  for (int i = 0; i < array.dims; ++i)
    if (array.sizes[i] > 1 && array.strides[i] != tight.strides[i]) return false;
  return true;
}

std::string tuple_text(std::span<const std::int64_t> values) {
  return fmt::format("({}{})", fmt::join(values, ", "), values.size() == 1 ? "," : "");
}

std::string described(const Array& array) {
  const std::span sizes(array.sizes.data(), static_cast<std::size_t>(array.dims));
  const std::span strides(array.strides.data(), static_cast<std::size_t>(array.dims));
  return fmt::format("{} = {} array of shape {}, strides {} elements", array.name,
                     python_name(array.type), tuple_text(sizes), tuple_text(strides));
}

DType type_from(py::handle object, const char* name) {
  // A class (numpy.float32) by its name, a value ("float32", torch.float32) by its text.
  std::string text = PyType_Check(object.ptr()) ? py::cast<std::string>(object.attr("__name__"))
                                                : py::cast<std::string>(py::str(object));
  if (const auto dot = text.rfind('.'); dot != text.npos) text.erase(0, dot + 1);
  if (const TypeName* row = row_of(text)) return row->type;
  raise_unknown_type(name, text);
}

std::string_view python_name(DType type) {
  for (const TypeName& row : kTypes)
    if (row.type == type) return row.name;
  return name(type);
}

/// The device of an array in DLPack's words.
DLDevice dlpack_device(const Place& place) {
  switch (place.kind) {
    case Place::Kind::cpu:
      return {kDLCPU, 0};
    case Place::Kind::cuda:
      return {kDLCUDA, place.index};
    case Place::Kind::hip:
      return {kDLROCM, place.index};
  }
  return {kDLCPU, 0};
}

py::object empty_like(PyObject* like, const Place& place, int dims, const std::int64_t* sizes,
                      DType type) {
  if (py::isinstance<py::array>(like) && type <= DType::s32 && type != DType::bf16) {
    static const char* const kFormats[] = {"f4", "f8", "f2", "", "i1", "u1", "i4"};
    const std::vector<py::ssize_t> shape(sizes, sizes + dims);
    return py::array(py::dtype(kFormats[static_cast<int>(type)]), shape);
  }
  if (const Exchange* const exchange = Exchange::of(like); exchange != nullptr)
    for (const TypeName& row : kTypes)
      if (row.type == type)
        return exchange->empty({.device = dlpack_device(place),
                                .ndim = dims,
                                .dtype = row.dlpack,
                                .shape = const_cast<std::int64_t*>(sizes)});
  py::tuple shape(dims);
  for (int i = 0; i < dims; ++i) shape[i] = sizes[i];
  const py::object empty = py::module_::import("kiln._arrays").attr("empty");
  return call_python(empty, py::make_tuple(py::handle(like), shape, python_name(type)));
}

}  // namespace kiln::python
