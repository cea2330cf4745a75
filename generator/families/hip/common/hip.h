// What the HIP families share: names of types, epilogue values and the compiler's flags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generator/problem/taken.h"
#include "generator/space/parameters.h"

namespace kiln::hip {

/// What a template calls the type.
std::string_view c_type(DType t);

/// The constants and values that templates/hip/common/convert.h and epilogue.h expect.
void add_common(Parameters& to, const Problem& problem, const DeviceCaps& device);

/// What templates/hip/common/epilogue.h computes in every family.
inline constexpr Features kOffers = taken({"expression"});

/// What follows clang++'s, hipcc's or hipRTC's name.
std::vector<std::string> flags(const DeviceCaps& device);

/// The cards that are known by name and have this target.
std::vector<DeviceCaps> cards_of(std::string_view arch);

/// The runtime refuses 2^32 work-items and more along one side of a grid.
constexpr bool launchable(std::int64_t blocks, int threads) {
  return blocks < (std::int64_t{1} << 32) / threads;
}

/// One launch of `blocks` blocks in a row.
GpuLaunch one_step(std::int64_t blocks, int threads);

/// Bytes that kernels of lists use of the workspace behind the entries: counts of tiles
/// (templates/hip/common/groups.h). 0 without a list.
std::int64_t bytes_of_tile_counts(const Gemm& gemm);

}  // namespace kiln::hip
