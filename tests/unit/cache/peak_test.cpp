// The peak that shares are printed of: probed beside the samples, raised by any kernel that beats
// the probe, kept with the records.
#include "engine/peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/records/devices.h"
#include "runtime/cpu/probe.h"
#include "support/opened_engine.h"
#include "tuner/worker/protocol.h"

namespace kiln::peak_test {

using test::Opened;
using testing::HasSubstr;
using testing::Not;

/// A bench whose probe said `flops`.
class ProbedBench final : public test::FakeEvaluator {
 public:
  ProbedBench(const SearchInput& input, double flops) : FakeEvaluator(input), flops_(flops) {}
  double peak_flops() const override { return flops_; }

 private:
  double flops_;
};

Result<TuneReport> tune_beside(Opened& kiln, const Gemm& gemm, double probed) {
  kiln->impl().tuning.make_evaluator = [probed](const SearchInput& input,
                                                Compiler&) -> Result<std::unique_ptr<Evaluator>> {
    return std::make_unique<ProbedBench>(input, probed);
  };
  return kiln->tune(gemm, {.threads = 1});
}

double rate(const TuneReport& report) {
  return report.gemm.flops() / (report.timing.median_ns * 1e-9);
}

TEST(Peak, AKernelThatBeatsTheProbeRaisesIt) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32), slow = Gemm::row_major(8, 8, 8);
  const auto report = tune_beside(kiln, gemm, 1e6);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_GT(rate(*report), 1e6);
  EXPECT_GE(report->peak_flops, rate(*report));
  EXPECT_EQ(kiln->impl().store->devices().peak(kiln->impl().key_of(gemm, 1).device, fp32),
            report->peak_flops);
  const auto other = tune_beside(kiln, slow, 2e6);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->peak_flops, std::max(report->peak_flops, rate(*other)))
      << "it is of the device, its threads and the type, not of one shape";
}

TEST(Peak, TheLargestProbeIsKeptWithTheRecords) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  constexpr double kMost = 1e15;
  EXPECT_EQ(tune_beside(kiln, gemm, kMost)->peak_flops, kMost);
  EXPECT_EQ(tune_beside(kiln, Gemm::row_major(8, 8, 8), 1e14)->peak_flops, kMost);
  kiln.open();
  const auto again = kiln->tune(gemm);
  EXPECT_TRUE(again->already_tuned);
  EXPECT_EQ(again->peak_flops, kMost);
  EXPECT_THAT(*kiln->explain(gemm), HasSubstr("peak:      1000000.0 GFLOP/s"));
  EXPECT_EQ(raised_peak(*kiln.engine, gemm, 1, 0, 2 * kMost), 2 * kMost) << "a race's kernel";
  EXPECT_EQ(kiln->tune(gemm)->peak_flops, 2 * kMost);
}

// A record may be faster than a peak that was stored by itself (another file's, a later probe).
TEST(Peak, ARecordReadBackRaisesItToo) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  ASSERT_TRUE(tune_beside(kiln, gemm, 0));
  ASSERT_TRUE(
      kiln->impl().store->devices().raise_peak(kiln->impl().key_of(gemm, 1).device, fp32, 1e6));
  EXPECT_THAT(*kiln->explain(gemm), HasSubstr("this is 100.0 %"));
  const auto report = kiln->tune(gemm);
  EXPECT_TRUE(report->already_tuned);
  EXPECT_EQ(report->peak_flops, rate(*report));
}

TEST(Peak, AKernelAloneMakesNone) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  EXPECT_EQ(tune_beside(kiln, gemm, 0)->peak_flops, 0) << "nothing was probed";
  EXPECT_THAT(*kiln->explain(gemm), Not(HasSubstr("peak:")));
  // Of a type without a probe what a bench says counts for nothing.
  EXPECT_EQ(tune_beside(kiln, Gemm::row_major(8, 8, 8, bf16), 1e12)->peak_flops,
            has_fma_probe(bf16) ? 1e12 : 0);
}

// What a worker says is looked at: it ran generated code.
TEST(Peak, AWorkersWordIsANumberOrNothing) {
  using nlohmann::json;
  EXPECT_EQ(peak_flops_of({{"peak_flops", 4e11}}), 4e11);
  EXPECT_EQ(peak_flops_of({{"rows", json::array()}}), 0);
  EXPECT_EQ(peak_flops_of(json::array()), 0);
  for (const json& odd : {json("4e11"), json(nullptr), json(-1.0), json(1e300 * 1e300)})
    EXPECT_EQ(peak_flops_of({{"peak_flops", odd}}), 0) << odd;
}

}  // namespace kiln::peak_test
