#include "soak/soak.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>

#include "support/attempt.h"

namespace kiln::soak {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

char hung_case[512];

void report_hang(int) {
  static const char kWords[] = "\nFAILED a case took too long; it is repeated by\n  ";
  (void)!write(STDOUT_FILENO, kWords, sizeof kWords - 1);
  (void)!write(STDOUT_FILENO, hung_case, strnlen(hung_case, sizeof hung_case));
  (void)!write(STDOUT_FILENO, "\n", 1);
  _exit(1);
}

struct Settings {
  std::int64_t count = 0, first = 0;
  double seconds = 0;
  std::uint64_t seed = 1;
};

void add_options(CLI::App& app, Settings& settings) {
  app.add_option("--count", settings.count, "Cases to run")->check(CLI::PositiveNumber);
  app.add_option("--seconds", settings.seconds, "Stop after this time, if not before")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.seed, "Seed of all draws")->capture_default_str();
  app.add_option("--first", settings.first, "Number of the first case")
      ->check(CLI::NonNegativeNumber);
}

std::int64_t cases_of(const Program& program, const Settings& settings) {
  if (settings.count > 0) return settings.count;
  return settings.seconds > 0 ? std::numeric_limits<std::int64_t>::max() : program.count;
}

/// What a damaged file made of a message may be no text at all.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte > 0x7e ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

/// One stream a case. The stream's number is the case's, which stays below 2^63.
std::int64_t run_cases(const Program& program, const Settings& settings, Report& report) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t count = cases_of(program, settings);
  test::Attempt attempt;
  if (program.case_seconds > 0) ::signal(SIGALRM, report_hang);
  std::int64_t done = 0;
  for (; done < count && (settings.seconds <= 0 || seconds_since(start) < settings.seconds);
       ++done) {
    const std::int64_t index = settings.first + done;
    const std::int64_t group_start = index / program.group * program.group;
    report.begin(group_start, index - group_start + 1);
    attempt.at(report.repeat_command());
    std::snprintf(hung_case, sizeof hung_case, "%s", report.repeat_command().c_str());
    ::alarm(program.case_seconds);
    Random random(settings.seed, static_cast<std::uint64_t>(index));
    try {
      program.one(report, index, random);
    } catch (const std::exception& e) {
      report.failed(e.what());
    }
  }
  ::alarm(0);
  return done;
}

}  // namespace

void Report::begin(std::int64_t first, std::int64_t cases) {
  first_ = first;
  cases_ = cases;
}

std::string Report::repeat_command() const {
  return fmt::format("{} --seed {} --first {} --count {}", program_, seed_, first_, cases_);
}

void Report::failed(const std::string& what) {
  ++failures_;
  fmt::print("FAILED {}\n  {}\n", printable(what), repeat_command());
  std::fflush(stdout);
}

int run(const Program& program, int argc, char** argv) {
  Settings settings;
  CLI::App app(fmt::format("Runs {} and prints how many failed.", program.things), program.name);
  add_options(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  Report report(program.name, settings.seed);
  if (program.prepare) program.prepare();
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t done = run_cases(program, settings, report);
  const std::string details = program.details ? "; " + program.details() : "";
  fmt::print("{}: {} {}{}; seed {}; {} failures; {:.1f} s\n", program.name, done, program.things,
             details, settings.seed, report.failures(), seconds_since(start));
  return report.failures() == 0 ? 0 : 1;
}

}  // namespace kiln::soak
