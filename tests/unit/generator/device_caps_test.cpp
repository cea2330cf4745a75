#include "generator/problem/device_caps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <set>

#include "generator/problem/device_class.h"
#include "runtime/cpu/affinity.h"
#include "runtime/cpu/cpu.h"

namespace kiln::device_caps_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DeviceCaps, EveryFieldChangesTheFingerprint) {
  const std::vector<std::function<void(DeviceCaps&)>> changes{
      [](DeviceCaps& c) { c.vendor = Vendor::amd; },
      [](DeviceCaps& c) { c.arch = "x"; },
      [](DeviceCaps& c) { c.model = "x"; },
      [](DeviceCaps& c) { c.cpu.avx2_fma = true; },
      [](DeviceCaps& c) { c.cpu.avx512 = true; },
      [](DeviceCaps& c) { c.cpu.avx512_bf16 = true; },
      [](DeviceCaps& c) { c.cpu.avx512_vnni = true; },
      [](DeviceCaps& c) { c.cpu.amx_bf16 = true; },
      [](DeviceCaps& c) { c.cpu.amx_int8 = true; },
      [](DeviceCaps& c) { c.compute_units = 9; },
      [](DeviceCaps& c) { c.l1_bytes = 9; },
      [](DeviceCaps& c) { c.l2_bytes = 9; },
      [](DeviceCaps& c) { c.l3_bytes = 9; },
      [](DeviceCaps& c) { c.ghz = 9; },
      [](DeviceCaps& c) { c.gpu.sm = 9; },
      [](DeviceCaps& c) { c.gpu.arch_specific = true; },
      [](DeviceCaps& c) { c.gpu.wave = 9; },
      [](DeviceCaps& c) { c.gpu.shared_block_bytes = 9; },
      [](DeviceCaps& c) { c.gpu.shared_unit_bytes = 9; },
      [](DeviceCaps& c) { c.gpu.registers_unit = 9; },
      [](DeviceCaps& c) { c.gpu.threads_unit = 9; },
      [](DeviceCaps& c) { c.gpu.threads_block = 9; },
      [](DeviceCaps& c) { c.gpu.memory_bytes = 9; },
      [](DeviceCaps& c) { c.gpu.memory_gbs = 9; },
      [](DeviceCaps& c) { c.gpu.chiplets = 9; }};
  std::set<std::string> seen{fingerprint({})};
  for (const auto& change : changes) {
    DeviceCaps caps;
    change(caps);
    EXPECT_TRUE(seen.insert(fingerprint(caps)).second) << fingerprint(caps);
  }
  // A new field must join the list above: this names every one of today's. `core` is in no key.
  [[maybe_unused]] const auto& [vendor, arch, model, cpu, gpu, units, l1, l2, l3, ghz, core] =
      DeviceCaps{};
  [[maybe_unused]] const auto& [f1, f2, f3, f4, f5, f6] = CpuFeatures{};
  [[maybe_unused]] const auto& [g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11] = GpuFeatures{};
}

TEST(DeviceCaps, GpusAreKnownByTarget) {
  const auto hopper = cuda_caps_named("sm_90a");
  ASSERT_TRUE(hopper);
  EXPECT_EQ(hopper->vendor, Vendor::nvidia);
  EXPECT_EQ(hopper->arch, "sm_90a");
  EXPECT_EQ(hopper->compute_units, 132);
  EXPECT_EQ(hopper->gpu.sm, 90);
  EXPECT_TRUE(hopper->gpu.arch_specific);
  EXPECT_EQ(hopper->gpu.shared_block_bytes, 232448);
  EXPECT_EQ(cuda_caps_named("sm_75")->gpu.shared_block_bytes, 65536);
  EXPECT_FALSE(cuda_caps_named("sm_90")->gpu.arch_specific);
  EXPECT_TRUE(cuda_caps_named("sm_120a"));
  EXPECT_TRUE(cuda_caps_named("sm_100a"));
  for (const char* unknown : {"sm_75a", "sm_91", "sm_", "avx2"}) {
    const auto caps = cuda_caps_named(unknown);
    ASSERT_FALSE(caps) << unknown;
    EXPECT_EQ(caps.error().code, ErrorCode::bad_input);
    EXPECT_THAT(caps.error().message, HasSubstr(unknown));
  }
}

TEST(DeviceCaps, AmdGpusAreKnownByTargetAndCard) {
  const auto mi300 = hip_caps_named("gfx942");
  ASSERT_TRUE(mi300);
  EXPECT_EQ(mi300->vendor, Vendor::amd);
  EXPECT_EQ(mi300->model, "MI300X");
  EXPECT_EQ(mi300->compute_units, 304);
  EXPECT_EQ(mi300->gpu.chiplets, 8);
  EXPECT_EQ(mi300->gpu.wave, 64);
  EXPECT_EQ(mi300->gpu.shared_block_bytes, 64 << 10);
  EXPECT_EQ(hip_caps_named("mi325x")->arch, "gfx942");
  EXPECT_NE(hip_caps_named("mi325x").value(), mi300.value());
  EXPECT_EQ(hip_caps_named("gfx950")->gpu.shared_block_bytes, 160 << 10);
  EXPECT_EQ(hip_caps_named("gfx1100")->gpu.wave, 32);
  EXPECT_EQ(caps_named("rx7900xtx")->arch, "gfx1100");
  const auto unknown = hip_caps_named("gfx940");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::bad_input);
  EXPECT_THAT(unknown.error().message, HasSubstr("gfx940"));
  EXPECT_THAT(unknown.error().message, HasSubstr("mi355x (gfx950)"));
}

TEST(DeviceCaps, OneFunctionKnowsAllNames) {
  EXPECT_EQ(caps_named("gfx950").value(), hip_caps_named("gfx950").value());
  EXPECT_EQ(caps_named("mi325x").value(), hip_caps_named("mi325x").value());
  EXPECT_EQ(caps_named("sm_90a").value(), cuda_caps_named("sm_90a").value());
  EXPECT_EQ(caps_named("avx512").value(), cpu_caps_named("avx512").value());
  const auto unknown = caps_named("avx1024");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("avx1024"));
  EXPECT_THAT(unknown.error().message, HasSubstr("avx512_bf16"));
  EXPECT_THAT(unknown.error().message, HasSubstr("sm_120a"));
  EXPECT_THAT(unknown.error().message, HasSubstr("gfx942"));
}

TEST(DeviceCaps, CpusAreKnownByName) {
  EXPECT_EQ(cpu_caps_named("avx512")->arch, "x86-64-v4");
  EXPECT_FALSE(cpu_caps_named("avx512")->cpu.avx512_bf16);
  EXPECT_TRUE(cpu_caps_named("avx512_bf16")->cpu.avx512_bf16);
  EXPECT_TRUE(cpu_caps_named("amx")->cpu.amx_int8);
  EXPECT_EQ(cpu_caps_named("avx2")->arch, "x86-64-v3");
  EXPECT_EQ(cpu_caps_named("portable")->cpu, CpuFeatures{});
  const auto unknown = cpu_caps_named("avx1024");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::bad_input);
  EXPECT_THAT(unknown.error().message, HasSubstr("avx1024"));
}

TEST(DetectCpu, AgreesWithTheCompilersRuntime) {
  const auto caps = detect_cpu();
  ASSERT_TRUE(caps) << caps.error().message;
  EXPECT_EQ(caps->vendor, Vendor::cpu);
  EXPECT_GE(caps->compute_units, 1);
  EXPECT_GE(caps->l1_bytes, 8 << 10);
  EXPECT_GE(caps->l2_bytes, caps->l1_bytes);
  EXPECT_FALSE(caps->arch.empty());
#if defined(__x86_64__)
  __builtin_cpu_init();
  EXPECT_EQ(caps->cpu.avx2_fma, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                    __builtin_cpu_supports("bmi2"));
  EXPECT_EQ(caps->cpu.avx512,
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512cd"));
  EXPECT_EQ(caps->cpu.avx512_bf16, static_cast<bool>(__builtin_cpu_supports("avx512bf16")));
  EXPECT_EQ(caps->cpu.avx512_vnni, static_cast<bool>(__builtin_cpu_supports("avx512vnni")));
#endif
  EXPECT_EQ(*detect_cpu(), *caps) << "the key of every record must not waver";
}

TEST(DetectCpu, ThreadsOutOfRangeAreNamed) {
  EXPECT_EQ(detect_cpu(1)->compute_units, 1);
  for (int threads : {-1, 1 << 20}) {
    const auto caps = detect_cpu(threads);
    ASSERT_FALSE(caps);
    EXPECT_EQ(caps.error().code, ErrorCode::bad_input);
    EXPECT_THAT(caps.error().message, HasSubstr("threads = " + std::to_string(threads)));
  }
}

TEST(Affinity, CoresHoldEveryAllowedCpuOnce) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::set<int> seen;
  for (const auto& core : allowed_cores())
    for (int cpu : core) {
      EXPECT_TRUE(seen.insert(cpu).second);
      EXPECT_TRUE(CPU_ISSET(cpu, &set));
    }
  EXPECT_EQ(static_cast<int>(seen.size()), CPU_COUNT(&set));
}

TEST(Affinity, HelpersTakeOtherCoresFirst) {
  const std::vector<std::vector<int>> plain{{0}, {1}, {2}, {3}};
  EXPECT_THAT(placement(plain, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(placement(plain, 2), ElementsAre(3, 0, 1));
  EXPECT_THAT(placement(plain, 9), ElementsAre(1, 2, 3, 0));
  const std::vector<std::vector<int>> paired{{0, 4}, {1, 5}, {2, 6}};
  EXPECT_THAT(placement(paired, 1), ElementsAre(2, 0, 6, 4, 5));
  EXPECT_THAT(placement(paired, 5), ElementsAre(2, 0, 1, 6, 4));
  EXPECT_THAT(placement({{7}}, 7), ElementsAre());
}

/// Cards of one target with equal units run each other's kernels; what ranks kernels may differ.
TEST(Relatives, DifferInMemoryCachesAndClocksAlone) {
  const DeviceCaps card = caps_named("sm_90a").value();
  EXPECT_TRUE(are_relatives(card, card));
  const auto changed = [&](auto change) {
    DeviceCaps other = card;
    change(other);
    return are_relatives(card, other);
  };
  EXPECT_TRUE(changed([](DeviceCaps& x) { x.model = "NVIDIA H100 80GB HBM3"; }));
  EXPECT_TRUE(changed([](DeviceCaps& x) { x.gpu.memory_bytes /= 2; }));
  EXPECT_TRUE(changed([](DeviceCaps& x) { x.gpu.memory_gbs /= 2; }));
  EXPECT_TRUE(changed([](DeviceCaps& x) { x.l2_bytes /= 2; }));
  EXPECT_TRUE(changed([](DeviceCaps& x) { x.ghz = 1; }));
  EXPECT_FALSE(changed([](DeviceCaps& x) { --x.compute_units; }));
  EXPECT_FALSE(changed([](DeviceCaps& x) { x.arch = "sm_90"; }));
  EXPECT_FALSE(changed([](DeviceCaps& x) { x.gpu.shared_block_bytes -= 1024; }));
  EXPECT_FALSE(changed([](DeviceCaps& x) { x.gpu.chiplets = 2; }));
  const DeviceCaps cpu = caps_named("avx512").value();
  EXPECT_FALSE(are_relatives(cpu, cpu)) << "CPUs have classes";
}

}  // namespace kiln::device_caps_test
