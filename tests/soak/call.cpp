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

bool smooth(Activation f) { return f != Activation::none && f != Activation::relu; }

bool same_layout(const Gemm& g) {
  return g.ldc() == g.ldd() && (g.batch == 1 || g.stride_c() == g.stride_d());
}

std::int64_t bytes_of_bias(const Gemm& g) {
  return bytes_of(dtype_of(g, Operand::bias), span(g, Operand::bias));
}

}  // namespace

// An address that is no multiple of the element's size is a right one on a CPU, unless the problem
// promises more: some of these addresses are odd.
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

/// Scales or zero points, aligned as they must be, whatever the matrices promise.
Placed scales(Random& random, const Gemm& gemm, Operand which) {
  return {random, dtype_of(gemm, which), span_bytes(gemm, which), address_alignment(gemm, which)};
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

Call::Call(const Gemm& gemm, Random& random)
    : gemm_(gemm),
      a_(random, gemm.a.dtype, span_bytes(gemm, Operand::a), gemm.alignment),
      b_(random, gemm.b.dtype, span_bytes(gemm, Operand::b), gemm.alignment),
      c_(random, gemm.c.dtype, span_bytes(gemm, Operand::c), gemm.alignment),
      d_(random, gemm.d.dtype, span_bytes(gemm, Operand::d), gemm.alignment),
      bias_(random, dtype_of(gemm, Operand::bias), bytes_of_bias(gemm), 1),
      residual_(random, gemm.d.dtype, gemm.epilogue.residual ? span_bytes(gemm, Operand::d) : 0,
                gemm.alignment),
      scale_a_(scales(random, gemm, Operand::scale_a)),
      scale_b_(scales(random, gemm, Operand::scale_b)),
      zero_b_(scales(random, gemm, Operand::zero_b)) {
  draw_scalars(random);
  fill_inputs(random);
  const auto pointer = [](const Placed& placed) -> const void* {
    return placed.size() > 0 ? placed.data() : nullptr;
  };
  operands_.a = pointer(a_);
  operands_.b = pointer(b_);
  operands_.c = pointer(c_);
  operands_.d = d_.data();
  operands_.bias = pointer(bias_);
  operands_.residual = pointer(residual_);
  operands_.scale_a = pointer(scale_a_);
  operands_.scale_b = pointer(scale_b_);
  operands_.zero_b = pointer(zero_b_);
  if (operands_.beta == 0 && one_in(random, 2)) operands_.c = nullptr;
  in_place_ = operands_.beta != 0 && same_layout(gemm) && one_in(random, 2);
  if (in_place_) {
    std::memcpy(d_.data(), c_.data(), c_.size());
    operands_.c = d_.data();
  }
  for (Placed* input : {&a_, &b_, &c_, &d_, &bias_, &residual_, &scale_a_, &scale_b_, &zero_b_})
    input->seal();
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
  // Integers have neither; what a smooth activation makes of an infinity is not agreed on, and a
  // sum whose sign rounding may change has no one product with it.
  if (!is_floating(gemm_.d.dtype) || !one_in(random, 20)) return;
  const double wild[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  const bool nan_alone = smooth(gemm_.epilogue.activation) || data_ == Data::uniform;
  const double value = nan_alone ? wild[0] : any_of(random, wild);
  (one_in(random, 2) ? operands_.alpha : operands_.beta) = value;
}

void Call::fill_inputs(Random& random) {
  const std::uint64_t seed = random.next();
  fill(gemm_, Operand::a, data_, seed, a_.data());
  fill(gemm_, Operand::b, data_, seed, b_.data());
  if (operands_.beta != 0) fill(gemm_, Operand::c, data_, seed, c_.data());
  fill(gemm_, Operand::bias, data_, seed, bias_.data());
  if (gemm_.epilogue.residual) fill(gemm_, Operand::residual, data_, seed, residual_.data());
  fill(gemm_, Operand::scale_a, data_, seed, scale_a_.data());
  fill(gemm_, Operand::scale_b, data_, seed, scale_b_.data());
  fill(gemm_, Operand::zero_b, data_, seed, zero_b_.data());
  nonfinite_ = data_ == Data::uniform && is_floating(gemm_.a.dtype) && gemm_.flops() > 0 &&
               bits_of(gemm_.a.dtype) > 8 && one_in(random, 6);
  if (nonfinite_) spoil(random);
}

/// NaN or an infinity at a few places of A and B.
void Call::spoil(Random& random) {
  const bool nan_alone = smooth(gemm_.epilogue.activation) || !is_floating(gemm_.d.dtype);
  for (int i = 0; i < 3; ++i) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double value = nan_alone || one_in(random, 2) ? nan : INFINITY;
    const bool in_a = one_in(random, 2);
    const std::int64_t batch = random.below(gemm_.batch), p = random.below(gemm_.k);
    if (in_a)
      store_row(view_of(gemm_, Operand::a, a_.data(), batch), random.below(gemm_.m), p, 1, &value);
    else
      store_row(view_of(gemm_, Operand::b, b_.data(), batch), p, random.below(gemm_.n), 1, &value);
  }
}

std::optional<std::string> Call::wrong() const {
  const std::pair<const char*, const Placed*> inputs[] = {{"a", &a_},
                                                          {"b", &b_},
                                                          {"c", &c_},
                                                          {"bias", &bias_},
                                                          {"residual", &residual_},
                                                          {"scale_a", &scale_a_},
                                                          {"scale_b", &scale_b_},
                                                          {"zero_b", &zero_b_}};
  for (const auto& [name, input] : inputs)
    if (const auto found = input->changes()) return fmt::format("{}: {}", name, *found);
  if (const auto found = d_.damage()) return "d: " + *found;
  if (!in_place_)
    if (const auto found = judge_padding(gemm_, d_.data())) return found->detail;
  return wrong_values();
}

std::optional<std::string> Call::written() const {
  const std::pair<const char*, const Placed*> all[] = {{"a", &a_},
                                                       {"b", &b_},
                                                       {"c", &c_},
                                                       {"d", &d_},
                                                       {"bias", &bias_},
                                                       {"residual", &residual_},
                                                       {"scale_a", &scale_a_},
                                                       {"scale_b", &scale_b_},
                                                       {"zero_b", &zero_b_}};
  for (const auto& [name, operand] : all)
    if (const auto found = operand->changes()) return fmt::format("{}: {}", name, *found);
  return std::nullopt;
}

std::optional<std::string> Call::wrong_values() const {
  for (std::int64_t batch = 0; batch < gemm_.batch; ++batch)
    for (std::int64_t row = 0; row < gemm_.m && gemm_.n > 0; ++row)
      if (auto found = wrong_row(batch, row)) return found;
  return std::nullopt;
}

std::optional<std::string> Call::wrong_row(std::int64_t batch, std::int64_t row) const {
  const auto n = static_cast<std::size_t>(gemm_.n);
  std::vector<double> got(n), value(n), error(n);
  const Products products =
      kiln::products(gemm_, a_.data(), b_.data(), {Lines::Along::rows, batch, {row}},
                     {scale_a_.data(), scale_b_.data(), zero_b_.data()});
  load_block(view_of(gemm_, Operand::d, d_.data(), batch), row, 1, 0, gemm_.n, got.data());
  // C may have been computed over.
  const Operands before{
      .c = c_.data(), .bias = bias_.data(), .residual = residual_.data(), .beta = operands_.beta};
  TermReader reader(gemm_, before, batch, Lines::Along::rows);
  const Terms terms = reader.read(products, 0, 0, gemm_.n);
  expect(gemm_, {operands_.alpha, operands_.beta, data_ == Data::exact}, terms, value, error);
  for (std::size_t j = 0; j < n; ++j)
    if (!accepts(gemm_.d.dtype, value[j], error[j], got[j]))
      return fmt::format("batch {} row {} column {}: got {}, expected {} within {:.3g}", batch, row,
                         j, got[j], value[j], error[j]);
  return std::nullopt;
}

std::string Call::text() const {
  return fmt::format("'{}' alpha {} beta {}{}, {} data{}, a {} b {} c {} d {}", kiln::text(gemm_),
                     operands_.alpha, operands_.beta, in_place_ ? " in place" : "", name(data_),
                     nonfinite_ ? " with NaN" : "", fmt::ptr(operands_.a), fmt::ptr(operands_.b),
                     fmt::ptr(operands_.c), fmt::ptr(operands_.d));
}

}  // namespace kiln::soak
