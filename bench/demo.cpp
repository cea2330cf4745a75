#include "bench/demo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/environment.h"
#include "bench/result_check.h"
#include "bench/self.h"
#include "generator/problem/extent.h"
#include "runtime/cpu/cpu.h"
#include "runtime/log.h"
#include "runtime/timer.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {
namespace {

// Bigger weights (1 GB of logits) would eat a budget meant for a dozen layers.
constexpr std::int64_t kMostWeightBytes = 256 << 20;
// Of the budget, in even parts for the searches; the rest is for what they take beyond their parts.
// Parts that depended on the time left would be larger at one run than at the run before, and what
// was complete would be searched on.
constexpr double kTuningShare = 0.9;
// A shape always gets this much.
constexpr double kLeastSeconds = 1.0;

bool cancelled(const DemoOptions& options) { return options.cancelled && options.cancelled(); }

/// A shape that could not be tuned is said and passed over: the table will show it as not from the
/// database, and the others are worth having.
void tune_all(Engine& engine, const std::vector<ListedShape>& shapes, const DemoOptions& options) {
  const double share = kTuningShare * options.budget.count() / double(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    TuneOptions tune;
    tune.budget = std::chrono::duration<double>(std::max(kLeastSeconds, share));
    tune.seed = options.seed;
    tune.threads = options.threads;
    tune.cancelled = options.cancelled;
    if (options.on_tune)
      tune.progress = [&](const Progress& p) { options.on_tune(i, shapes.size(), shapes[i], p); };
    const auto report = engine.tune(shapes[i].gemm, tune);
    if (options.on_tuned) options.on_tuned(i, shapes.size(), shapes[i], report);
    if (report)
      for (const std::string& warning : report->warnings) log::warn("{}", warning);
    else
      log::warn("{}: not tuned: {}", text(shapes[i].gemm), report.error().message);
    if (cancelled(options)) break;
  }
}

/// One gemm() of a shape out of the database, checked.
Status run_checked(Engine& engine, const Gemm& gemm, const DeviceCaps& device, std::uint64_t seed,
                   DemoOutcome& outcome) {
  auto sets = OperandSets::make(gemm, device, seed);
  if (!sets) return tl::unexpected(sets.error());
  poison_d(gemm, (*sets)[0]);
  Operands operands = (*sets)[0];
  operands.threads = device.compute_units;
  const auto begin = now_ns();
  if (Status ran = engine.gemm(gemm, operands); !ran) return ran;
  if (outcome.first_gemm_ns == 0) outcome.first_gemm_ns = double(now_ns() - begin);
  if (auto fault = ResultCheck(gemm, (*sets)[0], seed).fault_of((*sets)[0].d))
    outcome.wrong.push_back(fmt::format("{}: {}", text(gemm), *fault));
  const auto plan = engine.plan(gemm, device.compute_units);
  if (!plan) return tl::unexpected(plan.error());
  outcome.from_database += is_tuned(plan->match());
  return {};
}

}  // namespace

bool DemoOutcome::ok() const {
  return wrong.empty() && compiler_files.empty() && bench.failures.empty() &&
         from_database == int(bench.rows.size()) &&
         std::all_of(bench.rows.begin(), bench.rows.end(),
                     [](const auto& r) { return r.verified; });
}

Result<std::vector<ListedShape>> demo_shapes(const std::vector<int>& tokens) {
  std::vector<ListedShape> all;
  std::vector<std::string> lists;
  for (int count : tokens) lists.push_back(fmt::format("llama-3-8b:{}", count));
  lists.emplace_back("bert-base");
  for (const std::string& list : lists) {
    const auto shapes = suite(list);
    if (!shapes) return tl::unexpected(shapes.error());
    for (const ListedShape& shape : *shapes)
      if (span_bytes(shape.gemm, Operand::b) <= kMostWeightBytes) all.push_back(shape);
  }
  return all;
}

Result<std::optional<int>> run_demo(const DemoOptions& options) {
  const auto shapes = demo_shapes(options.tokens);
  if (!shapes) return tl::unexpected(shapes.error());
  {
    auto engine = Engine::open(options.open);
    if (!engine) return tl::unexpected(engine.error());
    tune_all(*engine, *shapes, options);
  }
  if (cancelled(options)) return std::nullopt;
  const auto child = run_self(options.second_process, apply(peer_environment()), false);
  if (!child) return tl::unexpected(child.error());
  return child->exit_code;
}

Result<DemoOutcome> run_demo_second_process(const DemoOptions& options) {
  const auto shapes = demo_shapes(options.tokens);
  if (!shapes) return tl::unexpected(shapes.error());
  const auto device = detect_cpu(options.threads);
  if (!device) return tl::unexpected(device.error());
  DemoOutcome outcome;
  const auto begin = now_ns();
  auto engine = Engine::open(options.open);
  if (!engine) return tl::unexpected(engine.error());
  outcome.open_ns = double(now_ns() - begin);
  for (const ListedShape& shape : *shapes)
    if (Status ran = run_checked(*engine, shape.gemm, *device, options.seed, outcome); !ran)
      return tl::unexpected(ran.error());
  // Before any peer is loaded: their own dependencies are no business of kiln's.
  outcome.compiler_files = loaded_compilers();

  const auto track = host_track({});
  if (Status found = track->find_peers({}, nullptr); !found) return tl::unexpected(found.error());
  outcome.bench.device = options.open.device;
  const auto limits = measure_limits(*device);
  if (!limits) return tl::unexpected(limits.error());
  outcome.bench.machine.push_back({device->compute_units, *limits});
  ContestOptions race;
  race.seed = options.seed;
  for (const ListedShape& shape : *shapes) {
    if (cancelled(options)) break;
    auto row = contest(*engine, *track, shape.gemm, device->compute_units, race);
    if (row)
      add_row(outcome.bench, std::move(*row));
    else
      outcome.bench.failures.push_back({shape.gemm, device->compute_units, row.error()});
  }
  return outcome;
}

std::string text(const DemoOutcome& o) {
  std::string out = table(o.bench) + '\n' + text(summarise(o.bench));
  out += fmt::format(
      "second process: database opened in {:.2f} ms, first gemm() {:.2f} ms, {} of {} kernels out "
      "of "
      "the database\n",
      o.open_ns * 1e-6, o.first_gemm_ns * 1e-6, o.from_database,
      o.bench.rows.size() + o.bench.failures.size());
  out += o.compiler_files.empty()
             ? "no compiler was loaded after the last gemm()\n"
             : fmt::format("a compiler was loaded: {}\n", fmt::join(o.compiler_files, ", "));
  for (const std::string& wrong : o.wrong) out += fmt::format("WRONG: {}\n", wrong);
  return out;
}

}  // namespace kiln
