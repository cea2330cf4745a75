// Seals: hashes over the fields of a row that belong together, so that a row of which one field was
// edited is not used. They find damage and mistakes, not forgery: who may write a trusted file may
// also seal. Throws what SQLite throws.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

namespace kiln {

/// Of a winner: its key, config, whether it was verified, launch and code.
struct MeasurementTexts {
  std::string device_key, problem_key, policy, determinism, config, launch, binary_key;
  bool verified = false;
};
std::string measurement_seal(const MeasurementTexts& texts);

/// Of a binary row: its keys, compiler, and the hashes of its source and image.
struct BinaryTexts {
  std::string key, code_key, compiler, source_hash, image_hash;
};
std::string binary_seal(const BinaryTexts& texts);

/// Texts of a binary row of `db`, the source's hash included.
BinaryTexts binary_texts(SQLite::Database& db, std::int64_t id);
/// Texts of a row of `measurement`.
MeasurementTexts measurement_texts(SQLite::Database& db, std::int64_t id);

/// Whether the row's seal is that of its fields. A winner that names no code needs none: its config
/// is compiled and verified anew.
bool measurement_sealed(SQLite::Database& db, std::int64_t id);
bool binary_sealed(SQLite::Database& db, std::int64_t id);

void seal_measurement(SQLite::Database& db, std::int64_t id);
void seal_binary(SQLite::Database& db, std::int64_t id);

/// Seals winners and code as they stand: the last step of the migration from a file without seals.
void seal_rows(SQLite::Database& db);

}  // namespace kiln
