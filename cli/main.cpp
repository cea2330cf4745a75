// The `kiln` command: parses, runs one sub-command, turns its outcome into an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/printable.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/output/report.h"
#include "cli/output/version.h"
#include "cli/tree.h"
#include "generator/problem/did_you_mean.h"
#include "kiln/engine.hpp"
#include "runtime/exit_gate.h"

namespace kiln::cli {
namespace {

constexpr const char* kOverview =
    "kiln generates, compiles, tunes and stores GEMM kernels:\n"
    "D = activation(alpha * op(A) * op(B) + beta * C + bias) + residual";

constexpr const char* kFooter = R"(
Shapes:
  one line, row-major: dtype ta tb m n k [key=value ...]
  fp32 N T 512 4096 4096            A is [512,4096], B is stored as [4096,4096] and transposed
  bf16 N T 16 14336 4096 packed_b=1 epilogue=silu

Files:
  $KILN_DB                          the user's database, else $XDG_CACHE_HOME/kiln/kiln.db
                                    (:memory: = a private one, deleted at exit)
  $KILN_DB_PATH                     shipped databases, colon-separated, read only; default: those
                                    in share/kiln of the installation
  $KILN_LOCK_DIR                    lock files, one a device; default /dev/shm. Containers that share
                                    a device need one folder in common
  $KILN_PEERS                       more libraries for kiln bench (BLAS, oneDNN): files,
                                    colon-separated
  $KILN_RECORD                      calls are added to this file, by problem: see kiln help report

Warnings:
  $KILN_LOG                         off, error, warn (the default), info or debug; on stderr

Examples:
  kiln devices                      what this machine can do
  kiln tune --shape "fp32 N T 512 4096 4096" --budget 10
  kiln bench --shape "fp32 N T 512 4096 4096" --json
  kiln explain --shape "fp32 N T 512 4096 4096"
  kiln help tune                    the manual of one command

Exit codes:
  0 done, 1 a check failed, 2 wrong usage or input, 3 device or environment,
  130 interrupted (Ctrl-C))";

/// Whether `--json` was given, for errors found before or while parsing.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

int report(const Error& error, bool json, int code) {
  fmt::print(stderr, "kiln: {}: {}\n", name(error.code), printable(error.message));
  if (json)
    print_json(
        {{"error", {{"code", name(error.code)}, {"message", error.message}}}, {"exit", code}});
  return code;
}

/// The commands below one, in the order of its help page.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : commands_below(app)) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : shown_options(app))
    for (const std::string& name : spellings(*option)) names.push_back(name);
  return names;
}

/// The command that `words` name, one below the other; null when there is none.
const CLI::App* find_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* found = &app;
  for (const std::string& word : words) {
    const auto all = commands_below(*found);
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const CLI::App* sub) { return sub->get_name() == word; });
    if (at == all.end()) return nullptr;
    found = *at;
  }
  return found;
}

void add_help(CLI::App& app, Session& session) {
  auto topic = std::make_shared<std::vector<std::string>>();
  CLI::App* help = app.add_subcommand("help", "Print the manual of a command, e.g. help db export");
  help->add_option("command", *topic, "The command; none: the overview");
  help->parse_complete_callback([&app, &session, topic] {
    session.run = [&app, topic]() -> Result<Outcome> {
      const std::string words = fmt::format("{}", fmt::join(*topic, " "));
      const CLI::App* page = find_command(app, *topic);
      if (!page)
        return fail(ErrorCode::bad_input,
                    fmt::format("help \"{}\": there is no such command{}", words,
                                did_you_mean(topic->front(), command_names(app))));
      // App::help() would print the page of the command that was parsed: help's own.
      fmt::print("{}",
                 page->get_formatter()->make_help(page, words.empty() ? "kiln" : "kiln " + words,
                                                  CLI::AppFormatMode::Normal));
      return Outcome::done;
    };
  });
}

/// CLI11 says of a mistyped command only that one is required, and of a mistyped option only that
/// it was not expected.
std::string complaint(const CLI::App& app, const CLI::ParseError& wrong) {
  const CLI::App* chosen = &app;
  std::string words = "kiln";
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    words += " " + chosen->get_name();
  }
  const std::vector<std::string> left = chosen->remaining();
  if (left.empty()) return fmt::format("{} (see {} --help)", wrong.what(), words);
  const std::string& word = left.front();
  const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&wrong) != nullptr;
  if (unexpected && word.starts_with('-'))
    return fmt::format("option = \"{}\": {} has no such option{} (see {} --help)", word, words,
                       did_you_mean(word, option_names(*chosen)), words);
  if (const auto commands = command_names(*chosen); !commands.empty() && !word.starts_with('-'))
    return fmt::format("command = \"{}\": there is no such command{} (see {} --help)", word,
                       did_you_mean(word, commands), words);
  return fmt::format("{} (see {} --help)", wrong.what(), words);
}

int run(int argc, char** argv) {
  CLI::App app{kOverview, "kiln"};
  Session session;
  app.set_version_flag("--version", fmt::format("kiln {}", version()));
  app.require_subcommand(1);
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpFormatter>());
  add_devices(app, session);
  add_compile(app, session);
  add_tune(app, session);
  add_bench(app, session);
  add_sweep(app, session);
  add_demo(app, session);
  add_report(app, session);
  add_show(app, session);
  add_explain(app, session);
  add_verify(app, session);
  add_db(app, session);
  add_fleet(app, session);
  add_examples(app, session);
  add_completion(app, session);
  add_man(app, session);
  add_help(app, session);
  const bool json = wants_json(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& asked) {
    if (!json) return app.exit(asked);
    print_json(version_json());
    return kExitDone;
  } catch (const CLI::Success& asked) {  // --help
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    return report({ErrorCode::bad_input, complaint(app, wrong)}, json, kExitUsage);
  }
  watch_interrupts();
  const Result<Outcome> outcome = session.run();
  if (!outcome)
    return report(outcome.error(), json,
                  interrupted() ? kExitInterrupted : exit_code(outcome.error().code));
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return report({ErrorCode::device, "stdout: what was printed could not be written"}, false,
                  kExitEnvironment);
  return interrupted() ? kExitInterrupted : exit_code(*outcome);
}

}  // namespace
}  // namespace kiln::cli

int main(int argc, char** argv) {
  try {
    const int code = kiln::cli::run(argc, argv);
    kiln::ExitGate::close();  // compiles that a search left behind
    return code;
  } catch (const std::exception& defect) {  // kiln's own calls return errors; this is out of memory
    fmt::print(stderr, "kiln: internal: {}\n", defect.what());
    return kiln::cli::kExitEnvironment;
  }
}
