#include "tuner/verify/known_lines.h"

namespace kiln {
namespace {

Lines::Along along_memory(const Gemm& gemm) {
  return gemm.d.order == Order::row_major ? Lines::Along::rows : Lines::Along::columns;
}

std::int64_t length_of(const Gemm& gemm, Lines::Along along) {
  return along == Lines::Along::rows ? gemm.n : gemm.m;
}

}  // namespace

KnownLines::KnownLines(const Gemm& gemm, std::int64_t batch, const std::int32_t* sums)
    : gemm_(gemm),
      batch_(batch),
      along_(along_memory(gemm)),
      count_(along_ == Lines::Along::rows ? gemm.m : gemm.n),
      length_(length_of(gemm, along_)),
      sums_(sums) {}

KnownLines::KnownLines(const Gemm& gemm, const Products& some)
    : gemm_(gemm),
      batch_(some.lines.batch),
      along_(some.lines.along),
      count_(std::ssize(some.lines.index)),
      length_(length_of(gemm, along_)),
      some_(&some) {}

std::int64_t KnownLines::operator[](std::int64_t i) const {
  return some_ == nullptr ? i : some_->lines.index[static_cast<std::size_t>(i)];
}

Terms KnownLines::read(TermReader& terms, std::int64_t i, std::int64_t j,
                       std::int64_t count) const {
  if (some_ != nullptr) return terms.read(*some_, static_cast<std::size_t>(i), j, count);
  // A gate has a row-major D: its lines are rows.
  const std::int64_t length = along_ == Lines::Along::rows ? gemm_.columns_of_b() : gemm_.m;
  const auto line = line_of(gemm_, along_, length, sums_ + i * length);
  return terms.read(line, line, i, j, count);
}

bool knows_integers(const DataSet& set) {
  return set.recipe().data == Data::exact && !set.recipe().tiny;
}

std::vector<KnownLines> known_lines(DataSet& set, std::size_t part) {
  const Gemm& gemm = set.parts()[part].gemm;
  std::vector<KnownLines> all;
  if (knows_integers(set))
    for (std::int64_t batch = 0; batch < gemm.batch; ++batch)
      all.emplace_back(gemm, batch, set.whole(part, batch).data());
  else
    for (const Products& some : set.sampled(part)) all.emplace_back(gemm, some);
  return all;
}

}  // namespace kiln
