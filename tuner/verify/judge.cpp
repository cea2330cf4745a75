#include "tuner/verify/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/problem/quantised_d.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/amax.h"
#include "tuner/verify/known_lines.h"
#include "tuner/verify/quantised.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// Elements judged at once: all of a chunk's arrays together stay in L1. Whole blocks of what an
/// expression reduces.
constexpr std::int64_t kChunk = 512;
static_assert(kChunk % expression::kLargestBlock == 0);

/// Least distance from a value of a type to the middle between it and its neighbour, a little short
/// of it so that ties are left to the exact test: a share of the value, or the same for all.
struct HalfSpacing {
  double of_value = 0, of_all = 0;
};

HalfSpacing half_spacing(DType type) {
  switch (type) {
    case DType::fp16:
      return {.of_value = 0.999 * 0x1p-12};
    case DType::bf16:
      return {.of_value = 0.999 * 0x1p-9};
    case DType::fp32:
      return {.of_value = 0.999 * 0x1p-25};
    case DType::s32:
    case DType::s8:
    case DType::u8:
      return {.of_all = 0.499};
    default:
      return {};
  }
}

/// References of all lines of one batch, transposed so that lines are rows.
class Batch {
 public:
  /// `got`: of the whole problem, of rows in order. `amax` is told of every element.
  Batch(const DataSet& set, const ProductPart& part, const Run& run, const Outputs& got,
        std::int64_t batch, Lines::Along along, ExpectedAmax& amax, const LinesOfBatches& reduced)
      : gemm_(part.gemm),
        set_(set),
        part_(part),
        run_(run),
        batch_(batch),
        along_(along),
        amax_(amax),
        shared_(part.gemm.d.dtype),
        scaling_(scaling_of(set, run)),
        terms_(part.gemm, inputs(set, part, run), batch, along, lines_of(reduced, batch),
               first_row_of(set.gemm(), part.segment)) {
    Operands output;
    output.d = const_cast<void*>(got.d);
    output.scale_d = const_cast<void*>(got.scale_d);
    if (grouped(set.gemm())) move_to_group(set.ordered(), output, part.group, part.segment);
    scales_ =
        is_output(part.gemm, Operand::scale_d) ? output.scale_d : inputs(set, part, run).scale_d;
    const MatrixView by_rows = view_of(part.gemm, Operand::d, output.d, batch);
    d_ = along == Lines::Along::rows ? by_rows : by_rows.transposed();
  }

  /// The i-th of the lines.
  std::optional<Failure> line(const KnownLines& known, std::int64_t i) {
    for (std::int64_t j = 0; j < d_.columns; j += kChunk) {
      const std::int64_t count = std::min(kChunk, d_.columns - j);
      if (auto failure = chunk(known[i], j, count, known.read(terms_, i, j, count))) return failure;
    }
    return std::nullopt;
  }

  /// What D holds of this batch, and its scale where it has one.
  std::pair<StoredAmax, float> stored() {
    StoredAmax all;
    for (std::int64_t i = 0; i < d_.rows; ++i)
      for (std::int64_t j = 0; j < d_.columns; j += kChunk) {
        const std::int64_t count = std::min(kChunk, d_.columns - j);
        load_block(d_, i, 1, j, count, got_);
        std::for_each_n(got_, count, [&](double x) { all.add(x); });
      }
    return {all, gemm_.d.q.scale == Scale::none ? 1.0F : scale_at(0, 0)};
  }

 private:
  static Operands inputs(const DataSet& set, const ProductPart& part, const Run& run) {
    Operands operands{.beta = run.beta};
    set.bind(operands, part);
    return operands;
  }

  std::optional<Failure> chunk(std::int64_t i, std::int64_t j, std::int64_t count,
                               const Terms& terms) {
    const auto part = [count](double* values) {
      return std::span<double>(values, static_cast<std::size_t>(count));
    };
    load_block(d_, i, 1, j, count, got_);
    expect(gemm_, scaling_, terms, part(value_), part(error_));
    if (gemm_.amax_d)
      for (std::int64_t x = 0; x < count; ++x) amax_.add(value_[x], error_[x]);
    if (gemm_.d.q.scale != Scale::none) return codes(i, j, count);
    // Nearly all elements pass this test, which the compiler turns into a few vector instructions.
    // The lesser of the two magnitudes: an infinity must not excuse a finite value.
    const HalfSpacing half = half_spacing(gemm_.d.dtype);
    const auto passes = [&, half](std::int64_t x) {
      return std::fabs(got_[x] - value_[x]) <=
             error_[x] + half.of_all +
                 half.of_value * std::min(std::fabs(got_[x]), std::fabs(value_[x]));
    };
    int doubtful = 0;
    for (std::int64_t x = 0; x < count; ++x) doubtful += !passes(x);
    if (doubtful == 0) return std::nullopt;
    for (std::int64_t x = 0; x < count; ++x)
      if (!passes(x) && !accepts(gemm_.d.dtype, value_[x], error_[x], got_[x]))
        return wrong(i, j + x, x);
    return std::nullopt;
  }

  float scale_at(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = place_of_scale(gemm_, batch_, row, column);
    return static_cast<float>(load_element(fp32, scales_, place));
  }

  /// As chunk(), of a D with scales. A scale is judged with the last of its row's elements; columns
  /// of D that are judged alone take it as it is.
  std::optional<Failure> codes(std::int64_t i, std::int64_t j, std::int64_t count) {
    const bool rows = along_ == Lines::Along::rows;
    const bool judges_scale = rows && is_output(gemm_, Operand::scale_d);
    const std::int64_t step = columns_of_a_scale(gemm_);
    for (std::int64_t x = 0; x < count; ++x) {
      const std::int64_t row = rows ? i : j + x, column = rows ? j + x : i;
      const float scale = scale_at(row, column);
      if (!accepts_code(gemm_.d.dtype, value_[x], error_[x], scale, got_[x])) {
        Failure failure = wrong(i, j + x, x);
        failure.detail = fmt::format("scale {}: {}", scale, failure.detail);
        return failure;
      }
      if (!judges_scale) continue;
      if (column % step == 0) shared_ = SharedScale(gemm_.d.dtype);
      shared_.add(value_[x], error_[x]);
      const bool last = column % step == step - 1 || column == gemm_.n - 1;
      if (last && !shared_.accepts(scale)) return wrong_scale(row, column, scale);
    }
    return std::nullopt;
  }

  Failure wrong_scale(std::int64_t row, std::int64_t column, float scale) const {
    const std::int64_t step = columns_of_a_scale(gemm_);
    return {Failure::Kind::wrong_result,
            fmt::format("{} {} row {}: the scale of columns {} to {} is {}, expected {} to {} ({})",
                        grouped(set_.gemm()) ? "group" : "batch",
                        grouped(set_.gemm()) ? part_.group : batch_, row, column / step * step,
                        column, scale, shared_.least(), shared_.most(), text(set_.gemm()))};
  }

  Failure wrong(std::int64_t i, std::int64_t j, std::int64_t x) const {
    const std::int64_t row = along_ == Lines::Along::rows ? i : j;
    const std::int64_t column = along_ == Lines::Along::rows ? j : i;
    const bool unwritten = is_poison(gemm_.d.dtype, d_.data, d_.offset(i, j));
    return {Failure::Kind::wrong_result,
            fmt::format("{} {} row {} column {}: got {}{}, expected {} within {:.3g} before "
                        "rounding to {} ({} data{}, seed {}, alpha {}, beta {}{}; {})",
                        grouped(set_.gemm()) ? "group" : "batch",
                        grouped(set_.gemm()) ? part_.group : batch_, row, column, got_[x],
                        unwritten ? " (never written)" : "", value_[x], error_[x],
                        name(gemm_.d.dtype), name(set_.recipe().data),
                        set_.recipe().nonfinite ? " with NaN and infinity"
                        : set_.recipe().tiny    ? " with denormal results"
                                                : "",
                        set_.recipe().seed, run_.alpha, run_.beta,
                        run_.c == Run::C::in_place ? ", C in place" : "", text(set_.gemm()))};
  }

  const Gemm& gemm_;
  const DataSet& set_;
  const ProductPart& part_;
  const Run& run_;
  std::int64_t batch_;
  Lines::Along along_;
  ExpectedAmax& amax_;
  SharedScale shared_;
  Scaling scaling_;
  TermReader terms_;
  MatrixView d_;
  const void* scales_ = nullptr;  // of D, where it has any
  double got_[kChunk], value_[kChunk], error_[kChunk];
};

std::optional<Failure> judge_part(DataSet& set, std::size_t part, const Run& run,
                                  const Outputs& got, const LinesOfBatches& reduced,
                                  ExpectedAmax& amax) {
  for (const KnownLines& known : known_lines(set, part)) {
    Batch batch(set, set.parts()[part], run, got, known.batch(), known.along(), amax, reduced);
    for (std::int64_t i = 0; i < known.count(); ++i)
      if (auto failure = batch.line(known, i)) return failure;
  }
  return std::nullopt;
}

/// By what was expected of the elements that were judged, and by all that D holds, which is what
/// the values that the run compared were rounded to.
std::optional<Failure> judge_amax(DataSet& set, const Run& run, const Outputs& got,
                                  ExpectedAmax& expected, bool whole) {
  const auto amax = static_cast<float>(load_element(fp32, got.amax_d, 0));
  const auto wrong = [&](std::string why) {
    return Failure{Failure::Kind::wrong_result,
                   fmt::format("amax_d = {}{}: {} ({} data, seed {}, alpha {}, beta {}; {})", amax,
                               is_poison(fp32, got.amax_d, 0) ? " (never written)" : "", why,
                               name(set.recipe().data), set.recipe().seed, run.alpha, run.beta,
                               text(set.gemm()))};
  };
  if (!expected.accepts(amax, whole)) return wrong(fmt::format("expected {}", expected.text()));
  const DType type = set.gemm().d.dtype;
  bool holds = amax == 0;
  for (const ProductPart& part : set.parts())
    for (std::int64_t b = 0; b < part.gemm.batch; ++b) {
      const auto [all, scale] =
          Batch(set, part, run, got, b, Lines::Along::rows, expected, {}).stored();
      if (!all.may_follow(type, amax, scale))
        return wrong(fmt::format("D holds {} of scale {}", all.largest(), scale));
      holds |= all.holds(type, amax, scale);
    }
  if (!holds) return wrong("no element of D is as large");
  return std::nullopt;
}

/// Of a D that is not stored.
std::optional<Failure> judge_untouched(const Gemm& gemm, const void* d) {
  for (std::int64_t at = 0; at < span(gemm, Operand::d); ++at)
    if (!is_poison(gemm.d.dtype, d, at))
      return Failure{
          Failure::Kind::out_of_bounds,
          fmt::format("D's element {} was written: the expression has no d ({})", at, text(gemm))};
  return std::nullopt;
}

}  // namespace

Scaling scaling_of(const DataSet& set, const Run& run) {
  return {run.alpha, run.beta, set.recipe().data == Data::exact, run.flushed};
}

std::optional<Failure> judge_values(DataSet& set, const Run& run, const Outputs& got) {
  if (adds_rows(set.gemm())) return judge_added(set, run, got);
  Operands operands;
  set.bind(operands);
  operands.d = const_cast<void*>(got.d);
  OrderedRows rows(set.gemm());
  rows.read_d(operands);
  rows.bind(operands);
  Outputs ordered = got;
  ordered.d = operands.d;
  ExpectedAmax amax;
  const bool stores_d = set.gemm().epilogue.expression.stores_d();
  if (!stores_d)
    if (auto failure = judge_untouched(set.gemm(), operands.d)) return failure;
  for (std::size_t part = 0; part < set.parts().size(); ++part) {
    const LinesOfBatches reduced = reduced_lines(set, part, scaling_of(set, run));
    if (stores_d)
      if (auto failure = judge_part(set, part, run, ordered, reduced, amax)) return failure;
    if (auto failure = judge_outputs(set, part, run, got, reduced)) return failure;
  }
  if (set.gemm().amax_d) {
    const bool whole = knows_integers(set) || DataSet::whole_is_cheap(set.gemm());
    if (auto failure = judge_amax(set, run, ordered, amax, whole)) return failure;
  }
  if (auto failure = judge_unused_outputs(set, got)) return failure;
  // Where C was in D's place its rows remain.
  const bool poisoned = run.c != Run::C::in_place;
  return poisoned ? judge_unused_rows(set.gemm(), set.parts(), got, operands.index_d)
                  : std::nullopt;
}

namespace {

/// Rows of a grouped D, those of all matrices behind one another, that are of no part.
std::vector<std::int64_t> unused_rows(const Gemm& gemm, const std::vector<ProductPart>& parts,
                                      const void* index_d) {
  if (scatters(gemm)) return unnamed_rows(gemm, Operand::d, index_d, parts);
  const std::int64_t matrices = gemm.grouping() == Grouping::rows ? 1 : gemm.batch;
  std::vector<bool> used(static_cast<std::size_t>(gemm.m * matrices));
  for (const ProductPart& part : parts) {
    const std::int64_t matrix = matrices == 1 ? 0 : part.group;
    for (std::int64_t i = 0; i < part.segment.count; ++i)
      used[static_cast<std::size_t>(matrix * gemm.m + part.segment.first + i)] = true;
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t at = 0; at < std::ssize(used); ++at)
    if (!used[static_cast<std::size_t>(at)]) rows.push_back(at);
  return rows;
}

/// Elements of the memory of a list's D, or of its scales, that are of no product.
std::optional<Failure> judge_between_products(const Gemm& gemm,
                                              const std::vector<ProductPart>& parts, Operand which,
                                              const void* data) {
  const std::int64_t place = batch_stride(gemm, which);
  std::int64_t end = 0;
  const auto untouched = [&](std::int64_t begin) -> std::optional<Failure> {
    for (std::int64_t at = end; at < begin; ++at)
      if (!is_poison(dtype_of(gemm, which), data, at))
        return Failure{
            Failure::Kind::out_of_bounds,
            fmt::format("{}'s element {}, which belongs to no product, was written: element "
                        "{} of the place of entry {} ({})",
                        which == Operand::d ? "D" : name(which), at, at % place, at / place,
                        text(gemm))};
    return std::nullopt;
  };
  for (const ProductPart& part : parts) {
    const Extent e = extent(part.gemm, which);
    for (std::int64_t line = 0; line < e.lines; ++line) {
      const std::int64_t begin = part.group * place + line * leading_dimension(part.gemm, which);
      if (auto failure = untouched(begin)) return failure;
      end = begin + e.length;
    }
  }
  return untouched(span(gemm, which));
}

}  // namespace

std::optional<Failure> judge_unused_rows(const Gemm& gemm, const std::vector<ProductPart>& parts,
                                         const Outputs& got, const void* index_d) {
  if (!grouped(gemm) || gemm.grouping() == Grouping::k) return std::nullopt;
  if (lists_products(gemm)) {
    auto failure = judge_between_products(gemm, parts, Operand::d, got.d);
    if (!failure && is_output(gemm, Operand::scale_d))
      failure = judge_between_products(gemm, parts, Operand::scale_d, got.scale_d);
    return failure;
  }
  for (const std::int64_t at : unused_rows(gemm, parts, index_d)) {
    const std::int64_t lines = rows_of_d(gemm), matrix = at / lines, row = at % lines;
    const MatrixView view = view_of(gemm, Operand::d, got.d, matrix);
    for (std::int64_t j = 0; j < gemm.n; ++j)
      if (!is_poison(gemm.d.dtype, view.data, view.offset(row, j)))
        return Failure{
            Failure::Kind::out_of_bounds,
            fmt::format("D's row {} (of matrix {}), which belongs to no group, was written at "
                        "column {} ({})",
                        row, matrix, j, text(gemm))};
    if (!is_output(gemm, Operand::scale_d)) continue;
    for (std::int64_t j = 0; j < gemm.n; j += columns_of_a_scale(gemm))
      if (!is_poison(fp32, got.scale_d, place_of_scale(gemm, matrix, row, j)))
        return Failure{
            Failure::Kind::out_of_bounds,
            fmt::format("the scale of D's row {} (of matrix {}), which belongs to no group, "
                        "was written at column {} ({})",
                        row, matrix, j, text(gemm))};
  }
  return std::nullopt;
}

std::optional<Failure> judge_padding(const Gemm& gemm, Operand which, const void* data) {
  if (lists_products(gemm)) return std::nullopt;  // judge_values() looks at all of the memory
  const Extent e = extent(gemm, which);
  const std::int64_t ld = leading_dimension(gemm, which);
  const std::int64_t stride = batch_stride(gemm, which);
  const bool one = gemm.batch == 1 || stride == 0;
  const bool tight = ld == e.length && (one || stride == e.lines * ld);
  if (tight || span(gemm, which) == 0) return std::nullopt;
  // Batches of D may be adjacent within lines, so its runs are visited in the order of memory.
  const std::int64_t batches = one ? 1 : gemm.batch;
  const bool beside = !one && stride < (e.lines - 1) * ld + e.length;
  const std::int64_t outer = beside ? e.lines : batches, inner = beside ? batches : e.lines;
  std::int64_t end = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t line = beside ? o : i, batch = beside ? i : o;
      const std::int64_t begin = batch * stride + line * ld;
      for (std::int64_t at = end; at < begin; ++at)
        if (!is_poison(dtype_of(gemm, which), data, at))
          return Failure{Failure::Kind::out_of_bounds,
                         fmt::format("{}'s element {} was written: it lies before line {} of batch "
                                     "{}, {} past the end of the line before it ({})",
                                     which == Operand::d ? "D" : name(which), at, line, batch,
                                     at - end, text(gemm))};
      end = begin + e.length;
    }
  return std::nullopt;
}

std::optional<Failure> judge_paddings(const Gemm& gemm, const Outputs& got) {
  if (auto failure = judge_padding(gemm, Operand::d, got.d)) return failure;
  for (std::size_t i = 0; i < gemm.epilogue.expression.outputs().size(); ++i)
    if (auto failure = judge_padding(gemm, extra_output(i), got.outputs[i])) return failure;
  return std::nullopt;
}

}  // namespace kiln
