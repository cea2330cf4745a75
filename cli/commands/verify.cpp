// `kiln verify`: random or given problems and configs, each compiled and checked in a worker
// process.
#include <fmt/format.h>

#include <chrono>

#include "cache/records/binaries.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "cli/commands.h"
#include "cli/commands/compile_all.h"
#include "cli/commands/random_gemm.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "generator/problem/spelling.h"
#include "tuner/verify/envelope.h"
#include "tuner/worker/check.h"

namespace kiln::cli {
namespace {

constexpr Manual kVerifyManual{
    "verify", "Check kernels against a reference: given ones, or a random sweep",
    "  Each kernel is compiled and run in a worker process with guarded, poisoned buffers; every\n"
    "  element of D is compared with a reference in higher precision under an error bound; reads "
    "of C\n"
    "  at beta = 0, writes outside D, crashes and hangs are failures like wrong elements.\n"
    "  Without --shape, draws --random problems (types, layouts, transposes, uneven sizes, padded\n"
    "  leading dimensions, batches, epilogues) and checks one config of every family on each.\n"
    "  With --shape, checks --random configs of every family, or just the one of --config.\n"
    "  On emu:TARGET kernels of a GPU run on the CPU, lane by lane, first in the plain order of "
    "waves,\n"
    "  then in drawn ones: races, missing waits and accesses out of bounds are failures too.\n"
    "  --envelope checks each kernel whose code has the sizes as arguments on fifty to over a "
    "hundred "
    "problems at\n"
    "  the borders of its tiles, stages, splits and waves. --stored does so with the winners of "
    "the\n"
    "  database and stores the proof: they then serve every size, untuned ones too, and gemm()\n"
    "  neither compiles nor verifies them again.\n"
    "  Every failure is printed as a complete command that repeats it; the exit code is then 1.",
    "  kiln verify --random 200 --seed 7\n"
    "  kiln verify --device avx2 --random 50 --threads 2\n"
    "  kiln verify --device emu:gfx950 --random 20\n"
    "  kiln verify --device cuda:0 --stored\n"
    "  kiln verify --shape \"bf16 N T 100 77 53 epilogue=bias_row+relu\" --random 10\n"
    "  kiln verify --shape \"fp32 N N 96 96 96\" --config \"host_small isa=avx512 bytes=64 "
    "mr=8 nv=2 unroll=1 parallel=none\""};

struct VerifyCommand {
  ShapeOptions shapes;
  DeviceOptions device;
  DatabaseOptions database;
  std::string config;
  bool stored = false, envelope = false;
  int random = 20;
  std::uint64_t seed = 1;
};

/// One problem and the configs to check on it.
struct Case {
  Gemm gemm;
  std::vector<Config> configs;
};

/// Multiply-adds of a drawn problem, so that its check takes fractions of a second.
constexpr std::int64_t kMostWork = 4 << 20, kMostEmulatedWork = 1 << 19;

/// What a sweep came to; `unsupported` are drawn problems that no family covers.
struct VerifyTotals {
  int problems = 0, checked = 0, failed = 0, unsupported = 0;
};

std::string repeat_command(const VerifyCommand& command, int threads, const Gemm& gemm,
                           const Config& config) {
  const std::string& device = command.device.name;
  const bool counts =
      device == "cpu" || device.starts_with("emu:") || cpu_caps_named(device).has_value();
  return fmt::format("kiln verify --device {}{} --shape \"{}\" --config \"{}\" --seed {}", device,
                     counts ? fmt::format(" --threads {}", threads) : "", text(gemm), text(config),
                     command.seed);
}

/// Compiles and checks the configs of one case, one verdict each. Errors: device (no worker).
Result<std::vector<Verdict>> check_case(const Case& item, const Target& target,
                                        const VerifyCommand& command, Compiler& compiler) {
  const DeviceCaps& caps = target.caps;
  Result<Checker> checker =
      Checker::start(item.gemm, caps, {.seed = command.seed, .effort = Effort::automatic},
                     {.device_index = target.index, .emulated = target.emulated});
  if (!checker) return tl::unexpected(checker.error());
  std::vector<Verdict> verdicts;
  const auto compiled = compile_all(compiler, item.gemm, target, item.configs, 0);
  for (std::size_t i = 0; i < compiled.size() && !interrupted(); ++i) {
    const Result<Binary>& binary = compiled[i].binary;
    const Config& config = item.configs[i];
    const bool all_sizes = command.envelope && has_envelope(item.gemm, caps, config);
    verdicts.push_back(!binary
                           ? tl::unexpected(Failure{Failure::Kind::compile, binary.error().message})
                       : all_sizes ? checker->check_envelope(item.gemm, config, *binary)
                                   : checker->check(config, *binary));
  }
  return verdicts;
}

void report(const Session& session, const VerifyCommand& command, int threads, const Gemm& gemm,
            const Config& config, const Verdict& verdict) {
  const std::string repeat = repeat_command(command, threads, gemm, config);
  if (session.json) {
    Json row{{"shape", text(gemm)},  {"device", command.device.name},
             {"threads", threads},   {"config", text(config)},
             {"seed", command.seed}, {"ok", verdict.has_value()}};
    if (!verdict)
      row.update({{"kind", name(verdict.error().kind)},
                  {"detail", verdict.error().detail},
                  {"repeat", repeat}});
    print_json(row);
  } else if (!verdict) {
    fmt::print("FAILED {}: {}\n  {}\n", name(verdict.error().kind), verdict.error().detail, repeat);
    std::fflush(stdout);
  }
}

/// Kernels of the database on this device, each over the sizes that it may serve; what passes is
/// stored. Errors: database, device.
Status check_stored(const Session& session, const VerifyCommand& command, const Target& target,
                    VerifyTotals& totals) {
  const auto store = open_store(command.database);
  if (!store) return tl::unexpected(store.error());
  auto records = (*store)->winners().list_kernels();
  if (!records) return tl::unexpected(records.error());
  std::erase_if(*records, [&](const Record& record) {
    return record.key.device != target.caps || (*store)->proofs().envelope_proven(record) ||
           !broken_rule(record.key.problem(), target.caps, record.measured.config).empty() ||
           !has_envelope(record.key.gemm, target.caps, record.measured.config);
  });
  if (records->empty()) return {};
  auto checker = Checker::start(records->front().key.gemm, target.caps, {.seed = command.seed},
                                {.device_index = target.index});
  if (!checker) return tl::unexpected(checker.error());
  CountReport bar("verify", static_cast<int>(records->size()));
  for (const Record& record : *records) {
    if (interrupted()) break;
    const auto code = (*store)->binaries().by_key(record.measured.binary_key);
    if (!code) continue;
    const Verdict verdict =
        checker->check_envelope(record.key.gemm, record.measured.config, {.image = code->image});
    bar.clear();
    ++totals.problems;
    ++totals.checked;
    totals.failed += !verdict;
    report(session, command, target.caps.compute_units, record.key.gemm, record.measured.config,
           verdict);
    if (verdict)
      if (Status kept = (*store)->proofs().proved_envelope(record); !kept) return kept;
    bar.update(totals.problems, fmt::format("{} failed", totals.failed));
  }
  return {};
}

/// The cases that --shape, --file and --layers ask for.
Result<std::vector<Case>> given_cases(const VerifyCommand& command, const DeviceCaps& caps) {
  const Result<std::vector<Shape>> shapes = command.shapes.collect();
  if (!shapes) return tl::unexpected(shapes.error());
  std::vector<Case> cases;
  for (const Shape& asked : *shapes) {
    const Shape shape{with_defaults_of(asked.gemm, caps), asked.origin};
    advise(shape.gemm, caps);
    if (!command.config.empty()) {
      const Result<Config> config = legal_config(command.config, shape.gemm, caps);
      if (!config) return tl::unexpected(config.error());
      cases.push_back({shape.gemm, {*config}});
      continue;
    }
    const Result<SearchSpace> space = space_for(Problem::of(shape.gemm).value(), caps);
    if (!space) return fail(space.error().code, shape.origin + ": " + space.error().message);
    cases.push_back({shape.gemm, sample_per_family(*space, command.random, command.seed)});
  }
  return cases;
}

/// The next drawn problem with one config of every family.
Case drawn_case(Draw& draw, const Target& target, VerifyTotals& totals) {
  const DeviceCaps& caps = target.caps;
  const std::int64_t most_work = target.emulated ? kMostEmulatedWork : kMostWork;
  for (;; ++totals.unsupported) {
    // As the command that repeats it will spell it.
    const Gemm gemm = with_defaults_of(random_gemm(draw, caps, most_work), caps);
    const std::uint64_t seed = draw.below(1ull << 32);
    if (const Result<SearchSpace> space = space_for(Problem::of(gemm).value(), caps);
        space && !space->legal.empty())
      return {gemm, sample_per_family(*space, 1, seed)};
  }
}

Status check_all(const Session& session, const VerifyCommand& command, const Target& target,
                 Compiler& compiler, VerifyTotals& totals) {
  const DeviceCaps& caps = target.caps;
  std::vector<Case> given;
  if (command.shapes.any()) {
    Result<std::vector<Case>> cases = given_cases(command, caps);
    if (!cases) return tl::unexpected(cases.error());
    given = std::move(*cases);
  }
  const std::size_t count =
      command.shapes.any() ? given.size() : static_cast<std::size_t>(command.random);
  Draw draw(command.seed);
  CountReport bar("verify", static_cast<int>(count));
  for (std::size_t i = 0; i < count && !interrupted(); ++i) {
    const Case item = command.shapes.any() ? given[i] : drawn_case(draw, target, totals);
    const auto verdicts = check_case(item, target, command, compiler);
    if (!verdicts) return tl::unexpected(verdicts.error());
    bar.clear();
    ++totals.problems;
    for (std::size_t j = 0; j < verdicts->size(); ++j) {
      const Verdict& verdict = (*verdicts)[j];
      ++totals.checked;
      totals.failed += !verdict;
      report(session, command, caps.compute_units, item.gemm, item.configs[j], verdict);
    }
    bar.update(static_cast<int>(i + 1), fmt::format("{} failed", totals.failed));
  }
  return {};
}

Result<Outcome> run(const Session& session, const VerifyCommand& command) {
  const Result<Target> target = resolve(command.device);
  if (!target) return tl::unexpected(target.error());
  if (!target->runs_here)
    return fail(ErrorCode::device, fmt::format("device = \"{}\": this machine cannot run its code",
                                               command.device.name));
  if (!command.config.empty() && !command.shapes.any())
    return fail(ErrorCode::bad_input, "shape = none: --config needs the shape it is for");
  if (command.stored && !target->this_machine)
    return fail(ErrorCode::bad_input,
                fmt::format("device = \"{}\": --stored needs a device here", command.device.name));
  VerifyTotals totals;
  const auto start = std::chrono::steady_clock::now();
  if (command.stored) {
    if (Status status = check_stored(session, command, *target, totals); !status)
      return tl::unexpected(status.error());
  } else {
    const Result<Compiler*> compiler = compiler_for(*target);
    if (!compiler) return tl::unexpected(compiler.error());
    if (Status status = check_all(session, command, *target, **compiler, totals); !status)
      return tl::unexpected(status.error());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (session.json)
    print_json({{"summary",
                 {{"problems", totals.problems},
                  {"checked", totals.checked},
                  {"failed", totals.failed},
                  {"unsupported", totals.unsupported},
                  {"seed", command.seed},
                  {"seconds", seconds}}}});
  else
    fmt::print("{} problems, {} kernels checked, {} failed, {} drawn but unsupported, {:.1f} s\n",
               totals.problems, totals.checked, totals.failed, totals.unsupported, seconds);
  return totals.failed == 0 && !interrupted() ? Outcome::done : Outcome::check_failed;
}

}  // namespace

void add_verify(CLI::App& parent, Session& session) {
  auto command = std::make_shared<VerifyCommand>();
  CLI::App* app = add_command(parent, session, kVerifyManual,
                              [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  command->device.add_to(*app);
  auto* random = app->add_option("--random", command->random,
                                 "Problems to draw; with --shape, configs of each family")
                     ->type_name("N")
                     ->check(CLI::Range(1, 1000000))
                     ->capture_default_str();
  app->add_option("--config", command->config, "Check this config")
      ->type_name("CONFIG")
      ->excludes(random);
  auto* stored = app->add_flag("--stored", command->stored,
                               "Check what is in the database over all sizes that it may serve");
  stored->excludes(random)->excludes(app->get_option("--config"));
  app->add_flag("--envelope", command->envelope,
                "Check each kernel over all sizes that its code serves");
  command->database.add_to(*app);
  app->add_option("--seed", command->seed, "Seed of the draws and of the data")
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace kiln::cli
