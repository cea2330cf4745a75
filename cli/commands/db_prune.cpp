#include "cli/commands/db_prune.h"

#include <fmt/format.h>

#include "cache/records/maintenance.h"
#include "cache/records/prune.h"
#include "cli/output/report.h"
#include "cli/quantity.h"

namespace kiln::cli {

const Manual kPruneManual{
    "prune", "Drop old measurements, those of a device, or what makes the file too large",
    "  Winners stay, with their code, unless --winners is given; measurements of losers, failures\n"
    "  among them, go by age and device (both must hold where both are given). Then, with\n"
    "  --max-size, code that no winner names goes, and losers, until the file is no larger: first\n"
    "  of configs that won nowhere, since fitted models learn from the others, the slowest first.\n"
    "  Where what must stay is larger, nothing goes and the exit code is 1. What is dropped is\n"
    "  measured or compiled again when it is needed. Nothing is written to shipped files. The\n"
    "  file is made anew at the end, which takes its size on the disk once more for a moment.",
    "  kiln db prune --older-than 90d --dry-run\n"
    "  kiln db prune --max-size 100M --db fleet.db\n"
    "  kiln db prune --device \"RTX 4090\" --winners    # that card is gone"};

namespace {

constexpr Unit kDays[] = {{"h", 1.0 / 24}, {"d", 1}, {"w", 7}, {"y", 365}};
constexpr Unit kBytes[] = {
    {"K", 1024.0}, {"M", 1048576.0}, {"G", 1073741824.0}, {"T", 1099511627776.0}};

Result<PruneOptions> options_of(const PruneCommand& command) {
  PruneOptions options{
      .device = command.device, .winners_too = command.winners_too, .dry_run = command.dry_run};
  if (!command.older_than.empty()) {
    const auto days = quantity(command.older_than, kDays);
    constexpr double kMostDays = 36500;
    if (!days || *days > kMostDays)
      return fail(ErrorCode::bad_input,
                  fmt::format("older-than = \"{}\": must be days, or a number with h, d, w or y, "
                              "at most 100 years",
                              command.older_than));
    options.older_than_days = *days;
  }
  if (!command.max_size.empty()) {
    const auto bytes = quantity(command.max_size, kBytes);
    if (!bytes || *bytes < 1 || *bytes > 1e15)
      return fail(ErrorCode::bad_input,
                  fmt::format("max-size = \"{}\": must be bytes, or a number with K, M, G or T",
                              command.max_size));
    options.most_bytes = static_cast<std::int64_t>(*bytes);
  }
  return options;
}

}  // namespace

void PruneCommand::add_to(CLI::App& app) {
  app.add_option("--older-than", older_than, "Measurements made before that: 90d, 12w, 1y")
      ->type_name("AGE");
  app.add_option("--device", device, "Of devices whose fingerprint contains this")
      ->type_name("TEXT");
  app.add_option("--max-size", max_size, "Until the file is no larger: 500K, 100M, 2G")
      ->type_name("SIZE");
  app.add_flag("--winners", winners_too,
               "Drop winners of that age and device too, with fitted models and tables of ranges");
  app.add_flag("--dry-run", dry_run, "Write nothing: say what would go");
}

Result<Outcome> prune_database(const Session& session, const DatabaseOptions& database,
                               const PruneCommand& command) {
  const auto options = options_of(command);
  if (!options) return tl::unexpected(options.error());
  const auto store = open_existing_store(database);
  if (!store) return tl::unexpected(store.error());
  const auto report = (*store)->maintenance().prune(*options);
  if (!report) return tl::unexpected(report.error());
  if (session.json) {
    print_json({{"dropped", report->dropped},
                {"winners", report->winners},
                {"bytes_before", report->bytes_before},
                {"bytes_after", report->bytes_after},
                {"small_enough", report->small_enough},
                {"dry_run", command.dry_run}});
  } else {
    Table table({"table", ">rows"});
    for (const auto& [rows, count] : report->dropped) table.add({rows, fmt::format("{}", count)});
    fmt::print("{}{}{} winners; {} -> {}\n", table.empty() ? "" : table.text(),
               command.dry_run || !report->small_enough ? "would drop " : "dropped ",
               report->winners, human_bytes(double(report->bytes_before)),
               human_bytes(double(report->bytes_after)));
    if (!report->small_enough)
      fmt::print("max-size = {}: what must stay is larger; nothing was dropped\n",
                 command.max_size);
  }
  return report->small_enough ? Outcome::done : Outcome::check_failed;
}

}  // namespace kiln::cli
