// The row of figures that a CPU's core has: by its model where that is known and fits its features,
// else by its features.
#include "generator/families/cpu/common/microarchitectures.h"

#include <gtest/gtest.h>

#include <map>

#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/problem/device_class.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"

namespace kiln::microarchitectures_test {

using host::microarchitecture;
using host::microarchitecture_of_model;

DeviceCaps with_core(const char* cpu, int family, int model) {
  DeviceCaps caps = cpu_caps_named(cpu).value();
  caps.core = {.family = family, .model = model};
  return caps;
}

TEST(Microarchitectures, EachRowIsFoundByAModelOfIt) {
  struct Sample {
    const char *row, *cpu;
    int family, model;
  };
  const Sample samples[] = {
      {"Zen 3 or older", "avx2", 0x17, 0x31},   {"Zen 3 or older", "avx2", 0x19, 0x01},
      {"Zen 3 or older", "avx2", 0x19, 0x50},   {"Intel AVX-512", "avx512", 6, 85},
      {"Intel AVX-512", "avx512_vnni", 6, 106}, {"Zen 4", "avx512_bf16", 0x19, 0x11},
      {"Zen 4", "avx512_bf16", 0x19, 0xa0},     {"Zen 5", "avx512_bf16", 0x1a, 0x02},
      {"Sapphire Rapids", "amx", 6, 143},       {"Sapphire Rapids", "amx", 6, 207},
      {"Sapphire Rapids", "amx", 6, 173},
  };
  std::map<std::string_view, int> seen;
  for (const Sample& s : samples) {
    const auto* row = microarchitecture_of_model(with_core(s.cpu, s.family, s.model));
    ASSERT_NE(row, nullptr) << s.row;
    EXPECT_EQ(row->name, s.row);
    ++seen[row->name];
  }
  for (const auto& row : host::kMicroarchitectures) {
    EXPECT_EQ(row.models.front().family == 0, !seen.contains(row.name)) << row.name;
  }
}

TEST(Microarchitectures, UnknownCoresAreThoseOfTheirFeatures) {
  const std::map<std::string_view, std::string_view> rows{
      {"portable", "portable"},    {"aarch64", "portable"},          {"avx2", "AVX2"},
      {"avx512", "Intel AVX-512"}, {"avx512_vnni", "Intel AVX-512"}, {"avx512_bf16", "Zen 5"},
      {"amx", "Sapphire Rapids"}};
  for (const std::string& cpu : cpu_names()) {
    const DeviceCaps caps = cpu_caps_named(cpu).value();
    ASSERT_TRUE(rows.contains(cpu)) << cpu;
    EXPECT_EQ(microarchitecture_of_model(caps), nullptr) << cpu;
    EXPECT_EQ(microarchitecture(caps).name, rows.at(cpu)) << cpu;
  }
  EXPECT_EQ(microarchitecture(with_core("avx2", 6, 9999)).name, "AVX2");
}

// A guest said that it is a Rocket Lake (family 6, model 167) and had AMX.
TEST(Microarchitectures, FeaturesDecideWhereAModelHasFewer) {
  EXPECT_EQ(microarchitecture(with_core("amx", 6, 167)).name, "Sapphire Rapids");
  EXPECT_EQ(microarchitecture(with_core("amx", 6, 106)).name, "Sapphire Rapids");
  EXPECT_EQ(microarchitecture(with_core("avx512_bf16", 6, 85)).name, "Zen 5");
}

// Kernels of several classes are ranked beside each other on one core.
TEST(Microarchitectures, ACoreWhoseFeaturesAreHiddenStaysWhatItIs) {
  EXPECT_EQ(microarchitecture(with_core("avx2", 0x19, 0x11)).name, "Zen 4");
  const DeviceCaps zen4 = with_core("avx512_bf16", 0x19, 0x11);
  for (const char* name : {"avx2", "avx512", "avx512_vnni", "avx512_bf16"}) {
    const auto of_class = device_class(name);
    ASSERT_TRUE(of_class) << name;
    EXPECT_EQ(microarchitecture(limited_to_class(zen4, *of_class)).name, "Zen 4") << name;
  }
}

TEST(Microarchitectures, AModelIsNoPartOfWhatNamesADevice) {
  const DeviceCaps known = with_core("avx512_bf16", 0x19, 0x11),
                   unknown = with_core("avx512_bf16", 0, 0);
  EXPECT_EQ(known, unknown);
  EXPECT_EQ(fingerprint(known), fingerprint(unknown));
  // Which configs there are follows from what a database keeps of a device.
  for (const char* line : {"bf16 N T 256 256 256", "bf16 T N 4096 4 512", "int8 N T 64 64 64"}) {
    const Gemm gemm = parse_gemm(line).value();
    EXPECT_EQ(space_for(Problem::of(gemm).value(), known)->legal,
              space_for(Problem::of(gemm).value(), unknown)->legal)
        << line;
  }
}

// What models were fitted with before there were rows.
TEST(Microarchitectures, RatesOfCoresThatModelsWereFittedOn) {
  for (const char* cpu : {"avx512_bf16", "amx"}) {
    DeviceCaps caps = cpu_caps_named(cpu).value();
    caps.ghz = 2.6;
    const host::Rates rate = host::rates(caps, Isa::avx512);
    EXPECT_EQ(rate.dots_per_ns, 2 * 2.6);
    EXPECT_EQ(rate.l1, 110 * 2.6);
    EXPECT_EQ(rate.l2, 40 * 2.6);
    EXPECT_EQ(rate.l3, 10 * 2.6);
    EXPECT_EQ(rate.dram, 15);
    EXPECT_EQ(rate.chains, 8);
    const bool amx = caps.cpu.amx_bf16;
    const auto* pairs = dot_instruction(Isa::avx512, caps.cpu, bf16, bf16);
    const auto* bytes = dot_instruction(Isa::avx512, caps.cpu, u8, s8);
    EXPECT_DOUBLE_EQ(host::dots_per_ns(caps, *pairs), (amx ? 0.5 : 2) * 2.6);
    EXPECT_DOUBLE_EQ(host::dots_per_ns(caps, *bytes), 2 * 2.6);
    EXPECT_EQ(host::slow_pairs(caps), amx);
    EXPECT_EQ(host::dots_of_a_pair(caps), amx ? 4 : 1);
  }
  const host::Rates half = host::rates(with_core("avx512_bf16", 0x19, 0x11), Isa::avx512);
  EXPECT_DOUBLE_EQ(half.dots_per_ns, 3.69) << "one FMA of 64 bytes a cycle of Zen 4";
}

// What 564×4819×9 took on Zen 4: 0.54 ms with inner=columns, 1.2 down the columns, 1.8 streamed so.
TEST(Microarchitectures, OnZen4PiecesOfDCostTime) {
  const DeviceCaps zen4 = with_core("avx512_bf16", 0x19, 0x11);
  const Problem problem = Problem::of(parse_gemm("int8 N T 564 4819 9").value()).value();
  HostPacked config{.mr = 4, .nv = 6, .kc = 16, .mc = 96, .nc = 4128, .inner = Inner::columns};
  const double across = predict_ns(problem, zen4, config);
  config.inner = Inner::rows;
  const double down = predict_ns(problem, zen4, config);
  config.stream_d = true;
  EXPECT_GT(down, 1.2 * across);
  EXPECT_GT(predict_ns(problem, zen4, config), 1.2 * across);
}

TEST(Microarchitectures, ThisMachinesModelIsFound) {
#if defined(__x86_64__)
  const DeviceCaps here = detect_cpu(1).value();
  EXPECT_GT(here.core.family, 0);
  EXPECT_EQ(microarchitecture(here).level, host::level_of(here.cpu));
#endif
}

}  // namespace kiln::microarchitectures_test
