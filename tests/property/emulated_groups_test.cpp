// Grouped products on GPUs, without one: sampled configs of the families that compute
// them, on random ragged problems, run lane by lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "generator/problem/groups.h"
#include "generator/problem/spelling.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_groups_test {

/// Scales of lines in a drawn order.
Gemm with_scale_orders(const Gemm& gemm, std::mt19937_64& random) {
  const auto order = [&](Scale s) {
    return s == Scale::line_128 ? static_cast<ScaleOrder>(random() % 3) : ScaleOrder::lines;
  };
  const ScaleOrder of_a = order(gemm.a.q.scale);
  return gemm.with_scale_order(of_a, order(gemm.b.q.scale));
}

/// Rows of one matrix and masked ones in turn; of four problems three keep their layouts, one is as
/// TMA wants it.
Gemm grouped_copy(Gemm gemm, int number, std::mt19937_64& random) {
  gemm.c.order = gemm.d.order = Order::row_major;
  if (gemm.a.q.scale == Scale::square_128) gemm.a.q.scale = Scale::line_128;
  gemm = gemm.grouped(1 + static_cast<std::int64_t>(random() % 6),
                      number % 2 == 0 ? Grouping::rows : Grouping::masked);
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  if (number % 4 == 3) {
    gemm.k = (gemm.k + 15) / 16 * 16;
    gemm.n = (gemm.n + 15) / 16 * 16;
    gemm.a.order = Order::row_major;
    gemm.a.transposed = false;
  }
  gemm.alignment = kUsualAlignment;
  return with_scale_orders(gemm, random);
}

/// Groups of k; of three problems one keeps its layouts, one has tokens as lines and one as
/// columns, as TMA wants them: of 8-bit floats often with scales of blocks.
Gemm grouped_along_k(Gemm gemm, int number, std::mt19937_64& random) {
  gemm.c.order = gemm.d.order = Order::row_major;
  gemm.epilogue.gate.reset();
  gemm = gemm.grouped(1 + static_cast<std::int64_t>(random() % 6), Grouping::k);
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  // Long enough for several groups of several stages.
  gemm.k += static_cast<std::int64_t>(random() % 400);
  if (number % 3 != 0) {
    const bool lines = number % 3 == 1;
    for (std::int64_t* size : {&gemm.m, &gemm.n, &gemm.k})
      if (lines != (size == &gemm.k)) *size = (*size + 15) / 16 * 16;
    gemm.a.order = gemm.b.order = Order::row_major;
    gemm.a.transposed = lines;
    gemm.b.transposed = !lines;
    constexpr Scale kOfB[] = {Scale::line_128, Scale::square_128};
    const Gemm scaled =
        gemm.with_numerics(Numerics::ieee).scaled(Scale::line_128, kOfB[random() % 2]);
    if (!lines && random() % 3 != 0 && validate(scaled)) gemm = with_scale_orders(scaled, random);
  }
  gemm.alignment = kUsualAlignment;
  return gemm;
}

/// 8-bit floats with scales of any kind, of blocks in any order.
Gemm with_scales(const Gemm& gemm, std::mt19937_64& random) {
  constexpr std::pair<Scale, Scale> kKinds[] = {
      {Scale::none, Scale::none},           {Scale::line, Scale::tensor},
      {Scale::line_128, Scale::square_128}, {Scale::line_128, Scale::line_128},
      {Scale::square_128, Scale::line_128}, {Scale::square_128, Scale::square_128}};
  const auto [a, b] = kKinds[random() % std::size(kKinds)];
  const Gemm scaled = gemm.with_numerics(Numerics::ieee).scaled(a, b);
  return validate(scaled) ? with_scale_orders(scaled, random) : gemm;
}

/// D as codes with scales.
Gemm with_codes(const Gemm& gemm, std::mt19937_64& random) {
  constexpr Scale kKinds[] = {Scale::tensor, Scale::line, Scale::line_128};
  Gemm codes =
      gemm.quantised(gemm.accumulator == s32 ? s8 : fp8_e4m3, kKinds[random() % std::size(kKinds)]);
  codes.epilogue.residual = codes.epilogue.bias_as_d = false;
  codes.c.order = codes.d.order = Order::row_major;
  return validate(codes) ? codes : gemm;
}

/// A list; layouts are kept, D by columns too.
Gemm list_of(Gemm gemm, int number, std::mt19937_64& random) {
  gemm.a.q.zero = Zero::none;
  gemm = gemm.grouped(1 + static_cast<std::int64_t>(random() % 6), Grouping::list);
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  if (number % 5 == 4) gemm.batch = 40;  // two steps bring it
  gemm.alignment = number % 2 == 0 ? kUsualAlignment : 1 << random() % 4;
  if (gemm.a.dtype == fp8_e4m3) gemm = with_scales(gemm, random);
  if (size_of(gemm.a.dtype) == 1 && random() % 3 == 0) gemm = with_codes(gemm, random);
  return gemm;
}

std::map<std::string, std::vector<Config>> by_family(const Gemm& gemm, const DeviceCaps& device) {
  std::map<std::string, std::vector<Config>> all;
  if (const auto space = test::space_of(gemm, device))
    for (const Config& config : space->legal)
      all[std::string(family_name(config))].push_back(config);
  return all;
}

/// Sampled configs of every family that computes problems which `change` makes of drawn ones.
void expect_right(const char* target, std::uint64_t stream,
                  Gemm (*change)(Gemm, int number, std::mt19937_64& random)) {
  DeviceCaps device = caps_named(target).value();
  device.compute_units = 4;  // persistent blocks then take several tiles each
  std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                            *type_row(fp32, fp32), *type_row(DType::tf32, DType::tf32)};
  if (device.vendor == Vendor::amd) rows.pop_back();
  if (device.gpu.sm >= 89) rows.push_back(*type_row(fp8_e4m3, fp8_e4m3));
  std::mt19937_64 random(test::seed_of_run() + stream);
  test::RandomGpuGemm draw(test::seed_of_run() + stream, 200);
  std::map<std::string, int> proven;
  const int wanted = 10 * test::thorough();
  const auto least = [&] {
    int few = proven.empty() ? 0 : wanted;
    for (const auto& [family, count] : proven) few = std::min(few, count);
    return few;
  };
  for (int tries = 0; least() < wanted && tries < 50 * wanted; ++tries) {
    const Gemm gemm = change(draw.next(rows), tries, random);
    if (!validate(gemm)) continue;
    for (const auto& [family, configs] : by_family(gemm, device)) {
      if (proven[family] >= wanted) continue;
      const Config config = configs[random() % configs.size()];
      const std::string what =
          fmt::format("KILN_SEED={}: {} | {}", test::seed_of_run(), text(gemm), text(config));
      const auto kernel = test::emulated_kernel(gemm, device, config);
      ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
      const int number = proven[family]++;
      const Verdict verdict = test::verify_emulated(
          gemm, *kernel, number % 3 == 0 ? 0 : static_cast<std::uint64_t>(number) + 7);
      EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
    }
  }
  EXPECT_EQ(least(), wanted);
  EXPECT_EQ(proven.count("cuda_wgmma"), device.gpu.sm == 90 ? 1 : 0);
}

class EmulatedGroups : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedGroups, SampledConfigsAreRight) { expect_right(GetParam(), 0, grouped_copy); }

class EmulatedGroupsOfK : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedGroupsOfK, SampledConfigsAreRight) { expect_right(GetParam(), 1, grouped_along_k); }

class EmulatedLists : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedLists, SampledConfigsAreRight) { expect_right(GetParam(), 2, list_of); }

INSTANTIATE_TEST_SUITE_P(Devices, EmulatedLists,
                         testing::Values("sm_90a", "sm_80", "sm_75", "gfx90a", "gfx942", "gfx950"));
INSTANTIATE_TEST_SUITE_P(Devices, EmulatedGroupsOfK,
                         testing::Values("sm_90a", "sm_80", "sm_75", "gfx90a", "gfx942", "gfx950"));
INSTANTIATE_TEST_SUITE_P(Devices, EmulatedGroups, testing::Values("sm_90a", "sm_80", "gfx942"));

}  // namespace kiln::emulated_groups_test
