// Every rule a problem must obey before anything looks at it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "generator/problem/bad_input.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/problem/spelling.h"
#include "generator/problem/weights_rules.h"
#include "kiln/gemm.hpp"

namespace kiln {
namespace {

/// Pages are the largest alignment that any allocator promises.
constexpr int kMaxAlignment = 4096;

/// Values that were cast to an enum may be no enumerator at all, and a quantisation may say what no
/// problem has.
Status check_enumerators(const Gemm& g) {
  for (const GemmField& field : kGemmFields)
    if (const std::int64_t value = field.get(g);
        !field.names.empty() && static_cast<std::uint64_t>(value) >= field.names.size())
      return bad_input("{} = {}: no such {}", field.called(), value, field.what);
  for (const auto& [path, get] : kUnsaid)
    if (get(g) != get(Gemm{}))
      return fail(ErrorCode::unsupported, fmt::format("{} = {}: must be 0", path, get(g)));
  return {};
}

Status check_sizes(const Gemm& g) {
  if (g.m < 0) return bad_input("m = {}: must be 0 or more", g.m);
  if (g.n < 0) return bad_input("n = {}: must be 0 or more", g.n);
  if (g.k < 0) return bad_input("k = {}: must be 0 or more", g.k);
  if (g.batch < 1) return bad_input("batch = {}: must be 1 or more", g.batch);
  std::int64_t product = 0;
  const std::int64_t products = g.epilogue.gate ? 2 : 1;
  if (__builtin_mul_overflow(products, g.n, &product) ||
      __builtin_mul_overflow(product, g.m, &product) ||
      __builtin_mul_overflow(product, g.k, &product) ||
      __builtin_mul_overflow(product, g.batch, &product))
    return bad_input("m*n*k*batch = {}*{}*{}*{}: does not fit 64 bits", g.m, g.n, g.k, g.batch);
  return {};
}

Status check_types(const Gemm& g) {
  const auto refuse = [](std::string text) {
    return fail(ErrorCode::unsupported, std::move(text));
  };
  const TypeRow* row = type_row(g.a.dtype, g.b.dtype);
  if (!row)
    return refuse(fmt::format("a.dtype = {}, b.dtype = {}: this pair is not supported",
                              name(g.a.dtype), name(g.b.dtype)));
  if (g.accumulator != row->accumulator)
    return refuse(fmt::format("accumulator = {}: {} accumulates in {}", name(g.accumulator),
                              row->word, name(row->accumulator)));
  if (g.d.q.scale != Scale::none && !holds_quantised(g.d.dtype))
    return refuse(fmt::format("d.dtype = {}: scale_d = {} gives one of: {}", name(g.d.dtype),
                              name(g.d.q.scale), kQuantisedOutputs));
  // What an expression computes may be codes, whose scales it stores or knows. Scales are fp32.
  const bool codes =
      !g.epilogue.expression.empty() && holds_quantised(g.d.dtype) && g.accumulator != fp64;
  if (g.d.q.scale == Scale::none && !codes && !row->allows_output(g.d.dtype))
    return refuse(
        fmt::format("d.dtype = {}: {} gives one of: {}", name(g.d.dtype), row->word, row->outputs));
  if (g.c.dtype != g.d.dtype)
    return refuse(
        fmt::format("c.dtype = {}: must be d.dtype, {}", name(g.c.dtype), name(g.d.dtype)));
  return {};
}

Status check_extent_of_scales(const Gemm& g, Operand which) {
  const Extent e = extent(g, which);
  const bool padded = order_of_scales(g, which) == ScaleOrder::blocks_4;
  std::int64_t pitch = 0, bytes = 0;
  if (__builtin_add_overflow(e.length, padded ? 3 : 0, &pitch) ||
      __builtin_mul_overflow(e.lines, pitch, &bytes) ||
      __builtin_mul_overflow(bytes, g.batch, &bytes) || __builtin_mul_overflow(bytes, 4, &bytes))
    return bad_input("{} = {}: {} lines of {} scales do not fit 64 bits", name(which),
                     name(scale_of(g, which)), e.lines, e.length);
  return {};
}

Status check_scale(const Gemm& g, Operand which) {
  const Scale scale = scale_of(g, which);
  const DType type = matrix(g, which).dtype;
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::unsupported, fmt::format("scale_{} = {}: {}.dtype = {} {}", name(which),
                                                    name(scale), name(which), name(type), why));
  };
  if (scale == Scale::none) return {};
  if (!has_weights(g) && bits_of(type) > 8) return refuse("has no scales");
  if (g.accumulator == s32) {
    if (blocks_along_k(scale))
      return refuse("is summed in s32 along all of k: scales are line or tensor");
    if (!is_floating(g.d.dtype) && g.d.q.scale == Scale::none)
      return refuse(
          fmt::format("needs floats in D or scales of it: d.dtype = {}", name(g.d.dtype)));
  }
  if (!has_weights(g) && (scale == Scale::line_32 || scale == Scale::line_64))
    return refuse("is not a type of weights");
  if (scale == Scale::mx_32 && !is_mx_element(type)) return refuse("is not an MX format");
  if (scale == Scale::mx_32 && g.k % scale_block(scale).along != 0)
    return bad_input("k = {}: scale_{} = {} needs a multiple of {}", g.k, name(which), name(scale),
                     scale_block(scale).along);
  const std::int64_t lines = which == Operand::a ? g.m : g.columns_of_b();
  if (scale == Scale::tensor && lines > kEveryLine)
    return bad_input("{} = {}: scale_{} = {} needs at most {}", which == Operand::a ? "m" : "n",
                     lines, name(which), name(scale), kEveryLine);
  return check_extent_of_scales(g, scales_of(which));
}

Status check_scale_order(const Gemm& g, Operand which) {
  const ScaleOrder order = order_of_scales(g, which);
  if (order == ScaleOrder::lines) return {};
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::unsupported,
                fmt::format("scale_order_{} = {}: {}", name(which), name(order), std::move(why)));
  };
  if (const Scale scale = scale_of(g, which); scale != Scale::line_128)
    return refuse(fmt::format("scale_{} = {}: must be 1x128", name(which), name(scale)));
  if (has_weights(g))
    return refuse(fmt::format("b.dtype = {}: must not be weights", name(g.b.dtype)));
  if (which == Operand::a && gathers(g)) return refuse("gather = rows: must be none");
  return {};
}

Status check_scales(const Gemm& g) {
  for (Operand which : {Operand::a, Operand::b})
    if (Status status = check_scale_order(g, which); !status) return status;
  if (has_weights(g)) {
    if (Status status = check_weights(g); !status) return status;
    return check_scale(g, Operand::b);
  }
  if (g.b.q.type != fp32)
    return fail(ErrorCode::unsupported,
                fmt::format("scale_type = {}: needs a quantised B, b.dtype = {}", name(g.b.q.type),
                            name(g.b.dtype)));
  if (g.b.q.zero != Zero::none)
    return fail(ErrorCode::unsupported, fmt::format("zero = {}: needs a quantised B, b.dtype = {}",
                                                    name(g.b.q.zero), name(g.b.dtype)));
  for (Operand which : {Operand::a, Operand::b})
    if (Status status = check_scale(g, which); !status) return status;
  const auto refuse = [](std::string text) {
    return fail(ErrorCode::unsupported, std::move(text));
  };
  const TypeRow& row = *type_row(g.a.dtype, g.b.dtype);
  if (needs_mx(row) && (g.a.q.scale != Scale::mx_32 || g.b.q.scale != Scale::mx_32))
    return refuse(fmt::format("scale_a = {}, scale_b = {}: {} needs mx32 for both",
                              name(g.a.q.scale), name(g.b.q.scale), row.word));
  if (blocks_along_k(g.a.q.scale) != blocks_along_k(g.b.q.scale) ||
      (g.a.q.scale == Scale::mx_32) != (g.b.q.scale == Scale::mx_32))
    return refuse(fmt::format("scale_a = {}, scale_b = {}: blocks along k must be the same",
                              name(g.a.q.scale), name(g.b.q.scale)));
  if (g.b_packed && g.accumulator != s32 &&
      (g.a.q.scale != Scale::none || g.b.q.scale != Scale::none))
    return refuse("b_packed = true: a packed B of floats has no scales, nor has what it meets");
  return {};
}

Status check_numerics(const Gemm& g) {
  if (g.numerics == Numerics::ieee) return {};
  const bool tensor = g.numerics == Numerics::tensor;
  if (!tensor && has_weights(g)) return {};
  const auto known = [&](DType type) {
    return tensor ? type == DType::fp32 : is_floating(type) && bits_of(type) == 8;
  };
  for (const Operand which : {Operand::a, Operand::b})
    if (const DType type = matrix(g, which).dtype; !known(type))
      return fail(ErrorCode::unsupported,
                  fmt::format("numerics = {}: {}.dtype = {} is {}", name(g.numerics), name(which),
                              name(type),
                              tensor ? "not fp32" : "not an 8-bit float, nor does B hold weights"));
  if (blocks_along_k(g.a.q.scale))
    return fail(ErrorCode::unsupported,
                fmt::format("numerics = {}: scale_a = {} is applied to each block's sum in fp32",
                            name(g.numerics), name(g.a.q.scale)));
  return {};
}

Status check_scale_of_d(const Gemm& g) {
  if (g.d.q.scale == Scale::none) return {};
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::unsupported,
                fmt::format("scale_d = {}: {}", name(g.d.q.scale), std::move(why)));
  };
  if (g.d.q.scale != Scale::tensor && g.d.q.scale != Scale::line && g.d.q.scale != Scale::line_128)
    return refuse("must be none, tensor, line or 1x128");
  if (g.accumulator == fp64) return refuse("accumulator = fp64: scales are fp32");
  if (g.epilogue.residual) return refuse("epilogue.residual = true: codes are not added");
  if (g.b_packed) return refuse("b_packed = true: B must lie in rows or columns");
  if (g.d.order == Order::column_major) return refuse("d.order = column: must be row");
  if (g.d.q.scale == Scale::tensor && g.m > kEveryLine)
    return bad_input("m = {}: scale_d = {} needs at most {}", g.m, name(g.d.q.scale), kEveryLine);
  return check_extent_of_scales(g, Operand::scale_d);
}

Status check_zero_points_of_a(const Gemm& g) {
  if (g.a.q.zero == Zero::none) return {};
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::unsupported,
                fmt::format("zero_a = {}: {}", name(g.a.q.zero), std::move(why)));
  };
  if (g.a.q.zero != Zero::line && g.a.q.zero != Zero::tensor)
    return refuse("must be none, line or tensor");
  if (g.accumulator != s32)
    return refuse(fmt::format("a.dtype = {}, b.dtype = {}: both must be integers of eight bits",
                              name(g.a.dtype), name(g.b.dtype)));
  if (g.a.q.scale == Scale::none) return refuse("scale_a = none: must be line or tensor");
  if (g.grouping() == Grouping::k) return refuse("grouping = k: must not be");
  if (g.d.order == Order::column_major) return refuse("d.order = column: must be row");
  if (g.a.q.zero == Zero::tensor && g.m > kEveryLine)
    return bad_input("m = {}: zero_a = {} needs at most {}", g.m, name(g.a.q.zero), kEveryLine);
  return check_extent_of_scales(g, Operand::zero_a);
}

Status check_amax(const Gemm& g) {
  if (!g.amax_d) return {};
  const auto refuse = [](std::string_view why) {
    return fail(ErrorCode::unsupported, fmt::format("amax_d = true: {}", why));
  };
  // A scale that follows from elements of D tells the largest of them by itself.
  if (g.d.q.scale != Scale::none && g.d.q.scale != Scale::tensor)
    return refuse(fmt::format("scale_d = {}: must be none or tensor", name(g.d.q.scale)));
  if (!is_floating(g.d.dtype) && g.d.q.scale == Scale::none)
    return refuse(fmt::format("d.dtype = {}: must be a floating-point type", name(g.d.dtype)));
  // Kernels see the product's rows, not their sums.
  if (adds_rows(g))
    return refuse(fmt::format("scatter = {}: must be none or rows", name(scattered_rows(g)->how)));
  return {};
}

Status check_bias(const Gemm& g) {
  if (!g.epilogue.bias_as_d) return {};
  if (g.epilogue.bias == Bias::none)
    return bad_input("epilogue.bias_as_d = true: epilogue.bias = none");
  if (g.d.dtype != fp16 && g.d.dtype != bf16)
    return fail(ErrorCode::unsupported,
                fmt::format("epilogue.bias_as_d = true: d.dtype = {}: must be fp16 or bf16",
                            name(g.d.dtype)));
  return {};
}

Status check_gate(const Gemm& g) {
  const Epilogue& e = g.epilogue;
  if (!e.gate) return {};
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::unsupported,
                fmt::format("epilogue.gate = {}: {}", name(e.gate->function), std::move(why)));
  };
  if (e.activation != Activation::none)
    return refuse(fmt::format("epilogue.activation = {}: must be none", name(e.activation)));
  const bool codes = e.gate->function == Gate::expression && holds_quantised(g.d.dtype);
  if (!is_floating(g.d.dtype) && g.d.q.scale == Scale::none && !codes)
    return refuse(fmt::format("d.dtype = {}: must be a floating-point type", name(g.d.dtype)));
  if (g.b_packed) return refuse("b_packed = true: B must lie in rows or columns");
  if (g.d.order == Order::column_major) return refuse("d.order = column: must be row");
  if (e.gate->function == Gate::expression && !e.expression.of_gate())
    return bad_input("epilogue.gate = expression: epilogue = {}: names neither acc0 nor acc1",
                     e.expression.empty() ? "none" : e.expression.text());
  return {};
}

/// Whether groups share the rows of one D.
bool shares_rows(const Gemm& g) { return g.grouping() == Grouping::rows; }
/// Whether the rows of groups are known to the device alone.
bool lists_rows(const Gemm& g) { return shares_rows(g) || g.grouping() == Grouping::masked; }

/// What groups of rows ask of an operand of the expression.
Status check_extra_of_groups(const Gemm& g, Operand which, const ExtraOperand& extra) {
  if (!lists_rows(g)) return {};
  const std::string_view text = g.epilogue.expression.text();
  const bool of_rows = expression::has_index(extra, Index::m);
  if (shares_rows(g) && of_rows && expression::has_index(extra, Index::batch))
    return bad_input(
        "epilogue = {}: {} has the indices batch and m: grouping = rows: rows of all "
        "groups are those of one D",
        text, name(which));
  if (is_extra_output(which) && !of_rows)
    return fail(ErrorCode::unsupported,
                fmt::format("epilogue = {}: {} lacks the index m: grouping = {}: how many rows a "
                            "group has is not known before",
                            text, name(which), name(g.grouping())));
  if (shares_rows(g) && extra.per_m != 1)
    return fail(ErrorCode::unsupported,
                fmt::format("epilogue = {}: {} is shared by {} rows: grouping = rows: a group may "
                            "begin at any of them",
                            text, name(which), extra.per_m));
  // What is tight would be so of all rows, of which a group has some.
  if (expression::has_lines(extra) && extra.index.back() == Index::m && extra.ld == 0)
    return bad_input("epilogue = {}: {} has lines along m: grouping = {}: needs ld", text,
                     name(which), name(g.grouping()));
  // Rows are added in another type than D's.
  if (adds_rows(g) && !extra.dtype && expression::is_matrix(extra) && size_of(g.d.dtype) < 4)
    return bad_input("epilogue = {}: {} needs a type: scatter = {}", text, name(which),
                     name(scattered_rows(g)->how));
  return {};
}

/// What an expression that reads what it reduces may not be made of beside groups of rows, and what
/// needs a D.
Status check_expression_of_groups(const Gemm& g) {
  const expression::Program& program = *g.epilogue.expression.program();
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::unsupported, fmt::format("epilogue = {}: {}", program.text, why));
  };
  if (lists_products(g)) return refuse("there is no list beside it");
  const auto not_of_rows = [](const expression::Value& value) {
    return value.op == expression::Op::reduced && value.line.m == 0;
  };
  if (lists_rows(g) && std::ranges::any_of(program.values, not_of_rows))
    return refuse(
        fmt::format("it reduces along m: grouping = {}: how many rows a group has is not "
                    "known before",
                    name(g.grouping())));
  const Scattered* const scattered = scattered_rows(g);
  if (scattered != nullptr && !program.stores_d)
    return refuse(fmt::format("it has no d: scatter = {}: must be none", name(scattered->how)));
  if (adds_rows(g) && holds_quantised(g.d.dtype))
    return refuse(fmt::format("d.dtype = {}: scatter = {}: codes are not added", name(g.d.dtype),
                              name(scattered->how)));
  return {};
}

/// Of an operand of the expression: its leading dimension, and whether its batches fit 64 bits.
Status check_extra(const Gemm& g, Operand which, const ExtraOperand& extra) {
  const Extent e = extent(g, which);
  if (extra.ld != 0 && extra.ld < e.length)
    return bad_input("epilogue = {}: ld of {} = {}: must be at least {}",
                     g.epilogue.expression.text(), name(which), extra.ld, e.length);
  if (const Status status = check_extra_of_groups(g, which, extra); !status) return status;
  if (is_extra_output(which) && g.batch > 1 && !shares_rows(g) &&
      !expression::has_index(extra, Index::batch))
    return bad_input("epilogue = {}: {} needs the index batch: batch = {}",
                     g.epilogue.expression.text(), name(which), g.batch);
  if (is_extra_output(which) && !expression::is_matrix(extra) && (g.m == 0 || g.n == 0))
    return bad_input("epilogue = {}: {} is made of no element: m = {}, n = {}",
                     g.epilogue.expression.text(), name(which), g.m, g.n);
  std::int64_t one = 0, all = 0;
  if (__builtin_mul_overflow(leading_dimension(g, which), std::max<std::int64_t>(1, e.lines),
                             &one) ||
      __builtin_mul_overflow(one, g.batch, &all) || __builtin_mul_overflow(all, 8, &all))
    return bad_input("epilogue = {}: {} does not fit 64 bits", g.epilogue.expression.text(),
                     name(which));
  return {};
}

/// Blocks of lines lie along D's memory.
Status check_blocks(const Gemm& g) {
  const bool rows = g.d.order == Order::row_major;
  const expression::Program& program = *g.epilogue.expression.program();
  const auto across = [&](expression::Line line) { return (rows ? line.m : line.n) > 1; };
  const auto target = [](const ExtraOutput& output) { return expression::line_of(output); };
  if (std::ranges::any_of(program.values, across, &expression::Value::line) ||
      std::ranges::any_of(program.outputs, across, target))
    return bad_input("epilogue = {}: D is {}-major: blocks are of neighbours along {}",
                     g.epilogue.expression.text(), rows ? "row" : "column", rows ? 'n' : 'm');
  return {};
}

Status check_expression(const Gemm& g) {
  const Epilogue& e = g.epilogue;
  if (e.expression.empty()) return {};
  const auto refuse = [&](std::string_view what) {
    return fail(ErrorCode::unsupported,
                fmt::format("epilogue = {}: there is no {} beside it", e.expression.text(), what));
  };
  if (e.bias != Bias::none || e.bias_as_d) return refuse("bias");
  if (e.activation != Activation::none) return refuse("activation");
  if (e.residual) return refuse("residual");
  if (e.gate && e.gate->function != Gate::expression) return refuse("gate");
  if (e.expression.of_gate() && !e.gate)
    return bad_input(
        "epilogue = {}: epilogue.gate = none: must be expression, of which acc0 and "
        "acc1 are the products",
        e.expression.text());
  if (g.d.q.scale != Scale::none) return refuse("scale_d");
  if (g.amax_d) return refuse("amax");
  if (Status status = check_blocks(g); !status) return status;
  if (Status status = check_expression_of_groups(g); !status) return status;
  for (const Operand which : kOperands)
    if (const ExtraOperand* const extra = extra_of(g, which))
      if (Status status = check_extra(g, which, *extra); !status) return status;
  return {};
}

/// What groups of k refuse beside what all groups do.
Status check_groups_of_k(const Gemm& g) {
  const auto refuse = [](std::string_view why) {
    return fail(ErrorCode::unsupported, fmt::format("grouping = k: {}", why));
  };
  for (const Operand which : {Operand::a, Operand::b}) {
    if (const std::int64_t stride = matrix(g, which).batch_stride; stride != 0)
      return bad_input("stride_{} = {}: all groups are in one matrix", name(which), stride);
    // Products with such scales have whole blocks.
    if (const Scale scale = scale_of(g, which); scale == Scale::mx_32)
      return refuse(
          fmt::format("scale_{} = {}: a group may begin within a block", name(which), name(scale)));
  }
  if (has_weights(g))
    return refuse(fmt::format("b.dtype = {}: must not be weights", name(g.b.dtype)));
  if (g.epilogue.gate.has_value())
    return refuse(fmt::format("epilogue.gate = {}: must be none", name(g.epilogue.gate->function)));
  return {};
}

Status check_groups(const Gemm& g) {
  if (const auto* const masked = std::get_if<MaskedGroups>(&g.groups);
      masked != nullptr && masked->expected_rows < 0)
    return bad_input("expected_rows = {}: must be 0 or more", masked->expected_rows);
  if (g.grouping() == Grouping::none) return {};
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::unsupported,
                fmt::format("grouping = {}: {}", name(g.grouping()), std::move(why)));
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (g.m > kMost || g.batch > kMost)
    return bad_input("m = {}, batch = {}: groups are counted in 32 bits", g.m, g.batch);
  if (g.grouping() == Grouping::k && g.k > kMost)
    return bad_input("k = {}: groups of k are counted in 32 bits", g.k);
  if (g.grouping() == Grouping::list) return check_list_problem(g);
  if (g.d.order == Order::column_major) return refuse("d.order = column: must be row");
  if (g.b_packed) return refuse("b_packed = true: B must lie in rows or columns");
  if (g.grouping() == Grouping::k) return check_groups_of_k(g);
  // A group's pointers are whole bytes.
  const Extent zeros = extent(g, Operand::zero_b);
  if (zeros.lines * zeros.length % elements_of_whole_bytes(dtype_of(g, Operand::zero_b)) != 0)
    return fail(ErrorCode::unsupported,
                fmt::format("zero = {}: a group's {} x {} zero points of {} are not whole bytes",
                            name(g.b.q.zero), zeros.lines, zeros.length, name(g.b.dtype)));
  if (g.grouping() != Grouping::rows) return {};
  for (const Operand which : {Operand::a, Operand::c, Operand::d})
    if (const std::int64_t stride = matrix(g, which).batch_stride; stride != 0)
      return bad_input("stride_{} = {}: all groups are in one matrix", name(which), stride);
  if (g.a.q.scale == Scale::square_128)
    return refuse("scale_a = 128x128: a group may begin within a square");
  const bool rows_are_lines = (g.a.order == Order::row_major) != g.a.transposed;
  if (!rows_are_lines && elements_of_whole_bytes(g.a.dtype) > 1)
    return refuse(fmt::format(
        "a.order = {}, a.transposed = {}: a group may begin within a byte of a.dtype = {}, whose "
        "rows must be lines of memory",
        g.a.order == Order::row_major ? "row" : "column", g.a.transposed, name(g.a.dtype)));
  return {};
}

Status check_output_layout(const Gemm& g) {
  if (g.c.transposed) return bad_input("c.transposed = true: use c.order");
  if (g.d.transposed) return bad_input("d.transposed = true: use d.order");
  if (g.c.order != g.d.order)
    return bad_input("c.order differs from d.order: they must be the same");
  // A packed operand is B of the canonical product, which a column-major D turns into A.
  if (g.b_packed && g.d.order == Order::column_major)
    return fail(ErrorCode::unsupported, "b_packed = true: needs d.order row-major");
  return {};
}

/// A batch of D may lie behind the one before it, or beside it within the same lines.
bool batches_overlap(const Gemm& g, Operand which) {
  const Extent e = extent(g, which);
  if (g.batch == 1 || e.length == 0 || e.lines == 0 || shared_by_batches(g, which)) return false;
  const std::int64_t ld = leading_dimension(g, which), stride = batch_stride(g, which);
  const bool behind = stride >= (e.lines - 1) * ld + e.length;
  const bool beside = stride >= e.length && (g.batch - 1) * stride + e.length <= ld;
  return !behind && !beside;
}

Status check_matrix(const Gemm& g, Operand which) {
  const Matrix& m = matrix(g, which);
  const Extent e = extent(g, which);
  const std::string_view c = name(which);
  if (m.ld < 0) return bad_input("ld{} = {}: must be 0 (tight) or more", c, m.ld);
  if (m.ld != 0 && m.ld < e.length)
    return bad_input("ld{} = {}: must be at least {}", c, m.ld, e.length);
  if (m.batch_stride < 0)
    return bad_input("stride_{} = {}: must be 0 (tight) or more", c, m.batch_stride);

  const std::int64_t ld = leading_dimension(g, which);
  const int whole = elements_of_whole_bytes(m.dtype);
  // Bits of the types that are counted in bits.
  const int unit = whole > 1 ? bits_of(m.dtype) : size_of(m.dtype);
  std::int64_t one = 0, all = 0;
  if (__builtin_mul_overflow(ld, std::max<std::int64_t>(1, e.lines), &one) ||
      __builtin_mul_overflow(one, unit, &all))
    return bad_input("ld{} = {}: {} lines of it do not fit 64 bits", c, ld, e.lines);
  if (ld % whole != 0 && e.lines > 1) {
    if (m.ld == 0)
      return bad_input(
          "ld{} = 0 (tight): {} elements are not whole bytes of {}: give a multiple of {}", c, ld,
          name(m.dtype), whole);
    return bad_input("ld{} = {}: must be a multiple of {}, whole bytes of {}", c, ld, whole,
                     name(m.dtype));
  }
  const std::int64_t stride = batch_stride(g, which);
  if (stride % whole != 0 && g.batch > 1)
    return bad_input("stride_{} = {}: must be a multiple of {}, whole bytes of {}", c, stride,
                     whole, name(m.dtype));
  if (__builtin_mul_overflow(stride, g.batch - 1, &all) || __builtin_add_overflow(all, one, &all) ||
      __builtin_mul_overflow(all, unit, &all))
    return bad_input("stride_{} = {}: {} batches of it do not fit 64 bits", c, stride, g.batch);
  if (which == Operand::d && batches_overlap(g, which))
    return bad_input("stride_d = {}: batches of D overlap", stride);
  return {};
}

Status check_alignment(const Gemm& g) {
  if (g.alignment < 1 || g.alignment > kMaxAlignment || (g.alignment & (g.alignment - 1)) != 0)
    return bad_input("alignment = {}: must be a power of two, 1 to {}", g.alignment, kMaxAlignment);
  return {};
}

}  // namespace

Status validate(const Gemm& gemm) {
  for (auto check : {check_enumerators, check_sizes, check_types, check_scales, check_numerics,
                     check_scale_of_d, check_zero_points_of_a, check_amax, check_bias, check_gate,
                     check_expression, check_groups, check_indices, check_output_layout})
    if (Status status = check(gemm); !status) return status;
  for (Operand which : kMatrices)
    if (Status status = check_matrix(gemm, which); !status) return status;
  return check_alignment(gemm);
}

}  // namespace kiln
