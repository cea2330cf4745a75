// What the CUDA families share: names of types, epilogue values, tensor maps and small arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "generator/families/cuda/common/choices.h"
#include "generator/problem/taken.h"
#include "generator/space/parameters.h"

namespace kiln::cuda {

/// What a kernel calls the storage of an element; empty for types that no NVIDIA GPU computes.
std::string_view c_type(DType type);

/// The values and constants that templates/cuda/common/convert.h and epilogue.h expect.
void add_common(Parameters& to, const Problem& problem, const DeviceCaps& device);

/// For `rolled` kernels, whose lanes hold two neighbours along `along`:
/// templates/cuda/common/pairs.h.
void add_pairs(Parameters& to, const Gemm& gemm, Index along, bool brings = false);

/// What templates/cuda/common/tile_scheduler.h and partials.h ask about; bands along the left side
/// are rows of tiles.
void add_tile_scheduler(TemplateValues& to, const Gemm& gemm, Sharing sharing,
                        Along along = Along::left, int cluster_blocks = 1);

/// Kernels that rasterize in bands of `group` tiles count a band's tiles in 32 bits; `across` is
/// the number of tiles along it.
constexpr bool band_fits(std::int64_t group, std::int64_t across) {
  return group * across < std::int64_t{1} << 31;
}

/// What templates/cuda/common/epilogue.h computes in every family.
inline constexpr Features kOffers = taken({"expression"});

/// Counters of split-K and stream-K at the front of the workspace. The size is fixed, so that the
/// offset of what follows does not depend on the number of tiles.
inline constexpr std::int64_t kCounterBytes = 64 << 10;

/// Where a repacked operand lies in the workspace: lines `pitch` bytes apart, batches `stride`
/// bytes apart.
struct Packed {
  std::int64_t offset = 0, pitch = 0, stride = 0, bytes = 0;
};
Packed packed(std::int64_t length, std::int64_t lines, std::int64_t batch, DType type,
              std::int64_t offset);

/// One operand as the copy engine is to see it: `length` neighbouring elements a line.
struct MapLines {
  MapOperand operand;
  std::int64_t offset;  // bytes
  DType type;
  std::int64_t length, lines, batch;
  std::int64_t pitch, stride;  // bytes
  int box_length, box_lines;
};
TensorMapSpec tensor_map(const MapLines& lines);

}  // namespace kiln::cuda
