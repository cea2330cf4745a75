// How many cores a process may use, and which: masks of threads, control groups, and what changes
// while it runs.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_impl.h"
#include "runtime/cpu/affinity.h"
#include "runtime/cpu/thread_pool.h"
#include "support/child.h"
#include "support/eventually.h"
#include "support/temp_dir.h"

namespace kiln::cores_test {

using testing::ElementsAre;

constexpr double kNone = std::numeric_limits<double>::infinity();

TEST(Cores, AreThoseOfAnyThread) {
  EXPECT_THAT(process_cpus({{3}}, {}), ElementsAre(3));
  EXPECT_THAT(process_cpus({{0}, {0, 1, 2}, {}}, {}), ElementsAre(0, 1, 2)) << "one is pinned";
  EXPECT_THAT(process_cpus({{1}}, {0, 1, 2, 3}), ElementsAre(0, 1, 2, 3))
      << "OMP_PROC_BIND pins the main thread, and its places say where others may go";
  EXPECT_THAT(process_cpus({}, {}), ElementsAre(0)) << "never none";
}

/// Control groups as files.
struct Groups {
  explicit Groups(const std::string& of_process) { write("proc/self/cgroup", of_process); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text << '\n';
  }
  double quota() const { return cpu_quota(root.path()); }
  TempDir root;
};

TEST(Cores, AreLimitedByTheQuotaOfTheSecondVersion) {
  Groups groups("0::/app/inner\n");
  EXPECT_EQ(groups.quota(), kNone) << "no file";
  groups.write("sys/fs/cgroup/app/inner/cpu.max", "max 100000");
  EXPECT_EQ(groups.quota(), kNone);
  groups.write("sys/fs/cgroup/app/inner/cpu.max", "250000 100000");
  EXPECT_EQ(groups.quota(), 2.5);
  groups.write("sys/fs/cgroup/app/cpu.max", "100000 100000");
  EXPECT_EQ(groups.quota(), 1) << "a group above it";
  groups.write("sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(groups.quota(), 0.5) << "a container's own, at the top";
  groups.write("sys/fs/cgroup/cpu.max", "nonsense");
  EXPECT_EQ(groups.quota(), 1);
}

TEST(Cores, AreLimitedByTheQuotaOfTheFirstVersion) {
  for (const std::string folder : {"cpu", "cpu,cpuacct"}) {
    Groups groups("5:memory:/app\n4:cpu,cpuacct:/app\n");
    const std::string path = "sys/fs/cgroup/" + folder + "/app/";
    groups.write(path + "cpu.cfs_quota_us", "-1");
    groups.write(path + "cpu.cfs_period_us", "100000");
    EXPECT_EQ(groups.quota(), kNone);
    groups.write(path + "cpu.cfs_quota_us", "300000");
    EXPECT_EQ(groups.quota(), 3) << folder;
  }
}

TEST(Cores, ThreadsAreWhatTheQuotaPaysFor) {
  EXPECT_EQ(threads_for(4, kNone), 4);
  EXPECT_EQ(threads_for(4, 8), 4);
  EXPECT_EQ(threads_for(4, 4), 4);
  EXPECT_EQ(threads_for(4, 2.6), 3);
  EXPECT_EQ(threads_for(4, 1.2), 1);
  EXPECT_EQ(threads_for(2, 1), 1);
  EXPECT_EQ(threads_for(2, 0.1), 1) << "never none";
}

std::vector<int> mask_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(thread, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void confine(pid_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(thread, sizeof set, &set);
}

void for_each_thread(const std::function<void(pid_t)>& f) {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), ::closedir);
  while (const dirent* entry = ::readdir(tasks.get()))
    if (const pid_t thread = std::atoi(entry->d_name); thread > 0) f(thread);
}

/// As `taskset -ap` does.
void confine_all(int cpu) {
  for_each_thread([&](pid_t thread) { confine(thread, cpu); });
}

/// Runs `body` with the first two CPUs of this process, in a child; true where there is one alone.
bool with_two(const std::function<bool(int, int)>& body) {
  const std::vector<int> cpus = mask_of(0);
  if (cpus.size() < 2) return true;
  return test::in_child([&] {
    test::end_when_hung();
    return body(cpus[0], cpus[1]);
  });
}

TEST(Cores, OfAProcessWhoseMainThreadIsPinned) {
  EXPECT_TRUE(with_two([](int one, int) {
    const std::size_t all = process_cpus().size();
    std::atomic<bool> over{false};
    std::jthread other([&] { test::eventually([&] { return over.load(); }); });
    confine(0, one);
    const bool whole = process_cpus().size() == all;
    {
      const WholeMask mask;
      if (mask_of(0).size() != all) return false;
    }
    const bool pinned_again = mask_of(0) == std::vector{one};
    confine_all(one);
    const bool narrow = process_cpus() == std::vector{one};
    over = true;
    return whole && pinned_again && narrow;
  }));
}

// ThreadSanitizer ends a child that starts threads after a fork of several, whoever is right.
#if !defined(__SANITIZE_THREAD__)
TEST(Cores, ThreadsOfThePoolStayWhereTheyWereTold) {
  EXPECT_TRUE(with_two([](int one, int other) {
    std::atomic<pid_t> helper{0};
    const auto call = [&] {
      parallel(2, [&](int thread, int) {
        if (thread == 1) helper = static_cast<pid_t>(::syscall(SYS_gettid));
      });
    };
    call();
    for (const int cpu : {one, other, one}) {
      confine_all(cpu);
      for (int i = 0; i < 5000; ++i) call();  // more than between two looks at the masks
      if (mask_of(helper) != std::vector{cpu}) return false;
    }
    return true;
  }));
}

TEST(Cores, ADefaultFollowsTheProcess) {
  EXPECT_TRUE(with_two([](int one, int) {
    auto engine = Engine::open({.database = ":memory:", .on_untuned = [](const std::string&) {}});
    if (!engine) return false;
    const int before = engine->impl().default_threads(), most = engine->impl().device.compute_units;
    confine_all(one);
    const auto multiplies = [&](int n, int threads) {
      const std::vector<float> a(static_cast<std::size_t>(n * n), 1);
      std::vector<float> d(static_cast<std::size_t>(n * n));
      const Status ran =
          engine->gemm(Gemm::row_major(n, n, n),
                       {.a = a.data(), .b = a.data(), .d = d.data(), .threads = threads});
      return ran && d.back() == static_cast<float>(n);
    };
    return multiplies(33, 0) && multiplies(34, 0) && engine->impl().default_threads() == 1 &&
           before >= 1 && multiplies(35, most);  // what was allowed stays so
  }));
}
#endif

}  // namespace kiln::cores_test
