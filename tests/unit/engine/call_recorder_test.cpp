// Which calls an Engine records: of threads, processes, forks, plans and the C interface; what of
// them is lost when a process is killed.
#include "engine/call_recorder.h"

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_impl.h"
#include "kiln/kiln.h"
#include "kiln/log.hpp"
#include "support/child.h"
#include "support/eventually.h"
#include "support/fake_evaluator.h"
#include "support/temp_dir.h"

namespace kiln::call_recorder_test {

using std::chrono::milliseconds;

/// Computed by the reference kernel alone, so that a miss compiles nothing.
Gemm plain(std::int64_t m) { return Gemm::row_major(m, 2, 2, DType::fp8_e4m3).output(DType::fp32); }

struct Buffers {
  float a[64] = {}, b[64] = {}, d[64] = {};
  Operands operands() { return {.a = a, .b = b, .d = d}; }
};

/// An engine on one thread that records.
struct Recording {
  Recording() { open(); }
  void open() {
    engine.reset();
    auto opened = Engine::open({.database = dir / "kiln.db",
                                .threads = 1,
                                .on_untuned = [](const std::string&) {},
                                .record = file});
    if (!opened) throw std::runtime_error(opened.error().message);
    engine.emplace(std::move(*opened));
    engine->impl().tuning.make_evaluator = test::fake_bench;
  }
  void call(const Gemm& gemm, int times) {
    Buffers buffers;
    for (int i = 0; i < times; ++i) {
      const Status done = engine->gemm(gemm, buffers.operands());
      ASSERT_TRUE(done) << done.error().message;
    }
  }
  CallRecorder& recorder() { return *engine->impl().recorder.calls(); }
  /// What the file says of calls of a problem.
  RecordedCalls read(const Gemm& gemm) const {
    const auto rows = read_calls(file);
    EXPECT_TRUE(rows) << rows.error().message;
    for (const RecordedCalls& row : rows.value_or(std::vector<RecordedCalls>{}))
      if (row.gemm == gemm) return row;
    return {};
  }
  std::size_t rows() const { return read_calls(file).value().size(); }

  TempDir dir;
  std::filesystem::path file = dir / "calls";
  std::optional<Engine> engine;
};

TEST(CallCounter, TimedCallsStandForAllOthers) {
  CallCounter counter;
  CallCounter::Shard& shard = counter.shard();
  int timed = 0;
  for (int i = 0; i < 1000; ++i) {
    if (CallCounter::is_timed(shard)) {
      ++timed;
      CallCounter::add_timed(shard, std::chrono::nanoseconds(40));
    } else {
      CallCounter::add(shard);
    }
  }
  const auto counts = counter.counts();
  EXPECT_EQ(counts.calls, 1000);
  EXPECT_EQ(counts.timed_ns, 40.0 * static_cast<double>(counts.timed_calls));
  EXPECT_GT(counts.timed_calls, 1000 - 64);
  EXPECT_LT(timed, 20);
}

TEST(CallCounter, LongCallsAreAllTimed) {
  CallCounter counter;
  CallCounter::Shard& shard = counter.shard();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(CallCounter::is_timed(shard));
    CallCounter::add_timed(shard, milliseconds(1));
  }
  EXPECT_EQ(counter.counts().timed_calls, 100);
}

TEST(CallRecorder, CountsEveryCallOfEveryThread) {
  Recording program;
  program.call(plain(2), 1);
  constexpr int kThreads = 20, kCalls = 3000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&] { program.call(plain(2), kCalls); });
  for (std::thread& thread : threads) thread.join();
  program.call(plain(3), 5);
  program.engine.reset();
  const RecordedCalls row = program.read(plain(2));
  EXPECT_EQ(row.calls, 1 + kThreads * kCalls);
  EXPECT_EQ(row.threads, 1);
  EXPECT_GT(row.ns_per_call(), 1);
  EXPECT_LE(row.timed_calls, row.calls);
  EXPECT_EQ(program.read(plain(3)).calls, 5);
  EXPECT_EQ(program.rows(), 2u);
}

TEST(CallRecorder, BehindTheMostProblemsOthersShareACounterAndOneWarning) {
  const TempDir dir;
  std::vector<std::string> warnings;
  set_log([&](LogLevel, std::string_view message) { warnings.emplace_back(message); });
  const auto opened = CallRecorder::open(dir / "calls", cpu_caps_named("avx512").value());
  ASSERT_TRUE(opened);
  CallRecorder& recorder = **opened;
  const auto counter = [&](std::size_t m) -> CallCounter& {
    return recorder.counter(Gemm::row_major(static_cast<std::int64_t>(m), 1, 1), 1);
  };
  constexpr std::size_t kMost = CallRecorder::kMostProblems;
  for (std::size_t m = 1; m <= kMost; ++m) CallCounter::add(counter(m).shard());
  EXPECT_TRUE(warnings.empty());
  CallCounter& others = counter(kMost + 1);
  EXPECT_EQ(&counter(kMost + 2), &others);
  EXPECT_NE(&counter(kMost), &others) << "what is counted goes on being counted";
  for (int i = 0; i < 5; ++i) CallCounter::add(others.shard());
  CallCounter::add(counter(7).shard());
  EXPECT_EQ(recorder.counts().size(), kMost);
  recorder.flush();
  set_log({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], testing::HasSubstr("calls of others are not recorded"));
  const auto rows = read_calls(dir / "calls");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->size(), kMost);
  for (const RecordedCalls& row : *rows) EXPECT_EQ(row.calls, row.gemm.m == 7 ? 2 : 1);
}

TEST(CallRecorder, CallsThatFailOrComputeNothingAreNotCounted) {
  Recording program;
  program.call(plain(2), 2);
  EXPECT_FALSE(program.engine->gemm(plain(2), {}));
  EXPECT_FALSE(program.engine->gemm(plain(-1), {}));
  EXPECT_TRUE(program.engine->gemm(plain(0), {}));
  program.engine.reset();
  EXPECT_EQ(program.read(plain(2)).calls, 2);
  EXPECT_EQ(program.rows(), 1u);
}

TEST(CallRecorder, EverySpellingOfAProblemIsOne) {
  Recording program;
  Gemm padded = plain(4);
  padded.a.ld = 2;  // tight, said aloud
  program.call(plain(4), 2);
  program.call(padded, 3);
  program.engine.reset();
  EXPECT_EQ(program.read(plain(4)).calls, 5);
  EXPECT_EQ(program.rows(), 1u);
}

TEST(CallRecorder, PlansAndPackedCallsCountAndMayOutliveTheEngine) {
  Recording program;
  Buffers buffers;
  const auto plan = program.engine->plan(plain(2));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->run(buffers.operands()));
  const auto packed = program.engine->pack_b(plain(2), buffers.b);
  ASSERT_TRUE(packed) << packed.error().message;
  Operands with_packed = buffers.operands();
  with_packed.b = nullptr;
  with_packed.packed_b = &*packed;
  EXPECT_TRUE(program.engine->gemm(plain(2).with_packed_b(), with_packed));
  program.engine.reset();
  EXPECT_EQ(program.read(plain(2)).calls, 1) << "flushed with the engine";
  EXPECT_EQ(program.read(plain(2).with_packed_b()).calls, 1);
  {
    const Plan last = *plan;
    EXPECT_TRUE(last.run(buffers.operands()));
  }
}

TEST(CallRecorder, TuningIsNotRecordedAndKeepsTheCounts) {
  Recording program;
  const Gemm gemm = Gemm::row_major(4, 4, 4);
  program.call(gemm, 3);  // a miss: compiled, verified
  const auto report = program.engine->tune(gemm);
  ASSERT_TRUE(report) << report.error().message;
  program.call(gemm, 1000);  // another plan, one thread, no workspace
  program.engine.reset();
  EXPECT_EQ(program.read(gemm).calls, 1003);
  EXPECT_EQ(program.rows(), 1u);
}

TEST(CallRecorder, IsOffUnlessAFileIsNamed) {
  TempDir dir;
  ::unsetenv("KILN_RECORD");
  auto engine = Engine::open({.database = dir / "kiln.db", .threads = 1});
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->impl().recorder.calls(), nullptr);
  const auto plan = engine->plan(plain(2));
  EXPECT_EQ(plan->impl().counter, nullptr);
}

TEST(CallRecorder, TheVariableNamesAFileAndABadOneIsNoError) {
  TempDir dir;
  std::ofstream(dir / "notes") << "no calls";
  ::setenv("KILN_RECORD", (dir / "notes").c_str(), 1);
  testing::internal::CaptureStderr();
  auto engine = Engine::open({.database = dir / "kiln.db", .threads = 1});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr((dir / "notes").string()),
                             testing::HasSubstr("calls are not recorded")));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->impl().recorder.calls(), nullptr);
  const auto named =
      Engine::open({.database = dir / "kiln.db", .threads = 1, .record = dir / "notes"});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, ErrorCode::database);
  ::setenv("KILN_RECORD", (dir / "calls").c_str(), 1);
  engine = Engine::open({.database = dir / "kiln.db", .threads = 1});
  ::unsetenv("KILN_RECORD");
  ASSERT_TRUE(engine);
  EXPECT_NE(engine->impl().recorder.calls(), nullptr);
  EXPECT_TRUE(read_calls(dir / "calls"));
}

TEST(CallRecorder, CInterfaceNamesAFile) {
  TempDir dir;
  const std::string database = dir / "kiln.db", record = dir / "calls";
  kiln_options options;
  kiln_options_init(&options);
  EXPECT_EQ(options.record, nullptr);
  options.database = database.c_str();
  options.record = record.c_str();
  options.threads = 1;
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 2, 2, 2, KILN_FP8_E4M3);
  desc.c.dtype = desc.d.dtype = KILN_FP32;
  Buffers buffers;
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = buffers.a;
  operands.b = buffers.b;
  operands.d = buffers.d;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
  kiln_close(engine);
  const auto rows = read_calls(record).value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].calls, 3);
  EXPECT_EQ(rows[0].gemm, plain(2));
}

TEST(CallRecorder, ProcessesWithOneFileAddUp) {
  Recording first;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i)
    children.push_back(test::start_child([&] {
      auto engine = Engine::open({.database = ":memory:", .threads = 1, .record = first.file});
      Buffers buffers;
      for (int n = 0; n < 500; ++n)
        if (!engine->gemm(plain(2), buffers.operands())) return false;
      return true;
    }));
  first.call(plain(2), 7);
  for (const pid_t child : children) EXPECT_TRUE(test::wait_for(child));
  first.engine.reset();
  EXPECT_EQ(first.read(plain(2)).calls, 7 + 4 * 500);
}

TEST(CallRecorder, AForkCountsOnceAndFlushesByItself) {
  Recording program;
  program.call(plain(2), 10);  // some of them are not in the file yet
  const pid_t flushes = test::start_child([&] {
    program.call(plain(2), 100);
    program.recorder().flush();
    return true;
  });
  const pid_t leaves = test::start_child([&] {
    program.call(plain(2), 1000);
    // It ends by _exit(): its thread alone has flushed.
    test::eventually([&] { return program.read(plain(2)).calls >= 1000; });
    return true;
  });
  program.call(plain(2), 1);
  EXPECT_TRUE(test::wait_for(flushes));
  EXPECT_TRUE(test::wait_for(leaves));
  program.engine.reset();
  EXPECT_EQ(program.read(plain(2)).calls, 11 + 100 + 1000);
}

TEST(CallRecorder, AnEngineThatIsOpenAtExitIsFlushed) {
  Recording program;
  program.engine.reset();
  const pid_t child = test::start_child([&] {
    program.open();
    program.call(plain(2), 100);
    std::exit(0);
    return false;
  });
  EXPECT_TRUE(test::wait_for(child));
  EXPECT_EQ(program.read(plain(2)).calls, 100);
}

TEST(CallRecorder, AKilledProcessLosesWhatWasNotFlushed) {
  Recording program;
  program.engine.reset();
  const pid_t child = test::start_child([&] {
    program.open();
    program.call(plain(2), 1000);
    program.recorder().flush();
    program.call(plain(2), 5);
    ::raise(SIGKILL);
    return false;
  });
  EXPECT_FALSE(test::wait_for(child));
  const RecordedCalls row = program.read(plain(2));
  EXPECT_GE(row.calls, 1000);
  EXPECT_LE(row.calls, 1005);
}

TEST(CallRecorder, IsFlushedWhileTheProgramRuns) {
  Recording program;
  program.call(plain(2), 50);
  test::eventually([&] { return program.read(plain(2)).calls >= 50; });
  EXPECT_EQ(program.read(plain(2)).calls, 50);
}

TEST(CallRecorder, WhatABusyFileDoesNotTakeIsAddedLater) {
  Recording program;
  SQLite::Database other(program.file.string(), SQLite::OPEN_READWRITE);
  other.exec("BEGIN EXCLUSIVE");
  program.call(plain(2), 20);
  testing::internal::CaptureStderr();
  program.recorder().flush(milliseconds(20));
  program.recorder().flush(milliseconds(20));
  const std::string said = testing::internal::GetCapturedStderr();
  other.exec("ROLLBACK");
  program.recorder().flush();
  EXPECT_EQ(program.read(plain(2)).calls, 20);
  EXPECT_THAT(said, testing::HasSubstr(program.file.string()));
  EXPECT_EQ(said.find("warning"), said.rfind("warning")) << "said once: " << said;
}

TEST(CountedCalls, AreToldWithoutAFile) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string database = dir / "kiln.db";
  options.database = database.c_str();
  options.threads = 1;
  options.record = ":memory:";
  options.on_untuned = [](void*, const char*) {};
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 3, 2, 2, KILN_FP8_E4M3);
  desc.c.dtype = desc.d.dtype = KILN_FP32;
  float a[64] = {}, d[64] = {};
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = operands.b = a;
  operands.d = d;
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
  std::vector<std::string> told;
  const auto tell = [](void* user, const char* problem, int threads, int64_t calls, double ns) {
    EXPECT_GT(ns, 0);
    static_cast<std::vector<std::string>*>(user)->push_back(
        std::string(problem) + ": " + std::to_string(calls) + " on " + std::to_string(threads));
  };
  ASSERT_EQ(kiln_counted_calls(engine, tell, &told), KILN_OK) << kiln_last_error();
  EXPECT_THAT(told, testing::ElementsAre("fp8 N N 3 2 2 out=fp32: 5 on 1"));
  EXPECT_EQ(kiln_counted_calls(engine, nullptr, &told), KILN_BAD_INPUT);
  EXPECT_STREQ(kiln_last_error(), "tell = null");
  kiln_close(engine);
  EXPECT_FALSE(std::filesystem::exists(":memory:"));
}

}  // namespace kiln::call_recorder_test
