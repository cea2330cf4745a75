#include "bench/ladder.h"

#include <optional>

#include "bench/gpu_peer.h"
#include "generator/problem/problem.h"
#include "generator/problem/spelling.h"
#include "generator/render/render.h"
#include "runtime/backend.h"
#include "runtime/compiler.h"
#include "tuner/measure/gpu_candidate.h"

namespace kiln {
namespace {

constexpr int kLadderSamples = 3;
constexpr double kBudgetNs = 3e9;  // of device time, a rung

double tflops_of(const Gemm& g, double ns) {
  return ns > 0 ? 2e-3 * double(g.batch) * double(g.m) * double(g.n) * double(g.k) / ns : 0;
}

/// What all rungs share: the device, the operands, the references.
class Climb {
 public:
  Climb(std::shared_ptr<const GpuTools> tools, Gemm gemm, GpuOperandSets sets, GpuChecker checker,
        int samples)
      : tools_(std::move(tools)),
        gemm_(std::move(gemm)),
        sets_(std::move(sets)),
        checker_(std::move(checker)),
        samples_(samples) {}

  void time_library(LadderResult& to) {
    const auto library = VendorLibrary::make(*tools_, gemm_);
    if (!library) {
      to.library_note = library.error().message;
      return;
    }
    std::vector<Excluded> excluded;
    const auto fastest = fastest_proposal(*tools_, *library, sets_, checker_, excluded);
    if (!fastest) {
      to.library_note = fastest.error().message;
      return;
    }
    if (!*fastest) {
      to.library_note =
          excluded.empty() ? "it has no algorithm for this shape" : excluded[0].reason;
      return;
    }
    auto calls = GpuCalls::make(*tools_, sets_, library->run(**fastest));
    if (!calls || !gpu_race({&*calls}, samples_, kLadderSamples, kBudgetNs, {})) {
      to.library_note = "its calls failed";
      return;
    }
    to.library = calls->timing();
    to.library_tflops = tflops_of(gemm_, to.library.median_ns);
  }

  /// Why a rung was not raced to the end is its fault; the error is for a device that gave up.
  Result<RungResult> step(const Rung& rung, double library_ns) {
    RungResult result;
    result.rung = rung;
    const auto run = loaded(rung);
    if (!run) {
      result.fault = run.error().message;
      return result;
    }
    if (const Verdict verdict = checker_.check(run->run()); !verdict) {
      result.fault = verdict.error().detail;
      if (verdict.error().kind == Failure::Kind::crashed)
        return fail(ErrorCode::device, result.fault);
      return result;
    }
    result.verified = true;
    auto calls = GpuCalls::make(*tools_, sets_, run->run());
    if (!calls) return tl::unexpected(calls.error());
    const auto raced = gpu_race({&*calls}, samples_, kLadderSamples, kBudgetNs, {});
    if (!raced) return tl::unexpected(raced.error());
    result.conditions = *raced;
    result.timing = calls->timing();
    result.tflops = tflops_of(gemm_, result.timing.median_ns);
    result.share = library_ns / result.timing.median_ns;
    return result;
  }

 private:
  Result<GpuCandidate> loaded(const Rung& rung) const {
    const DeviceCaps& caps = tools_->device()->caps();
    const auto config = parse_config(rung.config);
    if (!config) return tl::unexpected(config.error());
    const auto source = render(Problem::of(gemm_).value(), caps, *config);
    if (!source) return tl::unexpected(source.error());
    const auto compiler = compiler_for(caps);
    if (!compiler) return tl::unexpected(compiler.error());
    const auto binary = (*compiler)->compile(*source);
    if (!binary) return tl::unexpected(binary.error());
    return GpuCandidate::load(*tools_, binary->image, gemm_, caps, *config);
  }

  std::shared_ptr<const GpuTools> tools_;
  Gemm gemm_;
  GpuOperandSets sets_;
  GpuChecker checker_;
  int samples_;
};

Result<Climb> prepared(const LadderOptions& options, const Gemm& gemm) {
  auto device = open_gpu(options.device);
  if (!device) return tl::unexpected(device.error());
  auto tools = GpuTools::make(*device);
  if (!tools) return tl::unexpected(tools.error());
  auto sets = GpuOperandSets::make(**tools, Problem::of(gemm).value(), options.seed);
  if (!sets) return tl::unexpected(sets.error());
  auto checker = GpuChecker::make(*tools, gemm, options.seed);
  if (!checker) return tl::unexpected(checker.error());
  return Climb(*tools, gemm, std::move(*sets), std::move(*checker), options.samples);
}

}  // namespace

Result<LadderResult> climb(const Ladder& ladder, const LadderOptions& options) {
  LadderResult result;
  result.gemm = options.gemm;
  if (result.gemm.alignment == 1) result.gemm.alignment = kUsualAlignment;
  auto climb = prepared(options, result.gemm);
  if (!climb) return tl::unexpected(climb.error());
  climb->time_library(result);
  for (const Rung& rung : ladder.rungs) {
    if (options.cancelled && options.cancelled()) break;
    auto step = climb->step(rung, result.library.median_ns);
    if (!step) return tl::unexpected(step.error());
    if (options.on_rung) options.on_rung(*step);
    result.rungs.push_back(std::move(*step));
  }
  return result;
}

}  // namespace kiln
