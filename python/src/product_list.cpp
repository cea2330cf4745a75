#include "product_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "engine.h"
#include "errors.h"
#include "lock.h"
#include "values.h"

namespace kiln::python {
namespace {

constexpr std::int64_t kLongBlock = 128;

/// What the products of a list have in common: without sizes and pitches.
Gemm kind_of(Gemm gemm) {
  gemm.m = gemm.n = gemm.k = 0;
  for (Matrix* const matrix : gemm.matrices()) matrix->ld = matrix->batch_stride = 0;
  return gemm;
}

/// A matrix of `rows` × `columns` as the transpose of what its layout says, where one of its
/// dimensions is 1 or 0 and either is true.
bool transpose(std::int64_t rows, std::int64_t columns, bool by_rows, std::int64_t& ld) {
  const std::int64_t length = by_rows ? columns : rows, lines = by_rows ? rows : columns;
  if (lines > 1 && (length > 1 || ld > 1)) return false;
  ld = 0;
  return true;
}

void match_factor(Matrix& matrix, const Matrix& like, std::int64_t rows, std::int64_t columns) {
  if (matrix.transposed != like.transposed &&
      transpose(rows, columns, !matrix.transposed, matrix.ld))
    matrix.transposed = like.transposed;
}

/// The residual lies as D does.
void match_results(Gemm& gemm, const Gemm& like) {
  if (gemm.d.order == like.d.order) return;
  const bool by_rows = gemm.d.order == Order::row_major;
  std::int64_t d = gemm.d.ld, c = gemm.c.ld;
  if (!transpose(gemm.m, gemm.n, by_rows, d) || !transpose(gemm.m, gemm.n, by_rows, c)) return;
  gemm.d.order = gemm.c.order = like.d.order;
  gemm.d.ld = d;
  gemm.c.ld = c;
}

/// Scales of so many lines, of `blocks` along k each, that lie as others do whose kind and order
/// are `like`'s have these.
void match_scales(Quantisation& q, const Quantisation& like, std::int64_t lines,
                  std::int64_t blocks) {
  const auto both = [&](Scale x, Scale y) {
    return (q.scale == x && like.scale == y) || (q.scale == y && like.scale == x);
  };
  if (lines == 1 && (both(Scale::line, Scale::tensor) || both(Scale::line_128, Scale::square_128)))
    q.scale = like.scale;
  if (q.scale != Scale::line_128 || like.scale != Scale::line_128) return;
  const auto padded = [](ScaleOrder x) { return x == ScaleOrder::blocks_4; };
  const bool one_row = lines == 1 && !padded(q.order) && !padded(like.order);
  const bool whole =
      lines % 4 == 0 && q.order != ScaleOrder::lines && like.order != ScaleOrder::lines;
  if (blocks <= 1 || one_row || whole) q.order = like.order;
}

/// The product in the spelling of another one, where its arrays lie so as well.
Gemm matched(Gemm gemm, const Gemm& like) {
  const std::int64_t blocks = (gemm.k + kLongBlock - 1) / kLongBlock, columns = gemm.columns_of_b();
  match_factor(gemm.a, like.a, gemm.m, gemm.k);
  match_factor(gemm.b, like.b, gemm.k, columns);
  match_results(gemm, like);
  match_scales(gemm.a.q, like.a.q, gemm.m, blocks);
  match_scales(gemm.b.q, like.b.q, columns, blocks);
  // One scale of D is read, that of a line is written: what is one of a line may be meant as one.
  if (gemm.m == 1 && gemm.d.q.scale == Scale::line && like.d.q.scale == Scale::tensor)
    gemm.d.q.scale = Scale::tensor;
  return gemm;
}

/// The first product that all others can be spelt like; of none the first.
std::size_t model_of(const std::vector<Call>& calls) {
  for (std::size_t at = 0; at < calls.size(); ++at) {
    const Gemm& like = calls[at].gemm;
    if (std::ranges::all_of(calls, [&](const Call& call) {
          return kind_of(matched(call.gemm, like)) == kind_of(like);
        }))
      return at;
  }
  return 0;
}

/// The arguments of one product as a call; its number stands before the message of an error.
Call numbered_call(const Arguments& arguments, Output output, std::size_t number) {
  try {
    Call call = call_of(arguments, output);
    if (call.gemm.batch != 1 || call.gemm.b_packed)
      raise_bad_input("a and b must be matrices of 2 dimensions, and b not packed");
    return call;
  } catch (py::error_already_set& error) {
    const py::object type = error.type();
    const std::string message =
        fmt::format("product {}: {}", number, py::cast<std::string>(py::str(error.value())));
    PyErr_SetString(type.ptr(), message.c_str());
    throw py::error_already_set();
  }
}

ListEntry entry_of(const Gemm& gemm, const Operands& operands) {
  return {.m = gemm.m,
          .n = gemm.n,
          .k = gemm.k,
          .lda = gemm.a.ld,
          .ldb = gemm.b.ld,
          .ldc = gemm.c.ld,
          .ldd = gemm.d.ld,
          .a = operands.a,
          .b = operands.b,
          .c = operands.c,
          .d = operands.d,
          .bias = operands.bias,
          .residual = operands.residual,
          .scale_a = operands.scale_a,
          .scale_b = operands.scale_b,
          .scale_d = operands.scale_d};
}

// ---- from Python

/// Arguments that are sequences, one item for each product.
constexpr std::pair<const char*, PyObject * Arguments::*> kOfEach[] = {
    {"a", &Arguments::a},
    {"b", &Arguments::b},
    {"out", &Arguments::out},
    {"bias", &Arguments::bias},
    {"residual", &Arguments::residual},
    {"c", &Arguments::c},
    {"scale_a", &Arguments::scale_a},
    {"scale_b", &Arguments::scale_b},
    {"scale_d", &Arguments::scale_d}};
/// Those that all products share.
constexpr std::pair<const char*, PyObject * Arguments::*> kOfAll[] = {
    {"activation", &Arguments::activation},
    {"alpha", &Arguments::alpha},
    {"beta", &Arguments::beta},
    {"numerics", &Arguments::numerics},
    {"gate", &Arguments::gate},
    {"out_dtype", &Arguments::out_dtype},
    {"threads", &Arguments::threads},
    {"engine", &Arguments::engine},
    {"stream", &Arguments::stream}};

/// What a call of Python says.
struct Given {
  std::vector<Arguments> products;
  std::vector<py::object> kept;  // the sequences
  std::array<std::int64_t, 3> most{};
  std::int64_t count = 0;
};

py::object sequence_of(const py::handle& object, const char* name) {
  PyObject* const items = PySequence_Fast(object.ptr(), "");
  if (items != nullptr) return py::reinterpret_steal<py::object>(items);
  PyErr_Clear();
  raise_type_error(fmt::format("{} = {}: must be a sequence of arrays, one for each product", name,
                               Py_TYPE(object.ptr())->tp_name));
}

void read_each(Given& given, const py::handle& object, const char* name,
               PyObject* Arguments::*field) {
  const py::object items = sequence_of(object, name);
  const auto length = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
  if (field == &Arguments::a) given.products.resize(length);
  if (length != given.products.size())
    raise_bad_input(fmt::format("{} has {} items, a {}: one for each product", name, length,
                                given.products.size()));
  for (std::size_t i = 0; i < length; ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i));
    if (item != Py_None) given.products[i].*field = item;
  }
  given.kept.push_back(items);
}

void read_most(Given& given, const py::handle& object) {
  const py::object items = sequence_of(object, "largest");
  if (PySequence_Fast_GET_SIZE(items.ptr()) != 3)
    raise_bad_input("largest: must be (m, n, k), the largest that products may have");
  for (std::size_t i = 0; i < 3; ++i)
    given.most[i] =
        integer(PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), "largest");
}

void read_named(Given& given, const std::string& name, const py::handle& value) {
  for (const auto& [known, field] : kOfEach)
    if (name == known) return read_each(given, value, known, field);
  for (const auto& [known, field] : kOfAll) {
    if (name != known) continue;
    for (Arguments& one : given.products) one.*field = value.ptr();
    return;
  }
  if (name == "largest") return read_most(given, value);
  if (name == "count") {
    given.count = integer(value.ptr(), "count");
    return;
  }
  raise_type_error(fmt::format("unexpected argument '{}'", name));
}

Given given_of(const py::object& a, const py::object& b, const py::kwargs& named) {
  Given given;
  read_each(given, a, "a", &Arguments::a);
  read_each(given, b, "b", &Arguments::b);
  for (const auto& [name, value] : named)
    if (!value.is_none()) read_named(given, py::cast<std::string>(name), value);
  for (std::size_t i = 0; i < given.products.size(); ++i)
    if (given.products[i].a == nullptr || given.products[i].b == nullptr)
      raise_type_error(fmt::format("product {}: a and b are needed", i));
  return given;
}

py::list matmul_list(const py::object& a, const py::object& b, const py::kwargs& named) {
  const Given given = given_of(a, b, named);
  if (given.products.empty()) return py::list();
  ListCall list = list_call_of(given.products, Output::allocated, given.most, given.count);
  const auto engine = engine_of(given.products.front().engine, list.call.place);
  value_or_raise(without_lock([&] { return engine->gemm(list.call.gemm, list.call.operands); }));
  return std::move(list.outs);
}

py::tuple problem_of_list(const py::object& a, const py::object& b, const py::kwargs& named) {
  const Given given = given_of(a, b, named);
  if (given.products.empty()) raise_bad_input("a is empty: a list has at least one product");
  const ListCall list = list_call_of(given.products, Output::described, given.most, given.count);
  value_or_raise(validate(list.call.gemm));
  return py::make_tuple(text(list.call.gemm), list.call.place.device());
}

}  // namespace

ListCall list_call_of(const std::vector<Arguments>& arguments, Output output,
                      std::array<std::int64_t, 3> most, std::int64_t count) {
  ListCall list;
  for (const Arguments& one : arguments)
    list.of_product.push_back(numbered_call(one, output, list.of_product.size()));
  const std::size_t model = model_of(list.of_product);
  const Call& first = list.of_product[model];
  list.call.place = first.place;
  list.call.operands = {.alpha = first.operands.alpha,
                        .beta = first.operands.beta,
                        .threads = first.operands.threads,
                        .stream = first.operands.stream};
  for (std::size_t i = 0; i < list.of_product.size(); ++i) {
    const Call& call = list.of_product[i];
    const Gemm own = matched(call.gemm, first.gemm);
    if (kind_of(own) != kind_of(first.gemm))
      raise_bad_input(
          fmt::format("product {} is '{}', product {} '{}': types, layouts, epilogue "
                      "and scales must be the same",
                      i, text(kind_of(own)), model, text(kind_of(first.gemm))));
    if (!(call.place == first.place))
      raise_bad_input(fmt::format("product {} is on {}, product {} on {}: must be the same device",
                                  i, call.place.device(), model, first.place.device()));
    most = {std::max(most[0], own.m), std::max(most[1], own.n), std::max(most[2], own.k)};
    list.entries.push_back(entry_of(own, call.operands));
    if (call.out) list.outs.append(call.out);
  }
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, count));
  list.entries.resize(std::max(list.entries.size(), wanted));
  list.call.gemm = kind_of(first.gemm);
  list.call.gemm.m = most[0], list.call.gemm.n = most[1], list.call.gemm.k = most[2];
  list.call.gemm = list.call.gemm.grouped(std::ssize(list.entries), Grouping::list);
  list.call.operands.list = list.entries.data();
  return list;
}

constexpr const char* kMatmulList =
    R"(matmul_list(a, b, *, out=None, bias=None, residual=None, c=None, scale_a=None, scale_b=None, scale_d=None, activation=None, alpha=1.0, beta=0.0, numerics="ieee", gate=None, largest=None, count=0, out_dtype=None, threads=0, engine=None, stream=None)

Unrelated products in one call: ``a[i] @ b[i]`` for each i, in ``out[i]`` or new arrays, which are
returned as a list. On GPUs one launch computes them.

``a`` and ``b`` are sequences of matrices, and what a product has of its own is a sequence as long:
``out``, ``bias``, ``residual``, ``c``, ``scale_a``, ``scale_b`` and ``scale_d``, each item as `matmul` has it.
The other arguments hold for all. Sizes may differ, down to 0 rows, columns or k; types, layouts (rows
or columns that have adjacent elements), kinds of scales and whether there is a bias may not. An ``out``
overlaps nothing that another product reads or writes.

- ``largest``: (m, n, k), the largest that products may have, at least those of this call. Kernels are
  chosen for it, and for the number of products: give it where sizes differ from call to call.
- ``count``: the number of products that kernels are chosen for; those behind the given ones are empty.

>>> import numpy as np
>>> x = [np.ones((2, 3), np.float32), np.ones((1, 4), np.float32)]
>>> w = [np.ones((3, 2), np.float32), np.ones((4, 3), np.float32)]
>>> matmul_list(x, w)
[array([[3., 3.],
       [3., 3.]], dtype=float32), array([[4., 4., 4.]], dtype=float32)]
)";

void bind_product_list(py::module_& module) {
  py::options options;
  options.disable_function_signatures();
  module.def("matmul_list", &matmul_list, py::arg("a"), py::arg("b"), kMatmulList);
  module.def("problem_of_list", &problem_of_list, py::arg("a"), py::arg("b"));
}

}  // namespace kiln::python
