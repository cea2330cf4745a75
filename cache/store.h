// The database: opens its files and hands out its rooms, each of which keeps one kind of rows
// (cache/records) or moves rows between files (cache/exchange). Knows no row and no command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

class Binaries;
class Devices;
class Fits;
class Maintenance;
class Measurements;
class Proofs;
class Ranges;
class Transfer;
class Winners;

/// Stands for a private database in memory where a file's name is wanted.
inline constexpr const char* kInMemory = ":memory:";

struct StoreOptions {
  /// The user's own file; created when absent. Empty or kInMemory: a private one in memory.
  std::filesystem::path database;
  std::vector<std::filesystem::path> shipped;  // read only, first wins
  /// Nobody named the file: one that is damaged or another program's is moved aside
  /// (cache/layers/move_aside.h) with a warning, and a new one is made.
  bool by_default = false;
};

/// The options for a file that a caller named, or, where `named` is empty, for $KILN_DB or the
/// default one, and for the shipped ones likewise.
StoreOptions store_options(const std::filesystem::path& named,
                           const std::vector<std::filesystem::path>& shipped = {});

/// Who wrote a row: kept with the evidence.
struct SessionInfo {
  std::string command;  // what ran: "kiln tune", a program's name
  std::uint64_t seed = 0;
  double budget_seconds = 0;
};

/// Thread-safe; several processes may hold the same file. Lookups never fail: an unreadable row is
/// quarantined, logged and counts as a miss. Writers get a Status and may go on without. The rooms
/// live as long as the Store.
class Store {
 public:
  /// Errors: database (unreadable, not kiln's, newer schema, …), naming the file.
  static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  Winners& winners();            // cache/records/winners.h
  Measurements& measurements();  // cache/records/measurements.h
  Binaries& binaries();          // cache/records/binaries.h
  Proofs& proofs();              // cache/records/proofs.h
  Ranges& ranges();              // cache/records/ranges.h
  Fits& fits();                  // cache/records/fits.h
  Devices& devices();            // cache/records/devices.h
  Maintenance& maintenance();    // cache/records/maintenance.h
  Transfer& transfer();          // cache/exchange/transfer.h

  /// The user's own file; ":memory:" when there is none.
  std::filesystem::path path() const;
  /// Whether what is written to the user's own file will be there for later processes, or the
  /// caller asked for kInMemory and keeps it as long as was asked. Errors: database (there is no
  /// file, or the one that was opened has been deleted or replaced).
  Status lasting();
  /// Names the run that later rows belong to.
  Status begin_session(const SessionInfo& session);

 private:
  struct Rooms;
  explicit Store(std::unique_ptr<Rooms> rooms);
  std::unique_ptr<Rooms> rooms_;
};

/// "$KILN_DB", else "$XDG_CACHE_HOME/kiln/kiln.db", else "~/.cache/kiln/kiln.db", the home folder
/// being $HOME or, where that is not an absolute path, the password database's. A relative
/// $XDG_CACHE_HOME is ignored. Without any home folder: empty (a private one in memory), with a
/// warning.
std::filesystem::path default_database();
/// The non-empty parts of a colon-separated list.
std::vector<std::filesystem::path> split_paths(std::string_view list);
/// "$KILN_DB_PATH", split; where it is not set, the databases in share/kiln of the installation.
std::vector<std::filesystem::path> default_shipped();

}  // namespace kiln
