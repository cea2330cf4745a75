// `kiln db`: what the databases hold, whether they are sound, and carrying them elsewhere.
#include <fmt/format.h>

#include <filesystem>

#include "cache/exchange/offline.h"
#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/printable.h"
#include "cache/records/maintenance.h"
#include "cache/records/winners.h"
#include "cli/commands.h"
#include "cli/commands/db_class.h"
#include "cli/commands/db_compact.h"
#include "cli/commands/db_diff.h"
#include "cli/commands/db_measurements.h"
#include "cli/commands/db_merge.h"
#include "cli/commands/db_prune.h"
#include "cli/commands/db_refresh.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "cli/output/terminal.h"
#include "generator/problem/timed_flops.h"

namespace kiln::cli {
namespace {

constexpr Manual kList{
    "list", "List the best kernel of every tuned shape",
    "  One line a record, the user's own database first, then the shipped ones. A record of the\n"
    "  user's hides a shipped one of the same key. A predicted time is a model's "
    "(tune --offline, db class).\n"
    "  On a terminal lines are as wide as it is; --wide, a file or a pipe gets all of it.\n"
    "  roof is the least time that the record's CPU needs over the kernel's, where its limits are\n"
    "  stored (kiln bench, kiln tune): operations at the peak of their type, or bytes at the rate\n"
    "  of where they are.\n"
    "  searched says how many of the space's candidates were measured, and how much of the budget "
    "was\n"
    "  spent; a later tune with a larger one continues from there. disturbed: other programs ran\n"
    "  while the kernel was timed; the next tune searches anew (kiln explain says more).",
    "  kiln db list\n"
    "  KILN_DB=llama.db kiln db list --json | jq -r '[.shape, .threads, .config] | @tsv'"};

constexpr Manual kStats{
    "stats", "Say how much each database holds",
    "  Rows by kind, bytes of stored code, journal mode, whether its machine code is trusted "
    "(only\n"
    "  this user or root can have written the file), and failed candidates by reason.",
    "  kiln db stats\n  kiln db stats --db llama.db --json"};

constexpr Manual kCheck{
    "check", "Check every row of the databases; --repair drops bad ones",
    "  Tests SQLite's integrity, hashes of stored code, configs and problems that do not parse. "
    "Bad\n"
    "  rows make the exit code 1. --repair removes them from the user's own database (shipped "
    "ones\n"
    "  are never written to); what they held is measured or compiled again when it is next needed.",
    "  kiln db check || kiln db check --repair"};

constexpr Manual kExport{"export", "Write every record, with its code, to one file",
                         "  The file is a database of its own, for machines without a compiler: "
                         "set KILN_DB_PATH to it,\n"
                         "  or import it there. --fastest makes it smaller: explain() and the "
                         "model that chooses\n"
                         "  kernels need no slow candidates; a search that goes on from the file "
                         "may time some again.",
                         "  kiln db export app.kiln\n  KILN_DB_PATH=/usr/share/app/app.kiln ./app"};

constexpr Manual kImport{"import", "Add what a file holds and the user's database lacks",
                         "  Records that are already in the user's database win; merge weighs them "
                         "instead. Machine code is "
                         "taken only from a file\n"
                         "  that this user or root owns and no one else can write, in folders of "
                         "which the same is true;\n"
                         "  otherwise records come without code, which is compiled again on first "
                         "use.\n"
                         "  --t4 reads Kernel Tuner's T4 results, as kiln db measurements --t4 "
                         "writes them: evidence,\n"
                         "  from which searches continue; none becomes a winner.",
                         "  kiln db import app.kiln\n"
                         "  kiln db import --t4 llama.t4.json"};

struct DbCommand {
  DatabaseOptions database;
  std::string file;   // of export and import
  int fastest = 0;    // of export
  bool wide = false;  // of list
  bool repair = false;
  bool only_check = false;  // of refresh
  ClassCommand classes;
  MergeCommand merge;
  DiffCommand diff;
  PruneCommand prune;
  MeasurementsCommand measurements;
  T4Options t4;  // of import
};

std::string class_of(const BestKey& key) {
  return std::get<std::string>(to_value(key.determinism));
}

Json record_json(const Record& record, const std::optional<StoredRoofline>& roof) {
  const Gemm& gemm = record.key.gemm;
  Json row{{"shape", text(gemm)},
           {"threads", record.key.device.compute_units},
           {"device", fingerprint(record.key.device)},
           {"policy", record.key.policy},
           {"determinism", class_of(record.key)},
           {"predicted", is_predicted(record.key)},
           {"config", text(record.measured.config)},
           {"verified", record.measured.verified}};
  if (record.measured.ok()) {
    const Timing& timing = record.measured.timing();
    row.update({{"median_ns", timing.median_ns},
                {"low_ns", timing.low_ns},
                {"high_ns", timing.high_ns},
                {"gflops", timing.median_ns > 0 ? timed_flops(gemm) / timing.median_ns : 0},
                {"share_of_roof", share_json(roof, timing.median_ns)}});
    add_load(row, timing);
  }
  row.update({{"disturbed", record.measured.disturbed},
              {"searched", to_json(record.searched)},
              {"compiler", record.validators.compiler},
              {"created", record.created},
              {"database", record.database.string()}});
  return row;
}

std::string listed(const Table& table, bool wide) {
  const auto columns = terminal_columns();
  if (table.empty()) return {};
  return columns && !wide ? table.text(*columns) : table.text();
}

Result<Outcome> list(const Session& session, const DbCommand& command) {
  const auto store = open_existing_store(command.database);
  if (!store) return tl::unexpected(store.error());
  const Result<std::vector<Record>> records = (*store)->winners().list();
  if (!records) return tl::unexpected(records.error());
  Table table({"~shape", ">threads", ">median", ">GFLOP/s", ">roof", "~config", "?searched",
               "?class", "?policy", "?device"});
  for (const Record& record : *records) {
    const auto roof = is_predicted(record.key)
                          ? std::nullopt
                          : stored_roofline(**store, record.key.device, record.key.gemm);
    if (session.json) {
      print_json(record_json(record, roof));
      continue;
    }
    const double ns = record.measured.ok() ? record.measured.timing().median_ns : 0;
    const char* how = is_predicted(record.key) ? "predicted " : "";
    table.add({text(record.key.gemm), fmt::format("{}", record.key.device.compute_units),
               ns > 0 ? how + human_time(ns) : "-",
               ns > 0 ? fmt::format("{:.1f}", timed_flops(record.key.gemm) / ns) : "-",
               roof && ns > 0 ? fmt::format("{:.0f} %", 100 * roof->roof.ns / ns) : "-",
               text(record.measured.config),
               (record.searched ? text(*record.searched) : "not recorded") +
                   (record.measured.disturbed.empty() ? "" : ", disturbed"),
               class_of(record.key), record.key.policy, record.key.device.model});
  }
  if (session.json)
    print_json({{"summary", {{"records", records->size()}}}});
  else
    fmt::print("{}{} records\n", listed(table, command.wide), records->size());
  return Outcome::done;
}

Json stats_json(const StoreStats& s) {
  return {{"database", s.database.string()},
          {"writable", s.writable},
          {"trusted", s.trusted},
          {"journal", s.journal},
          {"schema", s.schema},
          {"file_bytes", s.file_bytes},
          {"devices", s.devices},
          {"problems", s.problems},
          {"winners", s.winners},
          {"measurements", s.measurements},
          {"failures", s.failures},
          {"failures_by_kind", s.failures_by_kind},
          {"binaries", s.binaries},
          {"binary_bytes", s.binary_bytes},
          {"quarantined", s.quarantined}};
}

void print_stats(const StoreStats& s) {
  fmt::print("{}\n", s.database.string());
  fmt::print("  {}, schema {}, journal {}, {}, machine code {}\n",
             human_bytes(double(s.file_bytes)), s.schema, s.journal,
             s.writable ? "writable" : "read only", s.trusted ? "trusted" : "not trusted");
  fmt::print("  {} devices, {} problems, {} winners\n", s.devices, s.problems, s.winners);
  fmt::print("  {} measurements, {} of them failures\n", s.measurements, s.failures);
  for (const auto& [kind, count] : s.failures_by_kind) fmt::print("    {:<16} {}\n", kind, count);
  fmt::print("  {} binaries, {} compressed, {} quarantined\n", s.binaries,
             human_bytes(double(s.binary_bytes)), s.quarantined);
}

Result<Outcome> stats(const Session& session, const DbCommand& command) {
  const auto store = open_existing_store(command.database);
  if (!store) return tl::unexpected(store.error());
  const Result<std::vector<StoreStats>> files = (*store)->maintenance().stats();
  if (!files) return tl::unexpected(files.error());
  for (const StoreStats& file : *files) {
    if (session.json)
      print_json(stats_json(file));
    else
      print_stats(file);
  }
  return Outcome::done;
}

Result<Outcome> check(const Session& session, const DbCommand& command) {
  const auto store = open_existing_store(command.database);
  if (!store) return tl::unexpected(store.error());
  const Result<CheckReport> found = (*store)->maintenance().check(command.repair);
  if (!found) return tl::unexpected(found.error());
  bool sound = found->ok();
  if (command.repair && !sound) {  // sound is what a second look finds, not what a repair claims
    const Result<CheckReport> after = (*store)->maintenance().check(false);
    if (!after) return tl::unexpected(after.error());
    sound = after->ok();
  }
  if (session.json) {
    for (const std::string& problem : found->problems) print_json({{"problem", problem}});
    print_json({{"summary",
                 {{"rows", found->rows},
                  {"problems", found->problems.size()},
                  {"repaired", found->repaired},
                  {"sound", sound}}}});
  } else {
    for (const std::string& problem : found->problems) fmt::print("{}\n", printable_line(problem));
    fmt::print("{} rows, {} bad, {} repaired: {}\n", found->rows, found->problems.size(),
               found->repaired, sound ? "sound" : "not sound");
  }
  return sound ? Outcome::done : Outcome::check_failed;
}

Result<Outcome> export_file(const Session& session, const DbCommand& command) {
  const auto store = open_existing_store(command.database);
  if (!store) return tl::unexpected(store.error());
  if (Status status = (*store)->transfer().export_to(command.file, command.fastest); !status)
    return tl::unexpected(status.error());
  const Result<std::vector<Record>> records = (*store)->winners().list();
  if (!records) return tl::unexpected(records.error());
  std::error_code code;
  const auto bytes = std::filesystem::file_size(command.file, code);
  if (session.json)
    print_json({{"file", command.file}, {"records", records->size()}, {"bytes", bytes}});
  else
    fmt::print("{}: {} records, {}\n", command.file, records->size(), human_bytes(double(bytes)));
  return Outcome::done;
}

Result<Outcome> import_file(const Session& session, const DbCommand& command) {
  if (command.t4.given) return import_t4(session, command.database, command.file, command.t4);
  const auto store = open_store(command.database);
  if (!store) return tl::unexpected(store.error());
  const Result<ImportReport> report = (*store)->transfer().import_from(command.file);
  if (!report) return tl::unexpected(report.error());
  if (session.json)
    print_json({{"file", command.file},
                {"measurements", report->measurements},
                {"binaries", report->binaries},
                {"trusted", report->trusted}});
  else
    fmt::print("{}: {} measurements and {} binaries added{}\n", command.file, report->measurements,
               report->binaries, report->trusted ? "" : "; its machine code is not trusted");
  return Outcome::done;
}

Result<Outcome> refresh_file(const Session& session, const DbCommand& command) {
  return refresh_database(session, command.database, command.only_check);
}

Result<Outcome> class_file(const Session& session, const DbCommand& command) {
  return make_classes(session, command.database, command.classes);
}

Result<Outcome> diff_files(const Session& session, const DbCommand& command) {
  return diff_databases(session, command.database, command.diff);
}

Result<Outcome> prune_file(const Session& session, const DbCommand& command) {
  return prune_database(session, command.database, command.prune);
}

Result<Outcome> compact_file(const Session& session, const DbCommand& command) {
  return compact_database(session, command.database);
}

Result<Outcome> list_measurements(const Session& session, const DbCommand& command) {
  return print_measurements(session, command.database, command.measurements);
}

Result<Outcome> merge_files(const Session& session, const DbCommand& command) {
  return merge_databases(session, command.database, command.merge);
}

}  // namespace

void add_db(CLI::App& parent, Session& session) {
  CLI::App* db = parent.add_subcommand("db",
                                       "List, check, merge, compare, prune, compact, export and "
                                       "import databases; make kernels of classes");
  db->require_subcommand(1);
  db->footer("\nExamples:\n  kiln db list\n  kiln db check --repair\n  kiln help db export");
  auto command = std::make_shared<DbCommand>();
  using Run = Result<Outcome> (*)(const Session&, const DbCommand&);
  const auto add = [&](const Manual& manual, Run run) {
    CLI::App* app = add_command(*db, session, manual,
                                [&session, command, run] { return run(session, *command); });
    command->database.add_to(*app);
    return app;
  };
  add(kList, list)
      ->add_flag(
          "--wide", command->wide,
          "Print every column in full, as into a file or a pipe: kiln db list --wide | less -S");
  add(kStats, stats);
  add(kCheck, check)
      ->add_flag("--repair", command->repair, "Remove bad rows from the user's database");
  add(kRefreshManual, refresh_file)
      ->add_flag("--check", command->only_check, "Write nothing: say what would be done");
  command->classes.add_to(*add(kClassManual, class_file));
  CLI::App* const exported = add(kExport, export_file);
  exported->add_option("file", command->file, "File to write")->required();
  exported
      ->add_option("--fastest", command->fastest,
                   "Of each search, leave out candidates slower than its N fastest; none: keep all")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  command->merge.add_to(*add(kMergeManual, merge_files));
  CLI::App* const imported = add(kImport, import_file);
  imported->add_option("file", command->file, "File to read")->required();
  command->t4.add_to(*imported);
  command->diff.add_to(*add(kDiffManual, diff_files));
  command->prune.add_to(*add(kPruneManual, prune_file));
  add(kCompactManual, compact_file);
  command->measurements.add_to(*add(kMeasurementsManual, list_measurements));
}

}  // namespace kiln::cli
