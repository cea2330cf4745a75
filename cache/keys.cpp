#include "cache/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/spelling.h"

namespace kiln {
namespace {

/// Appends "name=value;". Strings are escaped so that no value can imitate another field.
class KeyWriter {
 public:
  template <typename T>
  void operator()(std::string_view name, const T& field) {
    const Value value = to_value(field);
    text_ += name;
    text_ += '=';
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      text_ += fmt::to_string(*number);
    } else if (const auto* real = std::get_if<double>(&value)) {
      text_ += fmt::format("{}", *real);
    } else {
      append_escaped(std::get<std::string>(value));
    }
    text_ += ';';
  }
  std::string take() { return std::move(text_); }

 private:
  void append_escaped(std::string_view value) {
    for (const char c : value) {
      if (c == '\\' || c == ';') text_ += '\\';
      text_ += c;
    }
  }
  std::string text_;
};

/// Calls `f(name, field)` for the fields of a problem that its key text has.
template <typename F>
void for_each_key_field(const Gemm& gemm, F&& f) {
  static const Gemm plain;
  const auto defaults = gemm_fields(plain);
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>, const auto& fields) {
    const auto visit = [&](std::size_t index, std::string_view name, const auto& field,
                           const auto& usual) {
      if (index < kGemmFieldsInEveryKey || field != usual) f(name, field);
    };
    (visit(kIndex, kGemmFieldNames[kIndex], std::get<kIndex>(fields), std::get<kIndex>(defaults)),
     ...);
  }
  (std::make_index_sequence<kGemmFieldCount>{}, gemm_fields(gemm));
}

}  // namespace

std::string key_text(const Gemm& gemm) {
  KeyWriter writer;
  for_each_key_field(gemm, writer);
  return writer.take();
}

std::string key_text(const DeviceCaps& device) {
  KeyWriter writer;
  for_each_device_field(device, writer);
  return writer.take();
}

std::string key_text(const Validators& validators) {
  KeyWriter writer;
  for_each_validator_field(validators, writer);
  return writer.take();
}

std::string key_text(const BestKey& key) {
  const auto& [device, gemm, policy, determinism] = key;
  KeyWriter writer;
  for_each_device_field(device, writer);
  for_each_key_field(gemm, writer);
  writer("policy", policy);
  writer("determinism", determinism);
  return writer.take();
}

std::string class_text(const Gemm& gemm) {
  Gemm shapeless = gemm;
  shapeless.m = shapeless.n = shapeless.k = 0;
  shapeless.batch = 1;
  shapeless.expected_rows = 0;
  shapeless.rows_of_a = shapeless.rows_of_d = 0;
  for (Matrix* x : {&shapeless.a, &shapeless.b, &shapeless.c, &shapeless.d})
    x->ld = x->batch_stride = 0;
  return key_text(shapeless);
}

Gemm normalised(const Gemm& given) {
  Gemm gemm = with_joined_lines(given);
  Matrix* const stored[] = {&gemm.a, &gemm.b, &gemm.c, &gemm.d};
  for (const Operand which : kMatrices) {
    Matrix& x = *stored[static_cast<std::size_t>(which)];
    const Extent e = extent(gemm, which);
    const std::int64_t tight_ld = std::max<std::int64_t>(1, e.length);
    if (x.ld == tight_ld) x.ld = 0;
    const std::int64_t ld = leading_dimension(gemm, which);
    if (gemm.batch == 1 || x.batch_stride == std::max<std::int64_t>(1, ld * e.lines))
      x.batch_stride = 0;
  }
  for (std::int64_t* const rows : {&gemm.rows_of_a, &gemm.rows_of_d})
    if (*rows == gemm.m) *rows = 0;
  return gemm;
}

}  // namespace kiln
