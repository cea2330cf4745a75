// The Engine and the command on an AMD GPU, against the fake HIP runtime.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cache/exchange/offline.h"
#include "cache/exchange/recorded_calls.h"
#include "cache/records/measurements.h"
#include "engine/engine_impl.h"
#include "generator/space/family.h"
#include "kiln/engine.hpp"
#include "kiln/numeric.hpp"
#include "runtime/backend.h"
#include "runtime/gpu/device.h"
#include "support/fake_hip.h"
#include "support/few.h"
#include "support/hip.h"
#include "support/kiln_command.h"
#include "support/temp_dir.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::hip_engine_test {

using testing::AllOf;
using testing::HasSubstr;

class HipEngine : public test::FakeHipTest {};

TEST_F(HipEngine, AnEngineMultipliesOnIt) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto device = open_gpu("hip:0").value();
  for (const char* line : {"bf16 N T 70 45 33", "fp64 T N 21 30 17 epilogue=silu"}) {
    const Gemm gemm = test::problem(line);
    const auto plan = engine->plan(gemm);
    ASSERT_TRUE(plan) << plan.error().message;
    const Verdict verdict = test::verify_there(
        device, gemm, [&](const Operands& there) { return engine->gemm(gemm, there); });
    EXPECT_TRUE(verdict) << line << ": " << verdict.error().detail;
  }
}

TEST_F(HipEngine, ScalarsOfTheHostAreReadByTheCall) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto device = open_gpu("hip:0").value();
  const auto memory = gpu::DeviceBuffer::make(device, 4096).value();
  auto* const numbers = reinterpret_cast<float*>(memory.data());
  numbers[0] = 1, numbers[1] = 2, numbers[256] = 1, numbers[257] = 10;
  float* const d = numbers + 512;
  for (const char* epilogue : {"d=acc*s[]:host+t[]:fp64:host+u[]:bf16:host",
                               "d=acc*s[]:host-0*max[m](acc+u[]:bf16:host)+t[]:fp64:host-1"}) {
    const Gemm gemm = test::problem(fmt::format("fp32 N N 2 2 1 epilogue={}", epilogue));
    std::array<const void*, kExtraOperands> extra{};
    float s = 0.5F;
    double t = -1;
    std::uint16_t u = float_to_bf16(-1);
    const auto operands = gemm.epilogue.expression.operands();
    for (std::size_t i = 0; i < operands.size(); ++i)
      extra.at(i) = operands[i].dtype == fp64   ? static_cast<const void*>(&t)
                    : operands[i].dtype == bf16 ? static_cast<const void*>(&u)
                                                : &s;
    const Operands call{.a = numbers, .b = numbers + 256, .d = d, .extra = extra};
    const auto plan = engine->plan(gemm);
    ASSERT_TRUE(plan) << plan.error().message;
    const gpu::Guest guest(*device);
    for (const float factor : {0.5F, 2.0F}) {
      s = factor;
      const Status ran = plan->run(call);
      ASSERT_TRUE(ran) << epilogue << ": " << ran.error().message;
      s = 0;  // what the call was given counts
      ASSERT_EQ(device->driver().cuCtxSynchronize(), gpu::kSuccess);
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(d[i], numbers[i / 2] * numbers[256 + i % 2] * factor - 2) << epilogue;
    }
    Operands lacking = call;
    lacking.extra[0] = nullptr;
    EXPECT_THAT(plan->run(lacking).error().message, HasSubstr("x0 = null"));
  }
}

// A call that launches nothing clears the word in its stream, whatever the device's families find.
TEST_F(HipEngine, TheLargestMagnitudeOfAnEmptyDIsZero) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto device = open_gpu("hip:0").value();
  const auto buffer = gpu::DeviceBuffer::make(device, 64).value();
  std::memset(buffer.data(), 0x55, 64);
  Operands operands;
  const Gemm gemm = test::problem("fp32 N N 0 8 8 amax=1");
  EXPECT_THAT(engine->gemm(gemm, operands).error().message, HasSubstr("amax_d = null"));
  operands.amax_d = buffer.data() + 4;
  ASSERT_TRUE(engine->gemm(gemm, operands));
  const std::uint32_t* const words = reinterpret_cast<const std::uint32_t*>(buffer.data());
  EXPECT_EQ(words[0], 0x55555555u);
  EXPECT_EQ(words[1], 0u);
  EXPECT_EQ(words[2], 0x55555555u);
}

// Nor does it launch anything for rows without elements, whose scales are 1.
TEST_F(HipEngine, TheScalesOfRowsWithoutElementsAreOne) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto device = open_gpu("hip:0").value();
  const auto buffer = gpu::DeviceBuffer::make(device, 64).value();
  std::memset(buffer.data(), 0x55, 64);
  Operands operands;
  const Gemm gemm = test::problem("fp32 N N 3 0 8 batch=2 out=s8 scale_d=line");
  EXPECT_THAT(engine->gemm(gemm, operands).error().message, HasSubstr("scale_d = null"));
  operands.scale_d = buffer.data() + 4;
  ASSERT_TRUE(engine->gemm(gemm, operands));
  const std::uint32_t* const words = reinterpret_cast<const std::uint32_t*>(buffer.data());
  EXPECT_EQ(words[0], 0x55555555u);
  for (int i = 1; i <= 6; ++i) EXPECT_EQ(words[i], 0x3f800000u) << i;
  EXPECT_EQ(words[7], 0x55555555u);
}

// A GPU reads whole elements at their own alignment only, and such a fault costs the context.
TEST_F(HipEngine, AnEngineRefusesAddressesThatWouldFault) {
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

TEST_F(HipEngine, CallsAreRecordedByProblemAndByAddressesThatAreLessAligned) {
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

TEST_F(HipEngine, TuningGoesThroughTheWorkerAndBeginsWithWhatWasPredicted) {
  const TempDir dir;
  const Gemm gemm = test::problem("fp32 N N 16 16 16 align=16");
  const DeviceCaps device = open_gpu("hip:0").value()->caps();
  const auto store = Store::open({.database = dir / "kiln.db"}).value();
  const auto predicted = tune_offline(*store, gemm, hip_caps_named("mi300x").value(),
                                      *compiler_for(device).value(), {.candidates = 2});
  ASSERT_TRUE(predicted) << predicted.error().message;
  auto engine = Engine::open({.device = "hip:0", .database = dir / "kiln.db"});
  ASSERT_TRUE(engine) << engine.error().message;
  test::spend_budget(*engine);
  const auto report = engine->tune(gemm, test::few_emulated(6));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->already_tuned) << "a prediction is not a record of a tuned kernel";
  EXPECT_GT(report->timing.samples, 0);
  BestKey key = predicted_key(device, gemm);
  key.policy = backend_of(Vendor::amd).policy;
  const auto rows = store->measurements().known(key, {.template_hash = template_hash(Vendor::amd)});
  ASSERT_GE(rows.size(), 1u);
  EXPECT_EQ(rows[0].config, (*predicted)[0].config);
}

/// A search finds kernels of lists, whose entries captured launches keep; then products of many
/// sizes, brought by two steps.
TEST_F(HipEngine, ListsAreTunedAndMultiplied) {
  const TempDir dir;
  constexpr std::int64_t kCount = 33;
  const Gemm gemm = test::problem("fp32 N N 4 5 6 groups=33 grouped=list");
  auto engine = Engine::open(
      {.device = "hip:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  test::spend_budget(*engine);
  const auto report =
      engine->tune(test::problem("fp32 N N 4 5 6 groups=2 grouped=list"), test::few_emulated(6));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->timing.samples, 0);
  const auto device = open_gpu("hip:0").value();
  const auto floats = [&](std::int64_t count) {
    return gpu::DeviceBuffer::make(device, std::size_t(std::max<std::int64_t>(1, count) * 4))
        .value();
  };
  std::vector<gpu::DeviceBuffer> buffers;
  std::vector<ListEntry> list;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const std::int64_t m = i % 5, n = (i * 7 + 1) % 6, k = i * 5 % 7;
    const auto at = [&](std::int64_t count, float value) {
      auto* const to = reinterpret_cast<float*>(buffers.emplace_back(floats(count)).data());
      std::fill_n(to, count, value);
      return to;
    };
    list.push_back(
        {.m = m, .n = n, .k = k, .a = at(m * k, float(i)), .b = at(k * n, 2), .d = at(m * n, -1)});
  }
  const Status ran = engine->gemm(gemm, {.list = list.data()});
  ASSERT_TRUE(ran) << ran.error().message;
  for (const ListEntry& entry : list)
    for (std::int64_t i = 0; i < entry.m * entry.n; ++i)
      ASSERT_EQ(static_cast<const float*>(entry.d)[i],
                float(&entry - list.data()) * 2 * float(entry.k))
          << "product " << &entry - list.data() << ", element " << i;
  list[3].k = 7;
  EXPECT_THAT(engine->gemm(gemm, {.list = list.data()}).error().message,
              HasSubstr("list[3].k = 7"));
}

/// Another card of the same target with as many units runs what was tuned on this one.
TEST_F(HipEngine, KernelsServeRelativesOfTheirDevice) {
  const TempDir dir;
  // Whole chunks of k, so that hip_mfma, too, has one code for both: which family wins depends on
  // how busy the machine is.
  const Gemm tuned = test::problem("fp32 N N 16 16 16 align=16"),
             other = test::problem("fp32 N N 12 16 32 align=16");
  {
    auto engine = Engine::open({.device = "hip:0", .database = dir / "kiln.db"});
    ASSERT_TRUE(engine) << engine.error().message;
    test::spend_budget(*engine);
    const auto report = engine->tune(tuned, test::few_emulated(6));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_THAT(report->warnings, testing::IsEmpty());
  }
  const auto on = [&](auto change) {
    auto engine = Engine::open({.device = "hip:0",
                                .database = ":memory:",
                                .shipped = {dir / "kiln.db"},
                                .on_untuned = [](const std::string&) {}});
    change(engine->impl().device);
    return std::move(*engine);
  };
  Engine relative = on([](DeviceCaps& device) {
    device.model = "a card with more memory";
    device.gpu.memory_bytes *= 2;
    device.gpu.memory_gbs += 1000;
  });
  const auto device = open_gpu("hip:0").value();
  for (const Gemm& gemm : {tuned, other}) {
    EXPECT_EQ(relative.plan(gemm)->match(), Match::nearest);
    EXPECT_THAT(*relative.explain(gemm), HasSubstr("whose code and launch are this device's"));
    const Verdict verdict = test::verify_there(
        device, gemm, [&](const Operands& there) { return relative.gemm(gemm, there); });
    EXPECT_TRUE(verdict) << text(gemm) << ": " << verdict.error().detail;
  }
  Engine stranger = on([](DeviceCaps& device) { device.compute_units /= 2; });
  const auto plan = stranger.plan(tuned, stranger.impl().device.compute_units);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_NE(plan->match(), Match::exact);
  EXPECT_THAT(*stranger.explain(tuned), testing::Not(HasSubstr("are this device's")));
}

TEST_F(HipEngine, RacesHaveTheReportThatCpusHave) {
  const TempDir dir;
  const std::string shape = "fp32 N N 16 16 16 align=16", db = (dir / "kiln.db").string();
  const test::KilnCommand kiln;
  const auto on_it = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "--device", "hip:0", "--shape", shape, "--db", db});
    return kiln(more);
  };
  const auto raced = on_it({"--tune",  // clock: spent or not, there is a winner
                            "--budget", "0.2", "--samples", "5", "--json"});
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

// Its operands are made on the device and on the host, by the worker, the race and single calls.
TEST_F(HipEngine, RacesHaveScalarsOfTheHost) {
  const TempDir dir;
  const test::KilnCommand kiln;
  const auto on_it = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "--device", "hip:0", "--shape",
                               "fp32 N N 16 16 16 align=16 epilogue=d=acc*s[]:host+t[]:bf16:host",
                               "--db", (dir / "kiln.db").string()});
    return kiln(more);
  };
  const auto raced = on_it({"--tune",  // clock: spent or not, there is a winner
                            "--budget", "0.2", "--samples", "5", "--json"});
  ASSERT_EQ(raced.exit_code, 0) << raced.out << raced.err;
  EXPECT_TRUE(raced.json().at(0)["verified"].get<bool>());
  const auto start = on_it({"--cold-start", "--json"});
  ASSERT_EQ(start.exit_code, 0) << start.err;
  EXPECT_TRUE(start.json().at(0)["cold_start"]["verified"].get<bool>());
}

TEST_F(HipEngine, TheCommandWorksOnIt) {
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
                             // clock: spent or not, there is a winner
                             "--search-quality", "--budget", "0.2", "--samples", "5", "--json"});
  EXPECT_EQ(quality.exit_code, 0) << quality.out << quality.err;
  EXPECT_GT(quality.json().back()["search_quality"]["quality"].get<double>(), 0);
}

}  // namespace kiln::hip_engine_test

#endif
