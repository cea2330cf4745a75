#include "generator/problem/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generator/problem/bad_input.h"

namespace kiln {

FieldValues values_of(const Gemm& gemm) {
  FieldValues values{};
  for_each_gemm_field([&](auto at) { values[at] = kGemmFields[at].get(gemm); });
  return values;
}

const FieldValues& default_values() {
  static const FieldValues values = values_of(Gemm{});
  return values;
}

std::string value_text(const GemmField& field, std::int64_t value) {
  if (field.flag) return value != 0 ? "true" : "false";
  if (field.text_of != nullptr) return std::string(field.text_of(value));
  const auto index = static_cast<std::size_t>(value);
  return index < field.words.size() ? std::string(field.words[index]) : std::to_string(value);
}

std::vector<std::string_view> split_words(std::string_view line, std::string_view separators) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(separators); at != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(separators, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(separators, end);
  }
  return words;
}

std::string choices(std::string_view words) {
  const std::vector<std::string_view> all = split_words(words, "|");
  std::string text(all[0]);
  for (std::size_t i = 1; i < all.size(); ++i)
    text += fmt::format("{}{}", i + 1 < all.size() ? ", " : " or ", all[i]);
  return text;
}

Result<Gemm> gemm_of(const FieldValues& values) {
  Gemm gemm;
  for (std::size_t i = 0; i < kGemmFieldCount; ++i) {
    const GemmField& field = kGemmFields[i];
    const std::int64_t value = values[i];
    if (!field.names.empty() && static_cast<std::uint64_t>(value) >= field.names.size())
      return bad_input("{} = {}: no such {}", field.called(), value, field.what);
    if (field.set(gemm, value)) continue;
    if (field.text_of != nullptr)
      return bad_input("{} = {}: no such {}", field.called(), value, field.what);
    const std::string said = fmt::format("{} = {}", field.called(), value_text(field, value));
    if (field.needs.empty()) return bad_input("{}: must be {}", said, choices(field.help));
    return bad_input("{}: must be {} without {}", said, value_text(field, default_values()[i]),
                     field.needs);
  }
  return gemm;
}

bool is_plain_product(const Gemm& gemm) {
  Gemm plain;
  plain.m = gemm.m, plain.n = gemm.n, plain.k = gemm.k, plain.batch = gemm.batch;
  static_cast<Matrix&>(plain.a) = gemm.a;
  static_cast<Matrix&>(plain.b) = gemm.b;
  static_cast<Matrix&>(plain.d) = gemm.d;
  plain.c = gemm.c;
  plain.accumulator = gemm.accumulator;
  plain.alignment = gemm.alignment;
  plain.b_packed = gemm.b_packed;
  plain.numerics = gemm.numerics;
  return gemm == plain;
}

}  // namespace kiln
