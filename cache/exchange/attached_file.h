// What every way of taking rows from one file into another has in common: the other file as the
// schema "other" of a connection, and the rows of which nobody has to say which one is better.
// Knows SQL; knows nothing of files to write. Throws what SQLite throws.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "cache/layers/layer.h"

namespace kiln {

/// `from` as the schema "other" of `db`, sound, with today's tables whatever version the file has,
/// detached whatever happens in between. It is a copy
/// of what that layer's connection reads: attaching by path would open whatever file lies there by
/// then, and could not open a write-ahead log on read-only media.
class Attached {
 public:
  Attached(SQLite::Database& db, Layer& from);
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached();

 private:
  SQLite::Database& db_;
};

/// Copies what `from`'s connection reads into the schema `name` of `to`, and looks whether it is
/// sound.
void copy_database(SQLite::Database& to, const char* name, Layer& from);

/// Adds devices, toolchains, problems and configs of `other` that are missing here. What refers to
/// them finds its ids by their natural keys.
void merge_values(SQLite::Database& db);
/// Adds code that is missing here. Returns how many binaries.
std::int64_t merge_code(SQLite::Database& db);
/// What was proved over its envelope is so wherever the same code lies. Other proofs speak of one
/// machine.
void merge_envelopes(SQLite::Database& db);
/// The larger of two peaks is the peak.
void merge_peaks(SQLite::Database& db);
/// Of two measurements of a machine's limits the newer stands.
void merge_limits(SQLite::Database& db);

/// The other file's rows of a table (`theirs`) with the key's columns, and this file's ids of that
/// key (`device.id`, …): a FROM clause.
std::string their_rows(std::string_view table);
inline constexpr const char* kTheirConfig =
    " JOIN other.config AS c ON c.id = theirs.config_id JOIN config ON config.text = c.text";
/// Rows here (`mine`) with the key of one of theirs.
inline constexpr const char* kSameKey = R"sql(
      mine.device_id = device.id AND mine.problem_id = problem.id AND
      mine.policy = theirs.policy AND mine.determinism = theirs.determinism AND
      mine.toolchain_id = toolchain.id)sql";

}  // namespace kiln
