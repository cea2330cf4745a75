// Lists of products on Hopper's tensor cores, on the emulator: entries that drawn lists do not
// have.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "kiln/numeric.hpp"
#include "support/emulated.h"

namespace kiln::emulated_wgmma_lists_test {

constexpr int kPitch = 72;  // of D, elements

/// The bits of a small integer in bf16.
std::uint16_t bf16_bits(int x) { return static_cast<std::uint16_t>(float_to_bf16(float(x))); }

// A single line of an operand has no pitch that matters: the entry may say anything. Entries
// without rows may have any address, and those without k none.
TEST(WgmmaLists, SingleLinesHaveAnyPitch) {
  Gemm gemm = Gemm::row_major(64, 64, 64, bf16).transpose_b().grouped(4, Grouping::list);
  gemm.c.dtype = gemm.d.dtype = fp32;
  gemm.alignment = 16;
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 2;
  const Config config{CudaWgmma{.left = 64, .right = 64, .stages = 2, .warpgroups = 1}};
  const Problem problem = Problem::of(gemm).value();
  ASSERT_EQ(broken_rule(problem, device, config), "");
  const auto kernel = test::emulated_kernel(gemm, device, config);
  ASSERT_TRUE(kernel) << kernel.error().message;

  alignas(16) std::array<std::uint16_t, 64> a{}, b{};
  for (int i = 0; i < 64; ++i) {
    a[static_cast<std::size_t>(i)] = bf16_bits(i % 5 - 2);
    b[static_cast<std::size_t>(i)] = bf16_bits(i % 7 - 3);
  }
  int sum = 0;
  for (int i = 0; i < 50; ++i) sum += (i % 5 - 2) * (i % 7 - 3);
  alignas(16) std::array<float, 2 * kPitch> d{};
  d.fill(-1);
  const void* const odd = reinterpret_cast<const std::byte*>(a.data()) + 1;
  const std::vector<ListEntry> list{
      {.m = 1, .n = 1, .k = 50, .lda = 51, .ldb = 53, .a = a.data(), .b = b.data(), .d = d.data()},
      {.m = 0, .n = 5, .k = 50, .a = odd, .b = odd, .d = nullptr},
      {.m = 1, .n = 3, .k = 0, .ldd = 7, .d = d.data() + 4},
      {.m = 2, .n = 1, .k = 8, .ldd = kPitch, .a = a.data(), .b = b.data(), .d = d.data() + 8}};
  for (std::uint64_t order = 0; order < 3; ++order) {
    const Status ran = kernel->call(problem, {.list = list.data()}, order);
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(d[0], static_cast<float>(sum));
    EXPECT_EQ(d[1], -1);
    for (const std::size_t at : {4u, 5u, 6u}) EXPECT_EQ(d[at], 0);
    EXPECT_EQ(d[7], -1);
    int first = 0, second = 0;
    for (int i = 0; i < 8; ++i) {
      first += (i % 5 - 2) * (i % 7 - 3);
      second += ((i + 8) % 5 - 2) * (i % 7 - 3);
    }
    EXPECT_EQ(d[8], static_cast<float>(first));
    EXPECT_EQ(d[8 + kPitch], static_cast<float>(second));
  }
}

}  // namespace kiln::emulated_wgmma_lists_test
