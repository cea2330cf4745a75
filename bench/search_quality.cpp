#include "bench/search_quality.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "bench/environment.h"
#include "bench/gpu_plan_calls.h"
#include "cache/store.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {
namespace {

constexpr int kCurveSamples = 101, kCurveLeastSamples = 5;
constexpr double kRaceNs = 5e9;
constexpr const char* kEmpty = "empty.db";

/// A folder that is removed with everything in it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::string path = (std::filesystem::temp_directory_path() / "kiln-bench-XXXXXX").string();
    if (!mkdtemp(path.data()))
      return fail(ErrorCode::device, fmt::format("mkdtemp {}: {}", path, std::strerror(errno)));
    return TemporaryFolder(path);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path file(const char* name) const { return path_ / name; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

struct Tuned {
  Engine engine;
  TuneReport report;
};

Result<Tuned> tune_from_nothing(const std::filesystem::path& database,
                                const SearchQualityInput& input, double times, std::uint64_t seed) {
  OpenOptions open;
  open.device = input.device;
  open.database = database;
  open.shipped = {database.parent_path() / kEmpty};  // and not what $KILN_DB_PATH names
  open.threads = input.threads;
  auto engine = Engine::open(open);
  if (!engine) return tl::unexpected(engine.error());
  TuneOptions tune;
  tune.budget = times * input.budget;
  tune.seed = seed;
  tune.threads = input.threads;
  auto report = engine->tune(input.gemm, tune);
  if (!report) return tl::unexpected(report.error());
  return Tuned{std::move(*engine), std::move(*report)};
}

/// Medians of both plans, in their order.
struct Raced {
  double first_ns, second_ns;
  GpuConditions conditions = {};
};

Result<Raced> raced_on_cpu(const SearchQualityInput& input, const std::vector<Plan>& plans) {
  const auto device = detect_cpu(input.threads);
  if (!device) return tl::unexpected(device.error());
  auto sets = OperandSets::make(input.gemm, *device, input.seed);
  if (!sets) return tl::unexpected(sets.error());
  std::vector<Calls> calls;
  for (const Plan& plan : plans) {
    if (Status ran = plan.run((*sets)[0]); !ran) return tl::unexpected(ran.error());
    calls.push_back(
        calls_over(sets->count(), [plan, &sets = *sets](int set) { (void)plan.run(sets[set]); }));
  }
  MeasureOptions options;
  options.sets = sets->count();
  options.samples = kCurveSamples;
  options.min_samples = kCurveLeastSamples;
  options.budget_ns = kRaceNs;
  options.gate = fma_gate(input.threads);
  auto samples = race(calls, options);
  return Raced{timing_of(std::move(samples[0].ns)).median_ns,
               timing_of(std::move(samples[1].ns)).median_ns};
}

Result<Raced> raced_on_gpu(const SearchQualityInput& input, const std::vector<Plan>& plans) {
  auto device = open_gpu(input.device);
  if (!device) return tl::unexpected(device.error());
  auto tools = GpuTools::make(*device);
  if (!tools) return tl::unexpected(tools.error());
  Gemm gemm = input.gemm;
  if (gemm.alignment == 1) gemm.alignment = natural_alignment(gemm);
  const Canonical problem = canonicalise(gemm);
  auto sets = GpuOperandSets::make(**tools, problem, input.seed);
  if (!sets) return tl::unexpected(sets.error());
  std::vector<GpuCalls> calls;
  std::vector<GpuCalls*> contenders;
  for (const Plan& plan : plans) {
    auto one = GpuCalls::make(**tools, *sets, run_on_gpu(plan, problem.swapped));
    if (!one) return tl::unexpected(one.error());
    calls.push_back(std::move(*one));
  }
  for (GpuCalls& one : calls) contenders.push_back(&one);
  const auto conditions = gpu_race(contenders, kCurveSamples, kCurveLeastSamples, kRaceNs, {});
  if (!conditions) return tl::unexpected(conditions.error());
  return Raced{calls[0].timing().median_ns, calls[1].timing().median_ns, *conditions};
}

}  // namespace

Result<SearchQuality> measure_search_quality(const SearchQualityInput& input) {
  auto folder = TemporaryFolder::make();
  if (!folder) return tl::unexpected(folder.error());
  if (const auto empty = Store::open({.database = folder->file(kEmpty)}); !empty)
    return tl::unexpected(empty.error());
  auto brief = tune_from_nothing(folder->file("brief.db"), input, 1, input.seed);
  if (!brief) return tl::unexpected(brief.error());
  auto thorough = tune_from_nothing(folder->file("thorough.db"), input, 10, input.seed + 1);
  if (!thorough) return tl::unexpected(thorough.error());
  std::vector<Plan> plans;
  for (Tuned* tuned : {&*brief, &*thorough}) {
    auto plan = tuned->engine.plan(input.gemm, input.threads);
    if (!plan) return tl::unexpected(plan.error());
    plans.push_back(std::move(*plan));
  }
  const auto raced =
      input.device == "cpu" ? raced_on_cpu(input, plans) : raced_on_gpu(input, plans);
  if (!raced) return tl::unexpected(raced.error());
  return SearchQuality{.short_seconds = brief->report.seconds,
                       .long_seconds = thorough->report.seconds,
                       .short_config = brief->report.config,
                       .long_config = thorough->report.config,
                       .quality = raced->second_ns / raced->first_ns,
                       .conditions = raced->conditions};
}

}  // namespace kiln
