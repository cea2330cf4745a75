#include "cli/commands/db_compact.h"

#include <fmt/format.h>

#include "cache/records/maintenance.h"
#include "cli/output/report.h"

namespace kiln::cli {

const Manual kCompactManual{
    "compact", "Compress stored code again and give free space back",
    "  Sources and machine code are compressed with today's dictionaries, on all cores, at a "
    "level\n"
    "  that takes too long while tuning. A file of an older kiln shrinks most: it was compressed\n"
    "  without dictionaries. Every row says what it said before, and nothing is dropped (kiln db\n"
    "  prune drops). The file is made anew, which takes its size on the disk once more for a\n"
    "  moment. kiln db export writes such files in any case.",
    "  kiln db compact\n  kiln db compact --db fleet.db --json"};

Result<Outcome> compact_database(const Session& session, const DatabaseOptions& database) {
  const auto store = open_existing_store(database);
  if (!store) return tl::unexpected(store.error());
  const auto report = (*store)->maintenance().compact();
  if (!report) return tl::unexpected(report.error());
  if (session.json)
    print_json({{"frames", report->frames},
                {"made_smaller", report->made_smaller},
                {"bytes_before", report->bytes_before},
                {"bytes_after", report->bytes_after}});
  else
    fmt::print("{} of {} sources and binaries made smaller; {} -> {}\n", report->made_smaller,
               report->frames, human_bytes(double(report->bytes_before)),
               human_bytes(double(report->bytes_after)));
  return Outcome::done;
}

}  // namespace kiln::cli
