// tune(): the search with the store as its memory, now or in the background.
#include <fmt/format.h>

#include <algorithm>

#include "cache/exchange/offline.h"
#include "cache/keys.h"
#include "cache/records/binaries.h"
#include "cache/records/fit_class.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "engine/peak.h"
#include "engine/stored_record.h"
#include "generator/render/code_key.h"
#include "runtime/log.h"
#include "tuner/search/budget.h"
#include "tuner/verify/envelope.h"
#include "tuner/worker/process.h"

namespace kiln {
namespace {

constexpr std::size_t kPredictedTried = 8;
// Of the seconds after the budget, when the proof of the winner for other sizes is cut off.
constexpr double kProvedUntil = 0.7 * kGraceSeconds;

void warn_of_disturbance(const Measured& measured, TuneReport& report) {
  report.disturbed = measured.disturbed;
  if (measured.disturbed.empty()) return;
  report.warnings.push_back(
      fmt::format("measured on a disturbed machine: {}; the next tune() of it searches anew",
                  measured.disturbed));
}

TuneReport report_of(const Gemm& gemm, const Record& record) {
  TuneReport report;
  report.gemm = gemm;
  report.threads = record.key.device.compute_units;
  report.config = text(record.measured.config);
  report.policy = record.key.policy;
  report.timing = record.measured.timing();
  report.already_tuned = true;
  report.searched = record.searched;
  warn_of_disturbance(record.measured, report);
  return report;
}

/// The fastest of this search's kernels that were raced, and its winner.
double fastest_rate(const Gemm& gemm, const SearchResult& result) {
  double fastest = flops_per_second(gemm, result.measured[*result.winner].timing());
  for (std::size_t i = result.known; i < result.measured.size(); ++i) {
    const Measured& row = result.measured[i];
    if (row.ok() && row.verified && row.round == Round::race)
      fastest = std::max(fastest, flops_per_second(gemm, row.timing()));
  }
  return fastest;
}

/// Whether a record leaves nothing to search within these limits. One of a file that cannot be
/// written (a shipped one) is complete: else every process that calls tune() would search its
/// problem again. So is one made before extents were stored: nothing is known of its search.
bool complete(const Record& record, const TuneOptions& options) {
  return !record.writable || is_complete(record, options.budget.count(), options.candidates);
}

/// What this search adds to the searches it continues, and how long it may take.
class Continued {
 public:
  Continued(const std::optional<Record>& record, const TuneOptions& options, bool anew)
      : budget_(options.budget.count()) {
    if (record && record->searched && !anew && record->searched->spent_seconds < budget_)
      before_ = *record->searched;
  }
  double seconds_left() const { return budget_ - before_.spent_seconds; }
  SearchExtent with(const SearchResult& result) const {
    using End = SearchResult::End;
    const bool spent = result.end == End::budget || result.end == End::space;
    return {.seconds = before_.seconds + result.seconds,
            .budget_seconds = budget_,
            .spent_seconds =
                spent ? budget_ : std::min(budget_, before_.spent_seconds + result.seconds),
            .measured = result.timed,
            .failed = result.failed,
            .enumerated = result.enumerated,
            .whole_space = result.end == End::space,
            .interrupted = result.end == End::cancelled};
  }

 private:
  double budget_;
  SearchExtent before_;
};

/// Counts candidates, not rows: a finalist has one row for each round, and the vendor's library
/// raced beside them.
void count_outcomes(const SearchResult& result, TuneReport& report) {
  std::set<Config> seen;
  for (std::size_t i = result.known; i < result.measured.size(); ++i) {
    const Measured& measured = result.measured[i];
    if (is_library(measured.config)) continue;
    if (!seen.insert(measured.config).second) continue;
    const bool compiled = measured.ok() || measured.failure().kind != Failure::Kind::compile;
    report.compiled += compiled;
    report.measured += measured.ok();
    report.failed += !measured.ok();
  }
}

TuneReport report_of(const Gemm& gemm, const BestKey& key, const SearchResult& result) {
  const Measured& winner = result.measured[*result.winner];
  TuneReport report;
  report.gemm = gemm;
  report.threads = key.device.compute_units;
  report.config = text(winner.config);
  report.policy = key.policy;
  report.timing = winner.timing();
  report.enumerated = static_cast<int>(result.enumerated);
  report.seconds = result.seconds;
  count_outcomes(result, report);
  return report;
}

}  // namespace

Status check_budget(const TuneOptions& options) {
  constexpr double kLongest = 86400.0 * 365;
  if (options.candidates < 0)
    return fail(ErrorCode::bad_input,
                fmt::format("candidates = {}: must be 0 (any number) or more", options.candidates));
  if (options.budget.count() > 0 && options.budget.count() <= kLongest) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("budget = {} s: must be more than 0 and at most {} (a year)",
                          options.budget.count(), kLongest));
}

Result<TuneReport> TuningSession::tune(const Gemm& gemm, const TuneOptions& options) {
  if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
  const auto threads = engine_.threads_of(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  if (Status ok = check_budget(options); !ok) return tl::unexpected(ok.error());
  const auto policy = engine_.policy_of(gemm, options.policy);
  if (!policy) return tl::unexpected(policy.error());
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0) {
    TuneReport nothing;
    nothing.gemm = gemm;
    nothing.threads = *threads;
    nothing.config = "reference";
    nothing.policy = engine_.policy_name(*policy);
    nothing.already_tuned = true;
    return nothing;
  }
  TuneOptions chosen = options;
  chosen.policy = *policy;
  const std::lock_guard lock(searching_);
  return tune_locked(gemm, chosen);
}

Result<TuneReport> TuningSession::tune_locked(const Gemm& gemm, const TuneOptions& options,
                                              const std::shared_ptr<IdleWorker>& of_range) {
  const auto time = std::make_shared<Budget>(options.budget.count(), clock);
  const auto threads = engine_.threads_of(options.threads);
  const BestKey key = engine_.key_of(gemm, *threads, options.policy);
  const auto compiler = engine_.admission.compiler();
  Validators with = engine_.now;
  if (compiler) with.compiler = (*compiler)->version();
  if (!options.force && !(options.race && compiler)) {
    const auto record = engine_.best(key, with);
    const bool serves =
        record && (!of_range || has_envelope(key.gemm, key.device, record->measured.config));
    const bool whole = serves && complete(*record, options);
    if (whole || (record && !compiler)) {
      TuneReport report = report_of(gemm, *record);
      report.peak_flops = raised_peak(key, 0, flops_per_second(gemm, report.timing));
      if (!whole)
        report.warnings.push_back("the search cannot continue: " + compiler.error().message);
      if (record->writable && !record->image.empty())
        if (const Status proof = prove_in_time(*record, record->image, *time); !proof)
          report.warnings.push_back(proof.error().message);
      if (std::string advice = slow_types(gemm, key.device); !advice.empty())
        report.warnings.push_back(std::move(advice));
      return report;
    }
  }
  if (!compiler) return tl::unexpected(compiler.error());
  return search_and_store(gemm, key, **compiler, options, of_range, time);
}

Status TuningSession::prove_in_time(const Record& record, std::span<const std::byte> image,
                                    const Budget& time) {
  if (!has_envelope(record.key.gemm, record.key.device, record.measured.config) ||
      engine_.store->proofs().code_proven(record))
    return {};
  const auto over = [&] { return time.late(kProvedUntil); };
  if (!over()) {
    const CutOff end(over);
    const Status proof = engine_.admission.prove_envelope(record, image);
    if (proof || proof.error().code == ErrorCode::verification || !over()) return proof;
  }
  return fail(ErrorCode::device,
              fmt::format("{}: the budget ended before its kernel was proved for other sizes; the "
                          "next tune() goes on with that",
                          text(record.key.gemm)));
}

Result<TuneReport> TuningSession::search_and_store(const Gemm& gemm, const BestKey& key,
                                                   Compiler& compiler, const TuneOptions& options,
                                                   const std::shared_ptr<IdleWorker>& of_range,
                                                   const std::shared_ptr<Budget>& time) {
  Validators made_by = engine_.now;
  made_by.compiler = compiler.version();
  std::vector<std::string> warnings;
  const auto note = [&](const Status& status) {
    if (status || std::count(warnings.begin(), warnings.end(), status.error().message)) return;
    warnings.push_back(status.error().message);
  };
  note(engine_.store->begin_session(
      {.command = "tune", .seed = options.seed, .budget_seconds = options.budget.count()}));

  SearchInput input{
      .gemm = key.gemm, .device = key.device, .options = options, .determinism = key.determinism};
  input.options.threads = key.device.compute_units;
  input.device_index = engine_.gpu ? engine_.gpu->ordinal() : 0;
  input.options.cancelled = [this, asked = options.cancelled] {
    return engine_.background.closing() || (asked && asked());
  };
  const auto record = engine_.best(key, made_by);
  // Candidates are screened as the cool policy says, whatever the race is.
  const BestKey cool = engine_.key_of(gemm, key.device.compute_units);
  const bool under_load = options.policy == TuningPolicy::sustained;
  // What was measured on a disturbed machine orders no candidates.
  const bool anew = options.force || (record && !record->measured.disturbed.empty());
  const Continued continued(record, options, anew);
  input.race_alone = options.race && !options.force && record;
  if (!input.race_alone)
    input.options.budget = std::chrono::duration<double>(continued.seconds_left());
  time->set(input.options.budget.count());
  input.time = time;
  if (!anew && !input.race_alone) input.known = engine_.store->measurements().known(cool, made_by);
  if (record) input.incumbent = record->measured.config;
  std::optional<Config> won_cool;
  if (under_load)
    if (const auto won = engine_.best(cool, made_by)) won_cool = won->measured.config;
  if (!input.race_alone) input.guest = won_cool;
  // What was ranked for such a device before it was here.
  input.first = predicted_configs(*engine_.store, key.device, key.gemm, kPredictedTried);
  // What is best for the product alone is good for it with an expression, nearly always.
  if (const auto bare = without_expression(cool))
    if (const auto alone = engine_.best(*bare, made_by))
      input.first.insert(input.first.begin(), alone->measured.config);
  for (Config& config : engine_.resolver.stored_configs(cool))
    input.first.push_back(std::move(config));
  input.worker = of_range;
  if (of_range)
    input.allowed = [&key](const Config& c) { return has_envelope(key.gemm, key.device, c); };
  share_code(input, compiler);
  input.sink = [&](const Evidence& evidence) {
    const Measured& row = evidence.measured;
    // A full machine says nothing about a candidate: a later search tries it again.
    if (!row.ok() && row.failure().kind == Failure::Kind::resources) return;
    const bool raced = row.round == Round::race;
    if (!raced && won_cool == row.config) return;  // its race's time says more
    note(engine_.store->measurements().put(raced ? key : cool, made_by, row));
  };

  auto evaluator = make_evaluator(input, compiler);
  if (!evaluator) return tl::unexpected(evaluator.error());
  const auto result = search(input, **evaluator);
  if (!result) return tl::unexpected(result.error());
  if (!result->winner)
    return fail(ErrorCode::not_tuned, fmt::format("{}: cancelled before any kernel {}", text(gemm),
                                                  under_load ? "raced under load" : "was chosen"));
  const Measured& winner = result->measured[*result->winner];

  // A search that was cancelled names one that did not race.
  if (const Verdict right = (*evaluator)->confirm(winner.config); !right)
    return fail(ErrorCode::verification, fmt::format("{}: {}", text(gemm), right.error().detail));
  auto built = code_of(key, winner.config, (*evaluator)->artifact(winner.config), made_by.compiler);
  if (!built) return tl::unexpected(built.error());
  Measured stored = winner;
  stored.binary_key = built->binary.key;
  note(engine_.store->binaries().put(built->binary));
  note(engine_.store->measurements().put(key, made_by, stored));
  const auto searched = input.race_alone ? record->searched : continued.with(*result);
  // A search for a range leaves a faster kernel that serves this size alone where it is.
  const bool yields = of_range && record &&
                      record->measured.timing().median_ns < winner.timing().median_ns &&
                      !has_envelope(key.gemm, key.device, record->measured.config);
  if (!yields) {
    // Before make_winner(): a winner without an extent would count as complete.
    if (searched) note(engine_.store->measurements().put_search(key, made_by, *searched));
    note(engine_.store->winners().make_winner(key, made_by, winner.config));
    // Where there is a record of a race under load, its kernel stays.
    if (under_load || engine_.backend.sustained.empty() ||
        !engine_.best(engine_.key_of(gemm, key.device.compute_units, TuningPolicy::sustained),
                      made_by))
      engine_.resolver.install(gemm, key, winner.config,
                               "tuned for exactly this problem by this process", built->kernel);
  }
  const double probed = (*evaluator)->peak_flops();
  const std::string conditions = (*evaluator)->conditions();
  if (!time->late(kProvedUntil)) note(fit_class(*engine_.store, cool));
  // Afterwards it serves every size. What has all its sizes in the code does not.
  (*evaluator)->rest();  // its worker's operands may leave no room
  const Record made{.key = key, .validators = made_by, .measured = stored};
  // Without their proof a range's kernels serve nothing.
  if (of_range && has_envelope(key.gemm, key.device, winner.config) &&
      !engine_.store->proofs().code_proven(made))
    note(engine_.admission.prove_envelope(made, built->binary.image));
  if (!of_range) note(prove_in_time(made, built->binary.image, *time));
  engine_.resolver.forget_stored();

  TuneReport report = report_of(gemm, key, *result);
  report.searched = searched;
  report.peak_flops = raised_peak(key, probed, fastest_rate(gemm, *result));
  report.conditions = conditions;
  report.warnings = std::move(warnings);
  warn_of_disturbance(winner, report);
  if (std::string advice = slow_types(gemm, key.device); !advice.empty())
    report.warnings.push_back(std::move(advice));
  return report;
}

void TuningSession::share_code(SearchInput& input, const Compiler& compiler) {
  input.stored = [this, version = compiler.version()](const Source& source) {
    if (auto compiled = code_cache_.find(source)) return compiled;
    auto code = engine_.store->binaries().of_source(code_key(source), version);
    if (!code || code->image.empty()) return std::optional<Binary>();
    return std::optional(Binary{.image = std::move(code->image)});
  };
  input.compiled = [this](const Source& source, const Binary& binary) {
    code_cache_.keep(source, binary);
  };
}

Result<Built> TuningSession::code_of(const BestKey& key, const Config& config,
                                     const Artifact* artifact, const std::string& compiler) {
  // A known row that won again was not compiled by this search.
  if (artifact == nullptr || !artifact->binary) return engine_.admission.admitted(key, config);
  auto kernel = engine_.admission.load(artifact->binary->image);
  if (!kernel) return tl::unexpected(kernel.error());
  return Built{std::move(*kernel),
               {.key = binary_key(artifact->source, compiler),
                .code_key = code_key(artifact->source),
                .compiler = compiler,
                .source = artifact->source.text,
                .image = artifact->binary->image}};
}

void TuningSession::tune_queued(const BackgroundQueue::Job& job) {
  const auto report =
      shielded([&] { return tune_and_confirm(job.gemm, {.threads = job.threads}); });
  if (report) warn_of(*report);
  if (!report && !engine_.background.closing())
    log::warn("background tuning of {}: {}", text(job.gemm), report.error().message);
}

}  // namespace kiln
