// The databases that ship with the project: whole, trusted, and every winner in them still what
// today's templates render, so that a user's gemm() finds it.
#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "cache/exchange/refresh.h"
#include "cache/keys.h"
#include "cache/layers/schema.h"
#include "cache/record.h"
#include "cache/records/class_kernels.h"
#include "cache/records/maintenance.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "cache/store.h"
#include "engine/stored_kernels.h"
#include "generator/problem/spelling.h"
#include "generator/render/render.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "tuner/search/class_list.h"

namespace kiln::shipped_db_test {
struct Shipped {
  const char* file;
  std::size_t winners;  // at least
};
constexpr Shipped kShipped[] = {
    {"db/h200.kiln", 779}, {"db/h100.kiln", 621}, {"db/x86-64.kiln", 4037}};
constexpr std::uintmax_t kMostBytes = 25'000'000;

/// A copy that this user owns alone: a checkout may be writable for a group, and then its machine
/// code would not be trusted.
std::filesystem::path copied(const TempDir& dir, const char* name) {
  const auto file = dir / "shipped.kiln";
  std::filesystem::copy_file(std::filesystem::path(test::source_dir()) / name, file);
  std::filesystem::permissions(file, std::filesystem::perms{0600});
  return file;
}

TEST(ShippedDatabase, EveryWinnerIsFoundWithItsCode) {
  for (const auto& [name, winners] : kShipped) {
    const TempDir dir;
    const auto file = copied(dir, name);
    EXPECT_LT(std::filesystem::file_size(file), kMostBytes);
    auto store = Store::open({.database = {}, .shipped = {file}});
    ASSERT_TRUE(store) << store.error().message;
    const auto records = (*store)->winners().list();
    ASSERT_TRUE(records) << records.error().message;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1)
        << name << ": has a write-ahead log, which root would leave beside an installed file: "
        << "PRAGMA journal_mode = DELETE";
    EXPECT_GE(records->size(), winners);
    for (const Record& record : *records) {
      // As a program without a compiler asks.
      const Validators now{.template_hash = template_hash(record.key.device.vendor),
                           .runtime = record.validators.runtime};
      const auto found = (*store)->winners().best(record.key, now);
      EXPECT_TRUE(found) << text(record.key.gemm) << ": " << text(record.measured.config);
      if (!found) continue;
      if (family_name(found->measured.config) == "cublaslt") continue;  // the vendor's own code
      EXPECT_FALSE(found->image.empty()) << text(record.key.gemm);
      EXPECT_TRUE(found->measured.verified) << text(record.key.gemm);
      EXPECT_FALSE(found->launch.empty())
          << text(record.key.gemm) << ": would be verified again before its first run";
    }
  }
}

// Of bytes of the content to bytes in the file. Without dictionaries these are 3.4 and 4.2, 2.6.
TEST(ShippedDatabase, CodeTakesAFractionOfItsSize) {
  struct Smaller {
    const char* file;
    double source, code;
  };
  for (const auto& [file, source, code] :
       {Smaller{"db/h200.kiln", 20, 6}, Smaller{"db/h100.kiln", 20, 6},
        Smaller{"db/x86-64.kiln", 0, 6}}) {
    SQLite::Database db(test::source_dir() + "/" + file, SQLite::OPEN_READONLY);
    const auto ratio = [&](const std::string& rows) {
      return db.execAndGet("SELECT 1.0 * sum(bytes) / sum(length(data)) FROM " + rows).getDouble();
    };
    if (source > 0) {
      EXPECT_GT(ratio("source"), source) << file;
    }
    EXPECT_GT(ratio("binary JOIN binary_data USING (id)"), code) << file;
    EXPECT_EQ(db.execAndGet("PRAGMA freelist_count").getInt(), 0) << file << ": VACUUM";
    EXPECT_TRUE(reads_as_today(db.execAndGet("PRAGMA user_version").getInt())) << file;
  }
}

TEST(ShippedDatabase, IsWhole) {
  for (const auto& [name, winners] : kShipped) {
    const TempDir dir;
    auto store = Store::open({.database = {}, .shipped = {copied(dir, name)}});
    ASSERT_TRUE(store) << store.error().message;
    const auto report = (*store)->maintenance().check(false);
    ASSERT_TRUE(report);
    for (const auto& problem : report->problems) ADD_FAILURE() << problem;
    EXPECT_GT(report->rows, 0);
  }
}

TEST(ShippedDatabase, NothingIsLeftToBeRaced) {
  for (const auto& [name, winners] : kShipped) {
    const TempDir dir;
    auto store = Store::open({.database = {}, .shipped = {copied(dir, name)}});
    ASSERT_TRUE(store) << store.error().message;
    const auto rows = refresh(**store, false);
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_GE(rows->size(), winners);  // with the kernels of ranges
    for (const RefreshRow& row : *rows)
      EXPECT_TRUE(row.state == Refreshed::same || row.state == Refreshed::recompiled)
          << text(row.key.gemm) << ": " << kiln::name(row.state) << ": " << row.reason;
  }
}

// Sizes that nobody tuned for, with no compiler and no worker: what Engine::Impl::stored_plan asks.
TEST(ShippedDatabase, HasAProvedKernelForEverySize) {
  const TempDir dir;
  auto store = Store::open({.database = {}, .shipped = {copied(dir, "db/h200.kiln")}});
  ASSERT_TRUE(store) << store.error().message;
  BestKey key = store.value()->winners().list().value().front().key;
  StoredKernels kernels;
  for (const char* shape : {"bf16 N T 1 6144 4096", "bf16 N T 77 6144 4096", "bf16 N T 8191 128 72",
                            "bf16 N N 300 520 136", "fp16 N T 100 2056 3000",
                            "fp8 N T 33 4096 1024", "int8 N T 17 4096 4096", "tf32 N T 77 1028 44",
                            "fp32 N N 100 36 28", "fp64 N N 35 66 18", "bf16 N T 777 333 555"}) {
    key.gemm = parse_gemm(shape).value();
    int serving = 0;
    for (int alignment = kUsualAlignment; alignment >= 1; alignment /= 2) {
      key.gemm.alignment = alignment;
      for (const auto& [ns, kernel] : kernels.of(key, **store, {}).ranked(key)) {
        EXPECT_GT(ns, 0);
        serving += serves(*kernel, key.gemm, key.device, **store) &&
                   (*store)->proofs().envelope_proven(*kernel->record);
      }
    }
    EXPECT_GT(serving, 0) << shape;
  }
}

// Whoever runs a product of the suite as it is written there, or in other numerics, runs a kernel
// that was tuned for it: a kernel of one class of numerics serves no other.
TEST(ShippedDatabase, HasAWinnerForEveryProductOfTheSuiteInAllNumerics) {
  const TempDir dir;
  auto store = Store::open({.database = {}, .shipped = {copied(dir, "db/h200.kiln")}});
  ASSERT_TRUE(store) << store.error().message;
  BestKey key = store.value()->winners().list().value().front().key;
  std::ifstream suite(std::filesystem::path(test::source_dir()) / "bench/shapes/gpu.txt");
  int products = 0;
  for (std::string line; std::getline(suite, line);) {
    if (line.empty() || line.front() == '#') continue;
    Gemm gemm = parse_gemm(line).value();
    for (const Numerics numerics : {Numerics::ieee, Numerics::fast, Numerics::tensor}) {
      gemm.numerics = numerics;
      if (!validate(gemm) || numerics_on(gemm, key.device) != numerics) continue;
      // As Engine::Impl::exact_record() asks.
      const Gemm spelt = with_defaults_of(gemm, key.device);
      const auto has_winner = [&](const Gemm& as) {
        key.gemm = normalised(as);
        return store.value()->winners().best(key, {}).has_value();
      };
      EXPECT_TRUE(has_winner(spelt) || has_winner(with_alignment_of_pitches(spelt))) << text(gemm);
      ++products;
    }
  }
  EXPECT_GE(products, 163);
}

// The same on a CPU: every kind of problem has a kernel of the plainest class, or of none better.
TEST(ShippedDatabase, HasAProvedKernelForEveryKindOfProblemOfAnyCpu) {
  const TempDir dir;
  auto store = Store::open({.database = {}, .shipped = {copied(dir, "db/x86-64.kiln")}});
  ASSERT_TRUE(store) << store.error().message;
  StoredKernels kernels;
  for (const char* name : {"portable", "avx2", "avx512", "avx512_vnni", "avx512_bf16"}) {
    const DeviceCaps of_class = device_class(name).value();
    int kinds = 0;
    for (Gemm gemm : kinds_of_problems()) {
      if (!has_own_instruction(gemm, of_class)) continue;
      ++kinds;
      gemm.m = 77;
      gemm.n = 333;
      gemm.k = 101;
      const BestKey key = class_key(of_class, gemm);
      const auto ranked = kernels.of(key, **store, {}).ranked(key);
      EXPECT_TRUE(std::ranges::any_of(ranked,
                                      [&](const RankedKernel& one) {
                                        return serves(*one.kernel, key.gemm, key.device, **store) &&
                                               (*store)->proofs().envelope_proven(
                                                   *one.kernel->record);
                                      }))
          << name << ": " << text(gemm);
    }
    EXPECT_GT(kinds, 0) << name;
  }
}

}  // namespace kiln::shipped_db_test
