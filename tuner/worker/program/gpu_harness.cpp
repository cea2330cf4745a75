// Kernels on a GPU, whoever made it: its own context, operands and references on the device.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/backend.h"
#include "tuner/measure/gpu_candidate.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/vendor_library.h"
#include "tuner/search/stopping.h"
#include "tuner/verify/ragged.h"
#include "tuner/worker/program/cage.h"
#include "tuner/worker/program/harness.h"

namespace kiln {
namespace {

tl::unexpected<Failure> lost(const Error& error) {
  return tl::unexpected(Failure{Failure::Kind::crashed, error.message});
}

/// What candidates of a problem share.
struct GpuProblem {
  HarnessInput input;
  std::shared_ptr<const GpuTools> tools;
  GpuChecker checker;
  std::optional<GpuOperandSets> sets = std::nullopt;    // where calls are to be timed
  std::optional<GpuChecker> ragged = std::nullopt;      // of the last candidate's neighbour
  std::optional<VendorLibrary> library = std::nullopt;  // once sought
  std::optional<int> fastest = std::nullopt;            // its fastest correct proposal
  bool peer_sought = false;
};

class GpuContender final : public Contender {
 public:
  explicit GpuContender(GpuCalls calls) : calls_(std::move(calls)) {}
  static tl::expected<std::unique_ptr<Contender>, Failure> make(const GpuProblem& problem,
                                                                const RunOnGpu& run) {
    auto calls = GpuCalls::make(*problem.tools, *problem.sets, run);
    if (!calls) return lost(calls.error());
    return std::make_unique<GpuContender>(std::move(*calls));
  }
  Verdict take(int total, double budget_ns, Contender*) override {
    if (const Status ok = calls_.take(total, budget_ns); !ok) return lost(ok.error());
    return {};
  }
  Timing timing() const override { return calls_.timing(); }
  GpuCalls& calls() { return calls_; }

 private:
  GpuCalls calls_;
};

class LoadedOnGpu final : public Candidate {
 public:
  LoadedOnGpu(GpuCandidate code, const Config& config, GpuProblem& problem)
      : code_(std::move(code)), config_(config), problem_(problem) {}

  Verdict check() override { return problem_.checker.check(code_.run()); }

  Verdict check_ragged() override {
    const HarnessInput& input = problem_.input;
    const auto neighbour = ragged_problem_for(input.gemm, input.device, config_);
    if (!neighbour) return {};
    if (!problem_.ragged || problem_.ragged->gemm() != *neighbour) {
      auto made = GpuChecker::make(problem_.tools, *neighbour, input.options.seed);
      if (!made) return tl::unexpected(resources(made.error()));
      problem_.ragged.emplace(std::move(*made));
    }
    const auto beside = code_.on(*neighbour);
    if (!beside) return tl::unexpected(resources(beside.error()));
    Verdict verdict = problem_.ragged->check(beside->run());
    if (!verdict)
      verdict.error().detail += fmt::format(" (the same code on '{}')", text(*neighbour));
    return verdict;
  }

  tl::expected<std::unique_ptr<Contender>, Failure> contender() override {
    return GpuContender::make(problem_, code_.run());
  }

 private:
  GpuCandidate code_;
  Config config_;
  GpuProblem& problem_;
};

class GpuHarness final : public Harness {
 public:
  Status prepare(const HarnessInput& input) override {
    if (!tools_) {
      auto device = open_gpu(input.device.vendor, input.device_index);
      if (!device) return tl::unexpected(device.error());
      auto tools = GpuTools::make(std::move(*device));
      if (!tools) return tl::unexpected(tools.error());
      tools_ = std::move(*tools);
    }
    problem_.reset();  // its memory first
    auto checker = GpuChecker::make(tools_, input.gemm, input.options.seed);
    if (!checker) return tl::unexpected(checker.error());
    auto problem = std::make_unique<GpuProblem>(GpuProblem{input, tools_, std::move(*checker)});
    if (input.timed) {
      auto sets =
          GpuOperandSets::make(*tools_, Problem::of(input.gemm).value(), input.options.seed);
      if (!sets) return tl::unexpected(sets.error());
      problem->sets.emplace(std::move(*sets));
    }
    problem_ = std::move(problem);
    return {};
  }

  bool serves_many() const override { return true; }
  void rest() override { problem_.reset(); }
  /// The driver is open by now, and has started what it starts.
  std::string confine(WorkerStatus* status) override { return enter_cage(CageKind::gpu, status); }

  int sets() const override { return problem_->sets->count(); }

  tl::expected<std::unique_ptr<Candidate>, Failure> load(std::span<const std::byte> image,
                                                         const Config& config) override {
    const HarnessInput& input = problem_->input;
    auto candidate = GpuCandidate::load(*tools_, image, input.gemm, input.device, config);
    if (!candidate) return tl::unexpected(Failure{Failure::Kind::load, candidate.error().message});
    return std::make_unique<LoadedOnGpu>(std::move(*candidate), config, *problem_);
  }

  bool checks_first() const override { return false; }
  bool checks_after_race() const override { return true; }

  tl::expected<std::optional<Peer>, Failure> peer() override {
    GpuProblem& p = *problem_;
    if (!std::exchange(p.peer_sought, true)) {
      // No library, or no proposal for this problem: no peer in the race.
      if (auto library = VendorLibrary::make(*tools_, p.input.gemm)) {
        std::vector<RefusedChoice> refused;
        const auto best = fastest_choice(*tools_, *library, *p.sets, p.checker, refused);
        if (!best) return lost(best.error());
        p.fastest = *best;
        if (*best) p.library.emplace(std::move(*library));
      }
    }
    if (!p.fastest) return std::nullopt;
    auto contender = GpuContender::make(p, p.library->run(*p.fastest));
    if (!contender) return tl::unexpected(contender.error());
    return Peer{p.library->config(*p.fastest), std::move(*contender)};
  }

  tl::expected<Raced, Failure> race(std::span<Contender* const> contenders,
                                    const RaceRules& rules) override {
    std::vector<GpuCalls*> calls;
    for (Contender* one : contenders) calls.push_back(&static_cast<GpuContender*>(one)->calls());
    if (rules.sustained) return race_loaded(calls, rules);
    const auto stop = [&](const std::vector<Timing>& timings) {
      return rules.over() || (timings.size() > 1 && decided(timings, kRaceMinSamples));
    };
    const auto turn = [&](const GpuCalls* one) {
      rules.on_turn(
          static_cast<std::size_t>(std::find(calls.begin(), calls.end(), one) - calls.begin()));
    };
    const auto conditions =
        gpu_race(calls, kRaceSamples, kRaceMinSamples, rules.budget_ns, stop, turn);
    if (!conditions) return lost(conditions.error());
    Raced raced{.conditions = text(*conditions)};
    for (const GpuCalls* one : calls) raced.timings.push_back(one->timing());
    return raced;
  }

 private:
  static tl::expected<Raced, Failure> race_loaded(const std::vector<GpuCalls*>& calls,
                                                  const RaceRules& rules) {
    LoadRules load{.budget_ns = rules.budget_ns, .on_turn = rules.on_turn};
    load.stop = [&](const std::vector<Timing>& timings) {
      return rules.over() || decided(timings, load.min_rounds);
    };
    auto raced = gpu_race_under_load(calls, load);
    if (!raced) return lost(raced.error());
    return Raced{.timings = std::move(raced->timings), .conditions = text(raced->conditions)};
  }

  std::shared_ptr<const GpuTools> tools_;
  std::unique_ptr<GpuProblem> problem_;
};

}  // namespace

std::unique_ptr<Harness> gpu_harness() { return std::make_unique<GpuHarness>(); }

}  // namespace kiln
