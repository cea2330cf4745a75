// The Engine on a GPU, as a caller sees it: untuned calls, layouts, addresses of any alignment,
// streams, graphs, workspaces, the database. On a machine without a GPU the error is tested, and
// each test says SKIPPED.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kiln/engine.hpp"
#include "runtime/cuda/device.h"
#include "runtime/gpu/device.h"
#include "support/gpu_problem.h"
#include "support/temp_dir.h"

namespace kiln::gpu_engine_test {

using test::GpuProblem;
using testing::HasSubstr;

constexpr const char* kNoGpu = "no NVIDIA GPU: cuda:0 cannot be opened";

OpenOptions options_in(const TempDir& dir) {
  OpenOptions options;
  options.device = "cuda:0";
  options.database = dir / "kiln.db";
  options.on_untuned = [](const std::string&) {};
  return options;
}

gpu::SharedDevice device_or_null(const TempDir& dir) {
  const auto device = cuda::open_device(0);
  if (device) return *device;
  const auto engine = Engine::open(options_in(dir));
  EXPECT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::device);
  EXPECT_THAT(engine.error().message, HasSubstr("cuda:0"));
  return nullptr;
}

constexpr double kClose = 1e-4;  // of sums of some hundred products in [-1, 1]

TEST(GpuEngine, UntunedCallsAreRightInEveryLayout) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  for (const bool column : {false, true})
    for (const int layout : {0, 1, 2, 3}) {
      Gemm gemm = column ? Gemm::column_major(130, 70, 200) : Gemm::row_major(130, 70, 200);
      gemm.a.transposed = (layout & 1) != 0;
      gemm.b.transposed = (layout & 2) != 0;
      GpuProblem problem(device, gemm);
      const Status ran = engine.gemm(gemm, problem.operands());
      ASSERT_TRUE(ran) << ran.error().message;
      EXPECT_LT(problem.error(), kClose) << text(gemm);
    }
}

TEST(GpuEngine, AddressesOfAnyAlignmentFindAKernel) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  const Gemm gemm = Gemm::row_major(64, 64, 64);
  for (const std::size_t shift : {0, 4, 8}) {
    GpuProblem problem(device, gemm, shift);
    const Status ran = engine.gemm(gemm, problem.operands());
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_LT(problem.error(), kClose) << shift;
  }
}

TEST(GpuEngine, ACallCanBeCapturedAndReplayed) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  const Gemm gemm = Gemm::row_major(64, 64, 512);
  const Plan plan = engine.plan(gemm).value();
  GpuProblem problem(device, gemm);
  const auto stream = gpu::OwnedStream::make(device).value();
  auto memory =
      gpu::DeviceBuffer::make(device, static_cast<std::size_t>(plan.workspace_bytes())).value();
  Operands operands = problem.operands();
  operands.stream = stream.get();
  operands.workspace = memory.data();
  operands.workspace_bytes = plan.workspace_bytes();
  const gpu::Guest guest(*device);
  const gpu::Driver& d = device->driver();
  ASSERT_EQ(d.cuStreamBeginCapture(stream.get(), gpu::CaptureMode::global), gpu::kSuccess);
  const Status ran = plan.run(operands);
  gpu::Graph graph = nullptr;
  ASSERT_EQ(d.cuStreamEndCapture(stream.get(), &graph), gpu::kSuccess);
  ASSERT_TRUE(ran) << ran.error().message;
  gpu::GraphExec replay = nullptr;
  ASSERT_EQ(d.cuGraphInstantiateWithFlags(&replay, graph, 0), gpu::kSuccess);
  EXPECT_EQ(d.cuGraphLaunch(replay, stream.get()), gpu::kSuccess);
  EXPECT_EQ(d.cuStreamSynchronize(stream.get()), gpu::kSuccess);
  EXPECT_LT(problem.error(), kClose);
  d.cuGraphExecDestroy(replay);
  d.cuGraphDestroy(graph);
}

// Compiled, verified, loaded and given a workspace while the stream is captured.
TEST(GpuEngine, ACallIsCapturedAtTheFirstSightOfItsProblem) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  const auto stream = gpu::OwnedStream::make(device).value();
  const gpu::Guest guest(*device);
  const gpu::Driver& d = device->driver();
  std::int64_t workspace = 0;
  for (const char* line : {"fp32 N N 64 64 4096", "bf16 N T 64 64 8192 out=fp32 align=16"}) {
    const Gemm gemm = parse_gemm(line).value();
    GpuProblem problem(device, gemm);
    Operands operands = problem.operands();
    operands.stream = stream.get();
    ASSERT_EQ(d.cuStreamBeginCapture(stream.get(), gpu::CaptureMode::global), gpu::kSuccess);
    const Status ran = engine.gemm(gemm, operands);
    gpu::Graph graph = nullptr;
    ASSERT_EQ(d.cuStreamEndCapture(stream.get(), &graph), gpu::kSuccess);
    ASSERT_TRUE(ran) << ran.error().message;
    gpu::GraphExec replay = nullptr;
    ASSERT_EQ(d.cuGraphInstantiateWithFlags(&replay, graph, 0), gpu::kSuccess);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(d.cuGraphLaunch(replay, stream.get()), gpu::kSuccess);
    EXPECT_LT(problem.error(), 10 * kClose) << line;
    d.cuGraphExecDestroy(replay);
    d.cuGraphDestroy(graph);
    workspace = std::max(workspace, engine.plan(gemm)->workspace_bytes());
  }
  EXPECT_GT(workspace, 0) << "so that one was allocated";
}

TEST(GpuEngine, KernelsTakeTurnsInTheWorkspaceOfAStream) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  const auto stream = gpu::OwnedStream::make(device).value();
  std::vector<Gemm> gemms;
  std::vector<GpuProblem> problems;
  for (const char* line : {"fp32 N N 64 64 4096", "bf16 N T 64 64 8192 out=fp32 align=16",
                           "bf16 T N 200 77 3001 out=fp32", "fp32 N T 300 100 2000"}) {
    gemms.push_back(parse_gemm(line).value());
    problems.emplace_back(device, gemms.back());
  }
  for (int turn = 0; turn < 20; ++turn)
    for (std::size_t i = 0; i < gemms.size(); ++i) {
      Operands operands = problems[i].operands();
      operands.stream = stream.get();
      ASSERT_TRUE(engine.gemm(gemms[i], operands));
    }
  for (std::size_t i = 0; i < gemms.size(); ++i) {
    std::printf("%s: workspace of %ld bytes\n", text(gemms[i]).c_str(),
                long(engine.plan(gemms[i])->workspace_bytes()));
    EXPECT_LT(problems[i].error(), 10 * kClose) << text(gemms[i]);
  }
}

TEST(GpuEngine, TunedOnceFoundByTheNext) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  const Gemm gemm = Gemm::row_major(256, 256, 256);
  TuneReport report;
  {
    auto engine = Engine::open(options_in(dir)).value();
    const auto tuned = engine.tune(gemm, {.budget = std::chrono::duration<double>(4)});
    ASSERT_TRUE(tuned) << tuned.error().message;
    report = *tuned;
    EXPECT_GT(report.measured, 0);
  }
  auto engine = Engine::open(options_in(dir)).value();
  const Plan plan = engine.plan(gemm).value();
  EXPECT_EQ(plan.match(), Match::exact);
  EXPECT_EQ(plan.config(), report.config);
  GpuProblem problem(device, gemm);
  ASSERT_TRUE(engine.gemm(gemm, problem.operands()));
  EXPECT_LT(problem.error(), kClose);
  EXPECT_THAT(engine.explain(gemm).value(), HasSubstr("cuda-cold-v1"));
}

TEST(GpuEngine, ThreadsAndPackedOperandsAreRefused) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  const Gemm gemm = Gemm::row_major(64, 64, 64);
  EXPECT_THAT(engine.plan(gemm, 7).error().message, HasSubstr("threads = 7"));
  EXPECT_EQ(engine.pack_b(gemm, nullptr).error().code, ErrorCode::unsupported);
}

/// The host's cost of a warm call. The bound is generous: other work may share the machine.
TEST(GpuEngine, AWarmCallCostsLittle) {
  TempDir dir;
  const auto device = device_or_null(dir);
  if (!device) GTEST_SKIP() << kNoGpu;
  auto engine = Engine::open(options_in(dir)).value();
  const Gemm gemm = Gemm::row_major(16, 16, 16);
  GpuProblem problem(device, gemm);
  const Plan plan = engine.plan(gemm).value();
  const gpu::Guest guest(*device);
  const auto timed = [&](auto&& call) {
    constexpr int kCalls = 512;  // fits the stream's queue: no call waits for the device
    double best = 1e300;
    for (int round = 0; round < 7; ++round) {
      device->driver().cuCtxSynchronize();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(call());
      const std::chrono::duration<double, std::nano> spent =
          std::chrono::steady_clock::now() - begin;
      best = std::min(best, spent.count() / kCalls);
    }
    return best;
  };
  const double through_gemm = timed([&] { return engine.gemm(gemm, problem.operands()); });
  const double through_plan = timed([&] { return plan.run(problem.operands()); });
  printf("gemm() %.0f ns, Plan::run %.0f ns, of the host\n", through_gemm, through_plan);
  EXPECT_LT(through_gemm, 20e3);
}

}  // namespace kiln::gpu_engine_test
