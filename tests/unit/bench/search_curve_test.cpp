// `kiln bench --search-curve` from a database.
#include "bench/search_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "support/stored.h"

namespace kiln::search_curve_test {

using test::config_of;
using test::failed;
using test::key_of;
using test::kNow;
using test::timed;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SearchCurves, AreTheBestSoFarInTheOrderOfMeasurement) {
  auto store = test::open_store({});
  const BestKey key = key_of(48, 256, 256);
  ASSERT_TRUE(store->measurements().put(key, kNow, failed(9, Failure::Kind::crashed)));
  for (const auto& [mr, ns] : {std::pair{6, 400.0}, {5, 500.0}, {4, 100.0}, {3, 200.0}})
    ASSERT_TRUE(store->measurements().put(key, kNow, timed(mr, ns)));
  ASSERT_TRUE(store->winners().make_winner(key, kNow, config_of(4)));
  const auto curves = search_curves(*store, 5);
  ASSERT_TRUE(curves) << curves.error().message;
  ASSERT_EQ(curves->size(), 1u);
  const SearchCurve& curve = curves->front();
  EXPECT_THAT(curve.share, ElementsAre(0, 0.25, 0.25, 1, 1));
  EXPECT_EQ(curve.after(3), 0.25);
  EXPECT_EQ(curve.after(64), 1);
  EXPECT_EQ(curve.problem, "fp32 N N 48 256 256");
  EXPECT_THAT(table(*curves), HasSubstr("5 candidates: after 16 1.000 of the best"));
  EXPECT_THAT(summary_json(*curves).dump(), HasSubstr("\"after_64\":1.0"));
  EXPECT_THAT(svg(*curves), HasSubstr("fp32 N N 48 256 256"));
}

TEST(SearchCurves, LeaveOutShortSearches) {
  auto store = test::open_store({});
  const BestKey key = key_of(48, 256, 256);
  ASSERT_TRUE(store->measurements().put(key, kNow, timed(6, 400)));
  ASSERT_TRUE(store->winners().make_winner(key, kNow, config_of(6)));
  EXPECT_TRUE(search_curves(*store, 2)->empty());
  EXPECT_EQ(search_curves(*store, 1)->size(), 1u);
}

}  // namespace kiln::search_curve_test
