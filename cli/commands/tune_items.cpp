#include "cli/commands/tune_items.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/printable.h"
#include "cli/output/report.h"
#include "engine/peak.h"
#include "generator/problem/timed_flops.h"

namespace kiln::cli {
namespace {

/// 0 for an empty problem, which is nothing to time.
double gflops_of(const TuneReport& report) {
  return report.timing.median_ns > 0 ? timed_flops(report.gemm) / report.timing.median_ns : 0;
}

/// Whether the budget left so few candidates that a larger one is worth naming. The search's
/// correction of its model wants a few dozen.
bool is_brief(const TuneReport& report) {
  constexpr std::int64_t kFewCandidates = 32;
  const auto& searched = report.searched;
  return searched && !searched->whole_space && !searched->interrupted &&
         searched->measured + searched->failed < kFewCandidates;
}

Json report_json(const TuneReport& report, const std::optional<StoredRoofline>& roof,
                 const std::string& device) {
  const double gflops = gflops_of(report), peak = report.peak_flops * 1e-9;
  Json row{{"shape", text(report.gemm)},
           {"device", device},
           {"threads", report.threads},
           {"config", report.config},
           {"policy", report.policy},
           {"median_ns", report.timing.median_ns},
           {"low_ns", report.timing.low_ns},
           {"high_ns", report.timing.high_ns},
           {"samples", report.timing.samples},
           {"gflops", gflops},
           {"share_of_peak", peak > 0 ? Json(gflops / peak) : Json(nullptr)},
           {"peak_gflops", peak > 0 ? Json(peak) : Json(nullptr)},
           {"share_of_roof", share_json(roof, report.timing.median_ns)},
           {"enumerated", report.enumerated},
           {"compiled", report.compiled},
           {"measured", report.measured},
           {"failed", report.failed},
           {"seconds", report.seconds},
           {"already_tuned", report.already_tuned},
           {"stored", report.stored},
           {"disturbed", report.disturbed},
           {"warnings", report.warnings},
           {"searched", to_json(report.searched)},
           {"few_candidates", is_brief(report)}};
  add_load(row, report.timing);
  if (!report.conditions.empty()) row["conditions"] = report.conditions;
  return row;
}

void print_report(const TuneReport& report, const std::optional<StoredRoofline>& roof) {
  const double gflops = gflops_of(report), peak = report.peak_flops * 1e-9;
  fmt::print("{}\n  {}\n  {} [{} .. {}], {:.1f} GFLOP/s{}{}, {}\n", text(report.gemm),
             report.config, human_time(report.timing.median_ns), human_time(report.timing.low_ns),
             human_time(report.timing.high_ns), gflops,
             peak > 0 ? fmt::format(", {} of peak", percent(gflops / peak)) : "",
             roof && report.timing.median_ns > 0
                 ? fmt::format(", {} of roof", percent(roof->roof.ns / report.timing.median_ns))
                 : "",
             report.already_tuned ? "tuned before" : fmt::format("{:.1f} s", report.seconds));
  if (const std::string load = load_text(report.timing); !load.empty())
    fmt::print("  under load: {}\n", load);
  if (report.searched) fmt::print("  searched: {}\n", text(*report.searched));
  if (is_brief(report))
    fmt::print("  few candidates: with a larger --budget the search continues from here\n");
  if (!report.conditions.empty()) fmt::print("  {}\n", report.conditions);
  for (const std::string& warning : report.warnings) fmt::print("  warning: {}\n", warning);
  std::fflush(stdout);
}

TuneOptions options_for(const TuneCommand& command, const TuneItem& item, ProgressReport& bar) {
  TuneOptions options;
  options.budget = std::chrono::duration<double>(budget_of(command, item.shape));
  options.candidates = command.candidates;
  options.seed = command.seed;
  options.threads = item.threads;
  options.force = command.force || item.force;
  options.race = command.race;
  options.policy = command.policy;
  options.progress = [&bar](const Progress& progress) { bar.update(progress); };
  options.cancelled = interrupted;
  return options;
}

Result<TuneReport> tune_one(Engine& engine, const TuneCommand& command, const TuneItem& item,
                            const std::string& label) {
  ProgressReport bar(label);
  return engine.tune(item.shape.gemm, options_for(command, item, bar));
}

TuneEnd report_failure(const Session& session, const Shape& shape, const Error& error,
                       TuneTotals& totals) {
  ++totals.failed;
  totals.environment += exit_code(error.code) == kExitEnvironment;
  fmt::print(stderr, "kiln: {}: {}: {}\n", shape.origin, name(error.code),
             printable(error.message));
  if (session.json)
    print_json({{"shape", text(shape)},
                {"error", {{"code", name(error.code)}, {"message", error.message}}}});
  return {.failed = true,
          .interrupted = interrupted(),
          .environment = exit_code(error.code) == kExitEnvironment,
          .reason = error.message};
}

TuneEnd tune_range(const Session& session, const TuneCommand& command, Engine& engine,
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
  return {.already = report->already_tuned,
          .interrupted = interrupted(),
          .threads = report->threads,
          .seconds = report->seconds};
}

TuneEnd tune_and_report(const Session& session, const TuneCommand& command, Engine& engine,
                        const TuneItem& item, const std::string& label, TuneTotals& totals) {
  const Shape& shape = item.shape;
  const Result<TuneReport> report = tune_one(engine, command, item, label);
  if (interrupted()) fmt::print(stderr, "{}", interruption_text(text(shape.gemm), report));
  if (!report) return report_failure(session, shape, report.error(), totals);
  ++(report->already_tuned ? totals.already : totals.tuned);
  totals.unstored += !report->stored;
  totals.seconds += report->seconds;
  const auto roof = stored_roofline(engine, report->gemm, report->threads);
  if (session.json)
    print_json(report_json(*report, roof, command.device.name));
  else
    print_report(*report, roof);
  const bool cut = report->searched && report->searched->interrupted;
  return {.already = report->already_tuned,
          .interrupted = interrupted() && cut,
          .threads = report->threads,
          .seconds = report->seconds};
}

}  // namespace

ListOptions add_list_options(CLI::App& app, TuneCommand& command) {
  command.shapes.add_to(app);
  CLI::Option* recorded = app.add_option("--recorded", command.recorded,
                                         "Tune the problems of a file that $KILN_RECORD named")
                              ->type_name("FILE");
  for (const char* shapes : {"--shape", "--file", "--layers"})
    recorded->excludes(app.get_option(shapes));
  app.add_flag("--each", command.each,
               "With --recorded: every problem alone, none as part of a range")
      ->needs(recorded);
  command.device.add_to(app);
  command.database.add_to(app);
  command.determinism.add_to(app);
  seconds(app.add_option(
      "--budget", command.budget,
      fmt::format("Time for each shape, in seconds or as 500ms, 5s, 2m: {} s of search, {} s for a "
                  "range, or {} s of compiling with --offline",
                  kSearchSeconds, kRangeSeconds, kOfflineSeconds)));
  add_candidates(app, command.candidates);
  add_policy(app, command.policy);
  CLI::Option* seed = app.add_option("--seed", command.seed, "Seed of the search")
                          ->type_name("S")
                          ->capture_default_str();
  return {recorded, seed};
}

double budget_of(const TuneCommand& command, const Shape& shape) {
  return command.budget.value_or(shape.range ? kRangeSeconds : kSearchSeconds);
}

TuneEnd tune_item(const Session& session, const TuneCommand& command, Engine& engine,
                  const TuneItem& item, const std::string& label, TuneTotals& totals) {
  const auto tune = item.shape.range ? tune_range : tune_and_report;
  return tune(session, command, engine, item, label, totals);
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

}  // namespace kiln::cli
