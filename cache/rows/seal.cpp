#include "cache/rows/seal.h"

#include <SQLiteCpp/Statement.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "cache/codec/codec.h"

namespace kiln {
namespace {

/// Each part with its length, so that no two lists of parts give the same text.
std::string hash_of_parts(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) {
    all += std::to_string(part.size());
    all += ':';
    all += part;
  }
  return content_hash(all);
}

std::vector<std::int64_t> ids(SQLite::Database& db, const char* query) {
  SQLite::Statement row(db, query);
  std::vector<std::int64_t> all;
  while (row.executeStep()) all.push_back(row.getColumn(0).getInt64());
  return all;
}

std::string stored_seal(SQLite::Database& db, const char* query, std::int64_t id) {
  SQLite::Statement row(db, query);
  row.bind(1, id);
  return row.executeStep() ? row.getColumn(0).getString() : std::string();
}

void set_seal(SQLite::Database& db, const char* update, std::int64_t id, const std::string& seal) {
  SQLite::Statement row(db, update);
  row.bind(1, seal);
  row.bind(2, id);
  row.exec();
}

}  // namespace

std::string measurement_seal(const MeasurementTexts& t) {
  const auto& [device_key, problem_key, policy, determinism, config, launch, binary_key, verified] =
      t;
  return hash_of_parts({device_key, problem_key, policy, determinism, config, launch, binary_key,
                        verified ? "verified" : ""});
}

std::string binary_seal(const BinaryTexts& t) {
  const auto& [key, code_key, compiler, source_hash, image_hash] = t;
  return hash_of_parts({key, code_key, compiler, source_hash, image_hash});
}

BinaryTexts binary_texts(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db,
                        "SELECT key, code_key, compiler, coalesce(source.hash, ''), binary.hash "
                        "FROM binary LEFT JOIN source ON source.id = source_id "
                        "WHERE binary.id = ?");
  row.bind(1, id);
  if (!row.executeStep()) return {};
  return {.key = row.getColumn(0).getString(),
          .code_key = row.getColumn(1).getString(),
          .compiler = row.getColumn(2).getString(),
          .source_hash = row.getColumn(3).getString(),
          .image_hash = row.getColumn(4).getString()};
}

MeasurementTexts measurement_texts(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db,
                        "SELECT device.key, problem.key, policy, determinism, config.text, launch, "
                        "binary_key, verified FROM measurement "
                        "JOIN device ON device.id = device_id "
                        "JOIN problem ON problem.id = problem_id "
                        "JOIN config ON config.id = config_id WHERE measurement.id = ?");
  row.bind(1, id);
  if (!row.executeStep()) return {};
  return {.device_key = row.getColumn(0).getString(),
          .problem_key = row.getColumn(1).getString(),
          .policy = row.getColumn(2).getString(),
          .determinism = row.getColumn(3).getString(),
          .config = row.getColumn(4).getString(),
          .launch = row.getColumn(5).getString(),
          .binary_key = row.getColumn(6).getString(),
          .verified = row.getColumn(7).getInt() == 1};
}

bool measurement_sealed(SQLite::Database& db, std::int64_t id) {
  const MeasurementTexts texts = measurement_texts(db, id);
  return texts.binary_key.empty() || stored_seal(db, "SELECT seal FROM measurement WHERE id = ?",
                                                 id) == measurement_seal(texts);
}

bool binary_sealed(SQLite::Database& db, std::int64_t id) {
  return stored_seal(db, "SELECT seal FROM binary WHERE id = ?", id) ==
         binary_seal(binary_texts(db, id));
}

void seal_measurement(SQLite::Database& db, std::int64_t id) {
  set_seal(db, "UPDATE measurement SET seal = ? WHERE id = ?", id,
           measurement_seal(measurement_texts(db, id)));
}

void seal_binary(SQLite::Database& db, std::int64_t id) {
  set_seal(db, "UPDATE binary SET seal = ? WHERE id = ?", id, binary_seal(binary_texts(db, id)));
}

void seal_rows(SQLite::Database& db) {
  for (const std::int64_t id : ids(db, "SELECT id FROM binary")) seal_binary(db, id);
  for (const std::int64_t id : ids(db, "SELECT id FROM measurement WHERE winner = 1"))
    seal_measurement(db, id);
}

}  // namespace kiln
