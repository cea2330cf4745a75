// A miss runs nothing in this process that a worker has not proved first.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <optional>

#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/proofs.h"
#include "engine/engine_impl.h"
#include "runtime/compiler.h"
#include "support/few.h"
#include "support/opened_engine.h"

namespace kiln::engine_miss_test {

using test::check;
using test::Opened;
using test::why;

/// Stores code of `body` in place of what a miss on `gemm` would build and run.
void plant(Opened& kiln, const Gemm& gemm, const std::string& body) {
  auto& impl = kiln->impl();
  const BestKey key = impl.key_of(gemm, 1);
  const auto config = parse_config(kiln->plan(gemm)->config());
  ASSERT_TRUE(config);
  auto built = impl.admission.build(key, *config);
  ASSERT_TRUE(built) << built.error().message;
  auto source = render(key.problem(), key.device, *config);
  ASSERT_TRUE(source);
  // Where there is a direct entry, calls go there.
  auto at = source->text.rfind("void kiln_direct(");
  if (at == std::string::npos)
    at = source->text.rfind("extern \"C\" void kiln_gemm(const KilnArgs* args, int thread, int");
  ASSERT_NE(at, std::string::npos);
  const auto brace = source->text.find('{', at);
  source->text.insert(brace + 1, body);
  auto planted = (*host_compiler())->compile(*source);
  ASSERT_TRUE(planted) << planted.error().message;
  built->binary.image = std::move(planted->image);
  impl.store->binaries().quarantine(built->binary.key, "replaced by the test");
  built->binary.key = "planted";
  std::filesystem::remove(kiln.dir / "kiln.db");
  kiln.open();
  ASSERT_TRUE(kiln->impl().store->binaries().put(built->binary));
}

TEST(EngineMiss, AMissIsProvedInAWorkerBeforeItRunsHere) {
  const Gemm gemm = Gemm::row_major(33, 65, 17);
  for (const std::string body :
       {"__builtin_trap();", "return;", "*static_cast<volatile int*>(nullptr) = 1;"}) {
    Opened kiln;
    plant(kiln, gemm, body);
    const Verdict verdict = check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << body << ": " << why(verdict);
    const auto stats = kiln->impl().store->maintenance().stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->at(0).quarantined, 1) << body;
  }
}

TEST(EngineMiss, TypesWithoutGeneratedKernelsRunOnTheReference) {
  Opened kiln;
  for (const DType type : {tf32, fp8_e4m3, fp8_e4m3fnuz}) {
    const Gemm gemm = Gemm::row_major(17, 9, 33, type);
    const Verdict verdict = check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << why(verdict);
    EXPECT_EQ(kiln->plan(gemm)->match(), Match::reference);
    const auto tuned = kiln->tune(gemm);
    ASSERT_FALSE(tuned);
    EXPECT_EQ(tuned.error().code, ErrorCode::unsupported) << tuned.error().message;
  }
}

TEST(EngineMiss, WhoIsToldMayTune) {
  TempDir dir;
  std::optional<Engine> engine;
  const Gemm gemm = Gemm::row_major(20, 30, 40);
  Result<TuneReport> tuned = fail(ErrorCode::internal, "never told");
  auto opened = Engine::open(
      {.database = dir / "kiln.db", .threads = 1, .on_untuned = [&](const std::string&) {
         tuned = engine->tune(gemm, test::few(8));
       }});
  ASSERT_TRUE(opened);
  engine.emplace(std::move(*opened));
  engine->impl().tuning.make_evaluator = test::fake_bench;
  EXPECT_TRUE(check(*engine, gemm));
  EXPECT_TRUE(tuned) << tuned.error().message;
}

TEST(EngineMiss, ABudgetIsANumberOfSecondsThatPasses) {
  Opened kiln;
  for (const double budget : {0.0, -1.0, 1e300, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    const auto tuned =
        // clock: refused
        kiln->tune(Gemm::row_major(8, 8, 8), {.budget = std::chrono::duration<double>(budget)});
    ASSERT_FALSE(tuned) << budget;
    EXPECT_EQ(tuned.error().code, ErrorCode::bad_input);
  }
}

TEST(EngineMiss, AProofIsRemembered) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(33, 65, 17);
  const auto config = parse_config(kiln->plan(gemm)->config());
  kiln.open();
  auto& impl = kiln->impl();
  const BestKey key = impl.key_of(gemm, 1);
  const auto built = impl.admission.build(key, *config);
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_TRUE(impl.store->proofs().proven(built->binary.key, key, *config, impl.now.runtime));
  EXPECT_FALSE(impl.store->proofs().proven(built->binary.key, key, *config, "another glibc"));
  BestKey two = key;
  two.device.compute_units = 2;
  EXPECT_FALSE(impl.store->proofs().proven(built->binary.key, two, *config, impl.now.runtime));
}

}  // namespace kiln::engine_miss_test
