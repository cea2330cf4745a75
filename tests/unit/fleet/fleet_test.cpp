// The parts of a fleet that need no device: shards, lists, the shared folder, logs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "fleet/device_kind.h"
#include "fleet/folder.h"
#include "fleet/log.h"
#include "fleet/missing.h"
#include "fleet/plan_file.h"
#include "runtime/backend.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::fleet_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

FleetItem item(const std::string& line, int threads = 0) {
  if (!names_range(line)) return {parse_gemm(line).value(), std::nullopt, threads};
  const GemmRange range = parse_gemm_range(line).value();
  return {range.gemm, range, threads};
}

std::vector<std::string> lines(const std::vector<FleetItem>& list) {
  std::vector<std::string> all;
  for (const FleetItem& one : list) all.push_back(text(one));
  return all;
}

FleetPlan plan_of(int shards) {
  return {ordered({item("fp32 N N 8 8 8"), item("bf16 N T 1..64 32 32"), item("fp32 N N 9 8 8")}),
          shards};
}

TEST(FleetShard, IsReadOrSaysWhatIsWrong) {
  EXPECT_EQ(parse_shard("3/8").value(), (Shard{3, 8}));
  EXPECT_EQ(text(Shard{3, 8}), "3/8");
  const auto expect = [](const char* shard, const char* reason) {
    const auto parsed = parse_shard(shard);
    ASSERT_FALSE(parsed) << shard;
    EXPECT_EQ(parsed.error().code, ErrorCode::bad_input);
    EXPECT_THAT(parsed.error().message,
                AllOf(HasSubstr(fmt::format("shard = {}: ", shard)), HasSubstr(reason)));
  };
  expect("0/4", "I = 0: must be 1 to N = 4");
  expect("5/4", "I = 5: must be 1 to N = 4");
  expect("-1/4", "I = -1");
  expect("1/0", "N = 0: must be 1 to 100000");
  expect("1/1000000", "N = 1000000");
  for (const char* shard : {"", "3", "/", "3/", "/4", "a/b", "1/4x", " 1/4", "1/99999999999999"})
    expect(shard, "I/N");
}

TEST(FleetShard, TogetherTheyHoldEveryPlaceOnce) {
  for (const int of : {1, 2, 3, 7, 50})
    for (std::size_t place = 0; place < 40; ++place) {
      int held = 0;
      for (int index = 1; index <= of; ++index) held += Shard{index, of}.holds(place);
      EXPECT_EQ(held, 1) << place << " of " << of;
    }
}

TEST(FleetList, IsTheSameWhateverTheOrderAndHasEachOnceLongestFirst) {
  const auto list =
      ordered({item("fp32 N N 8 8 8"), item("fp32 N N 64 64 64"), item("fp32 N N 8 8 8 lda=8"),
               item("bf16 N T 1..4 8 8"), item("fp32 N N 8 8 8", 2)});
  EXPECT_THAT(lines(list), ElementsAre("bf16 N T 1..4 8 8", "fp32 N N 64 64 64", "fp32 N N 8 8 8",
                                       "fp32 N N 8 8 8, 2 threads"));
  EXPECT_EQ(ordered({list[3], list[1], list[0], list[2]}), list);
}

TEST(FleetList, ADevicesShareIsSpeltAsItsKernelsAreAndHasEachOnce) {
  const std::vector<FleetItem> list = ordered(
      {item("fp32 N N 16 16 16"), item("fp32 N N 16 16 16 align=16"), item("fp32 N N 5 5 5")});
  const DeviceCaps gpu = hip_caps_named("mi300x").value(), cpu = cpu_caps_named("avx2").value();
  EXPECT_THAT(lines(of_device(list, gpu)),
              ElementsAre("fp32 N N 16 16 16 align=16", "fp32 N N 5 5 5 align=16"));
  EXPECT_EQ(of_device(list, cpu).size(), 3u);
}

TEST(FleetList, WhatWasRecordedBelongsToItsDeviceAndItsThreads) {
  DeviceCaps here = cpu_caps_named("avx2").value(), other = cpu_caps_named("avx512").value();
  const auto row = [](DeviceCaps device, int threads, const std::string& shape, double ns) {
    device.compute_units = threads;
    return RecordedCalls{fingerprint(device), parse_gemm(shape).value(), threads, 10, 10, ns};
  };
  std::vector<RecordedCalls> rows{row(here, 2, "fp32 N N 8 8 8", 5),
                                  row(other, 2, "fp32 N N 9 9 9", 5)};
  for (const int m : {1, 2, 3, 70})
    rows.push_back(row(here, 1, fmt::format("fp32 N N {} 7 7", m), 1));
  const auto list = recorded_list(rows, 0, false);
  EXPECT_THAT(lines(of_device(list, here)),
              ElementsAre("fp32 N N 1..70 7 7, 1 threads", "fp32 N N 8 8 8, 2 threads"));
  EXPECT_THAT(lines(of_device(list, other)), ElementsAre("fp32 N N 9 9 9, 2 threads"));
  EXPECT_EQ(recorded_list(rows, 1, true).size(), 4u);
}

TEST(FleetKind, IsTheMachinesWhateverTheThreadsOfACall) {
  DeviceCaps cpu = cpu_caps_named("avx2").value();
  cpu.model = "AMD EPYC 9654 (96-Core)";
  const std::string kind = kind_name(cpu);
  EXPECT_THAT(kind, testing::StartsWith("amd-epyc-9654-96-core-"));
  DeviceCaps same = cpu;
  same.compute_units = 17;
  EXPECT_EQ(kind_name(same), kind);
  for (auto change : {+[](DeviceCaps& d) { d.l2_bytes += 1; }, +[](DeviceCaps& d) { d.ghz += 1; },
                      +[](DeviceCaps& d) { d.cpu.avx512 = true; }}) {
    DeviceCaps other = cpu;
    change(other);
    EXPECT_NE(kind_name(other), kind);
  }
  DeviceCaps gpu = hip_caps_named("mi300x").value(), part = gpu;
  part.compute_units /= 8;
  EXPECT_NE(kind_name(gpu), kind_name(part)) << "a partition is another device";
}

TEST(FleetFolder, WhoeverComesFirstWritesThePlanAndOthersMustAgree) {
  const TempDir dir;
  const auto path = dir / "fleet";
  const auto first = FleetFolder::join(path, plan_of(4));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->plan(), plan_of(4));
  EXPECT_TRUE(FleetFolder::join(path, plan_of(4)));
  EXPECT_EQ(FleetFolder::open(path).value().plan(), plan_of(4));
  const auto refused = [&](const FleetPlan& plan, const std::string& reason) {
    const auto joined = FleetFolder::join(path, plan);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::bad_input);
    EXPECT_THAT(joined.error().message, AllOf(HasSubstr(path.string()), HasSubstr(reason)));
  };
  refused(plan_of(5), "shards = 5: this folder is one of 4 shards");
  refused(plan_of(0), "shards = 0");
  FleetPlan other = plan_of(4);
  other.determinism = Determinism::any;
  refused(other, "determinism = any");
  other = plan_of(4);
  other.list.pop_back();
  refused(other,
          "list = 2 shapes: this folder belongs to another list, of 3 shapes; at place 3 it "
          "has \"fp32 N N 8 8 8\" and the list given has nothing");
  EXPECT_EQ(FleetFolder::open(path).value().plan(), plan_of(4)) << "refusals change nothing";
}

TEST(FleetFolder, PlansThatAreNoneAreNamed) {
  const TempDir dir;
  EXPECT_THAT(FleetFolder::open(dir / "nowhere").error().message, HasSubstr("no fleet's folder"));
  const auto expect = [&](const std::string& text, const std::string& reason) {
    std::ofstream(dir / "fleet.json") << text;
    const auto joined = FleetFolder::join(dir.path(), plan_of(4));
    ASSERT_FALSE(joined) << text;
    EXPECT_EQ(joined.error().code, ErrorCode::database);
    EXPECT_THAT(joined.error().message, AllOf(HasSubstr("fleet.json"), HasSubstr(reason)));
  };
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = plan_text(plan_of(4));
    return text.replace(text.find(from), from.size(), to);
  };
  expect("", "not a fleet's plan");
  expect("[]", "not a fleet's plan");
  expect(changed("\"kiln_fleet\": 1", "\"kiln_fleet\": 2"),
         "kiln_fleet = 2: this kiln reads version 1");
  expect(changed("\"shards\": 4", "\"shards\": -4"), "shards = -4");
  expect(changed("run_to_run", "sometimes"), "determinism = \"sometimes\"");
  expect(changed("fp32 N N 8 8 8", "fp33 N N 8 8 8"), "fp33");
}

TEST(FleetLog, IsOneProcesssAndKeepsWhatWasWrittenBeforeAKill) {
  const TempDir dir;
  const auto file = dir / "shard-1-of-2.jsonl";
  {
    const auto log = FleetLog::open(file);
    ASSERT_TRUE(log) << log.error().message;
    EXPECT_THAT(FleetLog::open(file).error().message,
                AllOf(HasSubstr(file.string()), HasSubstr("another process tunes this part")));
    log->add({"fp32 N N 8 8 8", FleetState::begun});
    log->add({"fp32 N N 8 8 8", FleetState::failed, 2, 0.5, "it \"broke\""});
  }
  std::ofstream(file, std::ios::app) << "{\"item\":\"fp32 N N 9";  // the kill
  FleetLog::open(file)->add({"fp32 N N 9 8 8", FleetState::tuned, 2, 1.5});
  const auto events = read_log(file);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].state, FleetState::failed);
  EXPECT_EQ(events[1].reason, "it \"broke\"");
  EXPECT_EQ(events[2].item, "fp32 N N 9 8 8");
  EXPECT_EQ(events[2].seconds, 1.5);
  EXPECT_TRUE(read_log(dir / "nowhere").empty());
}

TEST(FleetProgress, CountsAnItemThatTwoPartsBeganOnce) {
  const TempDir dir;
  const auto folder = FleetFolder::join(dir / "fleet", plan_of(0)).value();
  ASSERT_TRUE(folder.add_kind("card"));
  const auto log = [&](int rank) {
    return FleetLog::open(folder.log_of("card", FleetFolder::part_name(rank))).value();
  };
  log(0).add({"fp32 N N 8 8 8", FleetState::tuned});
  log(1).add({"fp32 N N 8 8 8", FleetState::begun});  // killed in an earlier run
  log(1).add({"fp32 N N 9 8 8", FleetState::begun});
  log(2).add({"bf16 N T 1..64 32 32", FleetState::failed});
  const FleetProgress progress = progress_of(folder);
  EXPECT_EQ(progress.done, 2u);
  EXPECT_EQ(progress.failed, 1u);
  EXPECT_EQ(progress.open, 1u);
  const auto state = state_of(folder, "card");
  ASSERT_TRUE(state) << state.error().message;
  ASSERT_EQ(state->missing.size(), 3u);
  EXPECT_THAT(state->missing[0].reason, HasSubstr("failed: "));
  EXPECT_EQ(state->missing[1].reason, "begun, and not ended");
  EXPECT_THAT(state->missing[2].reason, HasSubstr("its record is in no database"));
}

TEST(FleetProgress, ASearchThatWasCutAfterItsBudgetIsNotMissing) {
  const TempDir dir;
  BestKey key = test::key_of(9, 8, 8);
  key.policy = backend_of(key.device.vendor).policy;
  const std::vector<FleetItem> list{item(text(key.gemm))};
  const auto folder = FleetFolder::join(dir / "fleet", {list, 1}).value();
  const std::string kind = kind_name(key.device);
  ASSERT_TRUE(folder.add_kind(kind));
  const auto missing_after = [&](double spent) {
    const auto store = test::open_store(folder.merged(kind));
    EXPECT_TRUE(store->measurements().put(key, test::kNow, test::timed(6, 1000)));
    EXPECT_TRUE(store->winners().make_winner(key, test::kNow, test::config_of(6)));
    EXPECT_TRUE(store->measurements().put_search(key, test::kNow,
                                                 {.seconds = spent,
                                                  .budget_seconds = 20,
                                                  .spent_seconds = spent,
                                                  .measured = 3,
                                                  .enumerated = 40,
                                                  .interrupted = true}));
    const KindState state = state_of(folder, kind).value();
    EXPECT_EQ(state.wanted, 1u);
    EXPECT_EQ(state.model, key.device.model);
    return state.missing;
  };
  const auto missing = missing_after(19);
  ASSERT_THAT(missing, testing::SizeIs(1));
  EXPECT_EQ(missing[0].reason, "interrupted after 19.0 s of 20.0 s");
  EXPECT_THAT(missing_after(20), testing::IsEmpty()) << "its last race was cut";
}

}  // namespace kiln::fleet_test
