// Lines of D whose products are known: all of them of exact data, of uniform data those that were
// computed. Knows no verdicts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tuner/verify/data_set.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/terms.h"

namespace kiln {

/// Rows of one batch of D, or columns. The products that it is made of must outlive it.
class KnownLines {
 public:
  /// All lines of a batch; `sums` lie as integer_products() returns them.
  KnownLines(const Gemm& gemm, std::int64_t batch, const std::int32_t* sums);
  KnownLines(const Gemm& gemm, const Products& some);

  std::int64_t batch() const { return batch_; }
  Lines::Along along() const { return along_; }
  std::int64_t count() const { return count_; }
  std::int64_t length() const { return length_; }  ///< elements of a line
  /// Which line of D the i-th one is.
  std::int64_t operator[](std::int64_t i) const;
  /// Of the i-th line, `count` elements from its element `j` on. Valid until the next call.
  Terms read(TermReader& terms, std::int64_t i, std::int64_t j, std::int64_t count) const;

 private:
  const Gemm& gemm_;
  std::int64_t batch_;
  Lines::Along along_;
  std::int64_t count_, length_;
  const std::int32_t* sums_ = nullptr;  // of all lines, or
  const Products* some_ = nullptr;
};

/// Whether the products of a set are known as integers, the whole of them.
bool knows_integers(const DataSet& set);
/// Of one of the parts of a set, every batch of which something is known.
std::vector<KnownLines> known_lines(DataSet& set, std::size_t part);

/// Calls element(row, column, value, error) for each known element, with what expect() says of one
/// of the expression's values, until it returns false.
template <typename Element>
void for_each_expected(const Gemm& gemm, const Scaling& scaling, const KnownLines& known,
                       TermReader& terms, int wanted, Element&& element) {
  constexpr std::int64_t kChunk = 512;
  static_assert(kChunk % expression::kLargestBlock == 0);  // which a run has all of, or nothing
  const bool rows = known.along() == Lines::Along::rows;
  std::vector<double> value(kChunk), error(kChunk);
  for (std::int64_t i = 0; i < known.count(); ++i)
    for (std::int64_t j = 0; j < known.length(); j += kChunk) {
      const auto count = static_cast<std::size_t>(std::min(kChunk, known.length() - j));
      expect(gemm, scaling, known.read(terms, i, j, static_cast<std::int64_t>(count)),
             {value.data(), count}, {error.data(), count}, wanted);
      for (std::size_t x = 0; x < count; ++x) {
        const std::int64_t line = known[i], other = j + static_cast<std::int64_t>(x);
        if (!element(rows ? line : other, rows ? other : line, value[x], error[x])) return;
      }
    }
}

}  // namespace kiln
