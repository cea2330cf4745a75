// Expressions with blocks of rows and columns, with pairs and with elements that neighbours share,
// and what plain loops make of them, with one of the mistakes that kernels are likely to make or
// without: they share nothing with the reference in tuner/ but the element conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "generator/problem/extent.h"
#include "support/line_expressions.h"

namespace kiln::test {

enum class Slip : std::uint8_t {
  none,
  half_block,      // takes blocks of half the size: its index runs ahead
  short_block,     // leaves out a block's last element
  whole_last,      // takes the last elements of a line for the block at its end
  next_line,       // takes the block of the next row, or column
  unnormalised,    // reduces what was not divided yet
  pair_exchanged,  // takes the odd one for the even one, and the other way round
  odd_for_even,    // takes the odd one for both
  zero_at_edge,    // takes 0 for an odd one that D does not have
  next_element,    // reads what the next element shares
  of_two,          // reads what two neighbours would share
  transposed,      // stores blocks by the other index first
  last_unwritten,  // stores nothing of the blocks at the end
  other_remainder  // divides by the number beside it
};

/// Element `at` of operand number `which`, counted as it lies in memory.
using PlainOperands = std::function<double(std::size_t which, std::int64_t at)>;

/// What is stored of one batch: D by rows, each output in the order of its memory. Nothing: it is
/// not stored.
struct PlainBatch {
  std::vector<double> d;
  std::vector<std::vector<std::optional<double>>> y;
};

struct BlockExpression {
  const char* text;
  Order order;
  std::int64_t m, n;
  PlainBatch (*made)(const PlainProduct& acc, const PlainOperands& x, Slip slip);
  std::vector<Slip> slips;  // that change what it makes
  friend void PrintTo(const BlockExpression& e, std::ostream* out) { *out << e.text; }
};

/// Neighbours of one row, or of one column, from `first` to before `end`.
struct PlainBlock {
  std::int64_t line, first, end;
};

/// The block of so many neighbours that element `at` of a line is in, as a mistaken kernel takes
/// it.
inline PlainBlock block_at(std::int64_t line, std::int64_t lines, std::int64_t at,
                           std::int64_t length, std::int64_t size, Slip slip) {
  if (slip == Slip::next_line) line = (line + 1) % lines;
  const std::int64_t blocks = (length + size - 1) / size;
  std::int64_t block = at / size;
  if (slip == Slip::half_block) block = at / (size / 2) % blocks;
  PlainBlock taken{line, block * size, std::min(length, block * size + size)};
  if (slip == Slip::short_block && taken.end - taken.first > 1) --taken.end;
  if (slip == Slip::whole_last && taken.end == length) taken.first = length - size;
  return taken;
}

/// What is made of the elements f(i), from the first to before the end.
template <typename F>
double largest_of(std::int64_t first, std::int64_t end, F&& f) {
  double all = -PlainProduct::kMost;
  for (std::int64_t i = first; i < end; ++i) all = PlainProduct::larger(all, f(i));
  return all;
}
template <typename F>
double smallest_of(std::int64_t first, std::int64_t end, F&& f) {
  return -largest_of(first, end, [&](std::int64_t i) { return -f(i); });
}
template <typename F>
double sum_of(std::int64_t first, std::int64_t end, F&& f) {
  double all = 0;
  for (std::int64_t i = first; i < end; ++i) all += f(i);
  return all;
}

/// D of which each element is d(row, column).
template <typename F>
std::vector<double> plain_d(const PlainProduct& acc, F&& d) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < acc.m; ++i)
    for (std::int64_t j = 0; j < acc.n; ++j) all.push_back(d(i, j));
  return all;
}

/// Memory of lines × length elements y(line, place), as a mistaken kernel stores it.
template <typename F>
std::vector<std::optional<double>> plain_output(std::int64_t lines, std::int64_t length, Slip slip,
                                                F&& y) {
  std::vector<std::optional<double>> all(static_cast<std::size_t>(lines * length));
  for (std::int64_t i = 0; i < lines; ++i)
    for (std::int64_t j = 0; j < length; ++j) {
      if (slip == Slip::last_unwritten && j == length - 1) continue;
      const std::int64_t at = slip == Slip::transposed ? j * lines + i : i * length + j;
      all[static_cast<std::size_t>(at)] = y(i, j);
    }
  return all;
}

inline PlainBatch scales_of_rows(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  const auto scale = [&](std::int64_t i, std::int64_t j) {
    const PlainBlock b = block_at(i, acc.m, j, acc.n, 128, slip);
    return largest_of(b.first, b.end, [&](std::int64_t c) { return std::fabs(acc(b.line, c)); }) /
           448;
  };
  return {plain_d(acc, [&](std::int64_t i, std::int64_t j) { return acc(i, j) / scale(i, j); }),
          {plain_output(acc.m, (acc.n + 127) / 128, slip,
                        [&](std::int64_t i, std::int64_t b) { return scale(i, b * 128); })}};
}

inline PlainBatch scales_of_columns(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  const auto scale = [&](std::int64_t i, std::int64_t j) {
    const PlainBlock b = block_at(j, acc.n, i, acc.m, 32, slip);
    return largest_of(b.first, b.end, [&](std::int64_t r) { return std::fabs(acc(r, b.line)); }) /
           448;
  };
  return {plain_d(acc, [&](std::int64_t i, std::int64_t j) { return acc(i, j) / scale(i, j); }),
          {plain_output((acc.m + 31) / 32, acc.n, slip,
                        [&](std::int64_t b, std::int64_t j) { return scale(b * 32, j); })}};
}

inline PlainBatch scales_behind_norm(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  const auto y = [&](std::int64_t i, std::int64_t j) {
    return acc(i, j) / std::sqrt(acc.squares(i, kEvery) / 301 + 1e-5);
  };
  const auto scale = [&](std::int64_t i, std::int64_t j) {
    const PlainBlock b = block_at(i, acc.m, j, acc.n, 32, slip);
    // The mean square is that of all of a row.
    const double norm =
        slip == Slip::unnormalised ? 1 : 1 / std::sqrt(acc.squares(b.line, kEvery) / 301 + 1e-5);
    return norm *
           largest_of(b.first, b.end, [&](std::int64_t c) { return std::fabs(acc(b.line, c)); });
  };
  return {plain_d(acc, [&](std::int64_t i, std::int64_t j) { return y(i, j) / scale(i, j); }),
          {plain_output(acc.m, (acc.n + 31) / 32, slip,
                        [&](std::int64_t i, std::int64_t b) { return scale(i, b * 32); })}};
}

inline PlainBatch sums_of_eight(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  const auto sum = [&](std::int64_t i, std::int64_t j) {
    const PlainBlock b = block_at(i, acc.m, j, acc.n, 8, slip);
    return sum_of(b.first, b.end, [&](std::int64_t c) { return acc(b.line, c); });
  };
  // The output is column-major.
  return {plain_d(acc, [&](std::int64_t i, std::int64_t j) { return acc(i, j) - sum(i, j) / 8; }),
          {plain_output((acc.n + 7) / 8, acc.m, slip,
                        [&](std::int64_t b, std::int64_t i) { return sum(i, b * 8); })}};
}

inline PlainBatch softmax_of_blocks(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  const auto logsumexp = [&](std::int64_t i, std::int64_t j) -> double {
    const PlainBlock b = block_at(i, acc.m, j, acc.n, 16, slip);
    const auto own = [&](std::int64_t c) { return acc(b.line, c); };
    const double top = largest_of(b.first, b.end, own);
    if (std::isinf(top)) return top;
    return top +
           std::log(sum_of(b.first, b.end, [&](std::int64_t c) { return std::exp(own(c) - top); }));
  };
  return {plain_d(acc, [&](std::int64_t i,
                           std::int64_t j) { return std::exp(acc(i, j) - logsumexp(i, j)); }),
          {plain_output(acc.m, (acc.n + 63) / 64, slip, [&](std::int64_t i, std::int64_t b) {
            const PlainBlock of = block_at(i, acc.m, b * 64, acc.n, 64, slip);
            return smallest_of(of.first, of.end, [&](std::int64_t c) { return acc(of.line, c); }) *
                       2 +
                   1;
          })}};
}

/// The even and the odd one of the pair of neighbours that element `at` is of, as f gives them.
template <typename F>
std::pair<double, double> pair_at(std::int64_t at, std::int64_t length, Slip slip, F&& f) {
  const std::int64_t first = at / 2 * 2;
  double even = f(first), odd = first + 1 < length ? f(first + 1) : even;
  if (slip == Slip::zero_at_edge && first + 1 == length) odd = 0;
  if (slip == Slip::pair_exchanged) std::swap(even, odd);
  if (slip == Slip::odd_for_even) even = odd;
  return {even, odd};
}

inline PlainBatch rotated(const PlainProduct& acc, const PlainOperands& x, Slip slip) {
  const std::int64_t pairs = (acc.n + 1) / 2;
  return {plain_d(acc,
                  [&](std::int64_t i, std::int64_t j) {
                    const auto [even, odd] =
                        pair_at(j, acc.n, slip, [&](std::int64_t c) { return acc(i, c); });
                    std::int64_t at = i * pairs + j / 2;
                    if (slip == Slip::next_element)
                      at = i * pairs + std::min((j + 1) / 2, pairs - 1);
                    if (slip == Slip::next_line) at = (i + 1) % acc.m * pairs + j / 2;
                    const double c = x(0, at), s = x(1, at);
                    return j % 2 == 0 ? even * c - odd * s : odd * c + even * s;
                  }),
          {}};
}

inline PlainBatch gated_pairs(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  return {plain_d(acc, [&](std::int64_t i, std::int64_t j) { return acc(i, j); }),
          {plain_output(acc.m, (acc.n + 1) / 2, slip, [&](std::int64_t i, std::int64_t b) {
            const auto [even, odd] = pair_at(2 * b, acc.n, slip, [&](std::int64_t c) {
              return acc(slip == Slip::next_line ? (i + 1) % acc.m : i, c);
            });
            return even / (1 + std::exp(-even)) * (odd + 3);
          })}};
}

inline PlainBatch pairs_of_rows(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  return {plain_d(acc,
                  [&](std::int64_t i, std::int64_t j) {
                    const auto [even, odd] =
                        pair_at(i, acc.m, slip, [&](std::int64_t r) { return acc(r, j); });
                    return i % 2 == 0 ? odd * 2 + even : -even;
                  }),
          {}};
}

inline PlainBatch shared_elements(const PlainProduct& acc, const PlainOperands& x, Slip slip) {
  const std::int64_t pairs = (acc.n + 1) / 2;
  return {plain_d(acc,
                  [&](std::int64_t i, std::int64_t j) {
                    const std::int64_t ahead = slip == Slip::next_element ? 1 : 0;
                    const std::int64_t three = slip == Slip::of_two ? 2 : 3;
                    const std::int64_t c = std::min((j + ahead) / 2, pairs - 1);
                    const std::int64_t b = std::min(j / three, (acc.n - 1) / 3);
                    return acc(i, j) * x(0, i * pairs + c) + x(1, b) - x(2, i / 4 * acc.n + j) +
                           x(3, i / 5) * x(4, j / 2 * (acc.m + 3) + i);
                  }),
          {}};
}

inline PlainBatch remainders(const PlainProduct& acc, const PlainOperands&, Slip slip) {
  const std::int64_t by = slip == Slip::other_remainder ? 6 : 5;
  return {plain_d(acc,
                  [&](std::int64_t i, std::int64_t j) {
                    return (i * 3 + j) % by == 2 ? acc(i, j) : static_cast<double>(j % 7);
                  }),
          {}};
}

/// Of batches, unless said. Most rows have a block at the end that is shorter.
inline const std::vector<BlockExpression>& block_expressions() {
  using enum Slip;
  constexpr Order kRows = Order::row_major, kColumns = Order::column_major;
  static const std::vector<BlockExpression> all = {
      {"s[batch,m,n/128]=max(abs(acc))/448;d=acc/s[batch,m,n/128]",
       kRows,
       45,
       301,
       scales_of_rows,
       {half_block, short_block, whole_last, next_line, transposed, last_unwritten}},
      {"s[batch,m/32,n]=max(abs(acc))/448;d=acc/s[batch,m/32,n]",
       kColumns,
       75,
       19,
       scales_of_columns,
       {half_block, short_block, whole_last, next_line, transposed}},
      {"y=acc*rsqrt(sum[m](acc*acc)/301+1e-5);s[batch,m,n/32]=max(abs(y));d=y/s[batch,m,n/32]",
       kRows,
       13,
       301,
       scales_behind_norm,
       {half_block, short_block, whole_last, next_line, unnormalised, last_unwritten}},
      {"t[batch,n/8,m]:bf16=sum(acc);d=acc-sum[m,n/8](acc)/8",
       kRows,
       21,
       61,
       sums_of_eight,
       {half_block, short_block, whole_last, next_line, transposed}},
      {"a[batch,m,n/64]:fp16=min(acc)*2+1;d=exp(acc-logsumexp[m,n/16](acc))",
       kRows,
       9,
       201,
       softmax_of_blocks,
       {half_block, short_block, next_line, last_unwritten}},
      {"d=pair(even(acc)*c[m,n/2]-odd(acc)*s[m,n/2],odd(acc)*c[m,n/2]+even(acc)*s[m,n/2])",
       kRows,
       17,
       43,
       rotated,
       {pair_exchanged, odd_for_even, zero_at_edge, next_element, next_line}},
      {"z[batch,m,n/2]=silu(even(acc))*(odd(acc)+3);d=acc",
       kRows,
       17,
       43,
       gated_pairs,
       {pair_exchanged, odd_for_even, zero_at_edge, next_line, transposed, last_unwritten}},
      {"d=where(m%2==0,odd[m/2,n](acc)*2+even[m/2,n](acc),-even[m/2,n](acc))",
       kColumns,
       43,
       17,
       pairs_of_rows,
       {pair_exchanged, odd_for_even, zero_at_edge}},
      {"d=acc*c[m,n/2]+b[n/3]-r[m/4,n]+h[m/5]*p[n/2,m]:ld=22",
       kRows,
       19,
       31,
       shared_elements,
       {next_element, of_two}},
      {"d=where((m*3+n)%5==2,acc,n%7)", kRows, 19, 31, remainders, {other_remainder}},
  };
  return all;
}

inline Gemm problem_of(const BlockExpression& e, DType type = fp32) {
  const Gemm plain = e.order == Order::row_major ? Gemm::row_major(e.m, e.n, 18, type)
                                                 : Gemm::column_major(e.m, e.n, 18, type);
  return plain.batched(2).with_expression(Expression::parse(e.text).value());
}

/// What a kernel with that mistake stores in a batch.
inline PlainBatch made_of(const BlockExpression& e, const Gemm& g, const Operands& in,
                          std::int64_t batch, Slip slip) {
  return e.made(
      PlainProduct(g, in, batch),
      [&](std::size_t which, std::int64_t at) {
        return load_element(g.d.dtype == fp64 ? fp64 : fp32, in.extra[which], at);
      },
      slip);
}

/// Rounds it to D and the outputs of `to`, in every batch.
inline void store_blocks(const Gemm& g, const Operands& in, const BlockExpression& e, Slip slip) {
  const auto outputs = g.epilogue.expression.outputs();
  for (std::int64_t batch = 0; batch < g.batch; ++batch) {
    const PlainBatch all = made_of(e, g, in, batch, slip);
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j)
        store_element(g.d.dtype, in.d, batch * g.stride_d() + offset(g.d, g.ldd(), i, j),
                      all.d[static_cast<std::size_t>(i * g.n + j)]);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const DType type = outputs[o].target.dtype.value_or(g.d.dtype == fp64 ? fp64 : fp32);
      for (std::size_t at = 0; at < all.y[o].size(); ++at)
        if (all.y[o][at])
          store_element(type, in.outputs[o],
                        batch * std::ssize(all.y[o]) + static_cast<std::int64_t>(at),
                        *all.y[o][at]);
    }
  }
}

/// Whether some element of D, or of output number `output`, differs by more than roundings do.
inline bool differs(const BlockExpression& e, const Gemm& g, const Operands& in, int output,
                    Slip slip) {
  const auto apart = [](const std::optional<double>& x, const std::optional<double>& y) {
    return !y || std::fabs(*x - *y) > 0.03 * std::fabs(*x) + 1e-4;
  };
  for (std::int64_t batch = 0; batch < g.batch; ++batch) {
    const PlainBatch right = made_of(e, g, in, batch, Slip::none);
    const PlainBatch other = made_of(e, g, in, batch, slip);
    const std::size_t count =
        output < 0 ? right.d.size() : right.y[static_cast<std::size_t>(output)].size();
    for (std::size_t i = 0; i < count; ++i)
      if (output < 0 ? apart(right.d[i], other.d[i])
                     : apart(right.y[static_cast<std::size_t>(output)][i],
                             other.y[static_cast<std::size_t>(output)][i]))
        return true;
  }
  return false;
}

}  // namespace kiln::test
