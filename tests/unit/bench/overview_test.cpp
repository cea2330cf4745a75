// What `kiln report --out` draws, gathered from databases and races.
#include "bench/overview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cache/records/devices.h"
#include "cache/records/measurements.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cpu/packed/config.h"
#include "support/kiln_command.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::overview_test {

using test::config_of;
using test::failed;
using test::key_of;
using test::kNow;
using test::timed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

Measured library(double ns) {
  Measured measured = timed(1, ns);
  measured.config = BlasLibrary{.library = BlasName::openblas};
  return measured;
}

/// One tuned shape: a winner of 100 ns, one of 150, one that crashed, and a library of 120.
std::unique_ptr<Store> tuned(const BestKey& key) {
  auto store = test::open_store({});
  EXPECT_TRUE(store->measurements().put(key, kNow, timed(6, 100)));
  EXPECT_TRUE(store->measurements().put(key, kNow, timed(4, 150)));
  EXPECT_TRUE(store->measurements().put(key, kNow, failed(9, Failure::Kind::crashed)));
  EXPECT_TRUE(store->measurements().put(key, kNow, library(120)));
  EXPECT_TRUE(store->winners().make_winner(key, kNow, config_of(6)));
  return store;
}

TEST(Overview, ShapesHaveTheWinnersTimeAndThoseOfLibraries) {
  const BestKey key = key_of(48, 256, 64);
  const auto overview = overview_of(*tuned(key));
  ASSERT_TRUE(overview) << overview.error().message;
  ASSERT_THAT(overview->shapes, SizeIs(1));
  const Overview::Shape& shape = overview->shapes.front();
  EXPECT_EQ(shape.text, "fp32 N N 48 256 64");
  EXPECT_EQ(shape.kind, "fp32 N N");
  EXPECT_EQ(shape.dtype, "fp32");
  EXPECT_EQ(shape.family, "host_packed");
  EXPECT_EQ(shape.ns, 100);
  EXPECT_EQ(shape.flops, 2.0 * 48 * 256 * 64);
  EXPECT_EQ(shape.bytes, 4.0 * (48 * 64 + 64 * 256 + 48 * 256)) << "A, B and D, once each";
  EXPECT_THAT(shape.peers, ElementsAre(Pair("blas_library", 120)));
}

// A shape that was tuned under load, too, is another one: its times are longer.
TEST(Overview, ShapesUnderLoadStandAloneWithTheirEnergy) {
  BestKey cool = key_of(48, 256, 64);
  cool.device = cuda_caps_named("sm_90a").value();
  cool.policy = "cuda-cold-v1";
  BestKey loaded = cool;
  loaded.policy = "cuda-sustained-v1";
  auto store = tuned(cool);
  Measured winner = timed(4, 170);
  std::get<Timing>(winner.outcome).joules = 0.25;
  ASSERT_TRUE(store->measurements().put(loaded, kNow, winner));
  ASSERT_TRUE(store->winners().make_winner(loaded, kNow, config_of(4)));
  const auto overview = overview_of(*store);
  ASSERT_TRUE(overview) << overview.error().message;
  ASSERT_THAT(overview->shapes, SizeIs(2));
  EXPECT_EQ(overview->shapes[0].text, "fp32 N N 48 256 64");
  EXPECT_EQ(overview->shapes[0].ns, 100);
  EXPECT_EQ(overview->shapes[0].joules, 0);
  EXPECT_EQ(overview->shapes[1].text, "fp32 N N 48 256 64 (under load)");
  EXPECT_EQ(overview->shapes[1].ns, 170);
  EXPECT_EQ(overview->shapes[1].joules, 0.25);
  EXPECT_EQ(to_json(*overview)["shapes"][1]["joules"], 0.25);
}

TEST(Overview, CountsWhatADeviceHas) {
  const BestKey key = key_of(48, 256, 64);
  auto store = tuned(key);
  ASSERT_TRUE(store->devices().raise_peak(key.device, fp32, 2e11));
  const auto overview = overview_of(*store);
  ASSERT_THAT(overview->devices, SizeIs(1));
  const Overview::Device& device = overview->devices.front();
  EXPECT_EQ(device.problems, 1);
  EXPECT_EQ(device.winners, 1);
  EXPECT_EQ(device.measurements, 4);
  EXPECT_EQ(device.failures, 1);
  EXPECT_THAT(device.peaks, ElementsAre(Pair("fp32", 2e11)));
  EXPECT_EQ(device.bytes_per_second, 0) << "no limits are stored";
  EXPECT_EQ(overview->shapes.front().roof_ns, 0);
  ASSERT_THAT(overview->failures, SizeIs(1));
  EXPECT_EQ(overview->failures.front().reason, "crashed");
  EXPECT_EQ(overview->failures.front().family, "host_packed");
  EXPECT_EQ(overview->failures.front().example, "why it failed");
}

TEST(Overview, LimitsOfACpuAreItsRoofs) {
  const BestKey key = key_of(48, 256, 64);
  auto store = tuned(key);
  ASSERT_TRUE(
      store->devices().put_limits({.device = key.device, .fp32_flops = 3e11, .dram_read = 2e10}));
  const auto overview = overview_of(*store);
  EXPECT_THAT(overview->devices.front().peaks, ElementsAre(Pair("fp32", 3e11)));
  EXPECT_EQ(overview->devices.front().bytes_per_second, 2e10);
  EXPECT_GE(overview->shapes.front().roof_ns, key.gemm.flops() / 3e11 * 1e9);
}

TEST(Overview, LandscapesHaveTheKeysThatVary) {
  const auto overview = overview_of(*tuned(key_of(48, 256, 64)), {.least_candidates = 2});
  EXPECT_THAT(overview->landscapes, IsEmpty()) << "one key alone is not a landscape";
  auto store = tuned(key_of(48, 256, 64));
  Measured other = timed(4, 130);
  HostPacked deep = other.config.as<HostPacked>();
  deep.kc = 128;
  other.config = deep;
  ASSERT_TRUE(store->measurements().put(key_of(48, 256, 64), kNow, other));
  const auto two = overview_of(*store, {.least_candidates = 2});
  ASSERT_THAT(two->landscapes, SizeIs(1));
  const Overview::Landscape& landscape = two->landscapes.front();
  EXPECT_THAT(landscape.keys, ElementsAre("mr", "kc"));
  EXPECT_THAT(landscape.values, ElementsAre(ElementsAre("6", "384"), ElementsAre("4", "384"),
                                            ElementsAre("9", "384"), ElementsAre("4", "128")));
  EXPECT_THAT(landscape.ns, ElementsAre(100, 150, 0, 130)) << "without the library; 0: failed";
  EXPECT_THAT(overview_of(*store, {.least_candidates = 6})->landscapes, IsEmpty());
}

TEST(Overview, RegretComparesARangesKernelWithTheFastestOfEachSize) {
  auto store = test::open_store({});
  const BestKey key = key_of(64, 256, 64);
  for (const std::int64_t m : {16, 64}) {
    ASSERT_TRUE(store->measurements().put(key_of(m, 256, 64), kNow, timed(6, 10.0 * double(m))));
    ASSERT_TRUE(store->measurements().put(key_of(m, 256, 64), kNow, timed(4, m == 16 ? 200 : 500)));
  }
  ASSERT_TRUE(store->measurements().put(key_of(8, 256, 64), kNow, timed(6, 50)))
      << "not of the range";
  const RangeTable table{{{32, 16, config_of(6), 160}, {64, 64, config_of(6), 640}}};
  ASSERT_TRUE(store->ranges().put(key, key.gemm.with_m(10, 64), table));
  const auto overview = overview_of(*store);
  ASSERT_THAT(overview->ranges, SizeIs(1));
  const Overview::RangeRegret& range = overview->ranges.front();
  EXPECT_EQ(range.text, "fp32 N N 10..64 256 64");
  EXPECT_EQ(range.size, "m");
  ASSERT_THAT(range.points, SizeIs(2));
  EXPECT_EQ(range.points[0].size, 16);
  EXPECT_EQ(range.points[0].ns, 160);
  EXPECT_EQ(range.points[0].best_ns, 160);
  EXPECT_EQ(range.points[1].ns, 640);
  EXPECT_EQ(range.points[1].best_ns, 500);
  EXPECT_EQ(overview->devices.front().ranges, 1);
}

TEST(Overview, SearchesAreWrittenAsTheirSteps) {
  auto store = test::open_store({});
  const BestKey key = key_of(48, 256, 256);
  for (const auto& [mr, ns] : {std::pair{6, 400.0}, {5, 500.0}, {4, 100.0}, {3, 200.0}})
    ASSERT_TRUE(store->measurements().put(key, kNow, timed(mr, ns)));
  ASSERT_TRUE(store->winners().make_winner(key, kNow, config_of(4)));
  const auto overview = overview_of(*store, {.least_candidates = 4});
  EXPECT_EQ(to_json(*overview)["searches"][0]["steps"].dump(), "[[1,0.25],[3,1.0]]");
}

std::string race_line(const std::string& shape, double ns, const std::string& more) {
  return R"({"shape":")" + shape + R"(","threads":2,"device":"cpu","kiln_ns":)" +
         std::to_string(ns) +
         R"(,"peers":{"openblas":300},"verified":true,"config":"host_dot x=1")" + more + "}\n";
}

TEST(Overview, RacesAreReadBackFromTheirLines) {
  const TempDir folder;
  const auto file = folder / "races.jsonl";
  std::ofstream(file)
      << race_line("fp32 N T 8 64 64", 200, R"(,"peak_flops":1e11,"roof_ns":50,"alone_ns":160)")
      << race_line("fp32 N T 16 64 64", 250, R"(,"alone_ns":250)")
      << R"({"shape":"fp32 N N 1 1 1","error":{"code":"device"}})"
      << "\n"
      << R"({"summary":{"machine":[{"threads":2,"dram_read_bytes_per_second":5e9}]}})"
      << "\n";
  Overview overview;
  const Status added = add_races(overview, file);
  ASSERT_TRUE(added) << added.error().message;
  ASSERT_THAT(overview.shapes, SizeIs(2));
  EXPECT_EQ(overview.shapes[0].ns, 200);
  EXPECT_EQ(overview.shapes[0].roof_ns, 50);
  EXPECT_EQ(overview.shapes[1].roof_ns, 0);
  EXPECT_EQ(overview.shapes[0].family, "host_dot");
  EXPECT_THAT(overview.shapes[0].peers, ElementsAre(Pair("openblas", 300)));
  ASSERT_THAT(overview.devices, SizeIs(1));
  EXPECT_EQ(overview.devices[0].name, "cpu, 2 threads (races.jsonl)");
  EXPECT_EQ(overview.devices[0].bytes_per_second, 5e9);
  EXPECT_THAT(overview.devices[0].peaks, ElementsAre(Pair("fp32", 1e11)));
  ASSERT_THAT(overview.ranges, SizeIs(1));
  EXPECT_EQ(overview.ranges[0].text, "fp32 N T 8..16 64 64");
  ASSERT_THAT(overview.ranges[0].points, SizeIs(2));
  EXPECT_EQ(overview.ranges[0].points[0].best_ns, 160);
}

TEST(Overview, WrongRacesNameTheFileTheLineAndTheField) {
  const TempDir folder;
  const auto file = folder / "races.jsonl";
  const auto message = [&](const std::string& text) {
    std::ofstream(file) << text;
    Overview overview;
    const Status added = add_races(overview, file);
    EXPECT_FALSE(added) << text;
    return added ? std::string() : added.error().message;
  };
  EXPECT_THAT(message("\nnonsense\n"), HasSubstr("races.jsonl:2: not an object of JSON"));
  EXPECT_THAT(message(race_line("fp32 N T 8 64", 200, "")), HasSubstr("races.jsonl:1: "));
  EXPECT_THAT(message(race_line("fp32 N T 8 64 64", -1, "")), HasSubstr("kiln_ns = -1"));
  EXPECT_THAT(message(R"({"shape":"fp32 N T 8 64 64","kiln_ns":1})"), HasSubstr("threads"));
  EXPECT_THAT(message("{}\n"), HasSubstr("no line of a race"));
}

TEST(ReportPage, IsOneFileWhoseTextCannotEndItsScript) {
  test::KilnCommand kiln;
  {
    auto store = test::open_store(kiln.environment.at("KILN_DB"));
    BestKey key = key_of(48, 256, 64);
    key.device.model = "a </script><script>alert(1)</script> CPU";
    test::store_winner(*store, key, 6);
  }
  const std::string file = (kiln.folder / "page.html").string();
  const auto run = kiln({"report", "--out", file, "--title", "<Team> & \"co\"", "--axes", "mr,kc"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("1 shape on 1 device"), HasSubstr("KiB")));
  const std::string page = test::KilnCommand::read(file);
  EXPECT_THAT(page, HasSubstr("<title>&lt;Team&gt; &amp; \"co\"</title>"));
  EXPECT_THAT(page, HasSubstr(R"("axes":["mr","kc"])"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr(R"(a \u003c/script>\u003cscript>alert(1)\u003c/script> CPU)"));
  EXPECT_THAT(page, Not(HasSubstr("{{"))) << "a slot that nothing filled";
  EXPECT_EQ(page.find("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"),
            page.rfind("http-equiv"));
}

TEST(ReportPage, WrongInputNamesTheFieldAndTheValue) {
  test::KilnCommand kiln;
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "report");
    auto result = kiln(words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(run({}), HasSubstr("--out FILE or --recorded FILE"));
  EXPECT_THAT(run({"--out", "x.html", "--axes", "mr"}), HasSubstr("axes = \"mr\""));
  EXPECT_THAT(run({"--out", "x.html", "--bench", "/nowhere"}), HasSubstr("bench = \"/nowhere\""));
  EXPECT_THAT(run({"--out", "x.html", "--db", "/nowhere.db"}), HasSubstr("/nowhere.db"));
  EXPECT_THAT(run({"--out", "x.html", "--recorded", "calls"}), HasSubstr("excludes"));
  EXPECT_THAT(run({"--bench", "x"}), HasSubstr("--out"));
}

}  // namespace kiln::overview_test
