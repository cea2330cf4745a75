// The AMD side of the runtime and of what the tuner does on a device, against the fake HIP runtime.
// Without a compiler in the build what is left to test is that a machine without an AMD GPU says
// so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "generator/families/cuda/common/check.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/problem/operands.h"
#include "generator/space/family.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/device.h"
#include "support/fake_hip.h"
#include "support/hip.h"
#include "tuner/measure/gpu_candidate.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/worker/check.h"

namespace kiln::hip_runtime_test {

using testing::AllOf;
using testing::HasSubstr;

#ifdef KILN_HAS_FAKE_HIP

using test::fake;

class Hip : public test::FakeHipTest {};

Source made_for(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  return render(Problem::of(gemm).value(), device, config).value();
}

/// A gemm of tests and the config that the model likes best of one family.
template <typename C>
Config best_of(const Gemm& gemm, const DeviceCaps& device) {
  return test::ranked<C>(gemm, device).at(0);
}

TEST_F(Hip, DevicesAreDescribedFromTheRuntimeAndTheTable) {
  EXPECT_EQ(hip::device_count().value(), 3);
  const DeviceCaps whole = hip::open_device(0).value()->caps();
  const DeviceCaps table = hip_caps_named("mi300x").value();
  EXPECT_EQ(whole.arch, "gfx942");
  EXPECT_EQ(whole.model, "AMD Instinct MI300X");
  EXPECT_EQ(whole.gpu, table.gpu);
  EXPECT_EQ(whole.compute_units, 304);
  EXPECT_EQ(whole.l2_bytes, table.l2_bytes);
  // One chiplet of eight, from a runtime that does not count them.
  const DeviceCaps part = hip::open_device(1).value()->caps();
  EXPECT_EQ(part.compute_units, 38);
  EXPECT_EQ(part.gpu.chiplets, 1);
  EXPECT_EQ(part.l2_bytes, table.l2_bytes / 8);
  EXPECT_EQ(part.gpu.memory_gbs, table.gpu.memory_gbs / 8);
  EXPECT_EQ(part.gpu.memory_bytes, std::int64_t{23} << 30);
  const auto unknown = hip::open_device(2);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, AllOf(HasSubstr("hip:2"), HasSubstr("gfx803")));
  EXPECT_THAT(hip::open_device(3).error().message, HasSubstr("HIP sees 3 devices"));
  EXPECT_THAT(gpus_here(), testing::IsSupersetOf({"hip:0", "hip:1", "hip:2"}));
  EXPECT_THAT(hip::open_device(0).value()->runtime_version(), HasSubstr("HIP runtime 6.3"));
}

TEST_F(Hip, CallsAreMadeOnTheirDeviceAndTheCallersIsCurrentAgain) {
  const auto device = open_gpu("hip:0").value();
  ASSERT_EQ(fake.set_device(1), 0);
  fake.clear();
  {
    const auto buffer = gpu::DeviceBuffer::make(device, 1000).value();
    const auto stream = gpu::OwnedStream::make(device).value();
    const auto event = gpu::OwnedEvent::make(device).value();
    EXPECT_EQ(fake.live(), 3);
  }
  int current = 0;
  fake.get_device(&current);
  EXPECT_EQ(current, 1);
  EXPECT_THAT(fake.calls(), HasSubstr("hipSetDevice\nhipMalloc\n"));
  fake.set_device(0);
}

TEST_F(Hip, FailuresComeWithTheRuntimesWords) {
  const auto device = open_gpu("hip:0").value();
  fake.fail_mallocs(1);
  EXPECT_THAT(gpu::DeviceBuffer::make(device, 64).error().message,
              AllOf(HasSubstr("64 bytes"), HasSubstr("hipErrorOutOfMemory: out of memory")));
  const std::vector<std::byte> junk(4096);
  EXPECT_FALSE(gpu::GpuModule::load(device, junk));

  const Gemm gemm = test::problem("fp32 N N 8 8 8");
  const DeviceCaps other = hip_caps_named("gfx950").value();
  const auto foreign =
      compiler_for(other).value()->compile(made_for(gemm, other, best_of<HipSimt>(gemm, other)));
  EXPECT_FALSE(gpu::GpuModule::load(device, foreign->image)) << "another target's code";

  const auto own = compiler_for(device->caps())
                       .value()
                       ->compile(made_for(gemm, device->caps(), best_of<HipSimt>(gemm, other)));
  const auto module = gpu::GpuModule::load(device, own->image).value();
  EXPECT_THAT(module->function("no_such").error().message, HasSubstr("no_such"));
  GpuLaunch launch;
  launch.steps.push_back({.grid = {2}, .block = {64}, .cluster = {2}});
  EXPECT_FALSE(gpu::GpuKernel::make(module, launch).value().run(KilnGpuArgs{}, nullptr))
      << "clusters are NVIDIA's";
}

TEST_F(Hip, WrongCallsAreSeen) {
  const auto device = open_gpu("hip:0").value();
  const gpu::Driver& d = device->driver();
  EXPECT_NE(d.cuMemFree(4096), 0);
  EXPECT_THAT(complained(), HasSubstr("hipFree: of what was never allocated"));
  const auto buffer = gpu::DeviceBuffer::make(device, 64).value();
  EXPECT_NE(d.cuMemsetD8Async(buffer.pointer() + 1, 0, 64, nullptr), 0);
  EXPECT_THAT(complained(), HasSubstr("hipMemsetD8Async"));
  const auto event = gpu::OwnedEvent::make(device).value();
  float ms = 0;
  d.cuEventRecord(event.get(), nullptr);
  EXPECT_NE(d.cuEventElapsedTime(&ms, event.get(), event.get()), 0);
  EXPECT_THAT(complained(), HasSubstr("nobody waited for"));
}

TEST_F(Hip, ItsCheckingKernelsCompileForEveryTarget) {
  for (const std::string& arch : hip_targets()) {
    const DeviceCaps device = hip_caps_named(arch).value();
    const auto binary = compiler_for(device).value()->compile(gpu_check_source(device));
    ASSERT_TRUE(binary) << arch << ": " << binary.error().message;
    EXPECT_EQ(hip::read_code_object(binary->image)->kernels.size(), 18u) << arch;
  }
}

struct Bed {
  gpu::SharedDevice device = open_gpu("hip:0").value();
  std::shared_ptr<const GpuTools> tools = GpuTools::make(device).value();
};

/// The device's reference beside the host's, number formats and layouts.
TEST_F(Hip, ItsProductsAreTheHosts) {
  const Bed bed;
  for (const char* line : {"bf16 N N 37 40 51", "fp16 T N 37 40 51", "fp64 N T 37 40 51",
                           "int8 T T 37 40 51", "fp8fnuz N T 37 40 51", "fp8 N N 37 40 51",
                           "bf16_int4 N T 37 40 96 group=32 scale_type=bf16 zero=int",
                           "fp16_uint4 N N 37 40 128 group=64 scale_type=fp16 zero=float",
                           "bf16_int8 N T 37 40 51 group=k zero=int"}) {
    const Gemm gemm = test::problem(line);
    const Problem problem = Problem::of(gemm).value();
    std::vector<gpu::DeviceBuffer> buffers;
    KilnGpuArgs args = gpu::gpu_args(problem, {});
    for (const Operand which :
         {Operand::a, Operand::b, Operand::scale_a, Operand::scale_b, Operand::zero_b}) {
      if (!present(gemm, which)) continue;
      const auto bytes = static_cast<std::size_t>(span_bytes(problem.gemm, which));
      buffers.push_back(gpu::DeviceBuffer::make(bed.device, bytes).value());
      EXPECT_TRUE(bed.tools->fill(problem.gemm, which, Data::uniform, 7, buffers.back().data()));
      for_each_operand([&](auto each) {
        if (each == which) pointer<each>(args) = buffers.back().data();
      });
    }
    const auto count = static_cast<std::size_t>(gemm.m * gemm.n);
    const auto sums = gpu::DeviceBuffer::make(bed.device, count * 8).value();
    const auto sizes = gpu::DeviceBuffer::make(bed.device, count * 4).value();
    ASSERT_TRUE(bed.tools->products(problem, args, reinterpret_cast<double*>(sums.data()),
                                    reinterpret_cast<float*>(sizes.data())));
    ASSERT_TRUE(bed.tools->wait());
    std::vector<std::int64_t> lines;
    for (std::int64_t i = 0; i < gemm.m; ++i) lines.push_back(i);
    const Products want =
        products(gemm, args.a, args.b, {Lines::Along::rows, 0, std::move(lines)}, scales_in(args));
    double spread = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double value = 0;
      std::memcpy(&value, sums.data() + i * 8, 8);
      ASSERT_NEAR(value, want.sum[i], 1e-12 * want.magnitude[i] + 1e-300) << line << ' ' << i;
      spread = std::max(spread, std::fabs(value));
    }
    EXPECT_GT(spread, 0.1) << line << ": the data are not zeros";
  }
}

/// One check of a kernel whose source was changed.
Verdict checked(const Bed& bed, const Gemm& gemm, const Config& config, const char* from,
                const char* to) {
  Source source = made_for(gemm, bed.device->caps(), config);
  const auto at = source.text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  source.text.replace(at, std::strlen(from), to);
  const auto binary = compiler_for(bed.device->caps()).value()->compile(source);
  EXPECT_TRUE(binary) << binary.error().message;
  const auto candidate =
      GpuCandidate::load(*bed.tools, binary->image, gemm, bed.device->caps(), config).value();
  return GpuChecker::make(bed.tools, gemm, 1)->check(candidate.run());
}

TEST_F(Hip, TheCheckerPassesARightKernelAndNamesMistakes) {
  const Bed bed;
  const Gemm gemm = test::problem("fp32 N T 20 24 18 epilogue=bias_row+gelu_erf");
  const Config config = best_of<HipSimt>(gemm, bed.device->caps());
  const Verdict right =
      checked(bed, gemm, config, "out.alpha * Real(sum)", "out.alpha * Real(sum)");
  EXPECT_TRUE(right) << right.error().detail;
  const Verdict wrong =
      checked(bed, gemm, config, "out.alpha * Real(sum)", "Real(1.001) * out.alpha * Real(sum)");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, Failure::Kind::wrong_result);
  const Verdict strayed = checked(bed, gemm, config, "if (r < out.rows && c < out.columns)",
                                  "if (r <= out.rows && c < out.columns)");
  ASSERT_FALSE(strayed);
  EXPECT_EQ(strayed.error().kind, Failure::Kind::out_of_bounds) << strayed.error().detail;
}

// Batches of D one behind the other, beside each other within a line, and a last line that reaches
// less far than its pitch: what lies between is the caller's.
TEST_F(Hip, TheCheckerKnowsEveryLayoutOfD) {
  const Bed bed;
  for (const char* line : {"fp32 N N 1 12 4 batch=6 ldd=40 stride_d=12 ldc=40 stride_c=12",
                           "fp32 N N 2 3 4 batch=2 ldd=4 stride_d=7 ldc=4 stride_c=7",
                           "fp32 N N 3 5 4 batch=3 ldd=20 stride_d=6 ldc=20 stride_c=6",
                           "fp32 N N 3 5 4 batch=2 ldd=7 stride_d=30 ldc=7 stride_c=30"}) {
    const Gemm gemm = test::problem(line);
    const Config config = best_of<HipSimt>(gemm, bed.device->caps());
    const Verdict right =
        checked(bed, gemm, config, "out.alpha * Real(sum)", "out.alpha * Real(sum)");
    EXPECT_TRUE(right) << line << ": " << right.error().detail;
  }
}

// Groups that part within a block of scales, and integers whose sums are exact before their scales
// are applied; here too by the kernel of last resort.
TEST_F(Hip, TheCheckerKnowsScalesOfGroupsAndTheirOrder) {
  const Bed bed;
  for (const char* line : {"fp8 N T 20 24 300 groups=3 grouped=k scale=1x128 out=fp32",
                           "fp8 N T 20 150 300 groups=4 grouped=k scale=1x128:128x128",
                           "fp8 N T 21 24 300 groups=3 grouped=k scale=1x128 scale_order=blocks_4",
                           "fp8 N T 21 24 300 groups=2 grouped=rows scale=1x128 scale_order=blocks",
                           "fp8 N T 21 26 300 groups=2 grouped=masked scale=1x128 out=fp32 "
                           "scale_order=blocks_4",
                           "fp8 N T 21 26 300 batch=2 scale=1x128 scale_order=lines:blocks_4",
                           "int8 N T 20 24 96 groups=2 grouped=k out=bf16 scale=tensor:line",
                           "int8 N T 20 24 96 out=bf16 scale=line zero_a=line"}) {
    const Gemm gemm = test::problem(line);
    const Problem problem = Problem::of(gemm).value();
    const auto checked_with = [&](std::size_t changed) {
      return GpuChecker::make(bed.tools, gemm, 1)
          ->check([&](const KilnGpuArgs& given, gpu::Stream) -> Status {
            HostArgs args = make_args(problem, {});
            bind_operands(args, given, false);
            std::vector<float> scales(
                static_cast<std::size_t>(span(problem.gemm, Operand::scale_b)));
            std::memcpy(scales.data(), given.scale_b, scales.size() * sizeof(float));
            if (changed < scales.size()) scales[changed] *= 1.5F;
            args.scale_b = scales.data();
            run_reference(problem, args, nullptr, 0, 1);
            return {};
          });
    };
    const Verdict right = checked_with(1 << 20);
    EXPECT_TRUE(right) << line << ": " << right.error().detail;
    EXPECT_FALSE(checked_with(1)) << line;
  }
}

// Of every function, of outputs and of what is reduced and read.
TEST_F(Hip, TheCheckerKnowsExpressions) {
  const Bed bed;
  struct Case {
    const char *epilogue, *from, *to;  // what is changed into a mistake
  };
  for (const auto& [epilogue, from, to] :
       {Case{"d=tanh(acc)*s[m]+log(1+abs(acc))*b[n]+r[n,m]", "out.x1[column]", "out.x1[row]"},
        Case{"d=erf(acc)-gelu_erf(acc)+sqrt(abs(acc))*silu(acc)", "x.x0;", "x.x0;"},
        Case{"d=acc;q[m]=sum(acc*acc);z[n,m]:fp16=acc", "x.y0 = acc * acc", "x.y0 = acc"},
        Case{"l[n]=logsumexp(acc)", "? largest + ", "? "},
        Case{"y=gelu(acc);s[m]=max(abs(y))/448;d=y/(s[m]+0.001)", "Real(448.0)", "Real(440.0)"},
        Case{"d=exp(acc-logsumexp[m](acc))", "to_real(out.x0[row])", "to_real(out.x0[row / 2])"}}) {
    const Gemm gemm = test::problem(fmt::format("fp32 N N 23 35 24 batch=1 epilogue={}", epilogue));
    const Config config = best_of<HipSimt>(gemm, bed.device->caps());
    const Verdict right = checked(bed, gemm, config, "struct Output", "struct Output");
    EXPECT_TRUE(right) << epilogue << ": " << right.error().detail;
    if (std::string_view(from) == to) continue;
    EXPECT_FALSE(checked(bed, gemm, config, from, to)) << epilogue;
  }
}

// No family of AMD's finds the largest magnitude of D: here the kernel of last resort does, in
// memory that the fake device shares with the host.
TEST_F(Hip, TheCheckerBoundsTheLargestMagnitudeOfD) {
  const Bed bed;
  for (const char* line : {"fp32 N T 20 24 18 batch=2 epilogue=bias_row amax=1",
                           "bf16 N T 20 24 18 groups=3 grouped=masked gate=silu amax=1",
                           "bf16 N T 20 24 18 out=s8 scale_d=tensor amax=1"}) {
    const Gemm gemm = test::problem(line);
    const Problem problem = Problem::of(gemm).value();
    const auto checked_with = [&](float factor, float beside) {
      return GpuChecker::make(bed.tools, gemm, 1)
          ->check([&](const KilnGpuArgs& given, gpu::Stream) -> Status {
            HostArgs args = make_args(problem, {});
            bind_operands(args, given, false);
            clear_amax(args);
            run_reference(problem, args, nullptr, 0, 1);
            auto* const amax = static_cast<float*>(args.amax_d);
            *amax *= factor;
            if (beside != 0) amax[1] = beside;
            return {};
          });
    };
    const Verdict right = checked_with(1, 0);
    EXPECT_TRUE(right) << line << ": " << right.error().detail;
    for (const float factor : {0.0F, 0.999F, 1.001F, -1.0F, std::nanf("")}) {
      const Verdict wrong = checked_with(factor, 0);
      ASSERT_FALSE(wrong) << line << " times " << factor;
      EXPECT_THAT(wrong.error().detail, HasSubstr("amax_d = ")) << line;
    }
    const Verdict strayed = checked_with(1, 3);
    ASSERT_FALSE(strayed);
    EXPECT_EQ(strayed.error().kind, Failure::Kind::out_of_bounds) << strayed.error().detail;
    EXPECT_THAT(strayed.error().detail, HasSubstr("amax_d"));
  }
}

TEST_F(Hip, CallsAreTimedInGraphsBetweenEvents) {
  const Bed bed;
  const Gemm gemm = test::problem("bf16 N T 32 32 32");
  const Config config = best_of<HipMfma>(gemm, bed.device->caps());
  const auto binary =
      compiler_for(bed.device->caps()).value()->compile(made_for(gemm, bed.device->caps(), config));
  const auto candidate =
      GpuCandidate::load(*bed.tools, binary->image, gemm, bed.device->caps(), config).value();
  const auto sets = GpuOperandSets::make(*bed.tools, Problem::of(gemm).value(), 1).value();
  auto calls = GpuCalls::make(*bed.tools, sets, candidate.run());
  ASSERT_TRUE(calls) << calls.error().message;
  ASSERT_TRUE(calls->take(3, 1e18));
  EXPECT_GT(calls->timing().median_ns, 0);
  EXPECT_THAT(fake.calls(), HasSubstr("hipGraphLaunch\nhipEventRecord\nhipEventSynchronize\n"));
}

#else

TEST(Hip, WithoutADeviceThereIsASentence) {
  const auto device = hip::open_device(4096);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::device);
  EXPECT_THAT(device.error().message, HasSubstr("hip:4096"));
}

#endif

}  // namespace kiln::hip_runtime_test
