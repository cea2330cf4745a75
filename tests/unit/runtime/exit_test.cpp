// exit() while other threads are inside of kiln: they go on, or get an error, and nothing they read
// is destroyed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "generator/problem/spelling.h"
#include "generator/render/render.h"
#include "generator/space/space.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/exit_gate.h"
#include "support/eventually.h"
#include "support/few.h"
#include "support/kernel_source.h"
#include "support/paths.h"

namespace kiln::exit_test {

/// Objects with a destructor are registered with __cxa_atexit; a thread may read them later.
TEST(Exit, DestroysNoTableOfTheLibrary) {
  const std::string command =
      "nm -A -u " + test::build_dir() + "/libkiln.a | grep -F __cxa_atexit; exit 0";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  ASSERT_NE(pipe, nullptr);
  std::string found;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get()))
    found += static_cast<char>(c);
  EXPECT_EQ(found, "") << "write `static auto& table = *new T(...)` there";
}

std::atomic<int> turns{0};
std::atomic<bool> refused{false};

/// Work of all layers: keys and rules, plans, searches, compiles, the database.
void work_for_ever() {
  auto engine = Engine::open({.database = ":memory:", .threads = 1}).value();
  const std::vector<float> a(64 * 64, 1), b(64 * 64, 1);
  std::vector<float> d(64 * 64);
  for (int turn = 0;; ++turn) {
    const Gemm gemm = Gemm::row_major(1 + turn % 64, 24, 24);
    if (!engine.tune(gemm, test::few(1, 1))) refused = true;
    if (!engine.gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data()})) refused = true;
    if (!engine.explain(gemm)) refused = true;
    ++turns;
  }
}

/// Runs after all that kiln registers to run at exit().
void watch_two_more_turns() {
  const int before = turns;
  test::eventually([&] { return turns >= before + 2; });
}

TEST(ExitDeathTest, LetsThreadsInsideOfKilnGoOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        test::end_when_hung();
        std::atexit(watch_two_more_turns);
        std::thread(work_for_ever).detach();
        test::eventually([] { return turns >= 1; });
        std::exit(refused ? 2 : 3);
      },
      testing::ExitedWithCode(3), "");
}

/// In this process.
Compiler& compiler_here() {
  static Compiler& opened = *open_host_compiler(host_compiler_paths()).value().release();
  return opened;
}

void compile_once_more() {
  const auto after = compiler_here().compile(test::kernel_source("", 1));
  std::fputs(after ? "compiled" : after.error().message.c_str(), stderr);
}

TEST(ExitDeathTest, CompilesNothingOnceLibrariesEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit(compile_once_more);
        compiler_here();
        std::exit(3);
      },
      testing::ExitedWithCode(3), "not compiled: the process is ending");
}

TEST(ExitDeathTest, WaitsForWhoIsInsideOfALibrary) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        test::end_when_hung();
        std::atexit([] { std::fputs(refused ? "left" : "inside", stderr); });
        ExitGate::guard_opened_library();
        std::atomic<bool> inside{false};
        std::thread([&inside] {
          const ExitGate gate;
          inside = true;
          test::eventually([] { return ExitGate::ending(); });
          refused = true;
        }).detach();
        test::eventually([&] { return inside.load(); });
        std::exit(3);
      },
      testing::ExitedWithCode(3), "^left$");
}

TEST(ExitDeathTest, IsWaitedForBeforeExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        test::end_when_hung();
        std::atomic<bool> inside{false};
        std::thread([&inside] {
          const ExitGate gate;
          inside = true;
          test::eventually([] { return ExitGate::ending(); });
          refused = true;
        }).detach();
        test::eventually([&] { return inside.load(); });
        ExitGate::close();
        std::_Exit(refused && !ExitGate().open() ? 3 : 2);
      },
      testing::ExitedWithCode(3), "");
}

// NVRTC registers what exit() ends in its first compile: that went while others compiled, which
// crashed or hung.
TEST(ExitDeathTest, WaitsForNvrtc) {
  const auto nvrtc = backend_of(Vendor::nvidia).compiler();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceCaps device = cuda_caps_named("sm_90a").value();
  const Gemm gemm = with_defaults_of(parse_gemm("bf16 N T 4096 4096 4096").value(), device);
  const Config config = space_for(Problem::of(gemm).value(), device).value().legal.front();
  const Source source = render(Problem::of(gemm).value(), device, config).value();
  for (const int ms : {30, 300})
    EXPECT_EXIT(
        {
          test::end_when_hung();
          static_cast<void>((*nvrtc)->compile({.text = "", .file_name = "none.cu"}));
          for (int i = 0; i < 3; ++i)
            std::thread([&] { static_cast<void>((*nvrtc)->compile(source)); }).detach();
          // clock: at some moment of these compiles
          std::this_thread::sleep_for(std::chrono::milliseconds(ms));
          std::exit(3);
        },
        testing::ExitedWithCode(3), "")
        << ms;
}

}  // namespace kiln::exit_test
