// One seeded set of operands in guarded memory, with what the product of A and B should be: made
// once for a problem, used for every candidate. Knows no kernels and no verdicts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generator/problem/groups.h"
#include "kiln/engine.hpp"
#include "runtime/buffers.h"
#include "tuner/verify/data.h"
#include "tuner/verify/ordered_rows.h"
#include "tuner/verify/reference.h"

namespace kiln {

/// How a set is made. `nonfinite` puts NaN and infinities at a few places of A and B and a NaN
/// among the scales of lines, where the types have them; NaN alone when the activation is a smooth
/// one, whose value at -infinity is not agreed on.
struct DataRecipe {
  Data data = Data::uniform;
  std::uint64_t seed = 1;
  bool nonfinite = false;
  /// Exact data only: A and B are scaled by powers of two (tiny_exponents()), so that D is
  /// denormal.
  bool tiny = false;
  Guard guard = Guard::after;  ///< where the inputs touch their unreadable page
  /// Chooses the lines of D that are compared where the whole is not: of its own where the code
  /// that is judged may know `seed`. 0: as `seed`.
  std::uint64_t lines_seed = 0;
  bool operator==(const DataRecipe&) const = default;
};

/// Exponents of two for A and for B by which exact data yield sums that are multiples of the least
/// denormal of D's type, with every intermediate exact in an accumulator that keeps denormals.
/// Nothing where the types leave no room for that or an epilogue would hide it.
std::optional<std::pair<int, int>> tiny_exponents(const Gemm& gemm);

/// Move-only.
class DataSet {
 public:
  /// Elements between lines are poisoned, so that a kernel which uses them is found out. `gemm` is
  /// valid. Errors: device (no memory).
  static Result<DataSet> make(const Gemm& gemm, const DataRecipe& recipe);

  /// Bytes of the inputs that `make` fills.
  static double bytes_needed(const Gemm& gemm);

  /// Whether the reference of the whole of D is cheap enough for uniform data.
  static bool whole_is_cheap(const Gemm& gemm);

  const Gemm& gemm() const { return gemm_; }
  const DataRecipe& recipe() const { return recipe_; }
  /// Pointers to the inputs, C included; null where the problem has none, and for scales that
  /// follow from D. D and the scalars are left alone.
  void bind(Operands& operands) const;

  /// The problem whose parts they are: of rows in order.
  const Gemm& ordered() const { return rows_.gemm(); }
  /// The products of which D is made.
  const std::vector<ProductPart>& parts() const { return parts_; }
  /// The call that `operands` make; where the problem is a list, one by `list`, which is made of
  /// pointers to the memory of all products.
  Operands call(const Operands& operands, std::vector<ListEntry>& list) const;
  /// Pointers as bind() gives them, but to rows in order, moved to a part's.
  void bind(Operands& operands, const ProductPart& part) const;

  /// Which input no longer holds what it was filled with, or was written around, as a sentence.
  std::optional<std::string> tampering() const;

  bool owns(const void* address) const;
  std::size_t bytes() const;  ///< of all inputs

  /// Of uniform data, for one of the parts: the whole of D when that is cheap, by columns where
  /// they hold the blocks of an expression and else by rows, or some rows and columns, the first
  /// and last and those beside usual tile boundaries among them. Computed on first use.
  const std::vector<Products>& sampled(std::size_t part);
  /// Of exact data: all sums of one batch, in the order of integer_products. Computed on first use.
  const std::vector<std::int32_t>& whole(std::size_t part, std::int64_t batch);

 private:
  Scales scales_of_part(const Operands& bound, std::size_t part) const;
  struct Input {
    Operand which;
    GuardedBuffer buffer;
    std::uint64_t hash = 0;
  };

  DataSet(const Gemm& gemm, DataRecipe recipe) : gemm_(gemm), recipe_(recipe), rows_(gemm) {}
  Input& input(Operand which);
  void change_inputs(const Gemm& gemm);

  Gemm gemm_;
  DataRecipe recipe_;
  OrderedRows rows_;
  std::vector<Input> inputs_;  // those that the problem has
  std::vector<ProductPart> parts_;
  std::vector<std::vector<Products>> sampled_;                 // by part
  std::vector<std::vector<std::vector<std::int32_t>>> whole_;  // by part and batch
};

}  // namespace kiln
