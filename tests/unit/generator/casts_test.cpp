// Casts of expressions: each is what a D of the type has of a value, stored and loaded again by
// conversions that share no code with them.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "generator/expression/functions.h"
#include "kiln/dtype.hpp"
#include "kiln/expression.hpp"
#include "kiln/numeric.hpp"
#include "kiln/terms.hpp"

namespace kiln::casts_test {

constexpr DType kTypes[] = {fp32, fp16, bf16, fp8_e4m3, s8};

double cast(DType type, double x) {
  const int function = expression::function_named(name(type));
  EXPECT_GE(function, 0) << name(type);
  return expression::function_value(function, x, 0, 0);
}

double stored(DType type, double x) {
  std::array<std::byte, 8> memory{};
  store_element(type, memory.data(), 0, static_cast<float>(x));
  return load_element(type, memory.data(), 0);
}

void expect_same(DType type, double x) {
  const double wanted = stored(type, x), got = cast(type, x);
  EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
      << name(type) << " of " << x << ": " << got << " instead of " << wanted;
  if (is_floating(type) && !std::isnan(got)) {
    EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << name(type) << " of " << x;
  }
}

TEST(Casts, AreWhatIsStored) {
  std::mt19937_64 random(1);
  for (const DType type : kTypes) {
    for (int i = 0; i < 200000; ++i)
      expect_same(type, std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    // Where small types have their numbers, and halfway between neighbours of them.
    std::uniform_real_distribution<double> exponents(-30, 18);
    for (int i = 0; i < 200000; ++i) {
      const auto x = static_cast<float>(std::exp2(exponents(random)) * (i % 2 == 0 ? 1 : -1));
      expect_same(type, x);
      const auto bits = std::bit_cast<std::uint32_t>(x);
      for (const int dropped : {13, 16, 20})
        expect_same(type, std::bit_cast<float>(bits >> dropped << dropped | 1U << (dropped - 1)));
    }
    for (const double x : {0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 126.5, 127.5, 128.0, -128.5, 448.0,
                           464.0, 480.0, 65504.0, 65519.0, 65520.0, 3.3895e38, 3.3961e38, 1e300})
      for (const double signed_x : {x, -x}) expect_same(type, signed_x);
    for (const double x : {std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), std::nan("")})
      expect_same(type, x);
  }
}

TEST(Casts, GoByWayOfFp32) {
  EXPECT_EQ(cast(s8, 0.5 + 1e-12), 0);
  EXPECT_EQ(cast(s8, 1.5 - 1e-12), 2);
  EXPECT_EQ(cast(bf16, 1 + 0x1p-8 + 1e-12), 1);
  EXPECT_EQ(cast(fp32, 1 + 1e-12), 1);
}

TEST(Casts, AreFunctionsOfTheLanguage) {
  EXPECT_EQ(Expression::parse("y=bf16(acc);d=acc-y")->text(), "d=acc-bf16(acc)");
  using namespace terms;
  EXPECT_EQ(to_expression(acc() - terms::cast(acc(), fp8_e4m3))->text(), "d=acc-fp8_e4m3(acc)");
  EXPECT_NE(to_expression(terms::cast(acc(), fp64)).error().message.find("fp64"),
            std::string::npos);
}

}  // namespace kiln::casts_test
