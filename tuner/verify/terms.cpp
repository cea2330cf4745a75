#include "tuner/verify/terms.h"

#include "generator/problem/operands.h"

namespace kiln {

TermReader::TermReader(const Gemm& gemm, const Operands& operands, std::int64_t batch,
                       Lines::Along along) {
  for (const Operand which : kOperands) {
    if (!row_of(which).term || !present(gemm, which)) continue;
    if (which == Operand::c && operands.beta == 0.0) continue;
    const MatrixView view = view_of(gemm, which, pointer(operands, which), batch);
    terms_.push_back({which, along == Lines::Along::rows ? view : view.transposed(), {}});
  }
}

Terms TermReader::read(std::span<const double> sum, std::span<const double> magnitude,
                       std::int64_t i, std::int64_t j) {
  Terms out{sum, magnitude};
  for (Term& term : terms_) {
    term.values.resize(sum.size());
    load_block(term.view, i, 1, j, static_cast<std::int64_t>(sum.size()), term.values.data());
    out[term.which] = term.values;
  }
  return out;
}

}  // namespace kiln
