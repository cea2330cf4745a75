#include "tuner/offline/offline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mx/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/render/emulated.h"
#include "runtime/cpu/affinity.h"
#include "runtime/timer.h"
#include "tuner/verify/ragged.h"
#include "tuner/worker/check.h"

namespace kiln {
namespace {

/// Configs with the same tile and the same ways to shared memory are alike: so many of each are
/// compiled.
constexpr int kAlike = 4;

using Shape = std::tuple<std::size_t, int, int, int, int, int, int>;

Shape shape_of(const Config& config) {
  if (const auto c = config.if_is<HipMfma>())
    return {config.family(),
            c->tile_m,
            c->tile_n,
            c->depth,
            c->waves_m,
            c->waves_n,
            static_cast<int>(c->staging)};
  if (const auto c = config.if_is<HipMx>())
    return {config.family(), c->tile_m, c->tile_n, c->tile_k, c->waves_m, c->waves_n, c->rows};
  if (const auto c = config.if_is<HipSimt>())
    return {config.family(), c->tile_m, c->tile_n, c->tile_k, c->each_m, c->each_n, 0};
  return {config.family(), 0, 0, 0, 0, 0, 0};
}

/// The analytic model's best, not too many of a kind.
std::vector<Ranked> chosen(const SearchSpace& space, int count) {
  std::vector<Ranked> all;
  for (const Config& config : space.legal)
    all.push_back({config, predict_ns(space.problem, space.device, config)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Ranked& x, const Ranked& y) { return x.model_ns < y.model_ns; });
  std::map<Shape, int> seen;
  std::vector<Ranked> out;
  for (Ranked& one : all) {
    if (static_cast<int>(out.size()) == count) break;
    if (++seen[shape_of(one.config)] <= kAlike) out.push_back(std::move(one));
  }
  return out;
}

void examine(const SearchSpace& space, Compiler& compiler, Ranked& one) {
  auto source = render(space.problem, space.device, one.config);
  if (!source) {
    one.forecast = tl::unexpected(source.error());
    return;
  }
  one.source = std::move(*source);
  one.binary = compiler.compile(one.source);
  if (!one.binary) {
    one.forecast = tl::unexpected(one.binary.error());
    return;
  }
  const auto code = hip::read_code_object(one.binary->image);
  const auto assembly = compiler.assembly(one.source);
  if (!code || !assembly)
    one.forecast = tl::unexpected(code ? assembly.error() : code.error());
  else
    one.forecast =
        forecast(space.problem, space.device, one.config, *code, hip::count_loops(*assembly));
}

bool faster(const Ranked& x, const Ranked& y) {
  if (x.forecast.has_value() != y.forecast.has_value()) return x.forecast.has_value();
  return x.forecast && x.forecast->ns < y.forecast->ns;
}

}  // namespace

Result<std::vector<Ranked>> rank_offline(const Gemm& gemm, const DeviceCaps& device,
                                         Compiler& compiler, const RankOptions& options) {
  if (device.vendor != Vendor::amd)
    return fail(ErrorCode::unsupported,
                device.arch + ": kernels are ranked without a device for AMD targets only");
  const auto space =
      Problem::of(gemm).and_then([&](const Problem& p) { return space_for(p, device); });
  if (!space) return tl::unexpected(space.error());
  std::vector<Ranked> all = chosen(*space, options.candidates);
  const std::int64_t begin = now_ns();
  std::atomic<std::size_t> next{0};
  std::mutex reporting;
  int done = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < all.size();) {
      const bool late = double(now_ns() - begin) * 1e-9 > options.budget_seconds && i > 0;
      if (late || (options.cancelled && options.cancelled())) return;
      examine(*space, compiler, all[i]);
      const std::lock_guard lock(reporting);
      if (options.progress) options.progress(++done, static_cast<int>(all.size()));
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < usable_threads(); ++i) others.emplace_back(work);
    work();
  }
  std::erase_if(all, [](const Ranked& one) { return one.source.text.empty(); });
  std::stable_sort(all.begin(), all.end(), faster);
  return all;
}

Verdict prove_emulated(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  constexpr double kMostWork = 0x1p27;  // multiply-adds: seconds on the emulator
  const auto unknown = [](std::string why) {
    return tl::unexpected(Failure{Failure::Kind::resources, std::move(why)});
  };
  const auto small = small_problem_for(gemm, device, config, kMostWork);
  if (!small) return unknown("no small problem is the same code");
  const auto source = render_emulated(Problem::of(*small).value(), device, config);
  if (!source) return unknown(source.error().message);
  const auto compiler = host_compiler();
  const auto binary =
      compiler ? (*compiler)->compile(*source) : Result<Binary>(tl::unexpected(compiler.error()));
  if (!binary) return unknown(binary.error().message);
  auto checker = Checker::start(*small, device, {.effort = Effort::usual}, {.emulated = true});
  if (!checker) return unknown(checker.error().message);
  Verdict verdict = checker->check(config, *binary);
  if (!verdict) verdict.error().detail += fmt::format(" (emulated, on '{}')", text(*small));
  return verdict;
}

Measured predicted_row(const Ranked& ranked, std::string binary_key) {
  Measured row;
  row.config = ranked.config;
  row.predicted_ns = ranked.model_ns;
  if (ranked.forecast)
    row.outcome = Timing{.median_ns = ranked.forecast->ns,
                         .low_ns = ranked.forecast->ns,
                         .high_ns = ranked.forecast->ns};
  else
    row.outcome = Failure{!ranked.binary ? Failure::Kind::compile
                          : ranked.forecast.error().code == ErrorCode::verification
                              ? Failure::Kind::wrong_result
                              : Failure::Kind::resources,
                          ranked.forecast.error().message};
  row.verified = ranked.proven;
  row.binary_key = std::move(binary_key);
  return row;
}

}  // namespace kiln
