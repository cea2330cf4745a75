// One database, several processes: everything arrives, nothing breaks, a killed writer leaves it
// sound, and what cannot be written stops nobody.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "cache/record.h"
#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "cache/store.h"
#include "engine/engine_impl.h"
#include "generator/families/cpu/packed/config.h"
#include "runtime/cpu/compile_server.h"
#include "support/child.h"
#include "support/fake_evaluator.h"
#include "support/permissions.h"
#include "support/temp_dir.h"

namespace kiln::concurrency_test {

constexpr int kProcesses = 8;
constexpr int kProblems = 6;
const Validators kNow{.template_hash = "t1", .compiler = "clang 22", .runtime = "r1"};

BestKey key_of(std::int64_t m) {
  BestKey key;
  key.device = cpu_caps_named("avx2").value();
  key.gemm = Gemm::row_major(m, 8, 8);
  key.policy = "cold-v1";
  return key;
}

Measured timed(int mr) {
  HostPacked config;
  config.mr = mr;
  Measured measured;
  measured.config = config;
  measured.outcome = Timing{.median_ns = 100.0 + mr, .low_ns = 1, .high_ns = 200, .samples = 9};
  measured.verified = true;
  measured.binary_key = fmt::format("b{}", mr);
  return measured;
}

StoredBinary code_of(int mr) {
  StoredBinary binary{.key = fmt::format("b{}", mr), .code_key = "s", .compiler = "clang 22"};
  binary.image.assign(3000, static_cast<std::byte>(mr));
  return binary;
}

bool write_and_read(const std::filesystem::path& file, int who) {
  auto store = Store::open({.database = file});
  if (!store) throw std::runtime_error(store.error().message);
  for (int i = 0; i < kProblems; ++i) {
    for (const Status& done :
         {(*store)->measurements().put(key_of(i + 1), kNow, timed(who)),
          (*store)->binaries().put(code_of(who)),
          (*store)->winners().make_winner(key_of(i + 1), kNow, timed(who).config)})
      if (!done) throw std::runtime_error(done.error().message);
    const auto record = (*store)->winners().best(key_of(i + 1), kNow);
    if (!record || record->image.size() != 3000) throw std::runtime_error("lost a winner");
  }
  return true;
}

TEST(Processes, EightWriteAndReadOneFile) {
  TempDir dir;
  pid_t children[kProcesses];
  for (int who = 0; who < kProcesses; ++who)
    children[who] = test::start_child([&] { return write_and_read(dir / "kiln.db", who + 1); });
  for (const pid_t child : children) EXPECT_TRUE(test::wait_for(child));
  auto store = Store::open({.database = dir / "kiln.db"});
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_TRUE((*store)->maintenance().check(false)->ok());
  const StoreStats stats = (*store)->maintenance().stats()->front();
  EXPECT_EQ(stats.measurements, kProcesses * kProblems);
  EXPECT_EQ(stats.winners, kProblems);
  EXPECT_EQ(stats.binaries, kProcesses);
}

/// Whoever comes while another makes the file sees none of it, or all.
TEST(Threads, ManyMakeOneFileAtOnce) {
  TempDir dir;
  for (int round = 0; round < 60; ++round) {
    const auto file = dir / fmt::format("kiln{}.db", round);
    std::atomic<int> ready{0};
    std::array<std::string, 6> errors;
    std::vector<std::thread> threads;
    for (std::string& error : errors)
      threads.emplace_back([&] {
        for (++ready; ready < static_cast<int>(errors.size());) std::this_thread::yield();
        if (const auto store = Store::open({.database = file}); !store)
          error = store.error().message;
      });
    for (auto& thread : threads) thread.join();
    for (const std::string& error : errors) ASSERT_EQ(error, "") << "round " << round;
  }
}

TEST(Processes, AKilledWriterLeavesItSound) {
  TempDir dir;
  for (int round = 0; round < 4; ++round) {
    const pid_t child = test::start_child([&] {
      for (int who = 1;; ++who) write_and_read(dir / "kiln.db", who);
      return true;
    });
    // clock: any moment will do
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + 40 * round));
    ::kill(child, SIGKILL);
    EXPECT_FALSE(test::wait_for(child));
    auto store = Store::open({.database = dir / "kiln.db"});
    ASSERT_TRUE(store) << store.error().message;
    const auto report = (*store)->maintenance().check(false);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->ok()) << testing::PrintToString(report->problems);
    EXPECT_TRUE(write_and_read(dir / "kiln.db", 1000));
  }
}

/// Tunes in `database` without measuring, runs the product; the warnings that tune() gave.
std::vector<std::string> tune_and_run(const std::filesystem::path& database) {
  auto engine = Engine::open({.database = database, .threads = 1});
  if (!engine) throw std::runtime_error(engine.error().message);
  engine->impl().tuning.make_evaluator = test::fake_bench;
  const Gemm gemm = Gemm::row_major(4, 4, 4);
  const auto report = engine->tune(gemm);
  if (!report) throw std::runtime_error(report.error().message);
  if (engine->plan(gemm)->match() != Match::exact) throw std::runtime_error("no exact plan");
  float a[16], b[16], d[16] = {};
  std::fill_n(a, 16, 1.0f);
  std::fill_n(b, 16, 2.0f);
  if (const Status done = engine->gemm(gemm, {.a = a, .b = b, .d = d}); !done)
    throw std::runtime_error(done.error().message);
  if (d[0] != 8.0f || d[15] != 8.0f) throw std::runtime_error("wrong result");
  return report->warnings;
}

bool warned_of(const std::vector<std::string>& warnings, const std::filesystem::path& file) {
  for (const std::string& warning : warnings)
    if (warning.find(file.string()) == std::string::npos)
      throw std::runtime_error("names no file: " + warning);
  return !warnings.empty();
}

TEST(CannotWrite, AReadOnlyFileStopsNobody) {
  TempDir dir;
  { ASSERT_TRUE(Store::open({.database = dir / "kiln.db"})); }
  ::chmod(dir.path().c_str(), 0555);
  ::chmod((dir / "kiln.db").c_str(), 0444);
  EXPECT_TRUE(test::in_child([&] {
    return test::obey_permissions() && warned_of(tune_and_run(dir / "kiln.db"), dir / "kiln.db");
  }));
  ::chmod(dir.path().c_str(), 0755);
}

TEST(CannotWrite, AFullDiskStopsNobody) {
  TempDir dir;
  { ASSERT_TRUE(Store::open({.database = dir / "kiln.db"})); }
  const pid_t child = test::start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);  // then a write past the limit fails as on a full disk
    const rlimit full{.rlim_cur = 8192, .rlim_max = RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &full) != 0) return false;
    auto store = Store::open({.database = dir / "kiln.db"});
    if (!store) return store.error().message.find("kiln.db") != std::string::npos;
    const Status put = (*store)->binaries().put([] {
      StoredBinary binary{.key = "k", .code_key = "s", .compiler = "c"};
      for (int i = 0; i < 200000; ++i) binary.image.push_back(static_cast<std::byte>(i * i >> 3));
      return binary;
    }());
    return !put && put.error().message.find("kiln.db") != std::string::npos;
  });
  EXPECT_TRUE(test::wait_for(child));
  auto store = Store::open({.database = dir / "kiln.db"});
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_TRUE((*store)->maintenance().check(false)->ok());
}

/// Whether `body` starts the compiler, here or in a process of its own.
template <typename F>
bool compiles(F&& body) {
  const int before = compile_servers_started();
  body();
  return compile_servers_started() > before || test::is_mapped("libkiln_clang");
}

TEST(Fresh, ASecondProcessRunsFromTheFileAndLoadsNoCompiler) {
  TempDir dir;
  ASSERT_TRUE(test::in_child([&] {
    bool ran = false;
    return compiles([&] { ran = tune_and_run(dir / "kiln.db").empty(); }) && ran;
  }));
  EXPECT_TRUE(test::in_child([&] {
    const int servers = compile_servers_started();
    auto engine =
        Engine::open({.database = dir / "kiln.db", .policy = Policy::error, .threads = 1});
    if (!engine) throw std::runtime_error(engine.error().message);
    float a[16], b[16], d[16] = {};
    std::fill_n(a, 16, 1.0f);
    std::fill_n(b, 16, 2.0f);
    const Status done = engine->gemm(Gemm::row_major(4, 4, 4), {.a = a, .b = b, .d = d});
    if (!done) throw std::runtime_error(done.error().message);
    for (const char* library : {"libLLVM", "libclang", "libkiln_clang"})
      if (test::is_mapped(library)) throw std::runtime_error(std::string(library) + " is loaded");
    if (compile_servers_started() != servers) throw std::runtime_error("a compiler was started");
    return d[0] == 8.0f && d[15] == 8.0f;
  }));
}

TEST(Fresh, AMissOfAnEarlierProcessIsNotCompiledAgain) {
  TempDir dir;
  const auto run = [&] {
    auto engine = Engine::open(
        {.database = dir / "kiln.db", .threads = 1, .on_untuned = [](const std::string&) {}});
    const auto plan = engine->plan(Gemm::row_major(5, 6, 7));
    return plan && plan->match() == Match::model;
  };
  bool ran = false;
  const auto once = [&] { ran = run(); };
  EXPECT_TRUE(test::in_child([&] { return compiles(once) && ran; }));
  EXPECT_TRUE(test::in_child([&] { return !compiles(once) && ran; }));
}

TEST(Fresh, WithoutACompilerTheReferenceKernelRuns) {
  TempDir dir;
  EXPECT_TRUE(test::in_child([&] {
    ::setenv("KILN_CLANG", "/no/such/compiler.so", 1);
    std::vector<std::string> said;
    auto engine = Engine::open({.database = dir / "kiln.db",
                                .on_untuned = [&](const std::string& s) { said.push_back(s); }});
    const Gemm gemm = Gemm::row_major(4, 4, 4);
    float a[16], b[16], d[16] = {};
    std::fill_n(a, 16, 1.0f);
    std::fill_n(b, 16, 2.0f);
    if (!engine->gemm(gemm, {.a = a, .b = b, .d = d}) || d[15] != 8.0f) return false;
    const auto packed = engine->pack_b(gemm, b);
    if (!engine->gemm(gemm.with_packed_b(), {.a = b, .packed_b = &*packed, .d = d})) return false;
    const auto tuned = engine->tune(gemm);
    return d[15] == 16.0f && engine->plan(gemm)->match() == Match::reference && said.size() == 2 &&
           !tuned && tuned.error().code == ErrorCode::compiler &&
           tuned.error().message.find("/no/such/compiler.so") != std::string::npos;
  }));
}

}  // namespace kiln::concurrency_test
