// The AMD side of the runtime, the tuner and the Engine against a fake HIP runtime, which checks
// every call and runs kernels on the emulator. Without a compiler in the build what is left to test
// is that a machine without an AMD GPU says so.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cache/offline.h"
#include "cache/recorded_calls.h"
#include "fakes/hip_control.h"
#include "generator/families/cuda/common/check.h"
#include "generator/space/family.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/device.h"
#include "support/hip.h"
#include "support/kiln_command.h"
#include "support/temp_dir.h"
#include "tuner/measure/gpu_candidate.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/verify/check.h"

namespace kiln::hip_runtime_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StrEq;

#ifdef KILN_FAKE_HIP

/// The fake's own functions, found in the object that kiln opens by its soname from now on. The
/// worker finds both fakes through the environment.
struct Fake {
  Fake() {
    setenv("KILN_CLANG", KILN_FAKE_CLANG, 1);
    setenv("KILN_REAL_CLANG", KILN_REAL_CLANG, 1);
    setenv("LD_LIBRARY_PATH", std::filesystem::path(KILN_FAKE_HIP).parent_path().c_str(), 1);
    void* object = dlopen(KILN_FAKE_HIP, RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) std::abort();
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(object, name));
    };
    load(calls, "fake_hip_calls");
    load(complaints, "fake_hip_complaints");
    load(live, "fake_hip_live");
    load(clear, "fake_hip_clear");
    load(fail_mallocs, "fake_hip_fail_mallocs");
    load(get_device, "hipGetDevice");
    load(set_device, "hipSetDevice");
  }
  decltype(&fake_hip_calls) calls;
  decltype(&fake_hip_complaints) complaints;
  decltype(&fake_hip_live) live;
  decltype(&fake_hip_clear) clear;
  decltype(&fake_hip_fail_mallocs) fail_mallocs;
  int (*get_device)(int*);
  int (*set_device)(int);
};
const Fake fake;

/// Every test ends with nothing left and nothing complained of.
class Hip : public testing::Test {
 protected:
  Hip() { fake.clear(); }
  void TearDown() override {
    EXPECT_THAT(fake.complaints(), StrEq(""));
    EXPECT_EQ(fake.live(), 0);
  }
  /// What a planted mistake made the fake say; said and forgotten.
  static std::string complained() {
    const std::string text = fake.complaints();
    fake.clear();
    return text;
  }
};

Source made_for(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  return render(gemm, device, config).value();
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
    EXPECT_EQ(hip::read_code_object(binary->image)->kernels.size(), 6u) << arch;
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
                           "int8 T T 37 40 51", "fp8fnuz N T 37 40 51", "fp8 N N 37 40 51"}) {
    const Gemm gemm = test::problem(line);
    const Canonical problem = canonicalise(gemm);
    const auto filled = [&](Operand which) {
      const auto bytes = span(problem.gemm, which) * size_of(matrix(problem.gemm, which).dtype);
      auto buffer = gpu::DeviceBuffer::make(bed.device, std::size_t(bytes)).value();
      EXPECT_TRUE(bed.tools->fill(problem.gemm, which, Data::uniform, 7, buffer.data()));
      return buffer;
    };
    const auto a = filled(Operand::a), b = filled(Operand::b);
    KilnGpuArgs args = gpu::gpu_args(problem, {});
    args.a = a.data();
    args.b = b.data();
    const auto count = static_cast<std::size_t>(gemm.m * gemm.n);
    const auto sums = gpu::DeviceBuffer::make(bed.device, count * 8).value();
    const auto sizes = gpu::DeviceBuffer::make(bed.device, count * 4).value();
    ASSERT_TRUE(bed.tools->products(problem, args, reinterpret_cast<double*>(sums.data()),
                                    reinterpret_cast<float*>(sizes.data())));
    ASSERT_TRUE(bed.tools->wait());
    std::vector<std::int64_t> lines;
    for (std::int64_t i = 0; i < gemm.m; ++i) lines.push_back(i);
    const Products want = products(gemm, args.a, args.b, {Lines::Along::rows, 0, std::move(lines)});
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

TEST_F(Hip, CallsAreTimedInGraphsBetweenEvents) {
  const Bed bed;
  const Gemm gemm = test::problem("bf16 N T 32 32 32");
  const Config config = best_of<HipMfma>(gemm, bed.device->caps());
  const auto binary =
      compiler_for(bed.device->caps()).value()->compile(made_for(gemm, bed.device->caps(), config));
  const auto candidate =
      GpuCandidate::load(*bed.tools, binary->image, gemm, bed.device->caps(), config).value();
  const auto sets = GpuOperandSets::make(*bed.tools, canonicalise(gemm), 1).value();
  auto calls = GpuCalls::make(*bed.tools, sets, candidate.run());
  ASSERT_TRUE(calls) << calls.error().message;
  ASSERT_TRUE(calls->take(3, 1e18));
  EXPECT_GT(calls->timing().median_ns, 0);
  EXPECT_THAT(fake.calls(), HasSubstr("hipGraphLaunch\nhipEventRecord\nhipEventSynchronize\n"));
}

TEST_F(Hip, AnEngineMultipliesOnIt) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto device = open_gpu("hip:0").value();
  for (const char* line : {"bf16 N T 70 45 33", "fp64 T N 21 30 17 epilogue=silu"}) {
    const Gemm gemm = test::problem(line);
    const auto plan = engine->plan(gemm);
    ASSERT_TRUE(plan) << plan.error().message;
    const Verdict verdict = verify(gemm, [&](const Operands& host) -> Status {
      // Operands live on the device; D goes there and comes back.
      std::vector<gpu::DeviceBuffer> buffers;
      const auto copied = [&](const void* from, std::int64_t bytes) -> std::byte* {
        if (from == nullptr || bytes == 0) return nullptr;
        buffers.push_back(gpu::DeviceBuffer::make(device, std::size_t(bytes)).value());
        std::memcpy(buffers.back().data(), from, std::size_t(bytes));
        return buffers.back().data();
      };
      const auto bytes = [&](Operand which) {
        return span(gemm, which) * size_of(matrix(gemm, which).dtype);
      };
      Operands there = host;
      there.a = copied(host.a, bytes(Operand::a));
      there.b = copied(host.b, bytes(Operand::b));
      there.c = host.beta == 0 ? nullptr : copied(host.c, bytes(Operand::c));
      there.d = copied(host.d, bytes(Operand::d));
      if (Status ran = engine->gemm(gemm, there); !ran) return ran;
      std::memcpy(host.d, there.d, std::size_t(bytes(Operand::d)));
      return {};
    });
    EXPECT_TRUE(verdict) << line << ": " << verdict.error().detail;
  }
}

// A GPU reads whole elements at their own alignment only, and such a fault costs the context.
TEST_F(Hip, AnEngineRefusesAddressesThatWouldFault) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto device = open_gpu("hip:0").value();
  const auto buffer = gpu::DeviceBuffer::make(device, 8192).value();
  std::byte* const at = buffer.data();
  const Gemm gemm = test::problem("bf16 N N 8 8 8 epilogue=bias_row");
  const Operands good{.a = at, .b = at + 1024, .d = at + 2048, .bias = at + 4096};
  const auto refusal = [&](Operands operands) {
    const Status ran = engine->gemm(gemm, operands);
    return ran ? std::string("ran") : ran.error().message;
  };
  EXPECT_EQ(refusal(good), "ran");
  Operands odd = good;
  odd.a = at + 1;
  EXPECT_THAT(refusal(odd), AllOf(HasSubstr("a = "), HasSubstr("2-byte aligned")));
  odd = good;
  odd.d = at + 2049;
  EXPECT_THAT(refusal(odd), AllOf(HasSubstr("d = "), HasSubstr("2-byte aligned")));
  odd = good;
  odd.bias = at + 4098;
  EXPECT_THAT(refusal(odd), AllOf(HasSubstr("bias = "), HasSubstr("4-byte aligned")));
}

TEST_F(Hip, CallsAreRecordedByProblemAndByAddressesThatAreLessAligned) {
  const TempDir dir;
  auto engine = Engine::open({.device = "hip:0",
                              .database = dir / "kiln.db",
                              .on_untuned = [](const std::string&) {},
                              .record = dir / "calls"});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto buffer = gpu::DeviceBuffer::make(open_gpu("hip:0").value(), 8192).value();
  std::byte* const at = buffer.data();
  const Gemm gemm = test::problem("bf16 N N 8 8 8"),
             promised = test::problem("bf16 N N 8 8 8 align=16");
  const Operands good{.a = at, .b = at + 1024, .d = at + 2048};
  const Operands odd{.a = at + 2, .b = at + 1024, .d = at + 2048};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine->gemm(gemm, good));
  EXPECT_TRUE(engine->gemm(promised, good));
  EXPECT_TRUE(engine->plan(gemm)->run(good));
  EXPECT_TRUE(engine->gemm(gemm, odd));
  engine = fail(ErrorCode::internal, "closed");
  const auto rows = read_calls(dir / "calls").value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(text(rows[0].gemm), text(gemm));
  EXPECT_EQ(rows[0].calls, 5);
  EXPECT_EQ(rows[0].timed_calls, 5) << "by prediction: nothing waits for a stream";
  EXPECT_GT(rows[0].ns_per_call(), 0);
  EXPECT_EQ(text(rows[1].gemm), text(test::problem("bf16 N N 8 8 8 align=2")));
  EXPECT_EQ(rows[1].calls, 1);
}

TEST_F(Hip, TuningGoesThroughTheWorkerAndBeginsWithWhatWasPredicted) {
  const TempDir dir;
  const Gemm gemm = test::problem("fp32 N N 16 16 16 align=16");
  const DeviceCaps device = open_gpu("hip:0").value()->caps();
  const auto store = Store::open({.database = dir / "kiln.db"}).value();
  const auto predicted = tune_offline(*store, gemm, hip_caps_named("mi300x").value(),
                                      *compiler_for(device).value(), {.candidates = 2});
  ASSERT_TRUE(predicted) << predicted.error().message;
  auto engine = Engine::open({.device = "hip:0", .database = dir / "kiln.db"});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto report = engine->tune(gemm, {.budget = std::chrono::seconds(1)});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->already_tuned) << "a prediction is no record of a tuned kernel";
  EXPECT_GT(report->timing.samples, 0);
  BestKey key = predicted_key(device, gemm);
  key.policy = backend_of(Vendor::amd).policy;
  const auto rows = store->known(key, {.template_hash = template_hash(Vendor::amd)});
  ASSERT_GE(rows.size(), 1u);
  EXPECT_EQ(rows[0].config, (*predicted)[0].config);
}

TEST_F(Hip, RacesHaveTheReportThatCpusHave) {
  const TempDir dir;
  const std::string shape = "fp32 N N 16 16 16 align=16", db = (dir / "kiln.db").string();
  const test::KilnCommand kiln;
  const auto on_it = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "--device", "hip:0", "--shape", shape, "--db", db});
    return kiln(more);
  };
  const auto raced = on_it({"--tune", "--budget", "0.2", "--samples", "5", "--json"});
  ASSERT_EQ(raced.exit_code, 0) << raced.out << raced.err;
  const auto rows = raced.json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["device"], "hip:0");
  EXPECT_EQ(rows[0]["policy"], backend_of(Vendor::amd).policy);
  EXPECT_EQ(rows[0]["threads"], open_gpu("hip:0").value()->caps().compute_units);
  EXPECT_EQ(rows[0]["match"], "exact");
  EXPECT_TRUE(rows[0]["verified"].get<bool>());
  EXPECT_GT(rows[0]["kiln_ns"].get<double>(), 0);
  EXPECT_THAT(raced.err,
              AllOf(HasSubstr("[1/1] " + shape), HasSubstr("cublaslt is left out of this race: ")));
  EXPECT_EQ(rows[1]["summary"]["verified"], 1);
  EXPECT_EQ(on_it({"--threads", "2"}).exit_code, 2);
  const auto overhead = on_it({"--overhead", "--json"});
  ASSERT_EQ(overhead.exit_code, 0) << overhead.err;
  EXPECT_GT(overhead.json().at(0)["overhead"]["direct_ns"].get<double>(), 0);
  const auto start = on_it({"--cold-start", "--json"});
  ASSERT_EQ(start.exit_code, 0) << start.err;
  EXPECT_TRUE(start.json().at(0)["cold_start"]["verified"].get<bool>());
}

TEST_F(Hip, TheCommandWorksOnIt) {
  const test::KilnCommand kiln;  // with this process's environment
  const auto described = kiln({"devices", "--device", "hip:0", "--json"});
  ASSERT_EQ(described.exit_code, 0) << described.err;
  EXPECT_EQ(described.json().at(0)["arch"], "gfx942");
  const auto verified = kiln(
      {"verify", "--device", "hip:0", "--shape", "bf16 N T 20 30 40", "--random", "1", "--json"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_EQ(verified.json().back()["summary"]["failed"], 0);
  // Whatever a database that ships holds, both searches begin from nothing.
  const auto quality = kiln({"bench", "--device", "hip:0", "--shape", "fp32 N N 16 16 16",
                             "--search-quality", "--budget", "0.2", "--json"});
  EXPECT_EQ(quality.exit_code, 0) << quality.out << quality.err;
  EXPECT_GT(quality.json().back()["search_quality"]["quality"].get<double>(), 0);
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
