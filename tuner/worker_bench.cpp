#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "runtime/timer.h"
#include "tuner/device_lock.h"
#include "tuner/operand_sets.h"
#include "tuner/search.h"
#include "tuner/worker_process.h"

namespace kiln {
namespace {

// No candidate is screened beyond this multiple of the budget, whatever hangs.
constexpr double kHardLimit = 1.4;
// A candidate gets this long even when the budget is spent: a timeout must mean a hang, not a
// machine that is busy.
constexpr double kLeastSeconds = 2.0;
// Of the budget, for the first candidate: the next must have a chance should it hang.
constexpr double kFirstShare = 0.8;
constexpr double kLeastGflops = 4;
// Bytes a second of operands made, referred to and compared, in the first check of a problem.
constexpr double kCheckedBytes = 25e6;
constexpr double kRaceShare = 0.15;
constexpr double kLockPatienceSeconds = 120;

struct Compiled {
  Artifact artifact;
  std::string key;
  std::optional<Failure> failure;
};

class WorkerBench final : public Bench {
 public:
  WorkerBench(const SearchInput& input, Compiler& compiler, DeviceLock lock,
              std::filesystem::path executable)
      : gemm_(input.gemm),
        device_(input.device),
        options_(input.options),
        compiler_(compiler),
        lock_(std::move(lock)),
        executable_(std::move(executable)) {}

  /// Errors: device (no process, or it cannot hold the problem).
  Status start() {
    auto started = WorkerProcess::start(executable_);
    if (!started) return tl::unexpected(started.error());
    worker_.emplace(std::move(*started));
    const nlohmann::json problem{{"do", "problem"},
                                 {"gemm", text(gemm_)},
                                 {"device", to_json(device_)},
                                 {"seed", options_.seed}};
    const double seconds = 10 + double(touched_bytes(gemm_)) / 50e6;
    auto reply = worker_->ask(problem, {}, seconds);
    if (!reply) return fail(ErrorCode::device, "tuning worker: " + reply.error().detail);
    if (reply->body.contains("error"))
      return fail(ErrorCode::device,
                  "tuning worker: " + reply->body.at("error").get<std::string>());
    return {};
  }

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    compile(group);
    std::vector<Measured> rows;
    for (const Config& config : group) {
      if (begun_ && (out_of_time() || cancelled())) break;
      std::optional<Measured> row = screen_one(config);
      if (!row) break;
      begun_ = true;
      rows.push_back(std::move(*row));
      report(Progress::Stage::screen, rows.size(), group.size());
    }
    return rows;
  }

  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Config> configs;
    for (const Measured& row : finalists) configs.push_back(row.config);
    compile(configs);
    std::vector<Measured> rows = finalists;
    std::vector<std::size_t> running;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Compiled& compiled = compiled_.at(rows[i].config);
      rows[i].binary_key = compiled.key;
      if (compiled.failure) {
        fail_row(rows[i], *compiled.failure);
      } else {
        running.push_back(i);
      }
    }
    // Each round either ends the race or takes out the one that brought the worker down. One is run
    // even when the budget is spent: without it nothing could win.
    while (!running.empty() && !race_once(rows, running) &&
           seconds() < kHardLimit * options_.budget.count()) {
    }
    return rows;
  }

  const Artifact* artifact(const Config& config) const override {
    const auto it = compiled_.find(config);
    return it == compiled_.end() || it->second.artifact.source.text.empty() ? nullptr
                                                                            : &it->second.artifact;
  }

 private:
  double seconds() const { return static_cast<double>(now_ns() - begin_) * 1e-9; }
  bool out_of_time() const { return seconds() >= options_.budget.count(); }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

  void report(Progress::Stage stage, std::size_t done, std::size_t total) const {
    if (!options_.progress) return;
    options_.progress({.stage = stage,
                       .done = static_cast<int>(done),
                       .total = static_cast<int>(total),
                       .seconds = seconds(),
                       .best_ns = best_ns_,
                       .best_config = best_config_});
  }

  // On all cores, and before anything is timed: a compile beside a measurement would be measured
  // too.
  void compile(const std::vector<Config>& group) {
    std::vector<Compiled*> slots;
    std::vector<const Config*> configs;
    for (const Config& config : group) {
      const auto [it, fresh] = compiled_.try_emplace(config);
      if (!fresh) continue;
      slots.push_back(&it->second);
      configs.push_back(&it->first);
    }
    report(Progress::Stage::compile, 0, slots.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < slots.size();)
        *slots[i] = compile_one(*configs[i]);
    };
    const std::size_t helpers =
        std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), slots.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < helpers; ++i) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
  }

  Compiled compile_one(const Config& config) const {
    Compiled out;
    auto source = render(gemm_, device_, config);
    if (!source) {
      out.failure = Failure{Failure::Kind::compile, source.error().message};
      return out;
    }
    out.artifact.source = std::move(*source);
    auto binary = compiler_.compile(out.artifact.source);
    if (!binary) {
      out.failure = Failure{Failure::Kind::compile, binary.error().message};
      return out;
    }
    out.key = binary_key(out.artifact.source, compiler_.version());
    out.artifact.binary = std::move(*binary);
    return out;
  }

  static void fail_row(Measured& row, Failure failure) {
    row.outcome = std::move(failure);
    row.verified = false;
  }

  /// Nothing when the end of the tuning, not the candidate's own limit, stopped it: that says
  /// nothing about the candidate, and a record of it would keep it from being tried again.
  std::optional<Measured> screen_one(const Config& config) {
    const Compiled& compiled = compiled_.at(config);
    Measured row;
    row.config = config;
    row.binary_key = compiled.key;
    if (compiled.failure) {
      row.outcome = *compiled.failure;
      return row;
    }
    const double limit = candidate_seconds(best_ns_);
    const double left =
        begun_ ? std::max(kLeastSeconds, kHardLimit * options_.budget.count() - seconds())
               : std::max(candidate_seconds(0), kFirstShare * options_.budget.count());
    const auto reply = ask({{"do", "screen"}, {"best_ns", best_ns_}},
                           {&compiled.artifact.binary->image}, std::min(limit, left));
    if (!reply) {
      if (begun_ && left < limit && reply.error().kind == Failure::Kind::timed_out)
        return std::nullopt;
      row.outcome = reply.error();
    } else {
      read_row(reply->body, row);
      if (row.ok() && row.verified && (best_ns_ == 0 || row.timing().median_ns < best_ns_)) {
        best_ns_ = row.timing().median_ns;
        best_config_ = text(config);
      }
    }
    return row;
  }

  /// Whether the race was run to its end; else the culprit has its failure and is no longer
  /// running.
  bool race_once(std::vector<Measured>& rows, std::vector<std::size_t>& running) {
    nlohmann::json entries = nlohmann::json::array();
    std::vector<const std::vector<std::byte>*> images;
    double limit = 0;
    for (const std::size_t i : running) {
      limit += candidate_seconds(rows[i].ok() ? rows[i].timing().median_ns : best_ns_);
      entries.push_back({{"config", text(rows[i].config)}, {"verified", rows[i].verified}});
      images.push_back(&compiled_.at(rows[i].config).artifact.binary->image);
    }
    const double budget = options_.budget.count();
    const double allowed =
        std::clamp(budget - seconds(), 0.2 * kRaceShare * budget, kRaceShare * budget);
    const auto reply = ask({{"do", "race"}, {"entries", entries}, {"budget_ns", allowed * 1e9}},
                           images, allowed + limit);
    if (reply) {
      const nlohmann::json& answers = reply->body.at("rows");
      for (std::size_t i = 0; i < running.size(); ++i) read_row(answers.at(i), rows[running[i]]);
      return true;
    }
    const auto culprit = std::min(static_cast<std::size_t>(culprit_), running.size() - 1);
    fail_row(rows[running[culprit]], reply.error());
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(culprit));
    return false;
  }

  /// One request about the candidates with these images, the worker being restarted first when it
  /// is gone.
  tl::expected<Message, Failure> ask(const nlohmann::json& request,
                                     const std::vector<const std::vector<std::byte>*>& images,
                                     double seconds_allowed) {
    culprit_ = 0;
    if (!worker_ || !worker_->alive())
      if (const Status started = start(); !started)
        return tl::unexpected(Failure{Failure::Kind::crashed, started.error().message});
    std::vector<Fd> files;
    std::vector<int> numbers;
    for (const auto* image : images) {
      auto file = memory_file(*image);
      if (!file) return tl::unexpected(Failure{Failure::Kind::resources, file.error().message});
      numbers.push_back(file->get());
      files.push_back(std::move(*file));
    }
    auto reply = worker_->ask(request, numbers, seconds_allowed);
    if (!reply) culprit_ = worker_->status().candidate;
    if (reply && reply->body.contains("error"))
      return tl::unexpected(
          Failure{Failure::Kind::crashed, reply->body.at("error").get<std::string>()});
    return reply;
  }

  // Generous beside what a candidate takes: three slow calls to be dropped or a score of fast ones,
  // and a check, on a machine that does much else besides.
  double candidate_seconds(double call_ns) const {
    const double work = gemm_.flops() * 1e-9 / kLeastGflops;
    const double call = call_ns > 0 ? 3e-9 * call_ns : work;
    return kLeastSeconds + 8 * call + work + double(touched_bytes(gemm_)) / kCheckedBytes;
  }

  static void read_row(const nlohmann::json& answer, Measured& row) {
    const auto outcome = outcome_from(answer.value("outcome", nlohmann::json::object()));
    if (!outcome) return fail_row(row, {Failure::Kind::crashed, outcome.error().message});
    row.outcome = *outcome;
    row.round = static_cast<Round>(answer.value("round", 0));
    row.verified = answer.value("verified", false);
  }

  const Gemm gemm_;
  const DeviceCaps device_;
  const TuneOptions options_;
  Compiler& compiler_;
  const DeviceLock lock_;
  const std::filesystem::path executable_;
  const std::int64_t begin_ = now_ns();
  std::optional<WorkerProcess> worker_;
  std::map<Config, Compiled> compiled_;
  double best_ns_ = 0;
  std::string best_config_;
  int culprit_ = 0;
  bool begun_ = false;  // the first candidate runs whatever the budget
};

}  // namespace

Result<std::unique_ptr<Bench>> worker_bench(const SearchInput& input, Compiler& compiler) {
  auto executable = find_worker();
  if (!executable) return tl::unexpected(executable.error());
  const double patience = kLockPatienceSeconds + input.options.budget.count();
  auto lock = DeviceLock::acquire("cpu", std::chrono::duration<double>(patience),
                                  [](const std::string& message) { spdlog::info(message); });
  if (!lock) return tl::unexpected(lock.error());
  auto bench = std::make_unique<WorkerBench>(input, compiler, std::move(*lock), *executable);
  if (const Status started = bench->start(); !started) return tl::unexpected(started.error());
  return bench;
}

}  // namespace kiln
