// What the HIP families share: names of types, epilogue values and the compiler's flags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generator/family.h"

namespace kiln::hip {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t to) { return ceil_div(a, to) * to; }

/// What a template calls the type.
std::string_view c_type(DType t);

/// The constants and values that templates/hip/convert.h and epilogue.h expect.
void add_common(Parameters& to, const Canonical& problem, const DeviceCaps& device);

Constant number(std::string name, std::int64_t value, std::string gloss);
Constant flag(std::string name, bool value, std::string gloss);
std::string value_of(bool b);

/// What follows clang++'s, hipcc's or hipRTC's name.
std::vector<std::string> flags(const DeviceCaps& device);

/// The cards that are known by name and have this target.
std::vector<DeviceCaps> cards_of(std::string_view arch);

/// One launch of `blocks` blocks in a row.
GpuLaunch one_step(std::int64_t blocks, int threads);

}  // namespace kiln::hip
