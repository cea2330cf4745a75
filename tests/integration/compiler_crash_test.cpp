// Fatal errors and crashes inside the compiler: each costs one compile and nothing else. Without a
// compiler in the build there is nothing to crash, and no test here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "support/host_compiler.h"
#include "support/kernel_source.h"

#if defined(__SANITIZE_ADDRESS__)
// A compile that crashes leaks what it held, which is the price of going on; these tests crash it
// on purpose. Leaks of compiles that end are looked for in compiler_test.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

#if defined(__SANITIZE_THREAD__)
// Recovery jumps out of the signal's handler; the sanitizer takes all that follows for part of it.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "report_signal_unsafe=0";
}
#endif

#ifdef KILN_HAS_LLVM

namespace kiln {
namespace {

using test::compiler;
using test::expect_still_works;
using test::failure;
using test::with_flags;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CompilerCrashTest, SurvivesAFatalErrorOfTheBackEnd) {
  // The frame lowering of split stacks has no way to report this but to end the process.
  const auto source = with_flags(
      test::plain_source("extern \"C\" void g(char*);\n"
                         "extern \"C\" void f(int n, ...) { char b[1000]; g(b + n); }\n"),
      {"-fsplit-stack"});
  EXPECT_THAT(failure(source), HasSubstr("vararg"));
  expect_still_works(12);
  EXPECT_FALSE(compiler().assembly(source));
  expect_still_works(13);
}

TEST(CompilerCrashTest, SurvivesACrash) {
  EXPECT_THAT(failure(test::plain_source("#pragma clang __debug crash\n")),
              HasSubstr("the compiler crashed"));
  expect_still_works(14);
  EXPECT_THAT(failure(test::plain_source("#pragma clang __debug llvm_fatal_error\n")),
              HasSubstr("fatal error in the compiler"));
  expect_still_works(15);
}

TEST(CompilerCrashTest, CrashesCostOnlyTheirOwnThread) {
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([t, &errors] {
      for (int i = 0; i < 6; ++i) {
        if (t == 0 && !compiler().compile(test::plain_source("#pragma clang __debug crash\n")))
          continue;
        const auto good = compiler().compile(test::kernel_source("", i));
        if (!good) errors[t] = good.error().message;
        if (t == 0) errors[t] = "a crash compiled";
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(errors, ::testing::Each(IsEmpty()));
}

// LLVM lists objects of a crashed compile's stack for good. Unmapping that stack made a later
// compile fault under LLVM's own lock, and the one after it wait forever. Eight at once are more
// stacks than the C library keeps for reuse.
TEST(CompilerCrashTest, WhatACrashLeavesBehindStaysMapped) {
  std::vector<std::string> errors(8);
  const auto all_at_once = [&](bool crash) {
    std::vector<std::thread> threads;
    for (size_t t = 0; t < errors.size(); ++t)
      threads.emplace_back([t, crash, &errors] {
        const auto source = crash ? test::plain_source("#pragma clang __debug crash\n")
                                  : test::kernel_source("", static_cast<long long>(t));
        const auto binary = compiler().compile(source);
        if (binary.has_value() == crash)
          errors[t] = crash ? "a crash compiled" : binary.error().message;
      });
    for (auto& thread : threads) thread.join();
  };
  for (int round = 0; round < 3; ++round) {
    all_at_once(true);
    all_at_once(false);
  }
  EXPECT_THAT(errors, ::testing::Each(IsEmpty()));
}

TEST(CompilerCrashTest, TheProcessKeepsItsSignalHandlers) {
  struct sigaction before {
  }, after{}, ours{};
  ours.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGSEGV, &ours, &before), 0);
  expect_still_works(16);
  EXPECT_THAT(failure(test::plain_source("#pragma clang __debug crash\n")), HasSubstr("crashed"));
  ASSERT_EQ(sigaction(SIGSEGV, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, ours.sa_handler);
}

}  // namespace
}  // namespace kiln

#endif  // KILN_HAS_LLVM
