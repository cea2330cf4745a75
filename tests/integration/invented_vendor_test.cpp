// A vendor that kiln does not know: with the rows of fakes/acme.cpp alone, its device is opened,
// tuned in a worker, remembered and multiplied on.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/engine_impl.h"
#include "generator/problem/extent.h"
#include "generator/space/platform.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "support/few.h"
#include "support/hip.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "tuner/verify/verify.h"

namespace kiln::invented_vendor_test {

using testing::AllOf;
using testing::HasSubstr;

#ifdef KILN_HAS_FAKE_HIP

/// The runtime that stands in for acme's, found by its soname from now on; in the worker, which
/// knows acme too, through the environment.
struct Fake {
  Fake() {
    setenv("KILN_CLANG", test::fake_clang_path().c_str(), 1);
    setenv("KILN_REAL_CLANG", test::real_clang_path().c_str(), 1);
    setenv("KILN_KEPT_CODE", test::kept_code_path().c_str(), 1);
    setenv("KILN_WORKER", test::acme_worker_path().c_str(), 1);
    setenv("LD_LIBRARY_PATH", std::filesystem::path(test::fake_hip_path()).parent_path().c_str(),
           1);
    if (dlopen(test::fake_hip_path().c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) std::abort();
  }
};
const Fake fake;

/// The problem verified through an Engine: operands live on the device; D goes there and back.
Verdict verified(Engine& engine, const Gemm& gemm) {
  const auto device = open_gpu("acme:0").value();
  return verify(gemm, [&](const Operands& host) -> Status {
    std::vector<gpu::DeviceBuffer> buffers;
    const auto copied = [&](const void* from, Operand which) -> std::byte* {
      const auto bytes = static_cast<std::size_t>(span_bytes(gemm, which));
      buffers.push_back(gpu::DeviceBuffer::make(device, bytes).value());
      if (from != nullptr) std::memcpy(buffers.back().data(), from, bytes);
      return buffers.back().data();
    };
    Operands there = host;
    there.a = copied(host.a, Operand::a);
    there.b = copied(host.b, Operand::b);
    there.c = host.beta == 0 ? nullptr : copied(host.c, Operand::c);
    there.d = copied(host.d, Operand::d);
    if (Status ran = engine.gemm(gemm, there); !ran) return ran;
    std::memcpy(host.d, there.d, static_cast<std::size_t>(span_bytes(gemm, Operand::d)));
    return {};
  });
}

TEST(InventedDevice, IsTunedStoredAndRun) {
  const TempDir dir;
  const OpenOptions options{.device = "acme:0", .database = dir / "kiln.db"};
  const Gemm gemm = test::problem("fp32 N N 16 16 16 align=16");
  std::string winner;
  {
    auto engine = Engine::open(options);
    ASSERT_TRUE(engine) << engine.error().message;
    test::spend_budget(*engine);
    const auto report = engine->tune(gemm, test::few_emulated(6));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->stored);
    EXPECT_GT(report->timing.samples, 0);
    winner = report->config;
    EXPECT_THAT(winner, HasSubstr("hip_simt "));
  }
  auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto plan = engine->plan(gemm);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::exact);
  EXPECT_EQ(plan->config(), winner);
  const Verdict verdict = verified(*engine, gemm);
  EXPECT_TRUE(verdict) << verdict.error().detail;
  EXPECT_THAT(engine->explain(gemm).value(), HasSubstr("Acme One"));
  // Its code was proved for every size: others need neither a compiler nor a worker.
  setenv("KILN_WORKER", "/nonexistent", 1);
  for (const char* shape :
       {"fp32 N N 40 24 56 align=16", "fp32 N N 16 16 32 align=16", "fp32 N N 1 4 4 align=16"}) {
    const Gemm other = test::problem(shape);
    const auto untuned = engine->plan(other);
    ASSERT_TRUE(untuned) << shape << ": " << untuned.error().message;
    EXPECT_EQ(untuned->match(), Match::nearest) << shape;
    EXPECT_EQ(untuned->config(), winner) << shape;
    EXPECT_THAT(engine->explain(other).value(), HasSubstr("that have sizes as arguments"));
    const Verdict right = verified(*engine, other);
    EXPECT_TRUE(right) << shape << ": " << right.error().detail;
  }
  setenv("KILN_WORKER", test::acme_worker_path().c_str(), 1);
}

TEST(InventedDevice, ARangeIsTunedWithOneWorkerAndServed) {
  const TempDir dir;
  const OpenOptions options{
      .device = "acme:0", .database = dir / "kiln.db", .policy = Policy::error};
  const GemmRange range = test::problem("fp32 N N 16 16 16 align=16").with_m(8, 16);
  std::size_t searched = 0;
  {
    auto engine = Engine::open(options);
    ASSERT_TRUE(engine) << engine.error().message;
    const auto report = engine->tune(range, test::few_emulated(6));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->stored);
    for (const std::string& warning : report->warnings) ADD_FAILURE() << warning;
    searched = static_cast<std::size_t>(report->searched);
    EXPECT_EQ(report->parts.back().last, 16);
  }
  EXPECT_EQ(searched, 2u);  // 8, 16
  auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto plans = engine->plan(range);
  ASSERT_TRUE(plans) << plans.error().message;
  for (const std::int64_t m : {8, 11, 16}) {
    EXPECT_TRUE(is_tuned(plans->match(m).value())) << m;
    const Verdict verdict = verified(*engine, range.at(m));
    EXPECT_TRUE(verdict) << m << ": " << verdict.error().detail;
  }
  EXPECT_EQ(plans->match(11).value(), Match::range);
}

TEST(InventedDevice, ARangeWhoseSizeIsAPitchServesEverySize) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "acme:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  // A is stored as [k, m]: rows of 16 floats are 16-byte aligned, of 15 not.
  const GemmRange range = test::problem("fp32 T N 16 16 16").with_m(15, 16);
  const auto report = engine->tune(range, test::few_emulated(6));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(text(report->range), "fp32 T N 15..16 16 16 align=16");
  EXPECT_TRUE(report->stored);
  const auto again = engine->tune(range, test::few_emulated(6));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->already_tuned);
  for (const std::int64_t m : {15, 16}) {
    const Verdict verdict = verified(*engine, range.at(m));
    EXPECT_TRUE(verdict) << m << ": " << verdict.error().detail;
  }
}

// kiln 0.2 and before spelt a problem with the alignment that all of its pitches have.
TEST(InventedDevice, WhatWasTunedUnderTheAlignmentOfPitchesIsFound) {
  const TempDir dir;
  const OpenOptions options{
      .device = "acme:0", .database = dir / "kiln.db", .policy = Policy::error};
  {
    auto engine = Engine::open(options);
    ASSERT_TRUE(engine) << engine.error().message;
    test::spend_budget(*engine);
    ASSERT_TRUE(engine->tune(test::problem("fp32 N N 5 5 5 align=4"), test::few_emulated(6)));
  }
  auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto plan = engine->plan(test::problem("fp32 N N 5 5 5"));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::exact);
  const Verdict verdict = verified(*engine, test::problem("fp32 N N 5 5 5"));
  EXPECT_TRUE(verdict) << verdict.error().detail;
}

TEST(InventedDevice, AMissIsVerifiedAndRun) {
  const TempDir dir;
  auto engine = Engine::open(
      {.device = "acme:0", .database = dir / "kiln.db", .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(engine) << engine.error().message;
  const Verdict verdict = verified(*engine, test::problem("bf16 N T 20 30 17"));
  EXPECT_TRUE(verdict) << verdict.error().detail;
}

TEST(InventedDevice, IsNamedWhereDevicesAre) {
  EXPECT_THAT(gpus_here(), testing::Contains("acme:0"));
  EXPECT_THAT(open_gpu("acme:x").error().message, AllOf(HasSubstr("acme:x"), HasSubstr("acme:N")));
  EXPECT_THAT(Engine::open({.device = "other"}).error().message, HasSubstr("acme:N"));
  EXPECT_EQ(vendor_named("acme"), open_gpu("acme:0").value()->caps().vendor);
  EXPECT_EQ(vendor_named("emca"), std::nullopt);
}

#else

// Without a compiler in the build there is nothing for its device to run.
TEST(InventedDevice, IsNotKnownWithoutItsRows) {
  EXPECT_THAT(Engine::open({.device = "acme:0"}).error().message,
              AllOf(HasSubstr("acme:0"), HasSubstr("must be cpu, cuda:N or hip:N")));
}

#endif

}  // namespace kiln::invented_vendor_test
