// `kiln sweep`: a race over ranges and steps of m, n and k.
#include "bench/sweep.h"

#include <fmt/format.h>

#include "bench/environment.h"
#include "cli/commands.h"
#include "cli/commands/bench_range.h"
#include "cli/commands/race.h"

namespace kiln::cli {
namespace {

constexpr Manual kSweepManual{
    "sweep", "Race kiln and the BLAS libraries over ranges and steps of m, n and k",
    "  The shape's line has m, n and k where sizes are to vary; a letter may stand more than once\n"
    "  (\"fp32 N N m m m\": squares), and numbers stay. --m, --n and --k say which values:\n"
    "    512             one value            1,7,64        a list, of any of these forms\n"
    "    64:1024:64      first:last:step      64..4096      each twice the one before\n"
    "    2^6..2^12       powers of two        100..9000*1.5 each one and a half times\n"
    "  All combinations are raced as kiln bench races a list, with its table, JSON, --csv and\n"
    "  --against. --svg draws GFLOP/s over the size with the most values, a panel for each\n"
    "  combination of the others, with the peak as a dashed line.\n"
    "  Untuned shapes run with the kernel that gemm() would use, unless --tune, which takes "
    "--budget\n"
    "  for each.",
    "  kiln sweep \"fp32 N T m n k\" --m 64:1024:64 --n 512 --k 2^6..2^12 --csv f.csv --svg f.svg\n"
    "  kiln sweep \"fp32 N N m m m\" --m 64..2048 --tune --budget 5s --threads 1 --svg "
    "squares.svg\n"
    "  kiln sweep \"bf16 N T m 6144 4096\" --device cuda:0 --m 1..8192 --json"};

struct SweepCommand : RaceCommand {
  std::string line, m, n, k, svg;
};

Result<Outcome> run(const Session& session, const SweepCommand& command) {
  SweepValues values;
  const std::string* const given[] = {&command.m, &command.n, &command.k};
  for (const Size size : {Size::m, Size::n, Size::k}) {
    const std::size_t i = static_cast<std::size_t>(size);
    if (given[i]->empty()) continue;
    auto some = sweep_values(name(size), *given[i]);
    if (!some) return tl::unexpected(some.error());
    values[i] = std::move(*some);
  }
  const auto gemms = sweep_gemms(command.line, values);
  if (!gemms) return tl::unexpected(gemms.error());
  if (Status ok = check_threads(command); !ok) return tl::unexpected(ok.error());
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  // Libraries read their environment as they load, so this comes before anything else.
  if (Status entered = enter_peer_environment(); !entered) return tl::unexpected(entered.error());
  return run_race(session, command, *gemms, [&](const BenchReport& report) {
    return command.svg.empty() ? Status{} : write_text("svg", command.svg, sweep_svg(report));
  });
}

}  // namespace

void add_sweep(CLI::App& parent, Session& session) {
  auto command = std::make_shared<SweepCommand>();
  CLI::App* app = add_command(parent, session, kSweepManual,
                              [&session, command] { return run(session, *command); });
  app->add_option("shape", command->line,
                  "A shape's line with m, n or k for the sizes that vary: \"fp32 N T m n 512\"")
      ->type_name("SHAPE")
      ->required();
  for (const auto& [name, to] :
       {std::pair{"m", &command->m}, {"n", &command->n}, {"k", &command->k}})
    app->add_option(fmt::format("--{}", name), *to, fmt::format("Values of {}", name))
        ->type_name("VALUES");
  command->add_to(*app);
  app->add_option("--svg", command->svg, "Draw GFLOP/s over the size with the most values")
      ->type_name("FILE");
}

}  // namespace kiln::cli
