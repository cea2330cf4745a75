// Every code of e4m3 in every place of a word, decoded by each family of weights: zeros of both
// signs, denormals and NaN are what load_element() says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/weights/config.h"
#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/problem/problem.h"
#include "kiln/numeric.hpp"
#include "support/compiled.h"
#include "support/emulated.h"

namespace kiln::e4m3_codes_test {

constexpr std::int64_t kK = 64, kCodes = 256;

/// A is the unit matrix, column j of B is zero but for code j, so that D holds B's numbers.
Gemm problem(DType a) {
  Gemm g = Gemm::row_major(kK, kCodes, kK, a)
               .transpose_b()
               .with_weights(fp8_e4m3, Scale::line_64)
               .output(fp32);
  g.alignment = 16;
  return g;
}

using Call = std::function<Status(const Operands&)>;

/// What is wrong with the product where code j is element (j + shift) % kK of its column.
std::string wrong(const Gemm& g, const Call& call, std::int64_t shift) {
  std::vector<std::uint16_t> a(kK * kK);
  std::vector<std::uint8_t> b(kCodes * kK);
  const std::vector<float> scales(kCodes, 1);
  std::vector<float> d(kK * kCodes);
  for (std::int64_t i = 0; i < kK; ++i) store_element(g.a.dtype, a.data(), i * kK + i, 1);
  const auto place = [shift](std::int64_t j) { return (j + shift) % kK; };
  for (std::int64_t j = 0; j < kCodes; ++j)
    b[static_cast<std::size_t>(j * kK + place(j))] = static_cast<std::uint8_t>(j);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_b = scales.data();
  if (const Status ok = call(operands); !ok) return ok.error().message;
  for (std::int64_t i = 0; i < kK; ++i)
    for (std::int64_t j = 0; j < kCodes; ++j) {
      const auto code = static_cast<std::uint8_t>(j);
      const double number = load_element(fp8_e4m3, &code, 0);
      // A NaN times zero is one.
      const double wanted = i == place(j) || std::isnan(number) ? number : 0;
      const double got = d[static_cast<std::size_t>(i * kCodes + j)];
      if (std::isnan(wanted) ? !std::isnan(got) : got != wanted)
        return fmt::format("code {:#x} at {}: row {} is {}, not {}", j, place(j), i, got, wanted);
    }
  return {};
}

/// Every place of a word of four codes.
void expect_right(const Gemm& g, const Call& call, const std::string& what) {
  for (std::int64_t shift = 0; shift < 4; ++shift)
    EXPECT_EQ(wrong(g, call, shift), "") << what << ", " << text(g);
}

TEST(E4m3Codes, AreDecodedOnTheEmulator) {
  const std::pair<const char*, Config> kernels[] = {
      {"sm_80", CudaWeights{.tile_n = 64, .tile_m = 16, .block_k = 64, .warps = 2, .stages = 2}},
      {"sm_80", CudaGemvWeights{.tile_n = 32, .tile_m = 16, .warps = 1, .ahead = 1}},
      {"sm_90a", CudaWgmmaWeights{.tile_m = 64, .warpgroups = 1, .block_k = 64, .stages = 2}}};
  for (const auto& [arch, config] : kernels)
    for (const DType a : {bf16, fp16}) {
      const Gemm g = problem(a);
      const auto kernel = test::emulated_kernel(g, caps_named(arch).value(), config);
      ASSERT_TRUE(kernel) << text(config) << ": " << kernel.error().message;
      const Problem canonical = Problem::of(g).value();
      expect_right(
          g, [&](const Operands& operands) { return kernel->call(canonical, operands, 0); },
          text(config));
    }
}

TEST(E4m3Codes, AreDecodedOnTheProcessor) {
  for (const char* cpu : {"portable", "avx2", "avx512"}) {
    const auto device = test::runnable(cpu, 1);
    if (!device) continue;
    const Isa isa = device->cpu.avx512     ? Isa::avx512
                    : device->cpu.avx2_fma ? Isa::avx2
                                           : Isa::portable;
    const Config configs[] = {
        HostWeights{.isa = isa, .mr = 2, .nr = 2},
        HostPacked{.isa = isa, .mr = 3, .nv = 2, .kc = 64, .mc = 6, .nc = 64}};
    for (const Config& config : configs)
      for (const DType a : {bf16, fp16}) {
        auto kernel = test::compiled(problem(a), *device, config);
        ASSERT_TRUE(kernel) << text(config) << ": " << kernel.error().message;
        expect_right(
            problem(a), [&](const Operands& operands) { return kernel->run(operands); },
            fmt::format("{}, {}", cpu, text(config)));
      }
  }
}

}  // namespace kiln::e4m3_codes_test
