// Expressions in kernels: drawn ones in sampled configs of every family, on every kind of CPU that
// this machine can stand for and, for GPUs without one, lane by lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cli/commands/random_expression.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/problem/gemm_types.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/emulated.h"
#include "support/family_samples.h"
#include "support/gpu_gemm.h"
#include "support/paths.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::expressions_test {

/// The problem with another epilogue.
Gemm expressed(Gemm gemm, cli::Draw& draw) {
  gemm.epilogue = {};
  gemm.amax_d = false;
  return gemm.with_expression(
      Expression::parse(cli::random_expression(draw, gemm.d.order)).value());
}

/// Now and then with a D of codes.
Gemm with_codes(Gemm gemm, cli::Draw& draw) {
  if (draw.one_in(4) && gemm.accumulator != fp64)
    gemm.c.dtype = gemm.d.dtype = draw.one_in(3) ? s8 : fp8_e4m3;
  return gemm;
}

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

/// Those of the table of docs/guide/expressions.md.
std::vector<std::string> documented() {
  std::ifstream page(std::filesystem::path(test::source_dir()) / "docs/guide/expressions.md");
  std::vector<std::string> all;
  bool table = false;
  for (std::string line; std::getline(page, line);) {
    table = (table || line.starts_with("## Twenty-one")) && !line.starts_with("## Calls");
    const std::size_t begin =
        std::min({line.find("`d="), line.find("`x="), line.find("`y="), line.find("`l[m]=")});
    if (!table || begin == line.npos) continue;
    all.push_back(line.substr(begin + 1, line.find('`', begin + 1) - begin - 1));
  }
  return all;
}

TEST(DocumentedExpressions, AreRight) {
  const std::vector<std::string> all = documented();
  EXPECT_EQ(all.size(), 21u);
  std::vector<DeviceCaps> gpus{caps_named("sm_90a").value(), caps_named("gfx942").value()};
  for (DeviceCaps& gpu : gpus) gpu.compute_units = 4;
  const auto cpu = test::runnable("portable", 1);
  for (const std::string& text : all) {
    const auto gemm = parse_gemm("bf16 N T 70 96 128 align=16 epilogue=" + text);
    ASSERT_TRUE(gemm) << gemm.error().message;
    auto verifier = Verifier::make(*gemm, {.seed = 3, .effort = Effort::full});
    ASSERT_TRUE(verifier) << text << ": " << verifier.error().message;
    for (const Config& config : one_of_each(test::space_of(*gemm, *cpu).value(), 1)) {
      const Verdict verdict = test::check_compiled(*verifier, *cpu, config, "seed 3, full");
      EXPECT_TRUE(verdict) << text << ": " << verdict.error().detail;
    }
    for (const DeviceCaps& gpu : gpus)
      for (const Config& config : one_of_each(test::space_of(*gemm, gpu).value(), 1)) {
        const auto kernel = test::emulated_kernel(*gemm, gpu, config);
        ASSERT_TRUE(kernel) << text << ": " << kernel.error().message;
        const Verdict verdict = test::verify_emulated(*gemm, *kernel, 0);
        EXPECT_TRUE(verdict) << text << ": " << (verdict ? "" : verdict.error().detail);
      }
  }
}

TEST(SharedVectors, AreReadByEachNeighbour) {
  DeviceCaps gpu = caps_named("sm_90a").value();
  gpu.compute_units = 4;
  for (const char* text : {"d=acc*b[n/3]+s[m/3]", "d=acc*b[n/2]+s[m/2]"})
    for (const int swap : {0, 1}) {
      const auto gemm = parse_gemm(fmt::format("bf16 N T 70 127 64 align=16 epilogue={}", text));
      CudaWgmma config{.left = 128, .right = 96, .stages = 3, .warpgroups = 2};
      config.swap = swap != 0;
      const auto kernel = test::emulated_kernel(*gemm, gpu, config);
      ASSERT_TRUE(kernel) << kernel.error().message;
      const Verdict verdict = test::verify_emulated(*gemm, *kernel, 0);
      EXPECT_TRUE(verdict) << text << ", swap " << swap << ": "
                           << (verdict ? "" : verdict.error().detail);
    }
}

class OnCpus : public testing::TestWithParam<const char*> {};

TEST_P(OnCpus, DrawnOnesAreRight) {
  constexpr int kProblems = 24;
  const auto device = test::runnable(GetParam(), 1);
  ASSERT_TRUE(device);
  test::Attempt attempt;
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 1);
  test::RandomGemm random(seed + 40);
  std::vector<Gemm> problems;
  for (const auto& sample : test::kFamilySamples)
    if (cpu_caps_named(sample.device)) {
      const Gemm gemm = expressed(parse_gemm(sample.shape).value(), draw);
      if (validate(gemm)) problems.push_back(gemm);
    }
  for (int i = 0; i < kProblems * test::thorough(); ++i) {
    const auto& row = kCpuTypeRows[static_cast<std::size_t>(i) % kCpuTypeRows.size()];
    const Gemm gemm = expressed(with_codes(random.next(row), draw), draw);
    if (validate(gemm)) problems.push_back(gemm);  // of no element nothing can be made
  }
  std::map<std::string_view, int> checked;
  std::uint64_t number = 0;
  for (const Gemm& gemm : problems) {
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
  for (const char* family : {"host_packed", "host_dot", "host_small"})
    EXPECT_GT(checked[family], 0) << family;
}

std::vector<const char*> cpus_that_run() {
  std::vector<const char*> names{"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  std::erase_if(names, [](const char* name) { return !test::runnable(name, 1); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Devices, OnCpus, testing::ValuesIn(cpus_that_run()),
                         [](const auto& info) { return std::string(info.param); });

class OnGpus : public testing::TestWithParam<const char*> {};

TEST_P(OnGpus, DrawnOnesAreRight) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  const std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                                  *type_row(fp32, fp32), *type_row(fp64, fp64)};
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 2);
  test::RandomGpuGemm random(seed + 50, 150);
  std::map<std::string_view, int> proven;
  const int problems = 24 * test::thorough();
  for (int i = 0; i < problems; ++i) {
    Gemm drawn = random.next(rows);
    // A vector times a matrix has families of its own.
    if (i % 4 == 3) (i % 8 == 3 ? drawn.m : drawn.n) = 1;
    const Gemm gemm = expressed(with_codes(drawn, draw), draw);
    if (!validate(gemm)) continue;
    const auto space = test::space_of(gemm, device);
    ASSERT_TRUE(space) << text(gemm) << ": " << space.error().message;
    for (const Config& config : one_of_each(*space, seed + static_cast<std::uint64_t>(i))) {
      const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, text(gemm), text(config));
      const auto kernel = test::emulated_kernel(gemm, device, config);
      ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
      const Verdict verdict = test::verify_emulated(gemm, *kernel, 0);
      EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
      ++proven[family_name(config)];
    }
  }
  const bool amd = device.vendor == Vendor::amd;
  const std::vector<const char*> families =
      amd ? std::vector{"hip_simt", "hip_mfma"} : std::vector{"cuda_simt", "cuda_mma", "cuda_gemv"};
  for (const char* family : families) EXPECT_GT(proven[family], 0) << family;
  EXPECT_EQ(proven["cuda_wgmma"] > 0, !amd && device.gpu.arch_specific);
}

INSTANTIATE_TEST_SUITE_P(Devices, OnGpus, testing::Values("sm_80", "sm_90a", "gfx90a", "gfx942"));

}  // namespace kiln::expressions_test
