// `kiln show`: the text of a kernel, as generated or as assembly.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "cache/exchange/offline.h"
#include "cli/commands.h"
#include "cli/commands/sample.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "generator/problem/spelling.h"
#include "generator/render/render.h"
#include "kiln/engine.hpp"
#include "runtime/compiler.h"
#include "runtime/cuda/disassembler.h"
#include "runtime/hip/isa_counts.h"

namespace kiln::cli {
namespace {

constexpr Manual kShowManual{
    "show", "Print the generated source of a kernel, or its assembly",
    "  Prints the kernel that gemm() would use for the shape on this machine; with --config the\n"
    "  kernel of that config; with --isa, or for another device, the analytic model's first "
    "choice\n"
    "  among that instruction set's configs. The text compiles standalone: its first lines say "
    "how.\n"
    "  --asm prints the in-process compiler's assembly; for an AMD GPU also, to stderr, "
    "what\n"
    "  each loop does. --isa alone prints the instructions themselves, with these counts before "
    "them;\n"
    "  for an NVIDIA GPU by the toolkit's nvdisasm.",
    "  kiln show --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln show --shape \"fp32 N N 32 32 32\" --isa avx2 --asm | less\n"
    "  kiln show --device gfx942 --shape \"bf16 N T 8192 8192 8192\" --isa | less\n"
    "  kiln show --shape \"fp32 N N 256 256 256\" --config \"host_packed isa=avx512 mr=6 nv=4 "
    "...\""};

struct ShowCommand {
  ShapeOptions shapes;
  DeviceOptions device;
  DatabaseOptions database;
  std::string config, isa;
  bool assembly = false;
  bool disassembly = false;  // --isa without a name: assembly with what its loops do
};

/// What --isa stands for when no instruction set follows.
constexpr const char* kOwnIsa = "own";

/// A config and why it is the one shown.
struct Choice {
  Config config;
  std::string why;
};

Result<Choice> model_choice(const ShowCommand& command, const Gemm& gemm, const DeviceCaps& caps) {
  const Result<SearchSpace> space = space_for(Problem::of(gemm).value(), caps);
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

/// What `kiln tune --offline` stored for a GPU that this machine lacks.
std::optional<Choice> predicted_choice(const ShowCommand& command, const Gemm& gemm,
                                       const DeviceCaps& caps) {
  if (caps.vendor != Vendor::amd) return std::nullopt;
  const auto store = open_store(command.database);
  if (!store) return std::nullopt;
  const auto record = predicted_record(**store, caps, gemm);
  if (!record) return std::nullopt;
  return Choice{record->measured.config, "predicted without the device"};
}

Result<Choice> choose(const ShowCommand& command, const Gemm& gemm, const Target& target) {
  if (!command.config.empty()) {
    const Result<Config> config = legal_config(command.config, gemm, target.caps);
    if (!config) return tl::unexpected(config.error());
    return Choice{*config, "given"};
  }
  if (!target.this_machine || !command.isa.empty()) {
    if (auto predicted = predicted_choice(command, gemm, target.caps)) return *predicted;
    return model_choice(command, gemm, target.caps);
  }
  Result<Engine> engine = Engine::open(open_options(command.device, command.database));
  if (!engine) return tl::unexpected(engine.error());
  const Result<Plan> plan = engine->plan(gemm, command.device.threads);
  if (!plan) return tl::unexpected(plan.error());
  if (plan->match() == Match::reference) return model_choice(command, gemm, target.caps);
  const Result<Config> config = parse_config(plan->config());
  if (!config) return tl::unexpected(config.error());
  return Choice{*config, is_tuned(plan->match()) ? "tuned" : "untuned: best known"};
}

Json counts_json(const hip::InstructionCounts& c) {
  return {{"total", c.total},
          {"matrix", c.matrix},
          {"shared_reads", c.shared_reads},
          {"shared_writes", c.shared_writes},
          {"memory_loads", c.memory_loads},
          {"memory_stores", c.memory_stores},
          {"vector", c.vector},
          {"scalar", c.scalar},
          {"waits", c.waits},
          {"barriers", c.barriers},
          {"spills", c.spills}};
}

/// "4R 16M s": equal letters together.
std::string runs_of(std::string_view letters) {
  std::string out;
  for (std::size_t i = 0; i < letters.size();) {
    const std::size_t end = std::min(letters.find_first_not_of(letters[i], i), letters.size());
    out += fmt::format("{}{}{}", out.empty() ? "" : " ",
                       end - i > 1 ? fmt::format("{}", end - i) : std::string(), letters[i]);
    i = end;
  }
  return out;
}

Json wait_json(const hip::Wait& wait) {
  return {{"for", wait.kind == hip::Wait::For::memory ? "memory" : "LDS"},
          {"left", wait.left},
          {"accesses", wait.accesses},
          {"matrix_between", wait.matrix},
          {"barriers_between", wait.barriers}};
}

/// What each loop of an AMD kernel does, a row a loop, and the order of its main loop.
std::string loop_table(const std::vector<hip::LoopCounts>& loops) {
  Table table({"loop", ">all", ">matrix", ">LDS reads", ">LDS writes", ">loads", ">stores",
               ">vector", ">scalar", ">waits", ">barriers", ">spills"});
  for (const auto& [label, c, waits, order] : loops)
    table.add({label, fmt::format("{}", c.total), fmt::format("{}", c.matrix),
               fmt::format("{}", c.shared_reads), fmt::format("{}", c.shared_writes),
               fmt::format("{}", c.memory_loads), fmt::format("{}", c.memory_stores),
               fmt::format("{}", c.vector), fmt::format("{}", c.scalar), fmt::format("{}", c.waits),
               fmt::format("{}", c.barriers), fmt::format("{}", c.spills)});
  std::string text = table.text();
  if (const hip::LoopCounts* loop = hip::main_loop(loops))
    text += fmt::format(
        "{}, in order: {}\n(M matrix, R and W LDS reads and writes, L and S loads and stores, D "
        "loads "
        "to LDS, B barriers, m and s waits for memory and LDS)\n",
        loop->label, runs_of(loop->order));
  return text;
}

/// Every line as a comment of AMD's assembler.
std::string commented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "; " + line + '\n';
  return out;
}

/// `executed`: what the device runs; else what the compiler calls assembly, for NVIDIA's PTX.
Result<std::string> assembly_of(const Source& source, const Target& target, bool executed) {
  const Result<Compiler*> compiler = compiler_for(target);
  if (!compiler) return tl::unexpected(compiler.error());
  if (!executed || target.caps.vendor != Vendor::nvidia || target.emulated)
    return (*compiler)->assembly(source);
  const Result<Binary> binary = (*compiler)->compile(source);
  if (!binary) return tl::unexpected(binary.error());
  return cuda::disassemble(binary->image);
}

Status show(const Session& session, const ShowCommand& command, const Gemm& gemm,
            const Target& target) {
  const Result<Choice> choice = choose(command, gemm, target);
  if (!choice) return tl::unexpected(choice.error());
  const Result<Source> source = source_for(target, gemm, choice->config);
  if (!source) return tl::unexpected(source.error());
  std::string listing = source->text;
  if (command.assembly) {
    const Result<std::string> assembly = assembly_of(*source, target, command.disassembly);
    if (!assembly) return tl::unexpected(assembly.error());
    listing = *assembly;
  }
  std::vector<hip::LoopCounts> loops;
  if (command.assembly && target.caps.vendor == Vendor::amd) loops = hip::count_loops(listing);
  if (command.disassembly && !session.json && !loops.empty())
    listing = commented(loop_table(loops)) + listing;
  if (session.json) {
    Json row{{"shape", text(gemm)},
             {"device", command.device.name},
             {"config", text(choice->config)},
             {"why", choice->why},
             {"file_name", source->file_name},
             {"flags", source->flags},
             {command.assembly ? "assembly" : "source", listing}};
    for (const auto& [label, counts, waits, order] : loops) {
      Json loop = counts_json(counts);
      loop["label"] = label;
      loop["order"] = order;
      loop["waits_for"] = Json::array();
      for (const hip::Wait& wait : waits) loop["waits_for"].push_back(wait_json(wait));
      row["loops"].push_back(std::move(loop));
    }
    print_json(row);
    return {};
  }
  fmt::print(stderr, "kiln: {} ({})\n", text(choice->config), choice->why);
  if (!loops.empty() && !command.disassembly) fmt::print(stderr, "{}", loop_table(loops));
  fmt::print("{}{}", listing, listing.ends_with('\n') ? "" : "\n");
  return {};
}

Result<Outcome> run(const Session& session, ShowCommand command) {
  if (command.isa == kOwnIsa) {
    command.isa.clear();
    command.assembly = command.disassembly = true;
  } else if (!command.isa.empty() && !command.config.empty()) {
    return fail(ErrorCode::bad_input,
                fmt::format("isa = \"{}\": --config says which kernel", command.isa));
  }
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
    if (Status status = show(session, command, with_defaults_of(shape.gemm, target->caps), *target);
        !status)
      return tl::unexpected(status.error());
  return Outcome::done;
}

}  // namespace

void add_show(CLI::App& parent, Session& session) {
  auto command = std::make_shared<ShowCommand>();
  CLI::App* app = add_command(parent, session, kShowManual,
                              [&session, command] { return run(session, *command); });
  command->shapes.add_to(*app);
  command->device.add_to(*app);
  command->database.add_to(*app);
  app->add_option("--config", command->config, "Show this config's kernel")->type_name("CONFIG");
  app->add_option("--isa", command->isa,
                  "Of a CPU: show the best kernel of this instruction set. Alone: print "
                  "instructions, for an AMD GPU with what each loop does")
      ->type_name("ISA")
      ->expected(0, 1)
      ->default_str(kOwnIsa)
      ->check(CLI::IsMember({kOwnIsa, "portable", "avx2", "avx512", "amx"}));
  app->add_flag("--asm", command->assembly, "Print assembly instead of source");
}

}  // namespace kiln::cli
