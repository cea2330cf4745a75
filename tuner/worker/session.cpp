#include "tuner/worker/session.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "tuner/bound_kernel.h"
#include "tuner/ragged.h"
#include "tuner/stopping.h"
#include "tuner/verify.h"

namespace kiln {
namespace {

using nlohmann::json;

// Up to here a check costs less than a compile, so it comes first and a wrong kernel is called
// wrong even when it is slow as well. Beyond, the hopeless are dropped before the check.
constexpr std::int64_t kCheapToVerify = std::int64_t{1} << 25;  // multiply-adds
constexpr double kScreenSampleNs = 20'000;
constexpr double kRaceSampleNs = 100'000;
constexpr int kRaceSamples = 60;
constexpr int kRaceMinSamples = 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // shadow memory takes terabytes of address space
#else
constexpr bool kSanitized = false;
#endif

/// Room for operands, references in double and a kernel's workspace, above what is mapped already;
/// a candidate that asks for more is refused before it can hurt the machine.
void limit_address_space(std::int64_t set_bytes) {
  if (kSanitized) return;
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto mapped = static_cast<std::int64_t>(pages) * 4096;
  const auto limit = static_cast<rlim_t>(mapped + 2 * kRotationLimitBytes + 24 * set_bytes +
                                         (std::int64_t{4} << 30));
  rlimit current{};
  getrlimit(RLIMIT_AS, &current);
  const rlimit wanted{std::min(limit, current.rlim_max), current.rlim_max};
  setrlimit(RLIMIT_AS, &wanted);
}

Failure memory_failure(const Error& error) { return {Failure::Kind::resources, error.message}; }

}  // namespace

struct Session::Problem {
  Gemm gemm;
  DeviceCaps device;
  OperandSets sets;
  Verifier verifier;
  std::uint64_t seed;
  Gate gate;
  std::optional<Verifier> ragged_verifier = std::nullopt;

  int threads() const { return device.compute_units; }

  Result<BoundKernel> load(int file) const {
    return read_file(file)
        .and_then([](const std::vector<std::byte>& image) { return HostKernel::load(image); })
        .map([&](HostKernel kernel) { return BoundKernel(std::move(kernel), gemm, threads()); });
  }

  Verdict check(BoundKernel& kernel) {
    return verifier.check([&](const Operands& operands) { return kernel.run(operands); });
  }

  /// The same code on a nearby ragged problem, where it covers one.
  Verdict check_ragged(BoundKernel& kernel, const Config& config) {
    const auto neighbour = ragged_problem_for(gemm, device, config);
    if (!neighbour) return {};
    if (!ragged_verifier || ragged_verifier->gemm() != *neighbour) {
      auto made = Verifier::make(*neighbour, {.seed = seed, .effort = Effort::quick});
      if (!made) return tl::unexpected(memory_failure(made.error()));
      ragged_verifier.emplace(std::move(*made));
    }
    const Canonical canonical = canonicalise(*neighbour);
    auto verdict = ragged_verifier->check(
        [&](const Operands& operands) { return kernel.run(canonical, operands); });
    if (!verdict) verdict.error().detail += fmt::format(" (on '{}')", text(*neighbour));
    return verdict;
  }
};

Session::Session(WorkerStatus* status) : status_(status) {}
Session::~Session() = default;

void Session::enter(WorkerStatus::Phase phase, int candidate) {
  status_->candidate.store(candidate, std::memory_order_relaxed);
  status_->phase.store(phase, std::memory_order_release);
}

json Session::answer(const Message& request) {
  json reply;
  try {
    const auto what = request.body.at("do").get<std::string>();
    if (what == "problem") {
      reply = prepare(request.body);
    } else if (what == "check") {
      reply = check(request);
    } else if (!problem_) {
      reply = {{"error", fmt::format("do = {}: no problem was set", what)}};
    } else if (what == "screen") {
      reply = screen(request);
    } else if (what == "race") {
      reply = race(request);
    } else {
      reply = {{"error", fmt::format("do = {}: unknown request", what)}};
    }
  } catch (const std::bad_alloc&) {
    reply = {{"error", "no memory"}};
  } catch (const std::exception& e) {  // of the request: a field, a file
    reply = {{"error", e.what()}};
  }
  enter(WorkerStatus::idle);
  return reply;
}

json Session::prepare(const json& request) {
  enter(WorkerStatus::preparing);
  const auto seed = request.at("seed").get<std::uint64_t>();
  const auto failed = [](const Error& e) { return json{{"error", e.message}}; };
  const auto gemm = parse_gemm(request.at("gemm").get<std::string>());
  if (!gemm) return failed(gemm.error());
  const auto device = caps_from(request.at("device"));
  if (!device) return failed(device.error());
  // Asked for its side effect too: the tile registers are granted to each process on request.
  if (const auto here = detect_cpu(device->compute_units); !here) return failed(here.error());
  limit_address_space(touched_bytes(*gemm));
  auto sets = OperandSets::make(*gemm, *device, seed);
  if (!sets) return failed(sets.error());
  auto verifier = Verifier::make(*gemm, {.seed = seed});
  if (!verifier) return failed(verifier.error());
  problem_ =
      std::make_unique<Problem>(Problem{*gemm, *device, std::move(*sets), std::move(*verifier),
                                        seed, fma_gate(device->compute_units)});
  return {{"sets", problem_->sets.count()}};
}

json Session::screen(const Message& request) {
  Problem& p = *problem_;
  const auto best_ns = request.body.at("best_ns").get<double>();
  enter(WorkerStatus::loading);
  auto kernel = p.load(request.files.at(0).get());
  if (!kernel)
    return answer_of(Failure{Failure::Kind::load, kernel.error().message}, Round::screen, false);

  const auto verdict = [&] {
    enter(WorkerStatus::verifying);
    return p.check(*kernel);
  };
  const Gemm& g = p.gemm;
  bool verified = false;
  if (g.m * g.n * g.k * g.batch <= kCheapToVerify) {
    if (const Verdict v = verdict(); !v) return answer_of(v.error(), Round::screen, false);
    verified = true;
  }
  enter(WorkerStatus::timing);
  const ScreeningRule rule;
  auto calls = kernel->calls(p.sets);
  if (!calls) return answer_of(memory_failure(calls.error()), Round::screen, verified);
  Sampler sampler(*calls, {.sets = p.sets.count(), .sample_ns = kScreenSampleNs, .gate = p.gate});
  sampler.take(rule.first.samples, rule.first.budget_ns);
  if (screened_out(sampler.timing().median_ns, best_ns, rule.first))
    return answer_of(sampler.timing(), Round::screen, verified);
  sampler.take(rule.second.samples, rule.second.budget_ns);
  if (screened_out(sampler.timing().median_ns, best_ns, rule.second))
    return answer_of(sampler.timing(), Round::screen, verified);
  // A check of a big problem costs more than its timing: only what could win is checked.
  if (!verified)
    if (const Verdict v = verdict(); !v) return answer_of(v.error(), Round::screen, false);
  return answer_of(sampler.timing(), Round::second, true);
}

// What a finalist must pass before it may race: a whole check unless it had one, and the same code
// on a ragged problem.
Result<Verdict> Session::admit(const json& entry, BoundKernel& kernel) {
  const auto config = parse_config(entry.at("config").get<std::string>());
  if (!config) return tl::unexpected(config.error());
  Verdict verdict = entry.at("verified").get<bool>() ? Verdict{} : problem_->check(kernel);
  return verdict ? problem_->check_ragged(kernel, *config) : verdict;
}

json Session::race(const Message& request) {
  const json& entries = request.body.at("entries");
  std::vector<json> rows(entries.size());
  std::vector<BoundKernel> kernels;  // reserved: calls hold their kernel's address
  kernels.reserve(entries.size());
  std::vector<Calls> contenders;
  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int candidate = static_cast<int>(i);
    const auto failed = [&](Failure failure) {
      rows[i] = answer_of(std::move(failure), Round::race, false);
    };
    enter(WorkerStatus::loading, candidate);
    auto kernel = problem_->load(request.files.at(i).get());
    if (!kernel) {
      failed({Failure::Kind::load, kernel.error().message});
      continue;
    }
    kernels.push_back(std::move(*kernel));
    enter(WorkerStatus::verifying, candidate);
    const auto verdict = admit(entries[i], kernels.back());
    if (!verdict) return {{"error", verdict.error().message}};
    if (!*verdict) {
      failed(verdict->error());
      continue;
    }
    enter(WorkerStatus::racing, candidate);
    auto calls = kernels.back().calls(problem_->sets);
    if (!calls) {
      failed(memory_failure(calls.error()));
      continue;
    }
    contenders.push_back([this, candidate, run = std::move(*calls)](auto first, auto count) {
      enter(WorkerStatus::racing, candidate);
      run(first, count);
    });
    who.push_back(i);
  }
  const auto samples = run_race(contenders, request.body.at("budget_ns").get<double>());
  for (std::size_t i = 0; i < who.size(); ++i)
    rows[who[i]] = answer_of(timing_of(samples[i].ns), Round::race, true);
  return {{"rows", rows}};
}

std::vector<Samples> Session::run_race(const std::vector<Calls>& contenders,
                                       double budget_ns) const {
  const auto stop = [](const std::vector<Samples>& samples) {
    std::vector<Timing> timings;
    for (const Samples& s : samples) timings.push_back(timing_of(s.ns));
    return samples.size() > 1 && decided(timings, kRaceMinSamples);
  };
  const MeasureOptions options{.sets = problem_->sets.count(),
                               .samples = kRaceSamples,
                               .sample_ns = kRaceSampleNs,
                               .budget_ns = budget_ns,
                               .gate = problem_->gate};
  return kiln::race(contenders, options, stop);
}

}  // namespace kiln
