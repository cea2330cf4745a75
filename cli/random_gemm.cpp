#include "cli/random_gemm.h"

#include <algorithm>
#include <iterator>

#include "generator/gemm_types.h"

namespace kiln::cli {
namespace {

constexpr std::int64_t kMaxWork = 4 << 20;  // multiply-adds of all batches

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

void draw_types(Draw& draw, Gemm& g) {
  const TypeRow& row = kTypeRows[draw.below(std::size(kTypeRows))];
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

void draw_sizes(Draw& draw, Gemm& g) {
  if (draw.one_in(4)) g.batch = draw.between(2, 4);
  // Which size is drawn first, and so may be largest, is drawn too.
  std::int64_t* sizes[] = {&g.m, &g.n, &g.k};
  for (std::size_t i = 0; i < 2; ++i) std::swap(sizes[i], sizes[i + draw.below(3 - i)]);
  std::int64_t left = kMaxWork / g.batch;
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

void draw_epilogue(Draw& draw, Gemm& g) {
  if (draw.one_in(3)) g.epilogue.bias = draw.one_in(2) ? Bias::per_row : Bias::per_column;
  if (draw.one_in(3))
    g.epilogue.activation = static_cast<Activation>(
        draw.between(static_cast<int>(Activation::relu), static_cast<int>(Activation::silu)));
  g.epilogue.residual = draw.one_in(4);
}

/// Promises that only some layouts can keep: taken back when this one cannot.
void draw_promises(Draw& draw, Gemm& g) {
  const int alignments[] = {4, 16, 64};
  if (draw.one_in(3)) g.alignment = alignments[draw.below(3)];
  if (!validate(g)) g.alignment = 1;
  g.b_packed = draw.one_in(6);
  if (!validate(g)) g.b_packed = false;
}

}  // namespace

Gemm random_gemm(Draw& draw) {
  Gemm g;
  draw_types(draw, g);
  draw_sizes(draw, g);
  draw_layouts(draw, g);
  draw_padding(draw, g);
  draw_epilogue(draw, g);
  draw_promises(draw, g);
  return g;
}

}  // namespace kiln::cli
