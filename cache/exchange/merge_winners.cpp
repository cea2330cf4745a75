// Which of several winners of a key stays.
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "cache/exchange/merge_rows.h"
#include "cache/rows/queries.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/range_table.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"
#include "generator/problem/size.h"
#include "tuner/search/stopping.h"

namespace kiln {
namespace {

constexpr int kEnoughSamples = 16;  // a median of so many has the interval that it says

double width_of(const Timing& timing) {
  return timing.median_ns > 0 ? (timing.high_ns - timing.low_ns) / timing.median_ns : 0;
}

/// A winner of a key on its way through the choice.
struct Rival {
  std::int64_t id = 0;
  BestKey key;
  Contender contender;
  WinnerWeight weight;

  bool operator<(const Rival& b) const {
    if (!outweighs(weight, b.weight).empty()) return false;
    if (!outweighs(b.weight, weight).empty()) return true;
    const auto texts = [](const Rival& rival) {
      return std::pair(text(rival.contender.measured.config), key_text(rival.contender.validators));
    };
    return texts(*this) > texts(b);
  }
};

/// Keys (of one template and compiler, as look-ups ask) of which a winner came or was replaced, and
/// those that were contested before, since what is weighed of them may have come; with the winners
/// that they have now, in one file or another.
void find_rivals(SQLite::Database& db) {
  db.exec(R"sql(
    CREATE TEMP TABLE contest AS
    SELECT DISTINCT device_id, problem_id, policy, determinism, template_hash, compiler
    FROM measurement JOIN toolchain ON toolchain.id = toolchain_id
    WHERE measurement.id IN (SELECT id FROM claim) OR (winner = 0 AND launch <> '') OR
      (measurement.id IN (SELECT id FROM held) AND (winner = 0 OR measurement.seal = '')))sql");
  db.exec(R"sql(
    CREATE TEMP TABLE rival AS SELECT contest.rowid AS contest, measurement.id
    FROM contest JOIN measurement USING (device_id, problem_id, policy, determinism)
      JOIN toolchain ON toolchain.id = toolchain_id AND
        toolchain.template_hash = contest.template_hash AND
        toolchain.compiler = contest.compiler
    WHERE failure IS NULL AND quarantined IS NULL AND (winner = 1 OR launch <> '' OR
      measurement.id IN (SELECT id FROM claim)))sql");
  db.exec("CREATE INDEX temp.rival_contest ON rival(contest)");
}

/// Makes what alone stands for its key the winner; of all others nobody is one yet, rows that
/// cannot be read or are quarantined among them.
void settle_single(SQLite::Database& db) {
  db.exec(R"sql(
    UPDATE measurement SET winner = 0 WHERE winner = 1 AND id IN (
      SELECT measurement.id FROM contest
        JOIN measurement USING (device_id, problem_id, policy, determinism)
        JOIN toolchain ON toolchain.id = toolchain_id AND
          toolchain.template_hash = contest.template_hash AND
          toolchain.compiler = contest.compiler WHERE winner = 1) AND
      id NOT IN (SELECT id FROM rival GROUP BY contest HAVING count(*) = 1))sql");
  db.exec(R"sql(
    UPDATE measurement SET winner = 1 WHERE winner = 0 AND
      id IN (SELECT id FROM rival GROUP BY contest HAVING count(*) = 1))sql");
}

/// Winners that tables of ranges name, as "device|problem|policy|determinism|config".
std::set<std::string> winners_of_ranges(SQLite::Database& db) {
  std::vector<std::int64_t> ids;
  SQLite::Statement row(db, "SELECT id FROM range");
  while (row.executeStep()) ids.push_back(row.getColumn(0).getInt64());
  std::set<std::string> named;
  for (const std::int64_t id : ids)
    if (const auto range = read_range(db, id))
      for (const RangeCell& cell : range->table.cells) {
        BestKey key = range->key;
        key.gemm = range->range.at(cell.tuned_at);
        named.insert(key_text(key) + text(cell.config));
        // The row that the table's kernel has of its own.
        key.gemm = normalised(key.gemm);
        key.policy = range_policy(key.policy, range->range);
        named.insert(key_text(key) + text(cell.config));
      }
  return named;
}

std::optional<Rival> read_rival(SQLite::Database& db, SQLite::Statement& row,
                                const std::set<std::string>& named) {
  constexpr int kNext = kMeasuredColumnCount;
  auto measured = read_measured(row);
  auto device = read_device(db, row.getColumn(kNext).getInt64());
  auto gemm = read_problem(db, row.getColumn(kNext + 1).getInt64());
  auto made_by = read_toolchain(db, row.getColumn(kNext + 2).getInt64());
  Determinism determinism{};
  if (!measured || !measured->ok() || !device || !gemm || !made_by ||
      !from_value(row.getColumn(kNext + 4).getString(), determinism))
    return std::nullopt;  // check() is what reports it
  Rival rival{.id = row.getColumn(kNext + 5).getInt64(),
              .key = {.device = *device,
                      .gemm = *gemm,
                      .policy = text_of(row.getColumn(kNext + 3)),
                      .determinism = determinism},
              .contender = {.measured = std::move(*measured),
                            .validators = std::move(*made_by),
                            .created = text_of(row.getColumn(kNext + 6))}};
  const Measured& won = rival.contender.measured;
  rival.weight = weight_of(won, rival.contender.created);
  rival.weight.in_range = named.contains(key_text(rival.key) + text(won.config));
  rival.weight.runs = row.getColumn(kNext + 7).getInt() == 1 || is_library(won.config);
  rival.weight.searched = row.getColumn(kNext + 8).getInt64();
  return rival;
}

/// Rivals of contests of more than one, contest by contest.
std::vector<std::vector<Rival>> read_contests(SQLite::Database& db) {
  SQLite::Statement row(
      db, fmt::format("SELECT {}, measurement.device_id, measurement.problem_id, "
                      "measurement.toolchain_id, measurement.policy, measurement.determinism, "
                      "measurement.id, measurement.created, "
                      "EXISTS (SELECT 1 FROM binary WHERE key = binary_key AND "
                      "binary.quarantined IS NULL), "
                      "coalesce((SELECT max(measured) FROM search WHERE "
                      "search.device_id = measurement.device_id AND "
                      "search.problem_id = measurement.problem_id AND "
                      "search.policy = measurement.policy AND "
                      "search.determinism = measurement.determinism AND "
                      "search.toolchain_id = measurement.toolchain_id), 0), "
                      "rival.contest "
                      "FROM {} JOIN rival ON rival.id = measurement.id WHERE rival.contest IN "
                      "(SELECT contest FROM rival GROUP BY contest HAVING count(*) > 1) "
                      "ORDER BY rival.contest",
                      kMeasuredColumns, kMeasurementJoin));
  const int contest_column = row.getColumnCount() - 1;
  std::optional<std::set<std::string>> named;
  std::vector<std::vector<Rival>> contests;
  std::int64_t current = -1;
  while (row.executeStep()) {
    if (!named) named = winners_of_ranges(db);
    auto rival = read_rival(db, row, *named);
    if (!rival) continue;
    const std::int64_t contest = row.getColumn(contest_column).getInt64();
    if (contest != current) contests.emplace_back();
    current = contest;
    contests.back().push_back(std::move(*rival));
  }
  return contests;
}

void make_winner_of(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db, "UPDATE measurement SET winner = 1 WHERE id = ?");
  row.bind(1, id);
  row.exec();
}

/// Who won somewhere keeps a launch, known or not: the next merge takes it for a rival again.
void remember_rivals(SQLite::Database& db) {
  db.exec(
      fmt::format("UPDATE measurement SET launch = '{0}', seal = '' WHERE winner = 0 AND "
                  "launch = '' AND id IN (SELECT id FROM rival);"
                  "UPDATE measurement SET launch = '', seal = '' WHERE winner = 1 AND "
                  "launch = '{0}' AND id IN (SELECT id FROM rival)",
                  kUnknownLaunch));
}

/// Seals rows that the merge wrote. A winner here whose seal was missing is not vouched for.
void seal_written(SQLite::Database& db) {
  std::vector<std::int64_t> ids;
  SQLite::Statement row(db, R"sql(
    SELECT id FROM measurement WHERE seal = '' AND (winner = 1 OR launch <> '') AND
      (id IN (SELECT id FROM rival) OR id IN (SELECT id FROM held WHERE seal <> '')) AND
      id NOT IN (SELECT id FROM held WHERE seal = ''))sql");
  while (row.executeStep()) ids.push_back(row.getColumn(0).getInt64());
  for (const std::int64_t id : ids) seal_measurement(db, id);
}

}  // namespace

double assured_ns(const Timing& timing) {
  const double half =
      std::max(timing.high_ns - timing.median_ns, (kMinimumGain - 1) * timing.median_ns);
  const double few = std::max(1.0, double(kEnoughSamples) / std::max(1, timing.samples));
  return timing.median_ns + half * std::sqrt(few);
}

WinnerWeight weight_of(const Measured& measured, const std::string& created) {
  const Timing& timing = measured.timing();
  return {
      .verified = measured.verified,
      .round = measured.round,
      .steps = static_cast<int>(std::floor(std::log(assured_ns(timing)) / std::log(kMinimumGain))),
      .samples = timing.samples,
      .width = width_of(timing),
      .created = created};
}

std::string outweighs(const WinnerWeight& a, const WinnerWeight& b) {
  if (a.in_range != b.in_range) return a.in_range ? "a tuned range's table names it" : "";
  if (a.runs != b.runs) return a.runs ? "its code is stored, the other's is not" : "";
  if (a.verified != b.verified) return a.verified ? "it was verified, the other was not" : "";
  if (a.round != b.round)
    return a.round > b.round
               ? fmt::format("its last round was {}, the other's {}", name(a.round), name(b.round))
               : "";
  if (a.steps != b.steps) return a.steps < b.steps ? "its time is surely shorter" : "";
  if (a.samples != b.samples)
    return a.samples > b.samples ? fmt::format("as fast within 2 %, and {} samples, the other's {}",
                                               a.samples, b.samples)
                                 : "";
  if (a.searched != b.searched)
    return a.searched > b.searched
               ? fmt::format("as fast within 2 %, and its search measured {}, the other's {}",
                             a.searched, b.searched)
               : "";
  if (a.width != b.width)
    return a.width < b.width ? "as fast within 2 %, and its interval is narrower" : "";
  return a.created > b.created ? "as fast within 2 %, and measured later" : "";
}

std::vector<MergeConflict> choose_winners(SQLite::Database& db, MergeReport& report) {
  find_rivals(db);
  settle_single(db);
  std::vector<MergeConflict> conflicts;
  for (std::vector<Rival>& rivals : read_contests(db)) {
    const auto best = std::ranges::max_element(rivals, std::less<>{});
    make_winner_of(db, best->id);
    for (const Rival& rival : rivals) {
      // The same kernel under another runtime is no other winner.
      if (rival.contender.measured.config == best->contender.measured.config) continue;
      std::string why = outweighs(best->weight, rival.weight);
      if (why.empty()) why = "all else is equal, and its text comes first";
      conflicts.push_back({best->key, best->contender, rival.contender, std::move(why)});
    }
  }
  remember_rivals(db);
  seal_written(db);
  report.dethroned +=
      db.execAndGet("SELECT count(*) FROM held JOIN measurement USING (id) WHERE winner = 0")
          .getInt64();
  report.winners += db.execAndGet(R"sql(
    SELECT count(*) FROM contest WHERE EXISTS (SELECT 1 FROM rival JOIN measurement USING (id)
      WHERE contest = contest.rowid AND winner = 1) AND NOT EXISTS (
      SELECT 1 FROM held JOIN measurement USING (id) JOIN toolchain ON toolchain.id = toolchain_id
      WHERE measurement.device_id = contest.device_id AND
        measurement.problem_id = contest.problem_id AND measurement.policy = contest.policy AND
        measurement.determinism = contest.determinism AND
        toolchain.template_hash = contest.template_hash AND
        toolchain.compiler = contest.compiler))sql")
                        .getInt64();
  return conflicts;
}

}  // namespace kiln
