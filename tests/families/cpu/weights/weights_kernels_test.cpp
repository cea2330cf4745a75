// host_weights and the panels of host_packed: every format and kind of zero points on every
// instruction set, and its rules.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/weights/config.h"
#include "generator/problem/operand.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "tuner/verify/data.h"
#include "tuner/verify/verify.h"

namespace kiln::weights_kernels_test {

struct Drawn {
  const char* shape;
  Config config;
};

/// Groups that are shorter and longer than a vector's codes, tails of k, rows and columns, layouts.
const std::vector<Drawn> kDrawn{
    {"bf16_int4 N T 3 37 608 group=32 zero=float scale_type=fp16", HostWeights{.mr = 2, .nr = 4}},
    {"bf16_uint4 N T 1 33 576 group=64 zero=int scale_type=bf16",
     HostWeights{.mr = 1, .nr = 5, .ahead = true}},
    {"fp16_uint4 N T 2 9 640 batch=3 group=128 zero=int epilogue=bias_col+silu+residual",
     HostWeights{.mr = 2, .nr = 2}},
    {"bf16_int4 N T 5 19 302 group=k zero=int ldb=310", HostWeights{.mr = 4, .nr = 2}},
    {"fp16_int4 T T 4 11 256 group=128 lda=7 out=fp32", HostWeights{.mr = 1, .nr = 8}},
    {"bf16_int8 N T 3 19 301 group=k zero=int", HostWeights{.mr = 3, .nr = 1}},
    {"fp16_int8 T T 2 11 224 group=32 zero=float", HostWeights{.mr = 2, .nr = 2}},
    {"bf16_fp8 N T 3 131 384 batch=2 group=128x128 scale_type=bf16",
     HostWeights{.mr = 3, .nr = 2, .ahead = true}},
    {"fp16_fp8 T T 2 19 301 group=k", HostWeights{.mr = 2, .nr = 4}},
    {"bf16_fp8 N T 1 33 224 group=32 out=fp32", HostWeights{.mr = 1, .nr = 4}},
    {"bf16_fp8 N T 3 21 608 batch=2 group=mx32", HostWeights{.mr = 2, .nr = 3}},
    {"bf16_fp4 N T 3 37 608 batch=2 group=mx32 out=fp32", HostWeights{.mr = 2, .nr = 4}},
    {"fp16_fp4 T T 2 19 302 group=k scale_type=fp16", HostWeights{.mr = 1, .nr = 5, .ahead = true}},
};
/// Gates: either order of columns, factors that begin within a square, tails of rows and columns.
const std::vector<Drawn> kGates{
    {"bf16_int4 N T 3 37 608 batch=2 group=32 zero=float scale_type=fp16 gate=silu",
     HostWeights{.mr = 2, .nr = 4}},
    {"fp16_uint4 N T 2 9 640 batch=3 group=128 zero=int gate=gelu:interleaved "
     "epilogue=bias_col+residual",
     HostWeights{.mr = 2, .nr = 2}},
    {"bf16_uint4 N T 1 33 576 group=64 zero=int gate=sigmoid epilogue=bias_col",
     HostWeights{.mr = 1, .nr = 6, .ahead = true}},
    {"bf16_fp8 N T 3 131 384 batch=2 group=128x128 gate=silu",
     HostWeights{.mr = 3, .nr = 2, .ahead = true}},
    {"bf16_fp8 N T 3 70 384 batch=2 group=128x128 gate=relu:interleaved epilogue=bias_row",
     HostWeights{.mr = 1, .nr = 6}},
    {"fp16_int8 T T 2 11 301 group=k zero=int gate=gelu_erf:interleaved out=fp32",
     HostWeights{.mr = 2, .nr = 4}},
    {"bf16_fp4 N T 3 37 608 batch=2 group=mx32 gate=silu", HostWeights{.mr = 2, .nr = 4}},
};
/// Panels: codes along k and along n, tails of both, groups that end within blocks of k.
constexpr HostPacked panels(int kc, Parallel way = Parallel::n) {
  return {.mr = 3, .nv = 2, .kc = kc, .mc = 6, .nc = 64, .inner = Inner::rows, .parallel = way};
}
const std::vector<Drawn> kPanels{
    {"bf16_int4 N N 7 38 224 group=32 zero=float scale_type=fp16", panels(96)},
    {"bf16_uint4 N T 8 37 640 batch=3 group=128 zero=int", panels(160)},
    {"fp16_int8 T N 5 35 301 group=k zero=int epilogue=bias_row+relu", panels(64)},
    {"fp16_uint4 T T 9 21 302 group=k zero=int ldb=306 out=fp32", panels(320, Parallel::m)},
    {"bf16_int8 N T 4 19 192 group=64 scale_type=bf16", panels(96)},
    {"bf16_fp8 N T 7 150 384 batch=2 group=128x128", panels(160)},
    {"fp16_fp8 N N 5 37 192 group=64 scale_type=fp16", panels(96)},
    {"bf16_fp4 N N 7 38 224 batch=2 group=mx32", panels(96)},
    {"fp16_fp4 N T 4 37 384 group=128x128 scale_type=bf16", panels(160)},
    {"fp16_fp8 N T 5 19 224 group=mx32 out=fp32", panels(96)},
};
const std::vector<Drawn> kGatedPanels{
    {"bf16_int4 N T 7 37 640 batch=2 group=128 gate=silu epilogue=bias_col", panels(160)},
    {"bf16_uint4 N T 8 37 640 batch=3 group=128 zero=int gate=gelu:interleaved", panels(160)},
    {"bf16_int4 N N 7 37 224 batch=2 group=32 zero=float gate=silu", panels(96)},
    {"bf16_uint4 N N 7 101 224 group=32 zero=int gate=silu epilogue=bias_col+residual", panels(96)},
    {"fp16_uint4 T N 9 21 302 group=k zero=int gate=sigmoid:interleaved ldb=50 out=fp32",
     panels(320, Parallel::m)},
    {"fp16_int8 T N 5 35 301 group=k zero=int gate=relu epilogue=bias_row", panels(64)},
    {"bf16_fp8 N T 7 70 384 batch=2 group=128x128 gate=silu", panels(160)},
    {"bf16_fp8 N N 7 131 384 batch=2 group=128x128 gate=silu:interleaved", panels(160)},
    {"bf16_fp4 N N 7 39 224 batch=2 group=mx32 gate=silu", panels(96)},
};
/// Groups, which kernels compute one after the other.
const std::vector<Drawn> kGrouped{
    {"bf16_int4 N T 23 38 640 groups=4 grouped=rows group=128 zero=int gate=silu",
     HostWeights{.mr = 2, .nr = 4}},
    {"bf16_fp8 N T 7 131 384 groups=3 grouped=masked group=128x128 epilogue=bias_row+residual",
     HostWeights{.mr = 3, .nr = 2}},
    {"bf16_uint4 N N 23 38 224 groups=4 grouped=rows group=32 zero=int", panels(96)},
    {"fp16_int8 N T 9 35 301 groups=3 grouped=masked group=k zero=float gate=relu", panels(64)},
};
const std::vector<Drawn> kPairs{
    {"bf16_int4 N T 3 21 384 batch=2 group=128 zero=int gate=silu epilogue=bias_col",
     HostWeights{.pairs = true, .mr = 2, .nr = 4}},
    {"bf16_fp4 N T 2 21 352 group=mx32 gate=silu:interleaved",
     HostWeights{.pairs = true, .mr = 2, .nr = 2}},
    {"bf16_int4 N T 3 21 96 group=32 scale_type=bf16",
     HostWeights{.pairs = true, .mr = 2, .nr = 3}},
    {"bf16_uint4 N T 1 33 640 group=128 zero=int", HostWeights{.pairs = true, .mr = 1, .nr = 4}},
    {"bf16_int4 T T 2 9 300 group=k zero=int out=fp32",
     HostWeights{.pairs = true, .mr = 1, .nr = 2}},
    {"bf16_fp4 N T 3 21 352 group=mx32", HostWeights{.pairs = true, .mr = 2, .nr = 3}},
    {"bf16_fp4 N T 1 33 302 group=k scale_type=bf16", HostWeights{.pairs = true, .mr = 1, .nr = 4}},
};

void expect_right(const char* cpu, const Drawn& drawn, test::Attempt& attempt) {
  const auto device = test::runnable(cpu, 2);
  if (!device) return;
  const Gemm gemm = parse_gemm(drawn.shape).value();
  const Isa isa = device->cpu.avx512     ? Isa::avx512
                  : device->cpu.avx2_fma ? Isa::avx2
                                         : Isa::portable;
  Config config = drawn.config;
  if (auto few = config.if_is<HostWeights>()) {
    few->isa = isa, few->parallel = Parallel::n;
    config = *few;
  } else if (auto packed = config.if_is<HostPacked>()) {
    packed->isa = isa;
    config = *packed;
  }
  const std::string what = fmt::format("{} | {} | {}", cpu, drawn.shape, text(config));
  attempt.at(what);
  ASSERT_EQ(broken_rule(Problem::of(gemm).value(), *device, config), "") << what;
  auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full});
  ASSERT_TRUE(verifier) << what;
  const Verdict verdict = test::check_compiled(*verifier, *device, config);
  EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
}

TEST(HostWeights, EveryFormatOnEveryInstructionSet) {
  test::Attempt attempt;
  for (const char* cpu : {"portable", "avx2", "avx512"})
    for (const std::vector<Drawn>& all : {kDrawn, kGates, kPanels, kGatedPanels, kGrouped})
      for (const Drawn& drawn : all) expect_right(cpu, drawn, attempt);
  for (const Drawn& drawn : kPairs) expect_right("avx512_bf16", drawn, attempt);
}

TEST(HostWeights, RulesNameWhatIsMissing) {
  const DeviceCaps device = cpu_caps_named("avx512_bf16").value();
  const auto rule = [&](const char* shape, const HostWeights& config) {
    return std::string(broken_rule(Problem::of(parse_gemm(shape).value()).value(), device, config));
  };
  EXPECT_EQ(rule("bf16_int4 N T 1 8 128 group=64", {}), "");
  EXPECT_NE(rule("bf16_int4 N N 1 8 128 group=64", {}).find("k-major"), std::string::npos);
  EXPECT_NE(rule("bf16 N T 1 8 128", {}).find("B holds weights"), std::string::npos);
  EXPECT_NE(rule("fp16_int4 N T 1 8 128 group=128", {.pairs = true}).find("pairs=1"),
            std::string::npos);
  for (const char* shape :
       {"bf16_int8 N T 1 8 128 group=128", "bf16_int4 N T 1 8 128 group=64 zero=int",
        "bf16_int4 N T 1 8 128 group=128 zero=float"})
    EXPECT_NE(rule(shape, {.pairs = true}).find("pairs=1 needs"), std::string::npos) << shape;
  EXPECT_NE(rule("bf16_int4 N T 1 8 128 group=64", {.mr = 4, .nr = 7}).find("registers"),
            std::string::npos);
  EXPECT_NE(rule("bf16_int4 N T 1 8 128 group=64 gate=silu", {.mr = 1, .nr = 3})
                .find("a gate needs an even nr"),
            std::string::npos);
  EXPECT_EQ(rule("bf16_int4 N T 64 64 128 group=128",
                 HostWeights{.mr = 2, .nr = 2, .parallel = Parallel::m})
                .find("parallel"),
            0u);
  const Problem products =
      Problem::of(parse_gemm("bf16_int4 N T 64 64 128 group=128").value()).value();
  EXPECT_EQ(broken_rule(products, device, HostDot{}), "the family multiplies weights in groups");
}

/// One order for every tile: m, the rows of a tile and its columns change no bits.
TEST(HostWeights, TilesOfOneOrderGiveTheSameBits) {
  const auto device = test::runnable("avx2", 1);
  if (!device) GTEST_SKIP() << "no AVX2";
  const Gemm gemm =
      parse_gemm("bf16_uint4 N T 5 7 224 group=32 scale_type=fp16 zero=int out=fp32").value();
  const Problem problem = Problem::of(gemm).value();
  std::vector<std::byte> memory[kOperandCount];
  Operands operands;
  for_each_operand([&](auto which) {
    auto& bytes = memory[index_of(which)];
    bytes.resize(static_cast<std::size_t>(span_bytes(gemm, which)));
    if constexpr (which != Operand::d) {
      fill(gemm, which, Data::uniform, 9, bytes.data());
      pointer<which>(operands) = present(gemm, which) ? bytes.data() : nullptr;
    } else {
      operands.d = bytes.data();
    }
  });
  std::vector<std::byte> first;
  for (const HostWeights config :
       {HostWeights{.isa = Isa::avx2, .mr = 1, .nr = 1},
        HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 3},
        HostWeights{.isa = Isa::avx2, .mr = 5, .nr = 1, .ahead = true}}) {
    auto kernel = test::compiled(gemm, *device, config);
    ASSERT_TRUE(kernel) << kernel.error().message;
    ASSERT_TRUE(kernel->run(operands));
    if (first.empty()) first = memory[index_of(Operand::d)];
    EXPECT_EQ(memory[index_of(Operand::d)], first) << text(config);
    EXPECT_EQ(summation(problem, *device, config),
              summation(problem, *device, HostWeights{.isa = Isa::avx2}));
  }
}

}  // namespace kiln::weights_kernels_test
