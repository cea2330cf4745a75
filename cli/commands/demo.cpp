// `kiln demo`: the main job. Tunes real layers, then runs them in a second process.
#include "bench/demo.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output/report.h"

namespace kiln::cli {
namespace {

constexpr Manual kDemoManual{
    "demo", "Tune Llama-3-8B and BERT-base on this CPU, then run them out of the database",
    "  Tunes every layer of both models within --budget seconds in all and stores the kernels; "
    "then\n"
    "  a second process, which has no compiler loaded, runs gemm() out of that database, checks "
    "each\n"
    "  result and races the libraries that are installed. Prints one table. A wrong result, a "
    "shape\n"
    "  that is not in the database or a compiler in the second process makes the exit code 1.\n"
    "  A second run with the same budget finds everything tuned and goes straight to the table.\n"
    "  Ctrl-C keeps what was tuned until then (exit code 130); the same command continues "
    "from there.",
    "  kiln demo                               # two to three minutes\n"
    "  kiln demo --budget 60 --tokens 16 --db demo.db"};

struct DemoCommand {
  DeviceOptions device;
  DatabaseOptions database;
  DemoOptions demo;
  double budget = 90;
  bool second_process = false;
};

/// The same options again, for the second process.
std::vector<std::string> second_arguments(const Session& session, const DemoCommand& command) {
  std::vector<std::string> words{
      "demo",     "--second-process",  "--seed",    fmt::format("{}", command.demo.seed),
      "--device", command.device.name, "--threads", fmt::format("{}", command.device.threads)};
  for (const int count : command.demo.tokens)
    words.insert(words.end(), {"--tokens", fmt::format("{}", count)});
  if (!command.database.file.empty()) words.insert(words.end(), {"--db", command.database.file});
  if (session.json) words.emplace_back("--json");
  return words;
}

Result<Outcome> second_process(const Session& session, const DemoOptions& options) {
  const Result<DemoOutcome> outcome = run_demo_second_process(options);
  if (!outcome) return tl::unexpected(outcome.error());
  if (session.json) {
    for (const ContestResult& row : outcome->bench.rows)
      print_json(to_json(row, outcome->bench.device));
    for (const ShapeFailure& failure : outcome->bench.failures)
      print_json(to_json(failure, outcome->bench.device));
    OrderedJson last = to_json(summarise(outcome->bench));
    last["summary"].update({{"open_ns", outcome->open_ns},
                            {"first_gemm_ns", outcome->first_gemm_ns},
                            {"from_database", outcome->from_database},
                            {"wrong", outcome->wrong},
                            {"compiler_files", outcome->compiler_files},
                            {"ok", outcome->ok()}});
    print_json(last);
  } else {
    fmt::print("{}", text(*outcome));
  }
  return outcome->ok() ? Outcome::done : Outcome::check_failed;
}

Result<Outcome> run(const Session& session, const DemoCommand& command) {
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  DemoOptions options = command.demo;
  options.open = open_options(command.device, command.database);
  options.threads = command.device.threads;
  options.budget = std::chrono::duration<double>(command.budget);
  options.cancelled = interrupted;
  if (command.second_process) return second_process(session, options);

  options.second_process = second_arguments(session, command);
  std::optional<ProgressReport> bar;
  options.on_tune = [&bar](std::size_t shape, std::size_t of, const ListedShape& listed,
                           const Progress& progress) {
    if (!bar) bar.emplace(fmt::format("[{}/{}] {}", shape + 1, of, text(listed.gemm)));
    bar->update(progress);
  };
  options.on_tuned = [&bar](std::size_t shape, std::size_t of, const ListedShape& listed,
                            const Result<TuneReport>& report) {
    bar.reset();
    if (interrupted()) fmt::print(stderr, "{}", interruption_text(text(listed.gemm), report));
    if (report)
      fmt::print(stderr, "[{}/{}] {} ({}): {}, {}\n", shape + 1, of, text(report->gemm),
                 listed.comment, human_time(report->timing.median_ns), report->config);
  };
  const Result<std::optional<int>> code = run_demo(options);
  bar.reset();
  if (!code) return tl::unexpected(code.error());
  // Nobody asked for the table any more; the exit code says that it was interrupted.
  if (!*code || **code == kExitInterrupted) return Outcome::done;
  if (**code == kExitDone) return Outcome::done;
  if (**code == kExitCheckFailed) return Outcome::check_failed;
  return fail(ErrorCode::device, fmt::format("the second process ended with exit code {}", **code));
}

}  // namespace

void add_demo(CLI::App& parent, Session& session) {
  auto command = std::make_shared<DemoCommand>();
  CLI::App* app = add_command(parent, session, kDemoManual,
                              [&session, command] { return run(session, *command); });
  command->device.add_to(*app);
  command->database.add_to(*app);
  seconds(app->add_option("--budget", command->budget, "Time of tuning, of all layers together"))
      ->capture_default_str();
  app->add_option("--tokens", command->demo.tokens, "Llama's token counts (default 1,16,128)")
      ->type_name("N[,N...]")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000));
  app->add_option("--seed", command->demo.seed, "Seed of the search and of the data")
      ->type_name("S")
      ->capture_default_str();
  app->add_flag("--second-process", command->second_process)->group("");
}

}  // namespace kiln::cli
