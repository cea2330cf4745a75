// Dispatch to the vendor's library on a GPU: only where the caller allows it and its row won. On a
// machine without a GPU what is left to test is the error.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device.h"
#include "support/stored.h"
#include "support/temp_dir.h"
#include "tuner/verify/gpu_tools.h"

namespace kiln::gpu_vendor_test {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

OpenOptions options_in(const TempDir& dir, bool allow_vendor) {
  OpenOptions options;
  options.device = "cuda:0";
  options.database = dir / "kiln.db";
  options.on_untuned = [](const std::string&) {};
  options.allow_vendor = allow_vendor;
  return options;
}

/// D = 2 · A · B + C / 2 on the device, A and B of ones and C of sixes: every element is 2k + 3,
/// and what lies between the rows of D stays as it was. Empty, or what is wrong.
std::string wrong_with_ones(Engine& engine, gpu::SharedDevice device, const Gemm& gemm) {
  const auto filled = [&](std::int64_t elements, float value) {
    const std::vector<float> host(static_cast<std::size_t>(elements), value);
    auto buffer = gpu::DeviceBuffer::make(device, host.size() * 4).value();
    EXPECT_TRUE(gpu::upload(*device, buffer.pointer(), std::as_bytes(std::span(host))));
    return buffer;
  };
  const auto a = filled(gemm.m * gemm.k, 1), b = filled(gemm.k * gemm.n, 1);
  const auto c = filled(gemm.m * gemm.c.ld, 6), d = filled(gemm.m * gemm.d.ld, -1);
  const Operands operands{
      .a = a.data(), .b = b.data(), .c = c.data(), .d = d.data(), .alpha = 2.0, .beta = 0.5};
  if (const Status done = engine.gemm(gemm, operands); !done) return done.error().message;
  std::vector<float> got(static_cast<std::size_t>(gemm.m * gemm.d.ld));
  const gpu::Guest guest(*device);
  device->driver().cuCtxSynchronize();
  device->driver().cuMemcpyDtoH(got.data(), d.pointer(), got.size() * 4);
  for (std::int64_t i = 0; i < gemm.m * gemm.d.ld; ++i) {
    const float wanted = i % gemm.d.ld < gemm.n ? 2.0f * float(gemm.k) + 3.0f : -1.0f;
    if (const float x = got[static_cast<std::size_t>(i)]; x != wanted)
      return fmt::format("element {}: {}, not {}", i, x, wanted);
  }
  return {};
}

TEST(GpuVendor, RunsWhereItWonAndIsAllowed) {
  TempDir dir;
  const auto device = cuda::open_device(0);
  if (!device) {
    const auto engine = Engine::open(options_in(dir, true));
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::device);
    GTEST_SKIP() << "no NVIDIA GPU: " << device.error().message;
  }
  ASSERT_TRUE(cuda::cublaslt_version()) << "cuBLASLt is part of what this test is about";
  // Rows of C and D are not the same distance apart: the library is told of both.
  Gemm gemm = Gemm::row_major(256, 240, 272);
  gemm.c.ld = 264;
  gemm.d.ld = 248;
  {
    auto engine = Engine::open(options_in(dir, true)).value();
    ASSERT_TRUE(engine.tune(gemm, {.budget = std::chrono::duration<double>(4)}));
  }
  {
    auto engine = Engine::open(options_in(dir, false)).value();
    const auto race = engine.plan(gemm).value().library_race();
    ASSERT_TRUE(race) << "cuBLASLt was raced, and is the one of this process";
    EXPECT_GT(race->kernel_ns, 500);
    EXPECT_GT(race->library_ns, 500);
  }
  const auto favour = [&](const char* ns) {
    test::tamper(dir / "kiln.db",
                 fmt::format("UPDATE measurement SET median_ns = {0}, low_ns = {0}, high_ns = {0} "
                             "WHERE failure IS NULL AND config_id IN (SELECT id FROM config WHERE "
                             "family = 'cublaslt')",
                             ns));
  };
  const auto config_with = [&](bool allow_vendor) {
    auto engine = Engine::open(options_in(dir, allow_vendor)).value();
    EXPECT_EQ(wrong_with_ones(engine, *device, gemm), "");
    return engine.plan(gemm).value().config();
  };
  favour("1.0");
  EXPECT_THAT(config_with(true), StartsWith("cublaslt "));
  EXPECT_THAT(config_with(false), Not(HasSubstr("cublaslt")));
  favour("1e9");
  EXPECT_THAT(config_with(true), Not(HasSubstr("cublaslt")));
}

TEST(GpuVendor, IsRacedWithTheEpiloguesThatItHas) {
  if (!cuda::open_device(0)) GTEST_SKIP() << "no NVIDIA GPU";
  TempDir dir;
  auto engine = Engine::open(options_in(dir, true)).value();
  const Gemm plain = Gemm::row_major(128, 192, 256);
  const auto is_raced = [&](const Gemm& gemm) {
    EXPECT_TRUE(engine.tune(gemm, {.budget = std::chrono::duration<double>(1)}));
    return engine.plan(gemm).value().library_race().has_value();
  };
  EXPECT_TRUE(is_raced(plain.with_activation(Activation::relu)));
  // As cublasLtMatmul() describes it: its bias is one value for each row.
  Gemm column_major = Gemm::column_major(192, 128, 256).with_bias(Bias::per_row);
  EXPECT_TRUE(is_raced(column_major));
  Gemm halves = Gemm::column_major(192, 128, 256, bf16).with_bias(Bias::per_row, true);
  EXPECT_TRUE(is_raced(halves));
  Gemm bytes = Gemm::row_major(128, 192, 256, fp8_e4m3).transpose_b();
  bytes.alignment = 16;
  EXPECT_TRUE(is_raced(bytes));
  EXPECT_TRUE(is_raced(bytes.scaled(Scale::tensor)));
  EXPECT_TRUE(is_raced(bytes.with_numerics(Numerics::fast)));
  EXPECT_FALSE(is_raced(bytes.scaled(Scale::line_128)));
  // Scales of blocks as the library has them since 12.9; of four squares along k.
  Gemm blocks = Gemm::row_major(128, 256, 512, fp8_e4m3).transpose_b();
  blocks.alignment = 16;
  blocks = blocks.scaled(Scale::line_128, Scale::square_128);
  EXPECT_FALSE(is_raced(blocks));
  const bool knows = cuda::cublaslt_version_number().value() >= 120900;
  EXPECT_EQ(is_raced(blocks.with_scale_order(ScaleOrder::blocks)), knows);
  EXPECT_EQ(is_raced(blocks.with_scale_order(ScaleOrder::blocks_4)), knows);
  blocks.k = 640;
  EXPECT_FALSE(is_raced(blocks.with_scale_order(ScaleOrder::blocks)));
  EXPECT_FALSE(is_raced(plain.with_activation(Activation::silu)));
  EXPECT_FALSE(is_raced(plain.with_bias(Bias::per_row)));
}

}  // namespace kiln::gpu_vendor_test
