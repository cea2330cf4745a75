// Where operands lie, written down a second time: a slow and plain address of each element, from
// include/kiln/gemm.hpp and docs/guide alone. The library's extents, strides and places of
// groups must agree with it. Kernels, the reference and `kiln verify` all use the library's own
// answer, so none of them can see that it is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/quantised_d.h"
#include "kiln/gemm.hpp"
#include "support/seed.h"
#include "tuner/verify/view.h"

namespace kiln::extent_oracle_test {

// ---- The oracle. Nothing here may call extent.h or groups.h.

std::int64_t rounded_up(std::int64_t x, std::int64_t unit) { return (x + unit - 1) / unit * unit; }

/// One product of a problem: a batch, or a group with its part of the rows or of k.
struct Product {
  std::int64_t number = 0;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_k = 0, depth = 0;
};

class Oracle {
 public:
  explicit Oracle(const Gemm& gemm) : g_(gemm) {}

  bool gated() const { return g_.epilogue.gate.has_value(); }
  std::optional<Gathered> gather() const {
    const auto* const rows = std::get_if<GroupsOfRows>(&g_.groups);
    return rows != nullptr ? rows->gather : std::nullopt;
  }
  std::optional<Scattered> scatter() const {
    const auto* const rows = std::get_if<GroupsOfRows>(&g_.groups);
    return rows != nullptr ? rows->scatter : std::nullopt;
  }
  std::int64_t columns_of_b() const { return gated() ? 2 * g_.n : g_.n; }
  std::int64_t all_rows_of_a() const {
    return gather() && gather()->rows > 0 ? gather()->rows : g_.m;
  }
  std::int64_t all_rows_of_d() const {
    return scatter() && scatter()->rows > 0 ? scatter()->rows : g_.m;
  }

  /// "Elements between rows (row-major) or columns; 0 = tight", "between batches; 0 = tight (ld *
  /// extent)". `rows` and `columns` are those of what enters the product; `at` is (row, column).
  std::int64_t in_matrix(const Matrix& stored, std::int64_t rows, std::int64_t columns,
                         std::int64_t matrix, std::int64_t row, std::int64_t column) const {
    if (stored.transposed) std::swap(rows, columns), std::swap(row, column);
    const bool by_rows = stored.order == Order::row_major;
    const std::int64_t length = by_rows ? columns : rows, lines = by_rows ? rows : columns;
    const std::int64_t ld = stored.ld > 0 ? stored.ld : std::max<std::int64_t>(1, length);
    const std::int64_t stride = stored.batch_stride > 0 ? stored.batch_stride : ld * lines;
    return matrix * stride + (by_rows ? row * ld + column : column * ld + row);
  }

  /// Element (row of the product, position along k of the product).
  std::int64_t a(const Product& p, std::int64_t row, std::int64_t k) const {
    return in_matrix(g_.a, all_rows_of_a(), g_.k, shares_a() ? 0 : p.number, p.first_row + row,
                     p.first_k + k);
  }
  std::int64_t b(const Product& p, std::int64_t k, std::int64_t column) const {
    return in_matrix(g_.b, g_.k, columns_of_b(), by_k() ? 0 : p.number, p.first_k + k, column);
  }
  std::int64_t like_d(const Matrix& stored, const Product& p, std::int64_t row,
                      std::int64_t column) const {
    return in_matrix(stored, all_rows_of_d(), g_.n, by_rows() ? 0 : p.number, p.first_row + row,
                     column);
  }
  /// "all batches share; groups have one each, behind one another"; of groups of rows "a bias per
  /// row has m values in all".
  std::int64_t bias(const Product& p, std::int64_t row, std::int64_t column) const {
    if (g_.epilogue.bias == Bias::per_row)
      return (own_rows() ? p.number * g_.m : 0) + p.first_row + row;
    return (g_.grouping() == Grouping::none ? 0 : p.number * columns_of_b()) + column;
  }

  /// Scales of A for element (row, k); zero points of A lie as their own kind says.
  /// "an s32 for each row", "an s32 for all of it": as scales of these kinds.
  Scale zero_of_a() const { return g_.a.q.zero == Zero::line ? Scale::line : Scale::tensor; }
  std::int64_t of_a(Scale kind, const Product& p, std::int64_t row, std::int64_t k) const {
    return scale(kind, g_.a.q.order, shares_a(), p.number, all_rows_of_a(), p.first_row + row, g_.k,
                 p.first_k + k);
  }
  std::int64_t of_b(const Product& p, std::int64_t column, std::int64_t k) const {
    return scale(g_.b.q.scale, g_.b.q.order, false, p.number, columns_of_b(), column, g_.k,
                 p.first_k + k);
  }
  /// "Of D it is a row, and n stands for k": no group of k divides n.
  std::int64_t of_d(const Product& p, std::int64_t row, std::int64_t column) const {
    const bool shared = by_rows();
    switch (g_.d.q.scale) {
      case Scale::tensor:
        return shared ? 0 : p.number;
      case Scale::line:
        return (shared ? 0 : p.number * g_.m) + p.first_row + row;
      default: {
        const std::int64_t blocks = (g_.n + 127) / 128;
        return ((shared ? 0 : p.number * g_.m) + p.first_row + row) * blocks + column / 128;
      }
    }
  }
  std::int64_t column_sum(const Product& p, std::int64_t column) const {
    return p.number * columns_of_b() + column;
  }

 private:
  bool by_k() const { return g_.grouping() == Grouping::k; }
  bool by_rows() const { return g_.grouping() == Grouping::rows; }
  /// Rows of all groups are those of one A, or their k is that of one A.
  bool shares_a() const { return by_rows() || by_k(); }
  /// Groups whose rows are not those of one A and one D.
  bool own_rows() const { return g_.grouping() == Grouping::masked || by_k(); }

  /// "A tight row-major matrix [lines, blocks along k], or as ScaleOrder says, batch behind batch;
  /// the last block of either side may be short." Groups of k: blocks divide all of k, and lines
  /// and tensors are each group's own. Groups of rows: A has one scale of a tensor for all groups.
  std::int64_t scale(Scale kind, ScaleOrder order, bool shared, std::int64_t number,
                     std::int64_t lines, std::int64_t line, std::int64_t k, std::int64_t at) const {
    int along = 0, high = 1;
    switch (kind) {
      case Scale::tensor:
        return shared && by_rows() ? 0 : number;
      case Scale::line:
        return (shared && by_rows() ? 0 : number * lines) + line;
      case Scale::square_128:
        high = along = 128;
        break;
      case Scale::line_128:
        along = 128;
        break;
      case Scale::line_64:
        along = 64;
        break;
      default:
        along = 32;
    }
    if (by_k()) number = 0;
    if (shared) number = 0;
    const std::int64_t blocks = (k + along - 1) / along, high_lines = (lines + high - 1) / high;
    line /= high, at /= along;
    switch (order) {
      case ScaleOrder::lines:
        return (number * high_lines + line) * blocks + at;
      case ScaleOrder::blocks:
        return (number * blocks + at) * high_lines + line;
      default:
        return (number * blocks + at) * rounded_up(high_lines, 4) + line;
    }
  }

  const Gemm& g_;
};

// ---- Problems, drawn over every field that says where something lies.

class Drawn {
 public:
  explicit Drawn(std::uint64_t seed) : random_(seed) {}

  /// Valid, with at least one element of each matrix.
  Gemm next() {
    for (;;) {
      Gemm g = some();
      if (one_in(2)) loosen(g);
      if (validate(g)) return g;
    }
  }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

 private:
  template <typename T, std::size_t kCount>
  T one_of(const std::array<T, kCount>& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(kCount)))];
  }

  Gemm some() {
    const TypeRow& row = kAllTypeRows[below(std::size(kAllTypeRows))];
    std::int64_t size[3];
    for (std::int64_t& x : size) x = 1 + below(9);
    // One size reaches into a second or third block of scales.
    size[below(3)] = one_of(std::array<std::int64_t, 6>{64, 96, 128, 129, 256, 300});
    if (are_weights(row.a, row.b) || needs_mx(row)) size[2] = 32 * (1 + below(8));
    Gemm g = Gemm::row_major(size[0], size[1], size[2], row.a);
    g.a.dtype = row.a, g.b.dtype = row.b, g.accumulator = row.accumulator;
    g.c.dtype = g.d.dtype = row.usual_output();
    g.a.transposed = one_in(2), g.b.transposed = one_in(2);
    g.a.order = order(2), g.b.order = order(2);
    g.c.order = g.d.order = order(5);
    g.epilogue.bias = static_cast<Bias>(below(3));
    g.epilogue.residual = one_in(3);
    if (one_in(5)) g = g.with_gate(Gate::silu, static_cast<GateOrder>(below(2)));
    if (!one_in(4))
      g = g.grouped(1 + below(5), one_of(std::array{Grouping::none, Grouping::rows,
                                                    Grouping::masked, Grouping::k}));
    add_scales(g, row);
    if (g.grouping() == Grouping::rows && one_in(3)) g = g.gathered(1 + below(12));
    if (g.grouping() == Grouping::rows && g.d.q.scale == Scale::none && one_in(2)) {
      g = g.scattered(1 + below(12), static_cast<Scatter>(1 + below(3)));
      g.epilogue.residual = g.amax_d = false;
    }
    return g;
  }

  void add_scales(Gemm& g, const TypeRow& row) {
    constexpr std::array kKinds{Scale::none,       Scale::line,  Scale::line_128,
                                Scale::square_128, Scale::mx_32, Scale::tensor};
    if (are_weights(row.a, row.b)) {
      g.b.q.scale = one_of(std::array{Scale::line, Scale::line_32, Scale::line_64, Scale::line_128,
                                      Scale::square_128, Scale::mx_32});
      g.b.q.zero = static_cast<Zero>(below(3));
    } else if (needs_mx(row)) {
      g.a.q.scale = g.b.q.scale = Scale::mx_32;
    } else if (row.accumulator == s32) {
      const std::array of_lines{Scale::none, Scale::line, Scale::tensor};
      g.a.q.scale = one_of(of_lines), g.b.q.scale = one_of(of_lines);
    } else if (bits_of(row.a) == 8) {
      g.a.q.scale = one_of(kKinds);
      g.b.q.scale = one_in(2) ? g.a.q.scale : one_of(kKinds);
      if (one_in(2)) g.a.q.order = static_cast<ScaleOrder>(below(3));
      if (one_in(2)) g.b.q.order = static_cast<ScaleOrder>(below(3));
      for (const Operand which : {Operand::a, Operand::b}) {
        const bool a = which == Operand::a;
        if ((a ? g.a.q.scale : g.b.q.scale) != Scale::line_128)
          (a ? g.a.q.order : g.b.q.order) = ScaleOrder::lines;
      }
    }
    if (one_in(2)) {
      g.d.q.scale = one_of(std::array{Scale::tensor, Scale::line, Scale::line_128});
      g.c.dtype = g.d.dtype = one_in(2) ? s8 : fp8_e4m3;
      g.epilogue.residual = false;
    } else if (g.accumulator == s32 && g.a.q.scale != Scale::none) {
      g.c.dtype = g.d.dtype = fp32;
    }
    if (g.accumulator == s32 && g.a.q.scale != Scale::none && one_in(2))
      g.a.q.zero = one_in(2) ? Zero::line : Zero::tensor;
    if (g.d.q.scale == Scale::none || g.d.q.scale == Scale::tensor) g.amax_d = one_in(6);
  }

  Order order(std::int64_t n) { return one_in(n) ? Order::column_major : Order::row_major; }

  /// Pitches beyond the tight ones; strides that leave gaps.
  void loosen(Gemm& g) {
    const std::int64_t whole =
        std::max(elements_of_whole_bytes(g.a.dtype), elements_of_whole_bytes(g.b.dtype));
    const std::int64_t most =
        std::max({g.m, 2 * g.n, g.k, Oracle(g).all_rows_of_a(), Oracle(g).all_rows_of_d()});
    for (Matrix* const x : g.matrices())
      if (one_in(2)) x->ld = rounded_up(most + below(5), whole);
    if (g.grouping() == Grouping::rows) return;
    for (Matrix* const x : g.matrices())
      if (one_in(4)) x->batch_stride = rounded_up((most + 8) * (most + 8), whole);
  }

  std::mt19937_64 random_;
};

/// Products that fill all rows, or all of k: every element of the operands is of one of them.
std::vector<Product> products_of(const Gemm& g, Drawn& drawn) {
  std::vector<Product> all;
  std::int64_t first = 0;
  const bool rows = g.grouping() == Grouping::rows, k = g.grouping() == Grouping::k;
  for (std::int64_t number = 0; number < g.batch; ++number) {
    Product p{.number = number, .rows = g.m, .depth = g.k};
    if (rows || k) {
      const std::int64_t left = (rows ? g.m : g.k) - first;
      const std::int64_t count = number + 1 == g.batch ? left : drawn.below(left + 1);
      (rows ? p.first_row : p.first_k) = first;
      (rows ? p.rows : p.depth) = count;
      first += count;
    }
    all.push_back(p);
  }
  return all;
}

// ---- Comparisons.

/// What a test has found of one operand: the largest place of any element.
struct Seen {
  std::int64_t end = 0;
  void add(std::int64_t at) { end = std::max(end, at + 1); }
};

/// Calls `f(row, column)` for all of a small matrix, and for the edges of a large one.
template <typename F>
void for_elements(std::int64_t rows, std::int64_t columns, F&& f) {
  const auto near_edge = [](std::int64_t x, std::int64_t size) {
    const std::int64_t in_block = x % 32;
    return size <= 40 || x + 2 >= size || in_block < 2 || in_block == 31;
  };
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (near_edge(i, rows) && near_edge(j, columns)) f(i, j);
}

/// The library's place of a group, or of a batch.
std::int64_t begins(const Gemm& g, Operand which, const Product& p) {
  if (!grouped(g)) return p.number * batch_stride(g, which);
  const bool k = g.grouping() == Grouping::k;
  return to_group(g, which, p.number, {k ? p.first_k : p.first_row, k ? p.depth : p.rows});
}

/// The product of one group alone, as the library sees it.
Gemm own(const Gemm& g, const Product& p) {
  if (!grouped(g)) return g.batched(1);
  return alone(g, g.grouping() == Grouping::k ? p.depth : p.rows);
}

class Compared {
 public:
  Compared(const Gemm& g, const Product& p)
      : g_(g), p_(p), oracle_(g), own_(grouped(g) ? own(g, p) : g) {
    const bool k = g.grouping() == Grouping::k;
    part_ =
        grouped(g) ? part_of_k(g, {k ? p.first_k : p.first_row, k ? p.depth : p.rows}) : PartOfK{};
  }

  void matrix(Operand which, std::int64_t rows, std::int64_t columns, auto&& oracle) const {
    const MatrixView view = view_of(own_, which, nullptr, 0);
    const std::int64_t first = begins(g_, which, p_);
    for_elements(rows, columns, [&](std::int64_t i, std::int64_t j) {
      ASSERT_EQ(first + view.offset(i, j), oracle(i, j)) << what(which, i, j);
    });
  }

  /// Of A or B; `lines` rows of op(A) or columns of op(B).
  void scales(Operand of, std::int64_t lines, auto&& oracle) const {
    const Operand which = scales_of(of);
    const ScaleStrides strides = strides_of_scales(own_, of, part_);
    const auto [high, along] = scale_block(scale_of(g_, of));
    const std::int64_t first = begins(g_, which, p_);
    for_elements(lines, p_.depth, [&](std::int64_t line, std::int64_t k) {
      const std::int64_t block = along == 0 ? 0 : (part_.first + k) / along;
      ASSERT_EQ(first + line / high * strides.line + block * strides.block, oracle(line, k))
          << what(which, line, k);
    });
  }

  std::string what(Operand which, std::int64_t i, std::int64_t j) const {
    return std::string(name(which)) + " (" + std::to_string(i) + ", " + std::to_string(j) +
           ") of product " + std::to_string(p_.number) + " from row " +
           std::to_string(p_.first_row) + ", k " + std::to_string(p_.first_k) + ": " + text(g_);
  }

  void all() const {
    const std::int64_t rows = p_.rows, columns = oracle_.columns_of_b();
    const bool in_order = !indexed(g_);
    if (in_order) {
      matrix(Operand::a, rows, p_.depth, [&](auto i, auto k) { return oracle_.a(p_, i, k); });
      for (const Operand which : {Operand::c, Operand::d, Operand::residual})
        if (present(g_, which))
          matrix(which, rows, g_.n, [&](auto i, auto j) {
            return oracle_.like_d(which == Operand::c ? g_.c : g_.d, p_, i, j);
          });
    }
    matrix(Operand::b, p_.depth, columns, [&](auto k, auto j) { return oracle_.b(p_, k, j); });
    if (present(g_, Operand::bias))
      matrix(Operand::bias, rows, columns, [&](auto i, auto j) { return oracle_.bias(p_, i, j); });
    if (g_.a.q.scale != Scale::none && !gathers(g_))
      scales(Operand::a, rows,
             [&](auto i, auto k) { return oracle_.of_a(g_.a.q.scale, p_, i, k); });
    if (g_.b.q.scale != Scale::none)
      scales(Operand::b, columns, [&](auto j, auto k) { return oracle_.of_b(p_, j, k); });
    if (g_.d.q.scale != Scale::none) {
      const std::int64_t first = begins(g_, Operand::scale_d, p_);
      for_elements(rows, g_.n, [&](std::int64_t i, std::int64_t j) {
        ASSERT_EQ(first + place_of_scale(own_, 0, i, j), oracle_.of_d(p_, i, j))
            << what(Operand::scale_d, i, j);
      });
    }
    if (g_.a.q.zero != Zero::none) {
      for (std::int64_t i = 0; i < rows; ++i)
        ASSERT_EQ(begins(g_, Operand::zero_a, p_) + (g_.a.q.zero == Zero::line ? i : 0),
                  oracle_.of_a(oracle_.zero_of_a(), p_, i, 0))
            << what(Operand::zero_a, i, 0);
    }
  }

 private:
  const Gemm& g_;
  const Product& p_;
  Oracle oracle_;
  Gemm own_;  // of a batch the whole problem, whose first product it then is
  PartOfK part_;
};

/// How far each operand reaches, by the oracle.
class Reach {
 public:
  Reach(const Gemm& g, const std::vector<Product>& products) : g_(g), oracle_(g) {
    for (const Product& p : products) add(p);
    lists();
  }
  std::int64_t operator[](Operand which) const { return seen_[index_of(which)].end; }

 private:
  Seen& of(Operand which) { return seen_[index_of(which)]; }

  void add(const Product& p) {
    // An index may name any row of an A or a D that is read or written by one.
    Product a = p, d = p;
    if (oracle_.gather()) a.first_row = 0, a.rows = oracle_.all_rows_of_a();
    if (oracle_.scatter()) d.first_row = 0, d.rows = oracle_.all_rows_of_d();
    const std::int64_t columns = oracle_.columns_of_b();
    for_elements(a.rows, a.depth, [&](auto i, auto k) {
      of(Operand::a).add(oracle_.a(a, i, k));
      if (g_.a.q.scale != Scale::none)
        of(Operand::scale_a).add(oracle_.of_a(g_.a.q.scale, a, i, k));
    });
    for_elements(columns, p.depth, [&](auto j, auto k) {
      of(Operand::b).add(oracle_.b(p, k, j));
      if (g_.b.q.scale != Scale::none) of(Operand::scale_b).add(oracle_.of_b(p, j, k));
      if (g_.b.q.zero != Zero::none) of(Operand::zero_b).add(oracle_.of_b(p, j, k));
    });
    for_elements(d.rows, g_.n, [&](auto i, auto j) {
      of(Operand::d).add(oracle_.like_d(g_.d, d, i, j));
      if (has_c()) of(Operand::c).add(oracle_.like_d(g_.c, d, i, j));
      if (g_.epilogue.residual) of(Operand::residual).add(oracle_.like_d(g_.d, d, i, j));
      if (g_.d.q.scale != Scale::none) of(Operand::scale_d).add(oracle_.of_d(d, i, j));
    });
    // A group without rows has values of a bias per column, but none per row.
    const bool per_column = g_.epilogue.bias == Bias::per_column;
    for_elements(per_column ? 1 : p.rows, columns, [&](auto i, auto j) {
      if (g_.epilogue.bias != Bias::none) of(Operand::bias).add(oracle_.bias(p, i, j));
    });
    if (g_.a.q.zero == Zero::none) return;
    for (std::int64_t i = 0; i < a.rows; ++i)
      of(Operand::zero_a).add(oracle_.of_a(oracle_.zero_of_a(), a, i, 0));
    for (std::int64_t j = 0; j < columns; ++j)
      of(Operand::column_sums_b).add(oracle_.column_sum(p, j));
  }

  void lists() {
    if (g_.grouping() != Grouping::none) of(Operand::groups).add(g_.batch - 1);
    if (oracle_.gather()) of(Operand::index_a).add(g_.m - 1);
    if (oracle_.scatter()) of(Operand::index_d).add(g_.m - 1);
    if (oracle_.scatter() && oracle_.scatter()->how == Scatter::weighted)
      of(Operand::row_weights).add(g_.m - 1);
    if (g_.amax_d) of(Operand::amax_d).add(0);
  }

  /// "There is no C" with a gate, with scales of D and with Scatter::rows.
  bool has_c() const {
    return !oracle_.gated() && g_.d.q.scale == Scale::none &&
           (!oracle_.scatter() || oracle_.scatter()->how != Scatter::rows);
  }

  const Gemm& g_;
  Oracle oracle_;
  std::array<Seen, kOperandCount> seen_;
};

/// Scales whose groups or lines reach no element (an empty group's) and the padding of the last row
/// of `blocks_4` are memory that a buffer has but no element uses: the oracle may end before
/// span().
bool may_end_early(const Gemm& g, Operand which, const std::vector<Product>& products) {
  if (order_of_scales(g, which) == ScaleOrder::blocks_4 && !row_of(which).matrix) return true;
  // Without elements along k, the group has no element of op(A) or op(B) that its scales belong to.
  const bool empty_last = products.back().depth == 0;
  return empty_last && (which == Operand::scale_a || which == Operand::scale_b);
}

TEST(ExtentOracle, AgreesWithTheLibrary) {
  Drawn drawn(test::seed_of_run() + 54);
  std::set<std::string> features;
  const int problems = 1500 * test::thorough();
  for (int i = 0; i < problems; ++i) {
    const Gemm g = drawn.next();
    const std::vector<Product> products = products_of(g, drawn);
    for (const Product& p : products) {
      Compared(g, p).all();
      if (HasFatalFailure()) return;
    }
    const Reach reach(g, products);
    for (const Operand which : kOperands) {
      if (may_end_early(g, which, products))
        ASSERT_LE(reach[which], span(g, which)) << name(which) << " of " << text(g);
      else
        ASSERT_EQ(reach[which], span(g, which)) << name(which) << " of " << text(g);
      if (present(g, which))
        features.insert(std::string(name(which)) + " with groups of " +
                        std::string(name(g.grouping())));
    }
  }
  // Every operand that a kind of groups may have was drawn with it.
  for (const std::string_view how : {"none", "rows", "masked", "k"})
    for (const std::string_view which :
         {"a", "b", "c", "d", "bias", "residual", "scale_a", "scale_b", "scale_d"})
      EXPECT_EQ(features.count(std::string(which) + " with groups of " + std::string(how)), 1U)
          << which << ", " << how;
  for (const std::string_view what :
       {"zero_b with groups of rows", "zero_a with groups of masked", "index_a with groups of rows",
        "index_d with groups of rows", "row_weights with groups of rows"})
    EXPECT_EQ(features.count(std::string(what)), 1U) << what;
}

// No two elements of D, and no two scales that a call writes, are in one place.
TEST(ExtentOracle, NoTwoElementsOfDAreInOnePlace) {
  Drawn drawn(test::seed_of_run() + 55);
  for (int i = 0; i < 300 * test::thorough(); ++i) {
    const Gemm g = drawn.next();
    if (indexed(g)) continue;
    std::set<std::int64_t> places;
    std::int64_t elements = 0;
    for (const Product& p : products_of(g, drawn)) {
      const MatrixView view = view_of(own(g, p), Operand::d, nullptr, 0);
      const std::int64_t first = begins(g, Operand::d, p);
      for (std::int64_t row = 0; row < p.rows; ++row)
        for (std::int64_t column = 0; column < g.n; ++column, ++elements)
          places.insert(first + view.offset(row, column));
    }
    ASSERT_EQ(std::int64_t(places.size()), elements) << text(g);
    ASSERT_LT(*places.rbegin(), span(g, Operand::d)) << text(g);
  }
}

// Elements of fewer than eight bits: no group and no batch begins within a byte.
TEST(ExtentOracle, EveryProductBeginsAByte) {
  Drawn drawn(test::seed_of_run() + 56);
  int small = 0;
  for (int i = 0; i < 3000 * test::thorough(); ++i) {
    const Gemm g = drawn.next();
    const bool has_small = bits_of(g.a.dtype) < 8 || bits_of(g.b.dtype) < 8;
    if (!has_small || indexed(g)) continue;
    ++small;
    for (const Product& p : products_of(g, drawn)) {
      if (grouped(g) && p.rows == 0) continue;  // no kernel is called
      for (const Operand which : kOperands)
        // Zero points of a batch are found by number, not by address.
        if (present(g, which) && !is_list(which) && (grouped(g) || which != Operand::zero_b)) {
          ASSERT_EQ(begins(g, which, p) % elements_of_whole_bytes(dtype_of(g, which)), 0)
              << name(which) << " of " << text(g);
        }
    }
  }
  EXPECT_GT(small, 100);
}

}  // namespace kiln::extent_oracle_test
