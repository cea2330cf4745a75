// What `kiln tune --recorded` makes of a calls file: single problems and ranges of m.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/recorded.h"

namespace kiln::recorded_items_test {

using cli::items_to_tune;
using cli::RecordedShape;

RecordedShape called(const Gemm& gemm, double ns, Match match = Match::nearest, int threads = 1) {
  RecordedShape shape{.recorded = {.gemm = gemm, .threads = threads, .calls = 1},
                      .outlook = Outlook{.match = match},
                      .call_ns = ns};
  return shape;
}

std::vector<std::string> lines(const std::vector<RecordedShape>& shapes) {
  std::vector<std::string> all;
  for (const auto& item : items_to_tune(shapes, "calls.kiln"))
    all.push_back(text(item.shape) + " x" + std::to_string(item.threads));
  return all;
}

TEST(RecordedItems, FourProblemsThatDifferInMAreARange) {
  std::vector<RecordedShape> shapes;
  for (const std::int64_t m : {7, 300, 2, 64})
    shapes.push_back(called(Gemm::row_major(m, 64, 32), 10));
  shapes.push_back(called(Gemm::row_major(64, 128, 32), 30));
  EXPECT_THAT(lines(shapes),
              testing::ElementsAre("fp32 N N 2..300 64 32 x1", "fp32 N N 64 128 32 x1"));
}

TEST(RecordedItems, FewerOrOtherwiseDifferentOnesAreTunedOneByOne) {
  std::vector<RecordedShape> shapes;
  for (const std::int64_t m : {1, 2, 3})
    shapes.push_back(called(Gemm::row_major(m, 64, 32), double(m)));
  shapes.push_back(called(Gemm::row_major(4, 64, 32), 9, Match::nearest, 2));  // other threads
  shapes.push_back(called(Gemm::row_major(5, 64, 32).with_residual(), 8));
  EXPECT_EQ(items_to_tune(shapes, "").size(), 5u);
  EXPECT_EQ(lines(shapes).front(), "fp32 N N 4 64 32 x2") << "most time first";
}

TEST(RecordedItems, TunedProblemsComeLastAndJoinNoRange) {
  std::vector<RecordedShape> shapes;
  for (const std::int64_t m : {1, 2, 3, 4, 5})
    shapes.push_back(called(Gemm::row_major(m, 64, 32), 100, m < 3 ? Match::exact : Match::range));
  shapes.push_back(called(Gemm::row_major(9, 64, 32), 1));
  const auto all = lines(shapes);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all.front(), "fp32 N N 9 64 32 x1");
}

}  // namespace kiln::recorded_items_test
