#include "runtime/host.h"

#include <atomic>

namespace kiln {
namespace {

std::atomic<const HostThreads*> g_threads{nullptr};
std::atomic<const HostMemory*> g_memory{nullptr};

}  // namespace

const HostThreads* lent_threads() { return g_threads.load(std::memory_order_acquire); }
const HostMemory* lent_memory() { return g_memory.load(std::memory_order_acquire); }

// What was lent before is kept: calls that run now may use it.
void lend_threads(const HostThreads& threads) {
  g_threads.store(threads.run == nullptr ? nullptr : new HostThreads(threads),
                  std::memory_order_release);
}

void lend_memory(const HostMemory& memory) {
  g_memory.store(memory.allocate == nullptr ? nullptr : new HostMemory(memory),
                 std::memory_order_release);
}

}  // namespace kiln
