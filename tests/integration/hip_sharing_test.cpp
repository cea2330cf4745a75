// What plans on a GPU share, and calls that are captured at the first sight of a problem, against
// the fake HIP runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/gpu_plan.h"
#include "engine/gpu_resources.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/space/family.h"
#include "runtime/backend.h"
#include "support/fake_hip.h"
#include "support/hip.h"
#include "support/temp_dir.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::hip_sharing_test {

using test::fake;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMiB = 1 << 20;

class HipSharing : public test::FakeHipTest {
 protected:
  gpu::SharedDevice device_ = open_gpu("hip:0").value();

  gpu::OwnedStream stream() const { return gpu::OwnedStream::make(device_).value(); }
  void begin_capture(gpu::Stream stream) const {
    ASSERT_EQ(device_->driver().cuStreamBeginCapture(stream, gpu::CaptureMode::global), 0);
  }
  /// Ends the capture and runs the graph so many times.
  void replay(gpu::Stream stream, int times) const {
    const gpu::Driver& d = device_->driver();
    gpu::Graph graph = nullptr;
    gpu::GraphExec exec = nullptr;
    ASSERT_EQ(d.cuStreamEndCapture(stream, &graph), 0);
    ASSERT_EQ(d.cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    for (int i = 0; i < times; ++i) EXPECT_EQ(d.cuGraphLaunch(exec, stream), 0);
    d.cuGraphExecDestroy(exec);
    d.cuGraphDestroy(graph);
  }
};

std::byte* workspace_of(const GpuResources& shared, gpu::Stream stream, std::int64_t bytes,
                        std::int64_t counters) {
  return static_cast<std::byte*>(shared.workspace(stream, bytes, counters).value());
}

TEST_F(HipSharing, AWorkspaceBelongsToAStreamAndAThread) {
  const GpuResources shared(device_);
  const auto one = stream(), other = stream();
  std::byte* const first = workspace_of(shared, one.get(), kMiB, 256);
  EXPECT_TRUE(std::all_of(first, first + 256, [](std::byte b) { return b == std::byte{0}; }));
  fake.clear();
  EXPECT_EQ(workspace_of(shared, one.get(), 1000, 256), first);
  EXPECT_EQ(workspace_of(shared, one.get(), 1000, 1024), first - 768)
      << "partial sums begin at one place, behind the counters of whichever kernel";
  EXPECT_EQ(workspace_of(shared, one.get(), 1000, 0), first + 256);
  EXPECT_THAT(fake.calls(), testing::MatchesRegex("(hipStreamIsCapturing\\s?)*"))
      << "the warm path asks the driver for nothing else";
  std::set<std::byte*> all{first, workspace_of(shared, other.get(), 1000, 256),
                           workspace_of(shared, nullptr, 1000, 256)};
  std::thread([&] { all.insert(workspace_of(shared, one.get(), 1000, 256)); }).join();
  EXPECT_EQ(all.size(), 4u);
}

TEST_F(HipSharing, AWorkspaceGrowsGeometricallyAndTheOldOnesStay) {
  const int before = fake.live();
  {
    const GpuResources shared(device_);
    const auto on = stream();
    std::set<std::byte*> all;
    for (std::int64_t bytes = 4096; bytes <= 64 * kMiB; bytes += kMiB / 2)
      all.insert(workspace_of(shared, on.get(), bytes, 256));
    EXPECT_EQ(all.size(), 7u) << "1, 2, 4 … 64 MiB";
    EXPECT_EQ(fake.live(), before + 1 + 7);
    // More counters than any kernel had before.
    const std::byte* const wide = workspace_of(shared, on.get(), kMiB, 256 << 10);
    EXPECT_EQ(all.count(const_cast<std::byte*>(wide)), 0u);
    EXPECT_EQ(fake.live(), before + 1 + 8);
  }
  EXPECT_EQ(fake.live(), before);
}

TEST_F(HipSharing, WhereTwiceAsMuchDoesNotFitWhatIsNeededDoes) {
  const GpuResources shared(device_);
  const auto on = stream();
  workspace_of(shared, on.get(), 8 * kMiB, 0);
  fake.fail_mallocs(1);
  EXPECT_TRUE(shared.workspace(on.get(), 9 * kMiB, 0));
  fake.fail_mallocs(2);
  const auto refused = shared.workspace(on.get(), 20 * kMiB, 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("hipErrorOutOfMemory"));
}

TEST_F(HipSharing, ACodeIsLoadedOnce) {
  GpuResources shared(device_);
  const Gemm gemm = test::problem("fp32 N N 8 8 8");
  const auto image = [&](const Config& config) {
    const auto source = render(Problem::of(gemm).value(), device_->caps(), config).value();
    return compiler_for(device_->caps()).value()->compile(source).value().image;
  };
  const auto configs = test::ranked<HipSimt>(gemm, device_->caps());
  const auto first = image(configs.at(0)), other = image(configs.at(1));
  const int before = fake.live();
  const auto module = shared.module(first).value();
  EXPECT_EQ(shared.module(std::vector<std::byte>(first)).value(), module);
  EXPECT_NE(shared.module(other).value(), module);
  EXPECT_FALSE(shared.module(std::vector<std::byte>(64)));
  EXPECT_EQ(fake.live(), before + 2);
}

TEST_F(HipSharing, AWorkspaceOfACaptureIsItsGraphsUntilThatIsGone) {
  const gpu::Driver& d = device_->driver();
  const GpuResources shared(device_);
  const auto on = stream();
  const std::byte* const eager = workspace_of(shared, on.get(), 1000, 256);
  const auto captured = [&](gpu::Graph& graph) {
    begin_capture(on.get());
    std::byte* const first = workspace_of(shared, on.get(), 1000, 256);
    EXPECT_EQ(workspace_of(shared, on.get(), 500, 256), first) << "calls of a stream take turns";
    EXPECT_EQ(d.cuStreamEndCapture(on.get(), &graph), 0);
    return first;
  };
  gpu::Graph one = nullptr, other = nullptr, later = nullptr;
  const std::byte* const of_one = captured(one);
  const std::byte* const of_other = captured(other);
  EXPECT_EQ((std::set<const std::byte*>{eager, of_one, of_other}).size(), 3u);
  EXPECT_EQ(workspace_of(shared, on.get(), 1000, 256), eager);
  // A graph that was instantiated lives on without its template.
  gpu::GraphExec exec = nullptr;
  ASSERT_EQ(d.cuGraphInstantiateWithFlags(&exec, one, 0), 0);
  d.cuGraphDestroy(one);
  EXPECT_EQ((std::set<const std::byte*>{of_one, of_other, captured(later)}).size(), 3u);
  d.cuGraphDestroy(later);
  d.cuGraphExecDestroy(exec);
  const int before = fake.live();
  EXPECT_NE(captured(one), of_other) << "another graph still has it";
  EXPECT_NE(captured(later), of_other);
  EXPECT_EQ(fake.live(), before + 2) << "two graphs, and no memory";
  for (const gpu::Graph graph : {one, other, later}) d.cuGraphDestroy(graph);
}

TEST_F(HipSharing, AWorkspaceOfACaptureGrows) {
  const GpuResources shared(device_);
  const auto on = stream();
  begin_capture(on.get());
  const std::byte* const small = workspace_of(shared, on.get(), 1000, 256);
  const std::byte* const large = workspace_of(shared, on.get(), 8 * kMiB, 256);
  EXPECT_NE(small, large);
  replay(on.get(), 0);
  begin_capture(on.get());
  fake.fail_mallocs(1);
  EXPECT_TRUE(shared.workspace(on.get(), 8 * kMiB, 256)) << "the graph is gone";
  fake.fail_mallocs(2);
  EXPECT_FALSE(shared.workspace(on.get(), 20 * kMiB, 256));
  fake.fail_mallocs(0);
  replay(on.get(), 0);
}

TEST_F(HipSharing, ACaptureThatTheDriverCannotSuspendIsRefused) {
  gpu::Driver lacking = device_->driver();
  lacking.cuThreadExchangeStreamCaptureMode = nullptr;
  const auto old = gpu::GpuDevice::make({.driver = lacking, .caps = device_->caps()}).value();
  const GpuResources shared(old);
  const auto on = stream();
  begin_capture(on.get());
  const auto refused = shared.workspace(on.get(), 5000, 256);
  replay(on.get(), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::bad_input);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("workspace = null"), HasSubstr("5000 bytes")));
  EXPECT_TRUE(shared.workspace(on.get(), 5000, 256)) << "the capture is over";
}

/// A plan of one config, made as the engine makes it.
std::unique_ptr<GpuPlan> plan_of(const std::shared_ptr<GpuResources>& shared, const Gemm& gemm,
                                 const Config& config) {
  const DeviceCaps& caps = shared->device()->caps();
  const auto binary = compiler_for(caps)
                          .value()
                          ->compile(render(Problem::of(gemm).value(), caps, config).value())
                          .value();
  return GpuPlan::make(shared, shared->module(binary.image).value(), Problem::of(gemm).value(),
                       caps, config)
      .value();
}

/// With so many tiles at most, the config of split-K that the model likes best.
Config split_config(const Gemm& gemm, const DeviceCaps& caps, std::int64_t least_counters) {
  for (const Config& config : test::ranked<HipMfma>(gemm, caps))
    if (const auto launch =
            family_of(config, Vendor::amd).launch(Problem::of(gemm).value(), caps, config);
        config.as<HipMfma>().splits > 1 && launch.zeroed_bytes >= least_counters)
      return config;
  ADD_FAILURE() << "no such config of " << text(gemm);
  return HipMfma{};
}

// What one kernel keeps in front is where another has its partial sums, unless they are laid out
// behind each other.
TEST_F(HipSharing, KernelsWithOtherCountersTakeTurnsInOneWorkspace) {
  const auto shared = std::make_shared<GpuResources>(device_);
  const Gemm few = test::problem("bf16 N T 40 50 200"),
             many = test::problem("bf16 N T 150 160 136");
  const Config of_few = split_config(few, device_->caps(), 256);
  const Config of_many = split_config(many, device_->caps(), 512);
  const auto first = plan_of(shared, few, of_few), second = plan_of(shared, many, of_many);
  ASSERT_GT(second->zeroed_bytes(), first->zeroed_bytes());
  ASSERT_GT(first->workspace_bytes(), second->zeroed_bytes()) << "its partial sums reach there";
  const auto on = stream();
  const auto right = [&](const Gemm& gemm, const GpuPlan& plan) {
    const Verdict verdict = test::verify_there(device_, gemm, [&](Operands there) {
      there.stream = on.get();
      return plan.run(there);
    });
    EXPECT_TRUE(verdict) << text(gemm) << ": " << verdict.error().detail;
  };
  for (int turn = 0; turn < 2; ++turn) {
    right(few, *first);
    right(many, *second);
  }
}

class HipFirstSight : public HipSharing {
 protected:
  void TearDown() override {
    engine_.reset();
    HipSharing::TearDown();
  }
  TempDir dir_;
  std::optional<Engine> engine_ = Engine::open({.device = "hip:0",
                                                .database = dir_ / "kiln.db",
                                                .on_untuned = [](const std::string&) {}})
                                      .value();
};

TEST_F(HipFirstSight, ACallIsCaptured) {
  const Gemm gemm = test::problem("bf16 N T 16 32 2048");
  int calls = 0;
  const auto on = stream();
  const Verdict verdict = test::verify_there(device_, gemm, [&](Operands there) {
    there.stream = on.get();
    begin_capture(on.get());
    Status captured = engine_->gemm(gemm, there);
    replay(on.get(), 1 + ++calls % 2);
    return captured;
  });
  EXPECT_TRUE(verdict) << verdict.error().detail;
  EXPECT_GT(engine_->plan(gemm)->workspace_bytes(), 0) << "so that it had one to allocate";
}

TEST_F(HipFirstSight, BeyondTheTableACallsPlanIsItsOwn) {
  PlanTable& table = engine_->impl().resolver.plans();
  for (std::int64_t m = 1; m <= std::int64_t{PlanTable::kMost}; ++m)
    table.put(bare_plan(Gemm::row_major(m, 1, 1), 1));
  const Gemm gemm = test::problem("bf16 N T 16 32 2048");
  std::string later_calls;
  int live = 0;
  const auto check = [&] {
    const Verdict verdict = test::verify_there(
        device_, gemm, [&](const Operands& there) { return engine_->gemm(gemm, there); });
    EXPECT_TRUE(verdict) << verdict.error().detail;
  };
  check();
  live = fake.live();
  fake.clear();
  check();
  EXPECT_THAT(fake.calls(), Not(HasSubstr("hipModuleLoadData")));
  EXPECT_EQ(fake.live(), live);
  EXPECT_EQ(table.all().size(), PlanTable::kMost);
  // Who asks for the plan keeps it.
  const Plan plan = engine_->plan(gemm).value();
  EXPECT_FALSE(plan.impl().in_table);
  EXPECT_GT(plan.workspace_bytes(), 0);
}

}  // namespace kiln::hip_sharing_test

#endif
