#include "tuner/verify/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kiln/numeric.hpp"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// Elements judged at once: all of a chunk's arrays together stay in L1.
constexpr std::int64_t kChunk = 512;

/// Least distance from a value of `type` to the middle between it and its neighbour, as a share of
/// the value, a little short of it so that ties are left to the exact test.
double half_spacing(DType type) {
  switch (type) {
    case DType::fp16:
      return 0.999 * 0x1p-12;
    case DType::bf16:
      return 0.999 * 0x1p-9;
    case DType::fp32:
      return 0.999 * 0x1p-25;
    default:
      return 0.0;
  }
}

/// References of all lines of one batch, transposed so that lines are rows.
class Batch {
 public:
  Batch(const Gemm& gemm, const DataSet& set, const Run& run, const void* d, std::int64_t batch,
        Lines::Along along)
      : gemm_(gemm),
        set_(set),
        run_(run),
        batch_(batch),
        along_(along),
        terms_(gemm, inputs(set, run), batch, along) {
    scaling_ = {run.alpha, run.beta, set.recipe().data == Data::exact, run.flushed};
    const MatrixView by_rows = view_of(gemm, Operand::d, d, batch);
    d_ = along == Lines::Along::rows ? by_rows : by_rows.transposed();
  }

  /// Line `i` of D; `terms(j, count)` gives those of its elements [j, j + count).
  template <typename TermsOf>
  std::optional<Failure> line(std::int64_t i, TermsOf&& terms) {
    for (std::int64_t j = 0; j < d_.columns; j += kChunk) {
      const std::int64_t count = std::min(kChunk, d_.columns - j);
      if (auto failure = chunk(i, j, count, terms(j, count))) return failure;
    }
    return std::nullopt;
  }
  TermReader& terms() { return terms_; }

 private:
  static Operands inputs(const DataSet& set, const Run& run) {
    Operands operands{.beta = run.beta};
    set.bind(operands);
    return operands;
  }

  std::optional<Failure> chunk(std::int64_t i, std::int64_t j, std::int64_t count,
                               const Terms& terms) {
    const auto part = [count](double* values) {
      return std::span<double>(values, static_cast<std::size_t>(count));
    };
    load_block(d_, i, 1, j, count, got_);
    expect(gemm_, scaling_, terms, part(value_), part(error_));
    // Nearly all elements pass this test, which the compiler turns into a few vector instructions.
    // The lesser of the two magnitudes: an infinity must not excuse a finite value.
    const double spacing = half_spacing(gemm_.d.dtype);
    int doubtful = 0;
    for (std::int64_t x = 0; x < count; ++x)
      doubtful += !(std::fabs(got_[x] - value_[x]) <=
                    error_[x] + spacing * std::min(std::fabs(got_[x]), std::fabs(value_[x])));
    if (doubtful == 0) return std::nullopt;
    for (std::int64_t x = 0; x < count; ++x)
      if (!accepts(gemm_.d.dtype, value_[x], error_[x], got_[x])) return wrong(i, j + x, x);
    return std::nullopt;
  }

  Failure wrong(std::int64_t i, std::int64_t j, std::int64_t x) const {
    const std::int64_t row = along_ == Lines::Along::rows ? i : j;
    const std::int64_t column = along_ == Lines::Along::rows ? j : i;
    const bool unwritten = is_poison(gemm_.d.dtype, d_.data, d_.offset(i, j));
    return {Failure::Kind::wrong_result,
            fmt::format("batch {} row {} column {}: got {}{}, expected {} within {:.3g} before "
                        "rounding to {} ({} data{}, seed {}, alpha {}, beta {}{}; {})",
                        batch_, row, column, got_[x], unwritten ? " (never written)" : "",
                        value_[x], error_[x], name(gemm_.d.dtype), name(set_.recipe().data),
                        set_.recipe().nonfinite ? " with NaN and infinity"
                        : set_.recipe().tiny    ? " with denormal results"
                                                : "",
                        set_.recipe().seed, run_.alpha, run_.beta,
                        run_.c == Run::C::in_place ? ", C in place" : "", text(gemm_))};
  }

  const Gemm& gemm_;
  const DataSet& set_;
  const Run& run_;
  std::int64_t batch_;
  Lines::Along along_;
  Scaling scaling_;
  MatrixView d_;
  TermReader terms_;
  double got_[kChunk], value_[kChunk], error_[kChunk];
};

std::optional<Failure> judge_whole(const Gemm& gemm, DataSet& set, const Run& run, const void* d) {
  const bool rows = gemm.d.order == Order::row_major;
  const auto along = rows ? Lines::Along::rows : Lines::Along::columns;
  const std::int64_t lines = rows ? gemm.m : gemm.n;
  const std::int64_t length = rows ? gemm.columns_of_b() : gemm.m;
  for (std::int64_t b = 0; b < gemm.batch; ++b) {
    const std::vector<std::int32_t>& sums = set.whole(gemm, b);
    Batch batch(gemm, set, run, d, b, along);
    for (std::int64_t i = 0; i < lines; ++i) {
      // A gate has a row-major D: its lines are rows.
      const auto line = line_of(gemm, along, length, sums.data() + i * length);
      const auto terms = [&](std::int64_t j, std::int64_t count) {
        return batch.terms().read(line, line, i, j, count);
      };
      if (auto failure = batch.line(i, terms)) return failure;
    }
  }
  return std::nullopt;
}

std::optional<Failure> judge_sampled(const Gemm& gemm, DataSet& set, const Run& run,
                                     const void* d) {
  for (const Products& some : set.sampled(gemm)) {
    Batch batch(gemm, set, run, d, some.lines.batch, some.lines.along);
    for (std::size_t i = 0; i < some.lines.index.size(); ++i) {
      const auto terms = [&](std::int64_t j, std::int64_t count) {
        return batch.terms().read(some, i, j, count);
      };
      if (auto failure = batch.line(some.lines.index[i], terms)) return failure;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> judge_values(const Gemm& gemm, DataSet& set, const Run& run, const void* d) {
  const bool integers = set.recipe().data == Data::exact && !set.recipe().tiny;
  return integers ? judge_whole(gemm, set, run, d) : judge_sampled(gemm, set, run, d);
}

std::optional<Failure> judge_padding(const Gemm& gemm, const void* d) {
  const Extent e = extent(gemm, Operand::d);
  const std::int64_t ld = leading_dimension(gemm, Operand::d);
  const std::int64_t stride = batch_stride(gemm, Operand::d);
  const bool tight = ld == e.length && (gemm.batch == 1 || stride == e.lines * ld);
  if (tight || span(gemm, Operand::d) == 0) return std::nullopt;
  // Batches of D may be adjacent within lines, so its runs are visited in the order of memory.
  const bool beside = gemm.batch > 1 && stride < (e.lines - 1) * ld + e.length;
  const std::int64_t outer = beside ? e.lines : gemm.batch, inner = beside ? gemm.batch : e.lines;
  std::int64_t end = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t line = beside ? o : i, batch = beside ? i : o;
      const std::int64_t begin = batch * stride + line * ld;
      for (std::int64_t at = end; at < begin; ++at)
        if (!is_poison(gemm.d.dtype, d, at))
          return Failure{Failure::Kind::out_of_bounds,
                         fmt::format("D's element {} was written: it lies before line {} of batch "
                                     "{}, {} past the end of the line before it ({})",
                                     at, line, batch, at - end, text(gemm))};
      end = begin + e.length;
    }
  return std::nullopt;
}

}  // namespace kiln
