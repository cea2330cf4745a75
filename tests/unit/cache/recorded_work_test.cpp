// What `kiln tune --recorded` makes of recorded calls: single problems and ranges of m.
#include "cache/exchange/recorded_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kiln::recorded_work_test {

RecordedWork called(const Gemm& gemm, double ns, bool tuned = false, int threads = 1) {
  return {gemm, threads, ns, tuned};
}

std::vector<std::string> lines(const std::vector<RecordedWork>& work) {
  std::vector<std::string> all;
  for (const WorkItem& item : work_items(work))
    all.push_back((item.range ? text(*item.range) : text(item.gemm)) + " x" +
                  std::to_string(item.threads));
  return all;
}

TEST(RecordedWork, FourProblemsThatDifferInMAreARange) {
  std::vector<RecordedWork> work;
  for (const std::int64_t m : {7, 300, 2, 64})
    work.push_back(called(Gemm::row_major(m, 64, 32), 10));
  work.push_back(called(Gemm::row_major(64, 128, 32), 30));
  EXPECT_THAT(lines(work),
              testing::ElementsAre("fp32 N N 2..300 64 32 x1", "fp32 N N 64 128 32 x1"));
}

TEST(RecordedWork, FewerOrOtherwiseDifferentOnesAreTunedOneByOne) {
  std::vector<RecordedWork> work;
  for (const std::int64_t m : {1, 2, 3})
    work.push_back(called(Gemm::row_major(m, 64, 32), double(m)));
  work.push_back(called(Gemm::row_major(4, 64, 32), 9, false, 2));  // other threads
  work.push_back(called(Gemm::row_major(5, 64, 32).with_residual(), 8));
  EXPECT_EQ(work_items(work).size(), 5u);
  EXPECT_EQ(work_items(work, true).size(), work.size()) << "each alone";
  EXPECT_EQ(lines(work).front(), "fp32 N N 4 64 32 x2") << "most time first";
  EXPECT_TRUE(work_items({}).empty());
}

TEST(RecordedWork, TunedProblemsComeLastAndJoinNoRange) {
  std::vector<RecordedWork> work;
  for (const std::int64_t m : {1, 2, 3, 4, 5})
    work.push_back(called(Gemm::row_major(m, 64, 32), 100, true));
  work.push_back(called(Gemm::row_major(9, 64, 32), 1));
  const auto all = lines(work);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all.front(), "fp32 N N 9 64 32 x1");
}

}  // namespace kiln::recorded_work_test
