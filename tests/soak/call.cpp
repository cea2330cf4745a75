#include "soak/call.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "kiln/numeric.hpp"
#include "soak/soak.h"
#include "tuner/verify/judge.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln::soak {
namespace {

constexpr std::byte kSlack{0x5A};

std::uint64_t hash_of(const std::byte* data, std::size_t size) { return XXH3_64bits(data, size); }

GuardedBuffer guarded(std::size_t bytes, int alignment, Guard guard) {
  auto made = GuardedBuffer::make(bytes, static_cast<std::size_t>(alignment), guard);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

/// Where an infinity makes what is not agreed on.
bool smooth(const Gemm& g) {
  const Activation f = g.epilogue.activation;
  return (f != Activation::none && f != Activation::relu) || gated(g);
}

bool same_layout(const Gemm& g) {
  return g.ldc() == g.ldd() && (g.batch == 1 || g.stride_c() == g.stride_d());
}

}  // namespace

// An address that is not a multiple of the element's size is a right one on a CPU, unless the
// problem promises more: some of these addresses are odd.
Placed::Placed(Random& random, DType type, std::int64_t bytes, int alignment)
    : buffer_([&] {
        const Guard guard = one_in(random, 2) ? Guard::after : Guard::before;
        const std::size_t shift = alignment == 1 && one_in(random, 3) ? 1 + below(random, 15) : 0;
        if (guard == Guard::before) lead_ = shift;
        size_ = static_cast<std::size_t>(bytes);
        return guarded(size_ + shift, alignment, guard);
      }()) {
  std::fill_n(buffer_.data(), buffer_.size(), kSlack);
  poison(type, {data(), size_});
}

void Placed::seal() { hash_ = hash_of(data(), size_); }

std::optional<std::string> Placed::damage() const {
  if (auto found = buffer_.damage()) return found;
  for (std::size_t i = 0; i < buffer_.size(); ++i) {
    const bool slack = i < lead_ || i >= lead_ + size_;
    if (slack && buffer_.data()[i] != kSlack)
      return fmt::format("write at byte {} of an operand of {} bytes",
                         static_cast<std::int64_t>(i) - static_cast<std::int64_t>(lead_), size_);
  }
  return std::nullopt;
}

std::optional<std::string> Placed::changes() const {
  if (auto found = damage()) return found;
  if (hash_of(data(), size_) != hash_) return "its contents were changed";
  return std::nullopt;
}

Call::Call(const Gemm& gemm, Random& random) : gemm_(gemm) {
  for (const Operand which : kOperands)
    placed_.emplace_back(random, dtype_of(gemm, which), span_bytes(gemm, which),
                         present(gemm, which) ? address_alignment(gemm, which) : 1);
  draw_scalars(random);
  fill_inputs(random);
  for_each_operand([&](auto which) {
    if (placed(which).size() > 0) pointer<which>(operands_) = placed(which).data();
  });
  operands_.d = placed(Operand::d).data();
  if (operands_.beta == 0 && one_in(random, 2)) operands_.c = nullptr;
  in_place_ = operands_.beta != 0 && same_layout(gemm) && one_in(random, 2);
  if (in_place_) {
    std::memcpy(operands_.d, operands_.c, placed(Operand::c).size());
    operands_.c = operands_.d;
  }
  for (Placed& operand : placed_) operand.seal();
  parts_ = parts_of(gemm, operands_.groups);
}

void Call::draw_scalars(Random& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kAlphas[] = {1, 1, 1, -1, 0.5, 0.7, 2, 0, 3e4, 1e-3};
  static constexpr double kBetas[] = {0, 0, 0, 1, -1, -0.6, 0.5, -0.0, 2, 1e-3};
  data_ = one_in(random, 3) ? Data::exact : Data::uniform;
  operands_.alpha = any_of(random, kAlphas);
  operands_.beta = any_of(random, kBetas);
  if (data_ == Data::exact) {  // such that every step stays exact
    operands_.alpha = static_cast<double>(random.below(5) - 2);
    operands_.beta = static_cast<double>(random.below(3) - 1);
  }
  if (!present(gemm_, Operand::c)) operands_.beta = 0;
  // Integers have neither; what a smooth activation makes of an infinity is not agreed on, and a
  // sum whose sign rounding may change has no one product with it.
  if (!is_floating(gemm_.d.dtype) || !one_in(random, 20)) return;
  const double wild[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  const bool nan_alone = smooth(gemm_) || data_ == Data::uniform;
  const double value = nan_alone ? wild[0] : any_of(random, wild);
  const bool of_product = !present(gemm_, Operand::c) || one_in(random, 2);
  (of_product ? operands_.alpha : operands_.beta) = value;
}

void Call::fill_inputs(Random& random) {
  const std::uint64_t seed = random.next();
  for (const Operand which : kOperands) {
    const bool read = which == Operand::c ? operands_.beta != 0 : which != Operand::d;
    if (read) fill(gemm_, which, data_, seed, placed(which).data());
  }
  nonfinite_ = data_ == Data::uniform && is_floating(gemm_.a.dtype) && gemm_.flops() > 0 &&
               bits_of(gemm_.a.dtype) > 8 && one_in(random, 6);
  if (nonfinite_) spoil(random);
}

/// NaN or an infinity at a few places of A and B.
void Call::spoil(Random& random) {
  const bool nan_alone = smooth(gemm_) || !is_floating(gemm_.d.dtype);
  for (int i = 0; i < 3; ++i) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double value = nan_alone || one_in(random, 2) ? nan : INFINITY;
    const bool in_a = one_in(random, 2);
    const std::int64_t batch = random.below(gemm_.batch), p = random.below(gemm_.k);
    if (in_a)
      store_row(view_of(gemm_, Operand::a, placed(Operand::a).data(), batch),
                random.below(rows_of_a(gemm_)), p, 1, &value);
    else
      store_row(view_of(gemm_, Operand::b, placed(Operand::b).data(), batch), p,
                random.below(gemm_.columns_of_b()), 1, &value);
  }
}

std::optional<std::string> Call::wrong() const {
  for (const Operand which : kOperands)
    if (const auto found = which == Operand::d ? placed(which).damage() : placed(which).changes())
      return fmt::format("{}: {}", name(which), *found);
  if (!in_place_) {
    if (const auto found = judge_padding(gemm_, Operand::d, operands_.d)) return found->detail;
    if (const auto found =
            judge_unused_rows(gemm_, parts_, {operands_.d, operands_.scale_d}, operands_.index_d))
      return found->detail;
  }
  return wrong_values();
}

std::optional<std::string> Call::written() const {
  for (const Operand which : kOperands)
    if (const auto found = placed(which).changes())
      return fmt::format("{}: {}", name(which), *found);
  return std::nullopt;
}

std::optional<std::string> Call::wrong_values() const {
  OrderedRows rows(gemm_);
  rows.read_inputs(operands_);
  rows.read_d(operands_);
  for (const ProductPart& part : parts_)
    for (std::int64_t batch = 0; batch < part.gemm.batch; ++batch)
      for (std::int64_t row = 0; row < part.gemm.m && part.gemm.n > 0; ++row)
        if (auto found = wrong_row(rows, part, batch, row)) return found;
  return std::nullopt;
}

std::optional<std::string> Call::wrong_row(const OrderedRows& rows, const ProductPart& part,
                                           std::int64_t batch, std::int64_t row) const {
  const Gemm& gemm = part.gemm;
  const auto n = static_cast<std::size_t>(gemm.n);
  std::vector<double> got(n), value(n), error(n);
  Operands of = operands_;
  of.c = placed(Operand::c).data();  // where C is D it has been computed over
  rows.bind(of);
  if (grouped(gemm_)) move_to_group(rows.gemm(), of, part.group, part.segment);
  const Products products = kiln::products(gemm, of.a, of.b, {Lines::Along::rows, batch, {row}},
                                           scales_in(of, part_of_k(gemm_, part.segment)));
  load_block(view_of(gemm, Operand::d, of.d, batch), row, 1, 0, gemm.n, got.data());
  TermReader reader(gemm, of, batch, Lines::Along::rows);
  const Terms terms = reader.read(products, 0, 0, gemm.n);
  expect(gemm, {of.alpha, of.beta, data_ == Data::exact}, terms, value, error);
  for (std::size_t j = 0; j < n; ++j)
    if (!accepts(gemm.d.dtype, value[j], error[j], got[j]))
      return fmt::format("{} {} row {} column {}: got {}, expected {} within {:.3g}",
                         grouped(gemm_) ? "group" : "batch", grouped(gemm_) ? part.group : batch,
                         row, j, got[j], value[j], error[j]);
  return std::nullopt;
}

std::string Call::text() const {
  return fmt::format("'{}' alpha {} beta {}{}, {} data{}, a {} b {} c {} d {}", kiln::text(gemm_),
                     operands_.alpha, operands_.beta, in_place_ ? " in place" : "", name(data_),
                     nonfinite_ ? " with NaN" : "", fmt::ptr(operands_.a), fmt::ptr(operands_.b),
                     fmt::ptr(operands_.c), fmt::ptr(operands_.d));
}

}  // namespace kiln::soak
