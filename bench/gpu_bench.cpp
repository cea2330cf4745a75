#include "bench/gpu_bench.h"

#include <fmt/format.h>

#include <optional>

#include "bench/gpu_peer.h"
#include "bench/gpu_plan_calls.h"
#include "runtime/backend.h"
#include "tuner/measure/gpu_timing.h"

namespace kiln {
namespace {

constexpr int kLeastSamples = 5;

class GpuContest {
 public:
  GpuContest(Engine& engine, std::shared_ptr<const GpuTools> tools, const BenchOptions& options)
      : engine_(engine), tools_(std::move(tools)), options_(options) {}

  Result<ContestResult> race(const Gemm& asked) {
    auto plan = engine_.plan(asked);
    if (!plan) return tl::unexpected(plan.error());
    Gemm gemm = asked;
    if (gemm.alignment == 1) gemm.alignment = natural_alignment(gemm);
    const Canonical problem = canonicalise(gemm);
    auto sets = GpuOperandSets::make(*tools_, problem, options_.contest.seed);
    if (!sets) return tl::unexpected(sets.error());
    auto checker = GpuChecker::make(tools_, gemm, options_.contest.seed);
    if (!checker) return tl::unexpected(checker.error());

    ContestResult result;
    result.gemm = asked;
    result.threads = tools_->device()->caps().compute_units;
    result.config = plan->config();
    result.match = plan->match();
    result.policy = backend_of(tools_->device()->caps().vendor).policy;
    const RunOnGpu own = run_on_gpu(*plan, problem.swapped);
    if (Status ok = check(*checker, own, "", result); !ok) return tl::unexpected(ok.error());
    auto kiln = GpuCalls::make(*tools_, *sets, own);
    if (!kiln) return tl::unexpected(kiln.error());
    std::optional<GpuCalls> peer;
    auto library = VendorLibrary::make(*tools_, gemm);
    if (library) {
      auto fastest = fastest_proposal(*tools_, *library, *sets, *checker, result.excluded);
      if (!fastest) return tl::unexpected(fastest.error());
      if (*fastest) peer.emplace(std::move(**fastest));
    } else {
      result.excluded.push_back({kGpuPeer, library.error().message});
    }
    if (Status ok = run(*kiln, peer ? &*peer : nullptr, result); !ok)
      return tl::unexpected(ok.error());
    // Thousands of calls later it must be right still.
    if (Status ok = check(*checker, own, "after the race: ", result); !ok)
      return tl::unexpected(ok.error());
    return result;
  }

 private:
  /// A wrong result is the row's fault; a device that gave up is an error.
  static Status check(GpuChecker& checker, const RunOnGpu& own, const char* when,
                      ContestResult& result) {
    const Verdict verdict = checker.check(own);
    result.verified = result.fault.empty() && verdict;
    if (verdict) return {};
    if (result.fault.empty()) result.fault = when + verdict.error().detail;
    if (verdict.error().kind != Failure::Kind::crashed) return {};
    return fail(ErrorCode::device, when + verdict.error().detail);
  }

  Status run(GpuCalls& kiln, GpuCalls* peer, ContestResult& result) const {
    std::vector<GpuCalls*> contenders{&kiln};
    if (peer != nullptr) contenders.push_back(peer);
    const auto raced = gpu_race(contenders, options_.contest.samples, kLeastSamples,
                                options_.contest.budget_ns, {});
    if (!raced) return tl::unexpected(raced.error());
    result.conditions = *raced;
    result.kiln = kiln.timing();
    if (peer != nullptr) result.peers[kGpuPeer] = peer->timing();
    return {};
  }

  Engine& engine_;
  std::shared_ptr<const GpuTools> tools_;
  const BenchOptions& options_;
};

Status tune(Engine& engine, const BenchOptions& options, std::size_t shape) {
  TuneOptions tuning{.budget = options.budget, .seed = options.contest.seed};
  tuning.cancelled = options.cancelled;
  tuning.progress = [&](const Progress& p) {
    if (options.on_tune) options.on_tune(shape, options.gemms[shape], 1, p);
  };
  const auto report = engine.tune(options.gemms[shape], tuning);
  if (options.on_tuned) options.on_tuned(options.gemms[shape], report);
  if (!report) return tl::unexpected(report.error());
  return {};
}

}  // namespace

Result<BenchReport> run_gpu_bench(const BenchOptions& options) {
  auto engine = Engine::open(options.open);
  if (!engine) return tl::unexpected(engine.error());
  auto device = open_gpu(options.open.device);
  if (!device) return tl::unexpected(device.error());
  auto tools = GpuTools::make(*device);
  if (!tools) return tl::unexpected(tools.error());
  const auto version = cuda::cublaslt_version();
  if (!version && options.on_absent) options.on_absent({kGpuPeer, version.error().message});

  BenchReport report;
  report.device = options.open.device;
  GpuContest contest(*engine, *tools, options);
  for (std::size_t i = 0; i < options.gemms.size(); ++i) {
    const auto cancelled = [&] { return options.cancelled && options.cancelled(); };
    const Status tuned = options.tune && !cancelled() ? tune(*engine, options, i) : Status{};
    if (cancelled()) {
      report.cancelled = true;
      break;
    }
    auto row = tuned ? contest.race(options.gemms[i])
                     : Result<ContestResult>(tl::unexpected(tuned.error()));
    if (row) {
      if (options.on_row) options.on_row(*row);
      add_row(report, std::move(*row));
    } else {
      report.failures.push_back({options.gemms[i], (*device)->caps().compute_units, row.error()});
      if (options.on_failure) options.on_failure(report.failures.back());
    }
  }
  return report;
}

}  // namespace kiln
