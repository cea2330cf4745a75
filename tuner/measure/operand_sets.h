// Operands to time a problem on: as many sets as the policy rotates through, filled alike. Used by
// the worker and by `kiln bench`, so that kernels and peers read the same memory. Knows no kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/problem/device_caps.h"
#include "generator/problem/operands.h"
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
  std::vector<std::vector<ListEntry>> lists_;  // of the sets, where the problem is a list
};

/// Where each operand of one set lies, in bytes from the set's start; C is D.
struct SetLayout {
  std::array<std::int64_t, kOperandCount> at = {};
  std::int64_t bytes = 0;  ///< of the set, a multiple of the alignment

  /// `alignment` is of every operand, in bytes.
  static SetLayout of(const Gemm& gemm, std::int64_t alignment);

  /// Points `to` (Operands or kernel arguments of `gemm`) into the set at `base`; null where the
  /// problem has no such operand.
  template <typename Pointers>
  void point(Pointers& to, const Gemm& gemm, std::byte* base) const {
    for_each_operand([&](auto which) {
      pointer<which>(to) = present(gemm, which) ? base + at[index_of(which)] : nullptr;
    });
  }
};

/// What one call touches, in bytes: all operands but C.
std::int64_t touched_bytes(const Gemm& gemm);

}  // namespace kiln
