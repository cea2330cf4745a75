// `kiln bench --leave-one-out` from a database.
#include "bench/leave_one_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "support/stored.h"

namespace kiln::leave_one_out_test {

using test::config_of;
using test::key_of;
using test::kNow;
using testing::HasSubstr;

TEST(LeaveOneOut, ReportsEachClassAndEveryDevice) {
  auto store = test::open_store({});
  // Two kernels, of which the model's favourite is measured as the slower one everywhere.
  for (const std::int64_t m : {48, 96, 192, 384, 768}) {
    const BestKey key = key_of(m, 256, 256);
    const Problem problem = key.problem();
    ASSERT_EQ(broken_rule(problem, key.device, config_of(6)), "");
    ASSERT_EQ(broken_rule(problem, key.device, config_of(5)), "");
    const double ns = predict_ns(problem, key.device, config_of(6));
    ASSERT_TRUE(store->measurements().put(key, kNow, test::timed(6, 2 * ns)));
    ASSERT_TRUE(store->measurements().put(key, kNow, test::timed(5, ns)));
    ASSERT_TRUE(store->winners().make_winner(key, kNow, config_of(m == 48 ? 6 : 5)));
  }
  const auto rows = leave_one_out(*store);
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 1u);
  const LeaveOneOutRow& row = rows->front();
  EXPECT_EQ(row.kernels, 2);
  EXPECT_EQ(row.fitted.shapes, 5);
  EXPECT_EQ(row.shapes.size(), 5u);
  EXPECT_DOUBLE_EQ(row.fitted.mean, 1.0);
  EXPECT_TRUE(row.used);
  EXPECT_EQ(row.problems, "fp32 N N");
  EXPECT_THAT(table(*rows), HasSubstr("fp32 N N: 5 shapes, 2 kernels: 1.000 of the best"));
  EXPECT_THAT(summary_json(*rows).dump(), HasSubstr("\"ratio\":1.0"));
  EXPECT_THAT(svg(*rows), HasSubstr("fp32 N N"));
}

TEST(LeaveOneOut, AnEmptyDatabaseHasNothingToSay) {
  auto store = test::open_store({});
  const auto rows = leave_one_out(*store);
  ASSERT_TRUE(rows);
  EXPECT_TRUE(rows->empty());
  EXPECT_EQ(table(*rows), "");
}

}  // namespace kiln::leave_one_out_test
