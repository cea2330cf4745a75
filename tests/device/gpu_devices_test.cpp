// Several GPUs in one process: an Engine each, one database, calls in turn and from threads of
// their own. With one GPU two Engines share it; without one the test says SKIPPED.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/gpu/device.h"
#include "support/gpu_problem.h"
#include "support/temp_dir.h"

namespace kiln::gpu_devices_test {

using test::GpuProblem;

OpenOptions options_in(const TempDir& dir, int device) {
  OpenOptions options;
  options.device = "cuda:" + std::to_string(device);
  options.database = dir / "kiln.db";
  options.on_untuned = [](const std::string&) {};
  return options;
}

constexpr double kClose = 1e-4;  // of sums of some hundred products in [-1, 1]

gpu::Context current_context(const gpu::GpuDevice& device) {
  gpu::Context context = nullptr;
  device.driver().cuCtxGetCurrent(&context);
  return context;
}

TEST(GpuDevices, EnginesOfOneProcessKeepApart) {
  TempDir dir;
  const auto found = cuda::device_count();
  if (!found || *found == 0) {
    EXPECT_FALSE(Engine::open(options_in(dir, 0)));
    GTEST_SKIP() << "no NVIDIA GPU: " << (found ? "the driver counts none" : found.error().message);
  }
  std::array<int, 2> numbers{0, std::min(*found - 1, 1)};
  std::vector<gpu::SharedDevice> devices;
  std::vector<Engine> engines;
  for (const int number : numbers) {
    devices.push_back(cuda::open_device(number).value());
    engines.push_back(Engine::open(options_in(dir, number)).value());
  }
  const Gemm gemm = Gemm::row_major(200, 300, 250);
  // Tuned on the first: a GPU of the same model finds the kernel, and loads it for itself.
  const auto tuned = engines[0].tune(gemm, {.budget = std::chrono::duration<double>(2)});
  ASSERT_TRUE(tuned) << tuned.error().message;
  const gpu::Context before = current_context(*devices[0]);
  for (int turn = 0; turn < 3; ++turn)
    for (std::size_t i = 0; i < engines.size(); ++i) {
      GpuProblem problem(devices[i], gemm);
      const Status ran = engines[i].gemm(gemm, problem.operands());
      ASSERT_TRUE(ran) << ran.error().message;
      EXPECT_LT(problem.error(), kClose) << "device " << numbers[i] << ", turn " << turn;
      EXPECT_EQ(current_context(*devices[0]), before) << "the caller's context is left as found";
    }
  EXPECT_EQ(engines[0].plan(gemm)->config(), engines[1].plan(gemm)->config());

  std::array<double, 2> worst{};
  std::array<std::string, 2> failed;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < engines.size(); ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 50; ++n) {
        GpuProblem problem(devices[i], gemm);
        if (const Status ran = engines[i].gemm(gemm, problem.operands()); !ran)
          failed[i] = ran.error().message;
        worst[i] = std::max(worst[i], problem.error());
      }
    });
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    EXPECT_EQ(failed[i], "");
    EXPECT_LT(worst[i], kClose) << "device " << numbers[i];
  }
}

}  // namespace kiln::gpu_devices_test
