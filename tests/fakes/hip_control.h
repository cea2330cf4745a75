// What a test asks of the fake HIP runtime beside HIP's own functions, and what the fake compiler
// appends to a code object so that the fake runtime can run it.
#pragma once

#include <cstdint>

extern "C" {

/// What was called, "hipMalloc\nhipFree\n…", since the last clear.
const char* fake_hip_calls();
/// What was wrong with the calls, a sentence a line; empty: nothing.
const char* fake_hip_complaints();
/// Allocations, modules, streams, events and graphs that nobody gave back yet.
int fake_hip_live();
void fake_hip_clear();
/// The next so many calls of hipMalloc fail.
void fake_hip_fail_mallocs(int count);
}

namespace kiln::test {

/// Ends an image: the emulated kernel's image, then this.
struct EmulatedTrailer {
  static constexpr std::uint64_t kMagic = 0x6b696c6e2d656d75;
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;  // of the emulated image before it
};

}  // namespace kiln::test
