#include <nlohmann/json.hpp>
#include <sstream>

#include "cache/exchange/t4.h"
#include "cache/exchange/t4_names.h"
#include "cache/keys.h"
#include "generator/problem/timed_flops.h"

namespace kiln {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson value_json(const Value& value) {
  return std::visit([](const auto& v) { return OrderedJson(v); }, value);
}

/// "family key=value …" as an object: numbers as numbers.
OrderedJson configuration_of(const Config& config) {
  std::istringstream words(text(config));
  std::string word;
  words >> word;
  OrderedJson object{{"family", word}};
  while (words >> word) {
    const auto equals = word.find('=');
    const std::string value = word.substr(equals + 1);
    const bool number = value.find_first_not_of("0123456789") == std::string::npos;
    object[word.substr(0, equals)] = number ? OrderedJson(std::stoll(value)) : OrderedJson(value);
  }
  return object;
}

OrderedJson measurement(const char* name, double value, const char* unit) {
  return {{"name", name}, {"value", value}, {"unit", unit}};
}

/// Every field that the visitor names.
template <typename Visit>
OrderedJson fields_of(Visit visit) {
  OrderedJson object = OrderedJson::object();
  visit([&](std::string_view name, const auto& field) {
    object[std::string(name)] = value_json(to_value(field));
  });
  return object;
}

std::string line_of(const OrderedJson& object) {
  return object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson numbered(const std::map<std::size_t, OrderedJson>& rows) {
  OrderedJson array = OrderedJson::array();
  for (const auto& [number, row] : rows) array.push_back(row);
  return array;
}

}  // namespace

T4Writer::T4Writer(std::ostream& out) : out_(out) {
  out_ << "{\"schema_version\": \"" << kT4Version << "\",\n\"results\": [";
}

void T4Writer::add(const StoredMeasurement& row) {
  const Measured& measured = row.measured;
  OrderedJson own{
      {"shape", text(row.key.gemm)},
      {"device", devices_.try_emplace(row.key.device, devices_.size()).first->second},
      {"toolchain", toolchains_.try_emplace(row.validators, toolchains_.size()).first->second},
      {"policy", row.key.policy},
      {"determinism", value_json(to_value(row.key.determinism))},
      {"predicted_ns", measured.predicted_ns},
      {"round", value_json(to_value(measured.round))},
      {"verified", measured.verified},
      {"winner", row.winner}};
  OrderedJson runtimes = OrderedJson::array(), measurements = OrderedJson::array();
  std::string_view invalidity = kT4Correct;
  if (measured.ok()) {
    const Timing& timing = measured.timing();
    runtimes.push_back(timing.median_ns / kT4Millisecond);
    measurements = {
        measurement("time", timing.median_ns / kT4Millisecond, "ms"),
        measurement("GFLOP/s", timed_flops(row.key.gemm) / timing.median_ns, "GFLOP/s")};
    own.update({{"median_ns", timing.median_ns},
                {"low_ns", timing.low_ns},
                {"high_ns", timing.high_ns},
                {"samples", timing.samples}});
    if (timing.joules > 0) {
      own["joules"] = timing.joules;
      measurements.push_back(measurement("energy", timing.joules, "J"));
    }
    if (timing.sm_mhz > 0) own["sm_mhz"] = timing.sm_mhz;
  } else {
    invalidity = t4_invalidity(measured.failure().kind);
    own.update({{"failure", value_json(to_value(measured.failure().kind))},
                {"detail", measured.failure().detail}});
  }
  const OrderedJson result{
      {"timestamp", row.created},     {"configuration", configuration_of(measured.config)},
      {"objectives", {"time"}},       {"times", {{"runtimes", runtimes}}},
      {"invalidity", invalidity},     {"correctness", measured.verified ? 1 : 0},
      {"measurements", measurements}, {"kiln", own}};
  out_ << (first_ ? "\n" : ",\n") << line_of(result);
  first_ = false;
}

void T4Writer::finish() {
  std::map<std::size_t, OrderedJson> devices, toolchains;
  for (const auto& row : devices_)
    devices[row.second] = fields_of([&](auto&& add) { for_each_device_field(row.first, add); });
  for (const auto& row : toolchains_)
    toolchains[row.second] =
        fields_of([&](auto&& add) { for_each_validator_field(row.first, add); });
  const OrderedJson own{{"devices", numbered(devices)}, {"toolchains", numbered(toolchains)}};
  out_ << "\n],\n\"kiln\": " << line_of(own) << "}\n";
}

}  // namespace kiln
