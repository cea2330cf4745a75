// `kiln examples`: kernels for reading, proven before they are printed.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/commands.h"
#include "cli/output/report.h"
#include "generator/problem/did_you_mean.h"
#include "tuner/verify/mfma_example.h"

namespace kiln::cli {
namespace {

constexpr Manual kMfma{
    "mfma", "AMD matrix instructions, one kernel each: source, check, peak of each card",
    "  Writes the smallest kernel for each of five matrix instructions (fp32, fp16, fp8, MX fp8, "
    "MX "
    "fp4):\n"
    "  one wave, one instruction. Each is compiled for its target, run on the emulator and "
    "compared "
    "with\n"
    "  exact sums; a wrong element makes the exit code 1. The peaks are 2 * M * N * K * cores * "
    "clock /\n"
    "  cycles, with the compute units and clocks of AMD's data sheets. --source prints the "
    "kernels, "
    "--keep\n"
    "  DIR writes them and their code objects there.",
    "  kiln examples mfma\n"
    "  kiln examples mfma --only mxfp4_32x32x64 --source\n"
    "  kiln examples mfma --keep out/ --json"};

struct ExamplesCommand {
  std::string only, keep;
  bool source = false;
  std::uint64_t seed = 1;
};

Status write_file(const std::filesystem::path& file, const char* bytes, std::size_t size) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes, static_cast<std::streamsize>(size));
  out.close();
  if (!out) return fail(ErrorCode::device, fmt::format("{} cannot be written", file.string()));
  return {};
}

/// Source and code object; where the source is.
Result<std::string> keep_files(const std::string& folder, const ExampleProof& proof) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  auto file = std::filesystem::path(folder) / proof.source.file_name;
  const std::string path = file.string();
  Status written = write_file(file, proof.source.text.data(), proof.source.text.size());
  if (written)
    written = write_file(file.replace_extension(".hsaco"),
                         reinterpret_cast<const char*>(proof.object.image.data()),
                         proof.object.image.size());
  if (!written) return tl::unexpected(written.error());
  return path;
}

Json row_json(const MfmaExample& e, const ExampleProof& proof, const std::string& path) {
  Json peaks = Json::object();
  for (const MatrixPeak& p : peaks_of(e))
    peaks[p.model] = {{"cores", p.cores}, {"ghz", p.ghz}, {"tflops", p.tflops}};
  Json row{{"example", e.name},
           {"device", e.arch},
           {"instruction", fmt::format("v_{}", e.mnemonic)},
           {"format", e.format},
           {"flops", e.instruction().flops()},
           {"cycles", e.cycles()},
           {"registers", proof.object.resources.registers},
           {"code_bytes", proof.object.resources.code_bytes},
           {"elements", proof.elements},
           {"wrong", proof.wrong},
           {"ok", proof.right()},
           {"peaks", peaks},
           {"source", proof.source.text}};
  if (!path.empty()) row["file"] = path;
  if (!proof.right()) row["error"] = proof.first_wrong;
  return row;
}

void print_example(const MfmaExample& e, const ExampleProof& proof, const ExamplesCommand& command,
                   const std::string& path) {
  fmt::print("{}  v_{} on {}, {}\n", e.name, e.mnemonic, e.format, e.arch);
  fmt::print("  object  {} bytes of code, {} registers\n", proof.object.resources.code_bytes,
             proof.object.resources.registers);
  if (!path.empty()) fmt::print("  source  {}\n", path);
  fmt::print("  result  {}\n",
             proof.right()
                 ? fmt::format("{} elements equal to the exact sums", proof.elements)
                 : fmt::format("WRONG: {} ({} elements)", proof.first_wrong, proof.wrong));
  Table table({"  card", ">cores", ">GHz", ">flops", ">cycles", ">peak TFLOP/s"});
  for (const MatrixPeak& p : peaks_of(e))
    table.add({"  " + p.model, fmt::format("{}", p.cores), fmt::format("{:.1f}", p.ghz),
               fmt::format("{:.0f}", e.instruction().flops()), fmt::format("{}", e.cycles()),
               fmt::format("{:.1f}", p.tflops)});
  fmt::print("{}\n", table.text());
  if (command.source) fmt::print("{}\n", proof.source.text);
}

Result<Outcome> run(const Session& session, const ExamplesCommand& command) {
  bool found = false, right = true;
  std::vector<std::string_view> names;
  for (const MfmaExample& e : mfma_examples()) {
    names.push_back(e.name);
    if (!command.only.empty() && e.name != command.only) continue;
    found = true;
    const Result<ExampleProof> proof = prove(e, command.seed);
    if (!proof) return tl::unexpected(proof.error());
    Result<std::string> path = std::string();
    if (!command.keep.empty()) path = keep_files(command.keep, *proof);
    if (!path) return tl::unexpected(path.error());
    if (session.json)
      print_json(row_json(e, *proof, *path));
    else
      print_example(e, *proof, command, *path);
    right = right && proof->right();
  }
  if (!found)
    return fail(ErrorCode::bad_input, fmt::format("only = \"{}\": there is no such example{}",
                                                  command.only, did_you_mean(command.only, names)));
  return right ? Outcome::done : Outcome::check_failed;
}

}  // namespace

void add_examples(CLI::App& parent, Session& session) {
  CLI::App* examples = parent.add_subcommand("examples", "Write small kernels for reading");
  examples->require_subcommand(1);
  examples->footer("\nExamples:\n  kiln examples mfma\n  kiln help examples mfma");
  auto command = std::make_shared<ExamplesCommand>();
  CLI::App* app = add_command(*examples, session, kMfma,
                              [&session, command] { return run(session, *command); });
  app->add_option("--only", command->only, "Only the example of this name")->type_name("NAME");
  app->add_flag("--source", command->source, "Print the kernels");
  app->add_option("--keep", command->keep, "Write sources and code objects to this folder")
      ->type_name("DIR");
  app->add_option("--seed", command->seed, "Seed of the data and of the lanes' order")
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace kiln::cli
