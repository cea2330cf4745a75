// Loops of one multiplying instruction in registers: what the probe times. Knows no clock.
#pragma once

#include <cstdint>

#include "kiln/dtype.hpp"

namespace kiln {

/// `run` multiplies in registers alone and returns a number that depends on every vector product.
/// Those of matrix units configure this thread's tiles and release them before they return.
struct PeakLoop {
  double (*run)(std::int64_t rounds) = nullptr;
  int products = 0;  // multiply-adds of a round
  int cycles = 0;    // that a round takes on a core with two vector units, about
};

/// The instruction that kernels of a type are built on; nothing (`run` is null) where none is known
/// here. fp16 is multiplied in fp32, and so is bf16 without an instruction of its own.
PeakLoop peak_loop(DType type);

}  // namespace kiln
