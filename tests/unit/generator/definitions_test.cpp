// Functions of expressions that are written in the language: what they are worth, also where a
// plain formula cancels, and where all functions are named.
#include "generator/expression/definitions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string>

#include "generator/expression/evaluate.h"
#include "generator/expression/functions.h"
#include "generator/expression/program.h"
#include "support/paths.h"

namespace kiln::definitions_test {

double value_of(std::string_view call, double acc) {
  const auto parsed = Expression::parse(fmt::format("d={}", call));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return evaluate(*parsed->program(), {.acc = acc});
}

std::string canonical(std::string_view text) {
  const auto parsed = Expression::parse(text);
  return parsed ? std::string(parsed->text()) : parsed.error().message;
}

double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
double elu(double x) { return x > 0 ? x : std::expm1(x); }

const std::map<std::string, std::function<double(double)>> kMeant{
    {"square(acc)", [](double x) { return x * x; }},
    {"sign(acc)", [](double x) { return double((x > 0) - (x < 0)); }},
    {"expm1(acc)", [](double x) { return std::expm1(x); }},
    {"log1p(acc)", [](double x) { return std::log1p(x); }},
    {"softplus(acc)", softplus},
    {"logsigmoid(acc)", [](double x) { return -softplus(-x); }},
    {"mish(acc)", [](double x) { return x * std::tanh(softplus(x)); }},
    {"quick_gelu(acc)", [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
    {"hardsigmoid(acc)", [](double x) { return std::fmin(std::fmax(x + 3, 0), 6) / 6; }},
    {"hardswish(acc)", [](double x) { return x * std::fmin(std::fmax(x + 3, 0), 6) / 6; }},
    {"relu6(acc)", [](double x) { return std::fmin(std::fmax(x, 0), 6); }},
    {"leaky_relu(acc,0.01)", [](double x) { return x > 0 ? x : 0.01 * x; }},
    {"elu(acc,1)", elu},
    {"elu(acc,0.5)", [](double x) { return x > 0 ? x : 0.5 * elu(x); }},
    {"selu(acc)",
     [](double x) {
       return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x));
     }},
    {"softsign(acc)", [](double x) { return x / (1 + std::fabs(x)); }},
    {"softcap(acc,30)", [](double x) { return 30 * std::tanh(x / 30); }},
};

TEST(Definitions, AreWhatTheirNamesSay) {
  for (const expression::Definition& each : expression::definitions())
    EXPECT_TRUE(std::ranges::any_of(kMeant, [&](const auto& row) {
      return row.first.starts_with(fmt::format("{}(", each.name));
    })) << each.name;
  for (const auto& [call, meant] : kMeant) {
    for (const double size : {1e-12, 1e-6, 1e-3, 0.1, 0.124, 0.126, 0.4, 0.9, 1.0, 1.1, 2.0, 2.9,
                              3.1, 7.0, 20.0, 40.0, 300.0})
      for (const double x : {size, -size}) {
        const double wanted = meant(x);
        if (!std::isfinite(wanted)) continue;  // log1p up to -1
        EXPECT_NEAR(value_of(call, x), wanted, 4e-15 * std::fabs(wanted) + 1e-16)
            << call << " " << x;
      }
    EXPECT_TRUE(std::isnan(value_of(call, std::numeric_limits<double>::quiet_NaN()))) << call;
  }
}

TEST(Definitions, KeepSmallResults) {
  for (const double x : {-20.0, -60.0, -300.0}) {
    EXPECT_NEAR(value_of("softplus(acc)", x) / softplus(x), 1, 1e-14);
    EXPECT_NEAR(value_of("logsigmoid(acc)", -x) / -softplus(x), 1, 1e-14);
    EXPECT_NEAR(value_of("mish(acc)", x) / (x * std::exp(x)), 1, 1e-8);
  }
}

TEST(Definitions, AreTextsOfWhatTheyAreMadeOf) {
  EXPECT_EQ(canonical("d=square(acc+b[n])"), "t0=acc+x0[n];d=t0*t0");
  EXPECT_EQ(canonical("t=relu(acc);d=softcap(t,c[])*x[n]"),
            canonical("t=relu(acc);d=c[]*tanh(t/c[])*x[n]"));
  EXPECT_EQ(canonical("d=leaky_relu(leaky_relu(acc,0.1),2)"),
            canonical("y=where(acc>0,acc,acc*0.1);d=where(y>0,y,y*2)"));
  // What the caller calls x and t is not what a definition calls so.
  EXPECT_EQ(canonical("x=acc*2;d=elu(r[m,n],x)+x"),
            canonical("y=acc*2;u=tanh(min(r[m,n],0)/2);d=where(r[m,n]>0,r[m,n],y*(2*u/(1-u)))+y"));
}

TEST(Definitions, ErrorsNameTheColumnOfTheCall) {
  const auto expect = [](std::string_view text, std::string_view wanted) {
    EXPECT_EQ(canonical(text), fmt::format("epilogue = {}: {}", text, wanted));
  };
  expect("d=acc+elu(acc)", "column 14: elu has 2 arguments: ',' is missing");
  expect("d=acc+square(acc,2)", "column 17: square has 1 argument: ')' is missing");
  expect("square=acc;d=square", "column 1: square has a meaning of its own");
  expect("d=acc*mish[n]", "column 7: mish has a meaning of its own");
  expect("d=acc*mish(r)", "column 12: r has no value");
  std::string many = "y=acc";
  for (int i = 0; i < 22; ++i) many += fmt::format("+square(acc+{})", i);
  const std::string all = many + ";d=softplus(y)";
  expect(all, fmt::format("column {}: softplus: log1p: more than 96 values", many.size() + 4));
}

/// Of a file in the source folder.
std::string contents(std::string_view path) {
  std::ifstream file(std::filesystem::path(test::source_dir()) / path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FunctionsOfExpressions, AreNamedWhereverTheyCanBeCalled) {
  const std::string guide = contents("docs/guide/expressions.md"),
                    terms = contents("include/kiln/terms.hpp"),
                    python = contents("python/kiln/expressions.py"),
                    header = contents("include/kiln/expression.hpp");
  const auto has = [](const std::string& page, std::string_view name,
                      std::initializer_list<std::string_view> forms) {
    return std::ranges::any_of(forms, [&](std::string_view form) {
      return page.find(fmt::format(fmt::runtime(form), name)) != page.npos;
    });
  };
  EXPECT_GE(expression_functions().size(), 30u);
  for (const std::string_view name : expression_functions()) {
    EXPECT_TRUE(has(guide, name, {"`{}`", "`{}("})) << name;
    EXPECT_TRUE(dtype_from(name) || has(terms, name, {"Term::call(\"{}\""})) << name;
    EXPECT_TRUE(has(python, name, {"\"{}\"", "\"{}("})) << name;
    EXPECT_TRUE(has(header, name, {" {} ", " {}(", " {}\n", " {};"})) << name;
  }
}

}  // namespace kiln::definitions_test
