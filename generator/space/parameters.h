// What every family's parameters are written with: constants, values, small arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "generator/space/family.h"

namespace kiln {

struct GemmField;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t to) { return ceil_div(a, to) * to; }

/// A constant that reads `constexpr int name = value;  // gloss`.
Constant number(std::string name, std::int64_t value, std::string gloss);
Constant flag(std::string name, bool value, std::string gloss);
/// What `//% if` takes for yes and no.
std::string value_of(bool b);
/// A field of the problem as `//% if` tests it: the name of an enumerator, or a number.
std::string value_of(const GemmField& field, const Gemm& gemm);

/// The values that the epilogue's templates test.
void add_epilogue(TemplateValues& to, const Gemm& gemm);

}  // namespace kiln
