#include "problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "errors.h"
#include "factor.h"
#include "layout.h"
#include "scales.h"
#include "values.h"

namespace kiln::python {
namespace {

class Builder {
 public:
  Builder(const Arguments& arguments, Output output) : arguments_(arguments), output_(output) {}

  Call build() {
    read_numbers();
    read_factors();
    if (arguments_.groups) read_groups();
    read_activation();
    read_numerics();
    read_out();
    if (arguments_.c) read_c();
    const bool expressed = arguments_.epilogue != nullptr;  // which may have operands so called
    if (arguments_.bias && !expressed) read_bias();
    if (arguments_.residual && !expressed) read_residual();
    if (arguments_.scale_a) read_scales("scale_a", arguments_.scale_a, rows_of_a(), true);
    if (arguments_.scale_b)
      read_scales("scale_b", arguments_.scale_b, call_.gemm.columns_of_b(), false);
    if (arguments_.scale_d) read_scales_of_d();
    if (arguments_.amax_d) read_amax();
    if (arguments_.zero_a || arguments_.column_sums_b) read_zero_points_of_a();
    if (arguments_.epilogue) read_expression();
    return std::move(call_);
  }

 private:
  void read_numbers();
  void read_factors();
  void read_sizes(const Array& a, const Array& b);
  void read_activation();
  void read_numerics();
  bool has_gate_of_epilogue();
  void read_gate();
  Scatter read_scatter() const;
  const void* read_row_weights();
  const void* read_list(PyObject* object, const char* name, std::int64_t length);
  void read_groups();
  std::int64_t rows_of_a() const {
    const auto* const rows = std::get_if<GroupsOfRows>(&call_.gemm.groups);
    return rows != nullptr && rows->gather ? rows->gather->rows : call_.gemm.m;
  }
  void read_out();
  void read_c();
  std::vector<std::pair<std::string, PyObject*>> operands_of_epilogue() const;
  const Expression& epilogue();
  void read_expression();
  void read_bias();
  void read_residual();
  void read_scales(const char* name, PyObject* object, std::int64_t lines, bool of_a);
  void read_scales_of_d();
  void read_amax();
  void read_zero_points_of_a();
  Array read_integers(PyObject* object, const char* name, int before, std::int64_t count,
                      bool or_one);

  Array read(PyObject* object, const char* name, int least_dims = 1) {
    Array array = read_array(object, name, call_.operands.stream, least_dims);
    if (!(array.place == call_.place))
      raise_bad_input(fmt::format("{} is on {}, a on {}: must be the same device", name,
                                  array.place.device(), call_.place.device()));
    if (array.kept) call_.kept.push_back(array.kept);
    return array;
  }

  std::span<const std::int64_t> shape() const {
    return {shape_.data(), static_cast<std::size_t>(dims_)};
  }

  /// A matrix of D's shape, as the product that kiln is asked for sees it.
  Planes like_d(const Array& array) const {
    const std::span sizes(array.sizes.data(), static_cast<std::size_t>(array.dims));
    if (!std::ranges::equal(sizes, shape()))
      raise_bad_input(fmt::format("{}: must have shape {}", described(array), tuple_text(shape())));
    return as_one(planes_of(array), array);
  }

  /// Batches become rows where all products share B. Without batches there are no rows.
  Planes as_one(Planes planes, const Array& array) const {
    if (planes.batch == 0) {
      planes.batch = 1;
      planes.rows = 0;
    }
    if (!stacked_) return planes;
    if (const auto one = stacked(planes)) return *one;
    raise_bad_input(
        fmt::format("{}: the matrices of a batch must lie one behind the other where "
                    "all are multiplied by the same b",
                    described(array)));
  }

  /// A batch of matrices as the rows of one.
  Array as_rows(Array array) const {
    const Planes one = as_one(planes_of(array), array);
    array.dims = 2;
    array.sizes = {one.rows, one.columns};
    array.strides = {one.row_stride, one.column_stride};
    return array;
  }

  const Arguments& arguments_;
  std::optional<Expression> epilogue_;
  Output output_;
  Call call_;
  bool stacked_ = false;
  int dims_ = 2;                         // of D
  std::array<std::int64_t, 3> shape_{};  // of D
};

void Builder::read_numbers() {
  if (arguments_.alpha) call_.operands.alpha = number(arguments_.alpha, "alpha");
  if (arguments_.beta) call_.operands.beta = number(arguments_.beta, "beta");
  if (arguments_.c && !arguments_.beta) raise_bad_input("c is given without beta");
  if (!arguments_.c && call_.operands.beta != 0)
    raise_bad_input(fmt::format("beta = {} is given without c", call_.operands.beta));
  if (arguments_.expected_rows && !arguments_.groups)
    raise_bad_input("expected_rows is given without groups");
  if (arguments_.scatter && !arguments_.out) raise_bad_input("scatter is given without out");
  if (!arguments_.scatter && (arguments_.add_rows || arguments_.row_weights))
    raise_bad_input(fmt::format("{} is given without scatter",
                                arguments_.row_weights ? "row_weights" : "add_rows"));
  if (arguments_.threads) call_.operands.threads = integer(arguments_.threads, "threads");
  if (arguments_.stream) call_.operands.stream = address(arguments_.stream, "stream");
}

/// The sizes of the product, and whether its batch is one matrix of more rows.
void Builder::read_sizes(const Array& a_array, const Array& b_array) {
  const Planes a = planes_of(a_array), b = planes_of(b_array);
  const auto refuse = [&](const std::string& why) {
    raise_bad_input(fmt::format("{} and {}: {}", described(a_array), described(b_array), why));
  };
  if (a.columns != b.rows)
    refuse(fmt::format("a has {} columns, b has {} rows", a.columns, b.rows));
  if (a.batch != b.batch && a.batch != 1 && b.batch != 1)
    refuse(fmt::format("batches of {} and {}", a.batch, b.batch));
  std::int64_t batch = a.batch == 1 ? b.batch : a.batch;
  if (arguments_.groups) {
    if (a_array.dims == 3 && (b_array.dims != 3 || a.batch != b.batch))
      refuse("groups need a matrix of b each, and one a or one for each, or one a and one b");
    call_.gemm.groups = a_array.dims == 3   ? Groups{MaskedGroups{}}
                        : b_array.dims == 3 ? Groups{GroupsOfRows{}}
                                            : Groups{GroupsOfK{}};
  }
  const bool rows = call_.gemm.grouping() == Grouping::rows;
  const bool of_k = call_.gemm.grouping() == Grouping::k;
  if (of_k) batch = read(arguments_.groups, "groups").sizes[0];
  for (const auto& [list, name] :
       {std::pair{arguments_.gather, "gather"}, std::pair{arguments_.scatter, "scatter"}})
    if (list && !rows)
      refuse(fmt::format("{} needs groups, one a and a matrix of b for each", name));
  stacked_ = batch > 1 && b.shared() && a.batch == batch && !of_k;
  if (batch > 1 && !stacked_ && a.shared() && !rows && !of_k)
    refuse("one a for a batch of b is not supported; give it the batch (a copy for each)");
  dims_ = rows ? 2 : of_k ? 3 : std::max(a_array.dims, b_array.dims);
  Gemm& gemm = call_.gemm;
  const bool gated = gemm.epilogue.gate.has_value();
  if (gated && b.columns % 2 != 0)
    refuse(fmt::format("b has {} columns: a gate needs an even number", b.columns));
  gemm.n = gated ? b.columns / 2 : b.columns;
  const std::int64_t m = arguments_.gather ? read(arguments_.gather, "gather").sizes[0] : a.rows;
  const std::int64_t rows_of_out = arguments_.scatter ? read(arguments_.out, "out").sizes[0] : m;
  shape_ = dims_ == 3 ? std::array{batch, m, gemm.n} : std::array{rows_of_out, gemm.n, 0L};
  gemm.m = batch == 0 ? 0 : stacked_ ? batch * m : m;
  if (arguments_.gather) gemm = gemm.gathered(a.rows);
  if (arguments_.scatter) gemm = gemm.scattered(rows_of_out, read_scatter());
  gemm.k = a.columns;
  gemm.batch = stacked_ || batch == 0 ? 1 : batch;
}

void Builder::read_factors() {
  const PackedObject* packed = packed_in(arguments_.b);
  const Array a = read_array(arguments_.a, "a", call_.operands.stream);
  call_.place = a.place;
  call_.operands.stream = arguments_.stream ? call_.operands.stream : a.stream;
  if (a.kept) call_.kept.push_back(a.kept);
  const Array b = packed ? packed->as_array() : read(arguments_.b, "b");
  require_matrix(a);
  require_matrix(b);
  call_.gemm = Gemm::row_major(0, 0, 0, a.type);
  call_.gemm.b.dtype = b.type;
  read_gate();
  read_sizes(a, b);
  store_factor(call_.gemm.a, as_one(planes_of(a), a), a);
  call_.operands.a = a.data;
  if (packed) {
    call_.gemm.b_packed = true;
    call_.operands.packed_b = &packed->packed;
    return;
  }
  Planes planes = planes_of(b);
  if (stacked_ || planes.batch == 0) planes.batch = 1;
  store_factor(call_.gemm.b, planes, b);
  call_.operands.b = b.data;
}

/// What becomes of the rows that `scatter` names.
Scatter Builder::read_scatter() const {
  if (arguments_.row_weights) return Scatter::weighted;
  const int adds = arguments_.add_rows ? PyObject_IsTrue(arguments_.add_rows) : 0;
  if (adds < 0) throw py::error_already_set();
  return adds != 0 ? Scatter::add : Scatter::rows;
}

/// The memory of an fp32 for each row of the product.
const void* Builder::read_row_weights() {
  const Array weights = read(arguments_.row_weights, "row_weights");
  const std::int64_t length = call_.gemm.m;
  if (weights.type != fp32)
    raise_type_error(fmt::format("row_weights.dtype = {}: must be {}", python_name(weights.type),
                                 python_name(fp32)));
  if (weights.dims != 1 || weights.sizes[0] != length || !is_tight(weights))
    raise_bad_input(
        fmt::format("{}: must have shape ({},), contiguous", described(weights), length));
  return weights.data;
}

/// The memory of a list of int32.
const void* Builder::read_list(PyObject* object, const char* name, std::int64_t length) {
  const Array list = read(object, name);
  if (list.type != DType::s32)
    raise_type_error(
        fmt::format("{}.dtype = {}: must be {}", name, python_name(list.type), python_name(s32)));
  if (list.dims != 1 || list.sizes[0] != length || !is_tight(list))
    raise_bad_input(fmt::format("{}: must have shape ({},), contiguous", described(list), length));
  if (call_.place.kind != Place::Kind::cpu) return list.data;
  const auto* const first = static_cast<const std::int32_t*>(list.data);
  return call_.lists.emplace_back(first, first + length).data();
}

void Builder::read_groups() {
  const Gemm& gemm = call_.gemm;
  call_.operands.groups = read_list(arguments_.groups, "groups", gemm.batch);
  if (arguments_.gather) call_.operands.index_a = read_list(arguments_.gather, "gather", gemm.m);
  if (arguments_.scatter) call_.operands.index_d = read_list(arguments_.scatter, "scatter", gemm.m);
  if (arguments_.row_weights) call_.operands.row_weights = read_row_weights();
  if (!arguments_.expected_rows) return;
  const std::int64_t expected = integer(arguments_.expected_rows, "expected_rows");
  auto* const masked = std::get_if<MaskedGroups>(&call_.gemm.groups);
  if (masked == nullptr)
    raise_bad_input(fmt::format("expected_rows = {}: must be 0 without masked groups", expected));
  masked->expected_rows = expected;
}

void Builder::read_activation() {
  if (!arguments_.activation) return;
  const std::string_view wanted = text(arguments_.activation, "activation");
  for (const Activation f : {Activation::none, Activation::relu, Activation::gelu_tanh,
                             Activation::gelu_erf, Activation::silu})
    if (name(f) == wanted) {
      call_.gemm.epilogue.activation = f;
      return;
    }
  raise_bad_input(
      fmt::format("activation = {}: must be one of none, relu, gelu, gelu_erf, silu", wanted));
}

/// Whether an epilogue names a gate's products: of a function its parameters, since its text
/// depends on n.
bool Builder::has_gate_of_epilogue() {
  if (!arguments_.epilogue) return false;
  if (PyUnicode_Check(arguments_.epilogue) || !PyCallable_Check(arguments_.epilogue))
    return epilogue().of_gate();
  return py::module_::import("kiln.expressions")
      .attr("of_gate")(py::handle(arguments_.epilogue))
      .cast<bool>();
}

void Builder::read_gate() {
  if (has_gate_of_epilogue()) call_.gemm.epilogue.gate = Gated{Gate::expression};
  if (!arguments_.gate) return;
  const std::string_view wanted = text(arguments_.gate, "gate");
  const std::string_view f = wanted.substr(0, wanted.find(':'));
  const bool interleaved = wanted.substr(f.size()) == ":interleaved";
  for (const Gate gate :
       {Gate::relu, Gate::gelu_tanh, Gate::gelu_erf, Gate::silu, Gate::sigmoid, Gate::expression}) {
    if (name(gate) != f || (f.size() != wanted.size() && !interleaved)) continue;
    call_.gemm.epilogue.gate =
        Gated{gate, interleaved ? GateOrder::interleaved : GateOrder::stacked};
    return;
  }
  raise_bad_input(
      fmt::format("gate = {}: must be one of relu, gelu, gelu_erf, silu, sigmoid, expression, with "
                  ":interleaved behind it where columns of b alternate",
                  wanted));
}

void Builder::read_numerics() {
  if (!arguments_.numerics) return;
  const std::string_view wanted = text(arguments_.numerics, "numerics");
  for (const Numerics kind : {Numerics::ieee, Numerics::fast, Numerics::tensor})
    if (name(kind) == wanted) {
      call_.gemm.numerics = kind;
      return;
    }
  raise_bad_input(fmt::format("numerics = {}: must be ieee, fast or tensor", wanted));
}

void Builder::read_out() {
  Gemm& gemm = call_.gemm;
  if (arguments_.out_dtype) gemm = gemm.output(type_from(arguments_.out_dtype, "out_dtype"));
  const bool stores_d = !arguments_.epilogue || epilogue().stores_d();
  if (!stores_d && arguments_.out) raise_type_error("out is given: the epilogue has no d");
  if (!arguments_.out) {
    if (output_ == Output::described || !stores_d) return;
    call_.out = empty_like(arguments_.a, call_.place, dims_, shape_.data(), gemm.d.dtype);
    const Array made = read(call_.out.ptr(), "out");
    call_.operands.d = made.data;
    return;
  }
  const Array out = read(arguments_.out, "out");
  if (!out.writable) raise_bad_input("out is read-only");
  if (arguments_.out_dtype && out.type != gemm.d.dtype)
    raise_bad_input(fmt::format("out.dtype = {}: out_dtype is {}", python_name(out.type),
                                python_name(gemm.d.dtype)));
  gemm.c.dtype = gemm.d.dtype = out.type;
  const auto layout = layout_of(like_d(out));
  if (!layout) raise_layout(out);
  gemm.c.order = gemm.d.order = layout->order;
  gemm.d.ld = layout->ld;
  gemm.d.batch_stride = layout->batch_stride;
  call_.operands.d = out.data;
  call_.out = py::reinterpret_borrow<py::object>(arguments_.out);
}

void Builder::read_c() {
  Gemm& gemm = call_.gemm;
  const Array c = read(arguments_.c, "c");
  if (c.type != gemm.c.dtype)
    raise_type_error(fmt::format("c.dtype = {}: must be out's, {}", python_name(c.type),
                                 python_name(gemm.d.dtype)));
  const auto layout = layout_in(like_d(c), gemm.d.order);
  if (!layout) raise_bad_input(described(c) + ": must be stored in the order of out");
  gemm.c.ld = layout->ld;
  gemm.c.batch_stride = layout->batch_stride;
  call_.operands.c = c.data;
}

/// Of matmul()'s own arguments an expression may read the bias and the residual by their names.
std::vector<std::pair<std::string, PyObject*>> Builder::operands_of_epilogue() const {
  std::vector<std::pair<std::string, PyObject*>> given;
  if (arguments_.bias) given.emplace_back("bias", arguments_.bias);
  if (arguments_.residual) given.emplace_back("residual", arguments_.residual);
  for (const NamedArgument& each : arguments_.named)
    given.emplace_back(py::cast<std::string>(each.name), each.value);
  return given;
}

/// Of the text, or of the text that kiln.expressions makes of a function.
const Expression& Builder::epilogue() {
  if (epilogue_) return *epilogue_;
  py::object line = py::reinterpret_borrow<py::object>(arguments_.epilogue);
  if (!PyUnicode_Check(line.ptr()) && PyCallable_Check(line.ptr())) {
    py::dict shapes;
    for (const auto& [name, value] : operands_of_epilogue())
      shapes[name.c_str()] = py::tuple(py::getattr(py::handle(value), "shape", py::tuple()));
    const Gemm& gemm = call_.gemm;
    line = py::module_::import("kiln.expressions")
               .attr("text_of")(line, shapes, py::make_tuple(gemm.m, gemm.n),
                                gemm.batch > 1 && gemm.grouping() != Grouping::rows);
  }
  epilogue_ = value_or_raise(Expression::parse(text(line.ptr(), "epilogue")));
  return *epilogue_;
}

void Builder::read_expression() {
  const auto given = operands_of_epilogue();
  const auto argument = [&](const char* name) -> PyObject* {
    const auto found = std::ranges::find(given, name, &std::pair<std::string, PyObject*>::first);
    return found != given.end() ? found->second : nullptr;
  };
  std::function<py::object(const std::vector<std::int64_t>&, DType)> make;
  if (output_ == Output::allocated)
    make = [&](const std::vector<std::int64_t>& shape, DType type) {
      return empty_like(arguments_.a, call_.place, static_cast<int>(shape.size()), shape.data(),
                        type);
    };
  const Expression expression =
      expression_of(epilogue(),
                    {call_.gemm, call_.place, argument,
                     [&](PyObject* object, const char* name) {
                       const Array array = read(object, name, /*least_dims=*/0);
                       return stacked_ && array.dims == 3 ? as_rows(array) : array;
                     },
                     make},
                    call_.operands, call_.numbers, call_.results);
  const auto target = [](const ExtraOutput& output) { return output.target.name; };
  for (const auto& [name, value] : given)
    if (std::ranges::find(expression.operands(), name, &ExtraOperand::name) ==
            expression.operands().end() &&
        std::ranges::find(expression.outputs(), name, target) == expression.outputs().end())
      raise_type_error(fmt::format("{} is given: the epilogue does not read it", name));
  call_.gemm.epilogue.expression = expression;
}

void Builder::read_bias() {
  Gemm& gemm = call_.gemm;
  const Array bias = read(arguments_.bias, "bias");
  const DType of_d = gemm.d.dtype, wide = of_d == fp64 ? fp64 : fp32;
  const bool narrow = of_d == fp16 || of_d == bf16;
  if (bias.type != wide && !(narrow && bias.type == of_d))
    raise_type_error(fmt::format("bias.dtype = {}: must be {}{}", python_name(bias.type),
                                 python_name(wide),
                                 narrow ? fmt::format(" or {}", python_name(of_d)) : ""));
  const std::int64_t rows = bias.dims == 2 ? bias.sizes[0] : 1;
  const std::int64_t columns = bias.dims == 2 ? bias.sizes[1] : bias.sizes[0];
  const bool grouped = gemm.grouping() != Grouping::none;
  const bool by_column = bias.dims <= 2 && rows == (grouped ? gemm.batch : 1) &&
                         columns == gemm.columns_of_b() && (!grouped || is_tight(bias));
  const bool by_row = bias.dims == 2 && columns == 1 && rows == gemm.m && !stacked_ && !grouped;
  if (grouped && !by_column)
    raise_bad_input(fmt::format("{}: must have shape ({}, {}), contiguous", described(bias),
                                gemm.batch, gemm.columns_of_b()));
  if (!by_column && !by_row)
    raise_bad_input(fmt::format("{}: must have shape ({},), or ({}, 1) for one value a row",
                                described(bias), gemm.columns_of_b(), shape_[dims_ - 2]));
  const auto along = by_column ? static_cast<std::size_t>(bias.dims - 1) : 0u;
  if (bias.sizes[along] > 1 && bias.strides[along] != 1)
    raise_bad_input(described(bias) + ": must be contiguous");
  gemm.epilogue.bias = by_column ? Bias::per_column : Bias::per_row;
  gemm.epilogue.bias_as_d = bias.type != wide;
  call_.operands.bias = bias.data;
}

void Builder::read_residual() {
  Gemm& gemm = call_.gemm;
  const Array residual = read(arguments_.residual, "residual");
  if (residual.type != gemm.d.dtype)
    raise_type_error(fmt::format("residual.dtype = {}: must be out's, {}",
                                 python_name(residual.type), python_name(gemm.d.dtype)));
  const auto layout = layout_in(like_d(residual), gemm.d.order);
  if (layout != Layout{gemm.d.order, gemm.d.ld, gemm.d.batch_stride})
    raise_bad_input(described(residual) +
                    ": must have the strides of out (a new out is row-major)");
  gemm.epilogue.residual = true;
  call_.operands.residual = residual.data;
}

/// That of scales, not row by row, of which `blocks` may lie one behind the other.
ScaleOrder order_of(const Array& scales, bool batched, bool blocks) {
  if (!blocks) raise_bad_input(described(scales) + ": must be contiguous");
  const std::size_t line = batched ? 1 : 0, along = line + 1;
  const std::int64_t lines = scales.sizes[line], pitch = scales.strides[along];
  const std::int64_t padded = (lines + 3) / 4 * 4;
  const bool adjacent = lines <= 1 || scales.strides[line] == 1;
  const bool behind =
      !batched || scales.sizes[0] <= 1 || scales.strides[0] == pitch * scales.sizes[along];
  if (!adjacent || !behind || (pitch != lines && pitch != padded))
    raise_bad_input(fmt::format("{}: must be contiguous, or have adjacent lines, {} or {} apart",
                                described(scales), lines, padded));
  return pitch == padded ? ScaleOrder::blocks_4 : ScaleOrder::blocks;
}

/// A batch is one more dimension before the others.
void Builder::read_scales(const char* name, PyObject* object, std::int64_t lines, bool of_a) {
  Gemm& gemm = call_.gemm;
  const Array scales = read(object, name, /*least_dims=*/0);
  // Codes of eight bits beside an A of sixteen are weights.
  const bool weights = !of_a && is_floating(gemm.a.dtype) && bits_of(gemm.a.dtype) == 16;
  if (stacked_ && !weights) raise_bad_input(std::string(name) + ": b must have the batch of a");
  // Rows of all groups have scales of one A, and blocks along the k of all groups are everybody's.
  const bool blocks = gemm.grouping() == Grouping::k && scales.dims == 2 &&
                      (scales.sizes[0] != gemm.batch || scales.sizes[1] != lines);
  const bool batched =
      gemm.grouping() == Grouping::rows ? !of_a : dims_ == 3 && !stacked_ && !blocks;
  const auto first = static_cast<std::size_t>(batched ? 1 : 0);
  ScaleShape shape{scales.dims - (batched ? 1 : 0), {}};
  if (shape.dims >= 1) shape.sizes[0] = scales.sizes[first];
  if (shape.dims == 2) shape.sizes[1] = scales.sizes[first + 1];
  const Scale kind = weights ? kind_of_groups(shape, scales.type, lines, gemm.k)
                             : kind_of_scales(shape, scales.type, lines, gemm.k);
  if (kind == Scale::none || (batched && scales.sizes[0] != gemm.batch))
    raise_bad_input(described(scales) + ": must be " +
                    (weights ? groups_known(lines, gemm.k) : scales_known(lines, gemm.k)));
  ScaleOrder order = ScaleOrder::lines;
  if (!is_tight(scales)) order = order_of(scales, batched, kind == Scale::line_128 && !weights);
  (of_a ? gemm.a.q.scale : gemm.b.q.scale) = kind;
  (of_a ? gemm.a.q.order : gemm.b.q.order) = order;
  if (weights && kind != Scale::mx_32) gemm.b.q.type = scales.type;
  (of_a ? call_.operands.scale_a : call_.operands.scale_b) = scales.data;
}

/// Batches that are rows of one product have scales one behind the other as well.
void Builder::read_scales_of_d() {
  Gemm& gemm = call_.gemm;
  const Array scales = read(arguments_.scale_d, "scale_d", /*least_dims=*/0);
  const bool one = scales.dims == 0;  // for all batches that are one product
  const int before = one || dims_ == 2 ? 0 : 1;
  ScaleShape shape{scales.dims - before, {}};
  for (int i = 0; i < shape.dims; ++i) shape.sizes[i] = scales.sizes[before + i];
  const std::int64_t lines = shape_[static_cast<std::size_t>(dims_ - 2)];
  const Scale kind =
      scales.type != DType::fp32 ? Scale::none : kind_of_scales(shape, fp32, lines, gemm.n);
  const bool known = kind == Scale::tensor || kind == Scale::line || kind == Scale::line_128;
  const bool whole = one ? gemm.batch == 1 : before == 0 || scales.sizes[0] == shape_[0];
  if (!known || !whole || (kind == Scale::tensor && stacked_ && !one))
    raise_bad_input(fmt::format("{}: must be float32 of shape (), ({},) or ({}, {}){}",
                                described(scales), lines, lines, (gemm.n + 127) / 128,
                                dims_ == 3 ? ", after the batch" : ""));
  if (!is_tight(scales)) raise_bad_input(described(scales) + ": must be contiguous");
  if (kind != Scale::tensor && !scales.writable) raise_bad_input("scale_d is read-only");
  gemm.d.q.scale = kind;
  call_.operands.scale_d = scales.data;
}

void Builder::read_amax() {
  const Array amax = read(arguments_.amax_d, "amax_d", /*least_dims=*/0);
  const bool one = amax.dims == 0 || (amax.dims == 1 && amax.sizes[0] == 1);
  if (amax.type != DType::fp32 || !one)
    raise_bad_input(described(amax) + ": must be float32 of shape () or (1,)");
  if (!amax.writable) raise_bad_input("amax_d is read-only");
  call_.gemm.amax_d = true;
  call_.operands.amax_d = amax.data;
}

/// int32 of shape (count,), or () where one will do, behind so many dimensions of the batch.
Array Builder::read_integers(PyObject* object, const char* name, int before, std::int64_t count,
                             bool or_one) {
  const Array array = read(object, name, /*least_dims=*/0);
  const bool one = or_one && array.dims == before;
  const auto last = static_cast<std::size_t>(before);
  const bool fits = one || (array.dims == before + 1 && array.sizes[last] == count);
  const bool whole = before == 0 || (array.dims > 0 && array.sizes[0] == call_.gemm.batch);
  if (array.type != s32 || !fits || !whole || !is_tight(array))
    raise_bad_input(fmt::format("{}: must be contiguous int32 of shape {}({},){}", described(array),
                                or_one ? "() or " : "", count,
                                before > 0 ? ", after the batch" : ""));
  return array;
}

/// Zero points lie as scales of A do, sums of columns as a scale for each column of B does.
void Builder::read_zero_points_of_a() {
  Gemm& gemm = call_.gemm;
  if (!arguments_.zero_a || !arguments_.column_sums_b)
    raise_bad_input("zero_a and column_sums_b: one is given without the other");
  if (stacked_) raise_bad_input("zero_a: b must have the batch of a");
  const int batched = dims_ == 3 ? 1 : 0;
  const int of_sums = gemm.grouping() == Grouping::rows ? 1 : batched;
  const Array zeros = read_integers(arguments_.zero_a, "zero_a", batched, gemm.m, true);
  const Array sums =
      read_integers(arguments_.column_sums_b, "column_sums_b", of_sums, gemm.columns_of_b(), false);
  gemm.a.q.zero = zeros.dims == batched ? Zero::tensor : Zero::line;
  call_.operands.zero_a = zeros.data;
  call_.operands.column_sums_b = sums.data;
}

}  // namespace

Call call_of(const Arguments& arguments, Output output) {
  return Builder(arguments, output).build();
}

}  // namespace kiln::python
