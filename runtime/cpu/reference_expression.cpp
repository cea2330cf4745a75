#include "runtime/cpu/reference_expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "generator/expression/evaluate.h"
#include "generator/expression/halves.h"
#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/thread_pool.h"

namespace kiln {
namespace {

/// Where the element of D has its own, in memory whose lines lie `ld` apart.
std::int64_t extra_place(const ExtraOperand& extra, std::int64_t ld, std::int64_t row,
                         std::int64_t column) {
  std::int64_t at = 0, step = 1;
  // The last index is of neighbours, the one before it of lines.
  for (auto index = extra.index.rbegin(); index != extra.index.rend(); ++index) {
    if (*index == Index::batch) continue;
    at += step * (*index == Index::m ? row / extra.per_m : column / extra.per_n);
    step = ld;
  }
  return at;
}

/// The value of an operand of the expression.
double extra_value(const Gemm& gemm, const KilnArgs& args, std::size_t i, std::int64_t batch,
                   std::int64_t row, std::int64_t column) {
  return load_element(
      dtype_of(gemm, extra_operand(i)), args.extra[i],
      batch * args.extra_stride[i] +
          extra_place(gemm.epilogue.expression.operands()[i], args.extra_ld[i], row, column));
}

/// Stores what a program makes of an element beside D: of a line's value once.
void store_beside(const Gemm& gemm, const KilnArgs& args, const expression::Program& program,
                  const expression::Values& values, std::int64_t batch, std::int64_t row,
                  std::int64_t column) {
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const ExtraOutput& output = program.outputs[i];
    if (program.results[i] == expression::kNotStored) continue;
    const bool hidden = i >= gemm.epilogue.expression.outputs().size();
    const bool kept = hidden || expression::is_reduced(output);  // as it is, in rows
    const auto first = [](std::int64_t shared, std::int64_t at) {
      return at == 0 || (shared != 0 && at % shared == 0);
    };
    const expression::Line line = expression::line_of(output.target);
    if (!kept && !(first(line.m, row) && first(line.n, column))) continue;
    const DType type = expression::is_reduced(output) ? type_of_values(gemm)
                       : hidden ? output.target.dtype.value_or(type_of_values(gemm))
                                : dtype_of(gemm, extra_output(i));
    store_element(type, args.outputs[i],
                  batch * args.output_stride[i] +
                      (kept ? row * args.output_ld[i] + column
                            : extra_place(output.target, args.output_ld[i], row, column)),
                  values[program.results[i]]);
  }
}

double larger_of(double x, double y) { return x > y || x != x ? x : y; }
double smaller_of(double x, double y) { return x < y || x != x ? x : y; }

/// Of all values that `value(i)` gives, i from 0 below `count`.
template <typename Value>
double reduced(Reduction how, std::int64_t count, Value&& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double all = how == Reduction::sum ? 0 : how == Reduction::min ? kInfinity : -kInfinity;
  for (std::int64_t i = 0; i < count; ++i)
    all = how == Reduction::sum   ? all + value(i)
          : how == Reduction::min ? smaller_of(all, value(i))
                                  : larger_of(all, value(i));
  if (how != Reduction::logsumexp || !std::isfinite(all)) return all;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(value(i) - all);
  return all + std::log(sum);
}

/// Output i of what kernels compute: each of its lines.
void reduce_output(const Gemm& gemm, const KilnArgs& args, std::size_t i, int thread, int threads) {
  const Expression product = expression::of_product(gemm.epilogue.expression);
  const ExtraOutput& output = product.outputs()[i];
  const bool of_rows = expression::has_index(output.target, Index::m);
  const bool of_columns = expression::has_index(output.target, Index::n);
  const bool hidden = i >= gemm.epilogue.expression.outputs().size();
  const DType type = hidden ? type_of_values(gemm) : dtype_of(gemm, extra_output(i));
  const std::int64_t lines = of_rows ? gemm.m : of_columns ? gemm.n : 1;
  const std::int64_t length = of_rows ? gemm.n : of_columns ? gemm.m : gemm.m * gemm.n;
  const std::int64_t all = gemm.batch * lines;
  for (std::int64_t any = all * thread / threads; any < all * (thread + 1) / threads; ++any) {
    const std::int64_t batch = any / lines, line = any % lines;
    const std::int64_t first = batch * args.output_stride[i] + line * (of_rows ? gemm.n : 1);
    const double x = reduced(output.reduction, length, [&](std::int64_t j) {
      return load_element(type_of_values(gemm), args.outputs[i],
                          first + j * (of_columns ? gemm.n : 1));
    });
    store_element(type, args.reduced[i], batch * args.reduced_stride[i] + line, x);
  }
}

/// A row of what is made of what was reduced.
class RowBehind {
 public:
  RowBehind(const Gemm& gemm, const KilnArgs& args)
      : gemm_(gemm),
        args_(args),
        halves_(*gemm.epilogue.expression.program()->halves),
        operands_(halves_.behind.operands.size()),
        blocks_(halves_.blocks.outputs.size(), std::vector<double>(std::size_t(args.n))) {}

  void store(std::int64_t batch, std::int64_t row) {
    for (std::int64_t column = 0; column < args_.n && !blocks_.empty(); ++column) {
      const expression::Values values = evaluated(halves_.blocks, batch, row, column);
      for (std::size_t i = 0; i < blocks_.size(); ++i)
        blocks_[i][std::size_t(column)] = values[halves_.blocks.results[i]];
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) reduce(halves_.blocks.outputs[i], blocks_[i]);
    for (std::int64_t column = 0; column < args_.n; ++column) {
      const expression::Values values = evaluated(halves_.behind, batch, row, column);
      store_beside(gemm_, args_, halves_.behind, values, batch, row, column);
      if (halves_.behind.stores_d)
        store_element(gemm_.d.dtype, args_.d, batch * args_.stride_d + row * args_.ldd + column,
                      values[halves_.behind.d]);
    }
  }

 private:
  expression::Values evaluated(const expression::Program& program, std::int64_t batch,
                               std::int64_t row, std::int64_t column) {
    const std::size_t own = gemm_.epilogue.expression.operands().size();
    for (std::size_t i = 0; i < own; ++i)
      operands_[i] = extra_value(gemm_, args_, i, batch, row, column);
    for (std::size_t i = own; i < halves_.first_block(); ++i) {
      const std::size_t from = halves_.output_of(i - own);
      const ExtraOperand& read = halves_.behind.operands[i];
      const bool kept = expression::is_matrix(read);
      operands_[i] =
          load_element(read.dtype.value_or(type_of_values(gemm_)),
                       kept ? args_.outputs[from] : args_.reduced[from],
                       batch * (kept ? args_.output_stride : args_.reduced_stride)[from] +
                           extra_place(read, args_.output_ld[from], row, column));
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      operands_[halves_.first_block() + i] = blocks_[i][std::size_t(column)];
    return expression::evaluated(program, {0, operands_, static_cast<double>(args_.first_row + row),
                                           static_cast<double>(column)});
  }

  /// All values of a block become what they are reduced to.
  static void reduce(const ExtraOutput& block, std::vector<double>& values) {
    const std::int64_t size = block.target.per_n, all = std::ssize(values);
    for (std::int64_t first = 0; first < all; first += size) {
      const std::int64_t count = std::min(size, all - first);
      const auto value = [&](std::int64_t i) { return values[std::size_t(first + i)]; };
      const double x = block.reduction == Reduction::even  ? value(0)
                       : block.reduction == Reduction::odd ? value(count - 1)
                                                           : reduced(block.reduction, count, value);
      std::fill_n(values.begin() + first, count, x);
    }
  }

  const Gemm& gemm_;
  const KilnArgs& args_;
  const expression::Halves& halves_;
  std::vector<double> operands_;
  std::vector<std::vector<double>> blocks_;  // of the row's elements
};

/// Stores what is made of what was reduced.
void store_behind(const Gemm& gemm, const KilnArgs& args, int thread, int threads) {
  RowBehind of(gemm, args);
  const std::int64_t rows = args.batch * args.m;
  for (std::int64_t r = rows * thread / threads; r < rows * (thread + 1) / threads; ++r)
    of.store(r / args.m, r % args.m);
}

}  // namespace

double expressed(const Gemm& gemm, const KilnArgs& args, double acc, double second,
                 std::int64_t batch, std::int64_t row, std::int64_t column) {
  const Expression product = expression::of_product(gemm.epilogue.expression);
  const expression::Program& program = *product.program();
  std::array<double, kExtraOperands> operands{};
  for (std::size_t i = 0; i < program.operands.size(); ++i)
    operands.at(i) = extra_value(gemm, args, i, batch, row, column);
  const expression::Values values =
      expression::evaluated(program, {acc,
                                      operands,
                                      static_cast<double>(args.first_row + row),
                                      static_cast<double>(column),
                                      {},
                                      second});
  store_beside(gemm, args, program, values, batch, row, column);
  return values[program.d];
}

void reduce_reference(const Problem& problem, const KilnArgs& args, int threads) {
  const Gemm& gemm = problem.gemm;
  const Expression product = expression::of_product(gemm.epilogue.expression);
  for (std::size_t i = 0; i < product.outputs().size(); ++i)
    if (expression::is_reduced(product.outputs()[i]))
      parallel(threads,
               [&](int thread, int count) { reduce_output(gemm, args, i, thread, count); });
  if (expression::halves_in(gemm.epilogue.expression) == nullptr) return;
  parallel(threads, [&](int thread, int count) { store_behind(gemm, args, thread, count); });
}

}  // namespace kiln
