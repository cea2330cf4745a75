// Codes of blocks of 32 decoded by each family of weights: every code of e2m1 with every scale of
// e8m0, and every code of e4m3 with some, each in some place of what a kernel decodes at once. What
// comes out is what load_element() says, denormals and NaN included.
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
#include "generator/space/space.h"
#include "kiln/numeric.hpp"
#include "support/compiled.h"
#include "support/emulated.h"

namespace kiln::mx_codes_test {

constexpr std::int64_t kPlaces = 16, kK = 64, kScales = 256;

/// Row i of A is zero but for element i, column j of B but for one code, so that D holds numbers.
Gemm problem(DType a, DType codes) {
  const std::int64_t columns = codes == fp4_e2m1 ? 16 * kScales : 256;
  Gemm g = Gemm::row_major(kPlaces, columns, kK, a)
               .transpose_b()
               .with_weights(codes, Scale::mx_32)
               .output(fp32);
  g.alignment = 16;
  return g;
}

/// What column j has in its first block, and where.
struct Element {
  std::uint8_t code, scale;
  std::int64_t place;
};
Element element(const Gemm& g, std::int64_t j) {
  const std::int64_t codes = g.b.dtype == fp4_e2m1 ? 16 : 256;
  const std::int64_t code = j % codes, scale = codes == 16 ? j / codes : (j * 37 + 11) % kScales;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(scale),
          (code + scale) % kPlaces};
}

using Call = std::function<Status(const Operands&)>;

/// What is wrong with the product.
std::string wrong(const Gemm& g, const Call& call) {
  std::vector<std::uint16_t> a(kPlaces * kK);
  std::vector<std::uint8_t> b(static_cast<std::size_t>(bytes_of(g.b.dtype, g.n * kK)));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(g.n * 2));
  std::vector<float> d(static_cast<std::size_t>(kPlaces * g.n));
  for (std::int64_t i = 0; i < kPlaces; ++i) store_element(g.a.dtype, a.data(), i * kK + i, 1);
  for (std::int64_t j = 0; j < g.n; ++j) {
    const Element e = element(g, j);
    store_code(small_format_of(g.b.dtype), b.data(), j * kK + e.place, e.code);
    scales[static_cast<std::size_t>(j * 2)] = e.scale;
    scales[static_cast<std::size_t>(j * 2 + 1)] = static_cast<std::uint8_t>(kE8m0.bias);
  }
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_b = scales.data();
  if (const Status ok = call(operands); !ok) return ok.error().message;
  for (std::int64_t i = 0; i < kPlaces; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      const Element e = element(g, j);
      const double number =
          double{decode(small_format_of(g.b.dtype), e.code)} * double{decode(kE8m0, e.scale)};
      if (std::fabs(number) >= 0x1p128) continue;  // B as fp32 has an infinity, other B have none
      // A NaN times zero is one.
      const double wanted = i == e.place || std::isnan(number) ? number : 0;
      const double got = d[static_cast<std::size_t>(i * g.n + j)];
      if (std::isnan(wanted) ? !std::isnan(got) : got != wanted)
        return fmt::format("code {:#x} at {}, scale {}: row {} is {}, not {}", e.code, e.place,
                           e.scale, i, got, wanted);
    }
  return {};
}

TEST(MxCodes, AreDecodedOnTheEmulator) {
  const std::pair<const char*, Config> kernels[] = {
      {"sm_80", CudaWeights{.tile_n = 64, .tile_m = 16, .block_k = 64, .warps = 2, .stages = 2}},
      {"sm_80", CudaGemvWeights{.tile_n = 32, .tile_m = 16, .warps = 1, .ahead = 1}},
      {"sm_90a", CudaWgmmaWeights{.tile_m = 16, .warpgroups = 1, .block_k = 64, .stages = 2}}};
  for (const auto& [arch, config] : kernels)
    for (const DType a : {bf16, fp16})
      for (const DType codes : {fp4_e2m1, fp8_e4m3}) {
        const Gemm g = problem(a, codes);
        const auto kernel = test::emulated_kernel(g, caps_named(arch).value(), config);
        ASSERT_TRUE(kernel) << text(config) << ": " << kernel.error().message;
        const Problem canonical = Problem::of(g).value();
        EXPECT_EQ(
            wrong(g,
                  [&](const Operands& operands) { return kernel->call(canonical, operands, 0); }),
            "")
            << text(config) << ", " << text(g);
      }
}

TEST(MxCodes, AreDecodedOnTheProcessor) {
  for (const char* cpu : {"portable", "avx2", "avx512", "avx512_bf16"}) {
    const auto device = test::runnable(cpu, 1);
    if (!device) continue;
    const Isa isa = device->cpu.avx512     ? Isa::avx512
                    : device->cpu.avx2_fma ? Isa::avx2
                                           : Isa::portable;
    std::vector<Config> configs{
        HostWeights{.isa = isa, .mr = 2, .nr = 2},
        HostPacked{.isa = isa, .mr = 3, .nv = 2, .kc = 64, .mc = 6, .nc = 64}};
    if (device->cpu.avx512_bf16)
      configs = {HostWeights{.isa = isa, .pairs = true, .mr = 2, .nr = 2}};
    for (const Config& config : configs)
      for (const DType a : {bf16, fp16})
        for (const DType codes : {fp4_e2m1, fp8_e4m3}) {
          const Gemm g = problem(a, codes);
          if (!broken_rule(Problem::of(g).value(), *device, config).empty()) continue;
          auto kernel = test::compiled(g, *device, config);
          ASSERT_TRUE(kernel) << text(config) << ": " << kernel.error().message;
          EXPECT_EQ(wrong(g, [&](const Operands& operands) { return kernel->run(operands); }), "")
              << cpu << ", " << text(config) << ", " << text(g);
        }
  }
}

}  // namespace kiln::mx_codes_test
