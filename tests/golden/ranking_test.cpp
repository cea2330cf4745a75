// What the analytic models rank first, kept as files under rankings/, one a device: of each problem
// the ten configs that are predicted fastest, with the microseconds predicted. A search measures
// the first of a ranking, so a change of a model or of a space is judged by what it moves there.
// Run with KILN_ACCEPT=1 to take a change, then read it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/problem/device_caps.h"
#include "generator/problem/gemm_text.h"
#include "generator/space/space.h"
#include "support/golden.h"

namespace kiln::ranking_test {

constexpr std::size_t kKept = 10;

struct Case {
  const char* gemm;
  int threads = 1;  // of a CPU
};

struct Device {
  const char* file;
  const char* named;  // of caps_named()
  std::vector<Case> cases;
  CoreModel core = {};
};

void PrintTo(const Device& device, std::ostream* out) { *out << device.file; }

/// The space of 16 threads is four times as large as that of one, so few are ranked.
const std::vector<Case> kOfAnyCpu{
    {"fp32 N N 1024 1024 1024"},
    {"fp32 N T 1 4096 4096"},
    {"fp32 N N 64 14336 4096"},
    {"fp32 N N 843 369 4"},
    {"fp32 N N 13 24 9"},
    {"fp32 N N 1023 1025 1027"},
    {"fp32 N N 4096 4096 4096", 16},
    {"fp32 N T 1 4096 4096", 16},
    {"fp32 N N 8 1024 4096 packed_b=1"},
    {"fp64 T N 3000 7 2000"},
    {"bf16 N T 512 4096 4096"},
    {"int8 N T 128 4096 4096 out=bf16 scale=line"},
    {"bf16 N T 128 14336 4096 gate=silu"},
    {"bf16_int4 N T 1 4096 4096 group=128 scale_type=bf16"},
    {"bf16_int4 N T 128 4096 4096 group=128 scale_type=bf16", 16},
};

/// The first are plain and large, then come few rows, odd sizes, a long k and what layers are made
/// of.
const std::vector<Case> kOfAnyGpu{
    {"bf16 N T 4096 4096 4096 align=16"},
    {"bf16 N N 8192 8192 8192 align=16"},
    {"fp32 N N 4096 4096 4096 align=16"},
    {"int8 N T 4096 4096 4096 align=16"},
    {"bf16 N T 1 4096 4096 align=16"},
    {"bf16 N T 16 6144 4096 align=16"},
    {"fp16 N T 512 6144 4096 align=16"},
    {"bf16 N T 1023 1023 1023"},
    {"bf16 T N 64 96 65536 align=16"},
    {"bf16 N T 8192 4096 7168 groups=8 grouped=rows align=16"},
};

// Batches of small products.
const std::vector<Case> kSmall{{"fp32 N N 16 16 16 batch=10000 align=16"},
                               {"fp32 N N 64 64 64 batch=10000 align=16"},
                               {"fp64 N N 32 32 32 batch=10000 align=16"},
                               {"bf16 N T 64 64 64 batch=10000 align=16"},
                               {"fp16 N N 5 5 5 batch=100000 align=16"}};

std::vector<Case> with(std::vector<Case> cases, std::vector<Case> more) {
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

// What only NVIDIA's kernels compute, and what only some of the devices have.
const Case kGate{"bf16 N T 512 14336 4096 gate=silu align=16"};
const Case kWeightsOfOneRow{"bf16_int4 N T 1 4096 4096 group=128 scale_type=bf16 align=16"};
const Case kWeights{"bf16_int4 N T 16 4096 4096 group=128 scale_type=bf16 align=16"};
const Case kBlockScales{"fp8 N T 4096 4096 7168 scale=1x128:128x128 align=16"};
const Case kMxScales{"fp4 N T 4096 4096 4096 scale=mx32 align=16"};

const std::vector<Device>& devices() {
  static const std::vector<Device> all{
      {"avx2", "avx2", kOfAnyCpu},
      {"avx512_zen4", "avx512_bf16", kOfAnyCpu, {.family = 0x19, .model = 0x11}},
      {"amx", "amx", kOfAnyCpu},
      {"sm_80", "sm_80", with(kOfAnyGpu, {kGate, kWeightsOfOneRow, kWeights})},
      {"sm_90a", "sm_90a",
       with(with(kOfAnyGpu, {kGate, kWeightsOfOneRow, kWeights, kBlockScales}), kSmall)},
      {"gfx942", "gfx942", kOfAnyGpu},
      {"gfx950", "gfx950", with(kOfAnyGpu, {kMxScales})},
  };
  return all;
}

/// Microseconds with three significant digits, never with an exponent.
std::string microseconds(double ns) {
  const double us = ns / 1000;
  const int beyond = static_cast<int>(std::floor(std::log10(us))) - 2;
  if (beyond <= 0) return fmt::format("{:.{}f}", us, -beyond);
  const double unit = std::pow(10.0, beyond);
  return fmt::format("{:.0f}", std::round(us / unit) * unit);
}

using Ranked = std::vector<std::pair<float, std::string>>;

/// As a float: compilers may differ in the last bits of a double, and must not in the order.
Ranked first_of(const SearchSpace& space) {
  std::vector<float> predicted;
  predicted.reserve(space.legal.size());
  for (const Config& config : space.legal)
    predicted.push_back(static_cast<float>(predict_ns(space.problem, space.device, config)));
  std::vector<float> sorted = predicted;
  std::sort(sorted.begin(), sorted.end());
  const float last = sorted[std::min(kKept, sorted.size()) - 1];
  Ranked ranked;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    if (predicted[i] <= last) ranked.emplace_back(predicted[i], text(space.legal[i]));
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(kKept, ranked.size()));
  return ranked;
}

std::string ranking(const Device& device, const Case& c) {
  std::string out = c.gemm;
  if (c.threads > 1) out += fmt::format(" ({} threads)", c.threads);
  out += '\n';
  auto caps = caps_named(device.named);
  const auto gemm = parse_gemm(c.gemm);
  if (!caps || !gemm) return out + (caps ? gemm.error() : caps.error()).message + '\n';
  caps->core = device.core;
  if (caps->vendor == Vendor::cpu) caps->compute_units = c.threads;
  const auto space = space_for(Problem::of(*gemm).value(), *caps);
  if (!space) return out + space.error().message + '\n';
  for (const auto& [ns, config] : first_of(*space))
    out += fmt::format("{:>8}  {}\n", microseconds(ns), config);
  return out;
}

std::string file_of(const Device& device) { return std::string(device.file) + ".txt"; }

class Ranking : public testing::TestWithParam<Device> {};

TEST_P(Ranking, IsAsKept) {
  std::string all;
  for (const Case& c : GetParam().cases) all += (all.empty() ? "" : "\n") + ranking(GetParam(), c);
  EXPECT_TRUE(test::matches_golden(file_of(GetParam()), all, "rankings"));
}

INSTANTIATE_TEST_SUITE_P(Kept, Ranking, testing::ValuesIn(devices()),
                         [](const auto& info) { return std::string(info.param.file); });

TEST(Rankings, HaveNoLeftovers) {
  std::set<std::string> wanted;
  for (const Device& device : devices()) wanted.insert(file_of(device));
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder("rankings")))
    EXPECT_TRUE(wanted.count(entry.path().filename().string())) << entry.path();
}

TEST(Microseconds, HaveThreeDigits) {
  EXPECT_EQ(microseconds(12.34), "0.0123");
  EXPECT_EQ(microseconds(1234), "1.23");
  EXPECT_EQ(microseconds(123456), "123");
  EXPECT_EQ(microseconds(12345678), "12300");
}

}  // namespace kiln::ranking_test
