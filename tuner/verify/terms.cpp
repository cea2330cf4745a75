#include "tuner/verify/terms.h"

#include "generator/problem/operands.h"

namespace kiln {

TermReader::TermReader(const Gemm& gemm, const Operands& operands, std::int64_t batch,
                       Lines::Along along, std::span<const ExpectedLines> reduced,
                       std::int64_t rows_before)
    : gemm_(gemm), along_(along), reduced_(reduced), rows_before_(rows_before) {
  const auto add = [&](Operand which, Factor factor, const MatrixView& view) {
    terms_.push_back({which, factor, along == Lines::Along::rows ? view : view.transposed(), {}});
  };
  for (const Operand which : kOperands) {
    if (!row_of(which).term || !present(gemm, which)) continue;
    if (which == Operand::c && operands.beta == 0.0) continue;
    const MatrixView view = view_of(gemm, which, pointer(operands, which), batch);
    if (which != Operand::bias || !gated(gemm)) {
      add(which, Factor::first, view);
      continue;
    }
    for (const Factor factor : kFactors) add(which, factor, columns_under(gemm, view, factor));
  }
}

Terms TermReader::terms_of(std::int64_t i, std::int64_t j, std::int64_t count) {
  Terms out{first_.sum, first_.magnitude};
  out.second = {second_.sum, second_.magnitude, {}};
  out.along = along_, out.line = i, out.first = j;
  out.reduced = reduced_;
  out.rows_before = rows_before_;
  for (Term& term : terms_) {
    term.values.resize(static_cast<std::size_t>(count));
    load_block(term.view, i, 1, j, count, term.values.data());
    (term.factor == Factor::first ? out[term.which] : out.second.bias) = term.values;
  }
  return out;
}

Terms TermReader::read(const Products& products, std::size_t line, std::int64_t j,
                       std::int64_t count) {
  const bool pairs = gated(gemm_) && along_ == Lines::Along::columns;
  const std::int64_t at = static_cast<std::int64_t>(line) * products.length * (pairs ? 2 : 1);
  return read(line_of(gemm_, along_, products.length, products.sum.data() + at),
              line_of(gemm_, along_, products.length, products.magnitude.data() + at),
              products.lines.index[line], j, count);
}

}  // namespace kiln
