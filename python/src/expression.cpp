#include "expression.h"

#include <fmt/format.h>

#include <algorithm>

#include "errors.h"
#include "kiln/numeric.hpp"
#include "values.h"

namespace kiln::python {
namespace {

/// Neighbours that share an element.
std::int64_t shared_along(const ExtraOperand& operand, Index index) {
  return index == Index::m ? operand.per_m : index == Index::n ? operand.per_n : 1;
}

std::vector<std::int64_t> shape_of(const ExtraOperand& operand, const Gemm& gemm) {
  std::vector<std::int64_t> shape;
  for (const Index index : operand.index) {
    const std::int64_t per = shared_along(operand, index);
    const std::int64_t all = index == Index::batch ? gemm.batch
                             : index == Index::m   ? gemm.m
                                                   : gemm.n;
    shape.push_back((all + per - 1) / per);
  }
  return shape;
}

/// As kernels take it where the text says nothing.
DType type_of(const ExtraOperand& target, const Gemm& gemm) {
  if (target.dtype) return *target.dtype;
  const bool matrix = std::ranges::count(target.index, Index::m) != 0 &&
                      std::ranges::count(target.index, Index::n) != 0 && target.per_m == 1 &&
                      target.per_n == 1;
  const DType d = gemm.d.dtype;
  if (matrix && (d == fp16 || d == bf16)) return d;
  return d == fp64 ? fp64 : fp32;
}

/// The order in memory, the leading dimension and the type of an array.
void take_layout(ExtraOperand& operand, const Array& array, const Gemm& gemm) {
  const std::vector<std::int64_t> wanted = shape_of(operand, gemm);
  const std::span sizes(array.sizes.data(), static_cast<std::size_t>(array.dims));
  // An array without an index has one element, whatever its dimensions.
  const bool one = wanted.empty() && std::ranges::all_of(sizes, [](auto n) { return n == 1; });
  if (!one && !std::ranges::equal(sizes, wanted))
    raise_bad_input(fmt::format("{}: must have shape {}", described(array), tuple_text(wanted)));
  if (operand.dtype && *operand.dtype != array.type)
    raise_type_error(fmt::format("{}.dtype = {}: the epilogue says {}", operand.name,
                                 python_name(array.type), python_name(*operand.dtype)));
  operand.dtype = array.type;
  if (wanted.empty()) return;
  const auto refuse = [&] {
    raise_bad_input(
        fmt::format("{}: lines must have adjacent elements, and batches lie one behind "
                    "the other",
                    described(array)));
  };
  const bool batched = operand.index.front() == Index::batch;
  const std::size_t first = batched ? 1 : 0, dims = operand.index.size() - first;
  if (dims == 0) {
    if (array.strides[0] != 1 && wanted[0] > 1) refuse();
    return;
  }
  std::int64_t length = wanted.back(), lines = 1, ld = length;
  std::int64_t inner = array.strides[first + dims - 1];
  if (dims == 2) {
    std::int64_t outer = array.strides[first];
    lines = wanted[first], ld = outer;
    if (inner != 1 && length > 1) {  // a transposed array
      std::swap(operand.index[first], operand.index[first + 1]);
      std::swap(inner, outer);
      std::swap(length, lines);
      ld = outer;
    }
    if (lines == 1) ld = length;
    if (ld < length) refuse();
    operand.ld = ld == length ? 0 : ld;
  }
  if (inner != 1 && length > 1) refuse();
  if (batched && gemm.batch > 1 && array.strides[0] != lines * ld) refuse();
}

}  // namespace

Expression expression_of(const Expression& parsed, const ExpressionCall& call, Operands& operands,
                         std::vector<double>& numbers, py::dict& results) {
  std::vector<ExtraOperand> all(parsed.operands().begin(), parsed.operands().end());
  numbers.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char* const name = parsed.operands()[i].name.c_str();
    PyObject* const value = call.argument(name);
    if (value == nullptr)
      raise_type_error(fmt::format("{} is not given: the epilogue reads {}", name, name));
    if (all[i].host || (all[i].index.empty() && (PyFloat_Check(value) || PyLong_Check(value)))) {
      // Rounded to the text's type, so that the problem is the one that the text names.
      void* const element = &numbers.emplace_back();
      store_element(type_of(all[i], call.gemm), element, 0, number(value, name));
      operands.extra.at(i) = element;
      all[i].host |= call.place.kind != Place::Kind::cpu;
      continue;
    }
    const Array array = call.read(value, name);
    take_layout(all[i], array, call.gemm);
    operands.extra.at(i) = array.data;
  }
  std::vector<ExtraOperand> targets;
  for (const ExtraOutput& output : parsed.outputs()) targets.push_back(output.target);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const char* const name = parsed.outputs()[i].target.name.c_str();
    PyObject* const given = call.argument(name);
    if (given == nullptr && !call.make) continue;
    const py::object value = given != nullptr ? py::reinterpret_borrow<py::object>(given)
                                              : call.make(shape_of(targets[i], call.gemm),
                                                          type_of(targets[i], call.gemm));
    results[name] = value;
    const Array array = call.read(value.ptr(), name);
    if (!array.writable) raise_bad_input(fmt::format("{} is read-only", name));
    take_layout(targets[i], array, call.gemm);
    operands.outputs.at(i) = array.data;
  }
  return value_or_raise(value_or_raise(parsed.with_operands(all)).with_outputs(targets));
}

namespace {

/// What a call with this epilogue returns: (name, its indices, `n/128` where neighbours share one,
/// its type if the text says one), d first, with its type None.
py::list stored_by(const std::string& epilogue) {
  const Expression parsed = value_or_raise(Expression::parse(epilogue));
  py::list all;
  if (parsed.stores_d()) all.append(py::make_tuple("d", py::make_tuple("m", "n"), py::none()));
  constexpr const char* kNames[] = {"batch", "m", "n"};
  for (const ExtraOutput& output : parsed.outputs()) {
    py::list indices;
    for (const Index index : output.target.index) {
      const std::int64_t per = shared_along(output.target, index);
      const std::string name = kNames[static_cast<std::size_t>(index)];
      indices.append(per == 1 ? name : fmt::format("{}/{}", name, per));
    }
    const py::object type =
        output.target.dtype ? py::object(py::str(std::string(python_name(*output.target.dtype))))
                            : py::object(py::none());
    all.append(py::make_tuple(output.target.name, py::tuple(indices), type));
  }
  return all;
}

}  // namespace

void bind_expression(py::module_& module) {
  module.def("stored_by", &stored_by, py::arg("epilogue"));
  module.def("expression_functions", [] {
    py::list all;
    for (const std::string_view name : expression_functions())
      all.append(py::str(std::string(name)));
    return all;
  });
  module.def(
      "of_gate",
      [](const std::string& epilogue) {
        return value_or_raise(Expression::parse(epilogue)).of_gate();
      },
      py::arg("epilogue"));
}

}  // namespace kiln::python
