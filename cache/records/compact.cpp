#include "cache/records/compact.h"

#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cache/all_cores.h"
#include "cache/codec/codec.h"
#include "cache/layers/layers.h"
#include "cache/records/maintenance.h"
#include "cache/records/unpacked.h"
#include "cache/rows/rows.h"

namespace kiln {
namespace {

struct Frame {
  std::int64_t id = 0;
  std::vector<std::byte> stored;
  std::int64_t bytes = 0;            // of what it holds
  std::vector<std::byte> made = {};  // anew; empty: it stays as it is
};

struct FramesOf {
  const char* table;
  const char* query;  // id, frame and what it holds in bytes, of the rows behind ?1
  bool source;
};
constexpr FramesOf kSources{"source", "SELECT id, data, bytes FROM source WHERE id > ? ORDER BY id",
                            true};
constexpr FramesOf kCode{
    "binary_data",
    "SELECT id, data, bytes FROM binary JOIN binary_data USING (id) WHERE id > ? ORDER BY id",
    false};

/// The frames behind row `last`, until what they hold takes some memory.
std::vector<Frame> next_frames(SQLite::Database& db, const FramesOf& of, std::int64_t last) {
  constexpr std::int64_t kEnough = 32 << 20;
  SQLite::Statement row(db, of.query);
  row.bind(1, last);
  std::vector<Frame> frames;
  for (std::int64_t held = 0; held < kEnough && row.executeStep();) {
    const auto stored = blob(row.getColumn(1));
    frames.push_back({.id = row.getColumn(0).getInt64(),
                      .stored = {stored.begin(), stored.end()},
                      .bytes = row.getColumn(2).getInt64()});
    held += std::clamp<std::int64_t>(frames.back().bytes, 0, kMaxBlobBytes);
  }
  return frames;
}

void compress_anew(Frame& frame, bool source) {
  const auto bytes = decompress(frame.stored, frame.bytes, source ? kMaxTextBytes : kMaxBlobBytes);
  if (!bytes) return;
  auto made = compress(*bytes, source ? Content::source : content_of(*bytes), Level::small);
  if (made.size() < frame.stored.size()) frame.made = std::move(made);
}

void compress_table(SQLite::Database& db, const FramesOf& of, CompactReport& report) {
  SQLite::Statement update(db, fmt::format("UPDATE {} SET data = ? WHERE id = ?", of.table));
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (auto frames = next_frames(db, of, last); !frames.empty();
       frames = next_frames(db, of, last)) {
    on_all_cores(frames.size(), [&](std::size_t i) { compress_anew(frames[i], of.source); });
    for (const Frame& frame : frames) {
      ++report.frames;
      if (frame.made.empty()) continue;
      ++report.made_smaller;
      update.bindNoCopy(1, frame.made.data(), static_cast<int>(frame.made.size()));
      update.bind(2, frame.id);
      update.exec();
      update.reset();
    }
    last = frames.back().id;
  }
}

}  // namespace

std::int64_t used_bytes(SQLite::Database& db) {
  return db
      .execAndGet(
          "SELECT sum((held + page - 1) / page * page) FROM (SELECT "
          "sum(pgsize - unused) AS held, max(pgsize) AS page FROM dbstat GROUP BY name)")
      .getInt64();
}

std::int64_t file_bytes(const Layer& layer) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(layer.path, none);
  return none ? used_bytes(*layer.db) : static_cast<std::int64_t>(bytes);
}

CompactReport compress_again(SQLite::Database& db) {
  CompactReport report;
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  for (const FramesOf* of : {&kSources, &kCode}) compress_table(db, *of, report);
  transaction.commit();
  return report;
}

Result<CompactReport> Maintenance::compact() {
  const QuietLock lock(layers_.mutex());
  if (Status ok = layers_.writable(); !ok) return tl::unexpected(ok.error());
  Layer& own = layers_.own();
  auto report = guarded(own.path, [&]() -> Result<CompactReport> {
    SQLite::Database& db = *own.db;
    if (Status few = unpackable(db, own.path); !few) return tl::unexpected(few.error());
    // What lies in the log counts too.
    db.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
    const std::int64_t before = file_bytes(own);
    CompactReport compacted = compress_again(db);
    db.exec("VACUUM");
    db.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
    compacted.bytes_before = before;
    compacted.bytes_after = file_bytes(own);
    return compacted;
  });
  if (Status kept = unmoved(own); !kept) return tl::unexpected(kept.error());
  return report;
}

}  // namespace kiln
