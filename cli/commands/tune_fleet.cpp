#include "cli/commands/tune_fleet.h"

#include <fmt/format.h>

#include "cache/exchange/recorded_calls.h"
#include "cli/output/report.h"
#include "fleet/device_kind.h"

namespace kiln::cli {
namespace {

/// So many items in a row that fail by the fault of the machine are not the items' fault: it would
/// fail the rest of the list too.
constexpr int kMostEnvironmentFailures = 3;

FleetState state_of(const TuneEnd& end) {
  if (end.interrupted) return FleetState::interrupted;
  if (end.failed) return FleetState::failed;
  return end.already ? FleetState::held : FleetState::tuned;
}

std::string in_brief(const FleetFolder& folder, const std::string& kind, const std::string& part) {
  return fmt::format("{}: {}", kind, folder.database_of(kind, part).string());
}

}  // namespace

Result<std::vector<FleetItem>> fleet_list(const TuneCommand& command) {
  const int threads = command.device.threads;
  if (!command.recorded.empty()) {
    const auto rows = read_calls(command.recorded);
    if (!rows) return tl::unexpected(rows.error());
    auto list = recorded_list(*rows, threads, command.each);
    if (list.empty())
      return fail(ErrorCode::bad_input,
                  fmt::format("recorded calls {}: nothing is recorded{}", command.recorded,
                              threads > 0 ? fmt::format(" on {} threads", threads) : ""));
    return list;
  }
  const auto shapes = command.shapes.collect_ranges();
  if (!shapes) return tl::unexpected(shapes.error());
  std::vector<FleetItem> items;
  for (const Shape& shape : *shapes) items.push_back({shape.gemm, shape.range, threads});
  return ordered(std::move(items));
}

FleetState tune_part_item(PartRun& run, const FleetItem& item, const std::string& label) {
  const std::string line = text(item);
  const Shape shape{item.gemm, line, item.range};
  const double budget = budget_of(run.command, shape);
  const ToDo left =
      run.command.force || run.command.race
          ? ToDo::search
          : to_do(run.part.engine, item, budget, run.command.candidates, run.command.policy);
  if (left == ToDo::nothing) {
    ++run.totals.already;
    run.part.log.add({line, FleetState::held});
    return FleetState::held;
  }
  run.part.log.add({line, FleetState::begun});
  const TuneEnd end =
      tune_item(run.session, run.command, run.part.engine,
                {shape, item.threads, left == ToDo::whole_search}, label, run.totals);
  const FleetState state = state_of(end);
  run.part.log.add({line, state, end.threads, end.seconds, end.reason});
  return state;
}

Result<Outcome> run_shard(const Session& session, const TuneCommand& command) {
  const auto shard = parse_shard(command.shard);
  if (!shard) return tl::unexpected(shard.error());
  auto list = fleet_list(command);
  if (!list) return tl::unexpected(list.error());
  const auto target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  const auto folder =
      FleetFolder::join(command.out, {std::move(*list), shard->of, command.determinism.chosen});
  if (!folder) return tl::unexpected(folder.error());
  const std::string name = FleetFolder::part_name(*shard), kind = kind_name(target->caps);
  auto part = open_part(*folder, {open_options(command.device, command.database),
                                  target->caps,
                                  name,
                                  {user_database(command.database)}});
  if (!part) return tl::unexpected(part.error());
  watch_termination();
  std::vector<FleetItem> items;
  for (std::size_t place = 0; place < part->items.size(); ++place)
    if (shard->holds(place)) items.push_back(part->items[place]);
  PartRun run{*part, session, command};
  std::size_t reached = 0;
  int unlucky = 0;
  for (const FleetItem& item : items) {
    if (interrupted() || unlucky == kMostEnvironmentFailures) break;
    ++reached;
    const int before = run.totals.environment;
    tune_part_item(run, item, fmt::format("[{}/{}] {}", reached, items.size(), text(item)));
    unlucky = run.totals.environment > before ? unlucky + 1 : 0;
  }
  if (!session.json)
    fmt::print("shard {} of {}: {}\n", shard->index, shard->of, in_brief(*folder, kind, name));
  return print_totals(session, run.totals, items.size(), reached);
}

}  // namespace kiln::cli
