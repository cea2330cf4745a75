// A vendor that nobody has heard of: one platform row and one family row make its devices have a
// space, sources, a fallback and keys, and its kernels run on the emulator. No other file knows it.
#include "generator/space/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/keys.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/space/launch_text.h"
#include "support/emulated.h"
#include "tuner/worker/protocol.h"

namespace kiln::platform_test {

using testing::HasSubstr;

constexpr Vendor kAcme{"acme"};

Platform acme_platform() {
  Platform row = platform_of(Vendor::nvidia);
  row.vendor = kAcme;
  row.extension = "acme";
  row.command = "acmecc {flags} {file}";
  row.flags = [](const DeviceCaps& device) { return std::vector{"--target=" + device.arch}; };
  row.refuses = [](const Gemm& gemm) -> std::string_view {
    return gemm.a.dtype == fp64 ? "acme has no doubles" : "";
  };
  return row;
}

/// Its only kernels: SIMT ones, of at most 64 rows a block.
Family acme_family() {
  Family row = *find_family(CudaSimt{}, Vendor::nvidia);
  row.vendor = kAcme;
  row.broken_rule = [](const Problem& p, const DeviceCaps& d,
                       const Config& config) -> std::string_view {
    if (config.as<CudaSimt>().block_m > 64) return "block_m is at most 64";
    return find_family(config, Vendor::nvidia)->broken_rule(p, d, config);
  };
  return row;
}

DeviceCaps acme_device() {
  DeviceCaps device = caps_named("sm_80").value();
  device.vendor = kAcme;
  device.arch = "acme1";
  device.compute_units = 4;
  return device;
}

struct InventedVendor : testing::Test {
  const Family families_[1] = {acme_family()};
  const AddedPlatform added_{acme_platform(), families_};
  const DeviceCaps device_ = acme_device();
};

TEST_F(InventedVendor, HasASpaceOfItsOwnRules) {
  const auto space =
      space_for(Problem::of(parse_gemm("fp32 N N 100 90 80").value()).value(), device_);
  ASSERT_TRUE(space) << space.error().message;
  EXPECT_GT(space->legal.size(), 100u);
  EXPECT_GT(space->rejected.at("block_m is at most 64"), 0);
  EXPECT_GT(predict_ns(space->problem, device_, space->legal[0]), 0);
  EXPECT_EQ(broken_rule(space->problem, device_, HipSimt{}),
            "the family is for the device's vendor");
  const auto doubles =
      space_for(Problem::of(parse_gemm("fp64 N N 100 90 80").value()).value(), device_);
  ASSERT_FALSE(doubles);
  EXPECT_EQ(doubles.error().code, ErrorCode::unsupported);
  const Problem problem = Problem::of(parse_gemm("fp64 N N 100 90 80").value()).value();
  EXPECT_EQ(broken_rule(problem, device_, CudaSimt{}), "acme has no doubles");
}

TEST_F(InventedVendor, HasSourcesAndAFallbackThatRunOnTheEmulator) {
  const Gemm gemm = parse_gemm("fp32 N T 70 45 33").value();
  const Problem problem = Problem::of(gemm).value();
  ASSERT_TRUE(has_fallback(problem, device_));
  const Config config = fallback_config(problem, device_);
  ASSERT_EQ(broken_rule(problem, device_, config), "");
  const auto source = render(Problem::of(gemm).value(), device_, config);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT(source->text, HasSubstr("// compile: acmecc --target=acme1 kiln_cuda_simt_"));
  EXPECT_TRUE(source->file_name.ends_with(".acme")) << source->file_name;
  EXPECT_THAT(launch_text(Problem::of(gemm).value(), device_, config), HasSubstr("revision=1;"));
  const auto kernel = test::emulated_kernel(gemm, device_, config);
  ASSERT_TRUE(kernel) << kernel.error().message;
  const Verdict verdict = test::verify_emulated(gemm, *kernel, 0);
  EXPECT_TRUE(verdict) << verdict.error().detail;
}

TEST_F(InventedVendor, IsNamedInKeysAndMessages) {
  EXPECT_THAT(fingerprint(device_), HasSubstr("acme"));
  Vendor read;
  EXPECT_TRUE(from_value(to_value(kAcme), read));
  EXPECT_EQ(read, kAcme);
  const auto caps = caps_from(to_json(device_));
  ASSERT_TRUE(caps) << caps.error().message;
  EXPECT_EQ(*caps, device_);
}

TEST(AddedPlatform, IsGoneWithItsScope) {
  const std::size_t before = families().size();
  {
    const Family family[] = {acme_family()};
    const AddedPlatform added(acme_platform(), family);
    EXPECT_EQ(vendor_named("acme"), kAcme);
    EXPECT_EQ(families().size(), before + 1);
  }
  EXPECT_EQ(vendor_named("acme"), std::nullopt);
  EXPECT_EQ(families().size(), before);
  Vendor read = Vendor::cpu;
  EXPECT_FALSE(from_value(Value{std::string("acme")}, read));
  EXPECT_FALSE(caps_from(to_json(acme_device())));
  const auto space =
      space_for(Problem::of(parse_gemm("fp32 N N 100 90 80").value()).value(), acme_device());
  ASSERT_FALSE(space);
  EXPECT_EQ(space.error().code, ErrorCode::unsupported);
}

}  // namespace kiln::platform_test
