// `kiln show`: the text of a kernel, as generated or as assembly.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/sample.h"
#include "generator/render.h"
#include "kiln/engine.hpp"
#include "runtime/compiler.h"

namespace kiln::cli {
namespace {

constexpr Manual kManual{
    "show", "Print the generated source of a kernel, or its assembly",
    "  Prints the kernel that gemm() would use for the shape on this machine; with --config the\n"
    "  kernel of that config; with --isa, or for another device, the analytic model's first "
    "choice\n"
    "  among that instruction set's configs. The text compiles standalone: its first lines say "
    "how.\n"
    "  --asm prints what the in-process compiler makes of it.",
    "  kiln show --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln show --shape \"fp32 N N 32 32 32\" --isa avx2 --asm | less\n"
    "  kiln show --shape \"fp32 N N 256 256 256\" --config \"host_packed isa=avx512 mr=6 nv=4 "
    "...\""};

struct ShowCommand {
  ShapeOptions shapes;
  DeviceOptions device;
  DatabaseOptions database;
  std::string config, isa;
  bool assembly = false;
};

/// A config and why it is the one shown.
struct Choice {
  Config config;
  std::string why;
};

Result<Choice> model_choice(const ShowCommand& command, const Gemm& gemm, const DeviceCaps& caps) {
  const Result<SearchSpace> space = space_for(gemm, caps);
  if (!space) return tl::unexpected(space.error());
  const Config* best = nullptr;
  double best_ns = 0;
  for (const Config& config : space->legal) {
    // The blanks keep a name from matching as the beginning of a longer one.
    const bool wanted = command.isa.empty() ||
                        (text(config) + ' ').find(" isa=" + command.isa + ' ') != std::string::npos;
    if (!wanted) continue;
    const double ns = predict_ns(space->problem, caps, config);
    if (best && ns >= best_ns) continue;
    best = &config;
    best_ns = ns;
  }
  if (!best)
    return fail(ErrorCode::bad_input,
                fmt::format("isa = \"{}\": no config of this instruction set is legal for {} on {}",
                            command.isa, text(gemm), command.device.name));
  return Choice{*best, "the analytic model's first choice"};
}

Result<Choice> choose(const ShowCommand& command, const Gemm& gemm, const Target& target) {
  if (!command.config.empty()) {
    const Result<Config> config = legal_config(command.config, gemm, target.caps);
    if (!config) return tl::unexpected(config.error());
    return Choice{*config, "given"};
  }
  if (!target.this_machine || !command.isa.empty()) return model_choice(command, gemm, target.caps);
  Result<Engine> engine = Engine::open(open_options(command.device, command.database));
  if (!engine) return tl::unexpected(engine.error());
  const Result<Plan> plan = engine->plan(gemm, command.device.threads);
  if (!plan) return tl::unexpected(plan.error());
  if (plan->match() == Match::reference) return model_choice(command, gemm, target.caps);
  const Result<Config> config = parse_config(plan->config());
  if (!config) return tl::unexpected(config.error());
  return Choice{*config, plan->match() == Match::exact ? "tuned" : "untuned: best known"};
}

Status show(const Session& session, const ShowCommand& command, const Gemm& gemm,
            const Target& target) {
  const Result<Choice> choice = choose(command, gemm, target);
  if (!choice) return tl::unexpected(choice.error());
  const Result<Source> source = render(gemm, target.caps, choice->config);
  if (!source) return tl::unexpected(source.error());
  std::string listing = source->text;
  if (command.assembly) {
    const Result<Compiler*> compiler = host_compiler();
    if (!compiler) return tl::unexpected(compiler.error());
    const Result<std::string> assembly = (*compiler)->assembly(*source);
    if (!assembly) return tl::unexpected(assembly.error());
    listing = *assembly;
  }
  if (session.json) {
    print_json({{"shape", text(gemm)},
                {"device", command.device.name},
                {"config", text(choice->config)},
                {"why", choice->why},
                {"file_name", source->file_name},
                {"flags", source->flags},
                {command.assembly ? "assembly" : "source", listing}});
    return {};
  }
  fmt::print(stderr, "kiln: {} ({})\n", text(choice->config), choice->why);
  fmt::print("{}{}", listing, listing.ends_with('\n') ? "" : "\n");
  return {};
}

Result<Outcome> run(const Session& session, const ShowCommand& command) {
  Result<Target> target = resolve(command.device);
  if (!target) return tl::unexpected(target.error());
  const Result<std::vector<Shape>> shapes = command.shapes.collect();
  if (!shapes) return tl::unexpected(shapes.error());
  if (!command.isa.empty()) {
    Result<DeviceCaps> limited = limited_to(target->caps, command.isa);
    if (!limited) return tl::unexpected(limited.error());
    target->caps = std::move(*limited);
  }
  for (const Shape& shape : *shapes)
    if (Status status = show(session, command, shape.gemm, *target); !status)
      return tl::unexpected(status.error());
  return Outcome::done;
}

}  // namespace

void add_show(CLI::App& parent, Session& session) {
  auto command = std::make_shared<ShowCommand>();
  CLI::App* app =
      add_command(parent, session, kManual, [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  command->device.add_to(*app);
  command->database.add_to(*app);
  auto* config = app->add_option("--config", command->config, "Show this config's kernel")
                     ->type_name("CONFIG");
  app->add_option("--isa", command->isa, "Show the best kernel of this instruction set")
      ->type_name("ISA")
      ->check(CLI::IsMember({"portable", "avx2", "avx512", "amx"}))
      ->excludes(config);
  app->add_flag("--asm", command->assembly, "Print assembly instead of source");
}

}  // namespace kiln::cli
