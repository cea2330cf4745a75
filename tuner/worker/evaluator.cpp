#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "runtime/backend.h"
#include "runtime/cpu/probe.h"
#include "runtime/log.h"
#include "tuner/measure/device_lock.h"
#include "tuner/search/budget.h"
#include "tuner/search/search.h"
#include "tuner/search/stopping.h"
#include "tuner/worker/candidate_code.h"
#include "tuner/worker/limits.h"
#include "tuner/worker/own_check.h"
#include "tuner/worker/process.h"

namespace kiln {
namespace {

// Of the budget, for the first candidate: the next must have a chance should it hang.
constexpr double kFirstShare = 0.8;
// Of the budget, until when a search that has no kernel yet waits for more of its first group than
// one that is compiled.
constexpr double kFirstCompiles = 0.4;
// Of the race's share of the budget, when a candidate that is being screened is cut off, and of the
// seconds after the budget, when a race is: its finalists keep the times that they had.
constexpr double kScreenedInto = 0.5, kRacedUntil = 0.5 * kGraceSeconds;
// Until a candidate has answered, one that times out is asked again so often, with twice the time:
// what it waits for, fresh memory above all, may be slower than any limit foresees. A kernel may
// hang as well, so that so many candidates have this chance.
constexpr int kFirstRetries = 2, kMostSilent = 2;
// As many that fail otherwise may come first before the budget is kept without a kernel.
constexpr int kMostRefused = 4;
// Once the budget is spent, so many finalists in turn may bring the worker down.
constexpr int kMostLost = 3;
constexpr double kLockPatienceSeconds = 120;
// Longer calls outlast most of what disturbs a machine: nothing is timed beside them.
constexpr double kReferenceBelowNs = 10e6;
constexpr double kMostDrift = 8;  // what a worker says is not taken for more

std::string words_of(const nlohmann::json& told) {
  return told.is_string() ? told.get<std::string>() : told.dump();
}

class WorkerEvaluator final : public Evaluator {
 public:
  WorkerEvaluator(const SearchInput& input, Compiler& compiler, DeviceLock lock,
                  std::filesystem::path executable)
      : gemm_(input.gemm),
        device_(input.device),
        device_index_(input.device_index),
        options_(input.options),
        time_(input.time ? input.time : std::make_shared<Budget>(input.options.budget.count())),
        code_(input, compiler),
        lock_(std::move(lock)),
        executable_(std::move(executable)),
        idle_(input.worker) {}

  ~WorkerEvaluator() override {
    rest();
    if (idle_ && on_gpu() && worker_ && worker_->alive()) idle_->process = std::move(worker_);
  }

  /// Errors: device (no process, or it cannot hold the problem, or one of both took too long).
  Status start() {
    const auto failed = [](const std::string& what, const std::string& why) {
      return fail(ErrorCode::device, fmt::format("tuning worker: {}: {}", what, why));
    };
    if (idle_ && idle_->process && idle_->process->alive()) {
      worker_ = std::exchange(idle_->process, std::nullopt);
    } else {
      auto started = WorkerProcess::start(executable_);
      if (!started) return tl::unexpected(started.error());
      worker_.emplace(std::move(*started));
      if (const auto hello = worker_->ask({{"do", "hello"}}, {}, kWorkerStartSeconds); !hello)
        return failed(fmt::format("start of {}", executable_.string()), hello.error().detail);
    }
    nlohmann::json problem{{"do", "problem"},
                           {"gemm", text(gemm_)},
                           {"device", to_json(device_)},
                           {"seed", options_.seed}};
    if (on_gpu()) problem["device_index"] = device_index_;
    const auto reply = worker_->ask(problem, {}, set_up_seconds(gemm_, device_));
    const std::string what = fmt::format("set-up of '{}'", text(gemm_));
    if (!reply) return failed(what, reply.error().detail);
    if (reply->body.contains("error")) return failed(what, words_of(reply->body.at("error")));
    if (const auto cage = reply->body.find("cage"); !std::exchange(told_of_cage_, true))
      log::debug("tuning worker: cage: {}", cage == reply->body.end() ? "none" : words_of(*cage));
    return {};
  }

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    compiling(0, group.size());
    const auto enough = [this](std::size_t done) {
      return begun_ ? no_more_screened() : done > 0 && time_->over(kFirstCompiles);
    };
    code_.compile(group, told_, enough);
    // A GPU's are timed as they come: then screening is what moves.
    if (!group.empty()) code_.of(group.front(), told_, enough);
    std::vector<Measured> rows;
    for (const Config& config : group) {
      if ((begun_ && no_more_screened()) || ((begun_ || silent_ > 0) && cancelled())) break;
      const CompiledCode* const compiled =
          code_.of(config, told_, [this](std::size_t) { return begun_ && no_more_screened(); });
      if (compiled == nullptr) continue;  // left behind for another that came first
      std::optional<Measured> row = screen_one(config, *compiled);
      if (!row) break;
      begun_ = begun_ || row->ok() ||
               (timed_out(*row) ? ++silent_ == kMostSilent : ++refused_ == kMostRefused);
      rows.push_back(std::move(*row));
      report(Progress::Stage::screen, rows.size(), group.size());
    }
    return rows;
  }

  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Config> configs;
    for (const Measured& row : finalists) configs.push_back(row.config);
    const auto enough = [this](std::size_t done) { return done > 0 && time_->over(); };
    code_.compile(configs, told_, enough);
    std::vector<Measured> rows = finalists;
    std::vector<std::size_t> running;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const CompiledCode* compiled = code_.of(rows[i].config, told_, enough);
      if (compiled == nullptr) {
        rows[i].verified = false;
        continue;
      }
      rows[i].binary_key = compiled->key;
      if (compiled->failure) {
        fail_row(rows[i], *compiled->failure);
      } else {
        running.push_back(i);
      }
    }
    // Each round either ends the race or takes out the one that brought the worker down. They go on
    // when the budget is spent, until one has passed all checks: without it nothing could win.
    bool over = running.empty();
    int lost = 0;
    while (!over && !running.empty() && !broken_) {
      over = race_once(rows, running);
      if (!over && time_->over() && ++lost == kMostLost) break;
    }
    // Who never raced passed no ragged check: it keeps its time, and cannot win.
    if (!over)
      for (const std::size_t i : running) rows[i].verified = false;
    else
      confirm_fastest_first(rows, running);
    return rows;
  }

  /// On a GPU a candidate's code does not run in the worker's memory: its verdict stands.
  Verdict confirm(const Config& config) override {
    if (const auto known = confirmed_.find(config); known != confirmed_.end()) return known->second;
    const Artifact* made = artifact(config);
    if (on_gpu() || made == nullptr || !made->binary) return {};
    worker_.reset();  // its operands may leave no room
    return confirmed_.emplace(config, own_check_.check(config, *made->binary)).first->second;
  }

  bool exhausted() const override { return broken_; }
  /// A worker that others will use gives up its memory alone.
  void rest() override {
    if (!worker_ || !worker_->alive()) return;
    if (!idle_ || !on_gpu() || !worker_->ask({{"do", "rest"}}, {}, kWorkerStartSeconds))
      worker_.reset();
    resting_ = worker_.has_value();
  }

  std::string conditions() const override { return conditions_; }

  double peak_flops() const override { return has_fma_probe(gemm_.a.dtype) ? peak_flops_ : 0; }

  const Artifact* artifact(const Config& config) const override { return code_.artifact(config); }

 private:
  double seconds() const { return time_->spent(); }
  bool no_more_screened() const { return time_->over(1 - race_share_); }
  void compiling(std::size_t done, std::size_t total) const {
    report(Progress::Stage::compile, done, total);
  }
  /// All of them; when the budget is spent, as many as it takes to find one that is right. The
  /// others keep their times, and cannot win.
  void confirm_fastest_first(std::vector<Measured>& rows, std::vector<std::size_t> raced) {
    std::erase_if(raced, [&](std::size_t i) { return !rows[i].ok() || !rows[i].verified; });
    std::ranges::sort(raced, {}, [&](std::size_t i) { return rows[i].timing().median_ns; });
    bool found = false;
    for (const std::size_t i : raced) {
      if (found && time_->over()) {
        rows[i].verified = false;
      } else if (const Verdict right = confirm(rows[i].config); !right) {
        fail_row(rows[i], right.error());
      } else {
        found = true;
      }
    }
  }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

  void report(Progress::Stage stage, std::size_t done, std::size_t total) const {
    if (!options_.progress) return;
    options_.progress({.stage = stage,
                       .done = static_cast<int>(done),
                       .total = static_cast<int>(total),
                       .seconds = seconds(),
                       .best_ns = best_ns_,
                       .best_config = best_ ? text(*best_) : std::string()});
  }

  bool on_gpu() const { return !on_host(device_); }

  static void fail_row(Measured& row, Failure failure) {
    row.outcome = std::move(failure);
    row.verified = false;
  }

  /// Nothing when the end of the tuning, not the candidate's own limit, stopped it: that says
  /// nothing about the candidate, and a record of it would keep it from being tried again.
  std::optional<Measured> screen_one(const Config& config, const CompiledCode& compiled) {
    Measured row;
    row.config = config;
    row.binary_key = compiled.key;
    if (compiled.failure) {
      row.outcome = *compiled.failure;
      return row;
    }
    double limit = candidate_seconds(gemm_, device_, best_ns_);
    if (!begun_)
      limit = std::min(
          limit, std::max(candidate_seconds(gemm_, device_, 0), kFirstShare * time_->seconds()));
    nlohmann::json request{
        {"do", "screen"}, {"best_ns", best_ns_}, {"config", text(config)}, {"verified", false}};
    std::vector<const std::vector<std::byte>*> images{&compiled.artifact.binary->image};
    add_reference(request, images);
    const auto reply = ask_patiently(request, images, limit);
    if (!reply) {
      if (broken_ || cut_) return std::nullopt;
      row.outcome = reply.error();
    } else {
      read_row(reply->body, row);
      if (row.ok() && row.verified) verified_here_.insert(config);
      if (const auto drift = reply->body.find("drift");
          drift != reply->body.end() && drift->is_number())
        row.drift = std::clamp(drift->get<double>(), 1 / kMostDrift, kMostDrift);
      if (row.ok() && row.round == Round::second) choose_reference(row);
      if (row.ok() && row.verified && (best_ns_ == 0 || row.comparable_ns() < best_ns_)) {
        best_ns_ = row.comparable_ns();
        best_ = config;
      }
    }
    return row;
  }

  /// Names the kernel that is timed beside a candidate's samples, where calls are short: other
  /// guests of the machine come and go within tenths of a second.
  void add_reference(nlohmann::json& request, std::vector<const std::vector<std::byte>*>& images) {
    if (on_gpu() || !reference_ || reference_ns_ > kReferenceBelowNs) return;
    const Artifact* made = artifact(*reference_);
    if (made == nullptr || !made->binary) return;
    request["reference"] = text(*reference_);
    request["reference_ns"] = reference_ns_;
    images.push_back(&made->binary->image);
  }

  /// The first kernel that was timed in full is the reference until another takes half its time.
  void choose_reference(const Measured& row) {
    if (reference_ && row.comparable_ns() > 0.5 * reference_ns_) return;
    reference_ = row.config;
    reference_ns_ = row.comparable_ns();
  }

  /// Whether the race was run to its end; else the culprit has its failure and is no longer
  /// running.
  bool race_once(std::vector<Measured>& rows, std::vector<std::size_t>& running) {
    nlohmann::json entries = nlohmann::json::array();
    std::vector<const std::vector<std::byte>*> images;
    double limit = 0;
    for (const std::size_t i : running) {
      limit +=
          candidate_seconds(gemm_, device_, rows[i].ok() ? rows[i].timing().median_ns : best_ns_);
      // A kernel that a database marks as verified is checked again before its code is installed.
      entries.push_back({{"config", text(rows[i].config)},
                         {"verified", verified_here_.contains(rows[i].config)}});
      images.push_back(&code_.of(rows[i].config)->artifact.binary->image);
    }
    const double budget = time_->seconds();
    const double left = std::max(0.0, budget - seconds());
    const double allowed = std::clamp(left, 0.5 * race_share_ * budget, race_share_ * budget);
    const auto reply = ask({{"do", "race"},
                            {"entries", entries},
                            {"peer", peer_races_},
                            {"budget_ns", allowed * 1e9},
                            {"sustained", sustained_},
                            {"seconds", left}},
                           images, allowed + limit, [this] {
                             return time_->late(kRacedUntil) && worker_->status().admitted != 0;
                           });
    const bool whole = reply && reply->body.contains("rows") && reply->body["rows"].is_array() &&
                       reply->body["rows"].size() == running.size();
    if (whole) {
      const nlohmann::json& answers = reply->body["rows"];
      for (std::size_t i = 0; i < running.size(); ++i)
        if (answers[i].contains("left_out"))
          rows[running[i]].verified = false;
        else
          read_row(answers[i], rows[running[i]]);
      add_peers(reply->body, rows);
      if (const auto told = reply->body.find("conditions");
          told != reply->body.end() && told->is_string())
        conditions_ = told->get<std::string>();
      return true;
    }
    if (broken_) return false;
    if (cut_) {
      for (std::size_t i = 0; i < running.size(); ++i)
        rows[running[i]].verified = i < 64 && (admitted_ >> i & 1) != 0;
      return true;
    }
    if (!reply && culprit_ == kPeerNumber && peer_races_) {
      log::warn("the library is left out of the race: {}", reply.error().detail);
      peer_races_ = false;
      return false;
    }
    const auto culprit = std::min(static_cast<std::size_t>(culprit_), running.size() - 1);
    fail_row(rows[running[culprit]],
             reply ? Failure{Failure::Kind::crashed, "worker message: no result of the race"}
                   : reply.error());
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(culprit));
    return false;
  }

  /// Adds the peers of the race. They are not verified here, so they are never chosen.
  static void add_peers(const nlohmann::json& reply, std::vector<Measured>& rows) {
    const auto peers = reply.find("peers");
    if (peers == reply.end()) return;
    for (const nlohmann::json& answer : *peers) {
      const auto name = answer.find("config");
      if (name == answer.end() || !name->is_string()) continue;
      const auto config = parse_config(name->get<std::string>());
      if (!config) continue;
      Measured row;
      row.config = *config;
      read_row(answer, row);
      rows.push_back(std::move(row));
    }
  }

  static bool timed_out(const Measured& row) {
    return !row.ok() && row.failure().kind == Failure::Kind::timed_out;
  }

  /// ask(), as often as a candidate that times out may be asked before any has answered.
  tl::expected<Message, Failure> ask_patiently(
      const nlohmann::json& request, const std::vector<const std::vector<std::byte>*>& images,
      double seconds_allowed) {
    const auto over = [this] { return begun_ && time_->over(1 - kScreenedInto * race_share_); };
    auto reply = ask(request, images, seconds_allowed, over);
    for (int i = 0; i < kFirstRetries && !begun_ && !broken_ && !cancelled(); ++i) {
      if (reply || reply.error().kind != Failure::Kind::timed_out) break;
      reply = ask(request, images, seconds_allowed *= 2, over);
    }
    return reply;
  }

  /// One request about the candidates with these images, the worker being restarted first when it
  /// is gone. `over`: when it is cut off, which says nothing about a candidate (`cut_`).
  tl::expected<Message, Failure> ask(const nlohmann::json& request,
                                     const std::vector<const std::vector<std::byte>*>& images,
                                     double seconds_allowed, const std::function<bool()>& over) {
    culprit_ = 0;
    admitted_ = 0;
    cut_ = false;
    const CutOff end([&] { return cut_ = over(); });
    if (std::exchange(resting_, false)) idle_->process = std::exchange(worker_, std::nullopt);
    if (!worker_ || !worker_->alive())
      if (const Status started = start(); !started) {
        if (cut_) return tl::unexpected(Failure{Failure::Kind::timed_out, "cut off"});
        // A fault of the machine, not of a candidate: the search ends and no candidate fails.
        broken_ = true;
        log::warn("{}", started.error().message);
        return tl::unexpected(Failure{Failure::Kind::resources, started.error().message});
      }
    std::vector<Fd> files;
    std::vector<int> numbers;
    for (const auto* image : images) {
      auto file = memory_file("kiln-image", *image);
      if (!file) return tl::unexpected(Failure{Failure::Kind::resources, file.error().message});
      numbers.push_back(file->get());
      files.push_back(std::move(*file));
    }
    auto reply = worker_->ask(request, numbers, seconds_allowed);
    if (!reply) culprit_ = worker_->status().candidate;
    admitted_ = worker_->status().admitted;
    if (reply && reply->body.contains("fault")) {
      const auto candidate = reply->body.find("candidate");
      if (candidate != reply->body.end() && candidate->is_number_integer())
        culprit_ = candidate->get<int>();
      worker_.reset();  // its context is lost
      return tl::unexpected(Failure{Failure::Kind::crashed, words_of(reply->body["fault"])});
    }
    if (reply && reply->body.contains("error"))
      return tl::unexpected(Failure{Failure::Kind::resources, words_of(reply->body["error"])});
    if (reply) peak_flops_ = std::max(peak_flops_, peak_flops_of(reply->body));
    return reply;
  }

  static void read_row(const nlohmann::json& answer, Measured& row) {
    const auto read = measured_from(answer);
    if (!read) return fail_row(row, {Failure::Kind::crashed, read.error().message});
    row.outcome = read->outcome;
    row.round = read->round;
    row.verified = read->verified;
    row.disturbed = read->disturbed;
  }

  const Gemm gemm_;
  const DeviceCaps device_;
  const int device_index_;
  const TuneOptions options_;
  const bool sustained_ = options_.policy == TuningPolicy::sustained;
  const double race_share_ = race_share(options_.policy);
  const std::shared_ptr<const Budget> time_;
  CandidateCode code_;
  const DeviceLock lock_;
  const std::filesystem::path executable_;
  const std::shared_ptr<IdleWorker> idle_;
  std::optional<WorkerProcess> worker_;
  std::set<Config> verified_here_;  // by this search's worker
  OwnCheck own_check_{gemm_, device_};
  std::map<Config, Verdict> confirmed_;
  double best_ns_ = 0, peak_flops_ = 0;  // the best's, comparable
  std::optional<Config> reference_;      // timed beside candidates
  double reference_ns_ = 0;
  std::optional<Config> best_;
  std::string conditions_;
  const CandidateCode::Told told_ = [this](std::size_t done, std::size_t total) {
    compiling(done, total);
  };
  int culprit_ = 0;
  std::uint64_t admitted_ = 0;  // WorkerStatus::admitted of the last request
  bool cut_ = false;            // the last request had no answer in its time
  bool peer_races_ = true;      // false once it has crashed a worker
  bool broken_ = false;         // no worker can be started any more
  bool begun_ = false;  // there is a kernel, or enough have none: until then the budget is not kept
  int silent_ = 0, refused_ = 0;  // candidates that timed out, or failed otherwise, before
  bool told_of_cage_ = false;
  bool resting_ = false;  // the worker has no problem
};

}  // namespace

Result<std::unique_ptr<Evaluator>> worker_evaluator(const SearchInput& input, Compiler& compiler) {
  if (const Status room = room_to_tune(input.gemm, input.device); !room)
    return tl::unexpected(room.error());
  auto executable = find_worker();
  if (!executable) return tl::unexpected(executable.error());
  const double patience = kLockPatienceSeconds + input.options.budget.count();
  const double before = input.time ? input.time->spent() : 0;
  auto lock = DeviceLock::acquire(
      lock_name(input.device.vendor, input.device_index), std::chrono::duration<double>(patience),
      [](const std::string& message) { log::warn("{}", message); }, input.options.cancelled);
  if (!lock) return tl::unexpected(lock.error());
  if (input.time) input.time->leave_out_since(before);
  auto evaluator =
      std::make_unique<WorkerEvaluator>(input, compiler, std::move(*lock), *executable);
  if (const Status started = evaluator->start(); !started) return tl::unexpected(started.error());
  return evaluator;
}

}  // namespace kiln
