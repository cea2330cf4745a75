// What tuning is expected to gain, and from what that is told.
#include "engine/outlook.h"

#include <gtest/gtest.h>

#include "support/opened_engine.h"

namespace kiln::outlook_test {

using test::Opened;

TEST(Outlook, WithoutTunedProblemsTheModelEstimates) {
  Opened engine;
  const Gemm gemm = Gemm::row_major(16, 16, 16);
  const auto found = outlook(*engine.engine, gemm, 0, 1e6);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->match, Match::model);
  EXPECT_EQ(found->basis, Basis::model);
  EXPECT_GT(found->tuned_ns, 0);
  EXPECT_DOUBLE_EQ(found->gain, 1 - found->tuned_ns / 1e6);
  EXPECT_EQ(outlook(*engine.engine, gemm, 0, found->tuned_ns / 2)->gain, 0) << "never a loss";
}

TEST(Outlook, ATunedProblemGainsNothingAndCorrectsTheModelForOthers) {
  Opened engine;
  const Gemm gemm = Gemm::row_major(16, 16, 16);
  const auto report = engine->tune(gemm);
  ASSERT_TRUE(report) << report.error().message;
  const auto tuned = outlook(*engine.engine, gemm, 0, 1e6);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->match, Match::exact);
  EXPECT_EQ(tuned->basis, Basis::stored);
  EXPECT_EQ(tuned->now_ns, report->timing.median_ns);
  EXPECT_EQ(tuned->tuned_ns, tuned->now_ns);
  EXPECT_EQ(tuned->gain, 0);
  const auto other = outlook(*engine.engine, Gemm::row_major(16, 16, 16, DType::fp64), 0, 1e6);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->basis, Basis::corrected) << "of other types, on the same device";
  EXPECT_GT(other->gain, 0);
}

TEST(Outlook, WhatOnlyTheReferenceKernelComputesGainsNothing) {
  Opened engine;
  const auto found = outlook(*engine.engine,
                             Gemm::row_major(2, 2, 2, DType::fp8_e4m3).output(DType::fp32), 0, 1e6);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->match, Match::reference);
  EXPECT_EQ(found->basis, Basis::none);
  EXPECT_EQ(found->gain, 0);
}

TEST(Outlook, ErrorsAreThoseOfPlans) {
  Opened engine;
  const auto found = outlook(*engine.engine, Gemm::row_major(-2, 2, 2), 0, 0);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::bad_input);
}

}  // namespace kiln::outlook_test
