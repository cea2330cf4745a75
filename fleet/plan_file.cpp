#include "fleet/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/suites.h"
#include "cache/keys.h"
#include "cache/printable.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kVersionField = "kiln_fleet";

std::string determinism_name(Determinism determinism) {
  return std::get<std::string>(to_value(determinism));
}

std::string shards_text(int shards) {
  return shards == 0 ? "of an MPI job" : fmt::format("of {} shards", shards);
}

/// Throws what nlohmann::json throws.
Result<FleetItem> item_of(const Json& row) {
  const auto shape = parse_shape(row.at("shape").get<std::string>());
  if (!shape) return tl::unexpected(shape.error());
  FleetItem item{shape->gemm, shape->range};
  item.threads = row.value("threads", 0);
  item.device = row.value("device", "");
  return item;
}

}  // namespace

std::string plan_text(const FleetPlan& plan) {
  Json items = Json::array();
  for (const FleetItem& item : plan.list) {
    Json row{{"shape", item.range ? text(*item.range) : text(item.gemm)}};
    if (item.threads > 0) row["threads"] = item.threads;
    if (!item.device.empty()) row["device"] = item.device;
    items.push_back(std::move(row));
  }
  // A line for each item, so that tools which compare lines show what differs.
  std::string lines;
  for (const Json& row : items)
    lines += fmt::format("{}\n  {}", lines.empty() ? "" : ",",
                         row.dump(-1, ' ', false, Json::error_handler_t::replace));
  return fmt::format("{{\"{}\": {}, \"shards\": {}, \"determinism\": \"{}\", \"items\": [{}\n]}}\n",
                     kVersionField, kVersion, plan.shards, determinism_name(plan.determinism),
                     lines);
}

Result<FleetPlan> parse_plan(const std::string& text, const std::filesystem::path& file) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorCode::database, fmt::format("{}: {}", file.string(), printable_line(why)));
  };
  try {
    const Json json = Json::parse(text);
    const int version = json.at(kVersionField).get<int>();
    if (version != kVersion)
      return wrong(
          fmt::format("{} = {}: this kiln reads version {}", kVersionField, version, kVersion));
    FleetPlan plan;
    plan.shards = json.at("shards").get<int>();
    if (plan.shards < 0 || plan.shards > kMostShards)
      return wrong(fmt::format("shards = {}: must be 0 to {}", plan.shards, kMostShards));
    const auto name = json.at("determinism").get<std::string>();
    if (!from_value(Value(name), plan.determinism))
      return wrong(fmt::format("determinism = \"{}\": there is no such class", name));
    for (const Json& row : json.at("items")) {
      auto item = item_of(row);
      if (!item) return wrong("items: " + item.error().message);
      plan.list.push_back(std::move(*item));
    }
    return plan;
  } catch (const Json::exception& e) {
    return wrong(fmt::format("not a fleet's plan: {}", e.what()));
  }
}

std::string difference(const FleetPlan& asked, const FleetPlan& there) {
  if (asked.shards != there.shards)
    return fmt::format("shards = {}: this folder is one {}", asked.shards,
                       shards_text(there.shards));
  if (asked.determinism != there.determinism)
    return fmt::format("determinism = {}: this folder's is {}", determinism_name(asked.determinism),
                       determinism_name(there.determinism));
  const auto [mine, other] = std::ranges::mismatch(asked.list, there.list);
  if (mine == asked.list.end() && other == there.list.end()) return {};
  const auto shown = [](const auto& at, const auto& list) {
    return at == list.end() ? std::string("nothing") : fmt::format("\"{}\"", text(*at));
  };
  return fmt::format(
      "list = {} shapes: this folder belongs to another list, of {} shapes; at place {} it has {} "
      "and the list given has {}",
      asked.list.size(), there.list.size(), mine - asked.list.begin() + 1, shown(other, there.list),
      shown(mine, asked.list));
}

}  // namespace kiln
