#include "cli/commands/tune_ranks.h"

#include <fmt/format.h>

#include "cache/printable.h"
#include "cli/commands/fleet_report.h"
#include "cli/commands/tune_fleet.h"
#include "fleet/device_kind.h"
#include "fleet/merge.h"
#include "fleet/ranks.h"
#include "runtime/backend.h"
#include "tuner/measure/device_lock.h"

namespace kiln::cli {
namespace {

constexpr std::string_view kLocal = ":local";
/// A rank waits for its turn on a device as long as others tune on it.
constexpr std::chrono::duration<double> kPatience = std::chrono::hours(24 * 30);

/// "hip:local" as the GPU of this rank's number on its machine, counted over those that the process
/// sees: one where the scheduler gave it one, all of them where mpirun gave it all.
Result<DeviceOptions> device_of(DeviceOptions asked, int local_rank) {
  if (!asked.name.ends_with(kLocal)) return asked;
  const std::string vendor = asked.name.substr(0, asked.name.size() - kLocal.size());
  int here = 0;
  for (const std::string& gpu : gpus_here()) here += gpu.starts_with(vendor + ':');
  if (here == 0)
    return fail(ErrorCode::device,
                fmt::format("device = {}: no GPU of this kind is here", asked.name));
  asked.name = fmt::format("{}:{}", vendor, local_rank % here);
  return asked;
}

/// What a rank brings along; empty kind: it cannot tune.
struct Rank {
  TuneCommand command;  // with its own device
  Target target;
  FleetFolder folder;
  std::string kind;
  std::size_t places = 0;
};

Result<Rank> prepare_rank(const TuneCommand& command, const Mpi& mpi) {
  auto list = fleet_list(command);
  if (!list) return tl::unexpected(list.error());
  TuneCommand own = command;
  auto device = device_of(command.device, mpi.local_rank());
  if (!device) return tl::unexpected(device.error());
  own.device = *device;
  auto target = resolve_engine_device(own.device);
  if (!target) return tl::unexpected(target.error());
  auto folder = FleetFolder::join(command.out, {std::move(*list), 0, command.determinism.chosen});
  if (!folder) return tl::unexpected(folder.error());
  const std::size_t places = of_device(folder->plan().list, target->caps).size();
  const std::string kind = kind_name(target->caps);
  return Rank{std::move(own), std::move(*target), std::move(*folder), kind, places};
}

/// Of rank 0, before any rank opens its database: what earlier runs tuned is known to all.
bool merge_what_is_there(const FleetFolder& folder, const std::set<std::string>& kinds,
                         Status& failed) {
  for (const std::string& kind : kinds) {
    if (folder.databases(kind).empty()) continue;
    const auto merged = merge_kind(folder, kind);
    if (!merged) failed = tl::unexpected(merged.error());
    if (merged)
      for (const std::string& reason : merged->left_out)
        fmt::print(stderr, "kiln: left out: {}\n", printable_line(reason));
  }
  return failed.has_value();
}

void tune_place(PartRun& run, std::size_t place, int rank) {
  const FleetItem& item = run.part.items.at(place);
  tune_part_item(run, item, fmt::format("[rank {}] {}", rank, text(item)));
}

/// Tunes what rank 0 hands out. Waiting for a device that ranks share comes before asking, so that
/// nobody holds a place meanwhile.
Status tune_places(const Session& session, const Rank& rank, const Mpi& mpi, Ranks& ranks,
                   TuneTotals& totals) {
  auto part = open_part(rank.folder, {open_options(rank.command.device, rank.command.database),
                                      rank.target.caps,
                                      FleetFolder::part_name(mpi.rank()),
                                      {user_database(rank.command.database)}});
  if (!part) {
    ranks.leave(RankAsks::give_back);
    return tl::unexpected(part.error());
  }
  PartRun run{*part, session, rank.command};
  const std::string queue =
      fmt::format("queue-{}", lock_name(rank.target.caps.vendor, rank.target.index));
  const auto leave = [&](RankAsks why) {
    if (interrupted() && mpi.rank() == 0) ranks.stop();
    ranks.leave(why);
    totals = run.totals;
    return Status{};
  };
  for (;;) {
    std::optional<std::size_t> place;
    {
      const auto turn = DeviceLock::acquire(queue, kPatience, {}, interrupted);
      if (!turn && !interrupted()) {
        leave(RankAsks::give_back);
        return tl::unexpected(turn.error());
      }
      if (turn && !interrupted()) place = ranks.next();
      if (place) tune_place(run, *place, mpi.rank());
    }
    if (interrupted()) return leave(RankAsks::leave);
    if (run.totals.environment > 0) return leave(RankAsks::give_back);
    if (place || ranks.more()) continue;
    totals = run.totals;
    return {};
  }
}

Outcome outcome_of(const TuneTotals& totals) {
  if (totals.environment > 0 || totals.unstored > 0) return Outcome::environment_failed;
  return totals.failed > 0 || interrupted() ? Outcome::check_failed : Outcome::done;
}

}  // namespace

Result<Outcome> run_ranks(const Session& session, const TuneCommand& command) {
  const auto mpi = Mpi::start();
  if (!mpi) return tl::unexpected(mpi.error());
  watch_termination();
  const auto rank = prepare_rank(command, **mpi);
  TuneTotals totals;
  Status merged, tuned;
  bool went_on = false;
  {
    Ranks ranks(**mpi);
    went_on = ranks.join(rank ? rank->kind : "", rank ? rank->places : 0,
                         [&](const std::set<std::string>& kinds) {
                           return !rank || merge_what_is_there(rank->folder, kinds, merged);
                         });
    if (went_on && rank) tuned = tune_places(session, *rank, **mpi, ranks, totals);
    if (went_on && !rank) ranks.leave(RankAsks::give_back);
  }
  if (!rank) return tl::unexpected(rank.error());
  if (!merged) return tl::unexpected(merged.error());
  if (!tuned) return tl::unexpected(tuned.error());
  if ((*mpi)->rank() != 0 || !went_on) return outcome_of(totals);
  if (!session.json)
    fmt::print("{} ranks ({}); rank 0: {} tuned, {} failed, {:.1f} s\n", (*mpi)->ranks(),
               (*mpi)->library(), totals.tuned, totals.failed, totals.seconds);
  const auto said = merge_and_report(session, rank->folder);
  if (!said || *said != Outcome::done) return said;
  return outcome_of(totals);
}

}  // namespace kiln::cli
