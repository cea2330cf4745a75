// A log callback may call kiln: nothing is told while kiln holds a lock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "engine/engine_impl.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/log.h"
#include "runtime/quiet_lock.h"
#include "support/child.h"
#include "support/eventually.h"
#include "support/few.h"
#include "support/no_descriptors.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace kiln::log_reentry_test {

namespace fs = std::filesystem;
using testing::ElementsAre;

bool multiplies(Engine& engine, int n) {
  const std::vector<float> a(static_cast<std::size_t>(n * n), 1);
  std::vector<float> d(static_cast<std::size_t>(n * n));
  const auto ran =
      engine.gemm(Gemm::row_major(n, n, n), {.a = a.data(), .b = a.data(), .d = d.data()});
  return ran && d.front() == static_cast<float>(n);
}

/// What a callback may do: read and write all that the engine guards.
bool use_all_of(Engine& engine) {
  return multiplies(engine, 11) && !engine.counted_calls().empty() &&
         engine.impl().store->maintenance().stats().has_value() &&
         engine.explain(Gemm::row_major(7, 7, 7)).has_value();
}

/// Whether `provoke` returned, and the callback, which called kiln, was called by it. In a child,
/// since a deadlock is what this is about.
bool callback_may_call(const std::function<void(Engine&, const TempDir&)>& provoke,
                       const std::string& said, LogLevel level = LogLevel::warn) {
  return test::in_child([&] {
    test::end_when_hung();
    TempDir dir;
    auto engine = Engine::open({.database = dir / "kiln.db",
                                .threads = 1,
                                .on_untuned = [](const std::string&) {},
                                .record = dir / "calls"});
    if (!engine || !multiplies(*engine, 7)) return false;
    std::atomic<bool> heard{false}, worked{true};  // the recorder's thread has messages, too
    static thread_local bool inside = false;
    set_log_level(level);
    set_log([&](LogLevel, std::string_view message) {
      if (inside || message.find(said) == message.npos) return;
      inside = true;
      heard = true;
      if (!use_all_of(*engine)) worked = false;
      inside = false;
    });
    provoke(*engine, dir);
    set_log({});
    return heard && worked;
  });
}

TEST(LogReentry, FromARecorderThatCannotWrite) {
  EXPECT_TRUE(callback_may_call(
      [](Engine& engine, const TempDir& dir) {
        std::ofstream(dir / "calls", std::ios::trunc) << std::string(5000, 'x');
        multiplies(engine, 7);  // the recorder's thread may have written those before
        engine.impl().recorder.flush();
      },
      "recorded calls"));
}

TEST(LogReentry, FromAQuarantine) {
  EXPECT_TRUE(callback_may_call(
      [](Engine& engine, const TempDir&) {
        const auto plan = engine.plan(Gemm::row_major(9, 9, 9));
        const BestKey key = engine.impl().key_of(Gemm::row_major(9, 9, 9), 1);
        const auto built = engine.impl().admission.build(key, *parse_config(plan->config()));
        engine.impl().store->binaries().quarantine(built->binary.key, "by the test");
      },
      "quarantined"));
}

TEST(LogReentry, FromALookUpThatTheMachineRefuses) {
  EXPECT_TRUE(callback_may_call(
      [](Engine& engine, const TempDir&) {
        if (!engine.plan(Gemm::row_major(9, 9, 9))) return;
        auto again = Engine::open({.database = engine.impl().store->path(),
                                   .threads = 1,
                                   .on_untuned = [](const std::string&) {}});
        const test::NoDescriptors none;
        multiplies(*again, 9);
      },
      "memfd_create"));
}

TEST(LogReentry, WhileTheBlasLibraryIsSought) {
  EXPECT_TRUE(test::in_child([] {
    test::end_when_hung();
    ::setenv("KILN_BLAS", "/nowhere/libblas.so", 1);
    bool heard = false;
    set_log([&](LogLevel, std::string_view message) {
      heard = heard || message.find("/nowhere/libblas.so") != message.npos;
      static_cast<void>(blas_library());
    });
    static_cast<void>(blas_library());
    return heard;
  }));
}

TEST(LogReentry, MessagesUnderALockAreToldAfterIt) {
  std::mutex outer, inner;
  std::vector<std::string> told;
  set_log([&](LogLevel, std::string_view message) {
    const bool free = outer.try_lock();  // by this thread it must not be held
    if (free) outer.unlock();
    told.push_back(std::string(message) + (free ? "" : " under the lock"));
  });
  {
    const QuietLock first(outer);
    log::warn("one");
    {
      const QuietLock second(inner);
      log::warn("two");
    }
    EXPECT_THAT(told, ElementsAre());
  }
  log::warn("three");
  set_log({});
  EXPECT_THAT(told, ElementsAre("one", "two", "three"));
}

/// Locks of engine/ and cache/ that are not QuietLocks, each with what makes up for it.
const std::vector<std::string> kPlain = {
    "searching_",  // held for a whole search; tune() from a callback of its thread is refused
    "mutex_",      // leaves under which nothing is logged, and the recorder's: log::Deferred
    "mutex",       // of LiveRecorders (log::Deferred), of on_all_cores()
    "live.mutex",  // of LiveRecorders, likewise
    "LiveRecorders::get().mutex",  // likewise
    "reporting_"};                 // of the command's class maker

TEST(LogReentry, EveryOtherLockIsQuiet) {
  static const std::regex lock(R"((?:lock_guard|unique_lock|scoped_lock)[^;(]*\((.*?)\);)");
  int found = 0;
  for (const char* folder : {"engine", "cache"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(test::source_dir()) / folder)) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        std::smatch match;
        if (!std::regex_search(line, match, lock)) continue;
        ++found;
        EXPECT_NE(std::ranges::find(kPlain, match[1].str()), kPlain.end())
            << entry.path() << ": " << line << ": use a QuietLock (runtime/quiet_lock.h)";
      }
    }
  EXPECT_GT(found, 5) << "the scan found too little to mean anything";
}

}  // namespace kiln::log_reentry_test
