#include "generator/problem/did_you_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kiln {
namespace {

/// Optimal string alignment: Levenshtein's distance, and two neighbours that changed places are one
/// edit.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t other = from[i - 1] != to[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + other});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[to.size()];
}

}  // namespace

std::string lower_case(std::string_view word) {
  std::string lower(word);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  // Longer words are not slips of the pen, and the distance takes the product of both lengths.
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  const std::string wanted = lower_case(word);
  std::string_view nearest;
  std::size_t fewest = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    // One edit makes any word of one letter any other.
    if (candidate.size() < 2) continue;
    if (const std::size_t count = edits(wanted, lower_case(candidate)); count < fewest) {
      fewest = count;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view nearest = nearest_word(word, known);
  return nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  return did_you_mean(word, std::vector<std::string_view>(known.begin(), known.end()));
}

}  // namespace kiln
