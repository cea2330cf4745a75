#include "tuner/worker/program/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "generator/space/space.h"
#include "runtime/cpu/image.h"
#include "runtime/cpu/thread_pool.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/search/stopping.h"
#include "tuner/verify/ragged.h"
#include "tuner/verify/verify.h"
#include "tuner/worker/program/cage.h"

namespace kiln {
namespace {

using nlohmann::json;

// Up to here a check costs less than a compile, so it comes first and a wrong kernel is called
// wrong even when it is slow as well. Beyond, the hopeless are dropped before the check.
constexpr std::int64_t kCheapToVerify = std::int64_t{1} << 25;  // multiply-adds
constexpr double kScreenSampleNs = 20'000;
constexpr double kRaceSampleNs = 100'000;

Failure memory_failure(const Error& error) { return {Failure::Kind::resources, error.message}; }

}  // namespace

struct Session::Problem {
  Gemm gemm;
  DeviceCaps device;
  OperandSets sets;
  Verifier verifier;
  std::uint64_t seed;
  std::shared_ptr<SpeedGate> probe;
  Gate gate = fma_gate(probe);
  std::optional<Verifier> ragged_verifier = std::nullopt;

  int threads() const { return device.compute_units; }

  Result<BoundKernel> load(int file) const {
    return read_file(file)
        .and_then([](const std::vector<std::byte>& image) { return HostKernel::load(image); })
        .map([&](HostKernel kernel) { return BoundKernel(std::move(kernel), gemm, threads()); });
  }

  Verdict check(BoundKernel& kernel, const Config& config) {
    return verifier.check([&](const Operands& operands) { return kernel.run(operands); },
                          flushed_by(gemm, device, config));
  }

  /// The same code on a nearby ragged problem, where it covers one.
  Verdict check_ragged(BoundKernel& kernel, const Config& config) {
    const auto neighbour = ragged_problem_for(gemm, device, config);
    if (!neighbour) return {};
    if (!ragged_verifier || ragged_verifier->gemm() != *neighbour) {
      auto made = Verifier::make(*neighbour,
                                 {.seed = seed, .effort = Effort::quick, .ask_for_room = false});
      if (!made) return tl::unexpected(memory_failure(made.error()));
      ragged_verifier.emplace(std::move(*made));
    }
    const Canonical canonical = canonicalise(*neighbour);
    auto verdict = ragged_verifier->check(
        [&](const Operands& operands) { return kernel.run(canonical, operands); },
        flushed_by(gemm, device, config));
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
    } else if (what == "run") {
      reply = run(request);
    } else if (!problem_) {
      reply = {{"error", fmt::format("do = {}: no problem was set", what)}};
    } else if (what == "screen" || what == "race") {
      reply = what == "screen" ? screen(request) : race(request);
      reply["peak_flops"] = problem_->probe->peak_flops();
    } else {
      reply = {{"error", fmt::format("do = {}: unknown request", what)}};
    }
  } catch (const std::bad_alloc&) {
    reply = {{"error", "no memory"}};
  } catch (const std::exception& e) {  // of the request: a field, a file
    reply = {{"error", e.what()}};
  }
  if (!cage_.empty()) reply["cage"] = cage_;
  enter(WorkerStatus::idle);
  return reply;
}

/// What every problem needs of the system before there is a cage. Errors: device.
Status Session::open_for(const Gemm& gemm, int threads) {
  if (!cage_.empty())
    return fail(ErrorCode::device,
                fmt::format("'{}': this worker serves another problem", text(gemm)));
  // Asked for its side effect: tile registers are granted to each process on request.
  if (const auto here = detect_cpu(threads); !here) return tl::unexpected(here.error());
  return {};
}

/// What code will need that has a path is opened first: libm, and the threads, which are placed by
/// what the system's files say of its cores. Their stacks do not count against the limit of address
/// space, of which there is none without `set_bytes`.
void Session::confine(int threads, std::optional<std::int64_t> set_bytes) {
  if (!cage_.empty()) return;
  LoadedImage::prepare();
  const TeamLease team(threads);
  if (set_bytes) limit_address_space(*set_bytes);
  cage_ = enter_cage(CageKind::host, status_);
}

json Session::prepare(const json& request) {
  enter(WorkerStatus::preparing);
  const auto seed = request.at("seed").get<std::uint64_t>();
  const auto failed = [](const Error& e) { return json{{"error", e.message}}; };
  const auto gemm = parse_gemm(request.at("gemm").get<std::string>());
  if (!gemm) return failed(gemm.error());
  const auto device = caps_from(request.at("device"));
  if (!device) return failed(device.error());
  if (const Status ok = open_for(*gemm, device->compute_units); !ok) return failed(ok.error());
  auto sets = OperandSets::make(*gemm, *device, seed);
  if (!sets) return failed(sets.error());
  auto verifier = Verifier::make(*gemm, {.seed = seed});
  if (!verifier) return failed(verifier.error());
  problem_ = std::make_unique<Problem>(
      Problem{*gemm, *device, std::move(*sets), std::move(*verifier), seed,
              std::make_shared<SpeedGate>(device->compute_units, gemm->a.dtype)});
  confine(device->compute_units, touched_bytes(*gemm));
  return {{"sets", problem_->sets.count()}};
}

json Session::screen(const Message& request) {
  Problem& p = *problem_;
  const auto best_ns = request.body.at("best_ns").get<double>();
  enter(WorkerStatus::loading);
  const auto config = parse_config(request.body.at("config").get<std::string>());
  if (!config)
    return answer_of(Failure{Failure::Kind::load, config.error().message}, Round::screen, false);
  auto kernel = p.load(request.files.at(0).get());
  if (!kernel)
    return answer_of(Failure{Failure::Kind::load, kernel.error().message}, Round::screen, false);

  const auto verdict = [&] {
    enter(WorkerStatus::verifying);
    return p.check(*kernel, *config);
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
  Verdict verdict = entry.at("verified").get<bool>() ? Verdict{} : problem_->check(kernel, *config);
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
