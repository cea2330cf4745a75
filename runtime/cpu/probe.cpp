#include "runtime/cpu/probe.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/peak_loops.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/timer.h"

namespace kiln {
namespace {

constexpr double kGateNs = 100e3;
constexpr int kPeakSamples = 100;
constexpr std::int64_t kLine = 64;

/// One run of the loop on each thread of a team.
struct TeamRun {
  int threads = 0;        // as many as the system gave
  double slowest_ns = 0;  // each times itself, so that waking the others does not count
  double span_ns = 0;     // from the first one's begin to the last one's end
};

TeamRun run_team(const PeakLoop& loop, std::int64_t rounds, int threads) {
  struct alignas(128) Slot {
    std::int64_t begin = 0, end = 0;
    double sink = 0;
  };
  std::vector<Slot> slots(static_cast<std::size_t>(std::max(threads, 1)));
  TeamRun run;
  run.threads = parallel(threads, [&](int thread, int) {
    Slot slot{.begin = now_ns()};
    slot.sink = loop.run(rounds);
    slot.end = now_ns();
    slots[static_cast<std::size_t>(thread)] = slot;
  });
  slots.resize(static_cast<std::size_t>(run.threads));
  std::int64_t first = slots[0].begin, last = slots[0].end;
  for (const Slot& slot : slots) {
    run.slowest_ns = std::max(run.slowest_ns, static_cast<double>(slot.end - slot.begin));
    first = std::min(first, slot.begin);
    last = std::max(last, slot.end);
  }
  run.span_ns = static_cast<double>(last - first);
  return run;
}

/// Rounds that take `ns` on one undisturbed thread: the fastest of a few short runs decides.
std::int64_t rounds_for(const PeakLoop& loop, double ns) {
  const std::int64_t trial = 24'000 / loop.cycles;  // ~6 µs
  double fastest = 1e9;
  for (int i = 0; i < 20; ++i) fastest = std::min(fastest, run_team(loop, trial, 1).slowest_ns);
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(trial) * ns / std::max(fastest, 1.0)));
}

/// Loads `bytes` bytes, a multiple of eight vectors, `rounds` times; its sum keeps the compiler
/// from dropping the loads.
using ReadLoop = double (*)(const std::byte* from, std::int64_t bytes, std::int64_t rounds);

// One body for each target, as of the loops above.
#define KILN_READ_LOOP(name, target, width)                                       \
  target [[gnu::noinline]] double name(const std::byte* from, std::int64_t bytes, \
                                       std::int64_t rounds) {                     \
    typedef std::int64_t Vector __attribute__((vector_size(width), may_alias));   \
    Vector sums[8] = {};                                                          \
    for (std::int64_t r = 0; r < rounds; ++r) {                                   \
      for (std::int64_t at = 0; at < bytes; at += 8 * (width))                    \
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; ++i) sums[i] ^=            \
            *reinterpret_cast<const Vector*>(from + at + i * (width));            \
      __asm__ volatile("" ::: "memory");                                          \
    }                                                                             \
    for (int i = 1; i < 8; ++i) sums[0] ^= sums[i];                               \
    return static_cast<double>(sums[0][0]);                                       \
  }
KILN_READ_LOOP(read_portable, , 16)
#if defined(__x86_64__)
KILN_READ_LOOP(read_avx2, [[gnu::target("avx2")]], 32)
KILN_READ_LOOP(read_avx512, [[gnu::target("avx512f")]], 64)
#endif
#undef KILN_READ_LOOP

ReadLoop widest_reads() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return read_avx512;
  if (cpu_features().avx2_fma) return read_avx2;
#endif
  return read_portable;
}

/// Nanoseconds to load one word of each line.
double read_ns(const std::byte* first, const std::byte* last) {
  const std::int64_t begin = now_ns();
  std::uint64_t sums[4] = {};
  for (; last - first >= 4 * kLine; first += 4 * kLine)
    for (int i = 0; i < 4; ++i)
      sums[i] += *reinterpret_cast<const std::uint64_t*>(first + i * kLine);
  // What the compiler cannot see used, it need not load.
  volatile std::uint64_t sink = sums[0] + sums[1] + sums[2] + sums[3];
  static_cast<void>(sink);
  return static_cast<double>(now_ns() - begin);
}

/// Bytes a second of one thread that reads [first, last) `passes` times. The median of short
/// segments counts: a pass over a large buffer lasts long enough to always lose a time slice
/// somewhere.
double read_speed(const std::byte* first, const std::byte* last, int passes) {
  constexpr std::int64_t kLongest = 1 << 20;  // ~50 µs
  const std::int64_t step =
      std::min<std::int64_t>(kLongest, (last - first) / 16) / (4 * kLine) * (4 * kLine);
  std::vector<double> times;
  for (int pass = 0; pass < passes; ++pass)
    for (const std::byte* at = first; last - at >= step; at += step)
      times.push_back(read_ns(at, at + step));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(step) / (std::max(*middle, 1.0) * 1e-9);
}

}  // namespace

bool has_fma_probe(DType type) { return peak_loop(type).run != nullptr; }

SpeedGate::SpeedGate(int threads, DType type) : threads_(std::max(threads, 1)) {
  loop_ = peak_loop(has_fma_probe(type) ? type : fp32);
  rounds_ = rounds_for(loop_, kGateNs);
}

double SpeedGate::sample() {
  const TeamRun run = run_team(loop_, rounds_, threads_);
  last_ns_ = std::max(1.0, run.slowest_ns);
  const double operations =
      2.0 * loop_.products * static_cast<double>(rounds_) * static_cast<double>(run.threads);
  peak_flops_ = std::max(peak_flops_, operations / (std::max(1.0, run.span_ns) * 1e-9));
  window_[next_++ % window_.size()] = last_ns_;
  const std::size_t filled = std::min(next_, window_.size());
  return *std::min_element(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(filled)) /
         last_ns_;
}

Result<double> fma_peak(DType type, int threads) {
  if (!has_fma_probe(type))
    return fail(ErrorCode::bad_input,
                fmt::format("type = {}: its multiplication has no probe on this CPU", name(type)));
  SpeedGate probe(threads, type);
  for (int i = 0; i < kPeakSamples; ++i) probe.sample();
  return probe.peak_flops();
}

Result<double> cache_bandwidth(std::int64_t bytes, int threads) {
  constexpr std::int64_t kUnit = 8 * 64;
  if (bytes < kUnit)
    return fail(ErrorCode::bad_input, fmt::format("bytes = {}: must be {} or more", bytes, kUnit));
  const std::int64_t size = bytes / kUnit * kUnit;
  const ReadLoop loop = widest_reads();
  // 0.1 ms a sample at 50 GB/s; the fastest of a hundred counts, as a peak does.
  const std::int64_t rounds = std::max<std::int64_t>(1, 5'000'000 / size);
  constexpr double kNoMemory = -1;
  // 0: a thread that the system did not give.
  std::vector<double> speeds(static_cast<std::size_t>(std::max(threads, 1)));
  parallel(threads, [&](int thread, int) {
    const std::unique_ptr<std::byte, decltype(&std::free)> own(
        static_cast<std::byte*>(
            std::aligned_alloc(4096, static_cast<std::size_t>((size + 4095) / 4096 * 4096))),
        &std::free);
    if (own == nullptr) {
      speeds[static_cast<std::size_t>(thread)] = kNoMemory;
      return;
    }
    std::memset(own.get(), 1, static_cast<std::size_t>(size));
    double fastest = 0;
    volatile double sink = 0;
    for (int i = 0; i < kPeakSamples; ++i) {
      const std::int64_t begin = now_ns();
      sink = loop(own.get(), size, rounds);
      const auto ns = static_cast<double>(std::max<std::int64_t>(1, now_ns() - begin));
      fastest = std::max(fastest, static_cast<double>(size * rounds) / (ns * 1e-9));
    }
    static_cast<void>(sink);
    speeds[static_cast<std::size_t>(thread)] = fastest;
  });
  if (*std::min_element(speeds.begin(), speeds.end()) == kNoMemory)
    return fail(ErrorCode::device, fmt::format("buffer of {} bytes: no memory", size));
  return std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

Result<double> read_bandwidth(std::int64_t bytes, int threads) {
  const std::int64_t least = std::max(threads, 1) * (64 << 10);  // 4 KiB segments and more
  if (bytes < least)
    return fail(ErrorCode::bad_input, fmt::format("bytes = {}: must be {} or more", bytes, least));
  const auto size = static_cast<std::size_t>(bytes);
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return fail(ErrorCode::device,
                fmt::format("buffer of {} bytes: {}", bytes, std::strerror(errno)));
  const auto unmap = [size](void* p) { munmap(p, size); };
  const std::unique_ptr<void, decltype(unmap)> owner(mapping, unmap);
  madvise(mapping, size, MADV_HUGEPAGE);
  auto* data = static_cast<std::byte*>(mapping);
  // ~20 ms of a small buffer, three passes of a large one.
  const int passes = static_cast<int>(std::clamp<std::int64_t>((256 << 20) / bytes, 3, 64));
  std::vector<double> speeds(static_cast<std::size_t>(std::max(threads, 1)));
  parallel(threads, [&](int thread, int count) {
    const std::byte* first = data + bytes / kLine * thread / count * kLine;
    const std::byte* last = data + bytes / kLine * (thread + 1) / count * kLine;
    // Touched by its reader, a share lies in that thread's memory.
    std::memset(data + (first - data), 1, static_cast<std::size_t>(last - first));
    speeds[static_cast<std::size_t>(thread)] = read_speed(first, last, passes);
  });
  return std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

Result<MachineLimits> measure_limits(const DeviceCaps& device) {
  const int threads = device.compute_units;
  MachineLimits limits;
  limits.device = device;
  limits.fp32_flops = *fma_peak(fp32, threads);
  limits.fp64_flops = *fma_peak(fp64, threads);
  limits.bf16_flops = fma_peak(bf16, threads).value_or(0);
  limits.int8_flops = fma_peak(s8, threads).value_or(0);
  for (const auto& [bytes, read] :
       {std::pair(device.l1_bytes, &limits.l1_read), std::pair(device.l2_bytes, &limits.l2_read)}) {
    if (bytes <= 0) continue;
    const Result<double> speed = cache_bandwidth(bytes / 2, threads);
    if (!speed) return tl::unexpected(speed.error());
    *read = *speed;
  }
  // Beyond the threads' L2 together, and within L3 where there is one.
  const std::int64_t least = std::int64_t{threads} * (64 << 10);
  const std::int64_t in_l3 =
      std::clamp(4 * threads * device.l2_bytes, least, std::max(device.l3_bytes / 2, least));
  // About as much as the sets of operands of a race (rotation_sets): a guest may be told of less L3
  // than its host has.
  const std::int64_t in_dram =
      std::clamp<std::int64_t>(4 * device.l3_bytes, 64 << 20, std::int64_t{1} << 30);
  const Result<double> l3 = read_bandwidth(in_l3, threads);
  if (!l3) return tl::unexpected(l3.error());
  const Result<double> dram = read_bandwidth(in_dram, threads);
  if (!dram) return tl::unexpected(dram.error());
  limits.l3_read = *l3;
  limits.dram_read = *dram;
  return limits;
}

}  // namespace kiln
