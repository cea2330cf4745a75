// hip_mfma and pitches, without a GPU: of a list's products those that 32-bit offsets in a tile do
// not reach, and those that loads do not divide.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "generator/families/hip/mfma/config.h"
#include "kiln/numeric.hpp"
#include "support/emulated.h"

namespace kiln::emulated_long_pitch_test {

/// A column of ones times a row of ones is a matrix of k, wherever the lines lie.
TEST(EmulatedLongPitch, IsReadElementByElement) {
  constexpr std::int64_t kLong = std::int64_t{36} << 20, kM = 3, kN = 20, kK = 2;
  for (const char* layout : {"N T", "T N"}) {
    const Gemm gemm = parse_gemm(std::string("bf16 ") + layout +
                                 " 256 64 64 groups=1 grouped=list out=fp32 align=16")
                          .value();
    const DeviceCaps device = caps_named("gfx942").value();
    const Config config = HipMfma{.rows = 16,
                                  .k = 16,
                                  .tile_m = 256,
                                  .tile_n = 64,
                                  .depth = 64,
                                  .waves_m = 4,
                                  .waves_n = 1,
                                  .staging = Staging::single,
                                  .chunk = 0};
    const auto kernel = test::emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << layout << ": " << kernel.error().message;
    // The lines of A, k of them where they lie across k, and a B whose lines are tight.
    const std::unique_ptr<std::uint16_t, void (*)(void*)> a(
        static_cast<std::uint16_t*>(std::calloc(kLong * kM, 2)), std::free);  // pages on demand
    ASSERT_NE(a, nullptr);
    std::vector<std::uint16_t> b(1024);
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < 32; ++j) a.get()[i * kLong + j] = 0x3f80;
    for (auto& x : b) x = 0x3f80;
    std::vector<float> d(kM * kN, -1);
    const ListEntry entry{
        .m = kM, .n = kN, .k = kK, .lda = kLong, .a = a.get(), .b = b.data(), .d = d.data()};
    const Status ok = kernel->call(Problem::of(gemm).value(), Operands{.list = &entry}, 0);
    ASSERT_TRUE(ok) << layout << ": " << ok.error().message;
    EXPECT_EQ(d, std::vector<float>(kM * kN, kK)) << layout;
  }
}

/// Rows of whole loads on a pitch that is none: behind the rows of the last line but one a load
/// would straddle the end of the operand.
TEST(EmulatedLongPitch, IsDividedByLoads) {
  const Gemm gemm = parse_gemm("bf16 N N 60 16 200 ldb=18 align=4").value();
  const DeviceCaps device = caps_named("gfx950").value();
  const Config config = HipMfma{.rows = 16,
                                .k = 32,
                                .tile_m = 64,
                                .tile_n = 64,
                                .depth = 128,
                                .waves_m = 2,
                                .waves_n = 2,
                                .staging = Staging::single,
                                .chunk = 0,
                                .turn = true};
  const auto kernel = test::emulated_kernel(gemm, device, config);
  ASSERT_TRUE(kernel) << kernel.error().message;
  const Verdict verdict = test::verify_emulated(gemm, *kernel, 0);
  EXPECT_TRUE(verdict) << verdict.error().detail;
}

}  // namespace kiln::emulated_long_pitch_test
