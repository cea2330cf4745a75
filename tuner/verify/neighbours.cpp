#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/spelling.h"
#include "tuner/verify/ragged.h"
#include "tuner/verify/verify.h"

namespace kiln {
namespace {

/// Multiply-adds of a neighbour: enough for several blocks each way, done in milliseconds.
constexpr double kWork = 0x1p28;

/// Cuts the longest sides until the work fits, each by half or by as much as is needed.
void cut_down(Gemm& gemm) {
  std::int64_t* sides[] = {&gemm.batch, &gemm.m, &gemm.n, &gemm.k};
  for (double work = gemm.flops() / 2; work > kWork; work = gemm.flops() / 2) {
    std::int64_t& longest = **std::ranges::max_element(sides, {}, [](auto* side) { return *side; });
    const double wanted = static_cast<double>(longest) * kWork / work;
    longest = std::max({std::int64_t{1}, longest / 2, static_cast<std::int64_t>(wanted)});
  }
}

/// A leading dimension `extra` alignments (or elements) beyond tight, and batches after one
/// another. Lines begin at multiples of `aligned` bytes, and of no more where that is less than the
/// problem's alignment.
void loosen(Gemm& gemm, Operand which, Matrix& matrix, int aligned, std::int64_t extra) {
  // Whole alignments, which of codes of six bits only so many fill.
  const int bits = bits_of(matrix.dtype);
  const std::int64_t unit = bits == 6 ? 4 * aligned : std::max(1, aligned * 8 / bits);
  const std::int64_t length = std::max<std::int64_t>(1, extent(gemm, which).length);
  std::int64_t units = (length + unit - 1) / unit + extra;
  if (aligned < gemm.alignment) units |= 1;
  matrix.ld = units * unit;
  matrix.batch_stride = 0;
}

/// The largest odd number that is at most `size - by`, but at least 1.
std::int64_t odd_below(std::int64_t size, std::int64_t by) {
  const std::int64_t less = std::max<std::int64_t>(1, size - by);
  return less % 2 == 0 ? less - 1 : less;
}

/// The same of n, or one less where the zero points of a group must fill bytes.
std::int64_t odd_columns_below(const Gemm& gemm, std::int64_t by) {
  const std::int64_t odd = odd_below(gemm.n, by);
  const bool whole = gemm.grouping() == Grouping::none || gemm.b.q.zero != Zero::integer ||
                     bits_of(gemm.b.dtype) == 8;
  return whole ? odd : std::max<std::int64_t>(1, odd - 1);
}

/// The same of k, which blocks with a scale fill evenly.
std::int64_t odd_depth_below(const Gemm& gemm, std::int64_t by) {
  const std::int64_t block = whole_blocks(gemm);
  if (block == 0) return odd_below(gemm.k, by);
  return odd_below(gemm.k / block, (by + block - 1) / block) * block;
}

}  // namespace

void loosen_pitches(Gemm& gemm, const Gemm& like, std::int64_t extra) {
  if (gemm.grouping() == Grouping::list) return;  // entries have theirs
  const Gemm joined = with_joined_lines(like);
  const auto loosen_one = [&](Operand which, Matrix& stored) {
    const Matrix &given = matrix(like, which), &seen = matrix(joined, which);
    const bool is_joined = given.order != seen.order || given.transposed != seen.transposed;
    // A column that code sees as a row stays one: apart, its elements are other code's.
    if (is_joined && extent(gemm, which).length == 1) {
      stored.ld = 1;
      stored.batch_stride = 0;
      return;
    }
    loosen(gemm, which, stored, line_alignment(joined, which), extra);
  };
  loosen_one(Operand::a, gemm.a);
  loosen_one(Operand::b, gemm.b);
  loosen_one(Operand::c, gemm.c);
  loosen_one(Operand::d, gemm.d);
}

std::vector<Gemm> ragged_neighbours(const Gemm& gemm) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0) return {};
  if (gemm.m == 1 && gemm.n == 1 && gemm.k == 1) return {};
  Gemm base = gemm;
  cut_down(base);
  Gemm near = base, far = base;
  near.m = odd_below(base.m, 1);
  near.n = odd_columns_below(base, 1);
  near.k = odd_depth_below(base, 1);
  loosen_pitches(near, gemm, 1);
  far.m = odd_below(base.m, base.m / 5 + 2);
  far.n = odd_columns_below(base, base.n / 7 + 4);
  far.k = odd_depth_below(base, base.k / 3 + 6);
  loosen_pitches(far, gemm, 3);
  return {near, far};
}

}  // namespace kiln
