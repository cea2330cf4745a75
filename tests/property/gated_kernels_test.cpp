// Gates that are expressions, in kernels: drawn ones in sampled configs of every family that
// computes gates, on CPUs and lane by lane; those that are fields too beside them; and the product
// that a person would write.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "generator/problem/gemm_types.h"
#include "generator/problem/spelling.h"
#include "kiln/numeric.hpp"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/drawn_gates.h"
#include "support/emulated.h"
#include "support/family_samples.h"
#include "support/gpu_gemm.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::gated_kernels_test {

/// One legal config of each family, the same for the same seed.
std::vector<Config> one_of_each(const SearchSpace& space, std::uint64_t seed) {
  std::map<std::string_view, std::vector<Config>> by_family;
  for (const Config& config : space.legal) by_family[family_name(config)].push_back(config);
  std::mt19937_64 random(seed);
  std::vector<Config> chosen;
  for (const auto& [family, configs] : by_family)
    chosen.push_back(configs[random() % configs.size()]);
  return chosen;
}

class GatesOnCpus : public testing::TestWithParam<const char*> {};

TEST_P(GatesOnCpus, DrawnOnesAreRight) {
  constexpr int kProblems = 16;
  const auto device = test::runnable(GetParam(), 1);
  ASSERT_TRUE(device);
  test::Attempt attempt;
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 5);
  test::RandomGemm random(seed + 60);
  std::vector<Gemm> problems;
  for (const auto& sample : test::kFamilySamples)
    if (cpu_caps_named(sample.device))
      problems.push_back(test::gated_by_drawn(parse_gemm(sample.shape).value(), draw));
  for (int i = 0; i < kProblems * test::thorough(); ++i) {
    const auto& row = kCpuTypeRows[static_cast<std::size_t>(i) % kCpuTypeRows.size()];
    problems.push_back(test::gated_by_drawn(random.next(row), draw));
  }
  std::map<std::string_view, int> checked;
  std::uint64_t number = 0;
  for (const Gemm& gemm : problems) {
    if (!validate(gemm)) continue;  // integers, scales of D, no element
    const auto space = test::space_of(gemm, *device);
    ASSERT_TRUE(space) << text(gemm) << ": " << space.error().message;
    auto verifier = Verifier::make(gemm, {.seed = seed + 9, .effort = Effort::full});
    ASSERT_TRUE(verifier) << text(gemm) << ": " << verifier.error().message;
    for (const Config& config : one_of_each(*space, seed + number++)) {
      const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, text(gemm), text(config));
      attempt.at(what);
      const Verdict verdict =
          test::check_compiled(*verifier, *device, config, fmt::format("seed {}, full", seed + 9));
      EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
      ++checked[family_name(config)];
    }
  }
  for (const char* family : {"host_packed", "host_dot", "host_weights"})
    EXPECT_GT(checked[family], 0) << family;
}

std::vector<const char*> cpus_that_run() {
  std::vector<const char*> names{"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  std::erase_if(names, [](const char* name) { return !test::runnable(name, 1); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Devices, GatesOnCpus, testing::ValuesIn(cpus_that_run()),
                         [](const auto& info) { return std::string(info.param); });

/// Verifies one config of each family, and counts them.
void verify_each(const Gemm& gemm, const DeviceCaps& device, std::uint64_t seed,
                 std::map<std::string_view, int>& proven) {
  const auto space = test::space_of(gemm, device);
  ASSERT_TRUE(space) << text(gemm) << ": " << space.error().message;
  for (const Config& config : one_of_each(*space, seed)) {
    const std::string what = fmt::format("{} | {}", text(gemm), text(config));
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(gemm, *kernel, 0);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
    ++proven[family_name(config)];
  }
}

class GatesOnGpus : public testing::TestWithParam<const char*> {};

TEST_P(GatesOnGpus, DrawnOnesAreRight) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                            *type_row(fp32, fp32), *type_row(fp64, fp64)};
  if (device.gpu.sm >= 89) rows.push_back(*type_row(fp8_e4m3, fp8_e4m3));
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 6);
  test::RandomGpuGemm random(seed + 70, 150);
  std::map<std::string_view, int> proven;
  for (int i = 0; i < 16 * test::thorough(); ++i) {
    Gemm gemm = test::gated_by_drawn(random.next(rows), draw);
    gemm.alignment = kUsualAlignment;
    if (validate(gemm)) verify_each(gemm, device, seed + static_cast<std::uint64_t>(i), proven);
  }
  for (int i = 0; i < 4 * test::thorough(); ++i) {
    const Gemm weights =
        parse_gemm(i % 2 == 0 ? "bf16_uint4 N T 51 84 384 group=64 zero=int align=16"
                              : "bf16_fp8 N T 5 84 384 group=128 align=16")
            .value();
    Gemm gemm = test::gated_by_drawn(weights, draw);
    gemm.alignment = 16;
    if (validate(gemm)) verify_each(gemm, device, seed + static_cast<std::uint64_t>(i), proven);
  }
  for (const char* family : {"cuda_simt", "cuda_mma", "cuda_weights", "cuda_gemv_weights"})
    EXPECT_GT(proven[family], 0) << family;
  for (const char* family : {"cuda_wgmma", "cuda_wgmma_weights"})
    EXPECT_EQ(proven[family] > 0, device.gpu.arch_specific) << family;
}

INSTANTIATE_TEST_SUITE_P(Devices, GatesOnGpus, testing::Values("sm_80", "sm_90a"));

/// AMD's kernels compute gates in one family, so those that are fields are drawn here, too.
class GatesOnAmdGpus : public testing::TestWithParam<const char*> {};

TEST_P(GatesOnAmdGpus, DrawnOnesAreRight) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;
  const std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(s8, s8), *type_row(fp32, fp32),
                                  *type_row(fp64, fp64)};
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 7);
  test::RandomGpuGemm random(seed + 80, 100);
  std::map<std::string_view, int> proven;
  for (int i = 0; i < 12 * test::thorough(); ++i) {
    Gemm gemm = test::gated_by_drawn(random.next(rows), draw);
    if (i % 2 == 0) {
      const GateOrder order = gemm.epilogue.gate->order;
      gemm = gemm.with_expression({})
                 .with_gate(static_cast<Gate>(1 + i / 2 % 5), order)
                 .with_bias(static_cast<Bias>(i % 3));
      gemm.epilogue.residual = i % 4 == 0;
      if (!is_floating(gemm.d.dtype)) gemm = gemm.output(fp32);
    }
    if (gemm.grouping() == Grouping::none && validate(gemm))
      verify_each(gemm, device, seed + static_cast<std::uint64_t>(i), proven);
  }
  const Gemm blocks = parse_gemm("fp8fnuz N T 33 70 256 scale=1x128:128x128").value();
  const Gemm gemm = test::gated_by_drawn(blocks, draw);
  if (validate(gemm) && device.arch == "gfx942") verify_each(gemm, device, seed, proven);
  EXPECT_GT(proven["hip_simt"], 6);
}

INSTANTIATE_TEST_SUITE_P(Devices, GatesOnAmdGpus, testing::Values("gfx90a", "gfx942", "gfx1100"));

/// D of a problem whose operands are drawn, by the kernel of a config.
std::vector<float> computed(const Gemm& gemm, const DeviceCaps& device, const Config& config,
                            const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> d(static_cast<std::size_t>(gemm.m * gemm.n));
  auto kernel = test::compiled(gemm, device, config);
  EXPECT_TRUE(kernel) << kernel.error().message;
  const Status ran = kernel->run({.a = a.data(), .b = b.data(), .d = d.data()});
  EXPECT_TRUE(ran) << ran.error().message;
  return d;
}

std::vector<float> drawn(std::int64_t count, std::mt19937& random) {
  std::vector<float> all(static_cast<std::size_t>(count));
  std::uniform_real_distribution<float> number(-1, 1);
  for (float& x : all) x = number(random);
  return all;
}

/// The functions that are fields, written as expressions.
struct Spelling {
  const char* field;
  const char* expression;
};
constexpr Spelling kSpellings[] = {{"relu", "d=relu(acc0)*acc1"},
                                   {"gelu", "d=gelu(acc0)*acc1"},
                                   {"gelu_erf", "d=gelu_erf(acc0)*acc1"},
                                   {"silu", "d=silu(acc0)*acc1"},
                                   {"sigmoid", "d=sigmoid(acc0)*acc1"}};

TEST(SpelledGates, GiveWhatTheFieldGives) {
  const auto device = test::runnable("portable", 1);
  std::mt19937 random(7);
  const std::vector<float> a = drawn(13 * 60, random), b = drawn(2 * 29 * 60, random);
  for (const Spelling& spelling : kSpellings)
    for (const char* order : {"", ":interleaved"}) {
      const Gemm field =
          parse_gemm(fmt::format("fp32 N T 13 29 60 gate={}{}", spelling.field, order)).value();
      const Gemm written = parse_gemm(fmt::format("fp32 N T 13 29 60 epilogue={} gate=expression{}",
                                                  spelling.expression, order))
                               .value();
      for (const Config& config : one_of_each(test::space_of(written, *device).value(), 1)) {
        const std::vector<float> one = computed(field, *device, config, a, b);
        const std::vector<float> other = computed(written, *device, config, a, b);
        for (std::size_t i = 0; i < one.size(); ++i)
          EXPECT_NEAR(one[i], other[i], 3e-6 * (1 + std::fabs(one[i])))
              << spelling.field << order << " | " << text(config) << ", element " << i;
      }
    }
}

// By a loop that a person would write, which shares nothing with kernels or with verification.
TEST(SpelledGates, GiveWhatAPlainLoopGives) {
  const auto device = test::runnable("portable", 1);
  constexpr std::int64_t kM = 7, kN = 21, kK = 33;
  std::mt19937 random(8);
  const std::vector<float> a = drawn(kM * kK, random), b = drawn(2 * kN * kK, random);
  for (const bool interleaved : {false, true}) {
    const Gemm gemm =
        parse_gemm(fmt::format("fp32 N T {} {} {} epilogue=d=silu(acc0)*acc1-2*acc0{}", kM, kN, kK,
                               interleaved ? " gate=expression:interleaved" : ""))
            .value();
    for (const Config& config : one_of_each(test::space_of(gemm, *device).value(), 2)) {
      const std::vector<float> d = computed(gemm, *device, config, a, b);
      for (std::int64_t i = 0; i < kM; ++i)
        for (std::int64_t j = 0; j < kN; ++j) {
          const std::int64_t first = interleaved ? 2 * j : j;
          const std::int64_t second = interleaved ? 2 * j + 1 : kN + j;
          double x = 0, y = 0;
          for (std::int64_t p = 0; p < kK; ++p) {
            x += double(a[std::size_t(i * kK + p)]) * double(b[std::size_t(first * kK + p)]);
            y += double(a[std::size_t(i * kK + p)]) * double(b[std::size_t(second * kK + p)]);
          }
          EXPECT_NEAR(d[std::size_t(i * kN + j)], x / (1 + std::exp(-x)) * y - 2 * x, 1e-4)
              << text(config) << ", row " << i << ", column " << j;
        }
    }
  }
}

}  // namespace kiln::gated_kernels_test
