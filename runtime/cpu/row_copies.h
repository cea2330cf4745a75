// The rows of one group of a call with indices, in order: copies that any kernel reads and writes.
// Knows no kernel.
#pragma once

#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "runtime/cpu/cpu.h"

namespace kiln {

class RowCopies {
 public:
  /// Of the rows `of` of a call of `gemm`. Both must live on.
  RowCopies(const Gemm& gemm, const KilnArgs& call, const Segment& of);

  /// Copies A's rows and their scales; `to` reads the copies and writes a D of its own. The copies
  /// are the calling thread's, until its next ones. Errors: device (no memory).
  Status gather(KilnArgs& to, int threads);
  /// Copies that D's rows to their places.
  void scatter(int threads) const;

 private:
  IndexedRows share(const void* index, int thread, int threads) const;
  /// From the first byte of the copies to that of an operand's.
  std::int64_t offset(Operand which) const;
  std::byte* copy(Operand which, std::int64_t row = 0) const;

  const Gemm& gemm_;
  const KilnArgs& call_;
  Segment of_;
  std::byte* memory_ = nullptr;
};

}  // namespace kiln
