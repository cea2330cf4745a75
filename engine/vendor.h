// What races with libraries say: whether the vendor's runs instead of kiln's winner, where the
// caller allows it, and how much faster a kernel is than the library that a program would call
// else.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generator/families/cuda/library/config.h"
#include "kiln/engine.hpp"
#include "tuner/measured.h"

namespace kiln {

/// The fastest row of this `version` of the library (CudaLibrary::version) that beats `winner` by
/// more than the margin that any challenger of an incumbent needs, or nothing. Rows of another
/// version, or of none, do not count: their number may name another algorithm today.
std::optional<Measured> preferred_library(const Measured& winner, std::span<const Measured> rows,
                                          int version);

/// A library's time in the race that a kernel won.
struct RacedLibrary {
  Config config;
  LibraryRace race;
};

/// Of rows as Measurements::winners_and_libraries() returns them: the newest time of each library,
/// over that of the winner with this config.
std::vector<RacedLibrary> raced_libraries(std::span<const Measured> rows, std::string_view winner);
/// That of the build that this process has loaded, or loads now (the system's BLAS, cuBLASLt): of
/// several proposals the fastest. Nothing: it was not raced.
std::optional<LibraryRace> race_with_loaded(std::span<const RacedLibrary> raced);

}  // namespace kiln
