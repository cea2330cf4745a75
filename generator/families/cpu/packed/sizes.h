// What the parts of host_packed share: the sizes derived from a config, its instruction, the space
// and the model.
#pragma once

#include <functional>

#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/packed/config.h"

namespace kiln::host {

/// Elements of an accumulator.
constexpr int lanes(const DotInstruction& row) { return row.vector_bytes / row.acc_bytes; }

struct PackedSizes {
  const DotInstruction& row;
  int lanes;    // of a vector
  int columns;  // of D in a register tile, of the transposed product with `swap`
  /// The product whose left operand is copied to strips and whose columns fill vectors: the problem
  /// itself or, with `swap`, its transposed product. Its D and epilogue are the problem's.
  Problem product;
};

/// The instruction of a config, or null.
const DotInstruction* row_of(const Problem& problem, const DeviceCaps& device,
                             const HostPacked& config);

/// The product with its operands exchanged, but for D and the epilogue: only a tile's store sees
/// those, and it knows rows and columns of D.
Problem transposed(Problem problem);

/// Lines that 8 steps may fetch ahead: more would hold up their own loads.
constexpr int kMostLines = 8;

/// All points of the space.
void enumerate_packed(const Problem& problem, const DeviceCaps& device,
                      const std::function<void(const Config&)>& visit);

/// The analytic model: nanoseconds of a call.
double predict_packed(const DeviceCaps& device, const HostPacked& config, const PackedSizes& sizes);

}  // namespace kiln::host
