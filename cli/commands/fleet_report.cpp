#include "cli/commands/fleet_report.h"

#include <fmt/format.h>

#include "cache/printable.h"
#include "cli/output/report.h"
#include "fleet/merge.h"
#include "fleet/missing.h"

namespace kiln::cli {
namespace {

/// A list is long and a terminal is not: the rest is counted. --json has all of it.
constexpr std::size_t kMostShown = 20;

Json merge_json(const KindMerge& merge) {
  return {{"kind", merge.kind},         {"file", merge.file.string()},
          {"parts", merge.parts},       {"measurements", merge.measurements},
          {"left_out", merge.left_out}, {"seconds", merge.seconds}};
}

void print_merge(const KindMerge& merge) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(merge.file, code);
  fmt::print("{}: {} databases merged, {}, {:.1f} s{}\n", merge.file.string(), merge.parts,
             human_bytes(double(bytes)), merge.seconds,
             merge.conflicts > 0
                 ? fmt::format("; {} shapes with several winners, weighed", merge.conflicts)
                 : "");
  for (const std::string& reason : merge.left_out)
    fmt::print(stderr, "kiln: left out: {}\n", printable_line(reason));
}

Json state_json(const KindState& state) {
  Json missing = Json::array();
  for (const MissingItem& item : state.missing)
    missing.push_back({{"shape", item.item.range ? text(*item.item.range) : text(item.item.gemm)},
                       {"threads", item.item.threads},
                       {"reason", item.reason}});
  return {{"kind", state.kind},
          {"model", state.model},
          {"wanted", state.wanted},
          {"held", state.wanted - state.missing.size()},
          {"missing", missing}};
}

void print_state(const KindState& state) {
  fmt::print("{}: {} of {} shapes tuned{}\n", state.kind, state.wanted - state.missing.size(),
             state.wanted, state.missing.empty() ? "" : "; missing:");
  for (std::size_t i = 0; i < state.missing.size() && i < kMostShown; ++i)
    fmt::print("  {}: {}\n", printable_line(text(state.missing[i].item)),
               printable_line(state.missing[i].reason));
  if (state.missing.size() > kMostShown)
    fmt::print("  and {} more: --json lists them\n", state.missing.size() - kMostShown);
}

Result<Outcome> say_what_is_missing(const Session& session, const FleetFolder& folder) {
  const auto kinds = folder.kinds();
  if (kinds.empty())
    return fail(ErrorCode::not_tuned,
                fmt::format("folder = {}: no shard or rank has begun", folder.path().string()));
  std::size_t missing = 0;
  for (const std::string& kind : kinds) {
    const auto state = state_of(folder, kind);
    if (!state) return tl::unexpected(state.error());
    missing += state->missing.size();
    if (session.json)
      print_json(state_json(*state));
    else
      print_state(*state);
  }
  return missing == 0 ? Outcome::done : Outcome::check_failed;
}

}  // namespace

Result<Outcome> report_fleet(const Session& session, const FleetFolder& folder) {
  const FleetProgress progress = progress_of(folder);
  if (session.json)
    print_json({{"parts",
                 {{"done", progress.done}, {"failed", progress.failed}, {"open", progress.open}}}});
  else
    fmt::print("{}: {} shapes ended, {} of them failed, {} begun and not ended\n",
               folder.path().string(), progress.done, progress.failed, progress.open);
  return say_what_is_missing(session, folder);
}

Result<Outcome> merge_and_report(const Session& session, const FleetFolder& folder) {
  bool whole = true;
  for (const std::string& kind : folder.kinds()) {
    const auto merge = merge_kind(folder, kind);
    if (!merge) return tl::unexpected(merge.error());
    whole = whole && merge->left_out.empty();
    if (session.json)
      print_json(merge_json(*merge));
    else
      print_merge(*merge);
  }
  const auto said = say_what_is_missing(session, folder);
  if (!said) return said;
  return whole ? *said : Outcome::check_failed;
}

}  // namespace kiln::cli
