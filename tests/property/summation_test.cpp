// What families say of the order in which they sum is true: kernels of configs with equal texts,
// of whatever families, leave the same bits in the same rows, whatever m is and wherever the rows
// stand. Natively on CPUs, on the emulator for GPUs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/emulated.h"
#include "support/orders.h"
#include "support/prove.h"
#include "support/random_gemm.h"
#include "support/seed.h"

namespace kiln::summation_test {

using test::difference;
using test::Pair;
using test::pairs_of;
using test::Run;
using test::stated_order;
using test::text_of;

Result<Run> native(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  auto kernel = test::compiled(gemm, device, config);
  if (!kernel) return tl::unexpected(kernel.error());
  auto shared = std::make_shared<BoundKernel>(std::move(*kernel));
  return [shared](const Operands& operands) { return shared->run(operands); };
}

Result<Run> on_the_emulator(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  auto kernel = test::emulated_kernel(gemm, device, config);
  if (!kernel) return tl::unexpected(kernel.error());
  auto shared = std::make_shared<test::Emulated>(std::move(*kernel));
  return [shared, problem = Problem::of(gemm).value()](const Operands& operands) {
    return shared->call(problem, operands, 0);
  };
}

/// difference(), kept by what both kernels are.
std::optional<std::string> kept_difference(const Pair& pair, const DeviceCaps& device,
                                           const test::Start& start, std::uint64_t sample) {
  const auto tall = render(Problem::of(pair.tall).value(), device, pair.of_tall);
  const auto low = render(Problem::of(pair.low).value(), device, pair.of_low);
  if (!tall || !low) return (tall ? low : tall).error().message;
  const std::string asked = fmt::format("bits {} {} {} {} {} {}", text_of(pair), code_key(*tall),
                                        code_key(*low), device.arch, device.compute_units,
                                        test::host_sources() + test::emulation_sources());
  const std::string wrong = test::proof(
      asked, [&] { return difference(pair, device, start).value_or(""); }, sample);
  if (wrong.empty()) return std::nullopt;
  return wrong;
}

class SumOrders : public testing::TestWithParam<const char*> {};

TEST_P(SumOrders, OfOneTextGiveTheSameBits) {
  test::Attempt attempt;
  int compared = 0;
  for (const int threads : {1, 2}) {
    const auto device = test::runnable(GetParam(), threads);
    ASSERT_TRUE(device);
    test::RandomGemm problems(test::seed_of_run() + 7u * static_cast<unsigned>(threads), 90);
    std::mt19937_64 random(test::seed_of_run());
    for (int i = 0; i < 5 * test::thorough(); ++i) {
      const auto row = kCpuTypeRows[static_cast<std::size_t>(i + threads) % kCpuTypeRows.size()];
      Gemm gemm = problems.next(row);
      gemm.k += i % 2 == 0 ? 300 : 0;  // some blocks of k
      for (const Pair& pair :
           pairs_of(test::with_rows(gemm, gemm.m), *device, stated_order, 2, random)) {
        attempt.at(text_of(pair));
        const auto found = kept_difference(pair, *device, native, 8);
        EXPECT_FALSE(found) << text_of(pair) << ": " << *found;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 8);
}

std::vector<const char*> cpus_here() {
  std::vector<const char*> names{"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  std::erase_if(names, [](const char* name) { return !test::runnable(name, 1); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cpus, SumOrders, testing::ValuesIn(cpus_here()),
                         [](const auto& info) { return std::string(info.param); });

/// Rows left over are skipped by branches, which once kept their products from being fused.
TEST(SummationTexts, HoldForRowsLeftOver) {
  const auto device = test::runnable("avx2", 1);
  if (!device) GTEST_SKIP() << "no AVX2";
  const Gemm tall = parse_gemm("fp32 N T 65 16 317").value();
  const auto config = [](const char* tile) {
    return parse_config(
               fmt::format("host_dot isa=avx2 {} kc=0 mc=0 parallel=none prefetch=0", tile))
        .value();
  };
  const Pair pair{tall, test::with_rows(tall, 47), config("mr=4 nr=2"), config("mr=6 nr=1"), 18};
  const auto found = difference(pair, *device, native);
  EXPECT_FALSE(found) << text_of(pair) << ": " << *found;
}

/// A family that said one order of all its configs would be found: here host_packed says so.
TEST(SummationTexts, AreFoundToLie) {
  const auto device = test::runnable("portable", 1);
  std::mt19937_64 random(3);
  const auto lie = [](const Problem&, const DeviceCaps&, const Config& config) {
    return config.is<HostPacked>() ? "chain" : "";
  };
  int found = 0;
  for (int i = 0; i < 6 && found == 0; ++i)
    for (const Pair& pair : pairs_of(Gemm::row_major(40, 24, 900), *device, lie, 1, random))
      found += difference(pair, *device, native).has_value();
  EXPECT_GT(found, 0);
}

class EmulatedOrders : public testing::TestWithParam<test::Target> {};

TEST_P(EmulatedOrders, OfOneTextGiveTheSameBits) {
  const auto device = test::device_of(GetParam());
  const auto rows = test::rows_of(GetParam());
  ASSERT_FALSE(rows.empty());
  test::RandomGpuGemm problems(test::seed_of_run() + 5, GetParam().largest);
  std::mt19937_64 random(test::seed_of_run());
  int compared = 0;
  const int wanted = GetParam().configs * test::thorough();
  for (int i = 0; compared < wanted && i < 40 * wanted; ++i) {
    const Gemm gemm = problems.next({rows[static_cast<std::size_t>(i) % rows.size()]});
    const auto order_of = [](const Problem& p, const DeviceCaps& d, const Config& c) {
      return is_floating(p.gemm.accumulator) ? summation(p, d, c) : "";
    };
    for (const Pair& pair :
         pairs_of(test::with_rows(gemm, gemm.m), device, order_of, 1, random, GetParam().family)) {
      const auto found = kept_difference(pair, device, on_the_emulator, 128);
      EXPECT_FALSE(found) << text_of(pair) << ": " << *found;
      ++compared;
    }
  }
  EXPECT_GE(compared, wanted);
}

/// Scales of rows and of blocks along k, parts of fp32, few rows, and batches of small products,
/// which no general draw gives.
TEST(EmulatedScaledOrders, OfOneTextGiveTheSameBits) {
  std::mt19937_64 random(test::seed_of_run());
  struct Scaled {
    const char *arch, *family, *line;
  };
  for (const auto& [arch, family, line] :
       {Scaled{"gfx950", "hip_mx", "fp8 N T 70 90 544 scale=mx32"},
        Scaled{"gfx950", "hip_simt", "fp8 N T 40 50 96 scale=mx32"},
        Scaled{"sm_90a", "cuda_wgmma", "fp8 N T 140 96 512 scale=1x128 align=16"},
        Scaled{"sm_90a", "cuda_wgmma", "fp8 N T 90 104 640 scale=line align=16"},
        Scaled{"sm_90a", "cuda_wgmma", "fp32 N T 140 96 512 numerics=tensor"},
        Scaled{"sm_90a", "cuda_gemv_n", "bf16 N N 3 301 777 align=2"},
        Scaled{"sm_80", "cuda_gemv_n", "fp32 N N 7 100 333"},
        Scaled{"sm_90a", "cuda_small", "fp32 N N 40 20 30 batch=17 align=16"},
        Scaled{"sm_90a", "cuda_small", "bf16 N T 40 24 32 batch=17 align=16"},
        Scaled{"sm_90a", "cuda_small", "fp64 T N 30 20 16 batch=17 align=16"},
        // Of any family.
        Scaled{"sm_80", "", "fp64 T N 30 20 16 batch=17 align=16"},
        Scaled{"sm_90a", "cuda_weights", "bf16_int4 N T 50 96 512 group=64 zero=float"},
        Scaled{"sm_80", "cuda_weights", "fp16_int8 N T 20 96 512 group=k align=16"},
        Scaled{"sm_90a", "cuda_wgmma_weights", "bf16_int4 N T 140 96 512 group=64 align=16"},
        Scaled{"sm_90a", "cuda_wgmma_weights",
               "bf16_int4 N T 140 96 512 group=64 align=16 numerics=fast"},
        Scaled{"sm_80", "cuda_gemv_weights", "bf16_int4 N T 20 96 512 group=64 align=16"}}) {
    DeviceCaps device = caps_named(arch).value();
    device.compute_units = 12;
    const auto pairs = pairs_of(parse_gemm(line).value(), device, stated_order,
                                2 * std::size_t(test::thorough()), random, family);
    EXPECT_FALSE(pairs.empty()) << arch << ": " << line;
    for (const Pair& pair : pairs) {
      const auto found = kept_difference(pair, device, on_the_emulator, 128);
      EXPECT_FALSE(found) << text_of(pair) << ": " << *found;
    }
  }
}

constexpr test::Target kEmulated[] = {
    {.arch = "gfx942", .family = "hip_mfma", .configs = 4, .largest = 150},
    {.arch = "gfx942", .family = "hip_simt", .configs = 3, .largest = 90},
    {.arch = "sm_90a", .family = "cuda_wgmma", .configs = 5, .largest = 260, .units = 24},
    {.arch = "sm_80", .family = "cuda_mma", .configs = 5, .largest = 150, .units = 24},
    {.arch = "sm_80", .family = "cuda_simt", .configs = 4, .largest = 130, .units = 24}};

INSTANTIATE_TEST_SUITE_P(Families, EmulatedOrders, testing::ValuesIn(kEmulated),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.arch, info.param.family);
                         });

}  // namespace kiln::summation_test
