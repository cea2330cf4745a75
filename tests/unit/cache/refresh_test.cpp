// What a change of templates means for stored winners: told by tokens, then by machine code.
#include "cache/exchange/refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/records/binaries.h"
#include "cache/records/fit_class.h"
#include "cache/records/fits.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "cache/rows/seal.h"
#include "generator/render/code_key.h"
#include "support/host_compiler.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::refresh_test {

using test::open_store;
using testing::HasSubstr;

class RefreshTest : public ::testing::Test {
 protected:
  RefreshTest()
      : key_(test::key_of(64, 96, 128)),
        config_(space_for(key_.problem(), key_.device)->legal.front()),
        source_(render(key_.problem(), key_.device, config_).value()) {}

  /// A winner whose code has this key of its tokens and this image.
  void store(const std::string& code_key, const std::vector<std::byte>& image) {
    auto store = open_store(file_);
    Measured winner = test::timed(6, 1000);
    winner.config = config_;
    winner.binary_key = "stored";
    ASSERT_TRUE(store->measurements().put(key_, test::kNow, winner));
    ASSERT_TRUE(store->binaries().put({.key = "stored",
                                       .code_key = code_key,
                                       .compiler = test::kNow.compiler,
                                       .source = source_.text,
                                       .image = image}));
    ASSERT_TRUE(store->winners().make_winner(key_, test::kNow, config_));
  }

  RefreshRow refreshed(bool write) {
    const auto rows = refresh(*open_store(file_), write);
    EXPECT_TRUE(rows) << rows.error().message;
    EXPECT_EQ(rows->size(), 1u);
    return rows->front();
  }

  TempDir dir_;
  const std::filesystem::path file_ = dir_ / "kiln.db";
  BestKey key_;
  Config config_;
  Source source_;
};

TEST_F(RefreshTest, TheSameTokensNeedNothing) {
  store(code_key(source_), {std::byte{1}});
  EXPECT_EQ(name(refreshed(true).state), "same");
}

TEST_F(RefreshTest, ModelsFittedToOtherPredictionsAreFittedAgain) {
  store(code_key(source_), {std::byte{1}});
  const auto stored = open_store(file_);
  ASSERT_TRUE(fit_class(*stored, key_));
  EXPECT_EQ(fit_stale_classes(*stored, true).value(), 0);
  std::string old = stored->fits().of(key_)->text();
  const std::size_t prediction = old.find('\t') + 1;
  old.replace(prediction, old.find('\t', prediction) - prediction, "1.5");
  ASSERT_TRUE(stored->fits().put(key_, FittedModel::parse(old).value()));
  EXPECT_EQ(fit_stale_classes(*stored, false).value(), 1);
  EXPECT_EQ(fit_stale_classes(*stored, true).value(), 1);
  EXPECT_TRUE(stored->fits().of(key_)->is_current(key_.gemm, key_.device));
}

TEST_F(RefreshTest, AnotherLaunchMustBeRaced) {
  store(code_key(source_), {std::byte{1}});
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE, 5000);
    db.exec("UPDATE measurement SET launch = 'abi=1;revision=0;' WHERE winner = 1");
    seal_measurement(db, db.execAndGet("SELECT id FROM measurement WHERE winner = 1").getInt64());
  }
  const RefreshRow row = refreshed(true);
  EXPECT_EQ(name(row.state), "race again");
  EXPECT_THAT(row.reason, HasSubstr("revision"));
}

#ifdef KILN_HAS_LLVM  // compiles

TEST_F(RefreshTest, OtherTokensOfTheSameMachineCodeAreRenamed) {
  const auto image = host_compiler().value()->compile(source_).value().image;
  store("tokens of older templates", image);
  EXPECT_EQ(name(refreshed(false).state), "recompiled");
  EXPECT_EQ(name(refreshed(false).state), "recompiled") << "a check writes nothing";
  EXPECT_EQ(name(refreshed(true).state), "recompiled");
  EXPECT_EQ(name(refreshed(false).state), "same");
  auto store = open_store(file_);
  EXPECT_TRUE(store->maintenance().check(false)->ok());
  const Validators now{.template_hash = template_hash(Vendor::cpu), .runtime = "r1"};
  const auto record = store->winners().best(key_, now);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->image, image);
  EXPECT_EQ(record->validators.template_hash, now.template_hash);
  EXPECT_EQ(record->measured.timing().median_ns, 1000);
}

TEST_F(RefreshTest, OtherMachineCodeMustBeRaced) {
  store("tokens of older templates", {std::byte{1}});
  const RefreshRow row = refreshed(true);
  EXPECT_EQ(name(row.state), "race again");
  EXPECT_THAT(row.reason, HasSubstr("other machine code"));
  const Validators now{.template_hash = template_hash(Vendor::cpu), .runtime = "r1"};
  EXPECT_TRUE(open_store(file_)->winners().best(key_, now)) << "it was verified, and still runs";
}

#endif

}  // namespace kiln::refresh_test
