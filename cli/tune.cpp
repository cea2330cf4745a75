// `kiln tune`: searches, verifies and stores, shape by shape.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cache/recorded_work.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recorded.h"
#include "cli/report.h"
#include "cli/tune_offline.h"
#include "kiln/engine.hpp"
#include "tuner/measure/measured.h"

namespace kiln::cli {
namespace {

constexpr Manual kTuneManual{
    "tune", "Search the fastest kernel of each shape, verify it, store it in the database",
    "  Generates candidates, compiles them, checks each against a reference, times them in a "
    "worker\n"
    "  process and keeps the winner, for every shape given. --budget is seconds of search for "
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
    "  A shape that fails is reported and the next one is tuned; the exit code is then 1. A winner "
    "that\n"
    "  could not be stored is reported too and is lost; the exit code is then 3.\n"
    "  Share of peak is GFLOP/s over the highest rate that the same threads reached (fp32, fp64 "
    "on\n"
    "  the CPU): in register-only FMAs, probed beside the samples, or in any kernel timed so far.",
    "  kiln tune --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln tune --file shapes.txt --threads 2 --budget 20\n"
    "  kiln tune --layers llama-3-8b:16 --db llama.db    # 16 tokens\n"
    "  kiln tune --device cuda:0 --shape \"bf16 N T 1..8192 6144 4096\"   # any m\n"
    "  kiln tune --recorded calls.kiln --budget 20       # what KILN_RECORD=calls.kiln ./app "
    "called\n"
    "  kiln tune --offline --device gfx950 --shape \"bf16 N T 8192 8192 8192\"\n"
    "  kiln tune --layers bert-base --json | jq -r .config"};

constexpr double kSearchSeconds = 10, kRangeSeconds = 60, kOfflineSeconds = 60;

struct TuneCommand {
  ShapeOptions shapes;
  std::string recorded;
  bool each = false;  // of what was recorded, no range
  DeviceOptions device;
  DatabaseOptions database;
  DeterminismOption determinism;
  std::optional<double> budget;
  std::uint64_t seed = 1;
  bool force = false;
  bool race = false;
  bool offline = false;
};

/// A shape and the threads to tune it for.
struct TuneItem {
  Shape shape;
  int threads = 0;
};

/// 0 for an empty problem, which is nothing to time.
double gflops_of(const TuneReport& report) {
  return report.timing.median_ns > 0 ? report.gemm.flops() / report.timing.median_ns : 0;
}

/// Whether the budget left so few candidates that a larger one is worth naming. The search's
/// correction of its model wants a few dozen.
bool is_brief(const TuneReport& report) {
  constexpr std::int64_t kFewCandidates = 32;
  const auto& searched = report.searched;
  return searched && !searched->whole_space && !searched->interrupted &&
         searched->measured + searched->failed < kFewCandidates;
}

Json report_json(const TuneReport& report, const std::string& device) {
  const double gflops = gflops_of(report), peak = report.peak_flops * 1e-9;
  Json row{{"shape", text(report.gemm)},
           {"device", device},
           {"threads", report.threads},
           {"config", report.config},
           {"median_ns", report.timing.median_ns},
           {"low_ns", report.timing.low_ns},
           {"high_ns", report.timing.high_ns},
           {"samples", report.timing.samples},
           {"gflops", gflops},
           {"share_of_peak", peak > 0 ? Json(gflops / peak) : Json(nullptr)},
           {"peak_gflops", peak > 0 ? Json(peak) : Json(nullptr)},
           {"enumerated", report.enumerated},
           {"compiled", report.compiled},
           {"measured", report.measured},
           {"failed", report.failed},
           {"seconds", report.seconds},
           {"already_tuned", report.already_tuned},
           {"stored", report.stored},
           {"warnings", report.warnings},
           {"searched", to_json(report.searched)},
           {"few_candidates", is_brief(report)}};
  if (!report.conditions.empty()) row["conditions"] = report.conditions;
  return row;
}

void print_report(const TuneReport& report) {
  const double gflops = gflops_of(report), peak = report.peak_flops * 1e-9;
  fmt::print("{}\n  {}\n  {} [{} .. {}], {:.1f} GFLOP/s{}, {}\n", text(report.gemm), report.config,
             human_time(report.timing.median_ns), human_time(report.timing.low_ns),
             human_time(report.timing.high_ns), gflops,
             peak > 0 ? ", " + percent(gflops / peak) + " of peak" : "",
             report.already_tuned ? "tuned before" : fmt::format("{:.1f} s", report.seconds));
  if (report.searched) fmt::print("  searched: {}\n", text(*report.searched));
  if (is_brief(report))
    fmt::print("  few candidates: with a larger --budget the search continues from here\n");
  if (!report.conditions.empty()) fmt::print("  {}\n", report.conditions);
  for (const std::string& warning : report.warnings) fmt::print("  warning: {}\n", warning);
  std::fflush(stdout);
}

TuneOptions options_for(const TuneCommand& command, const TuneItem& item, ProgressReport& bar) {
  TuneOptions options;
  options.budget = std::chrono::duration<double>(
      command.budget.value_or(item.shape.range ? kRangeSeconds : kSearchSeconds));
  options.seed = command.seed;
  options.threads = item.threads;
  options.force = command.force;
  options.race = command.race;
  options.progress = [&bar](const Progress& progress) { bar.update(progress); };
  options.cancelled = interrupted;
  return options;
}

struct TuneTotals {
  int tuned = 0, already = 0, failed = 0;
  int unstored = 0;     // of those tuned: lost when this process ends
  int environment = 0;  // of those that failed: by the fault of the machine, not of the shape
  double seconds = 0;
};

Result<TuneReport> tune_one(Engine& engine, const TuneCommand& command, const TuneItem& item,
                            const std::string& label) {
  ProgressReport bar(label);
  return engine.tune(item.shape.gemm, options_for(command, item, bar));
}

void report_failure(const Session& session, const Shape& shape, const Error& error,
                    TuneTotals& totals) {
  ++totals.failed;
  totals.environment += exit_code(error.code) == kExitEnvironment;
  fmt::print(stderr, "kiln: {}: {}: {}\n", shape.origin, name(error.code), error.message);
  if (session.json)
    print_json({{"shape", text(shape)},
                {"error", {{"code", name(error.code)}, {"message", error.message}}}});
}

void tune_range(const Session& session, const TuneCommand& command, Engine& engine,
                const TuneItem& item, const std::string& label, TuneTotals& totals) {
  Result<RangeReport> report = [&] {
    ProgressReport bar(label);
    return engine.tune(*item.shape.range, options_for(command, item, bar));
  }();
  if (!report) return report_failure(session, item.shape, report.error(), totals);
  ++(report->already_tuned ? totals.already : totals.tuned);
  totals.unstored += !report->stored;
  totals.seconds += report->seconds;
  if (session.json)
    print_json(to_json(*report, command.device.name));
  else
    fmt::print("{}", text(*report));
  std::fflush(stdout);
}

void tune_and_report(const Session& session, const TuneCommand& command, Engine& engine,
                     const TuneItem& item, const std::string& label, TuneTotals& totals) {
  const Shape& shape = item.shape;
  const Result<TuneReport> report = tune_one(engine, command, item, label);
  if (interrupted()) fmt::print(stderr, "{}", interruption_text(text(shape.gemm), report));
  if (!report) return report_failure(session, shape, report.error(), totals);
  ++(report->already_tuned ? totals.already : totals.tuned);
  totals.unstored += !report->stored;
  totals.seconds += report->seconds;
  if (session.json)
    print_json(report_json(*report, command.device.name));
  else
    print_report(*report);
}

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

Outcome print_totals(const Session& session, const TuneTotals& totals, std::size_t items,
                     std::size_t reached) {
  const std::size_t left = items - reached;
  if (session.json)
    print_json({{"summary",
                 {{"tuned", totals.tuned},
                  {"already_tuned", totals.already},
                  {"failed", totals.failed},
                  {"not_stored", totals.unstored},
                  {"not_reached", left},
                  {"interrupted", interrupted()},
                  {"seconds", totals.seconds}}}});
  else
    fmt::print("{} tuned, {} tuned before, {} failed{}{}, {:.1f} s\n", totals.tuned, totals.already,
               totals.failed,
               totals.unstored ? fmt::format(", {} not stored", totals.unstored) : "",
               left ? fmt::format(", {} not reached", left) : "", totals.seconds);
  if (totals.failed == 0 && !interrupted())
    return totals.unstored == 0 ? Outcome::done : Outcome::environment_failed;
  const bool nothing_worked =
      totals.environment > 0 && totals.environment == static_cast<int>(items);
  return nothing_worked ? Outcome::environment_failed : Outcome::check_failed;
}

Result<Outcome> run(const Session& session, const TuneCommand& command) {
  Result<std::vector<Shape>> shapes = std::vector<Shape>{};
  if (command.recorded.empty())
    shapes = command.offline ? command.shapes.collect() : command.shapes.collect_ranges();
  if (!shapes) return tl::unexpected(shapes.error());
  if (command.offline)
    return run_offline(session, {*shapes, command.device, command.database,
                                 command.budget.value_or(kOfflineSeconds)});
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
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
    const std::string label = fmt::format("[{}/{}] {}", reached, items->size(), text(item.shape));
    const auto tune = item.shape.range ? tune_range : tune_and_report;
    tune(session, command, *engine, item, label, totals);
  }
  return print_totals(session, totals, items->size(), reached);
}

}  // namespace

void add_tune(CLI::App& parent, Session& session) {
  auto command = std::make_shared<TuneCommand>();
  CLI::App* app = add_command(parent, session, kTuneManual,
                              [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  CLI::Option* recorded = app->add_option("--recorded", command->recorded,
                                          "Tune the problems of a file that $KILN_RECORD named")
                              ->type_name("FILE");
  for (const char* shapes : {"--shape", "--file", "--layers"})
    recorded->excludes(app->get_option(shapes));
  app->add_flag("--each", command->each,
                "With --recorded: every problem alone, none as part of a range")
      ->needs(recorded);
  command->device.add_to(*app);
  command->database.add_to(*app);
  command->determinism.add_to(*app);
  app->add_option(
         "--budget", command->budget,
         fmt::format(
             "Seconds for each shape: {} of search, {} for a range, or {} of compiling with "
             "--offline",
             kSearchSeconds, kRangeSeconds, kOfflineSeconds))
      ->type_name("SECONDS")
      ->check(seconds_given());
  CLI::Option* seed = app->add_option("--seed", command->seed, "Seed of the search")
                          ->type_name("S")
                          ->capture_default_str();
  CLI::Option* force =
      app->add_flag("--force", command->force, "Tune again even where a valid record exists");
  CLI::Option* race =
      app->add_flag("--race", command->race,
                    "Where a valid record exists, time its kernel beside the library again, "
                    "without a search: after an update of cuBLAS or the BLAS. Not for ranges: with "
                    "--recorded, say --each")
          ->excludes(force);
  app->add_flag("--offline", command->offline,
                "Rank without the device, by a static model; store what is predicted")
      ->excludes(seed, force, race, recorded);
}

}  // namespace kiln::cli
