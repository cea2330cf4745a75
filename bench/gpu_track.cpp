// Races on a GPU of any vendor that has a backend.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "bench/gpu_peer.h"
#include "bench/track.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "generator/problem/spelling.h"
#include "runtime/gpu/kernel.h"
#include "tuner/measure/gpu_timing.h"

namespace kiln {
namespace {

constexpr int kLeastGpuSamples = 5;

/// A plan as the clock and the checker of a GPU call it.
RunOnGpu run_on_gpu(const Plan& plan, const Problem& problem) {
  return [plan, problem](const KilnGpuArgs& args, gpu::Stream stream) {
    Operands operands{.stream = stream};
    bind_operands(operands, args, problem.swapped);
    gpu::point_to_host_values(problem.gemm, args, operands);
    std::vector<ListEntry> list;
    if (lists_products(problem.gemm)) {
      // Exchanging A and B once more gives the caller's.
      canonical_entries(problem, static_cast<const ListEntry*>(args.groups), list);
      operands = {.alpha = args.alpha, .beta = args.beta, .stream = stream, .list = list.data()};
    }
    return plan.run(operands);
  };
}

class GpuContest final : public Contest {
 public:
  GpuContest(std::shared_ptr<const GpuTools> tools, const Gemm& gemm, const Problem& problem,
             GpuOperandSets sets, std::uint64_t seed)
      : tools_(std::move(tools)),
        gemm_(gemm),
        problem_(problem),
        seed_(seed),
        sets_(std::move(sets)) {}

  Status enter(Engine&, const Plan& plan) override {
    plans_.push_back(run_on_gpu(plan, problem_));
    return {};
  }

  Result<std::optional<std::string>> fault() override {
    const auto checker = checker_made();
    if (!checker) return tl::unexpected(checker.error());
    const Verdict verdict = (*checker)->check(plans_.front());
    if (verdict) return std::nullopt;
    const auto& [kind, detail] = verdict.error();
    // Of the result itself; all else (no memory, a call that was refused) says nothing about it.
    if (kind == Failure::Kind::wrong_result || kind == Failure::Kind::out_of_bounds) return detail;
    return fail(ErrorCode::device, detail);
  }

  Status admit_peers(std::vector<Excluded>& excluded) override {
    const auto checker = checker_made();
    if (!checker) return tl::unexpected(checker.error());
    auto library = VendorLibrary::make(*tools_, gemm_);
    if (!library) {
      excluded.push_back({kGpuPeer, library.error().message});
      return {};
    }
    library_.emplace(std::move(*library));
    const auto fastest = fastest_proposal(*tools_, *library_, sets_, **checker, excluded);
    if (!fastest) return tl::unexpected(fastest.error());
    if (!*fastest) return {};
    if (Status in = admit(kGpuPeer, **fastest); !in) return in;
    // One that was refused above, or is wrong, is not a contestant.
    const bool wrong = std::ranges::any_of(
        excluded, [](const Excluded& out) { return out.reason.starts_with("choice 0:"); });
    first_is_fastest_ = **fastest == 0;
    return wrong || first_is_fastest_ ? Status{} : admit(kGpuPeerFirst, 0);
  }

  Result<RaceTimes> race(int samples, double budget_ns) override {
    return raced([&](const std::vector<GpuCalls*>& contenders) -> Result<LoadRace> {
      const auto conditions = gpu_race(contenders, samples, kLeastGpuSamples, budget_ns, {});
      if (!conditions) return tl::unexpected(conditions.error());
      LoadRace race{.timings = {}, .conditions = *conditions};
      for (const GpuCalls* one : contenders) race.timings.push_back(one->timing());
      return race;
    });
  }

  Result<RaceTimes> race_under_load(int rounds) override {
    return raced([&](const std::vector<GpuCalls*>& contenders) {
      return gpu_race_under_load(contenders, {.rounds = rounds});
    });
  }

 private:
  /// Plans and peers by one kind of race.
  Result<RaceTimes> raced(
      const std::function<Result<LoadRace>(const std::vector<GpuCalls*>&)>& race) {
    std::vector<GpuCalls> calls;
    for (const RunOnGpu& plan : plans_) {
      auto one = GpuCalls::make(*tools_, sets_, plan);
      if (!one) return tl::unexpected(one.error());
      calls.push_back(std::move(*one));
    }
    std::vector<GpuCalls*> contenders;
    for (GpuCalls& one : calls) contenders.push_back(&one);
    for (auto& [name, one] : peers_) contenders.push_back(&one);
    const auto over = race(contenders);
    if (!over) return tl::unexpected(over.error());
    RaceTimes times{.conditions = over->conditions};
    auto timing = over->timings.begin();
    for (std::size_t i = 0; i < calls.size(); ++i) times.plans.push_back(*timing++);
    for (const auto& [name, one] : peers_) times.peers[name] = *timing++;
    if (peers_.contains(kGpuPeer) && first_is_fastest_)
      times.peers[kGpuPeerFirst] = times.peers[kGpuPeer];
    return times;
  }

  /// A proposal of the library joins the race, where it can run. Errors: device.
  Status admit(const char* name, int choice) {
    auto calls = GpuCalls::make(*tools_, sets_, library_->run(choice));
    if (Status alive = tools_->wait(); !alive) return alive;
    if (calls) peers_.emplace(name, std::move(*calls));
    return {};
  }

  /// Made when first asked for: its references take memory that a race alone does not need.
  Result<GpuChecker*> checker_made() {
    if (!checker_) {
      auto made = GpuChecker::make(tools_, gemm_, seed_);
      if (!made) return tl::unexpected(made.error());
      checker_.emplace(std::move(*made));
    }
    return &*checker_;
  }

  std::shared_ptr<const GpuTools> tools_;
  Gemm gemm_;
  Problem problem_;  // where it is swapped, its A is the plan's B
  std::uint64_t seed_;
  GpuOperandSets sets_;
  std::optional<GpuChecker> checker_;
  std::vector<RunOnGpu> plans_;
  std::optional<VendorLibrary> library_;  // of which peers_ are proposals
  std::map<std::string, GpuCalls> peers_;
  bool first_is_fastest_ = false;
};

class GpuTrack final : public RaceTrack {
 public:
  explicit GpuTrack(std::shared_ptr<const GpuTools> tools) : tools_(std::move(tools)) {}

  /// Names choose among libraries for CPUs; there is one for a GPU.
  Status find_peers(const std::vector<std::string>&, Engine*) override {
    const auto version = cuda::cublaslt_version();
    if (!version) peers_.absent.push_back({kGpuPeer, version.error().message});
    return {};
  }
  std::map<std::string, std::string> versions() const override {
    const auto version = cuda::cublaslt_version();
    if (!version) return {};
    return {{kGpuPeer, *version}, {kGpuPeerFirst, *version}};
  }
  const Backend& backend() const override { return backend_of(tools_->device()->caps().vendor); }
  Result<std::vector<int>> threads() const override {
    return std::vector<int>{tools_->device()->caps().compute_units};
  }
  Result<std::optional<MachineLimits>> limits(int) const override { return std::nullopt; }
  Result<std::unique_ptr<Contest>> prepare(const Gemm& asked, int,
                                           std::uint64_t seed) const override {
    const Gemm gemm = with_defaults_of(asked, tools_->device()->caps());
    const Problem problem = Problem::of(gemm).value();
    auto sets = GpuOperandSets::make(*tools_, problem, seed);
    if (!sets) return tl::unexpected(sets.error());
    return std::make_unique<GpuContest>(tools_, gemm, problem, std::move(*sets), seed);
  }

 private:
  std::shared_ptr<const GpuTools> tools_;
};

}  // namespace

Result<std::unique_ptr<RaceTrack>> gpu_track(const std::string& name) {
  auto device = open_gpu(name);
  if (!device) return tl::unexpected(device.error());
  auto tools = GpuTools::make(*device);
  if (!tools) return tl::unexpected(tools.error());
  return std::make_unique<GpuTrack>(*tools);
}

}  // namespace kiln
