// Looks at what one run left in D and says whether a right kernel could have left it. Knows the
// expectations; knows neither who wrote D nor how often it will be written.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "tuner/measured.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/reduced_lines.h"

namespace kiln {

/// One run of a kernel.
struct Run {
  double alpha = 1.0, beta = 0.0;
  enum class C : std::uint8_t {
    unread,  // given, but poisoned: beta is 0
    absent,  // null: beta is 0
    separate,
    in_place  // C and D are the same memory
  } c = C::unread;
  double flushed = 0;  // what each product or addition may lose, as in Scaling
};

/// What such a run makes of the inputs of a set.
Scaling scaling_of(const DataSet& set, const Run& run);

/// What a run wrote.
struct Outputs {
  const void* d = nullptr;
  const void* scale_d = nullptr;  // null where the problem has none that follow from D
  const void* amax_d = nullptr;   // null where it is not asked for
  std::array<const void*, kExpressionOutputs> outputs{};  // what an expression stores beside D

  static Outputs of(const Operands& call) {
    Outputs all{call.d, call.scale_d, call.amax_d};
    std::ranges::copy(call.outputs, all.outputs.begin());
    return all;
  }
};

/// Compares the elements of D, the scales that follow from it, its largest magnitude and what an
/// expression stores beside it. `set` provided the inputs. Of a grouped problem it also looks for
/// changes in rows of no group, where D was poisoned.
std::optional<Failure> judge_values(DataSet& set, const Run& run, const Outputs& got);

/// The same of what an expression stores beside D alone. What is made of many elements is compared
/// where all of them are expected. `reduced`: of the part and the run.
std::optional<Failure> judge_outputs(DataSet& set, std::size_t part, const Run& run,
                                     const Outputs& got, const LinesOfBatches& reduced);
/// Looks for changes in their rows of no group, which were poisoned before.
std::optional<Failure> judge_unused_outputs(const DataSet& set, const Outputs& got);

/// The same of a D to whose rows those of the product are added.
std::optional<Failure> judge_added(DataSet& set, const Run& run, const Outputs& got);

/// Looks for changes in rows of a grouped D and of its scales, which were poisoned before, that are
/// of none of `parts`. `index_d`: where rows of D are by index, the list of them.
std::optional<Failure> judge_unused_rows(const Gemm& gemm, const std::vector<ProductPart>& parts,
                                         const Outputs& got, const void* index_d = nullptr);

/// Looks for changes in what lies between the lines and batches of D, or of what an expression
/// stores beside it, which was poisoned before.
std::optional<Failure> judge_padding(const Gemm& gemm, Operand which, const void* data);
/// Of both.
std::optional<Failure> judge_paddings(const Gemm& gemm, const Outputs& got);

}  // namespace kiln
