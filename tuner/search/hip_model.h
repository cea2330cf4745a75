// Predicted time of a compiled kernel on an AMD GPU that this machine lacks: a static model of the
// binary, not of the config alone. It ranks, and says what bounds a kernel; it measures nothing.
// Knows the generator's plan, the code object and its loops.
#pragma once

#include <cstdint>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"
#include "generator/space/config.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/isa_counts.h"

namespace kiln {

/// Cycles are those that one stage of all resident blocks keeps a part of a compute unit busy.
struct HipForecast {
  double ns = 0;           // of one call
  double ghz = 0;          // the clock that the card is thought to hold; 0: that of the data sheet
  double peak_share = 0;   // of the main loop's cycles that matrix units are busy; 0: it has none
  double flops_share = 0;  // of the data sheet's peak in the whole call
  double matrix = 0;       // cycles of the matrix units
  double issue = 0;        // of a SIMD, to issue matrix and vector instructions
  double shared = 0;       // of shared memory's banks
  double conflicts = 0;    // of these, lost to conflicts
  double l2 = 0;           // to bring the stage from the L2
  double fill = 0;         // to bring it into the L2s: what each chiplet reads for itself
  double memory = 0;       // from memory: what all read together
  double exposed = 0;      // waiting for barriers, shared memory and memory that nothing hides
  double l2_bytes = 0, fill_bytes = 0, memory_bytes = 0;  // of the whole call
  int resident = 0;                                       // blocks of a compute unit
  int occupancy = 0;                                      // waves of a SIMD
  int registers = 0;
  double others_per_matrix = 0;  // other instructions of the main loop for each matrix instruction
};

/// Errors: unsupported, with the reason: registers spilled, not even one block fits, no main loop.
Result<HipForecast> forecast(const Problem& problem, const DeviceCaps& device, const Config& config,
                             const hip::CodeObject& code,
                             const std::vector<hip::LoopCounts>& loops);

}  // namespace kiln
