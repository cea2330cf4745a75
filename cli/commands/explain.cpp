// `kiln explain`: which kernel a shape gets, why, and on what evidence.
#include <fmt/format.h>

#include "cache/exchange/offline.h"
#include "cache/keys.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "engine/explanation.h"
#include "engine/ranges.h"
#include "generator/problem/spelling.h"
#include "generator/problem/timed_flops.h"
#include "kiln/engine.hpp"

namespace kiln::cli {
namespace {

constexpr Manual kExplainManual{
    "explain", "Show which kernel a shape gets, why, and the measurements behind it",
    "  For each shape: the config that gemm() would use, where it comes from (an exact record, a\n"
    "  tuned neighbour, the analytic model, the reference kernel), its timing, by how much the "
    "next\n"
    "  fastest candidates are slower and what is other in them, and how many failed and why.\n"
    "  Reads the database; measures nothing. It fits one screen; --source adds the kernel, --json\n"
    "  has every value and all candidates. For an AMD GPU that this machine lacks: the prediction\n"
    "  of `kiln tune --offline`. For a tuned range: its table from size to kernel.",
    "  kiln explain --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln explain --shape \"fp32 N T 512 4096 4096\" --source | less\n"
    "  kiln explain --file shapes.txt --json | jq -r 'select(.match != \"exact\").shape'"};

struct ExplainCommand {
  ShapeOptions shapes;
  DeviceOptions device;
  DatabaseOptions database;
  DeterminismOption determinism;
  bool source = false;
};

Json timing_json(const Gemm& gemm, const Timing& timing) {
  Json row{{"median_ns", timing.median_ns},
           {"low_ns", timing.low_ns},
           {"high_ns", timing.high_ns},
           {"samples", timing.samples},
           {"gflops", timing.median_ns > 0 ? timed_flops(gemm) / timing.median_ns : 0}};
  add_load(row, timing);
  return row;
}

/// What was stored of the problem itself.
Json evidence_json(const Explanation& why) {
  const Record& record = *why.record;
  const Gemm& gemm = why.key.gemm;
  Json others = Json::array(), failures = Json::array();
  for (const Measured& other : why.others) {
    Json row{{"config", text(other.config)}, {"round", name(other.round)}};
    row.update(timing_json(gemm, other.timing()));
    others.push_back(std::move(row));
  }
  for (const auto& [kind, failed] : why.failures)
    failures.push_back({{"kind", kind}, {"count", failed.count}, {"example", failed.example}});
  return {{"config", text(record.measured.config)},
          {"measured", timing_json(gemm, record.measured.timing())},
          {"predicted_ns", record.measured.predicted_ns},
          {"verified", record.measured.verified},
          {"created", record.created},
          {"database", record.database.string()},
          {"searched", to_json(record.searched)},
          {"compiler", record.validators.compiler},
          {"runtime", record.validators.runtime},
          {"templates", record.validators.template_hash},
          {"older_templates", why.older_templates},
          {"tried", why.tried},
          {"others", others},
          {"failures", failures}};
}

Json why_json(const Explanation& why, const ExplainCommand& command) {
  Json row{{"shape", text(why.key.gemm)},
           {"device", command.device.name},
           {"fingerprint", fingerprint(why.key.device)},
           {"threads", why.key.device.compute_units},
           {"match", name(why.match)},
           {"reason", why.reason},
           {"config", why.config},
           {"made_for", why.made_for.empty() ? Json(nullptr) : Json(why.made_for)},
           {"policy", why.key.policy},
           {"determinism", std::get<std::string>(to_value(why.key.determinism))},
           {"summation", why.summation.empty() ? Json(nullptr) : Json(why.summation)},
           {"peak_flops", why.peak_flops > 0 ? Json(why.peak_flops) : Json(nullptr)},
           {"roof", to_json(why.roof)},
           {"record", why.record ? evidence_json(why) : Json(nullptr)},
           {"explanation", text(why)}};
  if (command.source) row["source"] = why.source;
  return row;
}

Status explain(const Session& session, const ExplainCommand& command, Engine& engine,
               const Gemm& gemm) {
  const auto why = explanation(engine, gemm, command.device.threads);
  if (!why) return tl::unexpected(why.error());
  if (session.json)
    print_json(why_json(*why, command));
  else
    fmt::print("{}{}", text(*why),
               command.source && !why->source.empty() ? "source:\n" + why->source : "");
  return {};
}

/// The table of a tuned range. It is not searched where it was not tuned.
Status explain_range(const Session& session, const ExplainCommand& command, Engine& engine,
                     const GemmRange& range) {
  const auto report = stored_range(engine, range, command.device.threads);
  if (!report) return tl::unexpected(report.error());
  if (session.json)
    print_json(to_json(*report, command.device.name));
  else
    fmt::print("{}", text(*report));
  return {};
}

/// The prediction for a GPU that this machine lacks, and the next best of the compiled candidates.
Status explain_predicted(const Session& session, const ExplainCommand& command,
                         const DeviceCaps& caps, Store& store, const Gemm& gemm) {
  constexpr std::size_t kListed = 5;
  const auto record = predicted_record(store, caps, gemm);
  if (!record)
    return fail(ErrorCode::not_tuned,
                fmt::format("{}: nothing was predicted for {}; run kiln tune --offline", text(gemm),
                            command.device.name));
  const double ns = record->measured.timing().median_ns;
  const std::string story = fmt::format(
      "problem:   {}\ndevice:    {}\nconfig:    {}\npredicted: {}, {:.0f} GFLOP/s, by a static "
      "model "
      "of the binary; never measured\nranked:    {} in {}\ntoolchain: {}\n",
      text(gemm), fingerprint(caps), text(record->measured.config), human_time(ns),
      timed_flops(gemm) / ns, record->created, record->database.string(),
      record->validators.compiler);
  if (session.json) {
    print_json({{"shape", text(gemm)},
                {"device", command.device.name},
                {"match", "predicted"},
                {"config", text(record->measured.config)},
                {"predicted_ns", ns},
                {"explanation", story}});
    return {};
  }
  fmt::print("{}", story);
  const std::vector<Config> ranked = predicted_configs(store, caps, gemm, kListed + 1);
  for (std::size_t i = 1; i < ranked.size(); ++i)
    fmt::print("{}{}\n", i == 1 ? "next:      " : "           ", text(ranked[i]));
  return {};
}

Result<Outcome> run_predicted(const Session& session, const ExplainCommand& command,
                              const DeviceCaps& caps, const std::vector<Shape>& shapes) {
  const auto store = open_store(command.database);
  if (!store) return tl::unexpected(store.error());
  for (const Shape& shape : shapes) {
    const Gemm gemm = with_defaults_of(shape.gemm, caps);
    advise(gemm, caps);
    if (Status status = explain_predicted(session, command, caps, **store, gemm); !status)
      return tl::unexpected(status.error());
  }
  return Outcome::done;
}

Result<Outcome> run(const Session& session, const ExplainCommand& command) {
  const Result<Target> named = resolve(command.device);
  const bool predicted =
      named && named->caps.vendor == Vendor::amd && !named->this_machine && !named->emulated;
  const Result<std::vector<Shape>> shapes =
      predicted ? command.shapes.collect() : command.shapes.collect_ranges();
  if (!shapes) return tl::unexpected(shapes.error());
  if (predicted) return run_predicted(session, command, named->caps, *shapes);
  const Result<Target> target = resolve_engine_device(command.device);
  if (!target) return tl::unexpected(target.error());
  Result<Engine> engine =
      Engine::open(open_options(command.device, command.database, command.determinism));
  if (!engine) return tl::unexpected(engine.error());
  for (const Shape& shape : *shapes) {
    advise(shape.gemm, target->caps);
    const Status status = shape.range ? explain_range(session, command, *engine, *shape.range)
                                      : explain(session, command, *engine, shape.gemm);
    if (!status) return tl::unexpected(status.error());
  }
  return Outcome::done;
}

}  // namespace

void add_explain(CLI::App& parent, Session& session) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* app = add_command(parent, session, kExplainManual,
                              [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  command->device.add_to(*app);
  command->database.add_to(*app);
  command->determinism.add_to(*app);
  app->add_flag("--source", command->source, "Print the kernel's source, too");
}

}  // namespace kiln::cli
