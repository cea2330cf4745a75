#include "bench/search_quality.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "bench/environment.h"
#include "bench/track.h"
#include "cache/store.h"

namespace kiln {
namespace {

constexpr int kCurveSamples = 101;
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
  const auto track = open_track(input.device);
  if (!track) return tl::unexpected(track.error());
  const auto race = (*track)->prepare(input.gemm, input.threads, input.seed);
  if (!race) return tl::unexpected(race.error());
  for (Tuned* tuned : {&*brief, &*thorough}) {
    const auto plan = tuned->engine.plan(input.gemm, input.threads);
    if (!plan) return tl::unexpected(plan.error());
    if (Status in = (*race)->enter(tuned->engine, *plan); !in) return tl::unexpected(in.error());
  }
  const auto raced = (*race)->race(kCurveSamples, kRaceNs);
  if (!raced) return tl::unexpected(raced.error());
  return SearchQuality{.short_seconds = brief->report.seconds,
                       .long_seconds = thorough->report.seconds,
                       .short_config = brief->report.config,
                       .long_config = thorough->report.config,
                       .quality = raced->plans[1].median_ns / raced->plans[0].median_ns,
                       .conditions = raced->conditions};
}

}  // namespace kiln
