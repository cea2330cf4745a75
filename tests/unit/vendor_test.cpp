// When the vendor's library runs instead of kiln's winner: the decision, without a GPU.
#include "cache/vendor.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

Measured row(const Config& config, double ns) {
  Measured measured;
  measured.config = config;
  measured.outcome = Timing{.median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 11};
  measured.verified = true;
  return measured;
}

Measured failed(const Config& config) {
  Measured measured;
  measured.config = config;
  measured.outcome = Failure{Failure::Kind::wrong_result, "outside the bounds"};
  return measured;
}

TEST(PreferredLibrary, IsItsFastestProposalThatWinsClearly) {
  const Measured winner = row(CudaSimt{}, 1000);
  const std::vector<Measured> rows{row(CudaLibrary{.choice = 0}, 900),
                                   row(CudaLibrary{.choice = 3}, 700), winner,
                                   row(CudaLibrary{.choice = 4}, 800)};
  const auto best = preferred_library(winner, rows);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->config, Config(CudaLibrary{.choice = 3}));
}

TEST(PreferredLibrary, IsNothingWhereItDoesNotWin) {
  const Measured winner = row(CudaSimt{}, 1000);
  EXPECT_FALSE(preferred_library(winner, {}));
  const auto prefers = [&](double ns) {
    return preferred_library(winner, std::vector{row(CudaLibrary{}, ns), winner}).has_value();
  };
  EXPECT_FALSE(prefers(1000));
  EXPECT_FALSE(prefers(990));  // less than any challenger's margin
  EXPECT_TRUE(prefers(970));
  // Kiln's own rows are none of the library's, however fast.
  EXPECT_FALSE(
      preferred_library(winner, std::vector{row(CudaSimt{.group = 4}, 10), winner}).has_value());
}

TEST(PreferredLibrary, IsNeverAProposalThatFailed) {
  const Measured winner = row(CudaSimt{}, 1000);
  const std::vector<Measured> rows{failed(CudaLibrary{.choice = 0}),
                                   row(CudaLibrary{.choice = 1}, 1200)};
  EXPECT_FALSE(preferred_library(winner, rows));
  EXPECT_FALSE(preferred_library(failed(CudaSimt{}), rows));
}

}  // namespace
}  // namespace kiln
