// `kiln explain`: which kernel a shape gets, why, and on what evidence.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "kiln/engine.hpp"

namespace kiln::cli {
namespace {

constexpr Manual kManual{
    "explain", "Say which kernel a shape gets, why, its rivals and the evidence",
    "  For each shape: the config that gemm() would use, where it comes from (an exact record, a\n"
    "  tuned neighbour, the analytic model, the reference kernel), its timing, the rivals that "
    "were\n"
    "  measured and those that failed with their reasons. Reads the database; measures nothing.",
    "  kiln explain --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln explain --file shapes.txt --json | jq -r 'select(.match != \"exact\").shape'"};

struct ExplainCommand {
  ShapeOptions shapes;
  DeviceOptions device;
  DatabaseOptions database;
};

std::string_view match_name(Match match) {
  switch (match) {
    case Match::exact:
      return "exact";
    case Match::nearest:
      return "nearest";
    case Match::model:
      return "model";
    case Match::reference:
      return "reference";
  }
  return "reference";
}

Status explain(const Session& session, const ExplainCommand& command, Engine& engine,
               const Gemm& gemm) {
  const Result<std::string> story = engine.explain(gemm, command.device.threads);
  if (!story) return tl::unexpected(story.error());
  if (!session.json) {
    fmt::print("{}{}", *story, story->ends_with('\n') ? "" : "\n");
    return {};
  }
  const Result<Plan> plan = engine.plan(gemm, command.device.threads);
  if (!plan) return tl::unexpected(plan.error());
  print_json({{"shape", text(gemm)},
              {"device", command.device.name},
              {"match", match_name(plan->match())},
              {"config", plan->config()},
              {"explanation", *story}});
  return {};
}

Result<Outcome> run(const Session& session, const ExplainCommand& command) {
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  const Result<std::vector<Shape>> shapes = command.shapes.collect();
  if (!shapes) return tl::unexpected(shapes.error());
  Result<Engine> engine = Engine::open(open_options(command.device, command.database));
  if (!engine) return tl::unexpected(engine.error());
  for (const Shape& shape : *shapes)
    if (Status status = explain(session, command, *engine, shape.gemm); !status)
      return tl::unexpected(status.error());
  return Outcome::done;
}

}  // namespace

void add_explain(CLI::App& parent, Session& session) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* app =
      add_command(parent, session, kManual, [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  command->device.add_to(*app);
  command->database.add_to(*app);
}

}  // namespace kiln::cli
