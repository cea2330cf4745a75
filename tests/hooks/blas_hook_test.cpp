// Programs that call BLAS with the hook before their library: which calls kiln serves, what is
// passed on, and that neither can be told from the other by results. The process is pointed at the
// library of fakes/blas.cpp by $KILN_BLAS, the programs are blas_caller.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "cache/exchange/recorded_calls.h"
#include "hooks/common/decision.h"
#include "hooks/common/once.h"
#include "kiln/kiln.hpp"
#include "support/child.h"
#include "support/eventually.h"
#include "support/few.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace kiln::blas_hook_test {

using testing::HasSubstr;

const Gemm kTuned = Gemm::row_major(96, 80, 64);

struct Ran {
  int status = -1;
  std::string output;
};

std::atomic<bool> begun, go_on;

void decides_slowly() {
  begun = true;
  test::eventually([] { return go_on.load(); });
}

/// Runs `slow` on another thread until it is in decides_slowly(); then `body` in a child.
bool in_child_during(const std::function<void()>& slow, const std::function<bool()>& body) {
  begun = go_on = false;
  std::thread other(slow);
  test::eventually([] { return begun.load(); });
  const bool good = test::in_child([&] {
    test::end_when_hung();
    go_on = true;
    return body();
  });
  go_on = true;
  other.join();
  return good;
}

using Decided = hooks::Decisions<int, std::hash<int>>;

TEST(HookDecisions, AChildDecidesWhileAnotherThreadOfItsParentDoes) {
  static Decided all([](const int& product) {
    if (product == 1) decides_slowly();
    return std::make_unique<const hooks::Decision>();
  });
  EXPECT_TRUE(in_child_during([] { all.of(1); },
                              [] { return all.of(2) != nullptr && all.of(1) != nullptr; }));
  EXPECT_NE(all.of(1), nullptr);
  EXPECT_EQ(all.of(1), all.of(1));
}

TEST(HookDecisions, NoMemoryIsNoDecision) {
  static int asked = 0;
  Decided all([](const int&) -> std::unique_ptr<const hooks::Decision> {
    if (asked++ == 0) throw std::bad_alloc();
    return std::make_unique<const hooks::Decision>();
  });
  EXPECT_EQ(all.of(1), nullptr);
  EXPECT_NE(all.of(1), nullptr) << "asked again";
  EXPECT_EQ(asked, 2);
}

TEST(HookDecisions, ACallFromWithinADecisionHasNone) {
  static Decided* all = nullptr;
  static const hooks::Decision* inner = nullptr;
  Decided made([](const int&) {
    inner = all->of(2);
    return std::make_unique<const hooks::Decision>();
  });
  all = &made;
  EXPECT_NE(made.of(1), nullptr);
  EXPECT_EQ(inner, nullptr);
}

TEST(HookOnce, AChildMakesWhatAnotherThreadOfItsParentWasMaking) {
  static hooks::Once<int> once;
  const auto get = [] {
    return once.get([] {
      decides_slowly();
      return 7;
    });
  };
  EXPECT_TRUE(in_child_during(get, [&] { return get() == 7; }));
  EXPECT_EQ(get(), 7);
}

TEST(HookOnce, WhatCouldNotBeMadeIsMadeByTheNextCall) {
  static hooks::Once<int> once;
  EXPECT_THROW(once.get([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(once.get([] { return 7; }), 7);
}

class BlasHook : public ::testing::Test {
 protected:
  Ran run(const std::string& what, const std::string& more = "") {
    const std::string command =
        fmt::format("KILN_DB={} KILN_DB_PATH= KILN_BLAS={} LD_PRELOAD={} {} {} '{}' 2>&1",
                    (dir_ / "kiln.db").string(), test::fake_blas_path(), test::blas_hook_path(),
                    more, test::blas_caller_path(), what);
    Ran ran;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) ran.output += buffer.data();
    ran.status = ::pclose(pipe);
    return ran;
  }

  /// So that the row-major product without transposition is tuned and raced on one thread.
  void tune() {
    auto engine = Engine::open({.database = dir_ / "kiln.db", .threads = 1}).value();
    const auto report = engine.tune(kTuned, test::few(12));
    ASSERT_TRUE(report) << report.error().message;
    const auto race = engine.plan(kTuned)->library_race();
    ASSERT_TRUE(race);
    EXPECT_GT(race->library_ns, 2 * race->kernel_ns) << "the library is a plain loop";
  }

  TempDir dir_;
};

TEST_F(BlasHook, WithoutATunedShapeEveryCallIsPassedOn) {
  const Ran ran = run("products");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(ran.output, "18 calls\n");
}

TEST_F(BlasHook, AShapeThatWonItsRaceIsServed) {
  tune();
  const Ran ran = run("products");
  EXPECT_EQ(ran.status, 0) << ran.output;
  // Row-major 96×80×64, and the column-major products that are the same one: 80×96×64, twice.
  EXPECT_EQ(ran.output, "15 calls\n");
  EXPECT_EQ(run("one").output, "0 calls\n");
}

TEST_F(BlasHook, AVerdictIsOfANumberOfThreads) {
  tune();
  EXPECT_EQ(run("two threads").output, "1 calls\n");
}

TEST_F(BlasHook, OtherNamesArePassedOnWithAllTheirArguments) {
  const Ran ran = run("others");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(ran.output, "3 calls\n");
}

TEST_F(BlasHook, WrongArgumentsAreTheLibrarysAffair) {
  const Ran ran = run("mistakes");
  EXPECT_EQ(ran.status, 0) << ran.output;
}

TEST_F(BlasHook, WhatTheLibraryLacksIsComputed) {
  tune();
  const Ran ran = run("wide");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("0 calls\n"));
}

TEST_F(BlasHook, WithoutAlphaNeitherANorBIsRead) {
  const Ran ran = run("without alpha");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("0 calls\n"));
}

TEST_F(BlasHook, ThreadsAndForkedChildrenMayCall) {
  tune();
  for (const char* what : {"threads", "fork"}) {
    const Ran ran = run(what);
    EXPECT_EQ(ran.status, 0) << what << ran.output;
  }
}

TEST_F(BlasHook, CallsThatArePassedOnAreRecorded) {
  const Ran ran = run("products", fmt::format("KILN_RECORD={}", (dir_ / "calls").string()));
  EXPECT_EQ(ran.status, 0) << ran.output;
  std::int64_t calls = 0;
  double ns = 0;
  for (const RecordedCalls& row : read_calls(dir_ / "calls").value())
    if (row.gemm.m == 96 && row.gemm.n == 80 && !row.gemm.a.transposed && !row.gemm.b.transposed)
      calls = row.calls, ns = row.ns_per_call();
  EXPECT_EQ(calls, 3);
  EXPECT_GT(ns, 0);
}

TEST_F(BlasHook, ALibraryThatDoesNotOpenIsReplacedWithAWarning) {
  const Ran ran = run("one", "KILN_BLAS=/no/such/library.so");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("KILN_BLAS = /no/such/library.so"));
  EXPECT_THAT(ran.output, HasSubstr("0 calls\n")) << "another one computed it";
}

}  // namespace kiln::blas_hook_test
