// Kernel Tuner's T4 results: what is written keeps to the schema and reads back as it was.
#include "cache/exchange/t4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "support/json_schema.h"
#include "support/paths.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::t4_test {

using test::config_of;
using test::key_of;
using test::kNow;
using test::open_store;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<StoredMeasurement> rows_of(Store& store) {
  std::vector<StoredMeasurement> rows;
  EXPECT_TRUE(store.measurements().each({}, [&](const auto& row) { rows.push_back(row); }));
  return rows;
}

std::string t4_of(const std::vector<StoredMeasurement>& rows) {
  std::ostringstream out;
  T4Writer writer(out);
  for (const StoredMeasurement& row : rows) writer.add(row);
  writer.finish();
  return out.str();
}

/// Every kind of row: two devices, times, each failure, one that was not verified.
std::unique_ptr<Store> every_kind() {
  auto store = open_store({});
  test::store_winner(*store, key_of(64, 96, 128), 6);
  BestKey other = key_of(7, 9, 11);
  other.device = cpu_caps_named("avx2").value();
  other.determinism = Determinism::batch_invariant;
  for (int kind = 0; kind <= static_cast<int>(Failure::kLastKind); ++kind)
    EXPECT_TRUE(
        store->measurements().put(other, kNow, test::failed(10 + kind, Failure::Kind(kind))));
  Measured unverified = test::timed(9, 1234.5);
  std::get<Timing>(unverified.outcome).joules = 0.25;
  std::get<Timing>(unverified.outcome).sm_mhz = 1500;
  unverified.verified = false;
  unverified.round = Round::screen;
  EXPECT_TRUE(store->measurements().put(other, kNow, unverified));
  return store;
}

TEST(T4, WhatIsWrittenKeepsToTheSchema) {
  std::ifstream file(test::source_dir() + "/data/t4/results.schema.json");
  const auto schema = nlohmann::json::parse(file);
  for (const auto& rows : {rows_of(*every_kind()), std::vector<StoredMeasurement>{}}) {
    const auto written = nlohmann::json::parse(t4_of(rows));
    EXPECT_THAT(test::schema_errors(schema, written), IsEmpty());
    EXPECT_THAT(written["results"], SizeIs(rows.size()));
  }
  // The check itself finds what is wrong.
  auto bad = nlohmann::json::parse(t4_of(rows_of(*every_kind())));
  bad["results"][0]["invalidity"] = "unlucky";
  bad["results"][1].erase("times");
  bad["schema_version"] = "one";
  EXPECT_THAT(test::schema_errors(schema, bad), SizeIs(3));
}

TEST(T4, WhatIsWrittenReadsBackAsItWas) {
  const auto rows = rows_of(*every_kind());
  const auto read = read_t4(t4_of(rows), "x.json", {});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(*read, SizeIs(rows.size()));
  auto copy = open_store({});
  EXPECT_EQ(*copy->measurements().add_evidence(*read), std::int64_t(rows.size()));
  EXPECT_EQ(*copy->measurements().add_evidence(*read), 0) << "they are here already";
  EXPECT_TRUE(copy->maintenance().check(false)->ok());
  EXPECT_TRUE(copy->winners().list()->empty()) << "none is a winner";
  auto again = rows_of(*copy);
  ASSERT_THAT(again, SizeIs(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(again[i].key, rows[i].key);
    EXPECT_EQ(again[i].validators, rows[i].validators);
    EXPECT_EQ(again[i].measured.config, rows[i].measured.config);
    EXPECT_EQ(again[i].measured.outcome, rows[i].measured.outcome);
    EXPECT_EQ(again[i].measured.round, rows[i].measured.round);
    EXPECT_EQ(again[i].measured.verified, rows[i].measured.verified);
    EXPECT_EQ(again[i].created, rows[i].created);
    EXPECT_THAT(again[i].measured.binary_key, IsEmpty());
  }
}

/// A result of another program that tuned kiln's kernels.
nlohmann::json foreign() {
  const auto own = nlohmann::json::parse(t4_of(rows_of(*every_kind())));
  auto result = own["results"][0];
  result.erase("kiln");
  result["times"]["runtimes"] = {1.0, 1.25, 1.5};
  return {{"results", {result}}, {"schema_version", "1.0.0"}};
}

TEST(T4, ResultsOfOthersNeedAProblemAndADevice) {
  const T4Defaults here{.shape = Gemm::row_major(1, 2, 3),
                        .device = cpu_caps_named("avx2").value()};
  const auto read = read_t4(foreign().dump(), "x.json", here);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(*read, SizeIs(1));
  EXPECT_EQ(read->front().key.gemm, *here.shape);
  EXPECT_EQ(read->front().key.policy, kT4Policy) << "never taken for a time of kiln's";
  EXPECT_EQ(read->front().measured.timing().median_ns, 1.25e6);
  EXPECT_EQ(read->front().measured.timing().samples, 3);
  auto single = foreign();
  single["results"][0]["times"] = nlohmann::json::object();
  single["results"][0]["measurements"] = {{{"name", "time"}, {"value", 7}, {"unit", "us"}}};
  EXPECT_EQ(read_t4(single.dump(), "x.json", here)->front().measured.timing().median_ns, 7000);
  EXPECT_THAT(read_t4(foreign().dump(), "x.json", {.device = here.device}).error().message,
              AllOf(HasSubstr("x.json: results[0]"), HasSubstr("--shape")));
  EXPECT_THAT(read_t4(foreign().dump(), "x.json", {.shape = here.shape}).error().message,
              HasSubstr("--device"));
}

TEST(T4, AnErrorNamesFileResultMemberAndValue) {
  const auto own = nlohmann::json::parse(t4_of(rows_of(*every_kind())));
  const auto error_of = [&](const char* pointer, const nlohmann::json& value) {
    auto bad = own;
    bad[nlohmann::json::json_pointer(pointer)] = value;
    const auto read = read_t4(bad.dump(), "x.json", {});
    EXPECT_FALSE(read) << pointer;
    if (read) return std::string();
    EXPECT_EQ(read.error().code, ErrorCode::bad_input);
    EXPECT_THAT(read.error().message, HasSubstr("x.json"));
    return read.error().message;
  };
  EXPECT_THAT(error_of("/schema_version", "2.0.0"), HasSubstr("schema_version = \"2.0.0\""));
  EXPECT_THAT(error_of("/results", 7), HasSubstr("results = 7"));
  EXPECT_THAT(error_of("/results/0/invalidity", "unlucky"),
              HasSubstr("results[0].invalidity = \"unlucky\""));
  EXPECT_THAT(error_of("/results/0/kiln/median_ns", -1),
              HasSubstr("results[0].kiln.median_ns = -1"));
  EXPECT_THAT(error_of("/results/0/kiln/samples", -1), HasSubstr("samples = -1"));
  EXPECT_THAT(error_of("/results/0/kiln/device", 9), HasSubstr("kiln.device = 9"));
  EXPECT_THAT(error_of("/results/0/kiln/shape", "fp31 N N 1 1 1"), HasSubstr("fp31"));
  EXPECT_THAT(error_of("/results/0/configuration/family", "host_magic"),
              AllOf(HasSubstr("results[0].configuration"), HasSubstr("host_magic")));
  EXPECT_THAT(error_of("/results/0/configuration/mr", "six"), HasSubstr("mr=six"));
  EXPECT_THAT(error_of("/results/1/kiln/failure", "bad luck"), HasSubstr("bad luck"));
  EXPECT_THAT(error_of("/kiln/devices/0/compute_units", 0), HasSubstr("compute_units"));
  EXPECT_THAT(error_of("/kiln/devices/0/vendor", "acme"), HasSubstr("\"acme\""));
  EXPECT_FALSE(read_t4("{\"results\": [", "x.json", {}));
  EXPECT_FALSE(read_t4("", "x.json", {}));
}

}  // namespace kiln::t4_test
