// A database whose rows and bytes somebody else wrote: each line of an input changes one column of
// a table ("table column type value") or one byte of the file ("byte offset value"). Opening gives
// an error or a store; a store answers, repairs itself, and hands out no code but what was put in.
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "cache/exchange/transfer.h"
#include "cache/records/binaries.h"
#include "cache/records/devices.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace {

using namespace kiln;
namespace fs = std::filesystem;

struct Change {
  std::string table, column, type, value;
};

struct Sound {
  TempDir dir;
  BestKey key = test::key_of(64, 96, 128);
  std::string bytes;  // of a good file
  std::set<std::string> tables;

  Sound() {
    ::setenv("KILN_LOG", "off", 0);
    const fs::path file = dir / "sound.db";
    {
      const auto store = test::open_store(file);
      test::store_winner(*store, key, 6);
      (void)store->devices().put_limits(
          {.device = key.device, .fp32_flops = 2e11, .dram_read = 2e10});
    }
    {
      SQLite::Database db(file.string(), SQLite::OPEN_READWRITE);
      SQLite::Statement row(db, "SELECT name FROM sqlite_schema WHERE type = 'table'");
      while (row.executeStep()) tables.insert(row.getColumn(0).getString());
      db.exec("PRAGMA journal_mode = DELETE");
    }
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
};

void apply(const Change& change, SQLite::Database& db) {
  SQLite::Statement row(db, fmt::format("UPDATE {} SET {} = ?", change.table, change.column));
  if (change.type == "integer")
    row.bind(1, static_cast<std::int64_t>(std::strtoll(change.value.c_str(), nullptr, 0)));
  else if (change.type == "real")
    row.bind(1, std::strtod(change.value.c_str(), nullptr));
  else if (change.type == "blob")
    row.bind(1, change.value.data(), static_cast<int>(change.value.size()));
  else if (change.type != "null")
    row.bind(1, change.value);
  row.exec();
}

/// Writes the file. What SQLite itself refuses (another type, no such column) stays as it was.
void write_hostile(const Sound& sound, const std::string& input, const fs::path& file) {
  std::string bytes = sound.bytes;
  std::vector<Change> changes;
  std::istringstream lines(input);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Change change;
    words >> change.table >> change.column >> change.type >> std::ws;
    std::getline(words, change.value);
    if (change.table == "byte") {
      const auto at = std::strtoull(change.column.c_str(), nullptr, 0) % bytes.size();
      bytes[at] = static_cast<char>(std::strtol(change.type.c_str(), nullptr, 0));
    } else if (sound.tables.contains(change.table)) {
      changes.push_back(std::move(change));
    }
  }
  std::ofstream(file, std::ios::binary) << bytes;
  for (const Change& change : changes) try {
      SQLite::Database db(file.string(), SQLite::OPEN_READWRITE);
      db.exec("PRAGMA ignore_check_constraints = ON");
      apply(change, db);
    } catch (const SQLite::Exception&) {
      continue;
    }
}

void demand(bool held) {
  if (!held) std::abort();
}

void use(Store& store, const BestKey& key) {
  const auto code = test::code_of(6).image;
  if (const auto record = store.winners().best(key, test::kNow)) {
    demand(record->measured.ok());
    demand(record->image.empty() || record->image == code);
  }
  if (const auto binary = store.binaries().of_source("source6", "")) demand(binary->image == code);
  for (const Record& record : store.winners().tuned_like(key, test::kNow))
    demand(record.measured.ok());
  (void)store.measurements().known(key, test::kNow);
  (void)store.proofs().proven("binary6", key, test::config_of(6), "r2");
  if (const auto limits = store.devices().limits(key.device))
    demand(limits->fp32_flops > 0 && limits->dram_read >= 0);
  (void)store.winners().list();
  (void)store.maintenance().stats();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Sound sound;
  const fs::path file = sound.dir / "hostile.db";
  for (const char* beside : {"", "-wal", "-shm", "-journal"}) fs::remove(file.string() + beside);
  write_hostile(sound, {reinterpret_cast<const char*>(data), size}, file);
  auto store = Store::open({.database = file});
  if (!store) {
    demand(store.error().message.find("hostile.db") != std::string::npos);
    return 0;
  }
  use(**store, sound.key);
  const auto report = (*store)->maintenance().check(true);
  if (report) use(**store, sound.key);
  (void)(*store)->measurements().put(sound.key, test::kNow, test::timed(8, 500));
  (void)(*store)->transfer().export_to(sound.dir / "copy.db");
  fs::remove(sound.dir / "copy.db");
  return 0;
}
