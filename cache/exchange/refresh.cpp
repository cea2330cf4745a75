#include "cache/exchange/refresh.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>

#include "cache/all_cores.h"
#include "cache/keys.h"
#include "cache/records/binaries.h"
#include "cache/records/winners.h"
#include "generator/render/code_key.h"
#include "generator/space/family.h"
#include "generator/space/launch_text.h"
#include "runtime/compiler.h"

namespace kiln {
namespace {

/// Nothing, or why the record may not run as it is.
std::string distrust(const Problem& problem, const Record& record) {
  const std::string today = launch_text(problem, record.key.device, record.measured.config);
  if (today.empty())
    return fmt::format("its config breaks the rule '{}'",
                       broken_rule(problem, record.key.device, record.measured.config));
  if (record.launch.empty()) return "its launch was never stored";
  if (record.launch != today) return "its launch, ABI or family's revision is not today's";
  return {};
}

class Refresh {
 public:
  Refresh(Store& store, bool write) : store_(store), write_(write) {}

  Result<RefreshRow> look_at(const Record& record) {
    RefreshRow row{.key = record.key, .config = text(record.measured.config)};
    const auto to_race = [&](std::string reason) {
      row.state = Refreshed::race;
      row.reason = std::move(reason);
      return row;
    };
    if (is_library(record.measured.config)) return row;  // no code of kiln's
    const Problem problem = record.key.problem();
    if (std::string reason = distrust(problem, record); !reason.empty())
      return to_race(std::move(reason));
    const auto source = render(problem, record.key.device, record.measured.config);
    if (!source) return to_race(source.error().message);
    const auto stored = store_.binaries().by_key(record.measured.binary_key);
    if (!stored) return to_race("its code is missing, damaged or not trusted");
    if (stored->code_key == code_key(*source)) return row;
    const auto compiler = compiler_for(record.key.device);
    if (!compiler) {
      row.state = Refreshed::unknown;
      row.reason = compiler.error().message;
      return row;
    }
    const auto& made = compiled(**compiler, *source);
    if (!made) return to_race(made.error().message);
    if (made->image != stored->image) return to_race("today's templates make other machine code");
    row.state = Refreshed::recompiled;
    if (!write_ || record.database != store_.path()) return row;
    const Status done =
        store_.winners().rename_code(record, template_hash(record.key.device.vendor),
                                     {.key = binary_key(*source, (*compiler)->version()),
                                      .code_key = code_key(*source),
                                      .compiler = (*compiler)->version(),
                                      .source = stored->source.empty() ? "" : source->text,
                                      .image = stored->image});
    if (!done) return tl::unexpected(done.error());
    return row;
  }

 private:
  /// Once for all winners of this code.
  const Result<Binary>& compiled(Compiler& compiler, const Source& source) {
    Once* once = nullptr;
    {
      const std::lock_guard lock(mutex_);
      once = &made_[binary_key(source, compiler.version())];
    }
    std::call_once(once->flag, [&] { once->binary = compiler.compile(source); });
    return once->binary;
  }

  struct Once {
    std::once_flag flag;
    Result<Binary> binary;
  };
  Store& store_;
  bool write_;
  std::mutex mutex_;
  std::map<std::string, Once> made_;  // by binary_key; under mutex_
};

}  // namespace

std::string_view name(Refreshed state) {
  switch (state) {
    case Refreshed::same:
      return "same";
    case Refreshed::recompiled:
      return "recompiled";
    case Refreshed::race:
      return "race again";
    case Refreshed::unknown:
      return "unknown";
    case Refreshed::replaced:
      return "replaced";
  }
  return "?";
}

Result<std::vector<RefreshRow>> refresh(Store& store, bool write) {
  const auto records = store.winners().list_kernels();
  if (!records) return tl::unexpected(records.error());
  Refresh each(store, write);
  std::vector<Result<RefreshRow>> looked(records->size());
  on_all_cores(records->size(), [&](std::size_t i) { looked[i] = each.look_at((*records)[i]); });
  std::vector<RefreshRow> rows;
  for (auto& row : looked) {
    if (!row) return tl::unexpected(row.error());
    rows.push_back(std::move(*row));
  }
  // By file: another one may be absent next time.
  std::set<std::pair<std::filesystem::path, BestKey>> raced;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].state == Refreshed::same || rows[i].state == Refreshed::recompiled)
      raced.emplace((*records)[i].database, rows[i].key);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RefreshRow& row = rows[i];
    if (row.state != Refreshed::race) continue;
    if (!raced.contains({(*records)[i].database, row.key})) continue;
    row.state = Refreshed::replaced;
    if (write && (*records)[i].database == store.path())
      if (Status gone = store.winners().retire((*records)[i]); !gone)
        return tl::unexpected(gone.error());
  }
  return rows;
}

}  // namespace kiln
