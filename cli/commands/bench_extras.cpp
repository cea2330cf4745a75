#include "cli/commands/bench_extras.h"

#include <fmt/format.h>

#include "bench/overhead.h"
#include "bench/report.h"
#include "bench/search_quality.h"
#include "cache/keys.h"
#include "cli/output/report.h"
#include "kiln/engine.hpp"

namespace kiln::cli {
namespace {

constexpr int kColdStarts = 11;

Result<Outcome> overhead(bool json, const ExtrasInput& input) {
  Result<Engine> engine = Engine::open(input.open);
  if (!engine) return tl::unexpected(engine.error());
  const Result<Overhead> found = measure_overhead(*engine, input.gemm, input.open.device);
  if (!found) return tl::unexpected(found.error());
  if (json)
    print_json({{"overhead",
                 {{"shape", text(found->gemm)},
                  {"direct_ns", found->direct_ns},
                  {"plan_ns", found->plan_ns},
                  {"gemm_ns", found->gemm_ns}}}});
  else
    fmt::print("{}: kernel alone {:.1f} ns, Plan::run +{:.1f} ns, Engine::gemm +{:.1f} ns\n",
               text(found->gemm), found->direct_ns, found->plan_ns - found->direct_ns,
               found->gemm_ns - found->direct_ns);
  return Outcome::done;
}

Result<Outcome> cold_start(bool json, const ExtrasInput& input) {
  std::vector<std::string> arguments{"bench",          "--cold-start-child", "--shape",
                                     text(input.gemm), "--device",           input.open.device};
  if (input.threads > 0)
    arguments.insert(arguments.end(), {"--threads", fmt::format("{}", input.threads)});
  arguments.insert(arguments.end(),
                   {"--determinism", std::get<std::string>(to_value(input.open.determinism))});
  if (!input.open.database.empty())
    arguments.insert(arguments.end(), {"--db", input.open.database.string()});
  const Result<ColdStart> found = measure_cold_start(arguments, kColdStarts);
  if (!found) return tl::unexpected(found.error());
  const bool good = found->verified && found->compiler_files.empty();
  if (json)
    print_json({{"cold_start",
                 {{"shape", text(input.gemm)},
                  {"open_ns", found->open_ns},
                  {"first_gemm_ns", found->first_gemm_ns},
                  {"exact", found->match == Match::exact},
                  {"verified", found->verified},
                  {"compiler_files", found->compiler_files}}}});
  else
    fmt::print("{}: open {}, first gemm() {}{}{}; {}\n", text(input.gemm),
               human_time(found->open_ns), human_time(found->first_gemm_ns),
               found->match == Match::exact ? "" : ", untuned", found->verified ? "" : ", WRONG",
               found->compiler_files.empty() ? "no compiler was loaded" : "a compiler was loaded");
  return good ? Outcome::done : Outcome::check_failed;
}

Result<Outcome> cold_start_child(const ExtrasInput& input) {
  const Result<ColdStart> found = cold_start_here(input.gemm, input.open, input.threads);
  if (!found) return tl::unexpected(found.error());
  fmt::print("{}\n", cold_start_line(*found));
  return Outcome::done;
}

Result<Outcome> search_quality(bool json, const ExtrasInput& input) {
  const Result<SearchQuality> found =
      measure_search_quality({.gemm = input.gemm,
                              .device = input.open.device,
                              .threads = input.threads,
                              .budget = std::chrono::duration<double>(input.budget_seconds),
                              .seed = input.seed});
  if (!found) return tl::unexpected(found.error());
  const bool conditions_known = found->conditions.readings > 0;
  if (json) {
    Json row{{"shape", text(input.gemm)},         {"seconds", found->short_seconds},
             {"config", found->short_config},     {"long_seconds", found->long_seconds},
             {"long_config", found->long_config}, {"quality", found->quality}};
    if (conditions_known) row["conditions"] = to_json(found->conditions);
    print_json({{"search_quality", row}});
  } else {
    fmt::print(
        "{}\n  {:.1f} s: {}\n  {:.1f} s: {}\n  the short search reaches {} of the long one's\n",
        text(input.gemm), found->short_seconds, found->short_config, found->long_seconds,
        found->long_config, percent(found->quality));
    if (conditions_known) fmt::print("  {}\n", text(found->conditions));
  }
  return Outcome::done;
}

}  // namespace

void Extras::add_to(CLI::App& app) {
  app.add_flag("--overhead", overhead, "Measure gemm() beside its kernel called directly");
  app.add_flag("--cold-start", cold_start,
               fmt::format("Measure open + first gemm() in {} new processes", kColdStarts));
  app.add_flag("--search-quality", search_quality,
               "Race the winners of a search of --budget seconds and one ten times as long");
  app.add_flag("--cold-start-child", cold_start_child)->group("");
  app.add_option(
         "--ladder", ladder,
         "Run GPU kernels of a type (fp32, fp16) from the plainest to the tuned one, rung by rung")
      ->type_name("DTYPE")
      ->expected(0, 1)
      ->default_str("fp32");
}

Result<Outcome> run_extras(bool json, const Extras& extras, const ExtrasInput& input) {
  if (extras.cold_start_child) return cold_start_child(input);
  Outcome worst = Outcome::done;
  const auto run = [&](bool wanted, auto measure) -> Status {
    if (!wanted) return {};
    const Result<Outcome> outcome = measure(json, input);
    if (!outcome) return tl::unexpected(outcome.error());
    if (*outcome != Outcome::done) worst = *outcome;
    return {};
  };
  Status status = run(extras.overhead, overhead);
  if (status) status = run(extras.cold_start, cold_start);
  if (status) status = run(extras.search_quality, search_quality);
  if (!status) return tl::unexpected(status.error());
  return worst;
}

}  // namespace kiln::cli
