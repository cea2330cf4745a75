#include "cli/commands/race.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "cache/printable.h"
#include "cli/commands/bench_range.h"
#include "cli/output/report.h"
#include "runtime/backend.h"

namespace kiln::cli {
namespace {

/// Everything that is said while the race runs, on stderr.
class Commentary {
 public:
  Commentary(BenchOptions& options, bool json) : device_(options.open.device), json_(json) {
    options.on_start = [this](std::size_t races) { total_ = races; };
    options.on_machine = [](const MachineLine& m) {
      fmt::print(stderr,
                 "{} threads: fp32 {:.0f} GFLOP/s, fp64 {:.0f}, bf16 {:.0f}, int8 {:.0f}; GB/s "
                 "read: L1 {:.0f}, L2 {:.0f}, L3 {:.0f}, memory {:.0f}\n",
                 m.threads, m.limits.fp32_flops * 1e-9, m.limits.fp64_flops * 1e-9,
                 m.limits.bf16_flops * 1e-9, m.limits.int8_flops * 1e-9, m.limits.l1_read * 1e-9,
                 m.limits.l2_read * 1e-9, m.limits.l3_read * 1e-9, m.limits.dram_read * 1e-9);
    };
    options.on_peer = [this](const Peer& peer) {
      peers_[peer.name()] = peer.note();
      fmt::print(stderr, "{}: {}\n", peer.name(), peer.note());
    };
    options.on_absent = [this](const AbsentPeer& peer) {
      absent_[peer.name] = peer.reason;
      fmt::print(stderr, "{}: absent: {}\n", peer.name, peer.reason);
    };
    options.on_row = [this](const ContestResult& row) { say(row); };
    options.on_failure = [this](const ShapeFailure& failure) { say(failure); };
    options.on_tune = [this](std::size_t shape, const Gemm& gemm, int threads, const Progress& p) {
      if (!bar_ || p.stage == Progress::Stage::space)
        bar_.emplace(fmt::format("[{}] {} x{}", shape + 1, text(gemm), threads));
      bar_->update(p);
      if (p.stage == Progress::Stage::done) bar_.reset();
    };
    options.on_tuned = [this](const Gemm& gemm, const Result<TuneReport>& report) {
      bar_.reset();
      if (interrupted()) fmt::print(stderr, "{}", interruption_text(text(gemm), report));
    };
  }

  /// How each library ran, and which are missing, for the summary.
  void add_to(OrderedJson& summary) const {
    summary["peer_notes"] = peers_;
    summary["absent_peers"] = absent_;
  }

 private:
  void say(const ContestResult& row) {
    bar_.reset();
    if (json_) print_json(to_json(row, device_));
    const std::string best = row.best_peer();
    fmt::print(stderr, "[{}/{}] {} x{}: {}{}{}\n", ++done_, total_, text(row.gemm), row.threads,
               human_time(row.kiln.median_ns),
               best.empty() ? "" : fmt::format(", {:.2f} of {}", row.ratio(), best),
               row.verified ? "" : ", WRONG: " + row.fault);
    for (const Excluded& out : row.excluded)
      fmt::print(stderr, "  {} is left out of this race: {}\n", out.peer, out.reason);
  }
  void say(const ShapeFailure& failure) {
    bar_.reset();
    if (json_) print_json(to_json(failure, device_));
    fmt::print(stderr, "[{}/{}] {} x{}: not raced: {}\n", ++done_, total_, text(failure.gemm),
               failure.threads, printable(failure.error.message));
  }

  std::string device_;
  bool json_;
  std::size_t total_ = 0, done_ = 0;
  std::optional<ProgressReport> bar_;
  std::map<std::string, std::string> peers_, absent_;
};

bool all_well(const BenchReport& report) {
  if (report.cancelled || !report.failures.empty()) return false;
  for (const ContestResult& row : report.rows)
    if (!row.verified) return false;
  return true;
}

/// What --against names; nothing where it was not given.
Result<std::vector<EarlierRow>> earlier(const RaceCommand& command) {
  if (command.against.empty()) return std::vector<EarlierRow>{};
  std::ifstream in(command.against);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    return fail(ErrorCode::bad_input,
                fmt::format("against = \"{}\": cannot be read, or is empty", command.against));
  return parse_earlier(text.str(), command.against);
}

void print_against(const Session& session, const RaceCommand& command, const Against& against) {
  if (session.json)
    print_json(to_json(against, command.against_options));
  else
    fmt::print("{}", text(against, command.against_options));
}

/// The last object of --json.
OrderedJson summary_json(const BenchReport& report, const Commentary& commentary) {
  OrderedJson last = to_json(summarise(report));
  for (const MachineLine& line : report.machine)
    last["summary"]["machine"].push_back(to_json(line)["machine"]);
  commentary.add_to(last["summary"]);
  return last;
}

}  // namespace

void RaceCommand::add_to(CLI::App& app) {
  device.add_name_to(app);
  app.add_option("--threads", race.threads,
                 "Thread counts, e.g. 1,2; none: 1 and every core allowed")
      ->type_name("N[,N...]")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  database.add_to(app);
  determinism.add_to(app);
  app.add_flag("--tune", race.tune, "Tune what has no valid record before it is raced");
  seconds(app.add_option("--budget", budget, "Time of tuning for each shape: 10, 5s, 2m"))
      ->capture_default_str();
  add_candidates(app, race.candidates);
  app.add_option("--seed", race.contest.seed, "Seed of the data and of tuning")
      ->type_name("S")
      ->capture_default_str();
  app.add_option("--samples", race.contest.samples, "Samples of each contestant")
      ->type_name("N")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--peers", race.peers, "Race only these libraries")
      ->type_name("NAME[,NAME...]")
      ->delimiter(',');
  app.add_option("--csv", csv, "Write every time as CSV too")->type_name("FILE");
  CLI::Option* earlier =
      app.add_option("--against", against,
                     "Compare with what --json printed before; exit code 1 where a shape is "
                     "slower by more than noise")
          ->type_name("OLD.jsonl");
  app.add_option("--tolerance", against_options.tolerance,
                 "With --against: the share of a time that counts for nothing")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0))
      ->needs(earlier)
      ->capture_default_str();
}

Status check_threads(const RaceCommand& command) {
  if (names_gpu(command.device.name) && !command.race.threads.empty())
    return fail(ErrorCode::bad_input, fmt::format("threads = {}: must be left out on a GPU",
                                                  command.race.threads.front()));
  return {};
}

Result<Outcome> run_race(const Session& session, const RaceCommand& command,
                         std::vector<Gemm> gemms, const AfterRace& after) {
  const auto before = earlier(command);
  if (!before) return tl::unexpected(before.error());
  BenchOptions options = command.race;
  options.gemms = std::move(gemms);
  options.open = open_options(command.device, command.database, command.determinism);
  options.budget = std::chrono::duration<double>(command.budget);
  options.cancelled = interrupted;
  Commentary commentary(options, session.json);
  const Result<BenchReport> report = run_bench(options);
  if (!report) return tl::unexpected(report.error());
  const Against against = compare(*report, *before, command.against_options);
  if (!session.json)
    fmt::print("{}\n{}", table(*report, draws_bars(STDOUT_FILENO)), text(summarise(*report)));
  if (!command.against.empty()) print_against(session, command, against);
  if (session.json) print_json(summary_json(*report, commentary));
  if (Status status = write_text("csv", command.csv, csv(*report)); !status)
    return tl::unexpected(status.error());
  if (after)
    if (Status status = after(*report); !status) return tl::unexpected(status.error());
  const bool well = all_well(*report) && against.count(Trend::slower) == 0;
  return well ? Outcome::done : Outcome::check_failed;
}

}  // namespace kiln::cli
