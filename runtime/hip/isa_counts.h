// What the loops of a kernel do, read from its assembly text: how many matrix instructions stand
// beside how many others, in what order, and what each wait waits for. Knows AMD's mnemonics, and
// nothing of how the text came to be.
#pragma once

#include <cstdint>
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

/// One wait in a loop's steady state, for the oldest accesses of its kind in flight.
struct Wait {
  enum class For : std::uint8_t { memory, shared };  // vmcnt, lgkmcnt
  For kind = For::memory;
  int left = 0;      // accesses that may stay in flight
  int accesses = 0;  // those that it waits for
  int matrix = 0;    // matrix instructions between the youngest of them and the wait
  int barriers = 0;  // barriers between the two
  auto operator<=>(const Wait&) const = default;
};

struct LoopCounts {
  std::string label;  // where it begins
  InstructionCounts counts;
  /// Waits that find something to wait for, as executed.
  std::vector<Wait> waits = {};
  /// A letter an instruction, as executed: M matrix, R and W reads and writes of shared memory, L
  /// and S loads and stores of memory, D loads straight into shared memory, B barriers, m and s
  /// waits for memory and for shared memory. Others have none.
  std::string order = {};
};

/// Every loop, that is every range from a label to the last branch back to it, in the order of
/// their labels; an outer loop's counts hold those of the inner ones. Waits and order are those of
/// the way on which no conditional branch is taken, which in a GEMM's main loop passes every
/// instruction.
std::vector<LoopCounts> count_loops(std::string_view assembly);

/// The loop with the most matrix instructions for its length: the one that a GEMM spends its time
/// in. Null when no loop has any.
const LoopCounts* main_loop(const std::vector<LoopCounts>& loops);

}  // namespace kiln::hip
