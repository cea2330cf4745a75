#include "tuner/measure/gpu_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <thread>

#include "generator/problem/product_list.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"
#include "tuner/verify/drawn_list.h"

namespace kiln {
namespace {

constexpr int kMostSets = 1024;
constexpr int kMostLaunches = 1024;
constexpr double kSampleNs = 200e3;
/// Seen on an H200: bf16 4096³ took 170 us with pauses between samples; without, five contenders
/// that differed by 3 % took 195.7 us each.
constexpr double kRestShare = 3;
constexpr double kMostRestNs = 100e6;
/// Sets begin on a boundary that any operand alignment divides.
constexpr std::int64_t kAlignment = 4096;

void rest(double ns) {
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, kMostRestNs))));
}

Status fill_set(const GpuTools& tools, const Gemm& g, const SetLayout& layout, std::byte* base,
                const std::vector<std::int32_t>& numbers, std::uint64_t seed) {
  for (const Operand which : kOperands) {
    if (which == Operand::c || which == Operand::d) continue;
    if (lists_products(g) && which == Operand::groups) continue;  // the host has it
    for (const Filling& piece :
         fillings(g, which, seed, numbers.data(), base + layout.at[index_of(which)]))
      if (Status ok = tools.fill(piece.gemm, which, Data::uniform, piece.seed, piece.data); !ok)
        return ok;
  }
  return {};
}

/// The same sizes in all sets, so that a sample's length does not hang on how many there are.
std::vector<std::int32_t> drawn_list(const Gemm& g, std::uint64_t seed) {
  std::vector<std::int32_t> numbers(
      lists_products(g) ? static_cast<std::size_t>(span(g, Operand::groups)) : 0);
  if (!numbers.empty()) fill(g, Operand::groups, Data::uniform, seed, numbers.data());
  return numbers;
}

}  // namespace

int gpu_rotation_sets(std::int64_t set_bytes, std::int64_t l2_bytes) {
  if (set_bytes >= 4 * l2_bytes) return 1;
  const std::int64_t wanted = 2 * l2_bytes / std::max<std::int64_t>(1, set_bytes) + 1;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 2, kMostSets));
}

double GpuOperandSets::bytes_needed(const Problem& problem, std::int64_t l2_bytes) {
  const std::int64_t set = std::max<std::int64_t>(1, SetLayout::of(problem.gemm, kAlignment).bytes);
  return static_cast<double>(set) * gpu_rotation_sets(set, l2_bytes);
}

Result<GpuOperandSets> GpuOperandSets::make(const GpuTools& tools, const Problem& problem,
                                            std::uint64_t seed) {
  const Gemm& g = problem.gemm;
  const SetLayout layout = SetLayout::of(g, kAlignment);
  const std::int64_t l2_bytes = tools.device()->caps().l2_bytes;
  const int count = gpu_rotation_sets(layout.bytes, l2_bytes);
  if (Status room =
          tools.room_for(bytes_needed(problem, l2_bytes), fmt::format("operands of '{}'", text(g)));
      !room)
    return tl::unexpected(room.error());
  GpuOperandSets out;
  auto memory = gpu::DeviceBuffer::make(
      tools.device(), static_cast<std::size_t>(std::max<std::int64_t>(1, layout.bytes) * count));
  if (!memory) return tl::unexpected(memory.error());
  out.memory_ = std::move(*memory);
  const std::vector<std::int32_t> numbers = drawn_list(g, seed);
  for (int i = 0; i < count; ++i) {
    std::byte* base = out.memory_.data() + i * layout.bytes;
    if (Status ok = fill_set(tools, g, layout, base, numbers, seed + static_cast<std::uint64_t>(i));
        !ok)
      return tl::unexpected(ok.error());
    KilnGpuArgs args = gpu::gpu_args(problem, {});
    layout.point(args, g, base);
    // A number like those of the device's memory, whatever the operand's type.
    if (Status ok = gpu::take_host_values(g, args,
                                          [](const void*, void* to, std::size_t bytes) {
                                            std::memset(to, 0x3c, bytes);
                                            return Status{};
                                          });
        !ok)
      return tl::unexpected(ok.error());
    if (lists_products(g)) {
      std::vector<ListEntry>& list = out.lists_.emplace_back(entries_of(g, numbers.data(), args));
      args.groups = list.data();
    }
    out.sets_.push_back(args);
  }
  if (Status ok = tools.wait(); !ok) return tl::unexpected(ok.error());
  return out;
}

Result<GpuCalls> GpuCalls::make(const GpuTools& tools, const GpuOperandSets& sets,
                                const RunOnGpu& run) {
  auto begin = gpu::OwnedEvent::make(tools.device());
  if (!begin) return tl::unexpected(begin.error());
  auto end = gpu::OwnedEvent::make(tools.device());
  if (!end) return tl::unexpected(end.error());
  GpuCalls calls(tools, std::move(*begin), std::move(*end));
  const auto once = [&] { return run(sets[0], tools.stream()); };
  // The first run pays for loading the code.
  if (const auto first = calls.timed(once); !first) return tl::unexpected(first.error());
  const auto second = calls.timed(once);
  if (!second) return tl::unexpected(second.error());
  const int walks = std::max(
      1, static_cast<int>(std::ceil(kSampleNs / std::max(1e3, *second) / double(sets.count()))));
  calls.launches_ = std::clamp(walks * sets.count(), 1, kMostLaunches);
  if (Status ok = calls.record(sets, run); !ok) return tl::unexpected(ok.error());
  const auto warm = calls.replay();
  if (!warm) return tl::unexpected(warm.error());
  calls.graph_ns_ = *warm;
  return calls;
}

GpuCalls::GpuCalls(GpuCalls&& other) noexcept
    : tools_(other.tools_),
      begin_(std::move(other.begin_)),
      end_(std::move(other.end_)),
      graph_(std::exchange(other.graph_, nullptr)),
      launches_(other.launches_),
      last_ns_(other.last_ns_),
      graph_ns_(other.graph_ns_),
      samples_(std::move(other.samples_)) {}

GpuCalls::~GpuCalls() {
  if (graph_ == nullptr) return;
  const gpu::Guest guest(*tools_->device());
  tools_->device()->driver().cuGraphExecDestroy(graph_);
}

Status GpuCalls::record(const GpuOperandSets& sets, const RunOnGpu& run) {
  const gpu::Driver& d = tools_->device()->driver();
  const gpu::Guest guest(*tools_->device());
  if (Status ok = gpu::check(
          d, d.cuStreamBeginCapture(tools_->stream(), gpu::CaptureMode::thread_local_only),
          "cuStreamBeginCapture");
      !ok)
    return ok;
  Status ran;
  for (int i = 0; i < launches_ && ran; ++i) ran = run(sets[i % sets.count()], tools_->stream());
  gpu::Graph graph = nullptr;
  const Status ended =
      gpu::check(d, d.cuStreamEndCapture(tools_->stream(), &graph), "cuStreamEndCapture");
  if (!ran) {
    if (graph != nullptr) d.cuGraphDestroy(graph);
    return ran;
  }
  if (!ended) return ended;
  const Status made =
      gpu::check(d, d.cuGraphInstantiateWithFlags(&graph_, graph, 0), "cuGraphInstantiate");
  d.cuGraphDestroy(graph);
  return made;
}

Result<double> GpuCalls::timed(const std::function<Status()>& work,
                               const std::function<void()>& meanwhile) const {
  const gpu::Driver& d = tools_->device()->driver();
  const gpu::Guest guest(*tools_->device());
  const auto check = [&](gpu::Code code, const char* call) { return gpu::check(d, code, call); };
  Status ok = check(d.cuEventRecord(begin_.get(), tools_->stream()), "cuEventRecord");
  if (ok) ok = work();
  if (ok) ok = check(d.cuEventRecord(end_.get(), tools_->stream()), "cuEventRecord");
  if (ok) meanwhile();
  if (ok) ok = check(d.cuEventSynchronize(end_.get()), "cuEventSynchronize");
  float milliseconds = 0;
  if (ok)
    ok = check(d.cuEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cuEventElapsedTime");
  if (!ok) return tl::unexpected(ok.error());
  return static_cast<double>(milliseconds) * 1e6;
}

/// The device time of so many replays of the graph, in nanoseconds.
Result<double> GpuCalls::replay(std::int64_t times, const std::function<void()>& meanwhile) const {
  const auto enqueue = [&] {
    const gpu::Driver& d = tools_->device()->driver();
    Status ok;
    for (std::int64_t i = 0; i < times && ok; ++i)
      ok = gpu::check(d, d.cuGraphLaunch(graph_, tools_->stream()), "cuGraphLaunch");
    return ok;
  };
  return timed(enqueue, meanwhile);
}

Result<LoadBlock> GpuCalls::block(double ns, const std::function<void()>& meanwhile) {
  const auto times = std::max<std::int64_t>(1, std::llround(ns / std::max(1e3, graph_ns_)));
  const auto taken = replay(times, meanwhile);
  if (!taken) return tl::unexpected(taken.error());
  graph_ns_ = *taken / double(times);
  return LoadBlock{.ns = *taken, .calls = times * launches_};
}

Result<bool> GpuCalls::sample(ClockWatch& watch) {
  watch.before_sample();
  const auto ns = replay();
  if (!ns) return tl::unexpected(ns.error());
  last_ns_ = *ns;
  const bool stands = watch.sample_stands();
  if (stands) samples_.push_back(*ns / launches_);
  return stands;
}

Status GpuCalls::take(int total, double budget_ns) {
  ClockWatch watch(tools_->sensors());
  double spent = 0;
  bool any = false;
  while (static_cast<int>(samples_.size()) < total && (!any || spent < budget_ns)) {
    const auto stands = sample(watch);
    if (!stands) return tl::unexpected(stands.error());
    any = any || *stands;
    spent += last_ns();
  }
  return {};
}

Timing GpuCalls::timing() const { return timing_of(samples_); }

Result<GpuConditions> gpu_race(std::vector<GpuCalls*> contenders, int samples, int min_samples,
                               double budget_ns,
                               const std::function<bool(const std::vector<Timing>&)>& stop,
                               const std::function<void(const GpuCalls*)>& on_turn) {
  if (contenders.empty()) return GpuConditions{};
  ClockWatch watch(contenders[0]->sensors());
  double spent = 0;
  for (int round = 1; round <= samples; ++round) {
    if (round > min_samples && spent >= budget_ns) break;
    for (GpuCalls* one : contenders) {
      if (on_turn) on_turn(one);
      for (bool stands = false; !stands;) {
        const auto taken = one->sample(watch);
        if (!taken) return tl::unexpected(taken.error());
        stands = *taken;
        spent += (1 + kRestShare) * one->last_ns();
        rest(kRestShare * one->last_ns());
      }
    }
    std::rotate(contenders.begin(), contenders.begin() + 1, contenders.end());
    if (round < min_samples || !stop) continue;
    std::vector<Timing> timings;
    for (const GpuCalls* one : contenders) timings.push_back(one->timing());
    if (stop(timings)) break;
  }
  return watch.conditions();
}

Result<LoadRace> gpu_race_under_load(const std::vector<GpuCalls*>& contenders,
                                     const LoadRules& rules) {
  std::vector<RunBlock> blocks;
  for (GpuCalls* one : contenders)
    blocks.push_back([one](double ns, const auto& meanwhile) { return one->block(ns, meanwhile); });
  return race_under_load(blocks, contenders.empty() ? nullptr : contenders[0]->sensors(), rules);
}

}  // namespace kiln
