#include "cache/store.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include "cache/exchange/transfer.h"
#include "cache/layers/layers.h"
#include "cache/records/binaries.h"
#include "cache/records/devices.h"
#include "cache/records/fits.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "kiln/engine.hpp"

namespace kiln {

struct Store::Rooms {
  explicit Rooms(std::unique_ptr<Layers> opened) : layers(std::move(opened)) {}

  std::unique_ptr<Layers> layers;
  Winners winners{*layers};
  Measurements measurements{*layers};
  Binaries binaries{*layers};
  Proofs proofs{*layers};
  Ranges ranges{*layers};
  Fits fits{*layers};
  Devices devices{*layers};
  Maintenance maintenance{*layers};
  Transfer transfer{*layers};
};

Store::Store(std::unique_ptr<Rooms> rooms) : rooms_(std::move(rooms)) {}
Store::~Store() {
  const QuietScope scope;  // closing takes SQLite's locks
  rooms_.reset();
}

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  const QuietScope scope;
  auto layers = Layers::open(options);
  if (!layers) return tl::unexpected(layers.error());
  return std::unique_ptr<Store>(new Store(std::make_unique<Rooms>(std::move(*layers))));
}

Winners& Store::winners() { return rooms_->winners; }
Measurements& Store::measurements() { return rooms_->measurements; }
Binaries& Store::binaries() { return rooms_->binaries; }
Proofs& Store::proofs() { return rooms_->proofs; }
Ranges& Store::ranges() { return rooms_->ranges; }
Fits& Store::fits() { return rooms_->fits; }
Devices& Store::devices() { return rooms_->devices; }
Maintenance& Store::maintenance() { return rooms_->maintenance; }
Transfer& Store::transfer() { return rooms_->transfer; }

std::filesystem::path Store::path() const { return rooms_->layers->own().path; }

Status Store::lasting() {
  const QuietLock lock(rooms_->layers->mutex());
  const Layer& own = rooms_->layers->own();
  if (rooms_->layers->memory_wanted()) return {};
  sqlite3* const db = own.db->getHandle();
  const char* file = sqlite3_db_filename(db, "main");
  if (file == nullptr || *file == '\0')
    return fail(ErrorCode::database, fmt::format("database {}: kept in memory, because no file "
                                                 "could be opened",
                                                 own.path.string()));
  return unmoved(own);
}

Status Store::begin_session(const SessionInfo& session) {
  return rooms_->layers->write([&](SQLite::Database& db) -> Status {
    SQLite::Statement row(db, R"sql(
      INSERT INTO session (started, command, kiln, pid, seed, budget_seconds)
      VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?, ?, ?, ?, ?))sql");
    row.bind(1, session.command);
    row.bind(2, std::string(version()));
    row.bind(3, static_cast<std::int64_t>(::getpid()));
    row.bind(4, static_cast<std::int64_t>(session.seed));
    row.bind(5, session.budget_seconds);
    row.exec();
    rooms_->layers->set_session(db.getLastInsertRowid());
    return {};
  });
}

}  // namespace kiln
