#include "soak/problem.h"

#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "soak/soak.h"
#include "support/random_gemm.h"

namespace kiln::soak {
namespace {

/// Takes a change back when it makes the problem invalid.
template <typename F>
void change(Gemm& gemm, F&& by) {
  Gemm changed = gemm;
  by(changed);
  if (validate(changed)) gemm = changed;
}

void make_tight(Gemm& g) {
  for (Matrix* m : g.matrices()) m->ld = m->batch_stride = 0;
}

std::int64_t rounded_up(std::int64_t size, std::int64_t to) {
  return std::max<std::int64_t>(1, (size + to - 1) / to) * to;
}

/// Blocks of 32 along k, and lines of whole bytes for types shorter than a byte.
void fit_blocks(Gemm& g) {
  constexpr std::int64_t kBlock = 32, kCodes = 4;
  g.k = rounded_up(g.k, kBlock);
  g.m = rounded_up(g.m, kCodes);
  g.n = rounded_up(g.n, kCodes);
  make_tight(g);
}

void use_types(const TypeRow& row, Gemm& g) {
  g.a.dtype = row.a;
  g.b.dtype = row.b;
  g.accumulator = row.accumulator;
  g.c.dtype = g.d.dtype = row.usual_output();
}

constexpr Scale kGroups[] = {Scale::line,     Scale::line_32,    Scale::line_64,
                             Scale::line_128, Scale::square_128, Scale::mx_32};
constexpr DType kScaleTypes[] = {fp32, bf16, fp16};

/// A pair that only the reference kernel computes on a CPU.
void draw_other_types(Random& random, Gemm& g) {
  const TypeRow& row = any_of(random, kAllTypeRows);
  use_types(row, g);
  g.b_packed = false;
  if (needs_mx(row)) {
    g.a.q.scale = g.b.q.scale = Scale::mx_32;
    return fit_blocks(g);
  }
  if (are_weights(row.a, row.b)) {
    g.b.q.scale = any_of(random, kGroups);
    g.b.q.type = any_of(random, kScaleTypes);
    g.b.q.zero = static_cast<Zero>(random.below(3));
    if (!code_format(row.b)->has_zero_points()) g.b.q.zero = Zero::none;
    if (!is_mx_element(row.b) && g.b.q.scale == Scale::mx_32) g.b.q.scale = Scale::line_32;
    if (g.b.q.scale == Scale::mx_32) g.b.q.type = fp32;
    if (random.below(2) == 0) g.numerics = Numerics::fast;
    g.c.order = g.d.order = Order::row_major;
    g.k = rounded_up(g.k, std::max(2, whole_blocks(g)));
    g.n = rounded_up(g.n, 2);
    return make_tight(g);
  }
  if (row.accumulator == s32) {
    constexpr Scale kKinds[] = {Scale::none, Scale::line, Scale::tensor};
    constexpr Zero kZeros[] = {Zero::none, Zero::line, Zero::tensor};
    constexpr DType kOutputs[] = {fp32, bf16, fp16};
    g.c.dtype = g.d.dtype = any_of(random, kOutputs);
    g.a.q.scale = any_of(random, kKinds);
    g.b.q.scale = any_of(random, kKinds);
    if (g.a.q.scale != Scale::none && g.d.order == Order::row_major)
      g.a.q.zero = any_of(random, kZeros);
    return;
  }
  if (!is_floating(row.a) || bits_of(row.a) > 8) return;
  switch (random.below(5)) {
    case 0:
      g.a.q.scale = Scale::line;
      break;
    case 1:
      g.a.q.scale = g.b.q.scale = Scale::line;
      break;
    case 2:
      g.a.q.scale = Scale::line_128;
      g.b.q.scale = Scale::square_128;
      break;
    case 3:
      if (is_mx_element(row.a) && is_mx_element(row.b)) {
        g.a.q.scale = g.b.q.scale = Scale::mx_32;
        fit_blocks(g);
      }
      break;
    default:
      break;
  }
}

void draw_sizes(Random& random, Gemm& g) {
  std::int64_t* sizes[] = {&g.m, &g.n, &g.k};
  if (one_in(random, 3)) *any_of(random, sizes) = 1;
  if (one_in(random, 20)) *any_of(random, sizes) = 0;
  if (one_in(random, 12)) g.batch = 1 + random.below(7);
}

/// The batches of D side by side within its lines, those of A one and the same.
void draw_strides(Random& random, Gemm& g) {
  if (g.batch == 1) return;
  const std::int64_t length = g.d.order == Order::row_major ? g.n : g.m;
  if (one_in(random, 6)) {
    g.d.batch_stride = std::max<std::int64_t>(1, length);
    g.d.ld = g.batch * g.d.batch_stride + random.below(3);
  }
  if (one_in(random, 6)) g.a.batch_stride = 1 + random.below(8);
}

/// Groups whose matrices are dense in one another, as loosened ones need not be.
void draw_groups(Random& random, Gemm& g) {
  constexpr Grouping kKinds[] = {Grouping::rows, Grouping::masked, Grouping::k};
  const Grouping kind = kKinds[random.below(3)];
  g.b_packed = false;
  g.c.order = g.d.order = Order::row_major;
  if (kind != Grouping::k) {
    g.a.order = Order::row_major;
    g.a.transposed = false;
  }
  make_tight(g);
  g = g.grouped(1 + random.below(5), kind);
}

/// Rows by index, of which there may be fewer than the product has, or more.
void draw_indices(Random& random, Gemm& g) {
  const auto rows = [&] { return random.below(2 * g.m + 2); };
  if (one_in(random, 2)) g = g.gathered(rows());
  if (!one_in(random, 2)) return;
  g.epilogue.residual = false;
  g = g.scattered(rows());
}

}  // namespace

Gemm draw_problem(Random& random, std::int64_t largest) {
  Gemm gemm = test::RandomGemm(random.next(), largest).next();
  change(gemm, [&](Gemm& g) { draw_sizes(random, g); });
  if (one_in(random, 5)) change(gemm, [&](Gemm& g) { draw_other_types(random, g); });
  change(gemm, [&](Gemm& g) { draw_strides(random, g); });
  if (one_in(random, 6)) change(gemm, [&](Gemm& g) { draw_groups(random, g); });
  if (gemm.grouping() == Grouping::rows) change(gemm, [&](Gemm& g) { draw_indices(random, g); });
  if (one_in(random, 4)) change(gemm, [&](Gemm& g) { g.alignment = 1 << random.below(7); });
  if (one_in(random, 6)) change(gemm, [](Gemm& g) { g.b_packed = true; });
  return gemm;
}

Gemm draw_neighbour(Random& random, Gemm tuned) {
  for (auto size : {&Gemm::m, &Gemm::n, &Gemm::k})
    tuned.*size = std::max<std::int64_t>(1, tuned.*size + random.below(17) - 8);
  return tuned;
}

}  // namespace kiln::soak
