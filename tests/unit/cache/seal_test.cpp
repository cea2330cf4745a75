// A row of which one field was edited is never run: winners and code under seals, and a winner's
// launch under comparison with today's.
#include "cache/rows/seal.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cache/codec/codec.h"
#include "cache/keys.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "cache/rows/rows.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/launch_text.h"
#include "runtime/compiler.h"
#include "support/hip.h"
#include "support/opened_engine.h"
#include "support/paths.h"
#include "support/stored.h"

namespace kiln::seal_test {

using test::code_of;
using test::key_of;
using test::kNow;
using test::open_store;
using test::Opened;
using test::store_winner;
using test::tamper;
using test::why;
using testing::HasSubstr;

TEST(Seal, AnEditedWinnerOrCodeIsNotUsedAndCheckNamesIt) {
  const std::string edits[] = {
      // Two shapes' code exchanged by their keys.
      "UPDATE binary SET key = 'aside' WHERE key = 'binary6'; "
      "UPDATE binary SET key = 'binary6' WHERE key = 'binary8'; "
      "UPDATE binary SET key = 'binary8' WHERE key = 'aside'",
      "UPDATE measurement SET binary_key = 'binary8' WHERE binary_key = 'binary6' AND winner = 1",
      "UPDATE measurement SET launch = 'abi=2;' WHERE binary_key = 'binary6' AND winner = 1",
      "UPDATE measurement SET seal = '' WHERE binary_key = 'binary6' AND winner = 1",
      "UPDATE measurement SET config_id = (SELECT id FROM config WHERE text LIKE '%mr=9%') "
      "WHERE binary_key = 'binary6' AND winner = 1",
      "UPDATE binary SET source_id = (SELECT source_id FROM binary WHERE key = 'binary8') "
      "WHERE key = 'binary6'",
      "UPDATE binary SET code_key = 'source8' WHERE key = 'binary6'",
      "UPDATE binary SET compiler = 'clang 23' WHERE key = 'binary6'",
      "UPDATE binary SET seal = '' WHERE key = 'binary6'",
      // Another image, its hash made to fit.
      "UPDATE binary_data SET data = (SELECT data FROM binary_data WHERE id = "
      "(SELECT id FROM binary WHERE key = 'binary8')) WHERE id = "
      "(SELECT id FROM binary WHERE key = 'binary6'); "
      "UPDATE binary SET hash = (SELECT hash FROM binary WHERE key = 'binary8') "
      "WHERE key = 'binary6'",
      "UPDATE toolchain SET runtime = 'r9'",
      // The other shape's record under this one's name.
      "UPDATE problem SET key = key || ';aside' WHERE m = 64; "
      "UPDATE problem SET key = replace(key, 'm=32;n=32;k=32', 'm=64;n=96;k=128') WHERE m = 32",
  };
  for (const std::string& sql : edits) {
    TempDir dir;
    const BestKey key = key_of(64, 96, 128);
    {
      auto store = open_store(dir / "kiln.db");
      store_winner(*store, key, 6);
      store_winner(*store, key_of(32, 32, 32), 8);
      ASSERT_EQ(store->winners().best(key, kNow)->image, code_of(6).image);
      ASSERT_TRUE(store->maintenance().check(false)->ok());
    }
    tamper(dir / "kiln.db", sql);
    auto store = open_store(dir / "kiln.db");
    EXPECT_FALSE(store->maintenance().check(false)->ok()) << sql;
    const auto record = store->winners().best(key, kNow);
    EXPECT_TRUE(!record || record->image.empty()) << sql;
    const auto code = store->binaries().of_source("source6", "");
    EXPECT_TRUE(!code || code->image == code_of(6).image) << sql;
  }
}

TEST(Seal, ExchangedCodeMultipliesNothing) {
  Opened kiln;
  // Small problems: their sizes are constants of the code.
  const Gemm one = Gemm::row_major(8, 8, 8), other = Gemm::row_major(16, 12, 20);
  ASSERT_TRUE(kiln->tune(one));
  ASSERT_TRUE(kiln->tune(other));
  kiln.engine.reset();
  const auto file = kiln.dir / "kiln.db";
  tamper(file,
         "CREATE TEMP TABLE w AS SELECT binary_key AS k FROM measurement WHERE winner = 1; "
         "UPDATE binary SET key = 'aside' WHERE key = (SELECT min(k) FROM w); "
         "UPDATE binary SET key = (SELECT min(k) FROM w) WHERE key = (SELECT max(k) FROM w); "
         "UPDATE binary SET key = (SELECT max(k) FROM w) WHERE key = 'aside'");
  kiln.open();
  EXPECT_FALSE(kiln->impl().store->maintenance().check(false)->ok());
  for (const Gemm& gemm : {one, other}) {
    const Verdict verdict = test::check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << why(verdict);
  }
}

/// Turns a file of today into one of version 7, before problems had these columns.
void to_version7(const std::filesystem::path& file) {
  SQLite::Database db(file.string(), SQLite::OPEN_READWRITE);
  for (const auto& [table, column] : {std::pair{"problem", "key"},
                                      {"problem", "class"},
                                      {"fit", "class"},
                                      {"range", "rest"},
                                      {"verification", "problem_key"}})
    db.exec(fmt::format("UPDATE {0} SET {1} = replace({1}, 'bias_as_d=0;', '')", table, column));
  test::drop_columns_since(db, 7);
  db.exec("DROP TABLE limits; PRAGMA user_version = 7");
  seal_rows(db);
}

TEST(Migration, KeysOfEveryTableGetTheNewFieldAndWholeWinnersNewSeals) {
  TempDir dir;
  const BestKey one = key_of(64, 96, 128), other = key_of(65, 96, 128);
  {
    auto store = open_store(dir / "kiln.db");
    store_winner(*store, one, 6);
    store_winner(*store, other, 8);
    const auto winner = store->winners().best(one, kNow);
    ASSERT_TRUE(winner);
    ASSERT_TRUE(store->proofs().proved("binary6", one, winner->measured.config, kNow.runtime));
  }
  to_version7(dir / "kiln.db");
  tamper(dir / "kiln.db", "UPDATE measurement SET launch = 'abi=2;' WHERE binary_key = 'binary8'");
  auto store = open_store(dir / "kiln.db");
  const auto winner = store->winners().best(one, kNow);
  ASSERT_TRUE(winner);
  EXPECT_TRUE(store->proofs().proven("binary6", one, winner->measured.config, kNow.runtime));
  EXPECT_FALSE(store->winners().best(other, kNow)) << "edited before";
}

/// Turns a file of version 7 into one of version 3, in which code was known by the hash of its
/// whole text.
void to_version3(const std::filesystem::path& file) {
  tamper(file,
         "ALTER TABLE measurement DROP COLUMN launch; ALTER TABLE measurement DROP COLUMN seal; "
         "ALTER TABLE binary DROP COLUMN seal; "
         "ALTER TABLE binary RENAME COLUMN code_key TO source_key; "
         "UPDATE measurement SET binary_key = 'old ' || binary_key WHERE binary_key <> ''; "
         "UPDATE binary SET key = 'old ' || key, source_key = 'old'; "
         "DROP TABLE search; DROP TABLE peak; DROP TABLE fit; DROP TABLE range; "
         "CREATE TEMP TABLE kept AS SELECT * FROM toolchain; DROP TABLE toolchain; "
         // The words of its step: a file's tables are compared with them.
         "CREATE TABLE toolchain (\n  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,\n"
         "  template_hash TEXT NOT NULL, space_version INTEGER NOT NULL,\n"
         "  compiler TEXT NOT NULL, runtime TEXT NOT NULL) STRICT; "
         "INSERT INTO toolchain SELECT id, key, template_hash, 1, compiler, runtime FROM kept; "
         "UPDATE toolchain SET key = replace(key, ';compiler=', ';space_version=1;compiler='); "
         "PRAGMA user_version = 3");
}

TEST(Migration, AnOlderFileIsSealedAsItStands) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  store_winner(*open_store(dir / "kiln.db"), key, 6);
  to_version7(dir / "kiln.db");
  to_version3(dir / "kiln.db");
  auto store = open_store(dir / "kiln.db");
  // Kernels of CPUs were called otherwise then: the row is there, and is not used.
  EXPECT_FALSE(store->winners().best(key, kNow));
  const auto records = store->winners().list();
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(records->front().launch, "abi=1;revision=1;");
  EXPECT_EQ(records->front().validators, kNow);
  EXPECT_TRUE(store->maintenance().check(false)->ok());
}

TEST(Migration, ProofsNameTheCodeThatTheyWereMadeFor) {
  TempDir dir;
  BestKey key = key_of(64, 96, 128);
  key.device = caps_named("sm_90a").value();
  key.gemm = parse_gemm("bf16 N T 64 96 128 align=16").value();
  const Config config = fallback_config(key.problem(), key.device);
  const std::string launch = content_hash(launch_text(key.problem(), key.device, config));
  {
    auto store = open_store(dir / "kiln.db");
    Measured row = test::timed(6, 1000);
    row.config = config;
    ASSERT_TRUE(store->measurements().put(key, kNow, row));
    ASSERT_TRUE(store->binaries().put(code_of(6)));
    ASSERT_TRUE(store->winners().make_winner(key, kNow, config));
  }
  to_version7(dir / "kiln.db");
  tamper(dir / "kiln.db",
         fmt::format("DROP TABLE range; PRAGMA user_version = 6; INSERT INTO verification VALUES "
                     "('binary6', 'envelope=1;launch={0};{1}', 'r1', 't'), "
                     "('binary6', 'envelope=1;launch=of another;{1}', 'r1', 't'), "
                     "('no code', 'envelope=1;launch={0};{1}', 'r1', 't')",
                     launch, text(key.gemm)));
  auto store = open_store(dir / "kiln.db");
  auto record = store->winners().best(key, kNow);
  ASSERT_TRUE(record);
  EXPECT_TRUE(store->proofs().envelope_proven(*record));
  record->key.gemm.d.dtype = record->key.gemm.c.dtype = DType::fp32;
  EXPECT_FALSE(store->proofs().envelope_proven(*record)) << "another problem's code";
  SQLite::Database db((dir / "kiln.db").string());
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM verification").getInt(), 1);
}

TEST(Seal, AProofOnACpuIsOfItsThreads) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key, 6);
  auto record = store->winners().best(key, kNow);
  ASSERT_TRUE(record);
  ASSERT_TRUE(store->proofs().proved_envelope(*record));
  EXPECT_TRUE(store->proofs().envelope_proven(*record));
  ++record->key.device.compute_units;
  EXPECT_FALSE(store->proofs().envelope_proven(*record));
}

TEST(Seal, ARowWithoutItsSealServesNoOtherSizes) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  {
    auto store = open_store(dir / "kiln.db");
    store_winner(*store, key, 6);
    const Record record = store->winners().tuned_like(key, kNow).at(0);
    ASSERT_TRUE(store->proofs().proved_envelope(record));
    EXPECT_TRUE(store->proofs().envelope_proven(record));
  }
  tamper(dir / "kiln.db",
         "UPDATE measurement SET binary_key = 'binary7' WHERE winner = 1; "
         "UPDATE verification SET binary_key = 'binary7'");
  auto store = open_store(dir / "kiln.db");
  const auto records = store->winners().tuned_like(key, kNow);
  ASSERT_EQ(records.size(), 1u) << "its config may still be tried";
  EXPECT_FALSE(store->proofs().envelope_proven(records[0]));
}

TEST(Seal, CodeThatIsQuarantinedLosesItsProofs) {
  TempDir dir;
  const BestKey key = key_of(64, 96, 128);
  auto store = open_store(dir / "kiln.db");
  store_winner(*store, key, 6);
  const auto record = store->winners().best(key, kNow);
  ASSERT_TRUE(record);
  ASSERT_TRUE(store->proofs().proved_envelope(*record));
  EXPECT_TRUE(store->proofs().envelope_proven(*record));
  store->binaries().quarantine(record->measured.binary_key, "wrong");
  EXPECT_FALSE(store->proofs().envelope_proven(*record));
}

/// Two shapes whose texts differ in their heads alone, on each kind of device.
TEST(Migration, CodeIsKnownByItsTokensAndStoredOnce) {
  struct Case {
    DeviceCaps device;
    const char *one, *other;
  };
  const Case cases[] = {
      {cpu_caps_named("avx512").value(), "fp32 N N 640 640 640", "fp32 N N 1280 640 640"},
      {cuda_caps_named("sm_80").value(), "bf16 N T 2048 2048 2048", "bf16 N T 4096 2048 2048"},
      {hip_caps_named("gfx942").value(), "bf16 N T 2048 2048 2048", "bf16 N T 4096 2048 2048"}};
  for (const Case& c : cases) {
    const TempDir dir;
    const auto file = dir / "kiln.db";
    const Gemm shapes[] = {test::problem(c.one), test::problem(c.other)};
    const auto space = space_for(Problem::of(shapes[0]).value(), c.device);
    ASSERT_TRUE(space);
    // A config that renders alike for both.
    const auto alike = [&](const Config& config) {
      const auto x = render(Problem::of(shapes[0]).value(), c.device, config),
                 y = render(Problem::of(shapes[1]).value(), c.device, config);
      return x && y && without_head(x->text) == without_head(y->text);
    };
    const auto config = std::find_if(space->legal.begin(), space->legal.end(), alike);
    ASSERT_NE(config, space->legal.end()) << c.device.arch;
    std::string code;
    {
      auto store = open_store(file);
      for (int i = 0; i < 2; ++i) {
        const BestKey key{.device = c.device, .gemm = shapes[i], .policy = "cold-v1"};
        const Source source = render(Problem::of(shapes[i]).value(), c.device, *config).value();
        code = code_key(source);
        Measured winner = test::timed(6, 1000);
        winner.config = *config;
        winner.binary_key = fmt::format("text {}", i);
        ASSERT_TRUE(store->measurements().put(key, kNow, winner));
        ASSERT_TRUE(store->binaries().put({.key = winner.binary_key,
                                           .code_key = "unknown",
                                           .compiler = kNow.compiler,
                                           .source = "int i;",
                                           .image = code_of(6).image}));
        ASSERT_TRUE(store->winners().make_winner(key, kNow, *config));
      }
    }
    to_version7(file);
    to_version3(file);
    {  // Version 3 kept each text whole.
      SQLite::Database db(file.string(), SQLite::OPEN_READWRITE, 5000);
      for (int i = 0; i < 2; ++i) {
        SQLite::Statement link(db, "UPDATE binary SET source_id = ? WHERE key = ?");
        link.bind(1,
                  source_row(db, render(Problem::of(shapes[i]).value(), c.device, *config)->text));
        link.bind(2, fmt::format("old text {}", i));
        ASSERT_EQ(link.exec(), 1);
      }
    }
    auto store = open_store(file);
    EXPECT_EQ(store->maintenance().stats()->front().binaries, 1) << c.device.arch;
    EXPECT_TRUE(store->maintenance().check(false)->ok());
    for (const Gemm& gemm : shapes) {
      const auto record =
          store->winners().best({.device = c.device, .gemm = gemm, .policy = "cold-v1"}, kNow);
      // Kernels of CPUs were called otherwise then.
      ASSERT_EQ(record.has_value(), c.device.vendor != Vendor::cpu) << c.device.arch;
      if (!record) continue;
      EXPECT_EQ(record->image, code_of(6).image);
    }
    // What build() asks for on a shape that was never tuned.
    const auto found = store->binaries().of_source(code, "");
    ASSERT_TRUE(found) << c.device.arch;
    EXPECT_EQ(found->key, binary_key(code, kNow.compiler));
  }
}

/// A writable copy of the shipped database, without the runs that measured it.
std::filesystem::path shipped_copy(const TempDir& dir) {
  const auto file = dir / "h200.kiln";
  std::filesystem::copy_file(std::filesystem::path(test::source_dir()) / "db/h200.kiln", file);
  std::filesystem::permissions(file, std::filesystem::perms{0600});
  return file;
}

/// Writes a launch beside every winner as if it had been stored with it, sealed.
template <typename F>
void relaunch(const std::filesystem::path& file, const std::vector<Record>& records, F&& launch) {
  SQLite::Database db(file.string(), SQLite::OPEN_READWRITE, 5000);
  for (const Record& record : records) {
    SQLite::Statement find(db,
                           "SELECT measurement.id FROM measurement JOIN problem ON problem.id = "
                           "problem_id WHERE winner = 1 AND problem.key = ?");
    find.bind(1, key_text(record.key.gemm));
    std::vector<std::int64_t> ids;
    while (find.executeStep()) ids.push_back(find.getColumn(0).getInt64());
    for (const std::int64_t id : ids) {
      SQLite::Statement update(db, "UPDATE measurement SET launch = ? WHERE id = ?");
      update.bind(1, launch(record));
      update.bind(2, id);
      update.exec();
      seal_measurement(db, id);
    }
  }
}

TEST(LaunchText, AShippedWinnerRunsUnderItsOwnLaunchAlone) {
  TempDir dir;
  const auto file = shipped_copy(dir);
  const auto records = open_store(file)->winners().list();
  ASSERT_TRUE(records);
  const auto found = [&] {
    auto store = open_store(file);
    EXPECT_TRUE(store->maintenance().check(false)->ok());
    std::size_t count = 0;
    for (const Record& record : *records)
      count += store->winners()
                   .best(record.key, {.template_hash = template_hash(Vendor::nvidia),
                                      .runtime = record.validators.runtime})
                   .has_value();
    return count;
  };
  const auto today = [](const Record& r) {
    return launch_text(r.key.problem(), r.key.device, r.measured.config);
  };
  relaunch(file, *records, today);
  EXPECT_EQ(found(), records->size());
  // What an older generator may have launched: the templates, and so the code, are the same.
  const std::pair<std::string_view, std::string_view> changes[] = {{"grid=", "grid=1"},
                                                                   {"shared=", "shared=1"},
                                                                   {"workspace=", "workspace=256"},
                                                                   {"abi=", "abi=9"}};
  for (const auto& [from, to] : changes) {
    relaunch(file, *records, [&, from = from, to = to](const Record& r) {
      std::string launch = today(r);
      return launch.replace(launch.find(from), from.size(), to);
    });
    EXPECT_EQ(found(), 0u) << to;
  }
}

TEST(LaunchText, EveryFieldIsInTheText) {
  const GpuLaunch plain{.steps = {GpuStep{}}, .maps = {TensorMapSpec{}}};
  std::set<std::string> texts{launch_text(plain)};
  std::size_t changes = 1;
  const auto changed = [&](auto&& change) {
    GpuLaunch launch = plain;
    change(launch);
    texts.insert(launch_text(launch));
    ++changes;
  };
  changed([](GpuLaunch& l) { l.workspace_bytes = 1; });
  changed([](GpuLaunch& l) { l.zeroed_bytes = 1; });
  changed([](GpuLaunch& l) { l.product_at = 1; });
  changed([](GpuLaunch& l) { l.steps[0].entry = "other"; });
  changed([](GpuLaunch& l) { l.steps[0].grid.x = 2; });
  changed([](GpuLaunch& l) { l.steps[0].grid.y = 2; });
  changed([](GpuLaunch& l) { l.steps[0].block.z = 2; });
  changed([](GpuLaunch& l) { l.steps[0].cluster.x = 2; });
  changed([](GpuLaunch& l) { l.steps[0].dynamic_shared_bytes = 1; });
  changed([](GpuLaunch& l) { l.steps[0].overlaps_previous = true; });
  changed([](GpuLaunch& l) { l.steps[0].maps = {0}; });
  changed([](GpuLaunch& l) { l.steps.push_back({}); });
  changed([](GpuLaunch& l) { l.maps[0].operand = MapOperand::b; });
  changed([](GpuLaunch& l) { l.maps[0].offset = 1; });
  changed([](GpuLaunch& l) { l.maps[0].element = MapElement::u8; });
  changed([](GpuLaunch& l) { l.maps[0].rank = 3; });
  changed([](GpuLaunch& l) { l.maps[0].dims[1] = 1; });
  changed([](GpuLaunch& l) { l.maps[0].strides[1] = 1; });
  changed([](GpuLaunch& l) { l.maps[0].box[1] = 1; });
  changed([](GpuLaunch& l) { l.maps[0].swizzle = MapSwizzle::none; });
  changed([](GpuLaunch& l) { l.maps[0].promotion = MapPromotion::none; });
  EXPECT_EQ(texts.size(), changes);
}

}  // namespace kiln::seal_test
