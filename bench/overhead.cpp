#include "bench/overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/aligned_bytes.h"
#include "bench/environment.h"
#include "bench/result_check.h"
#include "bench/self.h"
#include "engine/plan.h"
#include "runtime/cpu/cpu.h"
#include "runtime/timer.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {
namespace {

constexpr int kOverheadSamples = 101;

double median(std::vector<double> values) { return timing_of(std::move(values)).median_ns; }

}  // namespace

Result<Overhead> measure_overhead(Engine& engine, const Gemm& gemm) {
  const auto device = detect_cpu(1);
  if (!device) return tl::unexpected(device.error());
  auto sets = OperandSets::make(gemm, *device, 1);
  if (!sets) return tl::unexpected(sets.error());
  auto plan = engine.plan(gemm, 1);
  if (!plan) return tl::unexpected(plan.error());
  const Plan::Impl& inside = plan->impl();
  if (!inside.kernel)
    return fail(ErrorCode::not_tuned,
                fmt::format("{}: no generated kernel to call directly; tune it first", text(gemm)));
  Operands operands = (*sets)[0];
  operands.threads = 1;
  if (Status ran = engine.gemm(gemm, operands); !ran) return tl::unexpected(ran.error());

  KilnArgs args = make_args(inside.problem, operands);
  const AlignedBytes workspace(std::size_t(inside.workspace_bytes));
  unsigned barrier[4] = {};
  args.workspace = workspace.data();
  args.barrier = barrier;
  const auto direct = calls_over(1, [&](int) { inside.kernel->gemm(&args, 0, 1); });
  const auto by_plan = calls_over(1, [&](int) { (void)plan->run(operands); });
  const auto by_gemm = calls_over(1, [&](int) { (void)engine.gemm(gemm, operands); });
  MeasureOptions options;
  options.samples = kOverheadSamples;
  options.gate = fma_gate(1);
  const auto samples = race({direct, by_plan, by_gemm}, options);
  return Overhead{gemm, median(samples[0].ns), median(samples[1].ns), median(samples[2].ns)};
}

Result<ColdStart> cold_start_here(const Gemm& gemm, const OpenOptions& open, int threads) {
  const auto device = detect_cpu(threads);
  if (!device) return tl::unexpected(device.error());
  auto sets = OperandSets::make(gemm, *device, 1);
  if (!sets) return tl::unexpected(sets.error());
  poison_d(gemm, (*sets)[0]);
  Operands operands = (*sets)[0];
  operands.threads = threads;
  ColdStart result;
  const auto begin = now_ns();
  auto engine = Engine::open(open);
  if (!engine) return tl::unexpected(engine.error());
  const auto opened = now_ns();
  if (Status ran = engine->gemm(gemm, operands); !ran) return tl::unexpected(ran.error());
  const auto done = now_ns();
  result.open_ns = double(opened - begin);
  result.first_gemm_ns = double(done - opened);
  result.compiler_files = mapped_compiler_files();
  result.verified = !ResultCheck(gemm, (*sets)[0], 1).fault_of((*sets)[0].d);
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
