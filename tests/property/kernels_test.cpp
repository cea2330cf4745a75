// Every point of a space is a kernel: sampled configs of random problems render, compile, load and
// give right results, on every kind of CPU that this machine can stand for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/family_samples.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"
#include "tuner/verify/verify.h"

namespace kiln::kernels_test {

constexpr int kProblems = 4;  // for each number of threads: every type for one of the two
constexpr std::size_t kConfigsPerFamily = 1;

struct Drawn {
  Gemm gemm;
  std::string_view family;  // alone; empty: all
};

/// One column beside whole vectors, and elements of D that are smaller than 4 bytes: Clang 22
/// stores 4 bytes of it where the number of columns is a constant.
constexpr const char* kLoneColumns[] = {"bf16 N N 21 17 30", "fp32 T N 20 9 30 out=bf16",
                                        "int8 N T 20 33 64 out=s8", "fp16 N N 9 33 20"};

/// A problem for every CPU family, and random ones of every type in turn.
std::vector<Drawn> problems(int threads) {
  std::vector<Drawn> all;
  if (threads == 1)
    for (const auto& sample : test::kFamilySamples)
      if (cpu_caps_named(sample.device))
        all.push_back({parse_gemm(sample.shape).value(), sample.family});
  if (threads == 1)
    for (const char* line : kLoneColumns) all.push_back({parse_gemm(line).value(), ""});
  test::RandomGemm random(test::seed_of_run() + 16u + static_cast<unsigned>(threads));
  const int count = kProblems * test::thorough();
  for (int i = 0; i < count; ++i) {
    Gemm gemm = random.next(
        kCpuTypeRows[static_cast<std::size_t>(i + threads * count) % kCpuTypeRows.size()]);
    if (const Gemm with = gemm.with_amax_d(); i % 3 == 0 && validate(with)) gemm = with;
    all.push_back({gemm, ""});
  }
  return all;
}

/// A few points of each family, the same for the same seed.
std::vector<Config> sample(const SearchSpace& space, std::uint64_t seed) {
  std::map<std::string_view, std::vector<Config>> by_family;
  for (const auto& config : space.legal) by_family[family_name(config)].push_back(config);
  std::mt19937_64 random(seed);
  std::vector<Config> chosen;
  for (auto& [family, configs] : by_family) {
    const auto count = std::min(kConfigsPerFamily, configs.size());
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(configs[random() % configs.size()]);
  }
  chosen.push_back(fallback_config(space.problem, space.device));
  return chosen;
}

class Kernels : public testing::TestWithParam<const char*> {};

TEST_P(Kernels, OfRandomProblemsAreRight) {
  int checked = 0;
  test::Attempt attempt;
  for (const int threads : {1, 2}) {
    const auto device = test::runnable(GetParam(), threads);
    ASSERT_TRUE(device);
    const auto seed = test::seed_of_run();
    std::uint64_t number = 0;
    for (const auto& [gemm, only] : problems(threads)) {
      const auto space = test::space_of(gemm, *device);
      ASSERT_TRUE(space) << text(gemm) << ": " << space.error().message;
      auto verifier = Verifier::make(gemm, {.seed = seed + 99, .effort = Effort::full});
      ASSERT_TRUE(verifier) << text(gemm) << ": " << verifier.error().message;
      for (const auto& config : sample(*space, seed + number++)) {
        if (!only.empty() && family_name(config) != only) continue;
        const std::string what = fmt::format("KILN_SEED={}: {} | {} | threads {}", seed, text(gemm),
                                             text(config), threads);
        attempt.at(what);
        const Verdict verdict = test::check_compiled(*verifier, *device, config,
                                                     fmt::format("seed {}, full", seed + 99));
        EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 2 * kProblems);
}

/// Results in the denormal range: to the last bit of whatever keeps denormals, and of vdpbf16ps and
/// tdpbf16ps what they are documented to lose, which without that word is a wrong result.
TEST_P(Kernels, KeepDenormalsOrAreKnownNotTo) {
  const auto device = test::runnable(GetParam(), 1);
  ASSERT_TRUE(device);
  test::Attempt attempt;
  for (const char* line : {"bf16 N T 33 40 70", "bf16 N N 20 64 64 out=fp32", "fp32 N N 33 40 70",
                           "fp16 N T 33 40 70"}) {
    const Gemm gemm = parse_gemm(line).value();
    const auto space = test::space_of(gemm, *device);
    ASSERT_TRUE(space) << line << ": " << space.error().message;
    auto verifier = Verifier::make(gemm, {.seed = 7, .effort = Effort::full});
    ASSERT_TRUE(verifier);
    for (const auto& config : sample(*space, 3)) {
      const std::string what = std::string(line) + " | " + text(config);
      attempt.at(what);
      auto kernel = test::compiled(gemm, *device, config);
      ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
      const RunKernel run = [&](const Operands& operands) { return kernel->run(operands); };
      const double flushed = flushed_by(gemm, *device, config);
      const auto known = verifier->check(run, flushed);
      EXPECT_TRUE(known) << what << ": " << known.error().detail;
      if (flushed == 0) continue;
      const auto strict = verifier->check(run);
      ASSERT_FALSE(strict) << what << " flushes nothing";
      EXPECT_NE(strict.error().detail.find("denormal results"), std::string::npos)
          << strict.error().detail;
    }
  }
}

std::vector<const char*> cpus_here() {
  std::vector<const char*> names{"portable", "avx2", "avx512", "avx512_bf16", "amx"};
  std::erase_if(names, [](const char* name) { return !test::runnable(name, 1); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cpus, Kernels, testing::ValuesIn(cpus_here()),
                         [](const auto& info) { return std::string(info.param); });

TEST(KernelsOfOtherCpus, Compile) {
  const auto compiler = host_compiler();
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const char* name : {"portable", "avx2", "avx512", "avx512_bf16", "amx"}) {
    if (test::runnable(name, 1)) continue;  // compiled and run above
    const auto device = cpu_caps_named(name).value();
    std::uint64_t number = test::seed_of_run();
    for (const auto& [gemm, only] : problems(1)) {
      const auto space = test::space_of(gemm, device);
      ASSERT_TRUE(space) << text(gemm) << ": " << space.error().message;
      for (const auto& config : sample(*space, number++)) {
        if (!only.empty() && family_name(config) != only) continue;
        const auto source = render(Problem::of(gemm).value(), device, config);
        ASSERT_TRUE(source) << text(gemm) << " | " << text(config);
        const std::string wrong =
            test::proof("compiles " + code_key(*source) + (*compiler)->version(), [&] {
              const auto binary = (*compiler)->compile(*source);
              return binary ? std::string() : binary.error().message;
            });
        EXPECT_EQ(wrong, "") << name << " | " << text(gemm) << " | " << text(config);
      }
    }
  }
}

}  // namespace kiln::kernels_test
