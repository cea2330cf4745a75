// One call with its operands in guarded memory: drawn data, drawn addresses, drawn scalars, and
// what D must hold afterwards. Knows no engine and no kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generator/problem/groups.h"
#include "kiln/engine.hpp"
#include "runtime/buffers.h"
#include "tuner/verify/data.h"
#include "tuner/verify/ordered_rows.h"

namespace kiln::soak {

/// Bytes at a drawn address: against the unreadable page after or before them, or a few bytes off
/// it. The bytes between are part of the guard zone.
class Placed {
 public:
  Placed(Random& random, DType type, std::int64_t bytes, int alignment);

  std::byte* data() const { return buffer_.data() + lead_; }
  std::size_t size() const { return size_; }
  /// Keeps what the contents are now, for changes().
  void seal();
  /// What was written around the bytes, or into them since seal(); nothing when nothing was.
  std::optional<std::string> damage() const;
  std::optional<std::string> changes() const;

 private:
  std::size_t size_ = 0, lead_ = 0;  // bytes; what lies between the guard and the data
  GuardedBuffer buffer_;
  std::uint64_t hash_ = 0;
};

class Call {
 public:
  /// Operands for one call of a valid problem. C is D itself in some of the calls that allow it; C,
  /// where beta is 0, is null or poisoned.
  Call(const Gemm& gemm, Random& random);

  const Gemm& gemm() const { return gemm_; }
  /// A copy to change for a call that must fail.
  Operands operands() const { return operands_; }
  /// After a call: what is wrong with D, its guard zone or an input; nothing when all is right.
  std::optional<std::string> wrong() const;
  /// After a call that failed: what was written anywhere.
  std::optional<std::string> written() const;
  /// alpha, beta, the data and the addresses, for a failure's sentence.
  std::string text() const;

 private:
  void draw_scalars(Random& random);
  void fill_inputs(Random& random);
  void spoil(Random& random);
  std::optional<std::string> wrong_values() const;
  std::optional<std::string> wrong_row(const OrderedRows& rows, const ProductPart& part,
                                       std::int64_t batch, std::int64_t row) const;
  Placed& placed(Operand which) { return placed_[index_of(which)]; }
  const Placed& placed(Operand which) const { return placed_[index_of(which)]; }

  Gemm gemm_;
  Operands operands_;
  Data data_ = Data::uniform;
  bool nonfinite_ = false, in_place_ = false;
  std::vector<Placed> placed_;  // by operand; those that the problem has not are empty
  std::vector<ProductPart> parts_;
};

}  // namespace kiln::soak
