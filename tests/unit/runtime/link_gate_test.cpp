// The linker's global state: one run at a time, and none after a run that left it behind.
#include "runtime/clang/link_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace kiln::clang_side::link_gate_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(LinkGate, AnOrdinaryErrorEndsOneLink) {
  LinkGate gate;
  std::string text = "undefined symbol: f";
  EXPECT_EQ(gate.pass(text, [] { return LinkerRun{1, true}; }), "link: undefined symbol: f");
  EXPECT_EQ(gate.pass(text, [] { return LinkerRun{0, true}; }), "");
}

TEST(LinkGate, AfterARunThatCannotBeRepeatedNoneFollows) {
  for (const int code : {0, 1}) {
    LinkGate gate;
    std::string text = "section table goes past the end of file";
    EXPECT_EQ(gate.pass(text, [&] { return LinkerRun{code, false}; }), "link: " + text);
    int calls = 0;
    std::string fresh;
    const std::string error = gate.pass(fresh, [&] { return ++calls, LinkerRun{0, true}; });
    EXPECT_EQ(calls, 0);
    EXPECT_THAT(error, AllOf(HasSubstr("cannot run again"), HasSubstr(text)));
  }
}

TEST(LinkGate, RunsTakeTurns) {
  LinkGate gate;
  std::atomic<int> inside{0}, together{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        std::string text;
        gate.pass(text, [&] {
          together += inside++ > 0;
          std::this_thread::yield();
          --inside;
          return LinkerRun{};
        });
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, 0);
}

}  // namespace kiln::clang_side::link_gate_test
