// `kiln tune`: searches, verifies and stores, shape by shape.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cache/exchange/recorded_work.h"
#include "cli/commands.h"
#include "cli/commands/recorded.h"
#include "cli/commands/tune_fleet.h"
#include "cli/commands/tune_items.h"
#include "cli/commands/tune_offline.h"
#include "cli/commands/tune_ranks.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "engine/peak.h"
#include "kiln/engine.hpp"

namespace kiln::cli {
namespace {

constexpr Manual kTuneManual{
    "tune", "Search the fastest kernel of each shape, verify it, store it in the database",
    "  Generates candidates, compiles them, checks each against a reference, times them in a "
    "worker\n"
    "  process and keeps the winner, for every shape given. --budget is the time of search for "
    "each\n"
    "  shape. A shape for which that budget (or its whole space) was spent before is skipped; one\n"
    "  with a part of it spent is searched for the rest; --force starts again. Records of shipped\n"
    "  databases count as complete. Results are stored as they are measured: after Ctrl-C (exit "
    "code\n"
    "  130) the fastest verified so far is the record, and the same command continues from there.\n"
    "  A shape with a range, \"bf16 N T 1..8192 6144 4096\", is tuned as one: a few kernels, and a "
    "table\n"
    "  from size to kernel that serves every size of the range.\n"
    "  --offline ranks for an AMD GPU that this machine lacks (--device gfx942, mi325x, gfx950, "
    "…): "
    "candidates\n"
    "  are compiled, a static model of the binaries orders them, and the records are marked "
    "predicted:\n"
    "  no call uses them, a search on the device tries them first.\n"
    "  --recorded tunes what programs called (see kiln help report), each problem for the number "
    "of\n"
    "  threads of its calls: untuned ones first, by the time that their calls take in all. Four "
    "and "
    "more\n"
    "  that differ in m alone are tuned as one range, unless --each: a program that runs under a "
    "hook\n"
    "  (docs/hooks.md) needs a race of each shape beside the library.\n"
    "  --shard I/N tunes the I-th of N parts of the list into a database of its own in --out, "
    "which\n"
    "  all N processes share: kiln help fleet says how they are started, followed and merged. The\n"
    "  same command again tunes what is missing.\n"
    "  A shape that fails is reported and the next one is tuned; the exit code is then 1. A winner "
    "that\n"
    "  could not be stored is reported too and is lost; the exit code is then 3.\n"
    "  Share of peak is GFLOP/s over the highest rate that the same threads of a CPU reached in "
    "the\n"
    "  type: in multiplications in registers (or AMX tiles) alone, probed beside the samples, or "
    "in\n"
    "  any kernel timed so far. Share of roof is the least time that they need over the kernel's: "
    "its\n"
    "  operations at that rate, or its bytes at what they read a second, which the first run on a\n"
    "  machine measures and stores (0.5 to 2 s, up to 1 GiB).",
    "  kiln tune --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln tune --file shapes.txt --threads 2 --budget 20\n"
    "  kiln tune --layers llama-3-8b:16 --db llama.db    # 16 tokens\n"
    "  kiln tune --device cuda:0 --shape \"bf16 N T 1..8192 6144 4096\"   # any m\n"
    "  kiln tune --recorded calls.kiln --budget 20       # what KILN_RECORD=calls.kiln ./app "
    "called\n"
    "  kiln tune --offline --device gfx950 --shape \"bf16 N T 8192 8192 8192\"\n"
    "  kiln tune --layers bert-base --json | jq -r .config"};

/// What was recorded: untuned problems first, then by the time of their calls.
Result<std::vector<TuneItem>> recorded_items(const TuneCommand& command, const Target& target,
                                             Engine& engine) {
  auto found = recorded_shapes(command.recorded, target, command.device.threads, engine);
  if (!found) return tl::unexpected(found.error());
  std::vector<RecordedWork> work;
  for (const RecordedShape& shape : found->shapes)
    work.push_back({shape.recorded.gemm, shape.recorded.threads, shape.total_ns(), shape.tuned()});
  std::vector<TuneItem> items;
  for (const WorkItem& item : work_items(work, command.each))
    items.push_back({{item.gemm, command.recorded, item.range}, item.threads});
  return items;
}

Result<Outcome> run(const Session& session, const TuneCommand& command) {
  if (!command.shard.empty()) return run_shard(session, command);
  if (command.mpi) return run_ranks(session, command);
  if (!command.out.empty())
    return fail(ErrorCode::bad_input,
                fmt::format("out = {}: must come with --shard or --mpi", command.out));
  Result<std::vector<Shape>> shapes = std::vector<Shape>{};
  if (command.recorded.empty())
    shapes = command.offline ? command.shapes.collect() : command.shapes.collect_ranges();
  if (!shapes) return tl::unexpected(shapes.error());
  if (command.offline)
    return run_offline(session, {*shapes, command.device, command.database,
                                 command.budget.value_or(kOfflineSeconds)});
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  if (Status ok = check_policy(command.policy, command.device.name); !ok)
    return tl::unexpected(ok.error());
  Result<Engine> engine =
      Engine::open(open_options(command.device, command.database, command.determinism));
  if (!engine) return tl::unexpected(engine.error());
  Result<std::vector<TuneItem>> items = std::vector<TuneItem>{};
  for (const Shape& shape : *shapes) items->push_back({shape, command.device.threads});
  if (!command.recorded.empty()) items = recorded_items(command, *target, *engine);
  if (!items) return tl::unexpected(items.error());
  TuneTotals totals;
  std::size_t reached = 0;
  for (const TuneItem& item : *items) {
    if (interrupted()) break;
    ++reached;
    // What it cannot measure or keep is missing in reports, and nothing else.
    (void)measure_limits_once(*engine, item.threads);
    const std::string label = fmt::format("[{}/{}] {}", reached, items->size(), text(item.shape));
    tune_item(session, command, *engine, item, label, totals);
  }
  return print_totals(session, totals, items->size(), reached);
}

}  // namespace

void add_tune(CLI::App& parent, Session& session) {
  auto command = std::make_shared<TuneCommand>();
  CLI::App* app = add_command(parent, session, kTuneManual,
                              [&session, command] { return run(session, *command); });
  const auto [recorded, seed] = add_list_options(*app, *command);
  CLI::Option* force =
      app->add_flag("--force", command->force, "Tune again even where a valid record exists");
  CLI::Option* race =
      app->add_flag("--race", command->race,
                    "Where a valid record exists, time its kernel beside the library again, "
                    "without a search: after an update of cuBLAS or the BLAS. Not for ranges: with "
                    "--recorded, say --each")
          ->excludes(force);
  CLI::Option* out =
      app->add_option("--out", command->out,
                      "With --shard and --mpi: the folder that all processes of the list share")
          ->type_name("FOLDER");
  CLI::Option* shard =
      app->add_option("--shard", command->shard,
                      "Tune the I-th of N parts of the list, into a database of its own in --out; "
                      "what that, the folder's merged file or --db holds is not tuned again")
          ->type_name("I/N")
          ->needs(out);
  CLI::Option* mpi =
      app->add_flag(
             "--mpi", command->mpi,
             "Started by mpirun or srun: rank 0 hands out the list, longest first, each rank "
             "tunes into a database of its own in --out. --device cuda:local is the GPU of "
             "the rank's number on its machine")
          ->needs(out)
          ->excludes(shard);
  app->add_flag("--offline", command->offline,
                "Rank without the device, by a static model; store what is predicted")
      ->excludes(seed, force, race, recorded, shard, mpi, app->get_option("--policy"),
                 app->get_option("--sustained"));
}

}  // namespace kiln::cli
