#include "cli/commands/db_refresh.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cache/exchange/refresh.h"
#include "cache/printable.h"
#include "cache/records/fit_class.h"
#include "cli/output/report.h"

namespace kiln::cli {

const Manual kRefreshManual{
    "refresh", "Bring winners up to date after a change of kiln's templates",
    "  Renders every winner again. Same tokens: nothing to do. Other tokens that compile to the\n"
    "  same machine code: stored again under today's templates. Winners that were raced again\n"
    "  under today's templates replace the earlier ones. What is left must be raced again on its\n"
    "  device (kiln tune --force: as it is, it goes on running and counts as tuned) and makes the\n"
    "  exit code 1. Models that were fitted to other analytic models than today's are fitted "
    "again\n"
    "  to the measurements in the file. Compiles with NVRTC, Clang or hipRTC; needs no device and\n"
    "  runs no kernel. --check writes nothing.",
    "  kiln db refresh --db llama.kiln\n  kiln db refresh --check --db db/h200.kiln --json"};

Result<Outcome> refresh_database(const Session& session, const DatabaseOptions& database,
                                 bool check) {
  const std::filesystem::path file =
      database.file.empty() ? default_database() : std::filesystem::path(database.file);
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    return fail(ErrorCode::bad_input,
                fmt::format("db = \"{}\": there is no such file", file.string()));
  auto store =
      check ? Store::open({.database = {}, .shipped = {file}}) : Store::open({.database = file});
  if (!store) return tl::unexpected(store.error());
  const auto rows = refresh(**store, !check);
  if (!rows) return tl::unexpected(rows.error());
  std::map<std::string_view, std::int64_t> counts;
  for (const Refreshed state : {Refreshed::same, Refreshed::recompiled, Refreshed::race,
                                Refreshed::unknown, Refreshed::replaced})
    counts[name(state)] = 0;
  for (const RefreshRow& row : *rows) {
    ++counts[name(row.state)];
    if (session.json)
      print_json({{"shape", text(row.key.gemm)},
                  {"threads", row.key.device.compute_units},
                  {"device", fingerprint(row.key.device)},
                  {"config", row.config},
                  {"state", name(row.state)},
                  {"reason", row.reason}});
    else if (row.state == Refreshed::race || row.state == Refreshed::unknown)
      fmt::print("{}: {}: {}\n", text(row.key.gemm), name(row.state), printable_line(row.reason));
  }
  const bool left = counts[name(Refreshed::race)] + counts[name(Refreshed::unknown)] > 0;
  const auto fits = fit_stale_classes(**store, !check);
  if (!fits) return tl::unexpected(fits.error());
  counts["stale_fits"] = *fits;
  if (session.json)
    print_json({{"summary", counts}});
  else
    fmt::print("{} winners: {} same, {} recompiled, {} to be raced again, {} unknown{}\n",
               rows->size(), counts[name(Refreshed::same)], counts[name(Refreshed::recompiled)],
               counts[name(Refreshed::race)], counts[name(Refreshed::unknown)],
               counts[name(Refreshed::replaced)] == 0
                   ? ""
                   : fmt::format(", {} replaced by newer ones", counts[name(Refreshed::replaced)]));
  if (!session.json && *fits > 0)
    fmt::print("{} fitted models {}\n", *fits,
               check ? "are of other analytic models than today's" : "fitted again");
  return left || (check && *fits > 0) ? Outcome::check_failed : Outcome::done;
}

}  // namespace kiln::cli
