// Lists of products as problems: their text, what is refused, entries in canonical form, what is
// drawn for verification, what a call checks of its entries.
#include "generator/problem/product_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engine/plan.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "kiln/engine.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "tuner/measure/operand_sets.h"
#include "tuner/verify/data.h"
#include "tuner/verify/verify.h"

namespace kiln::product_list_test {

using testing::HasSubstr;

std::string refusal(const Gemm& gemm) {
  const Status status = validate(gemm);
  return status ? std::string() : status.error().message;
}

Gemm list_of(Gemm gemm, std::int64_t count) { return gemm.grouped(count, Grouping::list); }

TEST(ProductList, IsWrittenAndReadAsText) {
  const Gemm g = parse_gemm("bf16 N T 512 4096 64 groups=8 grouped=list align=16").value();
  EXPECT_EQ(g.grouping(), Grouping::list);
  EXPECT_EQ(text(g), "bf16 N T 512 4096 64 groups=8 grouped=list align=16");
  EXPECT_EQ(refusal(list_of(Gemm::column_major(5, 6, 7), 2)), "");
}

TEST(ProductList, RefusesWhatItDoesNotKnow) {
  const Gemm g = list_of(Gemm::row_major(40, 6, 128, bf16), 3);
  EXPECT_EQ(refusal(g), "");
  EXPECT_THAT(refusal(g.with_packed_b()), HasSubstr("grouping = list: b_packed = true"));
  EXPECT_EQ(refusal(g.with_gate(Gate::silu)), "");
  EXPECT_THAT(refusal(g.with_amax_d()), HasSubstr("grouping = list: amax_d = true"));
  const Gemm codes = list_of(Gemm::row_major(4, 6, 128, DType::s8).output(fp32), 2);
  EXPECT_EQ(refusal(codes.scaled(Scale::line, Scale::tensor)), "");
  EXPECT_THAT(refusal(codes.scaled(Scale::line).with_zero_points_of_a(Zero::line)),
              HasSubstr("grouping = list: zero_a = line: must be none"));
  EXPECT_THAT(refusal(list_of(Gemm::row_major(4, 6, 128, fp8_e4m3).scaled(Scale::mx_32), 2)),
              HasSubstr("grouping = list: scale_a = mx32: products may have any k"));
  EXPECT_EQ(refusal(list_of(Gemm::row_major(4, 6, 100, fp8_e4m3).scaled(Scale::line_128), 2)), "");
  Gemm weights = parse_gemm("bf16_int4 N T 64 64 128 group=128").value();
  EXPECT_THAT(refusal(list_of(weights, 2)),
              HasSubstr("grouping = list: b.dtype = s4: must not be weights"));
  Gemm pitched = g;
  pitched.b.ld = 50;
  EXPECT_THAT(refusal(pitched), HasSubstr("ldb = 50: entries of a list have it"));
  Gemm strided = g;
  strided.d.batch_stride = 9999;
  EXPECT_THAT(refusal(strided), HasSubstr("stride_d = 9999: entries of a list"));
  Gemm many = g;
  many.n = std::int64_t{1} << 31;
  EXPECT_THAT(refusal(many), HasSubstr("n = 2147483648: products of a list"));
}

TEST(ProductList, HasFamiliesOfCpusAndOfBothVendors) {
  Gemm g = list_of(Gemm::row_major(400, 600, 128, bf16), 3);
  g.alignment = 16;
  std::set<std::string> names;
  for (const char* device : {"avx512", "sm_90a", "sm_80", "gfx942"}) {
    const auto space = space_for(Problem::of(g).value(), caps_named(device).value());
    ASSERT_TRUE(space) << space.error().message;
    for (const Config& config : space->legal) names.insert(std::string(family_name(config)));
  }
  EXPECT_TRUE(names.contains("host_packed"));
  EXPECT_TRUE(names.contains("cuda_mma") && names.contains("cuda_simt") &&
              names.contains("cuda_wgmma"));
  EXPECT_TRUE(names.contains("hip_mfma") && names.contains("hip_simt"));
  EXPECT_FALSE(names.contains("host_small"));
}

TEST(ProductList, CopyEngineNeedsItsAlignment) {
  const DeviceCaps device = caps_named("sm_90a").value();
  Gemm g = list_of(Gemm::row_major(400, 600, 128, bf16), 3);
  const Config config{CudaWgmma{.left = 64, .right = 64, .warpgroups = 1}};
  g.alignment = 8;
  EXPECT_EQ(broken_rule(Problem::of(g).value(), device, config),
            "pack_a=0 needs an A that TMA can address");
  g.alignment = 16;
  EXPECT_EQ(broken_rule(Problem::of(g).value(), device, config), "");
}

// Behind all entries lie two tensor maps for each, made by the steps that bring entries.
TEST(ProductList, HasTensorMapsOfEachProduct) {
  Gemm g = list_of(Gemm::row_major(64, 100, 77, bf16), 33);
  g.alignment = 16;
  const DeviceCaps device = caps_named("sm_90a").value();
  const Config config{CudaWgmma{.left = 64, .right = 64, .warpgroups = 1}};
  const Problem problem = Problem::of(g).value();
  ASSERT_EQ(broken_rule(problem, device, config), "");
  const GpuLaunch launch = family_of(config, device.vendor).launch(problem, device, config);
  ASSERT_EQ(launch.steps.size(), 3);
  EXPECT_EQ(launch.entry_maps, 2);
  EXPECT_EQ(launch.maps.size(), 2);
  EXPECT_THAT(launch.steps[1].maps, testing::ElementsAre(0, 1));
  EXPECT_EQ(launch.steps[1].grid.x, 16) << "four warps a block, a map each";
  EXPECT_THAT(launch.steps[2].maps, testing::IsEmpty());
  EXPECT_EQ(launch.workspace_bytes, (33 * 104 + 127) / 128 * 128 + 33 * 2 * 128);
  for (const TensorMapSpec& map : launch.maps) {
    EXPECT_EQ(map.operand, MapOperand::workspace);
    EXPECT_EQ(map.strides[0] % 16, 0);
    EXPECT_EQ(map.dims[2], 1);
  }
}

// The list comes to the device in steps of so many entries.
TEST(ProductList, IsBroughtToTheDeviceInSteps) {
  const Gemm g = list_of(Gemm::row_major(64, 64, 64), 70);
  const DeviceCaps device = caps_named("sm_80").value();
  const Config config{
      CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
  const Problem problem = Problem::of(g).value();
  ASSERT_EQ(broken_rule(problem, device, config), "");
  const GpuLaunch launch = family_of(config, device.vendor).launch(problem, device, config);
  ASSERT_EQ(launch.steps.size(), 4);
  EXPECT_EQ(launch.steps[0].first_entry, 0);
  EXPECT_EQ(launch.steps[2].first_entry, 64);
  EXPECT_EQ(launch.steps[2].entry, "kiln_take_list");
  EXPECT_EQ(launch.steps[3].entry, "kiln_gemm");
  EXPECT_EQ(launch.workspace_bytes, 70 * kPlainEntryBytes);
}

// Scales make entries longer, so that fewer fit a step's parameters.
TEST(ProductList, BringsScalesInMoreSteps) {
  Gemm g = list_of(Gemm::row_major(64, 64, 64, DType::s8).output(fp32).scaled(Scale::line), 53);
  const DeviceCaps device = caps_named("sm_80").value();
  const Config config{
      CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
  const Problem problem = Problem::of(g).value();
  ASSERT_EQ(broken_rule(problem, device, config), "");
  const GpuLaunch launch = family_of(config, device.vendor).launch(problem, device, config);
  ASSERT_EQ(launch.steps.size(), 4);
  EXPECT_EQ(launch.entry_bytes, std::int64_t{sizeof(ListEntry)});
  EXPECT_EQ(launch.steps[2].first_entry, 52);
  EXPECT_EQ(launch.workspace_bytes, 53 * std::int64_t{sizeof(ListEntry)});
}

// Their addresses are promised for the elements of a scale alone: no tensor map copies them.
TEST(ProductList, ScalesHaveFourByteAddresses) {
  Gemm g = list_of(Gemm::row_major(64, 64, 512, fp8_e4m3)
                       .transpose_b()
                       .scaled(Scale::line_128, Scale::square_128),
                   3);
  g.alignment = 16;
  EXPECT_EQ(address_alignment(g, Operand::scale_a), 4);
  const DeviceCaps device = caps_named("sm_90a").value();
  int found = 0;
  for (const Config& config : space_for(Problem::of(g).value(), device).value().legal)
    if (const auto c = config.if_is<CudaWgmma>()) {
      ++found;
      EXPECT_FALSE(c->tma_scales);
    }
  EXPECT_GT(found, 0);
}

TEST(ProductList, EntriesOfAColumnMajorDAreExchanged) {
  const Problem problem = Problem::of(list_of(Gemm::column_major(5, 6, 7), 2)).value();
  ASSERT_TRUE(problem.swapped);
  float a = 0, b = 0, d = 0;
  const ListEntry own = canonical_entry(
      problem,
      {.m = 2, .n = 3, .k = 4, .ldb = 9, .a = &a, .b = &b, .d = &d, .scale_a = &d, .scale_b = &a});
  EXPECT_EQ(own.m, 3);
  EXPECT_EQ(own.n, 2);
  EXPECT_EQ(own.a, &b);
  EXPECT_EQ(own.b, &a);
  EXPECT_EQ(own.lda, 9);
  EXPECT_EQ(own.scale_a, &a);
  EXPECT_EQ(own.scale_b, &d);
  EXPECT_EQ(own.ldb, 2) << "tight columns of a column-major A of two rows";
  EXPECT_EQ(own.ldd, 2);
  EXPECT_EQ(canonical_entry(problem, {.m = 1, .n = 1, .d = &d}).a, &d) << "without k";
}

// Rows of a B that holds both factors are as long as both.
TEST(ProductList, EntriesOfAGateHaveBothFactors) {
  const Gemm gemm = list_of(Gemm::row_major(5, 6, 7).with_gate(Gate::silu), 2);
  EXPECT_EQ(canonical_entry(Problem::of(gemm).value(), {.m = 2, .n = 3, .k = 4}).ldb, 6);
  EXPECT_EQ(alone(gemm, {.m = 2, .n = 3, .k = 4}).ldb(), 6);
}

// Places of all products are as aligned as the problem promises, and lie apart.
TEST(ProductList, DrawnProductsLieWithinTheirPlaces) {
  Gemm g = list_of(Gemm::row_major(300, 77, 90, bf16).transpose_a(), 40);
  g.alignment = 16;
  bool empty = false, without_k = false, whole = false;
  for (const Data kind : {Data::exact, Data::uniform}) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(span(g, Operand::groups)));
    fill(g, Operand::groups, kind, 3, numbers.data());
    for (std::int64_t i = 0; i < g.batch; ++i) {
      const ListEntry e = listed(numbers.data(), i);
      empty |= e.m == 0 || e.n == 0;
      without_k |= e.k == 0;
      whole |= e.m == 300;
      const Gemm one = alone(g, e);
      EXPECT_EQ(refusal(one), "");
      for (const Operand which : kMatrices) {
        EXPECT_LE(span(one, which) + leading_dimension(g, which), batch_stride(g, which));
        EXPECT_EQ(leading_dimension(one, which) * 2 % 16, 0);
      }
      if (kind == Data::uniform) {
        EXPECT_GE(e.m, 150);
      }
    }
  }
  EXPECT_TRUE(empty && without_k && whole);
}

TEST(ProductList, TheReferenceKernelIsRight) {
  test::RandomGemm random(test::seed_of_run() + 700, 40);
  int checked = 0, swapped = 0;
  for (int i = 0; i < 60; ++i) {
    Gemm gemm = random.next();
    gemm.b_packed = false;
    gemm.a.q.zero = Zero::none;
    gemm = list_of(gemm, 1 + static_cast<std::int64_t>(random.below(6)));
    gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
    if (!validate(gemm)) continue;
    ++checked;
    const Problem problem = Problem::of(gemm).value();
    swapped += problem.swapped ? 1 : 0;
    const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
      const KilnArgs args = make_args(problem, operands);
      for (int thread = 0; thread < 2; ++thread) run_reference(problem, args, nullptr, thread, 2);
      return {};
    });
    EXPECT_TRUE(verdict) << text(gemm) << ": " << verdict.error().detail;
  }
  EXPECT_GT(checked, 15);
  EXPECT_GT(swapped, 3);
}

// What lies between the products is nobody's.
TEST(ProductList, WritesBetweenProductsAreFound) {
  const Gemm gemm = list_of(Gemm::row_major(50, 4, 8), 3);
  const Problem problem = Problem::of(gemm).value();
  const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
    run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
    // The line behind the place of the last product.
    auto* const d = const_cast<float*>(static_cast<const float*>(operands.list[1].d));
    d[batch_stride(gemm, Operand::d) - 1] = 0;
    return {};
  });
  ASSERT_FALSE(verdict);
  EXPECT_THAT(verdict.error().detail, HasSubstr("which belongs to no product, was written"));
}

TEST(ProductList, TheReferenceKernelAppliesScales) {
  for (const char* shape :
       {"fp8 N T 70 60 300 groups=4 grouped=list scale=1x128:128x128",
        "fp8 N T 70 60 300 groups=4 grouped=list scale=1x128 scale_order=blocks:blocks_4",
        "fp8 N T 70 60 300 groups=4 grouped=list scale=line:tensor scale_d=1x128 out=fp8_e4m3",
        "int8 N N 70 60 90 groups=4 grouped=list scale=tensor:line out=bf16 gate=silu",
        "bf16 T N 70 60 90 groups=4 grouped=list gate=gelu:interleaved"}) {
    const auto gemm = parse_gemm(shape);
    ASSERT_TRUE(gemm) << gemm.error().message;
    const Problem problem = Problem::of(*gemm).value();
    const Verdict verdict = verify(*gemm, [&](const Operands& operands) -> Status {
      run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
      return {};
    });
    EXPECT_TRUE(verdict) << shape << ": " << verdict.error().detail;
  }
}

// Between the scales that calls write lies nothing that they do.
TEST(ProductList, WritesBetweenScalesAreFound) {
  const Gemm gemm =
      parse_gemm("fp8 N T 50 200 64 groups=3 grouped=list scale_d=1x128 out=fp8_e4m3").value();
  const Problem problem = Problem::of(gemm).value();
  const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
    run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
    for (int i = 0; i < 3; ++i) {
      const ListEntry& e = operands.list[i];
      const std::int64_t scales = e.m * ((e.n + 127) / 128);
      if (scales < batch_stride(gemm, Operand::scale_d)) static_cast<float*>(e.scale_d)[scales] = 1;
    }
    return {};
  });
  ASSERT_FALSE(verdict);
  EXPECT_THAT(verdict.error().detail, HasSubstr("scale_d's element"));
}

TEST(ProductList, OperandSetsHaveEntries) {
  const Gemm gemm = list_of(Gemm::row_major(50, 4, 8), 3);
  const OperandSets sets = OperandSets::make(gemm, detect_cpu(1).value(), 3).value();
  ASSERT_NE(sets[0].list, nullptr);
  EXPECT_GE(sets[0].list[2].m, 25);
  EXPECT_EQ(sets[0].list[2].m, sets[sets.count() - 1].list[2].m);
}

class CallOfAList : public testing::Test {
 protected:
  std::string error(const Operands& operands) {
    const Status ran = run_plan(*bare_plan(gemm_, 1), operands);
    return ran ? std::string() : ran.error().message;
  }
  std::string error() { return error({.list = list_.data()}); }

  Gemm gemm_ = list_of(Gemm::row_major(4, 4, 4).with_bias(Bias::per_column), 3);
  std::vector<float> a_ = std::vector<float>(32, 1), b_ = std::vector<float>(32, 2),
                     d_ = std::vector<float>(64, -1);
  std::vector<float> bias_{1, 2, 3, 4};
  std::vector<ListEntry> list_{
      {.m = 2,
       .n = 3,
       .k = 4,
       .a = a_.data(),
       .b = b_.data(),
       .d = d_.data(),
       .bias = bias_.data()},
      {},
      {.m = 4, .n = 1, .k = 0, .ldd = 5, .d = d_.data() + 16, .bias = bias_.data() + 3}};
};

TEST_F(CallOfAList, ComputesEachProduct) {
  ASSERT_EQ(error(), "");
  EXPECT_THAT(std::vector(d_.begin(), d_.begin() + 7),
              testing::ElementsAre(9, 10, 11, 9, 10, 11, -1));
  EXPECT_THAT(std::vector(d_.begin() + 16, d_.begin() + 22),
              testing::ElementsAre(4, -1, -1, -1, -1, 4));
}

TEST_F(CallOfAList, NamesTheEntryTheFieldAndTheValue) {
  EXPECT_THAT(error({}), HasSubstr("list = null"));
  list_[2].m = 5;
  EXPECT_THAT(error(), HasSubstr("list[2].m = 5: must be 0 to 4"));
  list_[2].m = 4, list_[1].k = -1;
  EXPECT_THAT(error(), HasSubstr("list[1].k = -1: must be 0 to 4"));
  list_[1].k = 0, list_[0].ldb = 2;
  EXPECT_THAT(error(), HasSubstr("list[0].ldb = 2: must be 0 (tight) or at least 3"));
  list_[0].ldb = 0, list_[0].a = nullptr;
  EXPECT_THAT(error(), HasSubstr("list[0].a = null"));
  list_[0].a = d_.data() + 2;
  EXPECT_THAT(error(), HasSubstr("list[0].a = "));
  EXPECT_THAT(error(), HasSubstr("overlaps its d"));
  list_[0].a = a_.data(), list_[2].bias = nullptr;
  EXPECT_THAT(error(), HasSubstr("list[2].bias = null"));
  list_[2].bias = bias_.data();
  EXPECT_EQ(error(), "");
  EXPECT_THAT(error({.beta = 1, .list = list_.data()}), HasSubstr("list[0].c = null"));
  list_[0].c = list_[0].d, list_[2].c = list_[2].d;
  EXPECT_THAT(error({.beta = 1, .list = list_.data()}), HasSubstr("list[2].c = "))
      << "C in D's place, but of other lines";
  list_[2].ldc = 5;
  EXPECT_EQ(error({.beta = 1, .list = list_.data()}), "");
}

TEST_F(CallOfAList, NamesTheScaleThatIsWrong) {
  gemm_ = list_of(Gemm::row_major(4, 4, 256, fp8_e4m3)
                      .output(fp32)
                      .transpose_b()
                      .scaled(Scale::line_128, Scale::square_128),
                  2);
  const std::vector<std::uint8_t> a(1024, 0x38), b(1024, 0x38);  // ones
  alignas(4) std::array<float, 9> scales{1, 2, 3, 4, 5, 6, 7, 8, 9};
  list_ = {{.m = 2, .n = 3, .k = 256, .a = a.data(), .b = b.data(), .d = d_.data()},
           {.m = 1, .n = 1, .k = 0, .d = d_.data() + 20}};
  EXPECT_THAT(error(), HasSubstr("list[0].scale_a = null"));
  list_[0].scale_a = reinterpret_cast<const std::byte*>(scales.data()) + 1;
  EXPECT_THAT(error(), HasSubstr("must be 4-byte aligned"));
  list_[0].scale_a = scales.data();
  EXPECT_THAT(error(), HasSubstr("list[0].scale_b = null"));
  list_[0].scale_b = d_.data() + 3;
  EXPECT_THAT(error(), HasSubstr("list[0].scale_b = "));
  EXPECT_THAT(error(), HasSubstr("overlaps its d"));
  EXPECT_THAT(error(), HasSubstr(", which is written")) << "scales could not be D";
  list_[0].scale_b = scales.data() + 4;
  ASSERT_EQ(error(), "") << "blocks of scales without k have none";
  // Rows have scales 1, 2 and 3, 4, columns 5, 6.
  EXPECT_THAT(std::vector(d_.begin(), d_.begin() + 6),
              testing::ElementsAre(128 * (5 + 12), 128 * 17, 128 * 17, 128 * (15 + 24), 128 * 39,
                                   128 * 39));
  EXPECT_EQ(d_[20], 0);
}

TEST_F(CallOfAList, NamesTheScalesOfDThatOverlap) {
  gemm_ =
      list_of(Gemm::row_major(4, 4, 4, fp8_e4m3).transpose_b().quantised(fp8_e4m3, Scale::line), 1);
  const std::vector<std::uint8_t> a(16, 0x38), b(16, 0x38);
  alignas(4) std::array<std::uint8_t, 32> d{};
  list_ = {{.m = 4, .n = 4, .k = 4, .a = a.data(), .b = b.data(), .d = d.data()}};
  EXPECT_THAT(error(), HasSubstr("list[0].scale_d = null"));
  list_[0].scale_d = d.data() + 4;
  EXPECT_THAT(error(), HasSubstr("list[0].scale_d = "));
  EXPECT_THAT(error(), HasSubstr("overlaps its d"));
  list_[0].scale_d = const_cast<std::uint8_t*>(a.data());
  EXPECT_THAT(error(), HasSubstr("list[0].a = "));
  EXPECT_THAT(error(), HasSubstr("which is written"));
  list_[0].scale_d = d_.data();
  ASSERT_EQ(error(), "");
  EXPECT_EQ(d_[0], 4.0F / 448);
  EXPECT_EQ(d[15], 0x7e) << "the largest code";
  EXPECT_THAT(error({.beta = 1, .list = list_.data()}), HasSubstr("beta = 1"));
}

TEST_F(CallOfAList, OtherProblemsDoNotLookAtIt) {
  gemm_ = Gemm::row_major(4, 2, 4).grouped(2, Grouping::rows);
  const std::int32_t ends[] = {1, 4};
  const Operands operands{
      .a = a_.data(), .b = b_.data(), .d = d_.data(), .groups = ends, .list = list_.data()};
  ASSERT_EQ(error(operands), "");
  EXPECT_THAT(std::vector(d_.begin(), d_.begin() + 9),
              testing::ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, -1));
}

TEST_F(CallOfAList, PromisesAlignmentOfEntries) {
  gemm_.alignment = 16;
  alignas(16) float a[32] = {}, b[32] = {}, d[32] = {};
  ListEntry one{.m = 2, .n = 4, .k = 3, .lda = 4, .a = a, .b = b, .d = d, .bias = bias_.data()};
  list_ = {one, {}, {}};
  EXPECT_EQ(error(), "");
  list_[0].lda = 3;
  EXPECT_THAT(error(), HasSubstr("list[0].lda = 3: 12 bytes are not a multiple of alignment = 16"));
  list_[0].lda = 4, list_[0].b = b + 1;
  EXPECT_THAT(error(), HasSubstr("not a multiple of alignment = 16"));
}

}  // namespace kiln::product_list_test
