#include "bench/overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/call_operands.h"
#include "bench/environment.h"
#include "bench/self.h"
#include "engine/plan.h"
#include "runtime/backend.h"
#include "runtime/cpu/reductions.h"
#include "runtime/timer.h"
#include "tuner/measure/measure.h"

namespace kiln {
namespace {

constexpr int kOverheadSamples = 101;

double median(std::vector<double> values) { return timing_of(std::move(values)).median_ns; }

/// Null for this machine's CPU.
Result<gpu::SharedDevice> opened(const std::string& device) {
  if (!names_gpu(device)) return gpu::SharedDevice();
  return open_gpu(device);
}

Result<std::vector<double>> host_call_times(Engine& engine, const Gemm& gemm,
                                            const Operands& operands) {
  const auto plan = engine.plan(gemm, operands.threads);
  if (!plan) return tl::unexpected(plan.error());
  const Plan::Impl& inside = plan->impl();
  if (!inside.kernel)
    return fail(ErrorCode::not_tuned,
                fmt::format("{}: no generated kernel to call directly; tune it first", text(gemm)));
  HostArgs call = make_args(inside.problem, operands, inside.args.division);
  // The kernel alone leaves values that nobody reduces.
  if (call.reduced_of != nullptr)
    if (Status ok = redirect_reduced(inside.problem.gemm, call); !ok)
      return tl::unexpected(ok.error());
  const auto args = with_workspace(call, inside.workspace_bytes);
  if (!args) return tl::unexpected(args.error());
  const auto direct = calls_over(1, [&](int) { inside.kernel->gemm(&*args, 0, 1); });
  const auto by_plan = calls_over(1, [&](int) { (void)plan->run(operands); });
  const auto by_gemm = calls_over(1, [&](int) { (void)engine.gemm(gemm, operands); });
  MeasureOptions options;
  options.samples = kOverheadSamples;
  options.gate = fma_gate(1);
  std::vector<double> medians;
  for (const Samples& samples : race({direct, by_plan, by_gemm}, options))
    medians.push_back(median(samples.ns));
  return medians;
}

constexpr int kGpuOverheadSamples = 51;
/// Few enough that the driver's queue takes them all without making the host wait.
constexpr int kBatch = 100;

/// The launches of a plan's kernel, and all that they point to.
class Bare {
 public:
  static Result<std::unique_ptr<Bare>> make(gpu::SharedDevice device, const GpuPlan& plan,
                                            const Operands& operands) {
    auto workspace =
        gpu::DeviceBuffer::make(device, static_cast<std::size_t>(plan.workspace_bytes()));
    if (!workspace) return tl::unexpected(workspace.error());
    std::unique_ptr<Bare> bare(new Bare(std::move(device), std::move(*workspace)));
    const gpu::Driver& d = bare->device_->driver();
    const auto zeroed = static_cast<std::size_t>(plan.zeroed_bytes());
    if (zeroed > 0)
      if (Status ok =
              gpu::check(d, d.cuMemsetD8Async(bare->workspace_.pointer(), 0, zeroed, nullptr),
                         "cuMemsetD8Async");
          !ok)
        return tl::unexpected(ok.error());
    bare->args_ = plan.arguments(operands, bare->workspace_.data());
    bare->maps_.resize(plan.kernel()->description().maps.size());
    const std::span maps(bare->maps_);
    if (Status ok = plan.kernel()->encode(bare->args_, maps); !ok)
      return tl::unexpected(ok.error());
    bare->args_ = gpu::step_args(plan.kernel()->description(), bare->args_);
    bare->launches_ = plan.kernel()->bare_launches(bare->args_, maps, nullptr);
    return bare;
  }

  void launch() {
    const gpu::Driver& d = device_->driver();
    for (auto& l : launches_)
      (void)d.cuLaunchKernelEx(&l.config, l.function, l.parameters.data(), nullptr);
  }

 private:
  Bare(gpu::SharedDevice device, gpu::DeviceBuffer workspace)
      : device_(std::move(device)), workspace_(std::move(workspace)) {}
  gpu::SharedDevice device_;
  gpu::DeviceBuffer workspace_;
  KilnGpuArgs args_{};
  std::vector<KilnTensorMap> maps_;
  std::vector<gpu::GpuKernel::BareLaunch> launches_;
};

/// Medians, in nanoseconds a call, of batches that take turns.
std::vector<double> batch_times(const gpu::Driver& driver,
                                const std::vector<std::function<void()>>& calls) {
  std::vector<std::vector<double>> times(calls.size());
  for (int sample = 0; sample < kGpuOverheadSamples; ++sample)
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(sample)) % calls.size();
      calls[which]();
      driver.cuCtxSynchronize();
      const auto begin = now_ns();
      for (int call = 0; call < kBatch; ++call) calls[which]();
      times[which].push_back(double(now_ns() - begin) / kBatch);
      driver.cuCtxSynchronize();
    }
  std::vector<double> medians;
  for (auto& samples : times) medians.push_back(median(std::move(samples)));
  return medians;
}

/// None of the calls is waited for: a bare launch, Plan::run, Engine::gemm.
Result<std::vector<double>> gpu_call_times(const gpu::SharedDevice& device, Engine& engine,
                                           const Gemm& gemm, const Operands& operands) {
  // All three launch into a context that is current already, as a program that uses CUDA has it.
  const gpu::Guest guest(*device);
  auto plan = engine.plan(gemm);
  if (!plan) return tl::unexpected(plan.error());
  const GpuPlan* inside = plan->impl().gpu.get();
  if (inside == nullptr || inside->kernel() == nullptr)
    return fail(ErrorCode::not_tuned,
                fmt::format("{}: no generated kernel to launch directly", text(gemm)));
  auto bare = Bare::make(device, *inside, operands);
  if (!bare) return tl::unexpected(bare.error());
  if (Status ran = plan->run(operands); !ran) return tl::unexpected(ran.error());
  return batch_times(device->driver(),
                     {[&] { (*bare)->launch(); }, [&] { (void)plan->run(operands); },
                      [&] { (void)engine.gemm(gemm, operands); }});
}

}  // namespace

Result<Overhead> measure_overhead(Engine& engine, const Gemm& gemm, const std::string& device) {
  const auto gpu = opened(device);
  if (!gpu) return tl::unexpected(gpu.error());
  auto call = CallOperands::make(*gpu, gemm, *gpu ? 0 : 1);
  if (!call) return tl::unexpected(call.error());
  const Operands& operands = call->operands();
  if (Status ran = engine.gemm(gemm, operands); !ran) return tl::unexpected(ran.error());
  const auto times =
      *gpu ? gpu_call_times(*gpu, engine, gemm, operands) : host_call_times(engine, gemm, operands);
  if (!times) return tl::unexpected(times.error());
  const auto right = call->right();
  if (!right) return tl::unexpected(right.error());
  if (!*right) return fail(ErrorCode::device, fmt::format("{}: a wrong result", text(gemm)));
  return Overhead{gemm, times->at(0), times->at(1), times->at(2)};
}

Result<ColdStart> cold_start_here(const Gemm& gemm, const OpenOptions& open, int threads) {
  const auto gpu = opened(open.device);
  if (!gpu) return tl::unexpected(gpu.error());
  auto call = CallOperands::make(*gpu, gemm, threads);
  if (!call) return tl::unexpected(call.error());
  ColdStart result;
  const auto begin = now_ns();
  auto engine = Engine::open(open);
  if (!engine) return tl::unexpected(engine.error());
  const auto opened_at = now_ns();
  Status ran = engine->gemm(gemm, call->operands());
  if (ran) ran = call->wait();
  if (!ran) return tl::unexpected(ran.error());
  const auto done = now_ns();
  result.open_ns = double(opened_at - begin);
  result.first_gemm_ns = double(done - opened_at);
  result.compiler_files = loaded_compilers();
  const auto right = call->right();
  if (!right) return tl::unexpected(right.error());
  result.verified = *right;
  const auto plan = engine->plan(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  result.match = plan->match();
  return result;
}

std::string cold_start_line(const ColdStart& r) {
  return nlohmann::ordered_json{{"open_ns", r.open_ns},
                                {"first_gemm_ns", r.first_gemm_ns},
                                {"match", int(r.match)},
                                {"verified", r.verified},
                                {"compiler_files", r.compiler_files}}
      .dump();
}

Result<ColdStart> measure_cold_start(const std::vector<std::string>& arguments, int runs) {
  std::vector<double> open, first;
  ColdStart worst;
  worst.match = Match::exact;
  worst.verified = true;
  for (int i = 0; i < runs; ++i) {
    const auto child = run_self(arguments, apply({}), true);
    if (!child) return tl::unexpected(child.error());
    const auto line = nlohmann::json::parse(child->output, nullptr, false);
    if (child->exit_code != 0 || !line.is_object() || !line.contains("open_ns"))
      return fail(ErrorCode::device,
                  fmt::format("the started process ended with {} and printed \"{}\"",
                              child->exit_code, child->output));
    open.push_back(line["open_ns"]);
    first.push_back(line["first_gemm_ns"]);
    worst.match = std::max(worst.match, Match(line["match"].get<int>()));
    worst.verified = worst.verified && line["verified"].get<bool>();
    for (const auto& file : line["compiler_files"]) worst.compiler_files.push_back(file);
  }
  worst.open_ns = median(open);
  worst.first_gemm_ns = median(first);
  return worst;
}

}  // namespace kiln
