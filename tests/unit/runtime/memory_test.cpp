// How much memory is left, read from files of the test's own; and that what cannot fit is refused
// before anything is allocated.
#include "runtime/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "support/temp_dir.h"
#include "tuner/measure/operand_sets.h"
#include "tuner/search/search.h"
#include "tuner/verify/verify.h"
#include "tuner/worker/check.h"
#include "tuner/worker/limits.h"

namespace kiln::memory_test {

using ::testing::HasSubstr;

class MemoryTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const auto file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::int64_t available() const { return available_memory(root_.path()); }

  TempDir root_;
};

TEST_F(MemoryTest, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(available(), std::numeric_limits<std::int64_t>::max()) << "nothing is told";
  put("proc/meminfo",
      "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    700 kB\nCached: 1 kB\n");
  EXPECT_EQ(available(), 700 * 1024);
}

TEST_F(MemoryTest, IsWhatTheTightestGroupLeaves) {
  put("proc/meminfo", "MemAvailable: 700000 kB\n");
  put("proc/self/cgroup", "0::/user/job\n");
  put("sys/fs/cgroup/user/job/memory.max", "max\n");
  put("sys/fs/cgroup/user/job/memory.current", "500\n");
  EXPECT_EQ(available(), 700000 * 1024) << "no limit";
  put("sys/fs/cgroup/user/memory.max", "9000\n");
  put("sys/fs/cgroup/user/memory.current", "4000\n");
  EXPECT_EQ(available(), 5000);
  put("sys/fs/cgroup/user/memory.stat", "anon 3\nactive_file 70\ninactive_file 1500\n");
  EXPECT_EQ(available(), 6500) << "file pages that the kernel would drop";
  put("sys/fs/cgroup/user/memory.current", "10000\n");
  put("sys/fs/cgroup/user/memory.stat", "inactive_file 0\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(MemoryTest, KnowsTheFirstVersionOfGroups) {
  put("proc/meminfo", "MemAvailable: 700000 kB\n");
  put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/unseen\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
  put("sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 100\n");
  EXPECT_EQ(available(), 5100);
}

TEST(RoomFor, NamesBothSizes) {
  EXPECT_TRUE(room_for(100, 100, "operands"));
  const auto refused = room_for(3e12, 24'000'000'000, "operands of 'x'");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::device);
  EXPECT_EQ(refused.error().message,
            "operands of 'x' need 3000.0 GB of memory (3000000000000 bytes), and 24.0 GB are "
            "available (24000000000 bytes)");
}

TEST(Memory, OfThisMachineIsKnown) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_LT(available_memory(), std::int64_t{1} << 50);
}

// D alone is 4 TB. Every address space but that of a sanitizer would take it, page by page.
const Gemm kImpossible = Gemm::row_major(1048576, 1048576, 1024);

/// Nothing here gets as far as a compile.
class NoCompiler : public Compiler {
 public:
  Result<Binary> compile(const Source&) override { return fail(ErrorCode::compiler, "asked"); }
  Result<std::string> assembly(const Source&) override {
    return fail(ErrorCode::compiler, "asked");
  }
  std::string version() const override { return "none"; }
};

void expect_refused(const Error& error) {
  EXPECT_EQ(error.code, ErrorCode::device) << error.message;
  EXPECT_THAT(error.message, HasSubstr("1048576 1048576 1024"));
  EXPECT_THAT(error.message, HasSubstr("GB of memory"));
  EXPECT_THAT(error.message, HasSubstr("are available"));
}

TEST(ImpossibleShape, IsRefusedWhereItsOperandsAreMade) {
  const DeviceCaps device = detect_cpu(1).value();
  const auto sets = OperandSets::make(kImpossible, device, 1);
  ASSERT_FALSE(sets);
  expect_refused(sets.error());
  const auto verifier = Verifier::make(kImpossible);
  ASSERT_FALSE(verifier);
  expect_refused(verifier.error());
}

TEST(ImpossibleShape, IsNotTuned) {
  NoCompiler compiler;
  SearchInput input;
  input.gemm = kImpossible;
  input.device = detect_cpu().value();
  const auto evaluator = worker_evaluator(input, compiler);
  ASSERT_FALSE(evaluator);
  expect_refused(evaluator.error());
}

TEST(ImpossibleShape, IsNotVerified) {
  const DeviceCaps device = detect_cpu(1).value();
  const Config config = fallback_config(Problem::of(kImpossible).value(), device);
  auto checker = Checker::start(kImpossible, device, {}).value();
  const Verdict verdict = checker.check(config, {});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().kind, Failure::Kind::resources);
  EXPECT_THAT(verdict.error().detail, HasSubstr("are available"));
}

TEST(ImpossibleShape, IsAnErrorOfTune) {
  const TempDir dir;
  auto engine = Engine::open({.database = dir / "kiln.db", .threads = 1}).value();
  // clock: it fails before any is spent
  const auto report = engine.tune(kImpossible, {.budget = std::chrono::seconds(5)});
  ASSERT_FALSE(report);
  // A build without the compiler gets no further than that.
  if (report.error().code != ErrorCode::compiler) expect_refused(report.error());
}

TEST(ImpossibleShape, IsNotTunedOnAGpuWithLessMemory) {
  DeviceCaps device = cuda_caps_named("sm_90a").value();
  device.gpu.memory_bytes = std::int64_t{80} << 30;
  expect_refused(room_to_tune(kImpossible, device).error());
  EXPECT_TRUE(room_to_tune(Gemm::row_major(8192, 8192, 8192), device));
}

// It was 24 hours for the shape above, by the bytes of its operands.
TEST(SetUp, IsBoundedWhateverTheShape) {
  const DeviceCaps device = detect_cpu(1).value();
  EXPECT_LE(set_up_seconds(kImpossible, device), 1800);
  EXPECT_LE(set_up_seconds(Gemm::row_major(1024, 1024, 1024), device), 11);
}

TEST(SetUp, SaysWhatFailedToStart) {
  NoCompiler compiler;
  const TempDir locks;
  setenv("KILN_LOCK_DIR", locks.path().c_str(), 1);
  setenv("KILN_WORKER", "/bin/false", 1);
  SearchInput input;
  input.gemm = Gemm::row_major(64, 64, 64);
  input.device = detect_cpu(1).value();
  const auto evaluator = worker_evaluator(input, compiler);
  unsetenv("KILN_WORKER");
  ASSERT_FALSE(evaluator);
  EXPECT_THAT(evaluator.error().message, HasSubstr("tuning worker: start of /bin/false: "));
}

}  // namespace kiln::memory_test
