#include "tuner/verify/data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/problem/whole_factors.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/drawn_list.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio, odd

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Each operand is a stream of a seed, by its index; no two may share values.
static_assert(kOperandCount <= 32, "streams from 32 on are those of data_set.cpp");

/// Calls `f` with the two halves of each draw: 32 bits are enough for all types but fp64.
template <typename F>
void from_halves(Random& random, std::vector<double>& out, F f) {
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const std::uint64_t bits = random.next();
    out[i] = f(static_cast<std::uint32_t>(bits));
    if (i + 1 < out.size()) out[i + 1] = f(static_cast<std::uint32_t>(bits >> 32));
  }
}

/// Integers lowest … lowest+count-1; the bias of count/2^32 does not matter to a test.
void integers(double lowest, std::uint64_t count, Random& random, std::vector<double>& out) {
  from_halves(random, out, [=](std::uint32_t half) {
    return static_cast<double>(static_cast<std::int32_t>(half * count >> 32)) + lowest;
  });
}

void uniform_values(DType type, Random& random, std::vector<double>& out) {
  switch (type) {
    case DType::s8:
      return integers(-128, 256, random, out);
    case DType::u8:
      return integers(0, 256, random, out);
    case DType::s4:
      return integers(-8, 16, random, out);
    case DType::u4:
      return integers(0, 16, random, out);
    case DType::s32:
      return integers(-1000, 2001, random, out);
    case DType::fp64:  // every bit of the fraction in use
      for (double& x : out)
        x = static_cast<double>(static_cast<std::int64_t>(random.next())) * 0x1p-63;
      return;
    default: {
      // Within [-1, 1] the shortest types have next to no numbers.
      const double unit = bits_of(type) < 8 ? 0x1p-29 : 0x1p-31;
      from_halves(random, out, [unit](std::uint32_t half) {
        return static_cast<double>(static_cast<std::int32_t>(half)) * unit;
      });
    }
  }
}

/// Every code of a small float that is a finite number, zeros of either sign among them; or those
/// alone whose exponent is the lowest, which larger ones would hide in a sum.
void finite_codes(DType type, bool lowest, Random& random, std::vector<double>& out) {
  const SmallFormat& f = small_format_of(type);
  from_halves(random, out, [&f, lowest](std::uint32_t half) {
    const unsigned code = half >> 24 & static_cast<unsigned>(f.last_code());
    const unsigned sign = code & f.sign_bit(), magnitude = code & ~f.sign_bit();
    const unsigned kept =
        lowest ? magnitude & ((1u << f.mantissa) - 1) : std::min<unsigned>(magnitude, f.largest);
    return double{decode(f, static_cast<std::uint8_t>(sign | kept))};
  });
}

/// Integers of [-limit, limit], or [0, limit] in a type without a sign.
void small_integers(DType type, std::int64_t limit, Random& random, std::vector<double>& out) {
  const std::int64_t lowest = type == DType::u8 || type == DType::u4 ? 0 : -limit;
  integers(static_cast<double>(lowest), limit - lowest + 1, random, out);
}

/// Nonzeros in a line of the sparse operand: all of k while a direct product is cheap.
std::int64_t nonzeros(const Gemm& gemm) {
  constexpr std::int64_t kAdditions = std::int64_t{1} << 30;
  // With scales of up to 8 on both sides, sums of so many still fit fp32.
  constexpr std::int64_t kMostScaled = std::int64_t{1} << 17;
  const std::int64_t products = gated(gemm) ? 2 : 1;
  const std::int64_t elements =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(gemm.outputs()) * products);
  const std::int64_t affordable = std::max<std::int64_t>(16, kAdditions / elements);
  const bool scaled = gemm.a.q.scale != Scale::none || gemm.b.q.scale != Scale::none;
  return std::min({gemm.k, affordable, scaled ? kMostScaled : gemm.k});
}

/// `view` is transposed so that its rows run along k. Of `count` nonzeros in each row two are at
/// the first and the last step; the others share what lies between, each with an equal part of its
/// own.
void fill_sparse(const MatrixView& view, std::int64_t count, Random& random) {
  const std::int64_t k = view.columns, parts = count - 2, inner = k - 2;
  std::vector<double> line(k);
  const auto put = [&](std::int64_t at) {
    const bool negative = view.dtype != DType::u8 && (random.next() >> 63) != 0;
    line[at] = negative ? -1.0 : 1.0;
  };
  for (std::int64_t i = 0; i < view.rows && k > 0; ++i) {
    std::ranges::fill(line, 0.0);
    put(0);
    if (k > 1) put(k - 1);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t from = part * inner / parts, to = (part + 1) * inner / parts;
      put(1 + from + random.below(to - from));
    }
    store_row(view, i, 0, k, line.data());
  }
}

}  // namespace

std::string_view name(Data data) { return data == Data::uniform ? "uniform" : "exact"; }

int exact_limit(const Gemm& gemm, Operand which) {
  if (row_of(which).term) return integer_epilogue(gemm) ? kExactLargestInteger : kExactLargest;
  return which == Operand::b && has_weights(gemm) ? kExactWeights : 1;
}

Random::Random(std::uint64_t seed, std::uint64_t stream)
    : state_(mixed(seed * kGolden + mixed(stream + 1))) {}

std::uint64_t Random::next() { return mixed(state_ += kGolden); }

std::int64_t Random::below(std::int64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(next()) * static_cast<std::uint64_t>(bound) >>
                                   64);
}

namespace {

void fill_matrix(const Gemm& gemm, Operand which, Data kind, Random& random, void* data) {
  const bool sparse_a = gemm.d.order == Order::row_major;
  const bool sparse = kind == Data::exact && which == (sparse_a ? Operand::a : Operand::b);
  const bool codes = which == Operand::b && has_weights(gemm) && is_floating(gemm.b.dtype);
  std::vector<double> line;
  const std::int64_t batches = shared_by_batches(gemm, which) ? 1 : gemm.batch;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    MatrixView view = view_of(gemm, which, data, batch);
    if (sparse) {
      fill_sparse(sparse_a ? view : view.transposed(), nonzeros(gemm), random);
      continue;
    }
    if (view.column_stride != 1) view = view.transposed();  // along memory
    line.resize(view.columns);
    for (std::int64_t i = 0; i < view.rows; ++i) {
      if (kind == Data::exact)
        small_integers(view.dtype, exact_limit(gemm, which), random, line);
      else if (codes)
        finite_codes(view.dtype, i % kLinesOfLowest == kLinesOfLowest - 1, random, line);
      else
        uniform_values(view.dtype, random, line);
      store_row(view, i, 0, view.columns, line.data());
    }
  }
}

void fill_scales(const Gemm& gemm, Operand which, Data kind, Random& random, void* data) {
  const Scale scale = scale_of(gemm, which);
  const DType type = dtype_of(gemm, which);
  constexpr std::int64_t kWidest = 6;
  for (std::int64_t i = 0; i < span(gemm, which); ++i) {
    const std::int64_t exponent =
        kind == Data::exact ? random.below(4) : random.below(2 * kWidest + 1) - kWidest;
    if (scale == Scale::mx_32)
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(kE8m0.bias + exponent);
    else if (kind == Data::exact)
      store_element(type, data, i, std::ldexp(1.0, static_cast<int>(exponent)));
    else
      store_element(type, data, i,
                    0.25 + 3.75 * static_cast<double>(random.next() >> 11) * 0x1p-53);
  }
}

/// Those of integers' uniform data are as the codes are; others lie among the codes, not on them.
void fill_zeros(const Gemm& gemm, Data kind, Random& random, void* data) {
  const DType type = dtype_of(gemm, Operand::zero_b), of_codes = gemm.b.dtype;
  std::vector<double> values(static_cast<std::size_t>(span(gemm, Operand::zero_b)));
  if (kind == Data::uniform)
    uniform_values(of_codes, random, values);
  else
    small_integers(of_codes, kExactWeights, random, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool between = kind == Data::uniform && is_floating(type);
    store_element(type, data, static_cast<std::int64_t>(i), values[i] + (between ? 0.3 : 0.0));
  }
}

/// Zero points of A, within those of u8 and s8 on uniform data, and sums of B's columns: they need
/// not be those of B, since kernels multiply what they are given. Their products with scales up to
/// 64 fit fp32 on exact data, and 32 bits on uniform ones beside any sum of 65,536 products.
void fill_zero_points_of_a(const Gemm& gemm, Operand which, Data kind, Random& random, void* data) {
  const bool sums = which == Operand::column_sums_b;
  const std::int64_t exact = sums ? 2000 : 16, uniform = sums ? std::int64_t{1} << 21 : 255;
  const std::int64_t limit = kind == Data::exact ? exact : uniform;
  std::vector<double> values(static_cast<std::size_t>(span(gemm, which)));
  integers(static_cast<double>(-limit), static_cast<std::uint64_t>(2 * limit + 1), random, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(DType::s32, data, static_cast<std::int64_t>(i), values[i]);
}

void fill_vector(const Gemm& gemm, Operand which, Data kind, Random& random, void* data) {
  const DType type = dtype_of(gemm, which);
  const std::int64_t count = span(gemm, which);
  std::vector<double> values(static_cast<std::size_t>(count));
  if (kind == Data::uniform)
    uniform_values(type, random, values);
  else
    small_integers(type, exact_limit(gemm, which), random, values);
  store_row({data, type, 1, count, count, 1}, 0, 0, count, values.data());
}

/// `end`, but one in 16 is before the group's own beginning, and some are beyond `reach`: few but
/// the last one, since groups behind such an end are empty.
std::int64_t hostile_end(Random& random, std::int64_t end, std::int64_t reach, bool last) {
  const std::int64_t chance = random.below(last ? 8 : 64), far = 1 + random.below(200);
  if (chance == 0) return std::min<std::int64_t>(reach + far, std::numeric_limits<int>::max());
  return chance < (last ? 2 : 5) ? end - far : end;
}

/// Uniform data have groups of about the same size: all rows, of masked ones those that are
/// expected, or all of k. Exact data have empty ones, rows that are of none, and ends that must be
/// cut: beyond all rows (or all of k), or before the group's own beginning.
void fill_groups(const Gemm& gemm, Data kind, Random& random, void* data) {
  auto* const list = static_cast<std::int32_t*>(data);
  const bool masked = gemm.grouping() == Grouping::masked;
  // Each row that is of a group has a row of D, a row of its own unless rows are added.
  const std::int64_t most = gemm.grouping() == Grouping::k ? gemm.k
                            : adds_rows(gemm)              ? gemm.m
                                                           : std::min(gemm.m, rows_of_d(gemm));
  std::vector<double> shares(static_cast<std::size_t>(gemm.batch));
  for (double& share : shares) share = 0.7 + 0.6 * static_cast<double>(random.below(1001)) / 1000;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double so_far = 0;
  std::int64_t end = 0;
  for (std::int64_t group = 0; group < gemm.batch; ++group) {
    so_far += shares[static_cast<std::size_t>(group)];
    if (kind == Data::exact) {
      const std::int64_t count = hostile_count(random, most - (masked ? 0 : end));
      end = masked ? count : end + count;
    } else {
      const double share = masked ? shares[static_cast<std::size_t>(group)] : so_far / all;
      const double whole = masked ? expected_rows_of(gemm) : static_cast<double>(most);
      end = std::min<std::int64_t>(most, std::llround(share * whole));
    }
    std::int64_t listed = end;
    if (kind == Data::exact && !masked)
      listed = hostile_end(random, end, most, group + 1 == gemm.batch);
    // Rows of the product that have no row of D of their own must stay out of all groups.
    if (gemm.grouping() == Grouping::rows && most < gemm.m) listed = std::min(listed, most);
    list[group] = static_cast<std::int32_t>(listed);
  }
}

/// A number that counts as the first of `rows` or as the last.
std::int32_t beyond(Random& random, std::int64_t rows, bool first) {
  const std::int64_t far = 1 + random.below(200);
  return static_cast<std::int32_t>(
      first ? -far
            : std::min<std::int64_t>(rows - 1 + far, std::numeric_limits<std::int32_t>::max()));
}

/// A's row of each row of the product, some of them more than once and some not at all. Exact data
/// have numbers that must be cut.
void fill_index_of_a(const Gemm& gemm, Data kind, Random& random, void* data) {
  const std::int64_t rows = rows_of_a(gemm);
  for (std::int64_t i = 0; i < gemm.m; ++i) {
    const std::int64_t chance = random.below(16);
    const bool cut = kind == Data::exact && chance < 2;
    static_cast<std::int32_t*>(data)[i] =
        cut ? beyond(random, rows, chance == 0) : static_cast<std::int32_t>(random.below(rows));
  }
}

/// D's row of each row of the product that is added: some of D's rows are named often, some not at
/// all, one in eight of the list names none. Exact data have numbers that must be cut.
void fill_rows_to_add_to(const Gemm& gemm, Data kind, Random& random, void* data) {
  const std::int64_t rows = rows_of_d(gemm);
  for (std::int64_t i = 0; i < gemm.m; ++i) {
    const std::int64_t chance = random.below(16);
    const bool cut = kind == Data::exact && chance == 2;
    static_cast<std::int32_t*>(data)[i] = chance < 2 || cut
                                              ? beyond(random, rows, !cut)
                                              : static_cast<std::int32_t>(random.below(rows));
  }
}

/// Of rows that are added: with exact data powers of two.
void fill_row_weights(const Gemm& gemm, Data kind, Random& random, void* data) {
  constexpr double kExact[] = {1, -1, 2, 0.5};
  std::vector<double> values(static_cast<std::size_t>(gemm.m));
  if (kind == Data::uniform)
    uniform_values(fp32, random, values);
  else
    for (double& x : values) x = kExact[random.below(4)];
  for (std::int64_t i = 0; i < gemm.m; ++i)
    store_element(fp32, data, i, values[static_cast<std::size_t>(i)]);
}

/// D's row of each row of the product: a permutation of D's rows, or a part of one. Rows of the
/// product beyond the number of D's are of no group. Exact data have other numbers for the first
/// and the last row, which must be cut.
void fill_index_of_d(const Gemm& gemm, Data kind, Random& random, void* data) {
  const std::int64_t rows = rows_of_d(gemm);
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = 0; i < gemm.m; ++i) {
    auto& to = static_cast<std::int32_t*>(data)[i];
    if (i >= rows) {
      to = static_cast<std::int32_t>(random.below(rows));
      continue;
    }
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i + random.below(rows - i))]);
    to = order[static_cast<std::size_t>(i)];
    if (kind == Data::exact && (to == 0 || to == rows - 1)) to = beyond(random, rows, to == 0);
  }
}

}  // namespace

std::int64_t hostile_count(Random& random, std::int64_t left) {
  constexpr std::int64_t kTiles[] = {8, 16, 32, 64, 128, 192, 256};
  std::int64_t rows = random.below(4);
  if (rows == 1) rows = random.below(20);
  if (rows > 1) rows = kTiles[random.below(std::ssize(kTiles))] + random.below(3) - 1;
  return std::min(rows, left);
}

void fill(const Gemm& gemm, Operand which, Data kind, std::uint64_t seed, void* data) {
  if (!present(gemm, which)) return;
  Random random(seed, index_of(which));
  if (row_of(which).matrix) return fill_matrix(gemm, which, kind, random, data);
  if (row_of(which).term) return fill_vector(gemm, which, kind, random, data);
  if (which == Operand::zero_b) return fill_zeros(gemm, kind, random, data);
  if (which == Operand::groups)
    return lists_products(gemm) ? fill_list(gemm, kind, random, data)
                                : fill_groups(gemm, kind, random, data);
  if (which == Operand::zero_a || which == Operand::column_sums_b)
    return fill_zero_points_of_a(gemm, which, kind, random, data);
  if (which == Operand::index_a) return fill_index_of_a(gemm, kind, random, data);
  if (which == Operand::index_d && adds_rows(gemm))
    return fill_rows_to_add_to(gemm, kind, random, data);
  if (which == Operand::index_d) return fill_index_of_d(gemm, kind, random, data);
  if (which == Operand::amax_d || is_extra_output(which)) return;  // calls write it
  if (which == Operand::row_weights) return fill_row_weights(gemm, kind, random, data);
  fill_scales(gemm, which, kind, random, data);
}

}  // namespace kiln
