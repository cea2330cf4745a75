#include "cli/session.h"

#include <fmt/format.h>

#include <csignal>

namespace kiln::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  done\n"
    "  1  a check failed: a wrong result, a shape that could not be tuned, no record\n"
    "  2  wrong usage or wrong input\n"
    "  3  device or environment: no such device, no compiler, database or file trouble\n"
    "  130  interrupted (Ctrl-C): what was measured until then is kept; a second Ctrl-C ends at "
    "once";

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);  // the next one ends the process
}

}  // namespace

int exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return kExitDone;
    case Outcome::check_failed:
      return kExitCheckFailed;
    case Outcome::environment_failed:
      return kExitEnvironment;
  }
  return kExitCheckFailed;
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input:
    case ErrorCode::unsupported:
      return kExitUsage;
    case ErrorCode::device:
    case ErrorCode::compiler:
    case ErrorCode::database:
      return kExitEnvironment;
    case ErrorCode::not_tuned:
    case ErrorCode::verification:
    case ErrorCode::internal:
      return kExitCheckFailed;
  }
  return kExitCheckFailed;
}

CLI::App* add_command(CLI::App& parent, Session& session, const Manual& manual,
                      std::function<Result<Outcome>()> run) {
  CLI::App* app = parent.add_subcommand(manual.name, manual.summary);
  app->footer(fmt::format("\nDescription:\n{}\n\nExamples:\n{}\n\n{}", manual.details,
                          manual.examples, kExitCodes));
  app->add_flag("--json", session.json, "Print JSON objects, one a line, and nothing else");
  app->parse_complete_callback([&session, run = std::move(run)] { session.run = run; });
  return app;
}

bool interrupted() { return g_interrupted != 0; }

void watch_interrupts() { std::signal(SIGINT, on_interrupt); }

void watch_termination() { std::signal(SIGTERM, on_interrupt); }

}  // namespace kiln::cli
