#include "bench/gpu_overhead.h"

#include <fmt/format.h>

#include <array>
#include <functional>

#include "bench/result_check.h"
#include "bench/self.h"
#include "engine/plan.h"
#include "generator/problem/operands.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"
#include "runtime/timer.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {
namespace {

constexpr int kGpuOverheadSamples = 51;
/// Few enough that the driver's queue takes them all without making the host wait.
constexpr int kBatch = 100;

/// Operands on the host and their copies on the device.
class Copies {
 public:
  static Result<Copies> make(gpu::SharedDevice device, const Gemm& gemm) {
    const auto host = detect_cpu(1);
    if (!host) return tl::unexpected(host.error());
    auto sets = OperandSets::make(gemm, *host, 1);
    if (!sets) return tl::unexpected(sets.error());
    Copies copies(std::move(device), gemm, std::move(*sets));
    if (Status ok = copies.upload(); !ok) return tl::unexpected(ok.error());
    return copies;
  }

  const Operands& on_device() const { return on_device_; }

  /// Waits for the device and judges what it wrote.
  Result<bool> right() {
    const gpu::Guest guest(*device_);
    const gpu::Driver& d = device_->driver();
    if (Status ok = gpu::check(d, d.cuCtxSynchronize(), "cuCtxSynchronize"); !ok)
      return tl::unexpected(ok.error());
    const auto bytes = static_cast<std::size_t>(span(gemm_, Operand::d) * size_of(gemm_.d.dtype));
    if (Status ok = gpu::check(
            d,
            d.cuMemcpyDtoH(sets_[0].d, reinterpret_cast<gpu::DevicePointer>(on_device_.d), bytes),
            "cuMemcpyDtoH");
        !ok)
      return tl::unexpected(ok.error());
    return !ResultCheck(gemm_, sets_[0], 1).fault_of(sets_[0].d);
  }

 private:
  Copies(gpu::SharedDevice device, const Gemm& gemm, OperandSets sets)
      : device_(std::move(device)), gemm_(gemm), sets_(std::move(sets)) {}

  Result<void*> copied(const void* from, std::int64_t bytes) {
    if (from == nullptr || bytes == 0) return nullptr;
    auto buffer = gpu::DeviceBuffer::make(device_, static_cast<std::size_t>(bytes));
    if (!buffer) return tl::unexpected(buffer.error());
    const gpu::Guest guest(*device_);
    const gpu::Driver& d = device_->driver();
    if (Status ok =
            gpu::check(d, d.cuMemcpyHtoD(buffer->pointer(), from, static_cast<std::size_t>(bytes)),
                       "cuMemcpyHtoD");
        !ok)
      return tl::unexpected(ok.error());
    buffers_.push_back(std::move(*buffer));
    return buffers_.back().data();
  }

  Status upload() {
    poison_d(gemm_, sets_[0]);
    const Operands& host = sets_[0];
    Status ok;
    for_each_operand([&](auto which) {
      if (!ok || which == Operand::c) return;
      const auto copy = copied(pointer<which>(host), span_bytes(gemm_, which));
      if (!copy)
        ok = tl::unexpected(copy.error());
      else
        pointer<which>(on_device_) = *copy;
    });
    return ok;
  }

  gpu::SharedDevice device_;
  Gemm gemm_;
  OperandSets sets_;
  std::vector<gpu::DeviceBuffer> buffers_;
  Operands on_device_;
};

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
    const std::span maps(bare->maps_.data(), plan.kernel()->description().maps.size());
    if (Status ok = plan.kernel()->encode(bare->args_, maps); !ok)
      return tl::unexpected(ok.error());
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
  std::array<KilnTensorMap, 4> maps_{};
  std::vector<gpu::GpuKernel::BareLaunch> launches_;
};

/// Medians, in nanoseconds a call, of batches that take turns.
std::vector<double> host_times(const gpu::Driver& driver,
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
  for (auto& samples : times) medians.push_back(timing_of(std::move(samples)).median_ns);
  return medians;
}

}  // namespace

Result<Overhead> measure_gpu_overhead(Engine& engine, const Gemm& gemm, const std::string& name) {
  const auto device = open_gpu(name);
  if (!device) return tl::unexpected(device.error());
  auto copies = Copies::make(*device, gemm);
  if (!copies) return tl::unexpected(copies.error());
  const Operands operands = copies->on_device();
  if (Status ran = engine.gemm(gemm, operands); !ran) return tl::unexpected(ran.error());
  // All three launch into a context that is current already, as a program that uses CUDA has it.
  const gpu::Guest guest(**device);
  auto plan = engine.plan(gemm);
  if (!plan) return tl::unexpected(plan.error());
  const GpuPlan* inside = plan->impl().gpu.get();
  if (inside == nullptr || inside->kernel() == nullptr)
    return fail(ErrorCode::not_tuned,
                fmt::format("{}: no generated kernel to launch directly", text(gemm)));
  auto bare = Bare::make(*device, *inside, operands);
  if (!bare) return tl::unexpected(bare.error());
  if (Status ran = plan->run(operands); !ran) return tl::unexpected(ran.error());
  const auto times = host_times((*device)->driver(),
                                {[&] { (*bare)->launch(); }, [&] { (void)plan->run(operands); },
                                 [&] { (void)engine.gemm(gemm, operands); }});
  const auto right = copies->right();
  if (!right) return tl::unexpected(right.error());
  if (!*right) return fail(ErrorCode::device, fmt::format("{}: a wrong result", text(gemm)));
  return Overhead{gemm, times[0], times[1], times[2]};
}

Result<ColdStart> gpu_cold_start_here(const Gemm& gemm, const OpenOptions& open) {
  const auto device = open_gpu(open.device);
  if (!device) return tl::unexpected(device.error());
  auto copies = Copies::make(*device, gemm);
  if (!copies) return tl::unexpected(copies.error());
  ColdStart result;
  const auto begin = now_ns();
  auto engine = Engine::open(open);
  if (!engine) return tl::unexpected(engine.error());
  const auto opened = now_ns();
  if (Status ran = engine->gemm(gemm, copies->on_device()); !ran)
    return tl::unexpected(ran.error());
  {
    const gpu::Guest guest(**device);
    (*device)->driver().cuCtxSynchronize();
  }
  const auto done = now_ns();
  result.open_ns = double(opened - begin);
  result.first_gemm_ns = double(done - opened);
  result.compiler_files = mapped_compiler_files();
  const auto right = copies->right();
  if (!right) return tl::unexpected(right.error());
  result.verified = *right;
  const auto plan = engine->plan(gemm);
  if (!plan) return tl::unexpected(plan.error());
  result.match = plan->match();
  return result;
}

}  // namespace kiln
