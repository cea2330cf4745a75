// What a busy machine takes from a process counts for none of its time limits.
#include "tuner/worker/starvation.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/eventually.h"
#include "tuner/worker/limits.h"

namespace kiln::starvation_test {

/// A child that does `body` until it is killed, on the first core that this process may use.
template <typename F>
pid_t start(F&& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  cpu_set_t mine, first;
  ::sched_getaffinity(0, sizeof mine, &mine);
  CPU_ZERO(&first);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++cpu)
    if (CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &first);
  ::sched_setaffinity(0, sizeof first, &first);
  for (;;) body();
}

TEST(Starvation, GrowsWhereOthersHaveTheCore) {
  const auto spin = [] { asm volatile(""); };
  const std::vector<pid_t> children{start(spin), start(spin)};
  const Starvation starved(children[0]);
  test::eventually([&] { return starved.ns() > 0; });
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(starved.ns(), 0) << "of a process that is gone";
}

TEST(Patience, IsAFactorOfOneOrMore) {
  const char* const before = std::getenv("KILN_PATIENCE");
  const std::string kept = before == nullptr ? "" : before;
  const auto with = [](const char* value) {
    ::setenv("KILN_PATIENCE", value, 1);
    return patience();
  };
  EXPECT_EQ(with("2.5"), 2.5);
  EXPECT_EQ(with("1000"), 1000);
  for (const char* nothing : {"", "0", "-3", "soon", "nan", "0.5"}) EXPECT_EQ(with(nothing), 1);
  ::unsetenv("KILN_PATIENCE");
  EXPECT_EQ(patience(), 1);
  if (!kept.empty()) ::setenv("KILN_PATIENCE", kept.c_str(), 1);
}

}  // namespace kiln::starvation_test
