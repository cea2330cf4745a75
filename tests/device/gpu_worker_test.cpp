// Planted mistakes in GPU kernels, each in the worker: one candidate each, and the next one runs.
// On a machine without a GPU what is left to test is that the worker says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/families/cpu/packed/config.h"
#include "generator/render/render.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "runtime/gpu/device.h"
#include "tuner/worker/check.h"

namespace kiln::gpu_worker_test {

using testing::HasSubstr;

struct Bed {
  DeviceCaps caps;
  Gemm gemm = Gemm::row_major(96, 64, 32);
  Config config;
  Binary right;
};

/// A config of the simple family, whose kernels take no tensor maps, with its code.
Bed bed_for(const DeviceCaps& caps) {
  Bed bed{.caps = caps};
  const auto space = space_for(Problem::of(bed.gemm).value(), caps).value();
  const auto simple = std::find_if(space.legal.begin(), space.legal.end(),
                                   [](const Config& c) { return family_name(c) == "cuda_simt"; });
  bed.config = *simple;
  const auto source = render(Problem::of(bed.gemm).value(), caps, bed.config).value();
  bed.right = (*nvrtc_compiler())->compile(source).value();
  return bed;
}

Binary planted(const DeviceCaps& caps, const std::string& body) {
  const Source source{"extern \"C\" __global__ void kiln_gemm(volatile int* p) {" + body + "}",
                      "planted.cu",
                      {"--gpu-architecture=" + caps.arch}};
  return (*nvrtc_compiler())->compile(source).value();
}

TEST(GpuWorker, EachMistakeCostsOneCandidate) {
  const auto device = cuda::open_device(0);
  if (!device) {
    const auto caps = cuda_caps_named("sm_90a").value();
    auto checker = Checker::start(Gemm::row_major(8, 8, 8), caps, {}).value();
    const Verdict verdict = checker.check(HostPacked{}, Binary{.image = {std::byte{1}}});
    ASSERT_FALSE(verdict);
    EXPECT_THAT(verdict.error().detail, HasSubstr("cuda:0"));
    GTEST_SKIP() << "no NVIDIA GPU: " << device.error().message;
  }
  const Bed bed = bed_for((*device)->caps());
  auto checker = Checker::start(bed.gemm, bed.caps, {.seed = 3}).value();
  const auto expect_right = [&] {
    const Verdict verdict = checker.check(bed.config, bed.right);
    EXPECT_TRUE(verdict) << verdict.error().detail;
  };
  const auto expect = [&](const char* body, Failure::Kind kind, const char* words) {
    const Verdict verdict = checker.check(bed.config, planted(bed.caps, body));
    ASSERT_FALSE(verdict) << body;
    EXPECT_EQ(verdict.error().kind, kind) << verdict.error().detail;
    EXPECT_THAT(verdict.error().detail, HasSubstr(words));
  };
  expect_right();
  expect("", Failure::Kind::wrong_result, "row 0 column 0");
  expect("*(volatile int*)16 = 1;", Failure::Kind::crashed, "ILLEGAL_ADDRESS");
  expect_right();
  expect("for (;;) { if (clock64() == 1) return; }", Failure::Kind::timed_out, "timed out");
  expect_right();
}

}  // namespace kiln::gpu_worker_test
