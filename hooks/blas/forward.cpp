// What the stubs of forward_*.S jump through.
#include <cstdint>

#include "system_library.h"

namespace {

constexpr const char* kNames[] = {
#define FORWARD(name, index) #name,
#include <forwarded.inc>
#undef FORWARD
};

}  // namespace

extern "C" {

/// Null until a name was called; written once or several times with the same value.
[[gnu::visibility("hidden")]] void* kiln_blas_slots[sizeof kNames / sizeof *kNames] = {};

[[gnu::visibility("hidden")]] void* kiln_blas_find(std::uint32_t index) {
  void* const found = kiln::hooks::system_function(kNames[index]);
  if (found == nullptr) kiln::hooks::no_such_function(kNames[index]);
  __atomic_store_n(&kiln_blas_slots[index], found, __ATOMIC_RELEASE);
  return found;
}

}  // extern "C"
