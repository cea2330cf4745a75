// Ranges of a size: their rules and their text form.
#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "generator/problem/bad_input.h"
#include "generator/problem/extent.h"
#include "generator/problem/size.h"

namespace kiln {
namespace {

GemmRange range_of(const Gemm& gemm, Size size, std::int64_t first, std::int64_t last) {
  GemmRange range{.gemm = gemm, .size = size, .first = first};
  range.gemm.*member_of(size) = last;
  return range;
}

/// The word of a line that holds a range, its place, and which word it is.
struct RangeWord {
  std::size_t at = 0, length = 0;
  std::size_t number = 0;
};

std::vector<RangeWord> range_words(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\n";
  line = line.substr(0, line.find('#'));
  std::vector<RangeWord> found;
  std::size_t number = 0;
  for (std::size_t at = line.find_first_not_of(kBlank); at != line.npos; ++number) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (number >= 3 && number < 6 && word.find("..") != word.npos)
      found.push_back({at, end - at, number});
    at = line.find_first_not_of(kBlank, end);
  }
  return found;
}

Status read_end(std::string_view field, std::string_view word, std::string_view end,
                std::int64_t& value) {
  const auto [stop, code] = std::from_chars(end.data(), end.data() + end.size(), value);
  if (code != std::errc{} || stop != end.data() + end.size())
    return bad_input("{} = \"{}\": a range is first..last, two whole numbers", field, word);
  return {};
}

/// What of a matrix's place depends on a size.
struct Depends {
  bool pitch = false, stride = false;
};

Depends depends_on(const Gemm& gemm, Size size, Operand which) {
  Gemm other = gemm;
  other.*member_of(size) += 1;
  const Extent here = extent(gemm, which), there = extent(other, which);
  const bool pitch = here.length != there.length;
  return {.pitch = pitch,
          .stride = here.lines != there.lines || (pitch && matrix(gemm, which).ld == 0)};
}

Matrix& stored(Gemm& gemm, Operand which) {
  const auto all = gemm.matrices();
  return *all[static_cast<std::size_t>(which)];
}

}  // namespace

GemmRange Gemm::with_m(std::int64_t first, std::int64_t last) const {
  return range_of(*this, Size::m, first, last);
}
GemmRange Gemm::with_n(std::int64_t first, std::int64_t last) const {
  return range_of(*this, Size::n, first, last);
}
GemmRange Gemm::with_k(std::int64_t first, std::int64_t last) const {
  return range_of(*this, Size::k, first, last);
}

std::string_view name(Size size) { return size == Size::m ? "m" : size == Size::n ? "n" : "k"; }

std::int64_t GemmRange::last() const { return gemm.*member_of(size); }

Gemm GemmRange::at(std::int64_t value) const {
  Gemm one = gemm;
  one.*member_of(size) = value;
  return one;
}

Status validate(const GemmRange& range) {
  if (range.size > Size::k)
    return bad_input("size = {}: must be m, n or k", static_cast<int>(range.size));
  if (range.first > range.last())
    return bad_input("{} = {}..{}: the range is reversed", name(range.size), range.first,
                     range.last());
  if (range.first < 1)
    return bad_input("{} = {}..{}: a range begins at 1 or more", name(range.size), range.first,
                     range.last());
  // Strides that hold the largest may still let batches of the smallest overlap.
  if (Status largest = validate(range.gemm); !largest) return largest;
  return validate(range.at(range.first));
}

std::string text(const GemmRange& range) {
  const std::string line = text(range.gemm);
  std::size_t at = 0;
  for (int blanks = 3 + static_cast<int>(range.size); blanks > 0; --blanks)
    at = line.find(' ', at) + 1;
  return fmt::format("{}{}..{}", line.substr(0, at), range.first, line.substr(at));
}

bool names_range(std::string_view line) { return !range_words(line).empty(); }

Result<GemmRange> parse_gemm_range(std::string_view line) {
  const std::vector<RangeWord> words = range_words(line);
  if (words.size() != 1)
    return bad_input("\"{}\": one of m, n and k must be a range first..last, {} are", line,
                     words.size());
  const RangeWord& at = words.front();
  const std::string_view word = line.substr(at.at, at.length);
  const std::size_t dots = word.find("..");
  GemmRange range{.size = kSizes[at.number - 3]};
  std::int64_t last = 0;
  for (Status read : {read_end(name(range.size), word, word.substr(0, dots), range.first),
                      read_end(name(range.size), word, word.substr(dots + 2), last)})
    if (!read) return tl::unexpected(std::move(read).error());
  auto gemm = parse_gemm(
      fmt::format("{}{}{}", line.substr(0, at.at), last, line.substr(at.at + at.length)));
  if (!gemm) return tl::unexpected(std::move(gemm).error());
  range.gemm = *gemm;
  if (Status valid = validate(range); !valid) return tl::unexpected(std::move(valid).error());
  return range;
}

Gemm without_size(Gemm gemm, Size size) {
  const Gemm whole = gemm;
  for (const Operand which : kMatrices) {
    const Depends on = depends_on(whole, size, which);
    const Extent e = extent(whole, which);
    const std::int64_t ld = leading_dimension(whole, which);
    Matrix& x = stored(gemm, which);
    if (!on.pitch && x.ld == std::max<std::int64_t>(1, e.length)) x.ld = 0;
    if (whole.batch == 1 ||
        (!on.stride && x.batch_stride == std::max<std::int64_t>(1, ld * e.lines)))
      x.batch_stride = 0;
  }
  gemm.*member_of(size) = 0;
  return gemm;
}

}  // namespace kiln
