#include "cache/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/indices.h"
#include "generator/problem/spelling.h"
#include "runtime/backend.h"

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

/// The fields of a problem that its key text has.
void write_key_fields(const Gemm& gemm, KeyWriter& to) {
  for (std::size_t i = 0; i < kGemmFieldCount; ++i) {
    const GemmField& field = kGemmFields[i];
    const std::int64_t value = field.get(gemm);
    if (field.since <= kLastOfEveryKey || value != default_values()[i])
      to(field.name, column_value(field, value));
  }
}

}  // namespace

Value column_value(const GemmField& field, std::int64_t value) {
  if (field.text_of != nullptr) return std::string(field.text_of(value));
  if (field.names.empty()) return value;
  const auto index = static_cast<std::size_t>(value);
  return std::string(index < field.names.size() ? field.names[index] : "?");
}

std::string default_column(const GemmField& field) {
  const Value usual =
      column_value(field, default_values()[static_cast<std::size_t>(&field - kGemmFields.data())]);
  if (const auto* number = std::get_if<std::int64_t>(&usual))
    return fmt::format("{} AS {}", *number, field.name);
  return fmt::format("'{}' AS {}", std::get<std::string>(usual), field.name);
}

std::string column_text(const GemmField& field) {
  const std::int64_t usual =
      default_values()[static_cast<std::size_t>(&field - kGemmFields.data())];
  if (field.text_of != nullptr) return fmt::format("{} TEXT NOT NULL DEFAULT ''", field.name);
  if (field.names.empty()) return fmt::format("{} INTEGER NOT NULL DEFAULT {}", field.name, usual);
  return fmt::format("{} TEXT NOT NULL DEFAULT '{}'", field.name,
                     field.names[static_cast<std::size_t>(usual)]);
}

std::optional<std::int64_t> field_value(const GemmField& field, const Value& value) {
  if (field.number_of != nullptr) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text == nullptr) return std::nullopt;
    const auto number = field.number_of(*text);
    return number ? std::optional(*number) : std::nullopt;
  }
  const auto* const number = std::get_if<std::int64_t>(&value);
  if (field.names.empty()) {
    const bool fits = number != nullptr && (!field.flag || *number == 0 || *number == 1) &&
                      (field.bytes > sizeof(int) || *number == static_cast<int>(*number));
    return fits ? std::optional(*number) : std::nullopt;
  }
  const auto* const text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::nullopt;
  const auto found = std::ranges::find(field.names, *text);
  if (found == field.names.end()) return std::nullopt;
  return found - field.names.begin();
}

std::string key_text(const Gemm& gemm) {
  KeyWriter writer;
  write_key_fields(gemm, writer);
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
  write_key_fields(gemm, writer);
  writer("policy", policy);
  writer("determinism", determinism);
  return writer.take();
}

std::string class_text(const Gemm& gemm) {
  Gemm shapeless = gemm;
  shapeless.m = shapeless.n = shapeless.k = 0;
  shapeless.batch = 1;
  if (auto* const masked = std::get_if<MaskedGroups>(&shapeless.groups)) masked->expected_rows = 0;
  index_every_row(shapeless);
  for (Matrix* x : shapeless.matrices()) x->ld = x->batch_stride = 0;
  return key_text(shapeless);
}

std::vector<BestKey> keys_of_kernels(const BestKey& key) {
  std::vector<BestKey> keys{key};
  const Backend& backend = backend_of(key.device.vendor);
  if (key.policy == backend.policy && !backend.sustained.empty())
    keys.emplace_back(key).policy = backend.sustained;
  return keys;
}

std::optional<BestKey> without_expression(const BestKey& key) {
  if (key.gemm.epilogue.expression.empty()) return std::nullopt;
  BestKey bare = key;
  bare.gemm.epilogue.expression = {};
  // A gate without an expression has a function of its own: any, they cost little beside products.
  if (bare.gemm.epilogue.gate) bare.gemm.epilogue.gate->function = Gate::silu;
  bare.gemm = normalised(bare.gemm);
  return bare;
}

Gemm normalised(const Gemm& given) {
  Gemm gemm = with_joined_lines(given);
  const auto stored = gemm.matrices();
  for (const Operand which : kMatrices) {
    Matrix& x = *stored[static_cast<std::size_t>(which)];
    const Extent e = extent(gemm, which);
    const std::int64_t tight_ld = std::max<std::int64_t>(1, e.length);
    if (x.ld == tight_ld) x.ld = 0;
    const std::int64_t ld = leading_dimension(gemm, which);
    if (gemm.batch == 1 || x.batch_stride == std::max<std::int64_t>(1, ld * e.lines))
      x.batch_stride = 0;
  }
  if (auto* const rows = std::get_if<GroupsOfRows>(&gemm.groups)) {
    if (rows->gather && rows->gather->rows == gemm.m) rows->gather->rows = 0;
    if (rows->scatter && rows->scatter->rows == gemm.m) rows->scatter->rows = 0;
  }
  return gemm;
}

}  // namespace kiln
