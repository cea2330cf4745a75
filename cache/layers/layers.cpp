#include "cache/layers/layers.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "cache/layers/move_aside.h"

namespace kiln {
namespace {

/// The file that nobody named. What lies in its place must not keep every program from running.
Result<Layer> open_default(const std::filesystem::path& file) {
  std::optional<FileId> damaged;
  auto layer = open_own(file, &damaged);
  if (layer || !damaged) return layer;
  const auto aside = move_aside(file, *damaged, today());
  if (!aside) {
    log::warn("{}; {}; winners will not be stored", layer.error().message, aside.error().message);
    return open_in_memory();
  }
  if (!aside->empty())
    log::warn("database {}: damaged, or not kiln's: it was renamed to {}, and a new one is made",
              file.string(), aside->string());
  return open_own(file);
}

}  // namespace

Result<std::unique_ptr<Layers>> Layers::open(const StoreOptions& options) {
  auto opened = std::make_unique<Layers>();
  opened->memory_wanted_ = options.database == kInMemory;
  const bool in_memory = options.database.empty() || opened->memory_wanted_;
  auto own = in_memory            ? open_in_memory()
             : options.by_default ? open_default(options.database)
                                  : open_own(options.database);
  if (!own) return tl::unexpected(own.error());
  opened->layers_.push_back(std::move(*own));
  for (const auto& file : options.shipped) {
    auto layer = open_shipped(file);
    if (!layer) return tl::unexpected(layer.error());
    opened->layers_.push_back(std::move(*layer));
  }
  return opened;
}

Status Layers::writable() const {
  if (layers_.front().writable) return {};
  return fail(ErrorCode::database, fmt::format("database {}: read only, nothing was written to it",
                                               layers_.front().path.string()));
}

bool Layers::is_bad(const Layer& layer, std::string_view table, std::int64_t id) const {
  return bad_rows_.contains(fmt::format("{}:{}:{}", layer.path.string(), table, id));
}

void Layers::quarantine(Layer& layer, std::string_view table, std::int64_t id,
                        std::string_view reason) {
  log::warn("database {}: {} row {} quarantined: {}", layer.path.string(), table, id, reason);
  const bool marked =
      layer.writable && lookup(layer, [&] {
        SQLite::Statement mark(*layer.db,
                               fmt::format("UPDATE {} SET quarantined = ? WHERE id = ?", table));
        mark.bind(1, std::string(reason));
        mark.bind(2, id);
        return mark.exec() == 1;
      });
  if (!marked) bad_rows_.insert(fmt::format("{}:{}:{}", layer.path.string(), table, id));
}

}  // namespace kiln
