// How this thread's floating-point unit rounds and treats denormals: MXCSR on x86, FPCR on Arm.
// Knows no threads.
#pragma once

#include <cstdint>

namespace kiln {

/// Rounding and what becomes of denormals, factors and results; nothing of exceptions, whose traps
/// and flags stay each thread's own.
using FloatMode = std::uint64_t;

#if defined(__x86_64__)

/// Rounding (bits 13 and 14), flush to zero (15), denormals are zero (6).
inline constexpr FloatMode kFloatModeBits = 0xe040;
inline FloatMode float_mode() { return __builtin_ia32_stmxcsr() & kFloatModeBits; }
inline void set_float_mode(FloatMode mode) {
  const FloatMode others = __builtin_ia32_stmxcsr() & ~kFloatModeBits;
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(others | mode));
}

#elif defined(__aarch64__)

/// Rounding (22, 23), FZ (24), DN (25), FZ16 (19), AH and FIZ (1, 0).
inline constexpr FloatMode kFloatModeBits = 0x3c80003;
inline std::uint64_t read_fpcr() {
  std::uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
inline FloatMode float_mode() { return read_fpcr() & kFloatModeBits; }
inline void set_float_mode(FloatMode mode) {
  asm volatile("msr fpcr, %0" : : "r"((read_fpcr() & ~kFloatModeBits) | mode));
}

#endif

/// While one lives, this thread rounds to nearest and keeps denormals, whatever its program has
/// set: kernels are compared with references in this mode.
class UsualFloatMode {
 public:
  UsualFloatMode() { set_float_mode(0); }
  ~UsualFloatMode() { set_float_mode(before_); }
  UsualFloatMode(const UsualFloatMode&) = delete;
  UsualFloatMode& operator=(const UsualFloatMode&) = delete;

 private:
  FloatMode before_ = float_mode();
};

}  // namespace kiln
