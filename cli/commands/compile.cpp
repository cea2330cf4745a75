// `kiln compile`: renders and compiles a sample of every family's configs, and says what they need.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/commands.h"
#include "cli/commands/compile_all.h"
#include "cli/commands/sample.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "generator/problem/spelling.h"
#include "runtime/backend.h"

namespace kiln::cli {
namespace {

constexpr Manual kCompileManual{
    "compile", "Render and compile configs without running them; report code size, stack, spills",
    "  For each shape, draws --sample configs of every family that applies (or takes the one "
    "given\n"
    "  with --config), renders and compiles each for the device, and prints a line: milliseconds "
    "of\n"
    "  compiling, bytes of code, stack frame of the largest function, spilled vector registers.\n"
    "  Nothing is run, so any device that the compiler knows will do. --keep DIR writes every "
    "source\n"
    "  and object there. A config that does not compile makes the exit code 1.",
    "  kiln compile --device avx2 --shape \"fp32 N T 512 4096 4096\" --sample 3 --seed 7\n"
    "  kiln compile --shape \"bf16 N N 64 64 64\" --sample 1 --keep out/   # read what was "
    "generated"};

struct CompileOptions {
  ShapeOptions shapes;
  DeviceOptions device;
  int sample = 4;
  std::uint64_t seed = 1;
  int jobs = 0;
  std::string config;
  std::string keep;
};

Status keep_files(const std::string& folder, const Compiled& compiled) {
  const std::filesystem::path base = std::filesystem::path(folder) / compiled.source.file_name;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  std::ofstream(base) << compiled.source.text;
  const char* extension = base.extension() == ".cu"    ? ".cubin"
                          : base.extension() == ".hip" ? ".hsaco"
                                                       : ".so";
  std::ofstream object(std::filesystem::path(base).replace_extension(extension), std::ios::binary);
  if (compiled.binary)
    object.write(reinterpret_cast<const char*>(compiled.binary->image.data()),
                 static_cast<std::streamsize>(compiled.binary->image.size()));
  object.close();
  if (!object || !std::filesystem::exists(base))
    return fail(ErrorCode::device,
                fmt::format("keep = \"{}\": {} cannot be written", folder, base.string()));
  return {};
}

Json row_json(const Gemm& gemm, const std::string& device, const Config& config,
              const Compiled& compiled) {
  Json row{{"shape", text(gemm)},
           {"device", device},
           {"family", family_name(config)},
           {"config", text(config)},
           {"ok", compiled.binary.has_value()}};
  if (!compiled.binary) {
    row["error"] = compiled.binary.error().message;
    return row;
  }
  const ResourceReport& r = compiled.binary->resources;
  row.update({{"compile_ms", compiled.ms},
              {"code_bytes", r.code_bytes},
              {"stack_bytes", r.stack_bytes},
              {"registers", r.registers},
              {"spills", r.spills},
              {"image_bytes", compiled.binary->image.size()},
              {"source", compiled.source.file_name}});
  return row;
}

void add_row(Table& table, const Config& config, const Compiled& compiled) {
  if (!compiled.binary) {
    table.add({"failed", "", "", "", text(config)});
    fmt::print(stderr, "kiln: {}: {}\n", text(config), compiled.binary.error().message);
    return;
  }
  const ResourceReport& r = compiled.binary->resources;
  table.add({fmt::format("{:.1f}", compiled.ms), fmt::format("{}", r.code_bytes),
             fmt::format("{}", r.registers > 0 ? r.registers : r.stack_bytes),
             fmt::format("{}", r.spills), text(config)});
}

/// The configs to compile for one shape.
Result<std::vector<Config>> choose(const CompileOptions& options, const Gemm& gemm,
                                   const DeviceCaps& caps) {
  if (!options.config.empty()) {
    const Result<Config> config = legal_config(options.config, gemm, caps);
    if (!config) return tl::unexpected(config.error());
    return std::vector<Config>{*config};
  }
  const Result<SearchSpace> space = space_for(Problem::of(gemm).value(), caps);
  if (!space) return tl::unexpected(space.error());
  return sample_per_family(*space, options.sample, options.seed);
}

struct CompileTotals {
  int compiled = 0, failed = 0;
};

Status compile_shape(const Session& session, const CompileOptions& options, const Shape& shape,
                     const Target& target, Compiler& compiler, CompileTotals& totals) {
  const DeviceCaps& caps = target.caps;
  const Result<std::vector<Config>> configs = choose(options, shape.gemm, caps);
  if (!configs) return tl::unexpected(configs.error());
  const std::vector<Compiled> results =
      compile_all(compiler, shape.gemm, target, *configs, options.jobs);
  const bool gpu = !on_host(caps) && !target.emulated;
  Table table({">ms", ">code B", gpu ? ">registers" : ">stack B", ">spills", "config"});
  for (std::size_t i = 0; i < results.size() && !interrupted(); ++i) {
    ++(results[i].binary ? totals.compiled : totals.failed);
    if (session.json)
      print_json(row_json(shape.gemm, options.device.name, (*configs)[i], results[i]));
    else
      add_row(table, (*configs)[i], results[i]);
    if (!options.keep.empty() && !results[i].source.text.empty())
      if (Status status = keep_files(options.keep, results[i]); !status) return status;
  }
  if (!session.json) fmt::print("{}\n{}", text(shape.gemm), table.text());
  return {};
}

Result<Outcome> run(const Session& session, const CompileOptions& options) {
  const Result<Target> target = resolve(options.device);
  if (!target) return tl::unexpected(target.error());
  const Result<std::vector<Shape>> shapes = options.shapes.collect();
  if (!shapes) return tl::unexpected(shapes.error());
  const Result<Compiler*> compiler = compiler_for(*target);
  if (!compiler) return tl::unexpected(compiler.error());
  CompileTotals totals;
  for (const Shape& asked : *shapes) {
    const Shape shape{with_defaults_of(asked.gemm, target->caps), asked.origin};
    advise(shape.gemm, target->caps);
    if (Status s = compile_shape(session, options, shape, *target, **compiler, totals); !s)
      return tl::unexpected(s.error());
  }
  if (session.json)
    print_json({{"summary", {{"compiled", totals.compiled}, {"failed", totals.failed}}}});
  else
    fmt::print("{} compiled, {} failed\n", totals.compiled, totals.failed);
  return totals.failed == 0 && !interrupted() ? Outcome::done : Outcome::check_failed;
}

}  // namespace

void add_compile(CLI::App& parent, Session& session) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App* app = add_command(parent, session, kCompileManual,
                              [&session, options] { return run(session, *options); });
  options->shapes.add_to(*app);
  options->device.add_to(*app);
  auto* sample = app->add_option("--sample", options->sample, "Configs drawn from each family")
                     ->type_name("N")
                     ->check(CLI::Range(1, 1000000))
                     ->capture_default_str();
  app->add_option("--config", options->config, "Compile this config instead of a sample")
      ->type_name("CONFIG")
      ->excludes(sample);
  app->add_option("--seed", options->seed, "Seed of the draw")
      ->type_name("S")
      ->capture_default_str();
  app->add_option("--jobs", options->jobs, "Compile this many at a time; 0 = one a core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app->add_option("--keep", options->keep, "Write sources and objects to this folder")
      ->type_name("DIR");
}

}  // namespace kiln::cli
