// A trouble of the machine that passes says nothing about code: nothing is quarantined, and the
// engine asks again.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cache/records/maintenance.h"
#include "engine/engine_impl.h"
#include "engine/unsettled.h"
#include "support/few.h"
#include "support/no_descriptors.h"
#include "support/opened_engine.h"

namespace kiln::machine_trouble_test {

using test::NoDescriptors;
using test::Opened;

/// A product of ones on one thread: every element of D is k.
bool computes(Engine& engine, const Gemm& gemm) {
  const std::vector<float> a(static_cast<std::size_t>(gemm.m * gemm.k), 1);
  const std::vector<float> b(static_cast<std::size_t>(gemm.k * gemm.n), 1);
  std::vector<float> d(static_cast<std::size_t>(gemm.m * gemm.n), -1);
  const Status ran = engine.gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data()});
  EXPECT_TRUE(ran) << ran.error().message;
  return ran && std::ranges::all_of(d, [&](float x) { return x == static_cast<float>(gemm.k); });
}

std::int64_t quarantined(Opened& kiln) {
  const auto stats = kiln->impl().store->maintenance().stats();
  EXPECT_TRUE(stats);
  return stats ? stats->at(0).quarantined : -1;
}

// The first test: in a process that has no compiler yet.
TEST(MachineTrouble, ACompilerThatCouldNotBeOpenedIsOpenedLater) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(35, 67, 19);
  {
    const NoDescriptors none;
    EXPECT_TRUE(computes(*kiln.engine, gemm));
  }
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::model);
}

TEST(MachineTrouble, NoDescriptorSaysNothingAboutATunedKernel) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(33, 65, 17);
  const auto tuned = kiln->tune(gemm, test::few(8));
  ASSERT_TRUE(tuned) << tuned.error().message;
  kiln.open();
  {
    const NoDescriptors none;
    EXPECT_TRUE(computes(*kiln.engine, gemm));
  }
  EXPECT_EQ(quarantined(kiln), 0);
  EXPECT_TRUE(kiln.said.empty()) << kiln.said.front() << ": it is tuned";
  EXPECT_TRUE(computes(*kiln.engine, gemm));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact) << "the same engine asks again";
  kiln.open();
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact) << "and so does the next";
}

TEST(MachineTrouble, NoDescriptorSaysNothingAboutCodeOfAMiss) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(34, 66, 18);
  const Match match = kiln->plan(gemm)->match();
  ASSERT_NE(match, Match::reference);
  kiln.open();
  {
    const NoDescriptors none;
    EXPECT_TRUE(computes(*kiln.engine, gemm));
  }
  EXPECT_EQ(quarantined(kiln), 0);
  EXPECT_EQ(kiln->plan(gemm)->match(), match);
}

TEST(MachineTrouble, AMachineThatRefusesForLongIsAskedLessOften) {
  const auto plan = bare_plan(Gemm::row_major(2, 3, 4), 1);
  Unsettled unsettled;
  EXPECT_EQ(unsettled.next(plan->key), nullptr) << "never refused";
  std::vector<int> calls;  // between two questions
  for (int refusal = 0; refusal < 13; ++refusal) {
    unsettled.put(plan);
    calls.push_back(0);
    while (unsettled.next(plan->key) != nullptr) ++calls.back();
  }
  EXPECT_EQ(calls, (std::vector{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024}));
  unsettled.settle(plan->key);
  unsettled.put(plan);
  EXPECT_EQ(unsettled.next(plan->key), nullptr) << "a new trouble begins anew";
}

}  // namespace kiln::machine_trouble_test
