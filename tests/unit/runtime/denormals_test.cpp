// Results in the denormal range: right to the last bit, but where instructions take them for zero.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "generator/space/space.h"
#include "support/naive_gemm.h"
#include "tuner/verify/verify.h"

namespace kiln::denormals_test {

using test::Faults;
using testing::Contains;
using testing::ElementsAre;

RunKernel naive(const Gemm& gemm, const Faults& faults = {}) {
  return [=](const Operands& operands) -> Status {
    test::naive_gemm(gemm, operands, faults);
    return {};
  };
}

/// A kernel that stores zero for what is smaller than `normal`.
RunKernel flushing(const Gemm& gemm, double normal) {
  return naive(gemm, {.at_store = [=](auto, auto, auto, double x) {
                 return std::fabs(x) < normal ? 0.0 : x;
               }});
}

TEST(Denormals, AreWantedUnlessTheInstructionsFlushThem) {
  for (const DType type : {bf16, fp16, fp32}) {
    const Gemm gemm = Gemm::row_major(19, 23, 37, type).batched(2);
    const double normal = type == fp16 ? 0x1p-14 : 0x1p-126;
    const Verdict right = verify(gemm, naive(gemm));
    EXPECT_TRUE(right) << right.error().detail;
    const Verdict strict = verify(gemm, flushing(gemm, normal));
    ASSERT_FALSE(strict) << name(type);
    EXPECT_THAT(strict.error().detail, testing::HasSubstr("denormal results"));
    const Verdict allowed = verify(gemm, flushing(gemm, normal), {}, normal);
    EXPECT_TRUE(allowed) << allowed.error().detail;
  }
}

TEST(Denormals, AnAllowanceForThemExcusesNoOtherFault) {
  for (const DType type : {bf16, fp16, fp32}) {
    const Gemm gemm = Gemm::row_major(19, 23, 37, type);
    const double normal = type == fp16 ? 0x1p-14 : 0x1p-126;
    EXPECT_FALSE(verify(gemm, naive(gemm, {.skip_last_k = 1}), {}, normal)) << name(type);
  }
}

TEST(Denormals, AreFlushedByTheInstructionsOfAKernelNotByItsTypes) {
  const auto flushed = [](const char* device, DType type) {
    const DeviceCaps caps = caps_named(device).value();
    const Gemm gemm = Gemm::row_major(64, 64, 64, type).transpose_b();
    std::set<double> found;
    const SearchSpace space = space_for(Problem::of(gemm).value(), caps).value();
    for (const Config& config : space.legal) found.insert(flushed_by(gemm, caps, config));
    return found;
  };
  // A space holds kernels of older instruction sets too, and SIMT kernels beside MFMA.
  EXPECT_THAT(flushed("avx512", bf16), ElementsAre(0));
  EXPECT_THAT(flushed("avx512_bf16", bf16), Contains(0x1p-126));
  EXPECT_THAT(flushed("avx512_bf16", fp16), ElementsAre(0));
  EXPECT_THAT(flushed("amx", bf16), Contains(0x1p-126));
  EXPECT_THAT(flushed("gfx90a", bf16), ElementsAre(0, 0x1p-126));
  EXPECT_THAT(flushed("gfx90a", fp16), ElementsAre(0, 0x1p-14));
  EXPECT_THAT(flushed("gfx90a", fp32), ElementsAre(0));
  EXPECT_THAT(flushed("gfx942", bf16), ElementsAre(0));
}

}  // namespace kiln::denormals_test
