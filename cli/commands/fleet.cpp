// `kiln fleet`: many processes that tune one list.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/commands/fleet_report.h"
#include "cli/commands/fleet_slurm.h"

namespace kiln::cli {
namespace {

constexpr Manual kStatus{
    "status", "Say what a fleet's folder holds and what its merged files lack",
    "  Counts what shards or ranks have ended so far, and lists for each kind of device the "
    "shapes\n"
    "  that its merged file does not hold, with the reason. Exit code 1: something is missing.",
    "  kiln fleet status fleet/"};

constexpr Manual kMerge{"merge",
                        "Make one database for each kind of device from those of shards or ranks",
                        "  FOLDER/<kind>.kiln is made anew and takes the old file's place when it "
                        "is whole. Devices of\n"
                        "  different fingerprints are never mixed. A database that cannot be read, "
                        "is of another version\n"
                        "  of kiln or of another device is left out, named, and stays as it is. "
                        "Exit code 1: something\n"
                        "  is missing or was left out.",
                        "  kiln fleet merge fleet/\n"
                        "  kiln db import fleet/amd-instinct-mi300x-1c2a5e77.kiln"};

struct FleetCommand {
  std::string folder;
};

Result<Outcome> status(const Session& session, const FleetCommand& command) {
  const auto folder = FleetFolder::open(command.folder);
  if (!folder) return tl::unexpected(folder.error());
  return report_fleet(session, *folder);
}

Result<Outcome> merge(const Session& session, const FleetCommand& command) {
  const auto folder = FleetFolder::open(command.folder);
  if (!folder) return tl::unexpected(folder.error());
  return merge_and_report(session, *folder);
}

}  // namespace

void add_fleet(CLI::App& parent, Session& session) {
  CLI::App* fleet =
      parent.add_subcommand("fleet", "Tune one list on many machines: follow, merge, what is left");
  fleet->require_subcommand(1);
  fleet->footer(
      "\nExamples:\n  kiln tune --file shapes.txt --shard 3/8 --out fleet/\n"
      "  kiln fleet merge fleet/\n  kiln help fleet merge");
  auto command = std::make_shared<FleetCommand>();
  using Run = Result<Outcome> (*)(const Session&, const FleetCommand&);
  const auto add = [&](const Manual& manual, Run run) {
    CLI::App* app = add_command(*fleet, session, manual,
                                [&session, command, run] { return run(session, *command); });
    app->add_option("folder", command->folder, "The folder that --out named")
        ->required()
        ->type_name("FOLDER");
  };
  add_fleet_slurm(*fleet, session);
  add(kStatus, status);
  add(kMerge, merge);
}

}  // namespace kiln::cli
