#include "bench/result_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/indices.h"
#include "generator/problem/quantised_d.h"
#include "kiln/numeric.hpp"
#include "runtime/buffers.h"
#include "tuner/verify/amax.h"
#include "tuner/verify/data.h"
#include "tuner/verify/quantised.h"
#include "tuner/verify/reduced_lines.h"
#include "tuner/verify/roundoffs.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

// Multiply-adds that the sampled check of one contestant may cost: about a tenth of a second.
constexpr double kCheckWork = 1e8;

std::int64_t d_index(const Gemm& g, std::int64_t batch, std::int64_t row, std::int64_t col) {
  const bool rows_apart = (g.d.order == Order::row_major) != g.d.transposed;
  return batch * g.stride_d() + (rows_apart ? row * g.ldd() + col : col * g.ldd() + row);
}

/// The first, the last and some in between, drawn from `random`.
std::vector<std::int64_t> sampled(std::int64_t count, double work_each, Random& random) {
  std::set<std::int64_t> chosen{0, count - 1};
  const auto most = std::min(double(count), std::max(4.0, kCheckWork / std::max(1.0, work_each)));
  for (int draws = 0; double(chosen.size()) < most && draws < 4 * int(most); ++draws)
    chosen.insert(random.below(count));
  return {chosen.begin(), chosen.end()};
}

std::optional<std::string> unwritten(const Gemm& g, const void* d) {
  for (std::int64_t t = 0; t < g.batch; ++t)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j)
        if (is_poison(g.d.dtype, d, d_index(g, t, i, j)))
          return fmt::format("D[{},{}] of batch {} was never written", i, j, t);
  return std::nullopt;
}

/// `amax` is told what is expected of these lines. `reduced`: of their batch.
std::optional<std::string> wrong_lines(const Gemm& g, const Operands& o, const void* d,
                                       const Products& p, std::span<const ExpectedLines> reduced,
                                       ExpectedAmax& amax) {
  const bool rows = p.lines.along == Lines::Along::rows;
  const auto length = std::size_t(rows ? g.n : g.m);
  std::vector<double> value(length), error(length);
  TermReader terms(g, o, p.lines.batch, p.lines.along, reduced);
  for (std::size_t line = 0; line < p.lines.index.size(); ++line) {
    const std::int64_t index = p.lines.index[line];
    expect(g, Scaling{}, terms.read(p, line, 0, std::int64_t(length)), value, error);
    if (g.amax_d)
      for (std::size_t x = 0; x < length; ++x) amax.add(value[x], error[x]);
    for (std::size_t x = 0; x < length; ++x) {
      const std::int64_t i = rows ? index : std::int64_t(x), j = rows ? std::int64_t(x) : index;
      const double got = load_element(g.d.dtype, d, d_index(g, p.lines.batch, i, j));
      if (g.d.q.scale != Scale::none) {
        const auto scale = static_cast<float>(
            load_element(fp32, o.scale_d, place_of_scale(g, p.lines.batch, i, j)));
        if (!accepts_code(g.d.dtype, value[x], error[x], scale, got))
          return fmt::format("D[{},{}] of batch {} is {} times {}, expected {} within {:.3g}", i, j,
                             p.lines.batch, got, scale, value[x], error[x]);
        continue;
      }
      if (!accepts(g.d.dtype, value[x], error[x], got))
        return fmt::format("D[{},{}] of batch {} is {}, expected {} within {:.3g}", i, j,
                           p.lines.batch, got, value[x], error[x]);
    }
  }
  return std::nullopt;
}

/// Output i of the expression.
std::optional<std::string> wrong_output(const Gemm& g, const Operands& o, std::size_t i,
                                        const KnownLines& known,
                                        std::span<const ExpectedLines> reduced) {
  const Operand which = extra_output(i);
  const MatrixView view = view_of(g, which, o.outputs[i], known.batch());
  std::optional<std::string> fault;
  TermReader terms(g, o, known.batch(), known.along(), reduced);
  for_each_stored(g, Scaling{}, known, terms, i,
                  [&](std::int64_t row, std::int64_t column, double value, double error) {
                    const double got =
                        load_element(view.dtype, view.data, view.offset(row, column));
                    if (accepts(view.dtype, value, error, got)) return true;
                    fault = fmt::format("{}[{},{}] of batch {} is {}, expected {} within {:.3g}",
                                        name(which), row, column, known.batch(), got, value, error);
                    return false;
                  });
  return fault;
}

/// To D's type, of each sum: as if so much more had been added up.
void allow_rounding(const Gemm& g, Products& products) {
  const double unit = g.d.dtype == bf16 ? 0x1p-8 : g.d.dtype == fp16 ? 0x1p-11 : unit_roundoff(g);
  const double share = unit / allowance(g, Scaling{}).per_sum;
  for (std::size_t i = 0; i < products.sum.size(); ++i)
    products.magnitude[i] += share * std::abs(products.sum[i]);
}

/// What one product's D holds that is larger than the magnitude, as a sentence; `holds` becomes
/// true where an element is as large.
std::optional<std::string> larger_than(float amax, const Gemm& g, const Operands& o, const void* d,
                                       bool& holds) {
  for (std::int64_t t = 0; t < g.batch; ++t) {
    StoredAmax all;
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j)
        all.add(load_element(g.d.dtype, d, d_index(g, t, i, j)));
    const auto scale =
        g.d.q.scale == Scale::none
            ? 1.0F
            : static_cast<float>(load_element(fp32, o.scale_d, place_of_scale(g, t, 0, 0)));
    if (!all.may_follow(g.d.dtype, amax, scale))
      return fmt::format("amax_d is {}, D holds {} of scale {}", amax, all.largest(), scale);
    holds |= all.holds(g.d.dtype, amax, scale);
  }
  return std::nullopt;
}

}  // namespace

void poison_d(const Gemm& gemm, const Operands& operands) {
  poison(gemm.d.dtype, {static_cast<std::byte*>(operands.d),
                        std::size_t(span(gemm, Operand::d) * size_of(gemm.d.dtype))});
  if (gemm.amax_d) poison(fp32, {static_cast<std::byte*>(operands.amax_d), sizeof(float)});
  for (std::size_t i = 0; i < gemm.epilogue.expression.outputs().size(); ++i)
    poison(dtype_of(gemm, extra_output(i)), {static_cast<std::byte*>(operands.outputs[i]),
                                             std::size_t(span_bytes(gemm, extra_output(i)))});
}

ResultCheck::ResultCheck(const Gemm& gemm, const Operands& operands, std::uint64_t seed,
                         bool rounds_products)
    : gemm_(gemm), amax_d_(operands.amax_d) {
  Random random(seed, 0x62656e6368);
  const std::vector<ProductPart> products_of_d =
      by_group() ? parts_of(gemm, operands.groups) : std::vector<ProductPart>{{gemm, 0, {}}};
  const auto share = static_cast<double>(products_of_d.size());
  for (const ProductPart& product : products_of_d) {
    Part part{product, operands, {}};
    if (by_group()) move_to_group(gemm, part.operands, product.group, product.segment);
    const Gemm& g = product.gemm;
    const auto expect_along = [&](Lines::Along along, std::int64_t batch, std::int64_t count,
                                  std::int64_t length) {
      const double work = double(g.k) * double(g.batch > 1 ? 2 : 1) * double(length) * share;
      part.expected.push_back(products(g, part.operands.a, part.operands.b,
                                       Lines{along, batch, sampled(count, work, random)},
                                       scales_in(part.operands)));
      if (rounds_products) allow_rounding(g, part.expected.back());
    };
    for (std::int64_t batch : std::set<std::int64_t>{0, g.batch - 1}) {
      expect_along(Lines::Along::rows, batch, g.m, g.columns_of_b());
      expect_along(Lines::Along::columns, batch, g.n, g.m);
    }
    parts_.push_back(std::move(part));
  }
}

bool ResultCheck::by_group() const { return grouped(gemm_) && !indexed(gemm_); }

const void* ResultCheck::d_of(const Part& part, const void* d) const {
  Operands written;
  written.d = const_cast<void*>(d);
  if (by_group()) move_to_group(gemm_, written, part.product.group, part.product.segment);
  return written.d;
}

/// D's largest magnitude, by what is expected of the sampled lines and by all that D holds.
std::optional<std::string> ResultCheck::wrong_amax(const void* d,
                                                   const ExpectedAmax& expected) const {
  if (is_poison(fp32, amax_d_, 0)) return "amax_d was never written";
  const auto amax = static_cast<float>(load_element(fp32, amax_d_, 0));
  if (!expected.accepts(amax, /*whole=*/false))
    return fmt::format("amax_d is {}, expected from a sample: {}", amax, expected.text());
  bool holds = amax == 0;
  for (const Part& part : parts_)
    if (auto fault = larger_than(amax, part.product.gemm, part.operands, d_of(part, d), holds))
      return fault;
  if (!holds) return fmt::format("amax_d is {}, no element of D is as large", amax);
  return std::nullopt;
}

std::optional<std::string> ResultCheck::fault_of(const void* d) const {
  const bool stores_d = gemm_.epilogue.expression.stores_d();
  ExpectedAmax amax;
  for (const Part& part : parts_) {
    const void* const own = d_of(part, d);
    if (stores_d)
      if (auto fault = unwritten(part.product.gemm, own)) return fault;
    std::vector<KnownLines> known;
    for (const Products& products : part.expected) known.emplace_back(part.product.gemm, products);
    std::map<std::int64_t, std::vector<ExpectedLines>> of_batch;
    for (const KnownLines& lines : known)
      if (!of_batch.contains(lines.batch()))
        of_batch[lines.batch()] =
            reduced_lines(part.product.gemm, part.operands, Scaling{}, known, lines.batch());
    for (std::size_t at = 0; at < known.size(); ++at) {
      const Gemm& g = part.product.gemm;
      const std::vector<ExpectedLines>& reduced = of_batch[known[at].batch()];
      if (stores_d)
        if (auto fault = wrong_lines(g, part.operands, own, part.expected[at], reduced, amax))
          return fault;
      for (std::size_t i = 0; i < g.epilogue.expression.outputs().size(); ++i)
        if (auto fault = wrong_output(g, part.operands, i, known[at], reduced)) return fault;
    }
  }
  return gemm_.amax_d ? wrong_amax(d, amax) : std::nullopt;
}

}  // namespace kiln
