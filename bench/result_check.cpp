#include "bench/result_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/indices.h"
#include "generator/problem/quantised_d.h"
#include "kiln/numeric.hpp"
#include "runtime/buffers.h"
#include "tuner/verify/data.h"
#include "tuner/verify/quantised.h"
#include "tuner/verify/terms.h"

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

std::optional<std::string> wrong_lines(const Gemm& g, const Operands& o, const void* d,
                                       const Products& p) {
  const bool rows = p.lines.along == Lines::Along::rows;
  const auto length = std::size_t(rows ? g.n : g.m);
  std::vector<double> value(length), error(length);
  TermReader terms(g, o, p.lines.batch, p.lines.along);
  for (std::size_t line = 0; line < p.lines.index.size(); ++line) {
    const std::int64_t index = p.lines.index[line];
    expect(g, Scaling{}, terms.read(p, line, 0, std::int64_t(length)), value, error);
    for (std::size_t x = 0; x < length; ++x) {
      const std::int64_t i = rows ? index : std::int64_t(x), j = rows ? std::int64_t(x) : index;
      const double got = load_element(g.d.dtype, d, d_index(g, p.lines.batch, i, j));
      if (g.scale_d != Scale::none) {
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

}  // namespace

void poison_d(const Gemm& gemm, const Operands& operands) {
  poison(gemm.d.dtype, {static_cast<std::byte*>(operands.d),
                        std::size_t(span(gemm, Operand::d) * size_of(gemm.d.dtype))});
}

ResultCheck::ResultCheck(const Gemm& gemm, const Operands& operands, std::uint64_t seed)
    : gemm_(gemm) {
  Random random(seed, 0x62656e6368);
  const bool by_group = grouped(gemm) && !indexed(gemm);
  const std::vector<ProductPart> products_of_d =
      by_group ? parts_of(gemm, operands.groups) : std::vector<ProductPart>{{gemm, 0, {}}};
  const auto share = static_cast<double>(products_of_d.size());
  for (const ProductPart& product : products_of_d) {
    Part part{product, operands, {}};
    if (by_group) move_to_group(gemm, part.operands, product.group, product.segment);
    const Gemm& g = product.gemm;
    const auto expect_along = [&](Lines::Along along, std::int64_t batch, std::int64_t count,
                                  std::int64_t length) {
      const double work = double(g.k) * double(g.batch > 1 ? 2 : 1) * double(length) * share;
      part.expected.push_back(products(g, part.operands.a, part.operands.b,
                                       Lines{along, batch, sampled(count, work, random)},
                                       scales_in(part.operands)));
    };
    for (std::int64_t batch : std::set<std::int64_t>{0, g.batch - 1}) {
      expect_along(Lines::Along::rows, batch, g.m, g.columns_of_b());
      expect_along(Lines::Along::columns, batch, g.n, g.m);
    }
    parts_.push_back(std::move(part));
  }
}

std::optional<std::string> ResultCheck::fault_of(const void* d) const {
  for (const Part& part : parts_) {
    Operands written;
    written.d = const_cast<void*>(d);
    if (grouped(gemm_) && !indexed(gemm_))
      move_to_group(gemm_, written, part.product.group, part.product.segment);
    if (auto fault = unwritten(part.product.gemm, written.d)) return fault;
    for (const Products& products : part.expected)
      if (auto fault = wrong_lines(part.product.gemm, part.operands, written.d, products))
        return fault;
  }
  return std::nullopt;
}

}  // namespace kiln
