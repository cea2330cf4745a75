#include "bench/contest.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/peak.h"
#include "engine/policy_plan.h"
#include "generator/problem/timed_flops.h"

namespace kiln {
namespace {

/// Of a race under load: three contestants take some ten seconds.
constexpr int kLoadRounds = 5;

/// A wrong result is the row's fault; a device that gave up is an error.
Status check(Contest& race, const char* when, ContestResult& result) {
  const auto fault = race.fault();
  if (!fault) return fail(fault.error().code, when + fault.error().message);
  result.verified = result.fault.empty() && !*fault;
  if (*fault && result.fault.empty()) result.fault = when + **fault;
  return {};
}

/// Operations a second of the fastest contestant with a correct result.
double fastest_rate(const ContestResult& result) {
  double ns = result.verified ? result.kiln.median_ns : 0;
  for (const auto& [peer, timing] : result.peers)
    if (ns <= 0 || timing.median_ns < ns) ns = timing.median_ns;
  return ns > 0 ? timed_flops(result.gemm) / (ns * 1e-9) : 0;
}

}  // namespace

Result<RaceTimes> Contest::race_under_load(int) {
  return fail(ErrorCode::unsupported,
              "sustained = true: contestants on a CPU are timed in one way; it is for GPUs");
}

std::string ContestResult::best_peer() const {
  const auto best = std::min_element(peers.begin(), peers.end(), [](const auto& a, const auto& b) {
    return a.second.median_ns < b.second.median_ns;
  });
  return best == peers.end() ? std::string() : best->first;
}

double ContestResult::ratio() const {
  const std::string best = best_peer();
  return best.empty() || kiln.median_ns <= 0 ? 0 : peers.at(best).median_ns / kiln.median_ns;
}

Result<ContestResult> contest(Engine& engine, const RaceTrack& track, const Gemm& gemm, int threads,
                              const ContestOptions& options, const std::vector<Entrant>& others) {
  if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || gemm.batch == 0)
    return fail(ErrorCode::bad_input,
                fmt::format("{}: a problem with a size of 0 has nothing to time", text(gemm)));
  const auto plan = engine.plan(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  const auto race = track.prepare(gemm, threads, options.seed);
  if (!race) return tl::unexpected(race.error());

  ContestResult result;
  result.gemm = gemm;
  result.threads = threads;
  result.config = plan->config();
  result.match = plan->match();
  result.policy = options.sustained ? track.backend().sustained : track.backend().policy;
  Status ok = (*race)->enter(engine, *plan);
  for (const Entrant& other : others)
    if (ok) ok = (*race)->enter(other.engine, other.plan);
  Result<std::optional<Plan>> cool = std::nullopt;
  if (options.sustained) cool = plan_of_policy(engine, gemm, threads, TuningPolicy::cool);
  if (!cool) return tl::unexpected(cool.error());
  const bool cool_races = *cool && (*cool)->config() != plan->config();
  if (ok && cool_races) ok = (*race)->enter(engine, **cool);
  if (ok) ok = check(**race, "", result);
  if (ok) ok = (*race)->admit_peers(result.excluded);
  if (!ok) return tl::unexpected(ok.error());
  auto times = options.sustained ? (*race)->race_under_load(std::min(options.samples, kLoadRounds))
                                 : (*race)->race(options.samples, options.budget_ns);
  if (!times) return tl::unexpected(times.error());
  // Thousands of calls later it must be right still.
  if (ok = check(**race, "after the race: ", result); !ok) return tl::unexpected(ok.error());
  result.kiln = times->plans.front();
  result.others.assign(times->plans.begin() + 1, times->plans.end());
  if (*cool) {
    result.cool = cool_races ? result.others.back() : result.kiln;
    result.cool_config = (*cool)->config();
  }
  if (cool_races) result.others.pop_back();
  result.peers = std::move(times->peers);
  for (const auto& [peer, version] : track.versions())
    if (result.peers.contains(peer)) result.versions[peer] = version;
  result.conditions = times->conditions;
  result.peak_flops = raised_peak(engine, gemm, threads, times->probed_flops, fastest_rate(result));
  return result;
}

}  // namespace kiln
