// The enums that the CPU families' configs share.
#pragma once

#include <array>
#include <cstdint>

#include "generator/space/field.h"

namespace kiln {

/// Instruction set a host kernel is written for; each is a row of the table in instructions.h.
enum class Isa : std::uint8_t { portable, avx2, avx512, amx };

/// The range that is divided among threads. `none`: thread 0 does all work; `grid`: both m and n.
enum class Parallel : std::uint8_t { none, batch, m, n, grid, k };

/// Which loop over register tiles runs innermost: over rows (a strip of B stays in L1) or over
/// columns (a strip of A does).
enum class Inner : std::uint8_t { rows, columns };

inline constexpr std::array<Named<Isa>, 4> kNamesOfIsa{
    {{Isa::portable, "portable"}, {Isa::avx2, "avx2"}, {Isa::avx512, "avx512"}, {Isa::amx, "amx"}}};
inline constexpr std::array<Named<Parallel>, 6> kNamesOfParallel{{{Parallel::none, "none"},
                                                                  {Parallel::batch, "batch"},
                                                                  {Parallel::m, "m"},
                                                                  {Parallel::n, "n"},
                                                                  {Parallel::grid, "grid"},
                                                                  {Parallel::k, "k"}}};
inline constexpr std::array<Named<Inner>, 2> kNamesOfInner{
    {{Inner::rows, "rows"}, {Inner::columns, "columns"}}};
constexpr const auto& names_of(Isa) { return kNamesOfIsa; }
constexpr const auto& names_of(Parallel) { return kNamesOfParallel; }
constexpr const auto& names_of(Inner) { return kNamesOfInner; }

/// Blocks of the whole problem may be as long as the problem.
inline constexpr int kAnyLength = 1 << 30;

}  // namespace kiln
