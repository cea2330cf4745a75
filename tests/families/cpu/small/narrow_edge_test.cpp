// A last vector of columns that is no wider than they need: host_small with narrow_edge=1.
#include <gtest/gtest.h>

#include <string>

#include "generator/families/cpu/small/config.h"
#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "tuner/verify/verify.h"

namespace kiln::narrow_edge_test {

HostSmall narrow(int mr, int nv, int unroll = 4) {
  return {.mr = mr, .nv = nv, .unroll = unroll, .narrow_edge = true};
}

std::string broken(const char* shape, const HostSmall& config) {
  return std::string(broken_rule(Problem::of(parse_gemm(shape).value()).value(),
                                 cpu_caps_named("avx512").value(), config));
}

TEST(NarrowEdge, NeedsAWholeVectorAndARestOfHalfAVector) {
  EXPECT_EQ(broken("fp32 N N 20 33 9", narrow(4, 3)), "");
  EXPECT_EQ(broken("fp64 N N 20 12 9", narrow(4, 2)), "");
  for (const char* shape : {"fp32 N N 20 32 9", "fp32 N N 20 25 9", "fp32 N N 20 8 9",
                            "fp64 N N 20 13 9", "bf16 N N 20 9 9"})
    EXPECT_NE(broken(shape, narrow(4, 1)).find("narrow_edge"), std::string::npos) << shape;
  HostSmall avx2 = narrow(4, 2);
  avx2.isa = Isa::avx2, avx2.bytes = 32;
  EXPECT_NE(broken("fp32 N N 20 33 9", avx2).find("narrow_edge"), std::string::npos);
}

// The keys of databases that were written before there was the field.
TEST(NarrowEdge, IsNotWrittenWhereItIsZero) {
  EXPECT_EQ(text(Config{HostSmall{}}).find("narrow"), std::string::npos);
  const Config config = narrow(5, 2);
  EXPECT_EQ(parse_config(text(config)).value(), config);
}

TEST(NarrowEdge, IsPredictedToPayWhereUnitsAreHalfAsWideAsVectors) {
  const Problem problem = Problem::of(parse_gemm("fp32 N N 65 65 65").value()).value();
  DeviceCaps device = cpu_caps_named("avx512_bf16").value();
  HostSmall wide = narrow(5, 5);
  wide.narrow_edge = false;
  EXPECT_EQ(predict_ns(problem, device, narrow(5, 5)), predict_ns(problem, device, wide));
  device.core = {.family = 0x19, .model = 0x11};  // Zen 4
  EXPECT_LT(predict_ns(problem, device, narrow(5, 5)), predict_ns(problem, device, wide));
}

struct Kernel {
  const char* shape;
  HostSmall config;
};

TEST(NarrowEdge, IsRight) {
  const auto device = test::runnable("avx512", 1);
  if (!device) GTEST_SKIP() << "no AVX-512";
  test::Attempt attempt;
  // Rests of 1 to 8 columns, in the first strip or one of their own, whole and left-over rows.
  const Kernel kernels[] = {
      {"fp32 N N 13 33 17", narrow(5, 3)},
      {"fp32 T N 9 21 30", narrow(4, 1)},
      {"fp32 N T 12 24 19", narrow(6, 2, 0)},
      {"fp32 T T 7 53 5 epilogue=bias_col+gelu", narrow(3, 4, 1)},
      {"fp32 N N 11 38 14 batch=3", narrow(11, 2)},
      {"fp64 N N 10 9 23", narrow(4, 2, 8)},
      {"fp64 N T 6 20 31", narrow(6, 1)},
      {"bf16 N N 8 35 21", narrow(4, 3)},
      {"fp16 N T 5 17 40 out=fp32", narrow(5, 2)},
  };
  for (const Kernel& one : kernels) {
    attempt.at(one.shape);
    const auto parsed = parse_gemm(one.shape);
    ASSERT_TRUE(parsed) << one.shape << ": " << parsed.error().message;
    auto kernel = test::compiled(*parsed, *device, one.config);
    ASSERT_TRUE(kernel) << one.shape << ": " << kernel.error().message;
    auto verifier = Verifier::make(*parsed, {.seed = 5, .effort = Effort::full});
    ASSERT_TRUE(verifier) << one.shape;
    const auto checked = verifier->check([&](const Operands& o) { return kernel->run(o); });
    EXPECT_TRUE(checked) << one.shape << ": " << checked.error().detail;
  }
}

}  // namespace kiln::narrow_edge_test
