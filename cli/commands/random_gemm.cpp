#include "cli/commands/random_gemm.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/commands/random_expression.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/indices.h"
#include "runtime/backend.h"

namespace kiln::cli {
namespace {

/// A size: tiny, around a multiple of the vector lengths, or anything.
std::int64_t random_size(Draw& draw, std::int64_t most) {
  const std::int64_t multiples[] = {8, 16, 32, 48, 64, 128, 256};
  std::int64_t size = 0;
  switch (draw.below(4)) {
    case 0:
      size = draw.between(1, 9);
      break;
    case 1:
      size = multiples[draw.below(7)] + draw.between(-1, 1);
      break;
    case 2:
      size = draw.between(1, 100);
      break;
    default:
      size = draw.between(1, 700);
      break;
  }
  return std::clamp<std::int64_t>(size, 1, std::max<std::int64_t>(1, most));
}

void draw_types(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  const std::size_t rows = on_host(caps) ? kCpuTypeRows.size() : std::size(kTypeRows);
  const TypeRow& row = kTypeRows[draw.below(rows)];
  g.a.dtype = row.a;
  g.b.dtype = row.b;
  g.accumulator = row.accumulator;
  g.d.dtype = row.usual_output();
  if (draw.one_in(3)) {
    std::vector<DType> allowed;
    for (const DTypeInfo& type : kDTypes)
      if (row.allows_output(type.type)) allowed.push_back(type.type);
    g.d.dtype = draw.of(allowed);
  }
  g.c.dtype = g.d.dtype;
}

void draw_sizes(Draw& draw, Gemm& g, std::int64_t most_work) {
  if (draw.one_in(4)) g.batch = draw.between(2, 4);
  // Which size is drawn first, and so may be largest, is drawn too.
  std::int64_t* sizes[] = {&g.m, &g.n, &g.k};
  for (std::size_t i = 0; i < 2; ++i) std::swap(sizes[i], sizes[i + draw.below(3 - i)]);
  std::int64_t left = most_work / g.batch;
  for (std::int64_t* size : sizes) {
    *size = random_size(draw, left);
    left /= *size;
  }
}

void draw_layouts(Draw& draw, Gemm& g) {
  g.a.transposed = draw.one_in(2);
  g.b.transposed = draw.one_in(2);
  const auto order = [&draw] { return draw.one_in(3) ? Order::column_major : Order::row_major; };
  g.a.order = order();
  g.b.order = order();
  g.c.order = g.d.order = order();
}

/// Leading dimensions and batch strides beyond the tight ones.
void draw_padding(Draw& draw, Gemm& g) {
  const auto pad = [&draw](std::int64_t tight) {
    return draw.one_in(3) ? tight + draw.between(1, 19) : 0;
  };
  const std::int64_t lds[] = {pad(g.lda()), pad(g.ldb()), pad(g.ldc()), pad(g.ldd())};
  g.a.ld = lds[0];
  g.b.ld = lds[1];
  g.c.ld = lds[2];
  g.d.ld = lds[3];
  if (g.batch == 1) return;
  const std::int64_t strides[] = {pad(g.stride_a()), pad(g.stride_b()), pad(g.stride_c()),
                                  pad(g.stride_d())};
  g.a.batch_stride = strides[0];
  g.b.batch_stride = strides[1];
  g.c.batch_stride = strides[2];
  g.d.batch_stride = strides[3];
}

/// Of lines or tensors, where D can have what they give.
void draw_scales_of_integers(Draw& draw, Gemm& g) {
  const Scale kinds[] = {Scale::none, Scale::line, Scale::tensor};
  const Scale of_a = kinds[draw.below(3)];
  const Gemm scaled = g.scaled(of_a, kinds[draw.below(3)]);
  if (Problem::of(scaled)) g = scaled;
}

/// Scales of small types; those of blocks of 32 also bring the types that need them.
void draw_scales(Draw& draw, Gemm& g) {
  if (g.accumulator == s32) return draw_scales_of_integers(draw, g);
  if (!is_floating(g.a.dtype) || bits_of(g.a.dtype) > 8 || draw.one_in(2)) return;
  Gemm scaled = g;
  switch (draw.below(5)) {
    case 0:
      scaled = g.scaled(Scale::line);
      break;
    case 1:
      scaled = g.scaled(Scale::none, Scale::line);
      break;
    case 2:
      scaled = g.scaled(Scale::line_128, draw.one_in(2) ? Scale::square_128 : Scale::line_128);
      break;
    case 3:
      scaled = g.scaled(Scale::tensor, draw.one_in(2) ? Scale::tensor : Scale::line);
      break;
    default: {
      const TypeRow& row = kMxTypeRows[draw.below(kMxTypeRows.size())];
      scaled = g.scaled(Scale::mx_32);
      if (draw.one_in(2)) scaled.a.dtype = row.a, scaled.b.dtype = row.b;
      // Whole blocks along k and whole bytes of either: tight, with sizes that divide.
      constexpr std::int64_t kBlock = 32, kCodes = 4;
      scaled.k = (g.k + kBlock - 1) / kBlock * kBlock;
      scaled.m = (g.m + kCodes - 1) / kCodes * kCodes;
      scaled.n = (g.n + kCodes - 1) / kCodes * kCodes;
      for (Matrix* m : scaled.matrices()) m->ld = m->batch_stride = 0;
    }
  }
  if (Problem::of(scaled)) g = scaled;
}

/// Of scales for each 128 elements of a line.
void draw_scale_order(Draw& draw, Gemm& g) {
  if (draw.one_in(2)) return;
  const auto order = [&](Scale s) {
    return s == Scale::line_128 ? static_cast<ScaleOrder>(draw.between(0, 2)) : ScaleOrder::lines;
  };
  const Gemm ordered = g.with_scale_order(order(g.a.q.scale), order(g.b.q.scale));
  if (Problem::of(ordered)) g = ordered;
}

/// Weights on a CPU, in place of B: tight, with sizes that whole groups and bytes divide.
void draw_weights(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  if (!on_host(caps) || !draw.one_in(8)) return;
  const TypeRow& row = kWeightTypeRows[draw.below(kWeightTypeRows.size())];
  const Scale groups[] = {Scale::line,     Scale::line_32,    Scale::line_64,
                          Scale::line_128, Scale::square_128, Scale::mx_32};
  const DType types[] = {fp32, bf16, fp16};
  const auto zero = static_cast<Zero>(draw.between(0, 2));
  const bool floats = !code_format(row.b)->has_zero_points();
  const Scale group = groups[draw.below(floats ? 6 : 5)];
  Gemm weights = g.with_weights(row.b, group, group == Scale::mx_32 ? fp32 : types[draw.below(3)],
                                floats ? Zero::none : zero);
  weights.a.dtype = row.a;
  weights.accumulator = row.accumulator;
  weights.c.dtype = weights.d.dtype = row.usual_output();
  weights.c.order = weights.d.order = Order::row_major;
  weights.a.q.scale = Scale::none;
  const std::int64_t block = std::max(2, whole_blocks(weights));
  weights.k = (g.k + block - 1) / block * block;
  weights.n = (g.n + 1) / 2 * 2;
  for (Matrix* m : weights.matrices()) m->ld = m->batch_stride = 0;
  if (Problem::of(weights)) g = weights;
}

/// Only some types know the difference.
void draw_numerics(Draw& draw, Gemm& g) {
  for (const Numerics kind : {Numerics::fast, Numerics::tensor})
    if (const Gemm other = g.with_numerics(kind); draw.one_in(2) && Problem::of(other)) g = other;
}

void draw_epilogue(Draw& draw, Gemm& g) {
  if (draw.one_in(3)) {
    g.epilogue.bias = draw.one_in(2) ? Bias::per_row : Bias::per_column;
    g.epilogue.bias_as_d = draw.one_in(2);
    if (!Problem::of(g)) g.epilogue.bias_as_d = false;
  }
  if (draw.one_in(3))
    g.epilogue.activation = static_cast<Activation>(
        draw.between(static_cast<int>(Activation::relu), static_cast<int>(Activation::silu)));
  g.epilogue.residual = draw.one_in(4);
}

/// In the place of an activation.
void draw_gate(Draw& draw, Gemm& g) {
  if (!draw.one_in(5)) return;
  Gemm gated = g.with_activation(Activation::none)
                   .with_gate(static_cast<Gate>(draw.between(static_cast<int>(Gate::relu),
                                                             static_cast<int>(Gate::sigmoid))),
                              draw.one_in(2) ? GateOrder::interleaved : GateOrder::stacked);
  // B's lines become twice as long where they run along n.
  gated.b.ld = gated.b.batch_stride = 0;
  if (Problem::of(gated)) g = gated;
}

/// In the place of a batch: D in rows, of which what all groups share has one.
void draw_groups(Draw& draw, Gemm& g) {
  if (!draw.one_in(6)) return;
  const Grouping kinds[] = {Grouping::rows, Grouping::masked, Grouping::k, Grouping::list};
  Gemm groups = g.grouped(draw.between(1, 6), kinds[draw.below(4)]);
  if (groups.grouping() == Grouping::masked && draw.one_in(2))
    groups.groups = MaskedGroups{draw.between(0, static_cast<int>(groups.m))};
  const bool list = groups.grouping() == Grouping::list;
  if (!list) groups.c.order = groups.d.order = Order::row_major;
  groups.c.ld = groups.d.ld = 0;
  if (list) groups.a.ld = groups.b.ld = 0;
  if (Problem::of(groups)) g = groups;
}

/// Of groups of rows: rows of A or of D by index, as many as the product has, fewer or more.
void draw_indices(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  if (g.grouping() != Grouping::rows || caps.vendor == Vendor::amd) return;
  const auto rows = [&] { return draw.one_in(3) ? 0 : draw.between(1, 2 * static_cast<int>(g.m)); };
  if (draw.one_in(2)) {
    Gemm gathered = g.gathered(rows());
    gathered.a.order = Order::row_major;
    gathered.a.transposed = false;
    gathered.a.ld = 0;
    if (Problem::of(gathered)) g = gathered;
  }
  if (!draw.one_in(2)) return;
  const Scatter kinds[] = {Scatter::rows, Scatter::add, Scatter::weighted};
  Gemm scattered = g.scattered(rows(), kinds[draw.below(3)]);
  scattered.epilogue.residual = false;
  if (adds_rows(scattered)) scattered.epilogue.bias_as_d = false;
  if (Problem::of(scattered)) g = scattered;
}

/// Codes with scales in the place of D, in rows.
void draw_scale_of_d(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  if (caps.vendor != Vendor::nvidia || !draw.one_in(6)) return;
  const Scale kinds[] = {Scale::tensor, Scale::line, Scale::line_128};
  Gemm codes = g.quantised(draw.one_in(3) ? s8 : fp8_e4m3, kinds[draw.below(3)]);
  codes.epilogue.residual = codes.epilogue.bias_as_d = false;
  codes.c.order = codes.d.order = Order::row_major;
  codes.c.ld = codes.d.ld = codes.c.batch_stride = codes.d.batch_stride = 0;
  if (Problem::of(codes)) g = codes;
}

/// Of integers with scales, D in rows.
void draw_zero_points_of_a(Draw& draw, Gemm& g) {
  if (g.a.q.scale == Scale::none || draw.one_in(2)) return;
  const Gemm zeros = g.with_zero_points_of_a(draw.one_in(3) ? Zero::tensor : Zero::line);
  if (Problem::of(zeros)) g = zeros;
}

/// Of whatever D may have one.
void draw_amax(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  if (!(on_host(caps) || caps.vendor == Vendor::nvidia) || !draw.one_in(5)) return;
  if (const Gemm with = g.with_amax_d(); Problem::of(with)) g = with;
}

/// In the place of what else follows the product.
void draw_expression(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  if (!(on_host(caps) || caps.vendor == Vendor::nvidia) || !draw.one_in(5)) return;
  Gemm with = g;
  if (with.epilogue.gate) with.epilogue.gate->function = Gate::expression;
  const std::string drawn =
      with.epilogue.gate ? random_gate(draw) : random_expression(draw, g.d.order);
  with = with.with_expression(Expression::parse(drawn).value());
  if (Problem::of(with)) g = with;
}

/// Fields that no function here draws: any of their values, where the problem may have it.
void draw_others(Draw& draw, Gemm& g) {
  constexpr int kLastDrawnAbove = 18;  // of the versions that brought the fields
  for (const GemmField& field : kGemmFields) {
    const std::size_t values = field.flag ? 2 : field.names.size();
    if (field.since <= kLastDrawnAbove || values == 0 || !draw.one_in(3)) continue;
    Gemm other = g;
    if (field.set(other, static_cast<std::int64_t>(draw.below(values))) && Problem::of(other))
      g = other;
  }
}

void draw_promises(Draw& draw, const DeviceCaps& caps, Gemm& g) {
  const int alignments[] = {4, 16, 64};
  if (draw.one_in(3)) g.alignment = alignments[draw.below(3)];
  if (!on_host(caps)) return;  // no packed operands there
  g.b_packed = draw.one_in(6);
  if (!Problem::of(g)) g.b_packed = false;
}

}  // namespace

Gemm random_gemm(Draw& draw, const DeviceCaps& caps, std::int64_t most_work) {
  Gemm g;
  draw_types(draw, caps, g);
  draw_sizes(draw, g, most_work);
  draw_layouts(draw, g);
  draw_padding(draw, g);
  draw_scales(draw, g);
  draw_weights(draw, caps, g);
  draw_numerics(draw, g);
  draw_epilogue(draw, g);
  draw_gate(draw, g);
  draw_groups(draw, g);
  draw_indices(draw, caps, g);
  draw_scale_order(draw, g);
  draw_scale_of_d(draw, caps, g);
  draw_zero_points_of_a(draw, g);
  draw_promises(draw, caps, g);
  draw_amax(draw, caps, g);
  draw_expression(draw, caps, g);
  draw_others(draw, g);
  return g;
}

Gemm random_product(Draw& draw, const DeviceCaps& caps, std::int64_t most_work) {
  constexpr int kSteps = 13 * 64;  // of 1/64 of a power of two, up to 2^13
  const std::size_t rows = on_host(caps) ? kCpuTypeRows.size() : std::size(kTypeRows);
  Gemm g;
  const TypeRow& row = kTypeRows[draw.below(rows)];
  g.a.dtype = row.a;
  g.b.dtype = row.b;
  g.accumulator = row.accumulator;
  g.c.dtype = g.d.dtype = row.usual_output();
  g.a.transposed = draw.one_in(2);
  g.b.transposed = draw.one_in(2);
  const auto size = [&] { return std::llround(std::exp2(double(draw.between(0, kSteps)) / 64)); };
  do {
    g.m = size();
    g.n = size();
    g.k = size();
  } while (double(g.m) * double(g.n) * double(g.k) > double(most_work));
  return g;
}

}  // namespace kiln::cli
