// What is rendered, kept as files under kept/: one kernel for each family and for each branch of a
// template that another golden does not show. Run with KILN_ACCEPT=1 to take a change, then read
// it.
#include "generator/render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "generator/family.h"
#include "support/golden.h"

namespace kiln {
namespace {

struct Case {
  const char* name;
  const char* device;
  int threads;
  const char* gemm;
  const char* config;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"packed_fp32_avx512", "avx512", 1, "fp32 N N 1024 1024 1024",
     "host_packed isa=avx512 mr=8 nv=3 kc=384 mc=240 nc=768 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=4 prefetch=8 stream_d=0"},
    {"packed_fp32_avx512_unpacked_tails", "avx512", 1, "fp32 N N 29 100 300 lda=304",
     "host_packed isa=avx512 mr=6 nv=4 kc=128 mc=96 nc=128 pack_a=0 pack_b=0 inner=columns "
     "parallel=none unroll=1 prefetch=0 stream_d=0"},
    {"packed_fp64_avx2_grid_epilogue", "avx2", 4,
     "fp64 T N 500 400 300 epilogue=bias_row+gelu_erf+residual",
     "host_packed isa=avx2 mr=4 nv=3 kc=256 mc=96 nc=768 pack_a=1 pack_b=1 inner=rows "
     "parallel=grid unroll=4 prefetch=0 stream_d=0"},
    {"packed_bf16_split_k", "avx512_bf16", 2, "bf16 N T 64 96 4096",
     "host_packed isa=avx512 mr=8 nv=3 kc=512 mc=64 nc=96 pack_a=1 pack_b=1 inner=columns "
     "parallel=k unroll=1 prefetch=0 stream_d=0"},
    {"packed_int8_weights", "avx512", 1, "int8 N T 32 512 1024 out=fp32 packed_b=1",
     "host_packed isa=avx512 mr=8 nv=2 kc=1024 mc=32 nc=512 pack_a=1 pack_b=1 inner=columns "
     "parallel=none unroll=1 prefetch=0 stream_d=0"},
    {"packed_fp16_portable", "portable", 1, "fp16 N N 33 65 17",
     "host_packed isa=portable mr=4 nv=2 kc=24 mc=96 nc=128 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=1 prefetch=0 stream_d=0"},
    {"dot_fp32_avx512", "avx512", 2, "fp32 N T 4 4096 4096",
     "host_dot isa=avx512 mr=4 nr=6 kc=0 mc=0 parallel=n prefetch=0"},
    {"small_fp32_avx512", "avx512", 1, "fp32 N N 13 24 9",
     "host_small isa=avx512 bytes=64 mr=8 nv=2 unroll=1 parallel=none"},
    {"amx_bf16", "amx", 1, "bf16 N T 128 512 512",
     "host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none"},
};

Result<Source> rendered(const Case& c) {
  auto device = cpu_caps_named(c.device);
  const auto gemm = parse_gemm(c.gemm);
  const auto config = parse_config(c.config);
  if (!device) return tl::unexpected(device.error());
  if (!gemm) return tl::unexpected(gemm.error());
  if (!config) return tl::unexpected(config.error());
  device->compute_units = c.threads;
  return render(*gemm, *device, *config);
}

class Render : public testing::TestWithParam<Case> {};

TEST_P(Render, IsAsKept) {
  const auto source = rendered(GetParam());
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE(test::matches_golden(std::string(GetParam().name) + ".cpp", source->text));
}

TEST_P(Render, LeavesNoTemplateMarksBehind) {
  const auto source = rendered(GetParam());
  ASSERT_TRUE(source) << source.error().message;
  std::istringstream lines(source->text);
  for (std::string line; std::getline(lines, line);) {
    const auto start = std::min(line.find_first_not_of(' '), line.size());
    EXPECT_NE(line.compare(start, 3, "//%"), 0) << line;
    EXPECT_NE(line.compare(start, 8, "#include"), 0) << "not self-contained: " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, Render, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Goldens, CoverEveryFamily) {
  std::set<std::string_view> families_kept;
  for (const auto& c : kCases) families_kept.insert(family_name(parse_config(c.config).value()));
  for (const auto& family : families())
    EXPECT_TRUE(families_kept.count(family.name)) << family.name;
}

TEST(Goldens, HaveNoLeftovers) {
  std::set<std::string> wanted;
  for (const auto& c : kCases) wanted.insert(std::string(c.name) + ".cpp");
  for (const auto& entry :
       std::filesystem::directory_iterator(KILN_SOURCE_DIR "/tests/golden/kept"))
    EXPECT_TRUE(wanted.count(entry.path().filename().string())) << entry.path();
}

TEST(FirstDifference, NamesTheLine) {
  EXPECT_EQ(test::first_difference("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(test::first_difference("a\nb\n", "a\nc\n"), "line 2\n  kept: b\n  now:  c");
  EXPECT_EQ(test::first_difference("a\n", "a\nb\n"), "line 2\n  kept: (end of file)\n  now:  b");
}

}  // namespace
}  // namespace kiln
