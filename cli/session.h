// What every sub-command shares: the switches common to all, how one is registered with its manual
// text, and how an outcome becomes an exit code. Knows no sub-command by name.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "kiln/error.hpp"

namespace kiln::cli {

/// How a command that ran to its end came out. An Error means that it did not.
/// environment_failed: it had many things to do, and the environment let it do none of them.
enum class Outcome { done, check_failed, environment_failed };

// Exit codes that scripts rely on.
inline constexpr int kExitDone = 0;
inline constexpr int kExitCheckFailed = 1;  // a check failed: wrong result, failed shape, no record
inline constexpr int kExitUsage = 2;        // wrong usage or input
inline constexpr int kExitEnvironment = 3;  // device, compiler, database or file system
inline constexpr int kExitInterrupted = 130;  // Ctrl-C: 128 + SIGINT, as shells count

int exit_code(Outcome outcome);
int exit_code(ErrorCode code);

/// State of one run of `kiln`. Lives in main() for as long as the parsed options are used.
struct Session {
  bool json = false;
  std::function<Result<Outcome>()> run;  // set by parsing: the chosen sub-command
};

/// Manual text of one sub-command; options document themselves.
struct Manual {
  const char* name;
  const char* summary;   // one line
  const char* details;   // paragraphs
  const char* examples;  // one command a line, comments after #
};

/// Adds a sub-command with `--json`; `run` is called after parsing when it was chosen.
CLI::App* add_command(CLI::App& parent, Session& session, const Manual& manual,
                      std::function<Result<Outcome>()> run);

/// True once the user has asked to stop (Ctrl-C); a second Ctrl-C ends the process at once.
bool interrupted();
void watch_interrupts();
/// The same where SIGTERM asks: Slurm and mpirun send it before they kill.
void watch_termination();

}  // namespace kiln::cli
