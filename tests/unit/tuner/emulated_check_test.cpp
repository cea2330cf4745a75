// The tuner's check of GPU kernels on the emulator, in the worker: right code passes, planted
// mistakes are told apart, and each costs its candidate alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/families/hip/simt/config.h"
#include "generator/render/emulated.h"
#include "generator/space/family.h"
#include "support/hip.h"
#include "tuner/worker/check.h"

namespace kiln::emulated_check_test {

using testing::HasSubstr;

struct Bed {
  Gemm gemm = test::problem("fp32 N T 40 36 50");
  DeviceCaps device = hip_caps_named("gfx942").value();
  Config config = test::ranked<HipSimt>(gemm, device).at(0);

  /// The kernel's code for the emulator, with one text exchanged for another.
  Binary code(const std::string& from = "", const std::string& to = "") const {
    Source source = render(Problem::of(gemm).value(), device, config).value();
    if (!from.empty()) {
      const auto at = source.text.rfind(from);
      EXPECT_NE(at, std::string::npos) << from;
      source.text.replace(at, from.size(), to);
    }
    const auto exchanged = emulated(
        source, family_of(config, device.vendor).launch(Problem::of(gemm).value(), device, config),
        device.vendor);
    return host_compiler().value()->compile(exchanged.value()).value();
  }
};

TEST(EmulatedCheck, TellsRightFromWrong) {
  if (!host_compiler()) return;
  const Bed bed;
  auto checker = Checker::start(bed.gemm, bed.device, {.seed = 3}, {.emulated = true});
  ASSERT_TRUE(checker) << checker.error().message;
  const Verdict right = checker->check(bed.config, bed.code());
  EXPECT_TRUE(right) << right.error().detail;

  const auto verdict_on = [&](const std::string& from, const std::string& to) {
    return checker->check(bed.config, bed.code(from, to));
  };
  const Verdict wrong = verdict_on("out.alpha * Real(sum)", "Real(sum)");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, Failure::Kind::wrong_result);
  const Verdict race = verdict_on("    multiply(sums, my_row, my_column);\n    block_barrier();",
                                  "    multiply(sums, my_row, my_column);");
  EXPECT_FALSE(race) << "a barrier less";
  const Verdict outside =
      verdict_on("out.d[row * out.ldd + column] =", "out.d[(row << 40) + column] =");
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().detail, HasSubstr("lane")) << "which lane strayed";
  const Verdict again = checker->check(bed.config, bed.code());
  EXPECT_TRUE(again) << again.error().detail;
}

TEST(EmulatedCheck, WantsCodeMadeForIt) {
  if (!host_compiler()) return;
  const Bed bed;
  auto checker = Checker::start(bed.gemm, bed.device, {}, {.emulated = true}).value();
  const Verdict verdict = checker.check(bed.config, {.image = std::vector<std::byte>(100)});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().kind, Failure::Kind::load);
}

TEST(RenderEmulated, IsForGpuFamilies) {
  const Gemm gemm = test::problem("fp32 N N 32 32 32");
  const DeviceCaps cpu = cpu_caps_named("avx2").value();
  const auto source = render_emulated(Problem::of(gemm).value(), cpu,
                                      fallback_config(Problem::of(gemm).value(), cpu));
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::unsupported);
}

}  // namespace kiln::emulated_check_test
