// The compiler in a process of its own: what happens to it costs a compile at most.
#include "runtime/cpu/compile_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cpu/host_compiler.h"
#include "runtime/cpu/kernel.h"
#include "runtime/worker_program.h"
#include "support/child.h"
#include "support/kernel_source.h"
#include "support/worker_script.h"

#ifdef KILN_HAS_LLVM
namespace kiln::compile_server_test {

using testing::HasSubstr;

std::unique_ptr<Compiler> opened(const std::filesystem::path& worker = find_worker().value()) {
  return open_compile_server(worker, host_compiler_paths()).value();
}

bool makes(Compiler& compiler, long long mark) {
  const auto binary = compiler.compile(test::kernel_source("", mark));
  if (!binary) {
    ADD_FAILURE() << binary.error().message;
    return false;
  }
  return HostKernel::load(binary->image)->workspace_bytes(nullptr, 1) == mark;
}

TEST(CompileServer, MakesWhatTheCompilerInThisProcessMakes) {
  const auto here = open_host_compiler(host_compiler_paths()).value();
  const auto there = opened();
  EXPECT_EQ(there->version(), here->version());
  const Source source = test::kernel_source("", 7);
  const auto expected = here->compile(source).value(), made = there->compile(source).value();
  EXPECT_EQ(made.image, expected.image);
  EXPECT_EQ(made.resources.code_bytes, expected.resources.code_bytes);
  EXPECT_EQ(made.log, expected.log);
  EXPECT_EQ(there->assembly(source).value(), here->assembly(source).value());
  const auto wrong = there->compile(test::plain_source("int x = y;"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::compiler);
  EXPECT_EQ(wrong.error().message, here->compile(test::plain_source("int x = y;")).error().message);
}

TEST(CompileServerDeathTest, LoadsNoCompilerIntoTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(makes(*opened(), 1) && !test::is_mapped("libLLVM") ? 3 : 4),
              testing::ExitedWithCode(3), "");
}

TEST(CompileServer, IsStartedAgainWhenItWasKilled) {
  const test::WorkerScript script;
  const auto compiler = opened(script.path());
  EXPECT_TRUE(makes(*compiler, 1));
  script.kill();
  EXPECT_TRUE(makes(*compiler, 2));
  EXPECT_TRUE(makes(*compiler, 3));
}

/// A server that does not answer, as one on a machine that is too busy.
TEST(CompileServer, IsLeftBehindByACompileThatIsStopped) {
  const test::WorkerScript script;
  const auto compiler = opened(script.path());
  script.send(SIGSTOP);
  const Source source = test::kernel_source("", 1);
  std::string said;
  std::jthread waiting([&](const std::stop_token& stop) {
    const auto binary = compiler->compile_unless(stop, source);
    said = binary ? "compiled" : binary.error().message;
  });
  waiting.request_stop();
  waiting.join();
  script.send(SIGCONT);
  EXPECT_THAT(said, HasSubstr("stopped"));
  EXPECT_TRUE(makes(*compiler, 2)) << "by another one";
}

TEST(CompileServer, CostsTheCompileAloneWhereNoMemoryIsLeft) {
  int failed = 0;
  constexpr int kLeastKiB = 50'000, kMostKiB = 800'000, kStepKiB = 50'000;
  for (int limit = kLeastKiB; limit <= kMostKiB; limit += kStepKiB) {
    const test::WorkerScript script("ulimit -v " + std::to_string(limit));
    const auto compiler = open_compile_server(script.path(), host_compiler_paths());
    if (!compiler || !(*compiler)->compile(test::kernel_source("", limit))) ++failed;
  }
  EXPECT_GT(failed, 0);
  EXPECT_TRUE(makes(*opened(), 4));
}

void no_handler(int) {}

TEST(CompileServer, LeavesTheHandlersOfSignalsAlone) {
  struct sigaction mine {
  }, before{};
  mine.sa_handler = no_handler;
  ::sigaction(SIGSEGV, &mine, &before);
  const auto compiler = opened();
  std::atomic<bool> ended{false};
  bool kept = true;
  std::thread compiling([&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(makes(*compiler, i));
    ended = true;
  });
  while (!ended) {
    struct sigaction now {};
    ::sigaction(SIGSEGV, nullptr, &now);
    kept = kept && now.sa_handler == no_handler;
  }
  compiling.join();
  ::sigaction(SIGSEGV, &before, nullptr);
  EXPECT_TRUE(kept);
}

TEST(CompileServer, OfAForkedChildIsItsOwn) {
  const auto compiler = opened();
  EXPECT_TRUE(makes(*compiler, 1));
  EXPECT_TRUE(test::in_child([&] { return makes(*compiler, 2); }));
  EXPECT_TRUE(makes(*compiler, 3));
}

TEST(CompileServer, LeavesNoChildToWaitFor) {
  EXPECT_TRUE(test::in_child([] {
    const auto compiler = opened();
    return makes(*compiler, 1) && ::waitpid(-1, nullptr, 0) == -1 && errno == ECHILD;
  }));
}

TEST(CompileServer, SaysWhatItCouldNotOpen) {
  const auto none = open_compile_server(find_worker().value(), {"/nowhere/libkiln_clang.so"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::compiler);
  EXPECT_THAT(none.error().message, HasSubstr("/nowhere/libkiln_clang.so: cannot open"));
  EXPECT_EQ(open_compile_server("/nowhere/kiln-worker", host_compiler_paths()).error().code,
            ErrorCode::device);
}

}  // namespace kiln::compile_server_test
#endif
