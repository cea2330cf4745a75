// What tests put into a store and expect back.
#pragma once

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/record.h"
#include "cache/records/binaries.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "cache/store.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/problem/fields.h"

namespace kiln::test {

inline BestKey key_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  BestKey key;
  key.device = cpu_caps_named("avx512").value();
  key.gemm = Gemm::row_major(m, n, k);
  key.policy = "cold-v1";
  return key;
}

inline const Validators kNow{.template_hash = "t1", .compiler = "clang 22", .runtime = "r1"};

inline Config config_of(int mr) {
  HostPacked config;
  config.mr = mr;
  return config;
}

inline Measured timed(int mr, double ns) {
  Measured measured;
  measured.config = config_of(mr);
  measured.predicted_ns = 900;
  measured.outcome = Timing{.median_ns = ns, .low_ns = ns - 1, .high_ns = ns + 2, .samples = 31};
  measured.round = Round::race;
  measured.verified = true;
  measured.binary_key = fmt::format("binary{}", mr);
  return measured;
}

inline Measured failed(int mr, Failure::Kind kind) {
  Measured measured;
  measured.config = config_of(mr);
  measured.outcome = Failure{kind, "why it failed"};
  return measured;
}

inline StoredBinary code_of(int mr) {
  StoredBinary binary{.key = fmt::format("binary{}", mr),
                      .code_key = fmt::format("source{}", mr),
                      .compiler = "clang 22",
                      .source = fmt::format("int generated_for_mr_{};", mr)};
  for (int i = 0; i < 5000; ++i) binary.image.push_back(static_cast<std::byte>(i * mr));
  return binary;
}

inline std::unique_ptr<Store> open_store(const std::filesystem::path& file,
                                         std::vector<std::filesystem::path> shipped = {}) {
  auto store = Store::open({.database = file, .shipped = std::move(shipped)});
  if (!store) throw std::runtime_error(store.error().message);
  return std::move(*store);
}

/// A winner with its code and one failed candidate.
inline void store_winner(Store& store, const BestKey& key, int mr, double ns = 1000) {
  ASSERT_TRUE(store.measurements().put(key, kNow, timed(mr, ns)));
  ASSERT_TRUE(store.measurements().put(key, kNow, failed(mr + 1, Failure::Kind::wrong_result)));
  ASSERT_TRUE(store.binaries().put(code_of(mr)));
  ASSERT_TRUE(store.winners().make_winner(key, kNow, config_of(mr)));
}

/// Something only a hostile or broken hand does to the file.
inline void tamper(const std::filesystem::path& file, const std::string& sql) {
  SQLite::Database db(file.string(), SQLite::OPEN_READWRITE, 5000);
  db.exec(sql);
}

/// Of tables that a version of the file had already, the columns that later ones brought.
inline void drop_columns_since(SQLite::Database& db, int version) {
  for (const GemmField& field : kGemmFields)
    if (field.since > version)
      db.exec(fmt::format("ALTER TABLE problem DROP COLUMN {}", field.name));
  if (version < 20)
    db.exec(
        "ALTER TABLE measurement DROP COLUMN joules; ALTER TABLE measurement DROP COLUMN sm_mhz");
}

}  // namespace kiln::test
