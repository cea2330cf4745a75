// Who may have the process's handlers of SIGSEGV and its like: the compiler's crash recovery, or
// the emulator's watch for faults of lanes. Knows nothing of either's work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

/// LLVM's recovery saves the handlers it finds, and puts them back when the last compile ends. A
/// handler installed in between would be lost then, and while both stand a fault of one side runs
/// into the handler of the other. So they take turns: any number of one side at a time, never both.
/// A side that waits goes before newcomers of the other.
enum class FaultSide : std::uint8_t { compiler, emulator };

class FaultHandlers {
 public:
  /// Waits until nobody of the other side is left.
  explicit FaultHandlers(FaultSide side);
  ~FaultHandlers();
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;

 private:
  const std::size_t side_;
};

}  // namespace kiln
