// Who may have the process's handlers of SIGSEGV and its like: the compiler's crash recovery, or
// the emulator's watch for faults of lanes. Knows nothing of either's work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

/// LLVM's recovery saves the handlers it finds, and puts them back when the last compile ends. A
/// handler installed in between would be lost then, and while both stand a fault of one side runs
/// into the handler of the other. So they exclude each other: any number of users of one side at a
/// time, never both. A waiting side precedes later arrivals of the other.
enum class FaultSide : std::uint8_t { compiler, emulator };

class FaultHandlers {
 public:
  /// Waits until the other side has no user.
  explicit FaultHandlers(FaultSide side);
  ~FaultHandlers();
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;

 private:
  const std::size_t side_;
};

}  // namespace kiln
