// Turns a fault of an emulated lane into a report: a signal that arrives while a machine runs on
// the thread goes to it, every other one to whoever handled it before. Knows nothing of kernels.
#pragma once

#include "runtime/fault_handlers.h"

namespace kiln::emu {

/// For the calling thread, while it runs a machine: a stack of its own for the handler, because
/// lanes' stacks are small and one of them may be what overflowed. The handler itself is the
/// process's and stays.
class FaultWatch {
 public:
  FaultWatch();
  ~FaultWatch();
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

 private:
  const FaultHandlers turn_{FaultSide::emulator};
  void* stack_;
  void* previous_;
};

}  // namespace kiln::emu
