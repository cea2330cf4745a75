#include "cli/commands/bench_range.h"

#include <fmt/format.h>

#include <fstream>

#include "cache/printable.h"
#include "cli/output/report.h"

namespace kiln::cli {

void RangeRaceFlags::add_to(CLI::App& app) {
  CLI::Option* any = app.add_flag(
      "--any-m", wanted,
      "Draw sizes from shapes that are ranges, and race what gemm() runs there beside "
      "kernels tuned for one size (--budget; with --determinism batch_invariant without "
      "that limit, so that its cost is seen) and the peers");
  app.add_option("--count", count, "Sizes to draw from each range")
      ->type_name("N")
      ->check(CLI::Range(1, 100000))
      ->needs(any)
      ->capture_default_str();
  seconds(app.add_option("--range-budget", range_budget, "Time of tuning a range, with --tune"))
      ->needs(any)
      ->capture_default_str();
  app.add_flag("--dispatch-only", dispatch_only,
               "With --any-m: tune no single sizes, race what gemm() runs and the peers")
      ->needs(any);
}

Status write_text(const std::string& option, const std::string& file, const std::string& text) {
  if (file.empty()) return {};
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out)
    return fail(ErrorCode::device, fmt::format("{} = \"{}\": cannot be written", option, file));
  return {};
}

Result<Outcome> race_ranges(const Session& session, const RangeRaceFlags& flags,
                            const std::vector<Shape>& shapes, RangeRaceOptions options,
                            const std::string& svg_file) {
  for (const Shape& shape : shapes) {
    if (!shape.range)
      return fail(
          ErrorCode::bad_input,
          fmt::format("{}: --any-m draws from a range: give a size as 1..8192", shape.origin));
    options.ranges.push_back(*shape.range);
  }
  options.count = flags.count;
  options.alone = !flags.dispatch_only;
  options.range_budget = std::chrono::duration<double>(flags.range_budget);
  options.cancelled = interrupted;
  const std::string device = options.open.device;
  std::optional<ProgressReport> bar;
  options.on_tune = [&bar](const Gemm& gemm, const Progress& p) {
    if (!bar || p.stage == Progress::Stage::space) bar.emplace(kiln::text(gemm));
    bar->update(p);
  };
  options.on_range = [&](const Result<RangeReport>& report) {
    bar.reset();
    if (!report) return;
    if (session.json)
      print_json(to_json(*report, device));
    else
      fmt::print("{}", text(*report));
  };
  options.on_row = [&](const ContestResult& row) {
    bar.reset();
    OrderedJson line = to_json(row, device);
    if (!row.others.empty()) line["alone_ns"] = row.others.front().median_ns;
    if (session.json) print_json(line);
    fmt::print(stderr, "{}: {}{}\n", kiln::text(row.gemm), human_time(row.kiln.median_ns),
               row.verified ? "" : ", WRONG: " + row.fault);
  };
  options.on_failure = [&](const ShapeFailure& failure) {
    bar.reset();
    if (session.json) print_json(to_json(failure, device));
    fmt::print(stderr, "{}: not raced: {}\n", kiln::text(failure.gemm),
               printable(failure.error.message));
  };
  const auto report = run_range_race(options);
  if (!report) return tl::unexpected(report.error());
  const RangeRaceSummary summary = summarise(*report);
  if (session.json)
    print_json(to_json(summary));
  else
    fmt::print("{}\n{}", table(*report), kiln::text(summary));
  if (Status written = write_text("svg", svg_file, svg(*report)); !written)
    return tl::unexpected(written.error());
  const bool well = !report->cancelled && summary.failed == 0 &&
                    summary.verified == static_cast<int>(report->rows.size());
  return well ? Outcome::done : Outcome::check_failed;
}

}  // namespace kiln::cli
