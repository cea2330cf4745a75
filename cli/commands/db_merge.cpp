#include "cli/commands/db_merge.h"

#include <fmt/format.h>

#include "cache/exchange/merge.h"
#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/printable.h"
#include "cli/output/report.h"

namespace kiln::cli {

const Manual kMergeManual{
    "merge", "Merge files of equal rank, weighing every row; conflicts are listed",
    "  For files that several machines or runs made; import is for a file that only fills gaps.\n"
    "  The order of the files does not matter. Rows belong to the device that made them, by its\n"
    "  fingerprint: files of several devices are merged row by row, and nothing crosses from one\n"
    "  device to another. Of two measurements of a candidate the one with more behind it stays:\n"
    "  verified, of a later round, of more samples, with the narrower interval. Of two winners of\n"
    "  a problem the one that a tuned range's table names; that was raced where the other was\n"
    "  only screened; whose time is surely shorter (the upper end of its interval, in steps of\n"
    "  2 %); of more samples; of the longer search. The other becomes evidence, and both are\n"
    "  listed with the reason. Machine code is taken from trusted files only, as import does.\n"
    "  Files of an older kiln are migrated in a private copy, those of a newer one are refused.\n"
    "  Rows that cannot be read are left out and listed; the exit code is then 1. All files are\n"
    "  merged, or nothing is written.",
    "  kiln db merge shard-*.db --db fleet.db\n"
    "  kiln db merge node1.db node2.db --dry-run\n"
    "  kiln db merge cluster.db --device \"H200\" --json | jq -c .conflict"};

namespace {

std::string merged_device(const DeviceCaps& device) {
  return fmt::format("{} ({} {})", device.model, device.compute_units,
                     device.vendor == Vendor::cpu ? "threads" : "units");
}

Json contender_json(const Contender& contender) {
  const Measured& measured = contender.measured;
  const Timing& timing = measured.timing();
  Json files = Json::array();
  for (const auto& file : contender.files) files.push_back(file.string());
  return {{"config", text(measured.config)}, {"median_ns", timing.median_ns},
          {"low_ns", timing.low_ns},         {"high_ns", timing.high_ns},
          {"samples", timing.samples},       {"round", name(measured.round)},
          {"verified", measured.verified},   {"runtime", contender.validators.runtime},
          {"created", contender.created},    {"files", files}};
}

Json conflict_json(const MergeConflict& conflict) {
  return {{"shape", text(conflict.key.gemm)},
          {"threads", conflict.key.device.compute_units},
          {"device", fingerprint(conflict.key.device)},
          {"policy", conflict.key.policy},
          {"determinism", std::get<std::string>(to_value(conflict.key.determinism))},
          {"kept", contender_json(conflict.kept)},
          {"other", contender_json(conflict.other)},
          {"why", conflict.why}};
}

std::string contender_text(const Contender& contender) {
  const Measured& measured = contender.measured;
  const Timing& timing = measured.timing();
  std::string files;
  for (const auto& file : contender.files)
    files += fmt::format("{}{}", files.empty() ? "" : ", ", file.string());
  return fmt::format(
      "{} [{} .. {}], {} samples, {}{}, {}\n            {}", human_time(timing.median_ns),
      human_time(timing.low_ns), human_time(timing.high_ns), timing.samples, name(measured.round),
      measured.verified ? "" : ", not verified",
      files.empty() ? "won in a file that was merged before" : files, text(measured.config));
}

void print_merge(const MergeReport& report, bool dry_run) {
  for (const MergedFile& file : report.files) {
    fmt::print(
        "{}: {} measurements, {} winners{}{}{}\n", file.file.string(), file.measurements,
        file.winners, file.trusted ? "" : "; its machine code is not trusted",
        file.other_devices > 0 ? fmt::format("; {} of other devices left out", file.other_devices)
                               : "",
        file.left_out.empty() ? "" : fmt::format("; {} bad rows left out", file.left_out.size()));
    for (const std::string& row : file.left_out) fmt::print("  {}\n", printable_line(row));
  }
  for (const MergedDevice& device : report.devices)
    fmt::print("{}: {} measurements, {} winners{}\n", merged_device(device.device),
               device.measurements, device.winners,
               device.was_here ? "" : "; a device that was not here");
  for (const MergeConflict& conflict : report.conflicts)
    fmt::print("conflict: {} on {}\n  kept:     {}\n  evidence: {}\n  because   {}\n",
               text(conflict.key.gemm), merged_device(conflict.key.device),
               contender_text(conflict.kept), contender_text(conflict.other), conflict.why);
  fmt::print(
      "{}{} measurements added, {} replaced, {} binaries; {} new winners, {} dethroned, {} "
      "conflicts\n",
      dry_run ? "would be: " : "", report.added, report.replaced, report.binaries, report.winners,
      report.dethroned, report.conflicts.size());
}

void print_merge_lines(const MergeReport& report, bool dry_run) {
  for (const MergedFile& file : report.files)
    print_json({{"file", file.file.string()},
                {"schema", file.schema},
                {"trusted", file.trusted},
                {"measurements", file.measurements},
                {"winners", file.winners},
                {"other_devices", file.other_devices},
                {"left_out", file.left_out}});
  for (const MergedDevice& device : report.devices)
    print_json({{"device", fingerprint(device.device)},
                {"measurements", device.measurements},
                {"winners", device.winners},
                {"was_here", device.was_here}});
  for (const MergeConflict& conflict : report.conflicts)
    print_json({{"conflict", conflict_json(conflict)}});
  print_json({{"summary",
               {{"added", report.added},
                {"replaced", report.replaced},
                {"binaries", report.binaries},
                {"winners", report.winners},
                {"dethroned", report.dethroned},
                {"conflicts", report.conflicts.size()},
                {"sound", report.sound()},
                {"dry_run", dry_run}}}});
}

}  // namespace

void MergeCommand::add_to(CLI::App& app) {
  app.add_option("files", files, "Files to read")->required()->type_name("FILE");
  app.add_option("--device", device,
                 "Take rows only of devices whose fingerprint contains this (see kiln db list "
                 "--json)")
      ->type_name("TEXT");
  app.add_flag("--dry-run", dry_run, "Write nothing: say what would be done");
}

Result<Outcome> merge_databases(const Session& session, const DatabaseOptions& database,
                                const MergeCommand& command) {
  const auto store = open_store(database);
  if (!store) return tl::unexpected(store.error());
  CountReport progress("merging", static_cast<int>(command.files.size()));
  MergeOptions options{.device = command.device, .dry_run = command.dry_run};
  options.progress = [&](std::size_t done, const std::filesystem::path& file) {
    progress.update(static_cast<int>(done), file.string());
  };
  const auto report =
      (*store)->transfer().merge_from({command.files.begin(), command.files.end()}, options);
  progress.clear();
  if (!report) return tl::unexpected(report.error());
  if (session.json)
    print_merge_lines(*report, command.dry_run);
  else
    print_merge(*report, command.dry_run);
  return report->sound() ? Outcome::done : Outcome::check_failed;
}

}  // namespace kiln::cli
