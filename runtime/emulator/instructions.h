// What the instructions of a kernel mean to the machine: one function each, called in the running
// lane through the table that a kernel's image is given. Knows no files and no threads.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/emulator/machine.h"

namespace kiln::emu {

/// Every entry filled in.
const KilnEmuOps& instructions();

/// A tensor map as the emulator fills it into a KilnTensorMap.
struct EmulatedMap {
  static constexpr std::uint64_t kMagic = 0x70616d2d6e6c696b;
  /// Of one that a kernel has made: lanes must acquire it.
  static constexpr std::uint64_t kMade = kMagic + 1;
  std::uint64_t magic;
  unsigned char* base;        // of the map's first element
  const TensorMapSpec* spec;  // what is not replaced
  std::array<std::uint64_t, TensorMapSpec::kMaxRank> dims;
  std::array<std::uint64_t, TensorMapSpec::kMaxRank - 1> strides;
};
static_assert(sizeof(EmulatedMap) <= sizeof(KilnTensorMap));

// barriers.cpp
void add_barriers(KilnEmuOps& to);
/// One arrival, which waited for the copies of a lane.
void copies_arrived(Machine& m, const Lane& lane, std::uint32_t barrier);
/// Takes bytes off what a barrier expects; ends its phase when that was all.
void bytes_arrived(Machine& m, Block& block, std::uint32_t place, std::int64_t bytes);
/// copies.cpp
void add_copies(KilnEmuOps& to);
/// tensor_maps.cpp
void add_tensor_maps(KilnEmuOps& to);
/// The map that a copy of the running lane goes by. Refuses what is none, and one that a kernel has
/// made and this lane has not acquired.
EmulatedMap map_at(Machine& m, const void* map);
/// shared.cpp
void add_shared(KilnEmuOps& to);
/// products.cpp
void add_products(KilnEmuOps& to);
/// mma.cpp
void add_mma(KilnEmuOps& to);
/// mfma.cpp
void add_mfma(KilnEmuOps& to);

/// Shared memory at an address, or an end with a sentence that says `what` reached for it.
unsigned char* shared_at(Machine& m, std::uint32_t address, std::size_t bytes, const char* what);
/// The same as the async proxy sees it: refuses what ordinary stores wrote and no fence followed.
const unsigned char* shared_for_engine(Machine& m, std::uint32_t address, std::size_t bytes,
                                       const char* what);

}  // namespace kiln::emu
