// Kernels for products that come from memory, run on small ones, whose spaces do not offer most of
// them: D in whole lines past the caches (stream_d), rows of D that begin anywhere, also between
// two elements' places; D in the order of its rows (rows_d); long runs of an operand's rows packed
// at a time (long_runs); a tile's D written while the next is multiplied (overlap); a batch's D
// stored past the caches (stream_d of host_small).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "tuner/verify/verify.h"

namespace kiln::from_memory_test {

struct Kernel {
  const char* device;
  const char* shape;
  const char* config;
};

const std::string kPacked = " pack_a=1 pack_b=1 unroll=4 prefetch=0 stream_d=1 fetch_a=0 fetch_b=0";
constexpr Kernel kStreamed[] = {
    {"avx512", "fp16 T T 71 186 4", "isa=avx512 mr=4 nv=1 kc=8 mc=24 nc=96 inner=columns"},
    {"avx512", "fp16 T T 71 186 4 epilogue=gelu",
     "isa=avx512 mr=4 nv=6 kc=8 mc=24 nc=192 inner=rows"},
    {"avx512", "int8 N N 70 277 90", "isa=avx512 mr=8 nv=3 kc=96 mc=96 nc=96 inner=columns"},
    {"avx512", "int8 N N 33 131 20 out=s8", "isa=avx512 mr=8 nv=1 kc=32 mc=96 nc=48 inner=columns"},
    {"avx512", "bf16 N N 33 150 80 gate=silu",
     "isa=avx512 mr=6 nv=4 kc=80 mc=96 nc=96 inner=columns"},
    {"avx512", "bf16 N N 33 150 80 gate=silu:interleaved",
     "isa=avx512 mr=6 nv=4 kc=80 mc=96 nc=96 inner=columns"},
    {"avx2", "fp64 N N 30 71 30", "isa=avx2 mr=4 nv=2 kc=32 mc=16 nc=32 inner=rows"},
    {"avx2", "fp32 N N 30 71 30 batch=3", "isa=avx2 mr=4 nv=2 kc=32 mc=16 nc=32 inner=columns"},
};
constexpr Kernel kBlocks[] = {
    {"amx", "bf16 N T 83 180 127", "mt=2 nt=1 kc=64 nc=96"},
    {"amx", "bf16 N T 33 77 40 out=fp32", "mt=2 nt=1 kc=64 nc=48"},
    {"amx", "int8 N N 70 177 90", "mt=2 nt=2 kc=64 nc=96"},
};

constexpr Kernel kRuns[] = {
    {"avx512", "fp32 N N 70 333 130",
     "host_packed isa=avx512 mr=8 nv=2 kc=64 mc=64 nc=512 pack_a=1 pack_b=1 inner=columns"},
    {"avx512", "fp32 T N 700 33 130",
     "host_packed isa=avx512 mr=4 nv=2 kc=32 mc=512 nc=96 pack_a=1 pack_b=1 inner=rows"},
    {"avx512", "bf16 N N 65 1100 131 epilogue=bias_col+gelu",
     "host_packed isa=avx512 mr=8 nv=2 kc=64 mc=64 nc=512 pack_a=1 pack_b=1 inner=columns"},
    {"avx512", "bf16 N N 33 700 64 gate=silu",
     "host_packed isa=avx512 mr=4 nv=2 kc=32 mc=8 nc=96 pack_a=1 pack_b=1 inner=rows"},
    {"avx2", "fp64 N N 30 271 70",
     "host_packed isa=avx2 mr=4 nv=2 kc=32 mc=16 nc=256 pack_a=1 pack_b=1 inner=columns"},
};
constexpr Kernel kBlockRuns[] = {
    {"amx", "int8 N N 40 1500 100", "kc=64 nc=512 mc=64"},
    {"amx", "bf16 T N 40 900 100 batch=2", "kc=64 nc=1024 mc=32 stream_d=1"},
};
// Rows that are one run in memory, also such that a strip fills no line; rows apart; several blocks
// of rows and of columns.
constexpr Kernel kRows[] = {
    {"avx512", "fp32 T N 83 77 4", "isa=avx512 mr=8 nv=3 kc=8 mc=88 nc=96"},
    {"avx512", "u8s8 T T 70 227 91 ldd=229", "isa=avx512 mr=6 nv=4 kc=96 mc=24 nc=256"},
    {"avx512", "int8 N N 71 227 91", "isa=avx512 mr=6 nv=4 kc=96 mc=24 nc=128"},
    {"avx512", "int8 N N 53 3 30 out=s8", "isa=avx512 mr=6 nv=1 kc=32 mc=54 nc=16"},
    {"avx512", "fp16 N N 1 5 30", "isa=avx512 mr=1 nv=4 kc=32 mc=8 nc=64"},
    {"avx512", "bf16 N N 65 100 71 epilogue=bias_col+gelu+residual batch=2",
     "isa=avx512 mr=14 nv=2 kc=72 mc=28 nc=128"},
    {"avx512", "bf16 N N 33 150 30 gate=silu", "isa=avx512 mr=6 nv=4 kc=32 mc=96 nc=192"},
    {"avx512", "bf16 N N 33 150 30 gate=silu:interleaved",
     "isa=avx512 mr=6 nv=4 kc=32 mc=12 nc=192"},
    {"avx2", "fp64 N N 30 71 30", "isa=avx2 mr=4 nv=2 kc=32 mc=16 nc=72"},
    {"avx2", "fp32 N N 30 71 30 batch=3 amax=1", "isa=avx2 mr=4 nv=2 kc=32 mc=16 nc=32"},
};
// Rows that are one vector, of each width, or several; rows apart; a D narrower than the sums.
constexpr Kernel kBatches[] = {
    {"avx512", "fp32 N N 8 8 8 batch=5", "isa=avx512 bytes=32 mr=8 nv=1 unroll=4"},
    {"avx512", "fp32 N N 4 4 4 batch=9 amax=1", "isa=avx512 bytes=16 mr=4 nv=1 unroll=0"},
    {"avx512", "fp64 T N 17 24 7 batch=3", "isa=avx512 bytes=64 mr=8 nv=2 unroll=1"},
    {"avx512", "fp32 N T 16 32 13 batch=4 ldd=48 epilogue=bias_col+gelu+residual",
     "isa=avx512 bytes=64 mr=8 nv=2 unroll=4"},
    {"avx512", "bf16 N N 11 32 9 batch=3", "isa=avx512 bytes=64 mr=6 nv=2 unroll=8"},
    {"avx2", "fp32 N N 24 24 24 batch=2", "isa=avx2 bytes=32 mr=4 nv=3 unroll=8"},
};
constexpr Kernel kOverlaps[] = {
    {"amx", "bf16 N T 100 77 333 epilogue=bias_col+gelu+residual", "mt=2 nt=2 kc=64 nc=64 swap=0"},
    {"amx", "bf16 T N 65 33 200 batch=3", "mt=3 nt=1 kc=128 nc=32 swap=1"},
    {"amx", "int8 N N 130 61 400", "mt=1 nt=2 kc=512 nc=32 swap=1"},
    {"amx", "bf16 N N 40 40 0", "mt=2 nt=2 kc=64 nc=64 swap=0"},
    {"amx", "fp32 N N 70 45 150 numerics=tensor", "mt=2 nt=1 kc=64 nc=32 swap=0 thirds=1"},
    {"amx", "bf16 N T 70 96 150", "mt=2 nt=2 kc=256 nc=64 swap=0 stream_d=1"},
    {"amx", "bf16 N T 100 177 333", "mt=2 nt=2 kc=128 nc=128 swap=1 right_t1=1"},
    {"amx", "int8 N T 70 192 200", "mt=2 nt=1 kc=256 nc=96 swap=0 stream_d=1 right_t1=1"},
    {"amx", "bf16 N N 70 77 150 ldd=96 epilogue=bias_col+gelu+residual batch=2",
     "mt=1 nt=2 kc=256 nc=64 swap=0 stream_d=1"},
    {"amx", "int8 N N 70 61 200 ldd=64", "mt=2 nt=1 kc=256 nc=32 swap=0 stream_d=1"},
    {"amx", "int8 N N 70 61 200", "mt=2 nt=2 kc=256 nc=64 swap=0 stream_d=1"},
    {"amx", "fp32 N N 70 48 150 numerics=tensor",
     "mt=2 nt=1 kc=256 nc=32 swap=0 thirds=1 stream_d=1"},
};

/// The same call with D one byte further.
Status run_aside(BoundKernel& kernel, const Gemm& gemm, Operands operands) {
  const auto bytes = static_cast<std::size_t>(span_bytes(gemm, Operand::d));
  std::vector<std::byte> aside(bytes + 65);
  std::byte* const d = aside.data() + 1;
  std::memcpy(d, operands.d, bytes);
  void* const given = operands.d;
  if (operands.c == given) operands.c = d;
  operands.d = d;
  if (Status ran = kernel.run(operands); !ran) return ran;
  std::memcpy(given, d, bytes);
  return {};
}

void check(const Kernel& one, const std::string& text_of_config) {
  const auto device = test::runnable(one.device, 1);
  if (!device) return;  // other CPUs' kernels are run where those are
  test::Attempt attempt;
  const std::string what = std::string(one.shape) + " | " + text_of_config;
  attempt.at(what);
  const Gemm gemm = parse_gemm(one.shape).value();
  const auto config = parse_config(text_of_config);
  ASSERT_TRUE(config) << what << ": " << config.error().message;
  auto kernel = test::compiled(gemm, *device, *config);
  ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
  auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full});
  ASSERT_TRUE(verifier) << what;
  const double flushed = flushed_by(gemm, *device, *config);
  const auto plain = verifier->check([&](const Operands& o) { return kernel->run(o); }, flushed);
  EXPECT_TRUE(plain) << what << ": " << plain.error().detail;
  const auto aside =
      verifier->check([&](const Operands& o) { return run_aside(*kernel, gemm, o); }, flushed);
  EXPECT_TRUE(aside) << what << ", D one byte further: " << aside.error().detail;
}

TEST(Lines, OfRegisterTilesAreRight) {
  for (const Kernel& one : kStreamed)
    check(one, "host_packed " + std::string(one.config) + " parallel=none" + kPacked);
}

TEST(Lines, OfBlocksOfTileRegistersAreRight) {
  for (const Kernel& one : kBlocks)
    check(one, "host_amx isa=amx " + std::string(one.config) +
                   " swap=0 copy_left=0 parallel=none mc=32 stream_d=1");
}

TEST(LoadsPastL1, OfBlocksAreRight) {
  for (const Kernel& one : kBlocks)
    check(one, "host_amx isa=amx " + std::string(one.config) +
                   " swap=1 copy_left=0 parallel=none mc=32 right_t1=1");
}

TEST(LongRuns, OfOperandsAreRight) {
  for (const Kernel& one : kRuns)
    check(one, std::string(one.config) +
                   " parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0 long_runs=1");
  for (const Kernel& one : kBlockRuns)
    check(one, "host_amx isa=amx mt=2 nt=2 swap=0 copy_left=0 parallel=none long_runs=1 " +
                   std::string(one.config));
}

TEST(Rows, OfDInTheirOrderAreRight) {
  for (const Kernel& one : kRows)
    check(one, "host_packed " + std::string(one.config) +
                   " pack_a=1 pack_b=1 inner=columns parallel=none unroll=4 prefetch=0 stream_d=0"
                   " fetch_a=0 fetch_b=0 rows_d=1");
}

TEST(Batches, PastTheCachesAreRight) {
  for (const Kernel& one : kBatches)
    check(one, "host_small " + std::string(one.config) + " parallel=none stream_d=1");
}

TEST(OverlappingTiles, AreRight) {
  for (const Kernel& one : kOverlaps)
    check(one, "host_amx isa=amx copy_left=0 parallel=none overlap=1 " + std::string(one.config));
}

}  // namespace kiln::from_memory_test
