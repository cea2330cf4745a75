#include "cli/commands/tune_offline.h"

#include <fmt/format.h>

#include "cache/exchange/offline.h"
#include "cache/printable.h"
#include "cli/output/report.h"
#include "generator/problem/spelling.h"
#include "generator/problem/timed_flops.h"

namespace kiln::cli {
namespace {

Json forecast_json(const HipForecast& f) {
  return {{"predicted_ns", f.ns},
          {"clock_ghz", f.ghz},
          {"peak_share_main_loop", f.peak_share},
          {"peak_share", f.flops_share},
          {"matrix_cycles", f.matrix},
          {"issue_cycles", f.issue},
          {"shared_cycles", f.shared},
          {"conflict_cycles", f.conflicts},
          {"l2_cycles", f.l2},
          {"fill_cycles", f.fill},
          {"memory_cycles", f.memory},
          {"exposed_cycles", f.exposed},
          {"l2_bytes", f.l2_bytes},
          {"fill_bytes", f.fill_bytes},
          {"memory_bytes", f.memory_bytes},
          {"resident_blocks", f.resident},
          {"occupancy", f.occupancy},
          {"registers", f.registers},
          {"others_per_matrix", f.others_per_matrix}};
}

void print_winner(const Gemm& gemm, const std::vector<Ranked>& ranked, int rejected) {
  const HipForecast& f = *ranked.front().forecast;
  fmt::print("{}\n  {}\n  predicted, not measured: {}, {:.0f} GFLOP/s\n", text(gemm),
             text(ranked.front().config), human_time(f.ns), timed_flops(gemm) / f.ns);
  if (f.peak_share > 0)
    fmt::print(
        "  {} of the card's peak: the main loop keeps the matrix units busy {} of its cycles, at "
        "{:.2f} GHz under load\n",
        percent(f.flops_share), percent(f.peak_share), f.ghz);
  fmt::print(
      "  cycles a stage: matrix {:.0f}, issue {:.0f}, LDS {:.0f} ({:.0f} of conflicts), L2 {:.0f}, "
      "fill {:.0f}, memory {:.0f}, exposed {:.0f}\n",
      f.matrix, f.issue, f.shared, f.conflicts, f.l2, f.fill, f.memory, f.exposed);
  fmt::print("  {} registers, {} waves a SIMD, {:.2f} other instructions a matrix instruction\n",
             f.registers, f.occupancy, f.others_per_matrix);
  fmt::print("  {} candidates compiled, {} refused; {}\n", ranked.size(), rejected,
             ranked.front().proven ? "verified on the emulator" : "not verified");
  std::fflush(stdout);
}

int refused(const std::vector<Ranked>& ranked) {
  int count = 0;
  for (const Ranked& one : ranked) count += !one.forecast;
  return count;
}

Status one_shape(const Session& session, const OfflineCommand& command, const Target& target,
                 Store& store, Compiler& compiler, const Gemm& gemm) {
  RankOptions options{.budget_seconds = command.budget, .cancelled = interrupted};
  auto bar = std::make_unique<CountReport>(text(gemm), options.candidates);
  options.progress = [&](int done, int) { bar->update(done, "compiled"); };
  const auto ranked = tune_offline(store, gemm, target.caps, compiler, options);
  bar.reset();
  if (!ranked) return tl::unexpected(ranked.error());
  if (!session.json) {
    print_winner(gemm, *ranked, refused(*ranked));
    return {};
  }
  Json row{{"shape", text(gemm)},
           {"device", command.device.name},
           {"predicted", true},
           {"proven", ranked->front().proven},
           {"config", text(ranked->front().config)},
           {"compiled", ranked->size()},
           {"refused", refused(*ranked)}};
  row.update(forecast_json(*ranked->front().forecast));
  print_json(row);
  return {};
}

}  // namespace

Result<Outcome> run_offline(const Session& session, const OfflineCommand& command) {
  const Result<Target> target = resolve(command.device);
  if (!target) return tl::unexpected(target.error());
  if (target->caps.vendor != Vendor::amd || target->emulated)
    return fail(ErrorCode::unsupported,
                fmt::format("device = \"{}\": --offline ranks for AMD's targets by name: {}",
                            command.device.name, known_hip_gpus()));
  const Result<Compiler*> compiler = compiler_for(*target);
  if (!compiler) return tl::unexpected(compiler.error());
  const auto store = open_store(command.database);
  if (!store) return tl::unexpected(store.error());
  int predicted = 0, failed = 0;
  for (const Shape& shape : command.shapes) {
    if (interrupted()) break;
    const Gemm gemm = with_defaults_of(shape.gemm, target->caps);
    advise(gemm, target->caps);
    const Status done = one_shape(session, command, *target, **store, **compiler, gemm);
    if (done) {
      ++predicted;
      continue;
    }
    ++failed;
    fmt::print(stderr, "kiln: {}: {}\n", shape.origin, printable(done.error().message));
    if (session.json)
      print_json(
          {{"shape", text(gemm)},
           {"error", {{"code", name(done.error().code)}, {"message", done.error().message}}}});
  }
  const std::size_t left = command.shapes.size() - static_cast<std::size_t>(predicted + failed);
  if (session.json)
    print_json(
        {{"summary", {{"predicted", predicted}, {"failed", failed}, {"not_reached", left}}}});
  else
    fmt::print("{} predicted, {} failed{}\n", predicted, failed,
               left ? fmt::format(", {} not reached", left) : "");
  return failed == 0 && left == 0 ? Outcome::done : Outcome::check_failed;
}

}  // namespace kiln::cli
