#include "tuner/verify/data_set.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "generator/problem/fields.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/drawn_list.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// Above this many multiply-adds, uniform data are checked on chosen lines only.
constexpr std::int64_t kWholeWork = std::int64_t{1} << 27;
constexpr std::int64_t kWholeElements = std::int64_t{1} << 22;
/// Multiply-adds spent on the chosen rows, and again on the columns: some 0.1 s.
constexpr std::int64_t kLinesWork = std::int64_t{1} << 28;
constexpr std::int64_t kMostLines = 20;

std::uint64_t hash_of(const GuardedBuffer& buffer) {
  return XXH3_64bits(buffer.data(), buffer.size());
}

/// `count` of 0 … extent-1: the ends first, then both sides of boundaries that tiles like to have,
/// then anything.
std::vector<std::int64_t> choose_lines(std::int64_t extent, std::int64_t count, Random& random) {
  std::set<std::int64_t> chosen;
  const std::int64_t wanted[] = {0,   extent - 1, extent - 2, 1,   extent / 2, 63,  64,  127,
                                 128, 239,        240,        255, 256,        383, 384, 7};
  for (std::int64_t line : wanted)
    if (line >= 0 && line < extent && std::ssize(chosen) < count) chosen.insert(line);
  while (std::ssize(chosen) < std::min(count, extent)) chosen.insert(random.below(extent));
  return {chosen.begin(), chosen.end()};
}

/// `parts` products share the work.
std::vector<Lines> choose(const Gemm& gemm, std::uint64_t seed, std::size_t parts) {
  constexpr std::uint64_t kStreamLines = 32;
  Random random(seed, kStreamLines);
  std::vector<std::int64_t> batches{0};
  if (gemm.batch > 1) batches.push_back(gemm.batch - 1);
  if (gemm.batch > 2) batches.push_back(1 + random.below(gemm.batch - 2));
  const auto affordable = [&](std::int64_t work_per_line) {
    const std::int64_t work = std::max<std::int64_t>(1, work_per_line) * std::ssize(batches) *
                              static_cast<std::int64_t>(parts);
    return std::clamp<std::int64_t>(kLinesWork / work, 0, kMostLines);
  };
  std::int64_t rows = affordable(gemm.k * gemm.columns_of_b()),
               columns = affordable(gemm.k * gemm.m);
  const std::optional<Lines::Along> blocks = along_blocks(gemm);
  if (blocks) {  // which other lines do not hold
    std::int64_t& own = blocks == Lines::Along::rows ? rows : columns;
    own = std::max<std::int64_t>(own, 1);
  }
  if (rows == 0 && columns == 0) (gemm.n <= gemm.m ? rows : columns) = 1;
  std::vector<Lines> lines;
  for (std::int64_t batch : batches) {
    if (rows > 0) lines.push_back({Lines::Along::rows, batch, choose_lines(gemm.m, rows, random)});
    if (columns > 0 && (rows < gemm.m || blocks == Lines::Along::columns))
      lines.push_back({Lines::Along::columns, batch, choose_lines(gemm.n, columns, random)});
  }
  return lines;
}

/// Where rows are added every part has the same columns, of which D's are made.
std::vector<Lines> choose_columns(const Gemm& gemm, std::uint64_t seed) {
  constexpr std::uint64_t kStreamLines = 32;
  Random random(seed, kStreamLines);
  const std::int64_t work = std::max<std::int64_t>(1, gemm.k * gemm.m);
  const std::int64_t count = std::clamp<std::int64_t>(kLinesWork / work, 1, kMostLines);
  return {{Lines::Along::columns, 0, choose_lines(gemm.n, count, random)}};
}

void put(const Gemm& gemm, Operand which, std::byte* data, std::int64_t row, std::int64_t column,
         double value) {
  store_row(view_of(gemm, which, data, 0), row, column, 1, &value);
}

/// NaN in one row and one column of the product, infinity in another of each.
void spoil(const Gemm& gemm, std::uint64_t seed, std::byte* a, std::byte* b) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || !is_floating(gemm.a.dtype)) return;
  constexpr std::uint64_t kStreamSpoil = 33;
  Random random(seed, kStreamSpoil);
  const Activation f = gemm.epilogue.activation;
  const bool smooth = (f != Activation::none && f != Activation::relu) ||
                      (gated(gemm) && !gated_by_expression(gemm));
  // In parts of half precision an infinity is a NaN, and it is where zero points that are no
  // integers are taken off the sum of a group.
  const bool only_nan =
      smooth || gemm.numerics == Numerics::tensor || gemm.b.q.zero == Zero::floating;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = only_nan ? nan : std::numeric_limits<double>::infinity();
  const auto anywhere = [&](std::int64_t extent) { return random.below(extent); };
  put(gemm, Operand::a, a, anywhere(rows_of_a(gemm)), anywhere(gemm.k), nan);
  put(gemm, Operand::a, a, rows_of_a(gemm) - 1, anywhere(gemm.k), infinity);
  put(gemm, Operand::b, b, anywhere(gemm.k), anywhere(gemm.columns_of_b()), nan);
  // Of weights whose type has no infinity it would be the largest number: a product whose rounding
  // alone exceeds what sums of many rounded ones are granted.
  const bool rounded = has_weights(gemm) && gemm.numerics == Numerics::fast;
  put(gemm, Operand::b, b, gemm.k - 1, gemm.columns_of_b() - 1, rounded ? nan : -infinity);
}

/// NaN in what lies along k behind groups and is of none: zeros of one operand beside it are no
/// zero.
void spoil_behind_groups(const Gemm& gemm, const std::vector<ProductPart>& parts,
                         const GuardedBuffer& a, const GuardedBuffer& b) {
  if (!is_floating(gemm.a.dtype)) return;
  constexpr std::int64_t kReach = 64;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t k : k_behind_groups(gemm, parts, kReach)) {
    for (std::int64_t i = 0; i < gemm.m; ++i) put(gemm, Operand::a, a.data(), i, k, nan);
    for (std::int64_t j = 0; j < gemm.n; ++j) put(gemm, Operand::b, b.data(), k, j, nan);
  }
}

/// NaN in rows of A that no row of a group is.
void spoil_unnamed_rows(const Gemm& gemm, const std::vector<ProductPart>& parts, const void* index,
                        const GuardedBuffer& a) {
  if (!gathers(gemm) || !is_floating(gemm.a.dtype)) return;
  for (const std::int64_t row : unnamed_rows(gemm, Operand::a, index, parts))
    for (std::int64_t p = 0; p < gemm.k; ++p)
      put(gemm, Operand::a, a.data(), row, p, std::numeric_limits<double>::quiet_NaN());
}

/// NaN in the first and the last element along k of some groups of k, in A and B in turn, so that
/// products that read beyond a group's k show it.
void spoil_groups(const Gemm& gemm, const std::vector<ProductPart>& parts, std::uint64_t seed,
                  const GuardedBuffer& a, const GuardedBuffer& b) {
  if (gemm.grouping() != Grouping::k || gemm.m == 0 || gemm.n == 0 || !is_floating(gemm.a.dtype))
    return;
  constexpr std::uint64_t kStreamGroups = 35;
  Random random(seed, kStreamGroups);
  for (std::int64_t at = random.below(2); at < std::ssize(parts); at += 2) {
    const Segment segment = parts[static_cast<std::size_t>(at)].segment;
    if (segment.count == 0) continue;
    const bool in_a = random.below(2) == 0;
    const std::int64_t line = random.below(in_a ? gemm.m : gemm.n);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const std::int64_t k : {segment.first, segment.first + segment.count - 1}) {
      if (in_a)
        put(gemm, Operand::a, a.data(), line, k, nan);
      else
        put(gemm, Operand::b, b.data(), k, line, nan);
    }
  }
}

/// A NaN somewhere among the scales or zero points, but not where it would fill all of a small D,
/// nor among those of an empty group of k or of a list's product without k: whether kernels
/// multiply its zeros by them is theirs.
void spoil_scales(const Gemm& gemm, Operand which, const std::vector<ProductPart>& parts,
                  std::uint64_t seed, const GuardedBuffer& scales) {
  const Scale scale = scale_of(gemm, which);
  const DType type = dtype_of(gemm, which);
  if (scales.size() == 0 || scale == Scale::square_128) return;
  if (which == Operand::zero_b && !is_floating(type)) return;
  constexpr std::uint64_t kStreamSpoil = 34;
  Random random(seed, kStreamSpoil + index_of(which));
  const std::int64_t at = random.below(span(gemm, which));
  if (gemm.grouping() == Grouping::k && !shared_by_batches(gemm, which) &&
      parts[static_cast<std::size_t>(at / batch_stride(gemm, which))].segment.count == 0)
    return;
  if (lists_products(gemm)) {
    const auto part = std::ranges::find(parts, at / batch_stride(gemm, which), &ProductPart::group);
    if (part == parts.end() || part->gemm.k == 0) return;
  }
  if (scale == Scale::mx_32)
    static_cast<std::uint8_t*>(static_cast<void*>(scales.data()))[at] = kE8m0.nan;
  else
    store_element(type, scales.data(), at, std::numeric_limits<double>::quiet_NaN());
}

/// Every element, which the exponent leaves exact.
void scale_by(const Gemm& gemm, Operand which, const GuardedBuffer& buffer, int exponent) {
  for (std::int64_t batch = 0; batch < gemm.batch; ++batch) {
    MatrixView view = view_of(gemm, which, buffer.data(), batch);
    if (view.column_stride != 1) view = view.transposed();  // along memory
    std::vector<double> line(static_cast<std::size_t>(view.columns));
    for (std::int64_t i = 0; i < view.rows; ++i) {
      load_block(view, i, 1, 0, view.columns, line.data());
      for (double& x : line) x = std::ldexp(x, exponent);
      store_row(view, i, 0, view.columns, line.data());
    }
  }
}

}  // namespace

double DataSet::bytes_needed(const Gemm& gemm) {
  double bytes = 0;
  for (const Operand which : kOperands)
    if (!is_output(gemm, which)) bytes += static_cast<double>(span_bytes(gemm, which));
  for (const Operand which : {Operand::a, Operand::d})
    if (is_gathered(gemm, which) || is_scattered(gemm, which))
      bytes += static_cast<double>(gemm.m) * static_cast<double>(line_bytes(gemm, which));
  return bytes;
}

std::optional<std::pair<int, int>> tiny_exponents(const Gemm& gemm) {
  if (!is_plain_product(gemm) || gemm.accumulator != DType::fp32 || gemm.k == 0)
    return std::nullopt;
  const DType inputs = gemm.a.dtype, d = gemm.d.dtype;
  if (inputs != gemm.b.dtype) return std::nullopt;
  if (inputs == fp16) {
    if (d != fp16) return std::nullopt;
    return std::pair{-12, -12};
  }
  if (inputs != bf16 && inputs != fp32) return std::nullopt;
  if (d == bf16) return std::pair{-67, -66};
  if (d == fp32) return std::pair{-75, -74};
  return std::nullopt;
}

bool DataSet::whole_is_cheap(const Gemm& gemm) {
  const std::int64_t elements = static_cast<std::int64_t>(gemm.outputs()) * (gated(gemm) ? 2 : 1);
  return elements <= kWholeElements && elements * std::max<std::int64_t>(1, gemm.k) <= kWholeWork;
}

Result<DataSet> DataSet::make(const Gemm& gemm, const DataRecipe& recipe) {
  DataSet set(gemm, recipe);
  // Of a list the sizes of its products come first.
  std::vector<std::int32_t> list(lists_products(gemm) ? span(gemm, Operand::groups) : 0);
  if (!list.empty()) fill(gemm, Operand::groups, recipe.data, recipe.seed, list.data());
  for (const Operand which : kOperands) {
    if (is_output(gemm, which) || !present(gemm, which)) continue;
    const DType type = dtype_of(gemm, which);
    const auto bytes = static_cast<std::size_t>(span_bytes(gemm, which));
    const int alignment = std::max(address_alignment(gemm, which), size_of(type));
    auto buffer = GuardedBuffer::make(bytes, alignment, recipe.guard);
    if (!buffer) return tl::unexpected(buffer.error());
    poison(type, {buffer->data(), bytes});
    for (const Filling& piece : fillings(gemm, which, recipe.seed, list.data(), buffer->data()))
      fill(piece.gemm, which, recipe.data, piece.seed, piece.data);
    set.inputs_.push_back({which, std::move(*buffer)});
  }
  set.parts_ = parts_of(gemm, grouped(gemm) ? set.input(Operand::groups).buffer.data() : nullptr);
  set.change_inputs(gemm);
  for (Input& input : set.inputs_) input.hash = hash_of(input.buffer);
  Operands inputs;
  set.bind(inputs);
  set.rows_.read_inputs(inputs);
  set.sampled_.resize(set.parts_.size());
  set.whole_.resize(set.parts_.size());
  return set;
}

/// What a recipe asks for beyond its kind of data.
void DataSet::change_inputs(const Gemm& gemm) {
  if (const auto exponents = tiny_exponents(gemm); recipe_.tiny && exponents) {
    scale_by(gemm, Operand::a, input(Operand::a).buffer, exponents->first);
    scale_by(gemm, Operand::b, input(Operand::b).buffer, exponents->second);
  }
  spoil_behind_groups(gemm, parts_, input(Operand::a).buffer, input(Operand::b).buffer);
  if (gathers(gemm))
    spoil_unnamed_rows(gemm, parts_, input(Operand::index_a).buffer.data(),
                       input(Operand::a).buffer);
  if (!recipe_.nonfinite) return;
  std::byte* const a = input(Operand::a).buffer.data();
  std::byte* const b = input(Operand::b).buffer.data();
  if (!lists_products(gemm)) spoil(gemm, recipe_.seed, a, b);
  // Of a list every other product, so that one which reads its neighbour's shows it.
  for (const ProductPart& part : parts_)
    if (lists_products(gemm) && part.group % 2 == 1)
      spoil(part.gemm, recipe_.seed + static_cast<std::uint64_t>(part.group),
            a + offset_bytes(gemm.a.dtype, part.group * gemm.stride_a()),
            b + offset_bytes(gemm.b.dtype, part.group * gemm.stride_b()));
  spoil_groups(gemm, parts_, recipe_.seed, input(Operand::a).buffer, input(Operand::b).buffer);
  for (const Operand which : {Operand::scale_a, Operand::scale_b, Operand::zero_b})
    if (present(gemm, which)) spoil_scales(gemm, which, parts_, recipe_.seed, input(which).buffer);
}

DataSet::Input& DataSet::input(Operand which) {
  return *std::ranges::find(inputs_, which, &Input::which);
}

void DataSet::bind(Operands& operands) const {
  for_each_operand([&](auto which) {
    if constexpr (which != Operand::d) {
      const auto found = std::ranges::find(inputs_, which(), &Input::which);
      pointer<which>(operands) = found != inputs_.end() ? found->buffer.data() : nullptr;
    }
  });
}

void DataSet::bind(Operands& operands, const ProductPart& part) const {
  bind(operands);
  rows_.bind(operands);
  if (!grouped(gemm_)) return;
  Operands whole;
  bind(whole);
  move_to_group(rows_.gemm(), operands, part.group, part.segment);
  for (std::size_t i = 0; i < operands.extra.size(); ++i)
    operands.extra[i] = extra_of_part(gemm_, extra_operand(i), whole.extra[i], part);
}

Operands DataSet::call(const Operands& operands, std::vector<ListEntry>& list) const {
  if (!lists_products(gemm_)) return operands;
  const auto numbers = std::ranges::find(inputs_, Operand::groups, &Input::which);
  list = entries_of(gemm_, numbers->buffer.data(), operands);
  return {.alpha = operands.alpha, .beta = operands.beta, .list = list.data()};
}

std::optional<std::string> DataSet::tampering() const {
  for (const Input& input : inputs_) {
    if (auto damage = input.buffer.damage())
      return fmt::format("input {}: {}", name(input.which), *damage);
    if (hash_of(input.buffer) != input.hash)
      return fmt::format("input {}: changed by the kernel", name(input.which));
  }
  return std::nullopt;
}

bool DataSet::owns(const void* address) const {
  return std::ranges::any_of(inputs_, [&](const Input& x) { return x.buffer.owns(address); });
}

std::size_t DataSet::bytes() const {
  std::size_t sum = 0;
  for (const Input& input : inputs_) sum += input.buffer.size();
  return sum;
}

Scales DataSet::scales_of_part(const Operands& bound, std::size_t part) const {
  return scales_in(bound, part_of_k(gemm_, parts_[part].segment));
}

const std::vector<Products>& DataSet::sampled(std::size_t part) {
  const Gemm& gemm = parts_[part].gemm;
  std::vector<Products>& known = sampled_[part];
  if (!known.empty() || gemm.m == 0 || gemm.n == 0) return known;
  std::vector<Lines> lines;
  if (whole_is_cheap(gemm_)) {
    Lines all{.along = along_blocks(gemm).value_or(Lines::Along::rows)};
    all.index.resize(all.along == Lines::Along::rows ? gemm.m : gemm.n);
    std::iota(all.index.begin(), all.index.end(), 0);
    for (all.batch = 0; all.batch < gemm.batch; ++all.batch) lines.push_back(all);
  } else {
    const std::uint64_t seed = recipe_.lines_seed != 0 ? recipe_.lines_seed : recipe_.seed;
    lines = adds_rows(gemm_) ? choose_columns(gemm_, seed) : choose(gemm, seed, parts_.size());
  }
  Operands o;
  bind(o, parts_[part]);
  for (Lines& some : lines)
    known.push_back(products(gemm, o.a, o.b, std::move(some), scales_of_part(o, part)));
  return known;
}

const std::vector<std::int32_t>& DataSet::whole(std::size_t part, std::int64_t batch) {
  std::vector<std::vector<std::int32_t>>& known = whole_[part];
  Operands o;
  bind(o, parts_[part]);
  while (std::ssize(known) <= batch)
    known.push_back(
        integer_products(parts_[part].gemm, o.a, o.b, std::ssize(known), scales_of_part(o, part)));
  return known[batch];
}

}  // namespace kiln
