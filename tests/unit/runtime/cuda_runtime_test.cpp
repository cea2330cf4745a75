// What of the CUDA runtime needs no GPU: NVRTC and its log, names of devices, and clean errors
// where driver, device or compiler are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "generator/families/cuda/common/check.h"
#include "generator/problem/extent.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "runtime/gpu/device.h"
#include "runtime/gpu/shared_library.h"
#include "runtime/hip/device.h"
#include "tuner/measure/gpu_timing.h"

namespace kiln::cuda_runtime_test {

using testing::AllOf;
using testing::HasSubstr;

// As NVRTC 13.0 prints it, two entries.
constexpr const char* kLog =
    "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
    "ptxas info    : Function properties for first\n"
    "ptxas         .     96 bytes stack frame, 88 bytes spill stores, 92 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 9 barriers, 1024 bytes smem\n"
    "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
    "ptxas         .     0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 32 registers, used 0 barriers, 49152 bytes smem, 640 bytes cmem[0]\n";

TEST(PtxasLog, ReportsTheMostDemandingEntry) {
  const ResourceReport report = ptxas_resources(kLog);
  EXPECT_EQ(report.registers, 168);
  EXPECT_EQ(report.spills, 88 + 92 + 4);
  EXPECT_EQ(report.stack_bytes, 96);
  EXPECT_EQ(report.shared_bytes, 49152);
  EXPECT_EQ(ptxas_resources("").registers, 0);
}

TEST(PtxasLog, PerformanceWarningsAreFound) {
  EXPECT_EQ(performance_warning(kLog), "");
  const std::string log = std::string(kLog) +
                          "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
                          "instructions are serialized\nnext line\n";
  EXPECT_THAT(std::string(performance_warning(log)),
              AllOf(HasSubstr("C7510"), testing::Not(HasSubstr("next"))));
}

/// Where there is no NVRTC, every test of it becomes one of the error that says so.
void expect_absent(const Error& error) {
  EXPECT_EQ(error.code, ErrorCode::compiler);
  EXPECT_THAT(error.message, HasSubstr("libnvrtc.so"));
}

TEST(Nvrtc, CompilesTheCheckingKernelsForEveryGeneration) {
  const auto compiler = nvrtc_compiler();
  if (!compiler) return expect_absent(compiler.error());
  EXPECT_THAT((*compiler)->version(), testing::StartsWith("nvrtc "));
  for (const char* arch : {"sm_75", "sm_90a", "sm_120a"}) {
    const auto binary = (*compiler)->compile(gpu_check_source(cuda_caps_named(arch).value()));
    ASSERT_TRUE(binary) << binary.error().message;
    EXPECT_EQ(std::memcmp(binary->image.data(),
                          "\x7f"
                          "ELF",
                          4),
              0);
    EXPECT_GT(binary->resources.registers, 16);
    EXPECT_EQ(binary->resources.spills, 0) << binary->log;
  }
}

TEST(Nvrtc, ABadSourceIsNamedWithItsLine) {
  const auto compiler = nvrtc_compiler();
  if (!compiler) return expect_absent(compiler.error());
  Source source{"// one\nint nonsense(;\n", "bad.cu", {"--gpu-architecture=sm_90a"}};
  const auto binary = (*compiler)->compile(source);
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::compiler);
  EXPECT_THAT(binary.error().message, HasSubstr("bad.cu(2)"));
  source.flags = {"--gpu-architecture=sm_12"};
  EXPECT_THAT((*compiler)->compile(source).error().message, HasSubstr("sm_12"));
}

TEST(Nvrtc, AssemblyIsPtx) {
  const auto compiler = nvrtc_compiler();
  if (!compiler) return expect_absent(compiler.error());
  const Source source{
      "extern \"C\" __global__ void f(int* p) { *p = 7; }", "f.cu", {"--gpu-architecture=sm_80"}};
  const auto text = (*compiler)->assembly(source);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, AllOf(HasSubstr(".entry f"), HasSubstr("st.global")));
}

TEST(CompilerFor, KnowsWhoseDeviceItIs) {
  EXPECT_EQ(compiler_for(cuda_caps_named("sm_90a").value()).value_or(nullptr),
            nvrtc_compiler().value_or(nullptr));
  EXPECT_EQ(compiler_for(cpu_caps_named("avx2").value()).value_or(nullptr),
            host_compiler().value_or(nullptr));
}

TEST(Gpus, NamesAreParsedWhole) {
  for (const char* bad : {"cuda:", "cuda:x", "cuda:1x", "cuda:-1", "hip:", "hip:0 ", "rocm:0"}) {
    const auto device = open_gpu(bad);
    ASSERT_FALSE(device) << bad;
    EXPECT_EQ(device.error().code, ErrorCode::bad_input);
    EXPECT_THAT(device.error().message, HasSubstr(bad));
  }
  EXPECT_TRUE(names_gpu("cuda:12") && names_gpu("hip:0"));
  EXPECT_FALSE(names_gpu("cpu") || names_gpu("gfx942") || names_gpu("emu:gfx942"));
}

TEST(GpuDevice, AMissingOneIsADeviceErrorWithASentence) {
  for (const auto& error :
       {cuda::open_device(4096).error(), Engine::open({.device = "cuda:4096"}).error(),
        hip::open_device(4096).error(), Engine::open({.device = "hip:4096"}).error()}) {
    EXPECT_EQ(error.code, ErrorCode::device);
    EXPECT_THAT(error.message, HasSubstr(":4096"));
  }
}

TEST(SharedLibrary, EverythingTriedIsNamed) {
  const auto none = gpu::SharedLibrary::open({"libno-such-a.so", "libno-such-b.so"});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("libno-such-a.so"), HasSubstr("-b.so")));
  EXPECT_TRUE(gpu::SharedLibrary::open({"libno-such-a.so", "libc.so.6"}));
  EXPECT_THAT(gpu::toolkit_names({"libx.so"}),
              testing::IsSupersetOf(
                  {"libx.so", "/usr/local/cuda/lib64/libx.so", "/usr/local/cuda/lib/libx.so"}));
}

TEST(GpuRotation, OutlastsTheCache) {
  constexpr std::int64_t kL2 = 60 << 20;
  for (const std::int64_t bytes : {1 << 20, 10 << 20, 100 << 20})
    EXPECT_GT(gpu_rotation_sets(bytes, kL2) * bytes, 2 * kL2) << bytes;
  EXPECT_EQ(gpu_rotation_sets(std::int64_t{300} << 20, kL2), 1);
  EXPECT_EQ(gpu_rotation_sets(1, kL2), 1024) << "tiny problems stop somewhere";
}

}  // namespace kiln::cuda_runtime_test
