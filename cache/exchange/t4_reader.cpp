#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cache/exchange/t4.h"
#include "cache/exchange/t4_names.h"
#include "cache/keys.h"
#include "cache/printable.h"
#include "tuner/measure/measure.h"

namespace kiln {
namespace {

using T4Json = nlohmann::json;

/// A member that is not what it must be; ends at read_t4().
struct T4Error {
  std::string message;
};

[[noreturn]] void refuse(const std::string& where, const T4Json& value, std::string_view must) {
  std::string said = value.dump(-1, ' ', false, T4Json::error_handler_t::replace);
  constexpr std::size_t kShown = 80;
  if (said.size() > kShown) said = said.substr(0, kShown) + "…";
  throw T4Error{fmt::format("{} = {}: {}", where, said, must)};
}

/// A member of an object; null where it has none.
const T4Json& member(const T4Json& object, const char* name) {
  static const auto& none = *new T4Json;
  const auto at = object.find(name);
  return at == object.end() ? none : *at;
}

double number_of(const T4Json& value, const std::string& where) {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    refuse(where, value, "must be a number");
  return value.get<double>();
}

double positive_of(const T4Json& value, const std::string& where) {
  const double number = number_of(value, where);
  if (!(number > 0)) refuse(where, value, "must be more than 0");
  return number;
}

std::string text_in(const T4Json& value, const std::string& where) {
  if (!value.is_string()) refuse(where, value, "must be text");
  return printable_line(value.get<std::string>());
}

/// A value of a column's kind out of JSON.
template <typename T>
void read_field(const T4Json& value, const std::string& where, T& field) {
  Value typed;
  if (value.is_string()) typed = value.get<std::string>();
  if (value.is_boolean()) typed = static_cast<std::int64_t>(value.get<bool>());
  if (value.is_number_integer()) typed = value.get<std::int64_t>();
  if (std::is_floating_point_v<T> && value.is_number()) typed = value.get<double>();
  if (value.is_number_float()) typed = value.get<double>();
  if (value.is_structured() || value.is_null() || !from_value(typed, field))
    refuse(where, value, "is not a value of this field");
}

double in_nanoseconds(const std::string& unit, const T4Json& value, const std::string& where) {
  // Kernel Tuner's times are milliseconds where no unit stands.
  for (const auto& [name, ns] :
       {std::pair{"ms", 1e6}, {"", 1e6}, {"s", 1e9}, {"us", 1e3}, {"µs", 1e3}, {"ns", 1.0}})
    if (unit == name) return ns;
  refuse(where, value, "must be s, ms, us or ns");
}

class T4Reader {
 public:
  T4Reader(const T4Json& root, const T4Defaults& defaults) : root_(root), defaults_(defaults) {}

  std::vector<StoredMeasurement> rows() {
    if (!root_.is_object()) refuse("the file", root_, "must be an object");
    const T4Json& version = member(root_, "schema_version");
    if (!version.is_null() && !text_in(version, "schema_version").starts_with("1."))
      refuse("schema_version", version, "T4 1.x is read");
    const T4Json& results = member(root_, "results");
    if (!results.is_array()) refuse("results", results, "must be an array");
    std::vector<StoredMeasurement> all;
    for (std::size_t i = 0; i < results.size(); ++i)
      all.push_back(row_of(results[i], fmt::format("results[{}]", i)));
    return all;
  }

 private:
  StoredMeasurement row_of(const T4Json& result, const std::string& where) {
    if (!result.is_object()) refuse(where, result, "must be an object");
    const T4Json& own = member(result, "kiln");
    StoredMeasurement row;
    if (const T4Json& made = member(result, "timestamp"); !made.is_null())
      row.created = text_in(made, where + ".timestamp");
    row.measured.config = config_of(member(result, "configuration"), where + ".configuration");
    row.key = key_of(own, where);
    if (const T4Json& number = member(own, "toolchain"); !number.is_null())
      row.validators = toolchain_of(number, where + ".kiln.toolchain");
    if (own.is_object()) read_own(own, where + ".kiln", row.measured);
    if (const T4Json& share = member(result, "correctness"); own.is_null() && !share.is_null())
      row.measured.verified = number_of(share, where + ".correctness") >= 1;
    row.measured.outcome = outcome_of(result, own, where);
    return row;
  }

  Config config_of(const T4Json& configuration, const std::string& where) {
    if (!configuration.is_object()) refuse(where, configuration, "must be an object");
    const T4Json& family = member(configuration, "family");
    if (!family.is_string())
      refuse(where + ".family", family, "must be a family of kiln's kernels");
    std::string line = family.get<std::string>();
    for (const auto& [key, value] : configuration.items()) {
      if (key == "family") continue;
      if (value.is_structured() || value.is_null())
        refuse(where + "." + key, value, "must be a number or text");
      line += fmt::format(" {}={}", key,
                          value.is_string()    ? value.get<std::string>()
                          : value.is_boolean() ? (value.get<bool>() ? "1" : "0")
                                               : value.dump());
    }
    auto config = parse_config(line);
    if (!config)
      throw T4Error{fmt::format("{}: {}", where, printable_line(config.error().message))};
    return *config;
  }

  BestKey key_of(const T4Json& own, const std::string& where) {
    if (!own.is_null() && !own.is_object()) refuse(where + ".kiln", own, "must be an object");
    BestKey key;
    if (const T4Json& shape = member(own, "shape"); !shape.is_null()) {
      const auto gemm = parse_gemm(text_in(shape, where + ".kiln.shape"));
      if (!gemm) refuse(where + ".kiln.shape", shape, printable_line(gemm.error().message));
      key.gemm = *gemm;
    } else if (defaults_.shape) {
      key.gemm = *defaults_.shape;
    } else {
      throw T4Error{fmt::format("{}: names no problem (kiln.shape): say --shape", where)};
    }
    if (const T4Json& number = member(own, "device"); !number.is_null()) {
      key.device = device_of(number, where + ".kiln.device");
    } else if (defaults_.device) {
      key.device = *defaults_.device;
    } else {
      throw T4Error{fmt::format("{}: names no device (kiln.device): say --device", where)};
    }
    key.policy = kT4Policy;
    if (const T4Json& policy = member(own, "policy"); !policy.is_null())
      key.policy = text_in(policy, where + ".kiln.policy");
    if (const T4Json& determinism = member(own, "determinism"); !determinism.is_null())
      read_field(determinism, where + ".kiln.determinism", key.determinism);
    return key;
  }

  /// Row `number` of a list of the member `kiln` of the file.
  const T4Json& listed(const char* list, const T4Json& number, const std::string& where) {
    const T4Json& rows = member(member(root_, "kiln"), list);
    if (!number.is_number_unsigned() || !rows.is_array() ||
        number.get<std::size_t>() >= rows.size())
      refuse(where, number, fmt::format("kiln.{} has no such row", list));
    return rows[number.get<std::size_t>()];
  }

  DeviceCaps device_of(const T4Json& number, const std::string& where) {
    const T4Json& fields = listed("devices", number, where);
    DeviceCaps device;
    for_each_device_field(device, [&](std::string_view name, auto& field) {
      read_field(member(fields, std::string(name).c_str()), fmt::format("{} ({})", where, name),
                 field);
    });
    if (device.compute_units < 1)
      refuse(where + " (compute_units)", device.compute_units, "must be 1 or more");
    return device;
  }

  Validators toolchain_of(const T4Json& number, const std::string& where) {
    const T4Json& fields = listed("toolchains", number, where);
    Validators validators;
    for_each_validator_field(validators, [&](std::string_view name, auto& field) {
      read_field(member(fields, std::string(name).c_str()), fmt::format("{} ({})", where, name),
                 field);
    });
    return validators;
  }

  void read_own(const T4Json& own, const std::string& where, Measured& measured) {
    if (const T4Json& ns = member(own, "predicted_ns"); !ns.is_null())
      measured.predicted_ns = number_of(ns, where + ".predicted_ns");
    if (const T4Json& round = member(own, "round"); !round.is_null())
      read_field(round, where + ".round", measured.round);
    if (const T4Json& verified = member(own, "verified"); !verified.is_null())
      read_field(verified, where + ".verified", measured.verified);
  }

  std::variant<Timing, Failure> outcome_of(const T4Json& result, const T4Json& own,
                                           const std::string& where) {
    const T4Json& said = member(result, "invalidity");
    const std::string invalidity =
        said.is_null() ? std::string(kT4Correct) : text_in(said, where + ".invalidity");
    if (invalidity == kT4Correct) return timing_in(result, own, where);
    const auto kind = t4_failure(invalidity);
    if (!kind)
      refuse(where + ".invalidity", said,
             "must be correct, compile, runtime, timeout, correctness or constraints");
    Failure failure{*kind, {}};
    if (const T4Json& exact = member(own, "failure"); !exact.is_null())
      read_field(exact, where + ".kiln.failure", failure.kind);
    if (const T4Json& detail = member(own, "detail"); !detail.is_null())
      failure.detail = text_in(detail, where + ".kiln.detail");
    return failure;
  }

  Timing timing_in(const T4Json& result, const T4Json& own, const std::string& where) {
    if (const T4Json& median = member(own, "median_ns"); !median.is_null()) {
      Timing timing{.median_ns = positive_of(median, where + ".kiln.median_ns"),
                    .low_ns = positive_of(member(own, "low_ns"), where + ".kiln.low_ns"),
                    .high_ns = positive_of(member(own, "high_ns"), where + ".kiln.high_ns")};
      read_field(member(own, "samples"), where + ".kiln.samples", timing.samples);
      if (timing.samples < 0) refuse(where + ".kiln.samples", timing.samples, "must be 0 or more");
      if (const T4Json& joules = member(own, "joules"); !joules.is_null())
        timing.joules = positive_of(joules, where + ".kiln.joules");
      if (const T4Json& mhz = member(own, "sm_mhz"); !mhz.is_null()) {
        read_field(mhz, where + ".kiln.sm_mhz", timing.sm_mhz);
        if (timing.sm_mhz < 0) refuse(where + ".kiln.sm_mhz", timing.sm_mhz, "must be 0 or more");
      }
      return timing;
    }
    const T4Json& runtimes = member(member(result, "times"), "runtimes");
    if (runtimes.is_array() && !runtimes.empty()) {
      std::vector<double> samples;
      for (const T4Json& ms : runtimes)
        samples.push_back(positive_of(ms, where + ".times.runtimes") * kT4Millisecond);
      return timing_of(std::move(samples));
    }
    for (const T4Json& one : member(result, "measurements"))
      if (one.is_object() && member(one, "name") == "time") {
        const T4Json& unit = member(one, "unit");
        const double ns = positive_of(member(one, "value"), where + ".measurements (time)") *
                          in_nanoseconds(unit.is_string() ? unit.get<std::string>() : "", unit,
                                         where + ".measurements (time).unit");
        return {.median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 1};
      }
    refuse(where + ".times", member(result, "times"),
           "no runtimes stand there, and no measurement is called time");
  }

  const T4Json& root_;
  const T4Defaults& defaults_;
};

}  // namespace

Result<std::vector<StoredMeasurement>> read_t4(std::string_view text, const std::string& file,
                                               const T4Defaults& defaults) {
  try {
    const T4Json root = T4Json::parse(text);
    return T4Reader(root, defaults).rows();
  } catch (const T4Error& error) {
    return fail(ErrorCode::bad_input, fmt::format("{}: {}", file, error.message));
  } catch (const T4Json::exception& error) {
    return fail(ErrorCode::bad_input, fmt::format("{}: {}", file, printable_line(error.what())));
  }
}

}  // namespace kiln
