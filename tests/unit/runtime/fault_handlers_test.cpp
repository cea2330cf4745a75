// The compiler's crash recovery and the emulator's watch take the same signals: neither may lose
// its handler to the other.
#include "runtime/fault_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cpu/host_compiler.h"
#include "runtime/emulator/fault.h"
#include "support/child.h"
#include "support/kernel_source.h"

namespace kiln::fault_handlers_test {

using namespace std::chrono_literals;

void* handler_of(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return reinterpret_cast<void*>(action.sa_sigaction);
}

TEST(FaultHandlers, OneSideAtATimeManyOfOneSide) {
  std::atomic<int> compiling{0}, emulating{0}, mixed{0}, together{0};
  const auto take = [&](FaultSide side) {
    auto& mine = side == FaultSide::compiler ? compiling : emulating;
    auto& other = side == FaultSide::compiler ? emulating : compiling;
    for (int i = 0; i < 300; ++i) {
      const FaultHandlers turn(side);
      if (++mine > 1) ++together;
      std::this_thread::sleep_for(20us);  // clock: only so that others come between
      mixed += other.load() > 0;
      --mine;
    }
  };
  std::vector<std::thread> threads;
  for (const FaultSide side : {FaultSide::compiler, FaultSide::emulator})
    for (int i = 0; i < 3; ++i) threads.emplace_back(take, side);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(together, 0) << "those of one side need not wait for each other";
}

/// Or the emulator would starve beside a long search.
TEST(FaultHandlers, ASideThatWaitsGoesBeforeNewcomersOfTheOther) {
  auto first = std::make_unique<FaultHandlers>(FaultSide::compiler);
  auto emulator = std::async(std::launch::async, [] { FaultHandlers turn(FaultSide::emulator); });
  // clock: what must not happen, does not happen later either
  EXPECT_EQ(emulator.wait_for(100ms), std::future_status::timeout);
  auto late = std::async(std::launch::async, [] { FaultHandlers turn(FaultSide::compiler); });
  // clock: what must not happen, does not happen later either
  EXPECT_EQ(late.wait_for(100ms), std::future_status::timeout);
  first.reset();
  emulator.get();
  late.get();
}

#ifdef KILN_HAS_LLVM

/// Before there were turns, the end of the compile put back the handlers of before the watch: the
/// next fault of an emulated kernel then ended the process.
TEST(FaultHandlers, AWatchMadeWhileAnotherThreadCompilesLasts) {
  EXPECT_TRUE(test::in_child([] {
    const auto opened = open_host_compiler(host_compiler_paths());  // in this process
    if (!opened) throw std::runtime_error(opened.error().message);
    void* const at_first = handler_of(SIGSEGV);
    std::string slow;
    for (int i = 0; i < 400; ++i)
      slow += "extern \"C\" double f" + std::to_string(i) +
              "(double x) { for (int i = 0; i < 64; ++i) x = x * x + i; return x; }\n";
    std::atomic<bool> over{false};
    std::thread other([&] {
      (void)(*opened)->compile(test::plain_source(slow));
      over = true;
    });
    // Until LLVM's handler is installed.
    while (handler_of(SIGSEGV) == at_first && !over) std::this_thread::yield();
    if (over) throw std::runtime_error("the compile was too short to be met");
    { const emu::FaultWatch watch; }
    other.join();
    void* const watching = handler_of(SIGSEGV);
    const emu::FaultWatch again;
    return watching != at_first && handler_of(SIGSEGV) == watching;
  }));
}

#endif

}  // namespace kiln::fault_handlers_test
