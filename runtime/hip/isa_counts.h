// Counts what the loops of a kernel do, from its assembly text: how many matrix instructions stand
// beside how many others. Knows AMD's mnemonics, and nothing of how the text came to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::hip {

struct InstructionCounts {
  int total = 0;
  int matrix = 0;  // v_mfma_…, v_smfmac_…, v_wmma_…
  int shared_reads = 0, shared_writes = 0;
  int memory_loads = 0, memory_stores = 0;
  int vector = 0, scalar = 0;  // arithmetic beside the matrix instructions
  int waits = 0, barriers = 0;
  int spills = 0;  // scratch_… accesses

  double others_per_matrix() const { return matrix == 0 ? 0 : double(total - matrix) / matrix; }
  auto operator<=>(const InstructionCounts&) const = default;
};

struct LoopCounts {
  std::string label;  // where it begins
  InstructionCounts counts;
};

/// Every loop, that is every range from a label to the last branch back to it, in the order of
/// their labels; an outer loop's counts hold those of the inner ones.
std::vector<LoopCounts> count_loops(std::string_view assembly);

/// The loop with the most matrix instructions for its length: the one that a GEMM spends its time
/// in. Null when no loop has any.
const LoopCounts* main_loop(const std::vector<LoopCounts>& loops);

}  // namespace kiln::hip
