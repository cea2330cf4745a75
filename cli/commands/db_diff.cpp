#include "cli/commands/db_diff.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "cache/exchange/diff.h"
#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cli/output/report.h"

namespace kiln::cli {

const Manual kDiffManual{
    "diff", "Compare the winners of two files, or of two drivers in one",
    "  For each problem that was tuned on the same device: is the winner of the second file\n"
    "  faster, slower, another one, or missing. Faster and slower are said where the 95 %\n"
    "  intervals do not overlap and each time has six samples or more; what differs by less is\n"
    "  the same. change is the new time against the old one, with what it is at least and at most\n"
    "  by the intervals. --drivers OLD NEW compares rows of one file by the runtime under which\n"
    "  they were measured (driver, libraries, operating system): each is a part of its text.\n"
    "  Rows that are the same are counted; --all lists them too, as --json does.",
    "  kiln db diff last-week.db today.db\n"
    "  kiln db diff fleet.db --drivers \"driver 12.4\" \"driver 12.8\"\n"
    "  kiln db diff a.db b.db --json | jq 'select(.change == \"slower\")'"};

namespace {

using Rows = std::vector<StoredMeasurement>;

Result<std::unique_ptr<Store>> open_to_compare(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return fail(ErrorCode::bad_input, fmt::format("file = {}: no such file", file));
  return Store::open({.database = {}, .shipped = {file}});
}

Result<Rows> winners_in(Store& store, const MeasurementFilter& filter) {
  Rows rows;
  const Status read =
      store.measurements().each(filter, [&](const StoredMeasurement& row) { rows.push_back(row); });
  if (!read) return tl::unexpected(read.error());
  return rows;
}

/// Names the runtimes that there are, where none of them has the text.
Status known_runtime(Store& store, const std::string& wanted) {
  std::set<std::string> runtimes;
  bool known = false;
  const Status read =
      store.measurements().each({.winners = true}, [&](const StoredMeasurement& row) {
        runtimes.insert(row.validators.runtime);
        known = known || row.validators.runtime.find(wanted) != std::string::npos;
      });
  if (!read || known) return read;
  return fail(ErrorCode::bad_input,
              fmt::format("drivers = \"{}\": no winner was measured under it; there are \"{}\"",
                          wanted, fmt::join(runtimes, "\", \"")));
}

Json side_json(const std::optional<StoredMeasurement>& row) {
  if (!row) return nullptr;
  Json side{{"config", text(row->measured.config)}};
  if (row->measured.ok()) {
    const Timing& timing = row->measured.timing();
    side.update({{"median_ns", timing.median_ns},
                 {"low_ns", timing.low_ns},
                 {"high_ns", timing.high_ns},
                 {"samples", timing.samples}});
    add_load(side, timing);
  }
  side.update({{"runtime", row->validators.runtime}, {"created", row->created}});
  return side;
}

Json diff_json(const DiffRow& row) {
  Json line{{"shape", text(row.key.gemm)},
            {"threads", row.key.device.compute_units},
            {"device", fingerprint(row.key.device)},
            {"policy", row.key.policy},
            {"determinism", std::get<std::string>(to_value(row.key.determinism))},
            {"change", name(row.change)},
            {"significant", row.change == RowChange::faster || row.change == RowChange::slower},
            {"other_winner", row.other_winner},
            {"older", side_json(row.older)},
            {"newer", side_json(row.newer)}};
  if (row.ratio > 0)
    line.update({{"ratio", row.ratio}, {"ratio_low", row.low}, {"ratio_high", row.high}});
  return line;
}

std::string change_text(const DiffRow& row) {
  if (row.ratio == 0) return "";
  const auto share = [](double ratio) { return 100 * (1 / ratio - 1); };
  return fmt::format("{:+.1f} % [{:+.1f} .. {:+.1f}]", share(row.ratio), share(row.high),
                     share(row.low));
}

std::string time_text(const std::optional<StoredMeasurement>& row) {
  return row && row->measured.ok() ? human_time(row->measured.timing().median_ns) : "-";
}

struct DiffCounts {
  std::map<std::string_view, int> changes;
  int other_winners = 0;
};

DiffCounts count_changes(const std::vector<DiffRow>& rows) {
  DiffCounts counts;
  for (const RowChange change : {RowChange::same, RowChange::faster, RowChange::slower,
                                 RowChange::only_old, RowChange::only_new})
    counts.changes[name(change)] = 0;
  for (const DiffRow& row : rows) {
    ++counts.changes[name(row.change)];
    counts.other_winners += static_cast<int>(row.other_winner);
  }
  return counts;
}

void print_diff(const std::vector<DiffRow>& rows, bool all) {
  Table table({"change", "winner", ">old", ">new", ">change", "shape", ">threads", "device"});
  for (const DiffRow& row : rows) {
    if (row.change == RowChange::same && !row.other_winner && !all) continue;
    table.add({std::string(name(row.change)), row.other_winner ? "other" : "", time_text(row.older),
               time_text(row.newer), change_text(row), text(row.key.gemm),
               fmt::format("{}", row.key.device.compute_units), row.key.device.model});
  }
  const DiffCounts counts = count_changes(rows);
  const auto of = [&](RowChange change) { return counts.changes.at(name(change)); };
  fmt::print(
      "{}{} problems: {} faster, {} slower, {} the same; {} other winners; {} only in the "
      "old, {} only in the new; on average the new time is {:.3f} of the old\n",
      table.empty() ? "" : table.text(), rows.size(), of(RowChange::faster), of(RowChange::slower),
      of(RowChange::same), counts.other_winners, of(RowChange::only_old), of(RowChange::only_new),
      1 / mean_ratio(rows));
}

void print_diff_lines(const std::vector<DiffRow>& rows) {
  for (const DiffRow& row : rows) print_json(diff_json(row));
  const DiffCounts counts = count_changes(rows);
  Json summary{{"problems", rows.size()}};
  for (const auto& [change, count] : counts.changes) {
    std::string key(change);
    std::ranges::replace(key, ' ', '_');
    summary[key] = count;
  }
  summary.update({{"other_winners", counts.other_winners}, {"mean_ratio", mean_ratio(rows)}});
  print_json({{"summary", summary}});
}

Result<std::pair<Rows, Rows>> both_sides(const DatabaseOptions& database,
                                         const DiffCommand& command) {
  const std::size_t wanted = command.drivers.empty() ? 2 : 1;
  if (command.files.size() > wanted || (wanted == 2 && command.files.size() < 2))
    return fail(ErrorCode::bad_input,
                fmt::format("files: {} given; give two, or --drivers and one or none",
                            command.files.size()));
  std::pair<Rows, Rows> sides;
  for (std::size_t i = 0; i < 2; ++i) {
    const bool drivers = !command.drivers.empty();
    const auto store = command.files.empty() ? open_existing_store(database)
                                             : open_to_compare(command.files[drivers ? 0 : i]);
    if (!store) return tl::unexpected(store.error());
    MeasurementFilter filter{.device = command.device, .winners = true};
    if (drivers) {
      filter.runtime = command.drivers[i];
      if (Status known = known_runtime(**store, filter.runtime); !known)
        return tl::unexpected(known.error());
    }
    auto rows = winners_in(**store, filter);
    if (!rows) return tl::unexpected(rows.error());
    (i == 0 ? sides.first : sides.second) = std::move(*rows);
  }
  return sides;
}

}  // namespace

void DiffCommand::add_to(CLI::App& app) {
  app.add_option("files", files,
                 "The old file and the new one; with --drivers one, or none for "
                 "the user's database")
      ->type_name("FILE")
      ->expected(0, 2);
  app.add_option("--drivers", drivers, "Two runtimes, each a part of its text")
      ->type_name("OLD NEW")
      ->expected(2);
  app.add_option("--device", device, "Only of devices whose fingerprint contains this")
      ->type_name("TEXT");
  app.add_flag("--all", all, "Rows that are the same too");
}

Result<Outcome> diff_databases(const Session& session, const DatabaseOptions& database,
                               const DiffCommand& command) {
  auto sides = both_sides(database, command);
  if (!sides) return tl::unexpected(sides.error());
  const std::vector<DiffRow> rows = diff_winners(std::move(sides->first), std::move(sides->second));
  if (session.json)
    print_diff_lines(rows);
  else
    print_diff(rows, command.all);
  return Outcome::done;
}

}  // namespace kiln::cli
