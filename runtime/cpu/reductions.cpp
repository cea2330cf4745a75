#include "runtime/cpu/reductions.h"

#include <array>

#include "generator/expression/halves.h"
#include "generator/problem/extent.h"
#include "runtime/workspace.h"

namespace kiln {
namespace {

/// Values of a reduction in one batch.
std::int64_t length_of_line(const KilnArgs& call, const ExtraOutput& output) {
  if (expression::has_index(output.target, Index::m)) return call.m;
  return expression::has_index(output.target, Index::n) ? call.n : 1;
}

/// Pieces of one piece of memory.
class Pieces {
 public:
  std::int64_t take(std::int64_t count, DType type) {
    constexpr std::int64_t kUnit = 64;
    const std::int64_t at = bytes_;
    bytes_ += (count * size_of(type) + kUnit - 1) / kUnit * kUnit;
    return at;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace

Status redirect_reduced(const Gemm& gemm, KilnArgs& to) {
  const Expression product = expression::of_product(gemm.epilogue.expression);
  const expression::Halves* const halves = product.empty() ? nullptr : product.program()->half_of;
  const auto hidden = [&](std::size_t i) { return halves != nullptr && i >= halves->outputs; };
  const DType type = type_of_values(gemm);
  Pieces pieces;
  std::array<std::int64_t, kExpressionOutputs> values{}, lines{};
  const std::int64_t elements = to.batch * to.m * to.n;
  for (std::size_t i = 0; halves != nullptr && i < halves->kept; ++i)
    values.at(halves->first_kept() + i) = pieces.take(elements, type_of_kept(gemm, *halves, i));
  for (std::size_t i = 0; i < product.outputs().size(); ++i) {
    const ExtraOutput& output = product.outputs()[i];
    const auto kept = expression::shared_kept(*product.program(), i);
    if (kept) values.at(i) = values.at(*kept);
    if (expression::is_reduced(output) && !kept) values.at(i) = pieces.take(elements, type);
    if (expression::is_reduced(output) && hidden(i))
      lines.at(i) = pieces.take(to.batch * length_of_line(to, output), type);
  }
  // Kernels of CPUs have a D in any case.
  const bool stores_d = gemm.epilogue.expression.stores_d();
  const std::int64_t d = (to.batch - 1) * to.stride_d + to.m * to.ldd;
  const Result<void*> memory =
      value_space(pieces.bytes() + (stores_d ? 0 : bytes_of(gemm.d.dtype, d)));
  if (!memory) return tl::unexpected(memory.error());
  auto* const begin = static_cast<std::byte*>(*memory);
  if (!stores_d) to.d = begin + pieces.bytes();
  for (std::size_t i = 0; i < product.outputs().size(); ++i) {
    const ExtraOutput& output = product.outputs()[i];
    if (!expression::is_reduced(output) && !hidden(i)) continue;
    to.reduced[i] = to.outputs[i];
    to.outputs[i] = begin + values.at(i);
    to.output_ld[i] = to.n, to.output_stride[i] = to.m * to.n;
    if (!hidden(i) || !expression::is_reduced(output)) continue;
    to.reduced[i] = begin + lines.at(i);
    to.reduced_stride[i] = length_of_line(to, output);
  }
  return {};
}

}  // namespace kiln
