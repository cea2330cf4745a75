// The checker of GPU kernels, against the host's reference and against planted mistakes. On a
// machine without a GPU the error is tested, and each test says SKIPPED.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "generator/problem/gemm_types.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "support/line_expressions.h"
#include "tuner/measure/gpu_candidate.h"
#include "tuner/measure/gpu_timing.h"

namespace kiln::gpu_check_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kNoGpu = "no NVIDIA GPU: cuda:0 cannot be opened";

/// Row-major fp32 with B as it is: plain, and with one mistake each.
constexpr const char* kKernels = R"cuda(
struct Args {
  const float *a, *b, *c; float* d; const void *bias, *residual; void* workspace;
  long long m, n, k, batch, lda, ldb, ldc, ldd, sa, sb, sc, sd;
  double alpha, beta;
};
__device__ float value(const Args& g, long long i, long long j, long long k) {
  float sum = 0;
  for (long long p = 0; p < k; ++p) sum += g.a[i * g.lda + p] * g.b[p * g.ldb + j];
  sum *= float(g.alpha);
  return g.beta == 0 ? sum : sum + float(g.beta) * g.c[i * g.ldc + j];
}
#define KERNEL(name, k, ...)                                                      \
  extern "C" __global__ void name(const __grid_constant__ Args g) {              \
    const long long i = blockIdx.x, j = threadIdx.x;                              \
    if (j < g.n) { const float x = value(g, i, j, k); __VA_ARGS__; }              \
  }
KERNEL(right, g.k, g.d[i * g.ldd + j] = x)
KERNEL(short_k, g.k - 1, g.d[i * g.ldd + j] = x)
KERNEL(unwritten, g.k, if (i + 1 < g.m || j + 1 < g.n) g.d[i * g.ldd + j] = x)
KERNEL(reads_c, g.k, g.d[i * g.ldd + j] = x + 0 * g.c[i * g.ldc + j])
KERNEL(strays, g.k, g.d[i * g.ldd + j] = x; if (i == 0 && j == 0) g.d[-1] = x)
KERNEL(spoils_a, g.k, g.d[i * g.ldd + j] = x; if (i == 0 && j == 0) ((float*)g.a)[0] = x)
KERNEL(illegal, g.k, g.d[i * g.ldd + j + (1ll << 40)] = x)
)cuda";

std::shared_ptr<const GpuTools> tools_or_null() {
  const auto device = cuda::open_device(0);
  if (!device) {
    EXPECT_EQ(device.error().code, ErrorCode::device);
    EXPECT_THAT(device.error().message, HasSubstr("cuda:0"));
    return nullptr;
  }
  auto tools = GpuTools::make(*device);
  EXPECT_TRUE(tools) << tools.error().message;
  return tools ? *tools : nullptr;
}

gpu::SharedModule planted(const GpuTools& tools) {
  const auto compiler = nvrtc_compiler();
  const Source source{
      kKernels, "planted.cu", {"--gpu-architecture=" + tools.device()->caps().arch}};
  const auto binary = (*compiler)->compile(source);
  EXPECT_TRUE(binary) << binary.error().message;
  return gpu::GpuModule::load(tools.device(), binary->image).value();
}

Verdict check(const std::shared_ptr<const GpuTools>& tools, const gpu::SharedModule& module,
              const char* entry) {
  const Gemm gemm = Gemm::row_major(33, 65, 47);
  auto checker = GpuChecker::make(tools, gemm, 1).value();
  GpuLaunch launch;
  launch.steps.push_back({.entry = entry, .grid = {33}, .block = {128}});
  const auto kernel = gpu::GpuKernel::make(module, launch).value();
  return checker.check(
      [&](const KilnGpuArgs& args, gpu::Stream stream) { return kernel.run(args, stream); });
}

TEST(GpuChecker, PassesARightKernelAndNamesEachMistake) {
  const auto tools = tools_or_null();
  if (!tools) GTEST_SKIP() << kNoGpu;
  const auto module = planted(*tools);
  const Verdict right = check(tools, module, "right");
  EXPECT_TRUE(right) << right.error().detail;
  for (const auto& [entry, kind] : {std::pair{"short_k", Failure::Kind::wrong_result},
                                    {"unwritten", Failure::Kind::wrong_result},
                                    {"reads_c", Failure::Kind::wrong_result},
                                    {"strays", Failure::Kind::out_of_bounds},
                                    {"spoils_a", Failure::Kind::out_of_bounds}}) {
    const Verdict verdict = check(tools, module, entry);
    ASSERT_FALSE(verdict) << entry;
    EXPECT_EQ(verdict.error().kind, kind) << entry << ": " << verdict.error().detail;
  }
}

/// The device's reference beside the host's.
void expect_the_hosts_products(const GpuTools& tools, const Gemm& gemm) {
  const Problem problem = Problem::of(gemm).value();
  const auto sets = GpuOperandSets::make(tools, problem, 7).value();
  const KilnGpuArgs& args = sets[0];
  const auto count = static_cast<std::size_t>(gemm.m * gemm.n);
  const auto sums = gpu::DeviceBuffer::make(tools.device(), count * 8).value();
  const auto sizes = gpu::DeviceBuffer::make(tools.device(), count * 4).value();
  ASSERT_TRUE(tools.products(problem, args, reinterpret_cast<double*>(sums.data()),
                             reinterpret_cast<float*>(sizes.data())));
  ASSERT_TRUE(tools.wait());
  const gpu::Guest guest(*tools.device());
  const auto fetch = [&](const void* from, std::int64_t bytes) {
    std::vector<std::byte> to(static_cast<std::size_t>(bytes));
    if (bytes > 0)
      tools.device()->driver().cuMemcpyDtoH(to.data(), reinterpret_cast<gpu::DevicePointer>(from),
                                            to.size());
    return to;
  };
  const auto a = fetch(args.a, span_bytes(gemm, Operand::a));
  const auto b = fetch(args.b, span_bytes(gemm, Operand::b));
  const auto scale_a = fetch(args.scale_a, span_bytes(gemm, Operand::scale_a));
  const auto scale_b = fetch(args.scale_b, span_bytes(gemm, Operand::scale_b));
  const auto got = fetch(sums.data(), static_cast<std::int64_t>(count) * 8);
  std::vector<std::int64_t> lines;
  for (std::int64_t i = 0; i < gemm.m; ++i) lines.push_back(i);
  const Products want =
      products(gemm, a.data(), b.data(), {Lines::Along::rows, 0, std::move(lines)},
               {scale_a.data(), scale_b.data()});
  double spread = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0;
    std::memcpy(&value, got.data() + i * 8, 8);
    ASSERT_NEAR(value, want.sum[i], 1e-12 * want.magnitude[i] + 1e-300)
        << text(gemm) << " element " << i;
    spread = std::max(spread, std::fabs(value));
  }
  EXPECT_GT(spread, 0.1) << text(gemm) << ": the data are not zeros";
}

/// Through one problem of every type and layout.
TEST(GpuTools, ItsProductsAreTheHosts) {
  const auto tools = tools_or_null();
  if (!tools) GTEST_SKIP() << kNoGpu;
  constexpr std::string_view kWords[] = {"fp32", "fp64", "fp16", "bf16",     "int8",    "u8s8",
                                         "s8u8", "tf32", "fp8",  "e4m3e5m2", "e5m2e4m3"};
  for (const TypeRow& row : kTypeRows)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        if (std::ranges::find(kWords, row.word) == std::end(kWords)) continue;  // AMD's own
        Gemm gemm = Gemm::row_major(37, 70, 51);
        gemm.a.dtype = row.a;
        gemm.b.dtype = row.b;
        gemm.accumulator = row.accumulator;
        gemm.c.dtype = gemm.d.dtype = row.usual_output();
        gemm.a.transposed = ta;
        gemm.b.transposed = tb;
        expect_the_hosts_products(*tools, gemm);
      }
}

/// And of every kind of scales and packed codes.
TEST(GpuTools, ItsScaledProductsAreTheHosts) {
  const auto tools = tools_or_null();
  if (!tools) GTEST_SKIP() << kNoGpu;
  for (const char* line :
       {"fp8 N T 37 170 300 scale=line", "fp8 N T 37 170 300 scale=tensor numerics=fast",
        "fp8 N N 37 70 300 scale=none:line", "fp8 N T 137 170 300 scale=1x128:128x128",
        "fp8 N T 137 170 300 batch=2 scale=1x128 scale_order=blocks:blocks_4",
        "fp8 T N 136 72 300 scale=128x128", "e4m3e2m1 N T 37 70 96 scale=mx32",
        "fp6 T N 36 72 64 scale=mx32", "e3m2e5m2 N T 37 70 160 scale=mx32"})
    expect_the_hosts_products(*tools, parse_gemm(line).value());
}

/// A call whose operands are copied to the host, where D and the output are stored plainly.
Status stored_by_host(const GpuTools& tools, const Gemm& gemm, const KilnGpuArgs& given,
                      const test::PlainStore& stored) {
  const gpu::Guest guest(*tools.device());
  std::array<std::vector<std::byte>, kOperandCount> memory;
  const auto fetched = [&](Operand which, const void* from) -> void* {
    auto& to = memory.at(index_of(which));
    to.resize(static_cast<std::size_t>(span_bytes(gemm, which)));
    if (from != nullptr && !to.empty())
      tools.device()->driver().cuMemcpyDtoH(to.data(), reinterpret_cast<gpu::DevicePointer>(from),
                                            to.size());
    return to.data();
  };
  const bool swapped = Problem::of(gemm).value().swapped;
  Operands call{.a = fetched(Operand::a, swapped ? given.b : given.a),
                .b = fetched(Operand::b, swapped ? given.a : given.b),
                .c = fetched(Operand::c, given.c),
                .d = fetched(Operand::d, given.d),
                .alpha = given.alpha,
                .beta = given.beta};
  if (present(gemm, Operand::x0)) call.extra[0] = fetched(Operand::x0, given.extra[0]);
  if (present(gemm, Operand::y0)) call.outputs[0] = fetched(Operand::y0, given.outputs[0]);
  test::store_plainly(gemm, call, stored);
  Status ok;
  for (const auto& [which, to] :
       {std::pair<Operand, void*>{Operand::d, given.d}, {Operand::y0, given.outputs[0]}})
    if (ok && present(gemm, which))
      ok = gpu::upload(*tools.device(), reinterpret_cast<gpu::DevicePointer>(to),
                       memory.at(index_of(which)), tools.stream());
  return ok;
}

/// Expressions that read what they reduce, stored by the host.
TEST(GpuChecker, KnowsWhatExpressionsReduceAndRead) {
  const auto tools = tools_or_null();
  if (!tools) GTEST_SKIP() << kNoGpu;
  for (const test::LineExpression& e : test::line_expressions())
    for (const Order order : {Order::row_major, Order::column_major}) {
      const Gemm plain =
          order == Order::row_major ? Gemm::row_major(20, 24, 18) : Gemm::column_major(20, 24, 18);
      const Gemm gemm = plain.batched(2).with_expression(Expression::parse(e.text).value());
      const test::PlainStore right = test::right_store(e);
      const auto checked = [&](int spoilt) {
        return GpuChecker::make(tools, gemm, 1)->check([&](const KilnGpuArgs& args, gpu::Stream) {
          return stored_by_host(*tools, gemm, args,
                                [&](const test::PlainProduct& acc, const test::PlainOperand& g,
                                    int output, std::int64_t i, std::int64_t j) {
                                  return output == spoilt
                                             ? std::optional(1.01 * *right(acc, g, output, i, j))
                                             : right(acc, g, output, i, j);
                                });
        });
      };
      const Verdict verdict = checked(1);
      EXPECT_TRUE(verdict) << e.text << ": " << (verdict ? "" : verdict.error().detail);
      const Verdict wrong = checked(-1);
      ASSERT_FALSE(wrong) << e.text;
      EXPECT_THAT(wrong.error().detail,
                  AllOf(HasSubstr("column"), testing::Not(HasSubstr("within inf"))));
      if (e.line == nullptr) continue;
      const Verdict line = checked(0);
      ASSERT_FALSE(line) << e.text;
      EXPECT_THAT(line.error().detail, HasSubstr("y0"));
    }
}

TEST(GpuCalls, TimesAreThoseOfTheDevice) {
  const auto tools = tools_or_null();
  if (!tools) GTEST_SKIP() << kNoGpu;
  const auto module = planted(*tools);
  const Gemm gemm = Gemm::row_major(33, 65, 47);
  const auto sets = GpuOperandSets::make(*tools, Problem::of(gemm).value(), 1).value();
  GpuLaunch launch;
  launch.steps.push_back({.entry = "right", .grid = {33}, .block = {128}});
  const auto kernel = gpu::GpuKernel::make(module, launch).value();
  auto calls = GpuCalls::make(*tools, sets, [&](const KilnGpuArgs& args, gpu::Stream stream) {
    return kernel.run(args, stream);
  });
  ASSERT_TRUE(calls) << calls.error().message;
  ASSERT_TRUE(calls->take(5, 1e18));
  EXPECT_EQ(calls->samples().size(), 5u);
  EXPECT_GT(calls->timing().median_ns, 500);
  EXPECT_LT(calls->timing().median_ns, 1e6);
}

// Last: the context does not survive it.
TEST(GpuCheckerLast, AnIllegalAddressIsACrash) {
  const auto tools = tools_or_null();
  if (!tools) GTEST_SKIP() << kNoGpu;
  const Verdict verdict = check(tools, planted(*tools), "illegal");
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().kind, Failure::Kind::crashed) << verdict.error().detail;
  EXPECT_THAT(verdict.error().detail, HasSubstr("ILLEGAL_ADDRESS"));
}

}  // namespace kiln::gpu_check_test
