// `kiln report`: where the recorded calls spend their time, and what tuning would save; the page
// that shows what a database holds is cli/commands/report_page.h's.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "bench/bars.h"
#include "cli/commands.h"
#include "cli/commands/recorded.h"
#include "cli/commands/report_page.h"
#include "cli/output/report.h"

namespace kiln::cli {
namespace {

constexpr Manual kReportManual{
    "report", "Show what a database holds as a page, or where recorded calls spend their time",
    "  --out writes one HTML file that needs no network: a roofline with every shape, the speedup\n"
    "  over libraries, what ranges lose to kernels of single sizes, how soon searches came near "
    "their\n"
    "  best, candidates over two keys of their config, failures by reason, and what is stored for\n"
    "  each device. It times nothing; --bench adds races that kiln bench --json printed.\n"
    "  --recorded reads a file that programs wrote with $KILN_RECORD, and the database. Each\n"
    "  line is a problem on a number of threads: calls, their share of all recorded time, the "
    "mean\n"
    "  time of a call, how gemm() finds its kernel now (exact: tuned), the stored time (exact) or\n"
    "  the predicted one of that kernel, the time expected after tuning, and the share of all "
    "time\n"
    "  that tuning is expected to save. A call's time was measured on a CPU; on a GPU it is the\n"
    "  stored or predicted time of the kernel that ran.\n"
    "  The time after tuning comes from the model fitted to tuned problems of the same types and\n"
    "  layouts (neighbours); else from the analytic model's best prediction, times the median of\n"
    "  measured over predicted time of all problems tuned on this device (corrected) or, where "
    "none\n"
    "  is, as it is (model: it may be wrong by a factor of two). Where the calls were not timed, "
    "a\n"
    "  kernel that is the model's own first choice shows no gain. `kiln tune --recorded` tunes "
    "what\n"
    "  is not tuned, most time first.",
    "  kiln report --out report.html\n"
    "  kiln bench --layers cpu --json > races.jsonl; kiln report --out report.html --bench "
    "races.jsonl\n"
    "  KILN_RECORD=calls.kiln ./app                # any number of processes, at the same time "
    "too\n"
    "  kiln report --recorded calls.kiln\n"
    "  kiln report --recorded calls.kiln --json | jq -r 'select(.match != \"exact\").shape'\n"
    "  kiln tune --recorded calls.kiln --budget 20"};

struct ReportCommand {
  PageOptions page;
  std::string recorded;
  DeviceOptions device;
  DatabaseOptions database;
};

struct ReportTotals {
  std::int64_t calls = 0;
  double ns = 0, tuned_ns = 0, gain_ns = 0;

  double share_of(double part) const { return ns > 0 ? part / ns : 0; }
};

ReportTotals totals_of(const std::vector<RecordedShape>& shapes) {
  ReportTotals totals;
  for (const RecordedShape& shape : shapes) {
    totals.calls = sum_of_calls(totals.calls, shape.recorded.calls);
    totals.ns += shape.total_ns();
    if (shape.tuned()) totals.tuned_ns += shape.total_ns();
    totals.gain_ns += shape.gain_ns();
  }
  return totals;
}

Json known(double ns) { return ns > 0 ? Json(ns) : Json(nullptr); }

Json shape_json(const RecordedShape& shape, const ReportTotals& totals, const std::string& device) {
  Json row{{"shape", text(shape.recorded.gemm)},        {"device", device},
           {"threads", shape.recorded.threads},         {"calls", shape.recorded.calls},
           {"call_ns", known(shape.call_ns)},           {"total_ns", shape.total_ns()},
           {"share", totals.share_of(shape.total_ns())}};
  if (!shape.outlook) {
    row["error"] = {{"code", name(shape.outlook.error().code)},
                    {"message", shape.outlook.error().message}};
    return row;
  }
  const Outlook& now = *shape.outlook;
  row["match"] = name(now.match);
  row["config"] = now.config;
  row[is_tuned(now.match) ? "stored_ns" : "predicted_ns"] = known(now.now_ns);
  row["tuned_ns"] = known(now.tuned_ns);
  row["estimate"] = name(now.basis);
  row["gain"] = now.gain;
  row["gain_of_all"] = totals.share_of(shape.gain_ns());
  return row;
}

std::string time_or_dash(double ns) { return ns > 0 ? human_time(ns) : "-"; }

void print_table(const std::vector<RecordedShape>& shapes, const ReportTotals& totals) {
  constexpr int kBarCells = 12;
  const bool bars = draws_bars(STDOUT_FILENO);
  std::vector<std::string> headers{">calls", ">time", ">a call", "match",    ">kernel",
                                   ">tuned", "by",    ">saves",  ">threads", "shape"};
  constexpr std::ptrdiff_t kBehindTime = 2;
  if (bars) headers.insert(headers.begin() + kBehindTime, "");
  Table table(std::move(headers));
  for (const RecordedShape& shape : shapes) {
    std::vector<std::string> row{fmt::format("{}", shape.recorded.calls),
                                 percent(totals.share_of(shape.total_ns())),
                                 time_or_dash(shape.call_ns)};
    if (shape.outlook) {
      const Outlook& now = *shape.outlook;
      row.insert(row.end(), {std::string(name(now.match)), time_or_dash(now.now_ns),
                             time_or_dash(now.tuned_ns), std::string(name(now.basis)),
                             percent(totals.share_of(shape.gain_ns()))});
    } else {
      row.insert(row.end(), {std::string(name(shape.outlook.error().code)), "-", "-", "-", "-"});
    }
    row.insert(row.end(), {fmt::format("{}", shape.recorded.threads), text(shape.recorded.gemm)});
    if (bars)
      row.insert(row.begin() + kBehindTime,
                 share_bar(totals.share_of(shape.total_ns()), kBarCells));
    table.add(std::move(row));
  }
  fmt::print("{}", table.text());
}

Result<Outcome> report_calls(const Session& session, const ReportCommand& command) {
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  DeviceOptions every_thread = command.device;
  every_thread.threads = 0;
  Result<Engine> engine = Engine::open(open_options(every_thread, command.database));
  if (!engine) return tl::unexpected(engine.error());
  const auto found = recorded_shapes(command.recorded, *target, command.device.threads, *engine);
  if (!found) return tl::unexpected(found.error());
  const ReportTotals totals = totals_of(found->shapes);
  const auto untuned =
      std::ranges::count_if(found->shapes, [](const RecordedShape& s) { return !s.tuned(); });
  if (session.json) {
    for (const RecordedShape& shape : found->shapes)
      print_json(shape_json(shape, totals, command.device.name));
    print_json({{"summary",
                 {{"shapes", found->shapes.size()},
                  {"untuned", untuned},
                  {"calls", totals.calls},
                  {"total_ns", totals.ns},
                  {"tuned_share", totals.share_of(totals.tuned_ns)},
                  {"gain_of_all", totals.share_of(totals.gain_ns)},
                  {"other_devices", found->elsewhere}}}});
    return Outcome::done;
  }
  print_table(found->shapes, totals);
  fmt::print("{} calls of {} problems, {}; {} of the time is tuned\n", totals.calls,
             found->shapes.size(), human_time(totals.ns),
             percent(totals.share_of(totals.tuned_ns)));
  if (untuned > 0)
    fmt::print(
        "tuning the {} others would save about {} of the time (an estimate: see kiln help "
        "report)\n",
        untuned, percent(totals.share_of(totals.gain_ns)));
  if (found->elsewhere > 0)
    fmt::print("{} rows of other devices or numbers of threads are left out\n", found->elsewhere);
  return Outcome::done;
}

Result<Outcome> run(const Session& session, const ReportCommand& command) {
  if (!command.page.out.empty()) return write_page(session, command.page, command.database);
  if (!command.recorded.empty()) return report_calls(session, command);
  return fail(ErrorCode::bad_input, "report: --out FILE or --recorded FILE is needed");
}

}  // namespace

void add_report(CLI::App& parent, Session& session) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App* app = add_command(parent, session, kReportManual,
                              [&session, command] { return run(session, *command); });
  command->page.add_to(*app);
  app->add_option("--recorded", command->recorded, "File that $KILN_RECORD named")
      ->type_name("FILE")
      ->excludes(app->get_option("--out"));
  command->device.add_to(*app);
  command->database.add_to(*app);
}

}  // namespace kiln::cli
