// `kiln bench`: kiln beside every other library that is installed, interleaved in one run.
#include "bench/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include "bench/environment.h"
#include "bench/leave_one_out.h"
#include "bench/search_curve.h"
#include "cli/commands.h"
#include "cli/commands/bench_extras.h"
#include "cli/commands/bench_ladder.h"
#include "cli/commands/bench_range.h"
#include "cli/commands/race.h"
#include "cli/commands/random_gemm.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "runtime/backend.h"

namespace kiln::cli {
namespace {

constexpr Manual kBenchManual{
    "bench", "Race kiln against the BLAS libraries that are installed",
    "  For each shape and thread count, kiln's kernel and that of every library that supports the\n"
    "  problem run interleaved over the same operands; each result is checked; times are medians.\n"
    "  ratio is the fastest library's time over kiln's: above 1, kiln is faster. Each library runs "
    "at\n"
    "  its best, for which the command starts itself again in an environment of its own; how each\n"
    "  one runs, and what the machine reaches on FMAs and memory, is printed first. $KILN_PEERS\n"
    "  names more libraries to race, by their files: BLAS libraries, oneDNN 2 and 3. Packed "
    "weights\n"
    "  (packed_b=1) race against oneDNN's reordered ones and against all others unpacked.\n"
    "  Untuned shapes run with the kernel that gemm() would use, unless --tune. A wrong result or "
    "a\n"
    "  shape that could not be raced makes the exit code 1.\n"
    "  peak is kiln's share of the highest rate that the same threads reached in the type: in\n"
    "  multiplications in registers (or AMX tiles) alone, probed between the samples, or in\n"
    "  anything that was timed and right.\n"
    "  --json prints one object a shape and thread count, then {\"summary\": ...}:\n"
    "    dtype ta tb m n k threads device kiln_ns peers{name: ns} best_peer ratio verified config\n"
    "    policy versions{name: library}, and of a GPU that tells its clock conditions\n"
    "  flop/B is the arithmetic intensity: operations for each byte of A, B, D and terms, read or\n"
    "  written once; GB/s is how many of these bytes kiln moved a second; roof is the least\n"
    "  time that this machine needs over kiln's: that of the operations at the peak of their "
    "type,\n"
    "  or of the bytes at the read rate of where a race finds them (L1, L2, or memory), whichever\n"
    "  is longer. It passes 100 % where a race finds more in caches than the probe of memory "
    "does.\n"
    "  --against OLD.jsonl compares with an earlier --json of this machine: each shape's medians "
    "by\n"
    "  their 95 % intervals, at a level of 5 % for all shapes together (Holm); less than "
    "--tolerance\n"
    "  counts as the same. A shape that is slower makes the exit code 1. What the peers' times "
    "did\n"
    "  in between is printed beside it: those of one version have not changed, so it is the "
    "machine's\n"
    "  part.\n"
    "  --overhead, --cold-start and --search-quality measure the costs around a kernel instead, "
    "on\n"
    "  the first shape given: the cost of gemm() over calling its kernel, a new process's open "
    "and\n"
    "  first gemm(), and the default search beside one ten times as long.\n"
    "  --sustained races in blocks of half a second without pauses: times, clocks and joules of a "
    "call\n"
    "  as they are in programs that multiply for hours. Some ten seconds a shape. Where kiln runs "
    "what\n"
    "  won a race under load, what won the cool one races too (cool_ns, cool_joules).\n"
    "  --any-m takes shapes with a range (\"bf16 N T 1..8192 6144 4096\"), draws --count sizes of "
    "it, "
    "odd\n"
    "  ones too, and races what gemm() runs there, a kernel tuned for that size alone (--budget), "
    "and\n"
    "  the peers; with --tune the range is tuned first.\n"
    "  --leave-one-out runs nothing: it reads what the databases hold and prints, for each device "
    "and\n"
    "  kind of problem, the best measured time over that of the kernel which a model fitted "
    "without "
    "the\n"
    "  shape's own measurements chooses. --search-curve prints for each search that measured more\n"
    "  than 64 candidates how near its first 16 and 64 came to the best time known.\n"
    "  --ladder runs one shape on a GPU from the plainest kernel to the tuned one, each rung\n"
    "  verified and printed as a share of the vendor's library.",
    "  kiln bench --layers cpu --tune --budget 10        # the whole CPU suite, at 1 and all "
    "threads\n"
    "  kiln bench --shape \"fp32 N T 512 4096 4096\" --threads 2 --json\n"
    "  kiln bench --layers cpu --json > old.jsonl        # then, after an update:\n"
    "  kiln bench --layers cpu --against old.jsonl\n"
    "  kiln bench --layers bert-base --peers openblas,onednn_matmul --csv bert.csv\n"
    "  kiln bench --shape \"fp32 N N 16 16 16\" --overhead\n"
    "  kiln bench --device cuda:0 --any-m --tune --shape \"bf16 N T 1..8192 6144 4096\" --count "
    "40\n"
    "  kiln bench --device cuda:0 --ladder"};

struct BenchCommand : RaceCommand {
  ShapeOptions shapes;
  int random = 0;
  std::string svg;
  RangeRaceFlags ranges;
  bool leave_one_out = false, search_curve = false;
  Extras extras;
};

Result<Outcome> race(const Session& session, const BenchCommand& command,
                     const std::vector<Shape>& shapes) {
  std::vector<Gemm> gemms;
  for (const Shape& shape : shapes) gemms.push_back(shape.gemm);
  return run_race(session, command, std::move(gemms), [&](const BenchReport& report) {
    return write_text("svg", command.svg, svg(report));
  });
}

Result<Outcome> climb(const Session& session, const BenchCommand& command) {
  const Result<Ladder> ladder = ladder_named(command.extras.ladder);
  if (!ladder) return tl::unexpected(ladder.error());
  if (!names_gpu(command.device.name))
    return fail(ErrorCode::unsupported, "device = \"cpu\": --ladder needs a GPU (cuda:N)");
  LadderOptions options;
  options.device = command.device.name;
  options.seed = command.race.contest.seed;
  options.samples = command.race.contest.samples;
  options.cancelled = interrupted;
  if (command.shapes.any()) {
    const Result<std::vector<Shape>> shapes = command.shapes.collect();
    if (!shapes) return tl::unexpected(shapes.error());
    options.gemm = shapes->front().gemm;
  } else {
    const Result<Gemm> usual = parse_gemm(ladder->shape);
    if (!usual) return tl::unexpected(usual.error());
    options.gemm = *usual;
  }
  return run_ladder(session.json, *ladder, options);
}

/// From what the databases hold; nothing runs.
Result<Outcome> leave_out(const Session& session, const BenchCommand& command) {
  const auto store = open_store(command.database);
  if (!store) return tl::unexpected(store.error());
  const auto rows = leave_one_out(**store);
  if (!rows) return tl::unexpected(rows.error());
  if (session.json) {
    for (const LeaveOneOutRow& row : *rows) print_json(to_json(row));
    print_json(summary_json(*rows));
  } else {
    fmt::print("{}", table(*rows));
  }
  if (Status written = write_text("svg", command.svg, svg(*rows)); !written)
    return tl::unexpected(written.error());
  return Outcome::done;
}

/// From what the databases hold; nothing runs.
Result<Outcome> draw_searches(const Session& session, const BenchCommand& command) {
  // Of fewer there is no 64th candidate to speak of.
  constexpr std::size_t kLeast = 65;
  const auto store = open_store(command.database);
  if (!store) return tl::unexpected(store.error());
  const auto curves = search_curves(**store, kLeast);
  if (!curves) return tl::unexpected(curves.error());
  if (session.json) {
    for (const SearchCurve& curve : *curves) print_json(to_json(curve));
    print_json(summary_json(*curves));
  } else {
    fmt::print("{}", table(*curves));
    if (curves->empty())
      fmt::print("no problem with {} measured candidates or more: kiln tune --budget\n", kLeast);
  }
  if (Status written = write_text("svg", command.svg, svg(*curves)); !written)
    return tl::unexpected(written.error());
  return Outcome::done;
}

/// Sizes that take milliseconds, not seconds, on one core.
constexpr std::int64_t kMostRandomWork = std::int64_t{1} << 32;

Result<std::vector<Shape>> drawn_shapes(const BenchCommand& command, const DeviceCaps& caps) {
  if (command.shapes.any())
    return fail(ErrorCode::bad_input,
                fmt::format("random = {}: it draws the shapes, none can be given", command.random));
  if (command.ranges.wanted)
    return fail(ErrorCode::bad_input,
                fmt::format("random = {}: --any-m needs shapes that are ranges", command.random));
  Draw draw(command.race.contest.seed);
  std::vector<Shape> shapes;
  for (int i = 0; i < command.random; ++i) {
    const Gemm gemm = random_product(draw, caps, kMostRandomWork);
    shapes.push_back({.gemm = gemm, .origin = "--random"});
  }
  return shapes;
}

Result<Outcome> run(const Session& session, const BenchCommand& command) {
  if (command.leave_one_out) return leave_out(session, command);
  if (command.search_curve) return draw_searches(session, command);
  if (!command.svg.empty() && (command.extras.wanted() || !command.extras.ladder.empty()))
    return fail(ErrorCode::bad_input,
                fmt::format("svg = \"{}\": --overhead, --cold-start, --search-quality and --ladder "
                            "draw no charts",
                            command.svg));
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  if (!command.extras.ladder.empty()) return climb(session, command);
  // Libraries read their environment as they load, so this comes before anything else.
  if (Status entered = enter_peer_environment(); !entered) return tl::unexpected(entered.error());
  const Result<std::vector<Shape>> shapes = command.random > 0 ? drawn_shapes(command, target->caps)
                                            : command.ranges.wanted
                                                ? command.shapes.collect_ranges()
                                                : command.shapes.collect();
  if (!shapes) return tl::unexpected(shapes.error());
  if (Status ok = check_threads(command); !ok) return tl::unexpected(ok.error());
  const TuningPolicy policy =
      command.race.contest.sustained ? TuningPolicy::sustained : TuningPolicy::cool;
  if (Status ok = check_policy(policy, command.device.name); !ok) return tl::unexpected(ok.error());
  if (command.ranges.wanted) {
    RangeRaceOptions options{
        .seed = command.race.contest.seed,
        .threads = command.race.threads.empty() ? 0 : command.race.threads[0],
        .open = open_options(command.device, command.database, command.determinism),
        .tune = command.race.tune,
        .budget = std::chrono::duration<double>(command.budget),
        .peers = command.race.peers,
        .contest = command.race.contest};
    return race_ranges(session, command.ranges, *shapes, std::move(options), command.svg);
  }
  if (command.extras.wanted()) {
    const int threads = command.race.threads.empty() ? 0 : command.race.threads.front();
    const OpenOptions open = open_options(command.device, command.database, command.determinism);
    return run_extras(
        session.json, command.extras,
        {shapes->front().gemm, threads, command.budget, command.race.contest.seed, open});
  }
  return race(session, command, *shapes);
}

}  // namespace

void add_bench(CLI::App& parent, Session& session) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* app = add_command(parent, session, kBenchManual,
                              [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  command->add_to(*app);
  app->add_option("--random", command->random,
                  "Race so many random products: types and layouts that libraries have, sizes "
                  "log-uniform from 1 to 8192")
      ->type_name("N")
      ->check(CLI::Range(1, 100000));
  CLI::Option* left_out =
      app->add_flag("--leave-one-out", command->leave_one_out,
                    "From the databases alone: how good a kernel the model chooses for each "
                    "measured shape without that shape's measurements");
  app->add_flag("--search-curve", command->search_curve,
                "From the databases alone: what the first candidates of each search found of the "
                "best time known")
      ->excludes(left_out);
  app->add_option(
         "--svg", command->svg,
         "Write a chart: speedups over operations, by class of problem; with --any-m: over "
         "sizes; with --leave-one-out: over shapes; with --search-curve: over candidates")
      ->type_name("FILE");
  command->ranges.add_to(*app);
  command->extras.add_to(*app);
  app->add_flag("--sustained", command->race.contest.sustained,
                "Race kiln and its peers on a GPU back to back, at the clock that its power limit "
                "leaves, with the joules of a call; --tune tunes for that")
      ->excludes(app->get_option("--any-m"));
}

}  // namespace kiln::cli
