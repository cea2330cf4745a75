#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "bench/suites.h"
#include "cache/keys.h"
#include "cli/quantity.h"
#include "generator/problem/device_class.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_text.h"
#include "generator/render/emulated.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"

namespace kiln::cli {
namespace {

std::string shape_help() {
  return fmt::format(
      "One problem, row-major: \"dtype ta tb m n k [key=value ...]\". dtype: fp32 fp64 fp16 bf16 "
      "int8 u8s8 (or f32, float, half, double, ...), on GPUs tf32 fp8 fp6 fp4, weights bf16_int4 "
      "fp16_uint4 bf16_fp8 bf16_fp4 ...; ta, tb: N as stored, T stored transposed. Keys: {}. kiln "
      "tune, explain and bench --any-m take a size as a range, 1..8192. Repeatable",
      keys_help());
}

tl::unexpected<Error> unreadable(const std::string& file, const std::string& why) {
  return fail(ErrorCode::bad_input, fmt::format("file = \"{}\": {}", file, why));
}

Result<std::string> read_all(const std::string& file) {
  // An empty file sets failbit on `text`, and a folder opens but cannot be read: errno tells.
  errno = 0;
  std::ifstream opened;
  if (file != "-") opened.open(file);
  std::istream& in = file == "-" ? std::cin : opened;
  std::ostringstream text;
  if (!in || (!(text << in.rdbuf()) && errno != 0)) return unreadable(file, std::strerror(errno));
  return text.str();
}

Status append(std::vector<Shape>& to, const Result<std::vector<ListedShape>>& list) {
  if (!list) return tl::unexpected(list.error());
  for (const ListedShape& shape : *list) to.push_back({shape.gemm, shape.origin, shape.range});
  return {};
}

Status append_line(std::vector<Shape>& to, const std::string& line) {
  const std::string origin = fmt::format("--shape \"{}\"", line);
  const auto shape = parse_shape(line);
  if (!shape) return fail(shape.error().code, origin + ": " + shape.error().message);
  to.push_back({shape->gemm, origin, shape->range});
  return {};
}

Status append_file(std::vector<Shape>& to, const std::string& file) {
  const Result<std::string> text = read_all(file);
  if (!text) return tl::unexpected(text.error());
  const std::size_t before = to.size();
  if (Status status = append(to, parse_shapes(*text, file)); !status) return status;
  if (to.size() == before) return unreadable(file, "holds no shape");
  return {};
}

}  // namespace

void add_candidates(CLI::App& app, int& candidates) {
  app.add_option(
         "--candidates", candidates,
         "The most candidates of each search, those of earlier runs included; none: as many "
         "as the time allows")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
}

CLI::Option* seconds(CLI::Option* option) {
  static constexpr double kLeast = 0.01, kMost = 86400;
  const auto read = [](std::string& text) -> std::string {
    const auto value = quantity(text, kSecondUnits);
    if (!value || *value < kLeast || *value > kMost)
      return fmt::format("{}: must be {} to {} seconds, or a number with ms, s, m, h or d", text,
                         kLeast, kMost);
    text = fmt::to_string(*value);
    return {};
  };
  return option->type_name("TIME")->transform(CLI::Validator(read, ""));
}

void ShapeOptions::add_to(CLI::App& app) {
  const auto repeatable = [](CLI::Option* option, const char* type) {
    option->type_name(type)->allow_extra_args(false);
  };
  repeatable(app.add_option("--shape", shapes, shape_help()), "SHAPE");
  repeatable(app.add_option("--file", files,
                            "File of shapes, one a line, # comments; - is stdin. Repeatable"),
             "FILE");
  repeatable(app.add_option("--layers", layers,
                            fmt::format("Shapes that ship with kiln: {}. :SIZE is the number of "
                                        "tokens (of images, for resnet-50). Repeatable",
                                        fmt::join(suite_names(), ", "))),
             "LIST[:SIZE]");
}

std::string text(const Shape& shape) {
  return shape.range ? kiln::text(*shape.range) : kiln::text(shape.gemm);
}

Result<std::vector<Shape>> ShapeOptions::collect() const {
  auto all = collect_ranges();
  if (all)
    for (const Shape& shape : *all)
      if (shape.range)
        return fail(ErrorCode::bad_input,
                    fmt::format("{}: {} = {}..{}: this command takes single sizes", shape.origin,
                                name(shape.range->size), shape.range->first, shape.range->last()));
  return all;
}

Result<std::vector<Shape>> ShapeOptions::collect_ranges() const {
  std::vector<Shape> all;
  for (const std::string& line : shapes)
    if (Status s = append_line(all, line); !s) return tl::unexpected(s.error());
  for (const std::string& file : files)
    if (Status s = append_file(all, file); !s) return tl::unexpected(s.error());
  for (const std::string& name : layers)
    if (Status s = append(all, suite(name)); !s) return tl::unexpected(s.error());
  if (all.empty())
    return fail(ErrorCode::bad_input, "shape = none: give --shape, --file or --layers");
  return all;
}

void DeviceOptions::add_name_to(CLI::App& app) {
  app.add_option("--device", name,
                 "cpu (this machine), or a CPU by name: avx512, avx512_vnni, avx512_bf16, amx, "
                 "avx2, portable, aarch64; cuda:N, hip:N (a GPU here), or a GPU's target by name: "
                 "sm_75, sm_80, "
                 "sm_90a, gfx942, gfx950, …; emu:TARGET runs its code on the CPU, lane by lane")
      ->type_name("DEVICE")
      ->capture_default_str();
}

void DeviceOptions::add_to(CLI::App& app) {
  add_name_to(app);
  app.add_option("--threads", threads,
                 "Compute threads of a call; 0 = every core allowed. Of emu:TARGET: its compute "
                 "units; 0 = those of its card")
      ->type_name("N")
      ->capture_default_str();
}

void advise(const Gemm& gemm, const DeviceCaps& caps) {
  static std::set<std::string> said;
  const std::string advice = slow_types(gemm, caps);
  if (!advice.empty() && said.insert(advice).second) fmt::print(stderr, "kiln: {}\n", advice);
}

namespace {

constexpr std::string_view kEmulated = "emu:";

/// "cuda:N", "hip:N": the GPU itself. A target's name alone, without a GPU: code can be made, not
/// run.
Result<Target> resolve_gpu(const DeviceOptions& options) {
  if (options.threads > 0)
    return fail(ErrorCode::bad_input, fmt::format("threads = {}: must be 0 on a GPU, \"{}\"",
                                                  options.threads, options.name));
  if (!names_gpu(options.name)) {
    const auto named = caps_named(options.name);
    if (!named) return tl::unexpected(named.error());
    return Target{*named, false, false};
  }
  const auto device = open_gpu(options.name);
  if (!device) return tl::unexpected(device.error());
  return Target{(*device)->caps(), true, true, (*device)->ordinal()};
}

/// "emu:ARCH": the card of that target, with as many units as --threads says.
Result<Target> resolve_emulated(const DeviceOptions& options) {
  auto named = caps_named(std::string_view(options.name).substr(kEmulated.size()));
  if (!named || on_host(*named))
    return fail(ErrorCode::bad_input,
                fmt::format("device = \"{}\": the emulator runs code of GPUs: {}", options.name,
                            fmt::join(gpu_targets(), ", ")));
  if (options.threads > 0) named->compute_units = options.threads;
  return Target{.caps = *named, .runs_here = true, .emulated = true};
}

}  // namespace

Result<Target> resolve(const DeviceOptions& options) {
  if (options.threads < 0)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 0 (every core) or more", options.threads));
  if (options.name.starts_with(kEmulated)) return resolve_emulated(options);
  const bool gpu = names_gpu(options.name) || options.name.starts_with("sm_") ||
                   hip_caps_named(options.name).has_value();
  if (gpu) return resolve_gpu(options);
  Result<DeviceCaps> host = detect_cpu(options.name == "cpu" ? options.threads : 0);
  if (!host) return tl::unexpected(host.error());
  if (options.name == "cpu") return Target{*host, true, true};
  Result<DeviceCaps> named = caps_named(options.name);
  if (!named) return tl::unexpected(named.error());
  if (options.threads > 0) named->compute_units = options.threads;
  const bool same_machine = (named->arch == "aarch64") == (host->arch == "aarch64");
  return Target{*named, false, same_machine && covers(host->cpu, named->cpu)};
}

Result<DeviceCaps> limited_to(DeviceCaps caps, const std::string& isa) {
  const Result<DeviceCaps> named = cpu_caps_named(isa);
  if (!named) return named;
  const CpuFeatures own = caps.cpu;
  const bool tiles = own.amx_bf16 || own.amx_int8;  // either kind makes the set usable
  if (isa == "amx" ? !tiles : !covers(own, named->cpu))
    return fail(ErrorCode::bad_input,
                fmt::format("isa = \"{}\": {} does not have it", isa, caps.model));
  if (isa == "amx") return caps;
  caps.cpu = isa == "avx512" ? own : named->cpu;
  caps.cpu.amx_bf16 = caps.cpu.amx_int8 = false;
  caps.arch = named->arch;
  return caps;
}

Result<Target> resolve_engine_device(const DeviceOptions& options) {
  Result<Target> target = resolve(options);
  if (target && target->emulated)
    return fail(ErrorCode::unsupported,
                fmt::format("device = \"{}\": the emulator verifies kernels and times none: use "
                            "`kiln verify` with it, or `kiln tune --offline --device {}`, which "
                            "ranks by a model",
                            options.name, options.name.substr(kEmulated.size())));
  if (target && !target->this_machine)
    return fail(ErrorCode::device,
                fmt::format("device = \"{}\": this command runs kernels through the database of "
                            "this machine: use --device cpu, cuda:N or hip:N",
                            options.name));
  return target;
}

Result<Source> source_for(const Target& target, const Gemm& gemm, const Config& config) {
  return target.emulated ? render_emulated(Problem::of(gemm).value(), target.caps, config)
                         : render(Problem::of(gemm).value(), target.caps, config);
}

Result<Compiler*> compiler_for(const Target& target) {
  return target.emulated ? host_compiler() : compiler_for(target.caps);
}

void DatabaseOptions::add_to(CLI::App& app) {
  app.add_option(
         "--db", file,
         "The user's database; default $KILN_DB, else $XDG_CACHE_HOME/kiln/kiln.db. :memory: is a "
         "private one, deleted at the end of the command. Shipped ones: $KILN_DB_PATH")
      ->type_name("FILE");
}

std::filesystem::path user_database(const DatabaseOptions& database) {
  return database.file.empty() ? default_database() : std::filesystem::path(database.file);
}

Result<std::unique_ptr<Store>> open_store(const DatabaseOptions& database) {
  return Store::open(store_options(database.file));
}

Result<std::unique_ptr<Store>> open_existing_store(const DatabaseOptions& database) {
  const std::string& file = database.file;
  std::error_code code;
  if (!file.empty() && file != kInMemory && !std::filesystem::exists(file, code))
    return fail(ErrorCode::bad_input, fmt::format("db = \"{}\": there is no such file", file));
  return open_store(database);
}

void DeterminismOption::add_to(CLI::App& app) {
  std::vector<std::pair<std::string, Determinism>> classes;
  for (const std::string_view name : EnumNames<Determinism>::names)
    classes.emplace_back(name, static_cast<Determinism>(classes.size()));
  app.add_option("--determinism", chosen,
                 "Which kernels may be chosen, by the bits they give: run_to_run, any, or "
                 "batch_invariant: a row of D has the same bits whatever m is")
      ->transform(CLI::CheckedTransformer(classes).description(""))
      ->type_name("CLASS")
      ->default_str(std::string(EnumNames<Determinism>::names.front()));
}

void add_policy(CLI::App& app, TuningPolicy& policy) {
  std::vector<std::pair<std::string, TuningPolicy>> policies;
  for (const std::string_view name : EnumNames<TuningPolicy>::names)
    policies.emplace_back(name, static_cast<TuningPolicy>(policies.size()));
  CLI::Option* named =
      app.add_option("--policy", policy,
                     "How a GPU is loaded while finalists race: cool, with pauses; sustained, back "
                     "to back at the clock that its power limit leaves; auto, sustained for "
                     "problems that are bound by power")
          ->transform(CLI::CheckedTransformer(policies).description(""))
          ->type_name("POLICY")
          ->default_str(std::string(EnumNames<TuningPolicy>::names.front()));
  app.add_flag_callback(
         "--sustained", [&policy] { policy = TuningPolicy::sustained; },
         "The same as --policy sustained")
      ->excludes(named);
}

Status check_policy(TuningPolicy policy, const std::string& device) {
  if (policy != TuningPolicy::sustained || names_gpu(device)) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("device = \"{}\": sustained: must be on a GPU ({}), whose power limit "
                          "sets its clock; a CPU's kernels are timed in one way",
                          device, gpu_names()));
}

OpenOptions open_options(const DeviceOptions& device, const DatabaseOptions& database,
                         const DeterminismOption& determinism) {
  OpenOptions options;
  options.device = device.name;
  options.threads = device.threads;
  options.database = database.file;
  options.determinism = determinism.chosen;
  options.on_untuned = [](const std::string&) {};
  return options;
}

}  // namespace kiln::cli
