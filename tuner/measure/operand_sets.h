// Operands to time a problem on: as many sets as the policy rotates through, filled alike. Used by
// the worker and by `kiln bench`, so that kernels and peers read the same memory. Knows no kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/problem/device_caps.h"
#include "kiln/engine.hpp"
#include "kiln/error.hpp"

namespace kiln {

/// Move-only. Addresses are 64-byte aligned, or as the problem promises when that is more; huge
/// pages are neither asked for nor refused, as in most programs.
class OperandSets {
 public:
  /// Bytes that `make` takes.
  static double bytes_needed(const Gemm& gemm, const DeviceCaps& device);
  /// Errors: device (more than there is; found out before anything is allocated).
  static Result<OperandSets> make(const Gemm& gemm, const DeviceCaps& device, std::uint64_t seed);
  OperandSets(OperandSets&& other) noexcept;
  OperandSets& operator=(OperandSets&& other) noexcept;
  ~OperandSets();

  int count() const { return static_cast<int>(sets_.size()); }
  /// alpha = 1, beta = 0, B not packed; C is D, which nobody reads.
  const Operands& operator[](int set) const { return sets_[static_cast<std::size_t>(set)]; }
  std::int64_t set_bytes() const { return set_bytes_; }

 private:
  OperandSets() = default;
  std::byte* memory_ = nullptr;
  std::size_t mapped_ = 0;
  std::int64_t set_bytes_ = 0;
  std::vector<Operands> sets_;
};

/// What one call touches: A, B, D, bias, residual and scales, in bytes.
std::int64_t touched_bytes(const Gemm& gemm);

}  // namespace kiln
