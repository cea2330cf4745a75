// host_amx_weights on machines without AMX, its rendered code with the tile registers in memory:
// every format, group and kind of zero points in random ragged problems, and its rules. Then bugs
// are planted, and every one must be caught. None writes anything but elements of D.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "generator/families/cpu/amx_weights/config.h"
#include "generator/problem/gemm_types.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "support/attempt.h"
#include "support/host_compiler.h"
#include "support/random_gemm.h"
#include "support/space.h"
#include "support/tiles.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/verify.h"

namespace kiln::amx_weights_test {

constexpr Scale kGroups[] = {Scale::line_32, Scale::line_64,    Scale::line_128,
                             Scale::line,    Scale::square_128, Scale::mx_32};
constexpr DType kScaleTypes[] = {fp32, bf16, fp16};

bool runs_here() {
  const CpuFeatures here = detect_cpu().value().cpu;
  return here.avx512 && here.avx512_bf16;
}

/// The processor, with AMX and so many threads.
DeviceCaps device_of(int threads) {
  DeviceCaps device = cpu_caps_named("amx").value();
  device.compute_units = threads;
  return device;
}

/// k is whole groups; a group that is a whole column may end anywhere.
Gemm problem(test::RandomGemm& random, DType codes, Scale group, Zero zero) {
  const int along = scale_block(group).along;
  const auto up_to = [&](std::uint64_t limit) {
    return 1 + static_cast<std::int64_t>(random.below(limit));
  };
  const std::int64_t k = along == 0 ? 2 * up_to(300) : along * up_to(600 / std::uint64_t(along));
  const DType scale_type = kScaleTypes[random.below(3)];
  Gemm g = Gemm::row_major(up_to(110), up_to(150), k, bf16)
               .transpose_b()
               .with_weights(codes, group, group == Scale::mx_32 ? fp32 : scale_type, zero);
  g.a.transposed = random.one_in(3);
  if (random.one_in(2)) g = g.output(random.one_in(2) ? fp32 : fp16);
  if (random.one_in(3)) g = g.batched(2);
  if (random.one_in(3)) {
    g.epilogue.bias = static_cast<Bias>(random.below(3));
    g.epilogue.activation = static_cast<Activation>(random.below(5));
    g.epilogue.residual = random.one_in(2);
  }
  if (random.one_in(2))
    g = g.with_activation(Activation::none)
            .with_gate(static_cast<Gate>(1 + random.below(5)),
                       static_cast<GateOrder>(random.below(2)));
  if (random.one_in(2)) {
    g.a.ld = g.lda() + 3, g.d.ld = g.ldd() + 5;
    g.b.ld = g.ldb() + 2 * up_to(9);
  }
  return g;
}

/// What is wrong with the kernel; nothing where it is right.
std::string wrong(const Gemm& gemm, const DeviceCaps& device, const HostAmxWeights& config,
                  const std::string& from = "", const std::string& to = "") {
  auto source =
      test::with_tiles_in_memory(render(Problem::of(gemm).value(), device, config), s8, s8);
  if (!source) return source.error().message;
  if (!from.empty()) {
    const std::size_t at = source->text.find(from);
    EXPECT_NE(at, std::string::npos) << "the kernel has no " << from;
    if (at != std::string::npos) source->text.replace(at, from.size(), to);
  }
  const auto binary = test::compiler().compile(*source);
  EXPECT_TRUE(binary) << from << ": " << binary.error().message;
  if (!binary) return binary.error().message;
  BoundKernel kernel(HostKernel::load(binary->image).value(), config, gemm, device);
  auto verifier = Verifier::make(gemm, {.seed = 3, .effort = Effort::full});
  const auto verdict =
      verifier->check([&](const Operands& operands) { return kernel.run(operands); },
                      flushed_by(gemm, device, config));
  return verdict ? "" : verdict.error().detail;
}

TEST(HostAmxWeights, EveryFormatIsRightWithDrawnConfigs) {
  if (!runs_here()) GTEST_SKIP() << "the rest of the code needs AVX-512 with BF16";
  test::RandomGemm random(7);
  test::Attempt attempt;
  for (const DType codes : {s4, u4, s8, fp8_e4m3, fp4_e2m1})
    for (const Scale group : kGroups)
      for (const Zero zero : {Zero::none, Zero::integer}) {
        if (zero != Zero::none && !code_format(codes)->has_zero_points()) continue;
        if (group == Scale::mx_32 && !is_mx_element(codes)) continue;
        const Gemm gemm = problem(random, codes, group, zero);
        ASSERT_TRUE(validate(gemm)) << text(gemm);
        const DeviceCaps device = device_of(1 + static_cast<int>(random.below(2)));
        const auto space = test::space_of(gemm, device);
        ASSERT_TRUE(space) << text(gemm);
        std::vector<HostAmxWeights> all;
        for (const Config& config : space->legal)
          if (const auto found = config.if_is<HostAmxWeights>()) all.push_back(*found);
        ASSERT_FALSE(all.empty()) << text(gemm);
        const HostAmxWeights config = all[random.below(all.size())];
        const std::string what = text(gemm) + ", " + text(Config(config));
        attempt.at(what);
        EXPECT_EQ(wrong(gemm, device, config), "") << what;
      }
}

struct Base {
  const char* shape;
  HostAmxWeights config;
};
const Base kFour{"bf16_uint4 N T 37 41 320 batch=2 group=64 zero=int",
                 HostAmxWeights{.mt = 2, .nt = 1, .kc = 128, .nc = 32, .mc = 32}};
const Base kColumn{"bf16_int8 T T 20 35 298 group=k zero=int",
                   HostAmxWeights{.mt = 1, .nt = 2, .kc = 128, .nc = 16, .mc = 32}};
const Base kSigned{"bf16_int4 N T 5 18 1024 group=32 scale_type=bf16",
                   HostAmxWeights{.kc = 1024, .nc = 32, .mc = 32}};

const Base kFloats{"bf16_fp8 N T 9 150 384 batch=2 group=128x128",
                   HostAmxWeights{.mt = 2, .nt = 1, .kc = 128, .nc = 64, .mc = 32}};
const Base kMx{"bf16_fp4 N T 9 41 672 batch=2 group=mx32",
               HostAmxWeights{.mt = 1, .nt = 1, .kc = 96, .nc = 32, .mc = 16}};
const Base kGate{"bf16_int4 N T 37 75 320 batch=2 group=64 gate=silu epilogue=bias_col",
                 HostAmxWeights{.mt = 2, .nt = 1, .kc = 128, .nc = 32, .mc = 32}};
const Base kAlternating{"bf16_uint4 N T 20 45 320 group=64 zero=int gate=silu:interleaved",
                        HostAmxWeights{.mt = 2, .nt = 2, .kc = 128, .nc = 16, .mc = 32}};
const Base kGatedSquares{"bf16_fp8 N T 9 70 384 batch=2 group=128x128 gate=silu",
                         HostAmxWeights{.mt = 2, .nt = 1, .kc = 128, .nc = 64, .mc = 32}};

struct Mutant {
  const Base* base;
  const char* name;
  const char* from;
  const char* to;
};
const std::vector<Mutant> kMutants{
    {&kFour, "exchanges the codes of a byte", "bytes | (bytes << 12)",
     "(bytes << 16) | (bytes >> 4)"},
    {&kFour, "ignores zero points", "- zero_value(zero)", "- 0 * zero_value(zero)"},
    {&kFour, "takes the other half of a zero point's byte", "(at % 2 * 4) & 15",
     "(4 - at % 2 * 4) & 15"},
    {&kFour, "forgets the batch of scales", "(batch * args.n + column) * groups_of",
     "column * groups_of"},
    {&kFloats, "exchanges two floats", "(first >> 16) | second", "(second >> 16) | first"},
    {&kFloats, "forgets the batch of squares", "batch * lines", "0 * lines"},
    {&kFloats, "flushes denormals", "e4m3_to_float<kTileRows>(pairs << 24)",
     "e4m3_to_float<kTileRows>((pairs & 0x78) == 0 ? pairs & 0 : pairs << 24)"},
    {&kMx, "forgets the denormal", "(code & 1) * 2", "0"},
    {&kMx, "forgets the mantissa", "(2 + (code & 1)) <<", "2 <<"},
    {&kMx, "forgets the sign of a float", "code & 8 ? -4 : 4", "4"},
    {&kMx, "exchanges two codes of a byte", "bytes | (bytes << 12)",
     "(bytes << 16) | (bytes >> 4)"},
    {&kMx, "has another bias of scales", "code << 23", "(code + 1u) << 23"},
    {&kMx, "takes a scale of NaN for an infinity", "Vec<u32, L>(0x00400000u)", "Vec<u32, L>(0u)"},
    {&kFour, "reads the first block's scales again", "scales + k0 / kScaledK + part",
     "scales + part"},
    {&kFour, "scales a group by the next column's", "scales[i * kTileRows + r]",
     "scales[i * kTileRows + (r ^ 1)]"},
    {&kFour, "forgets sums of earlier groups", "load<AccVec>(sum + r * kLanes)", "AccVec(Acc(0))"},
    {&kFour, "adds to the sums of the block before", "store(memory.sums + at, AccVec(Acc(0)))",
     "(void)at"},
    {&kFour, "reads every group's rows of A from the first", "panels + at / kGroup * kLanes",
     "panels"},
    {&kFour, "reads A's second block of k from the first",
     "panels += panels_units(round_up(rows, kWidth), k)", "panels += 0"},
    {&kFour, "stores tiles as they are",
     "transpose<kLanes>(block);\n      for (int r = 0; r < kLanes && i + r < rows",
     ";\n      for (int r = 0; r < kLanes && i + r < rows"},
    {&kColumn, "ignores the tail of k", "if (left > 0)\n      store(to, numbers",
     "if (false)\n      store(to, numbers"},
    {&kColumn, "takes zero points for unsigned", "i8(memory.zeros", "u8(memory.zeros"},
    {&kColumn, "drops the sign of first codes", "(pairs << 24) >> 24", "pairs & 0xff"},
    {&kColumn, "exchanges the codes of a pair", "(pairs >> 8) - zero",
     "((pairs << 24) >> 24) - zero"},
    {&kSigned, "takes codes for unsigned", "(code ^ 8) - 8", "code"},
    {&kSigned, "rounds numbers to powers of two", "float(value)) >> 16)",
     "float(value)) >> 16 & 0xff80)"},
    {&kGate, "decodes one factor twice", "c / kColumns * args.n", "0 * args.n"},
    {&kGate, "counts half of a batch's scales", "(batch * 2 * args.n + column)",
     "(batch * args.n + column)"},
    {&kGate, "finds the other factor in the next strip", "high = low + kTilesOfD",
     "high = low + kMt"},
    {&kGate, "takes the factors for each other", "silu(acc0) * acc1", "silu(acc1) * acc0"},
    {&kGate, "keeps a strip's sums where the one before has them", "2 * j / kTileRows * sums_pitch",
     "j / kColumns * sums_pitch"},
    {&kGate, "leaves sums of the second half as they are",
     "round_up(2 * width, kHeight) * sums_pitch", "round_up(width, kHeight) * sums_pitch"},
    {&kAlternating, "takes the columns of the factors for each other", "+ c % 2;", "+ 1 - c % 2;"},
    {&kAlternating, "does not separate the factors", "separate(first, second, Iota<L>{});", ""},
    {&kGatedSquares, "counts half of a batch's squares", "(2 * args.n + kGroupColumns - 1)",
     "(args.n + kGroupColumns - 1)"},
    {&kFour, "repeats the first step's numbers", "memory.numbers + step * kMt",
     "memory.numbers + 0 * kMt"},
    {&kSigned, "reads the first 16 scales for all groups",
     "store(memory.scales + (part + i) * kHeight + c, block[i])",
     "store(memory.scales + (part + i) * kHeight + c, block[part ? 0 : i])"},
};

TEST(HostAmxWeights, PlantedBugsAreCaught) {
  if (!runs_here()) GTEST_SKIP() << "the rest of the code needs AVX-512 with BF16";
  test::Attempt attempt;
  std::string survivors;
  for (const Mutant& mutant : kMutants) {
    attempt.at(mutant.name);
    const Gemm gemm = parse_gemm(mutant.base->shape).value();
    if (wrong(gemm, device_of(1), mutant.base->config, mutant.from, mutant.to).empty())
      survivors += fmt::format("\n  {}", mutant.name);
  }
  EXPECT_EQ(survivors, "") << "planted bugs that nothing caught";
  for (const Base* base :
       {&kFour, &kColumn, &kSigned, &kFloats, &kMx, &kGate, &kAlternating, &kGatedSquares})
    EXPECT_EQ(wrong(parse_gemm(base->shape).value(), device_of(1), base->config), "")
        << base->shape;
}

TEST(HostAmxWeights, RulesNameWhatIsMissing) {
  const auto rule = [&](const char* shape, const HostAmxWeights& config, const char* cpu = "amx") {
    return std::string(broken_rule(Problem::of(parse_gemm(shape).value()).value(),
                                   cpu_caps_named(cpu).value(), config));
  };
  const char* const shape = "bf16_int4 N T 64 64 1024 group=128";
  EXPECT_EQ(rule(shape, {}), "");
  EXPECT_NE(rule(shape, {}, "avx512_bf16").find("AMX-BF16"), std::string::npos);
  EXPECT_NE(rule("fp16_int4 N T 64 64 1024 group=128", {}).find("A is bf16"), std::string::npos);
  EXPECT_NE(rule("bf16_int4 N N 64 64 1024 group=128", {}).find("k-major"), std::string::npos);
  EXPECT_NE(rule("bf16_int4 N T 64 64 1024 group=128 zero=float", {}).find("zero points"),
            std::string::npos);
  EXPECT_NE(rule(shape, {.mt = 3, .nt = 2, .nc = 48}).find("registers"), std::string::npos);
  EXPECT_NE(rule(shape, {.kc = 192}).find("multiple of a group"), std::string::npos);
  EXPECT_NE(rule(shape, {.nc = 48}).find("16*mt"), std::string::npos);
  EXPECT_NE(rule(shape, {.mc = 48}).find("16*nt"), std::string::npos);
  EXPECT_EQ(rule(shape, {.parallel = Parallel::m}).find("parallel"), 0u);
}

}  // namespace kiln::amx_weights_test
