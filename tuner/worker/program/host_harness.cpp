// Kernels on this machine's CPU, in this process's memory.
#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "generator/problem/extent.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/cpu/image.h"
#include "runtime/cpu/thread_pool.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/search/stopping.h"
#include "tuner/verify/data_set.h"
#include "tuner/worker/own_check.h"
#include "tuner/worker/program/cage.h"
#include "tuner/worker/program/verifiers.h"

namespace kiln {
namespace {

constexpr std::int64_t kCheapToVerify = std::int64_t{1} << 25;  // multiply-adds
constexpr double kScreenSampleNs = 20'000;
constexpr double kRaceSampleNs = 100'000;
/// Of an untimed problem after the first: the limit of address space leaves room for its operands,
/// references and copies.
constexpr std::int64_t kAnotherBytes = std::int64_t{1} << 28;

/// What candidates are timed on.
struct Timed {
  OperandSets sets;
  std::shared_ptr<SpeedGate> probe;
  SampleGate gate = fma_gate(probe);
  double lead_in_below_ns = 0;  // one thread alone does not fall asleep
  std::int64_t next_set = 0;
};

class HostContender final : public Contender {
 public:
  HostContender(Calls calls, Timed& on)
      : calls_(std::move(calls)),
        sampler_(calls_, {.sample_ns = kScreenSampleNs,
                          .gate = on.gate,
                          .next_set = &on.next_set,
                          .lead_in_below_ns = on.lead_in_below_ns,
                          .settle_ns = settle_ns(on.sets.count())}) {}
  Verdict take(int total, double budget_ns, Contender* other) override {
    sampler_.take(total, budget_ns,
                  other != nullptr ? &static_cast<HostContender*>(other)->sampler_ : nullptr);
    return {};
  }
  Timing timing() const override { return sampler_.timing(); }
  Timing beside() const override { return sampler_.beside(); }
  std::string disturbed() const override { return disturbance(sampler_.samples()); }
  const Calls& calls() const { return calls_; }

 private:
  Calls calls_;
  Sampler sampler_;
};

class HostCandidate final : public Candidate {
 public:
  HostCandidate(HostKernel kernel, const HarnessInput& input, const Config& config,
                Verifiers& verifiers, Timed* timed)
      : kernel_(std::move(kernel), config, input.gemm, input.device),
        config_(config),
        flushed_(flushed_by(input.gemm, input.device, config)),
        verifiers_(verifiers),
        timed_(timed) {}

  Verdict check() override { return verifiers_.check(code(), flushed_); }
  Verdict check_ragged() override { return verifiers_.check_ragged(code(), config_, flushed_); }
  tl::expected<std::unique_ptr<Contender>, Failure> contender() override {
    auto calls = kernel_.calls(timed_->sets);
    if (!calls) return tl::unexpected(resources(calls.error()));
    return std::make_unique<HostContender>(std::move(*calls), *timed_);
  }

 private:
  CodeOn code() {
    return [this](const Gemm& on) -> Result<RunKernel> {
      return [this, problem = Problem::of(on).value()](const Operands& operands) {
        return kernel_.run(problem, operands);
      };
    };
  }

  BoundKernel kernel_;
  Config config_;
  double flushed_;
  Verifiers& verifiers_;
  Timed* timed_;  // null: nothing is timed
};

/// The parent's D as this process sees it.
class SharedOutput {
 public:
  static Result<SharedOutput> map(const Gemm& gemm, int file) {
    const std::size_t bytes = output_bytes(gemm);
    void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED)
      return fail(ErrorCode::device,
                  fmt::format("D of {} bytes: mmap: {}", bytes, strerror(errno)));
    return SharedOutput(mapping, bytes);
  }
  SharedOutput(SharedOutput&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  SharedOutput& operator=(SharedOutput&&) = delete;
  ~SharedOutput() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  void* data() const { return data_; }

 private:
  SharedOutput(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void* data_;
  std::size_t bytes_;
};

class HostHarness final : public Harness {
 public:
  Status prepare(const HarnessInput& input) override {
    if (confined_) return prepare_another(input);
    // Asked for its side effect: tile registers are granted to each process on request.
    if (const auto here = detect_cpu(); !here) return tl::unexpected(here.error());
    timed_.reset();
    verifiers_.reset();
    if (input.timed) {
      auto sets = OperandSets::make(input.gemm, input.device, input.options.seed);
      if (!sets) return tl::unexpected(sets.error());
      timed_.reset(new Timed{
          .sets = std::move(*sets),
          .probe = std::make_shared<SpeedGate>(input.device.compute_units, input.gemm.a.dtype),
          .lead_in_below_ns = input.device.compute_units > 1 ? kLeadInBelowNs : 0});
    }
    auto made = Verifiers::make(input);
    if (!made) return tl::unexpected(made.error());
    verifiers_.emplace(std::move(*made));
    input_ = input;
    return {};
  }

  bool serves_many() const override { return true; }
  /// What code will need that has a path is opened first: libm, and the threads, which are placed
  /// by what the system's files say of its cores. Their stacks do not count against the limit of
  /// address space.
  std::string confine(WorkerStatus* status) override {
    LoadedImage::prepare();
    open_library();
    most_threads_ = input_.device.compute_units;
    const TeamLease team(most_threads_);
    fix_threads();
    limit_address_space(touched_bytes(input_.gemm));
    confined_ = true;
    return enter_cage(CageKind::host, status);
  }

  int sets() const override { return timed_->sets.count(); }

  tl::expected<std::unique_ptr<Candidate>, Failure> load(std::span<const std::byte> image,
                                                         const Config& config) override {
    auto kernel = HostKernel::load(image);
    if (!kernel) return tl::unexpected(load_failure(kernel.error()));
    return std::make_unique<HostCandidate>(std::move(*kernel), input_, config, *verifiers_,
                                           timed_.get());
  }

  bool checks_first() const override {
    const Gemm& g = input_.gemm;
    return g.m * g.n * g.k * g.batch <= kCheapToVerify;
  }
  /// The parent has the winner's D computed in a fresh process and compares it itself.
  bool checks_after_race() const override { return false; }

  /// The system's BLAS library, called as a program calls it: gemm for every size.
  tl::expected<std::optional<Peer>, Failure> peer() override {
    if (!library_) return std::nullopt;
    Calls calls =
        calls_over(timed_->sets.count(), [this](int set) { library_->run(timed_->sets[set]); });
    return Peer{system_blas()->identity,
                std::make_unique<HostContender>(std::move(calls), *timed_)};
  }

  tl::expected<Raced, Failure> race(std::span<Contender* const> contenders,
                                    const RaceRules& rules) override {
    std::vector<Calls> all;
    for (std::size_t i = 0; i < contenders.size(); ++i)
      all.push_back([&, i, calls = static_cast<HostContender*>(contenders[i])->calls()](
                        std::int64_t first, std::int64_t count) {
        rules.on_turn(i);
        calls(first, count);
      });
    const auto stop = [&](const std::vector<Samples>& samples) {
      const auto few = [](const Samples& s) {
        return static_cast<int>(s.ns.size()) + s.dropped < kLeastSamples;
      };
      if (rules.over() && std::ranges::none_of(samples, few)) return true;
      std::vector<Timing> timings;
      for (const Samples& s : samples) timings.push_back(timing_of(s.ns));
      return samples.size() > 1 && decided(timings, kRaceMinSamples);
    };
    Raced raced;
    for (const Samples& s : kiln::race(all,
                                       {.samples = kRaceSamples,
                                       .sample_ns = kRaceSampleNs,
                                       .budget_ns = rules.budget_ns,
                                       .gate = timed_->gate,
                                       .next_set = &timed_->next_set,
                                       .lead_in_below_ns = timed_->lead_in_below_ns,
                                       .settle_ns = settle_ns(timed_->sets.count()),
                                       .last = kRaceLast,
                                       .heat = kRaceMinSamples},
                                       stop)) {
      raced.timings.push_back(timing_of(s.ns));
      raced.disturbed.push_back(disturbance(s));
    }
    return raced;
  }

  std::optional<double> peak_flops() const override { return timed_->probe->peak_flops(); }

  Status run_into(int output_file, std::span<const std::byte> image, const Config& config,
                  WorkerStatus* status) override {
    const Gemm& gemm = input_.gemm;
    status->phase.store(WorkerStatus::preparing, std::memory_order_release);
    const auto d = SharedOutput::map(gemm, output_file);
    if (!d) return tl::unexpected(d.error());
    const auto inputs = DataSet::make(gemm, own_recipe(input_.options.seed));
    if (!inputs) return tl::unexpected(inputs.error());
    status->phase.store(WorkerStatus::loading, std::memory_order_release);
    auto loaded = HostKernel::load(image);
    if (!loaded) return tl::unexpected(loaded.error());
    BoundKernel kernel(std::move(*loaded), config, gemm, input_.device);
    status->phase.store(WorkerStatus::verifying, std::memory_order_release);
    Operands operands;
    inputs->bind(operands);
    bind_outputs(gemm, static_cast<std::byte*>(d->data()), operands);
    std::tie(operands.alpha, operands.beta) = uniform_scalars(gemm);
    std::vector<ListEntry> list;
    return kernel.run(inputs->call(operands, list));
  }

 private:
  /// Before the cage closes: it reads files and starts threads, at the latest in its first product
  /// on so many.
  void open_library() {
    if (!timed_ || input_.gemm.b_packed || !blas_computes(input_.gemm)) return;
    // Its threads spin after a call, by default for tens of milliseconds: in a race they would take
    // a core from the next kernel. As `kiln bench` has it (bench/environment.cpp).
    for (const auto& [name, value] :
         {std::pair{"OPENBLAS_THREAD_TIMEOUT", "17"}, std::pair{"GOMP_SPINCOUNT", "1000"},
          std::pair{"KMP_BLOCKTIME", "0"}})
      setenv(name, value, 0);
    const auto& library = system_blas();
    if (library == nullptr) return;
    constexpr std::int64_t kWarm = 256;
    const Gemm warm = Gemm::row_major(kWarm, kWarm, kWarm, input_.gemm.a.dtype);
    std::vector<double> memory(3 * kWarm * kWarm);
    const BlasProduct product(library, warm, input_.device.compute_units, false);
    product.run({.a = memory.data(),
                 .b = memory.data() + kWarm * kWarm,
                 .d = memory.data() + 2 * kWarm * kWarm});
    library_.emplace(library, input_.gemm, input_.device.compute_units, false);
  }

  /// In the cage only small problems are verified, on the threads that there are: no file can be
  /// asked how much memory is left.
  Status prepare_another(HarnessInput input) {
    DeviceCaps as_first = input.device;
    as_first.compute_units = input_.device.compute_units;
    if (input.timed || input_.timed || as_first != input_.device ||
        input.device.compute_units > most_threads_ || touched_bytes(input.gemm) > kAnotherBytes)
      return fail(ErrorCode::device,
                  fmt::format("'{}': this worker serves another problem", text(input.gemm)));
    verifiers_.reset();
    input.options.ask_for_room = false;
    auto made = Verifiers::make(input);
    if (!made) return tl::unexpected(made.error());
    verifiers_.emplace(std::move(*made));
    input_ = std::move(input);
    return {};
  }

  HarnessInput input_;
  bool confined_ = false;
  int most_threads_ = 1;  // that were started before the cage
  std::unique_ptr<Timed> timed_;
  std::optional<BlasProduct> library_;  // where it computes the timed problem
  std::optional<Verifiers> verifiers_;
};

}  // namespace

std::unique_ptr<Harness> host_harness() { return std::make_unique<HostHarness>(); }

}  // namespace kiln
