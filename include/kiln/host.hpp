/// @file
/// What a program lends to kiln: its own thread pool, and memory for workspaces on CPUs. (On a GPU
/// a call takes Operands::workspace.)
#pragma once

#include <cstddef>

#include "kiln/export.h"

namespace kiln {

/// A program's thread pool.
struct HostThreads {
  /// Runs `task(context, i)` for i = 0 … count - 1, all of them at once, for they wait for one
  /// another; returns when all have returned. The calling thread may run one of them. False, and
  /// nothing ran: it cannot run so many at once; the product is computed on the calling thread
  /// then. Called by any thread, several at once; throws nothing.
  bool (*run)(void* pool, int count, void (*task)(void* context, int index),
              void* context) = nullptr;
  void* pool = nullptr;  ///< first argument of run
};

/// A program's memory. Called by any thread, several at once; throws nothing.
struct HostMemory {
  /// `bytes` bytes at a multiple of `alignment`, a power of two; null: there are none, which is the
  /// error of the call that needs them.
  void* (*allocate)(void* user, std::size_t bytes, std::size_t alignment) = nullptr;
  /// Takes back what allocate() gave: when a thread needs more, and when it ends.
  void (*release)(void* user, void* memory, std::size_t bytes) = nullptr;
  void* user = nullptr;  ///< first argument of both
};

/// From now on calls of this process with more than one thread run on the program's pool; with
/// `run` = null on kiln's again. Pools that were lent stay usable until the process ends: calls
/// that began before may still use them. Candidates of a search run in another process, on kiln's.
KILN_API void lend_threads(const HostThreads& threads);

/// From now on workspaces of calls on CPUs, one for each calling thread, come from `memory`; with
/// `allocate` = null from kiln's again. Those that threads have already go back to where they came
/// from; so what was lent stays usable until the process ends.
KILN_API void lend_memory(const HostMemory& memory);

}  // namespace kiln
