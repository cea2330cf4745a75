// When the vendor's library runs instead of kiln's winner: the decision, without a GPU.
#include "engine/vendor.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln::vendor_test {

constexpr int kVersion = 130002;

/// A proposal of the library as this version numbers it.
CudaLibrary proposal(int choice, int version = kVersion) { return {choice, version}; }

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
  const std::vector<Measured> rows{row(proposal(0), 900), row(proposal(3), 700), winner,
                                   row(proposal(4), 800)};
  const auto best = preferred_library(winner, rows, kVersion);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->config, Config(proposal(3)));
}

TEST(PreferredLibrary, IsNothingWhereItDoesNotWin) {
  const Measured winner = row(CudaSimt{}, 1000);
  EXPECT_FALSE(preferred_library(winner, {}, kVersion));
  const auto prefers = [&](double ns) {
    return preferred_library(winner, std::vector{row(proposal(0), ns), winner}, kVersion)
        .has_value();
  };
  EXPECT_FALSE(prefers(1000));
  EXPECT_FALSE(prefers(990));  // less than any challenger's margin
  EXPECT_TRUE(prefers(970));
  // Kiln's own rows are none of the library's, however fast.
  EXPECT_FALSE(
      preferred_library(winner, std::vector{row(CudaSimt{.group = 4}, 10), winner}, kVersion)
          .has_value());
}

TEST(PreferredLibrary, IsNeverAProposalThatFailed) {
  const Measured winner = row(CudaSimt{}, 1000);
  const std::vector<Measured> rows{failed(proposal(0)), row(proposal(1), 1200)};
  EXPECT_FALSE(preferred_library(winner, rows, kVersion));
  EXPECT_FALSE(preferred_library(failed(CudaSimt{}), rows, kVersion));
}

// Versions number their proposals by themselves: 3 of one may be another algorithm of the next.
TEST(PreferredLibrary, IsNoProposalOfAnotherVersionNorOfAnUnrecordedOne) {
  const Measured winner = row(CudaSimt{}, 1000);
  const std::vector<Measured> rows{row(proposal(3, 120804), 500), row(proposal(3, 0), 400),
                                   row(proposal(1), 700), winner};
  const auto best = preferred_library(winner, rows, kVersion);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->config, Config(proposal(1)));
  EXPECT_FALSE(preferred_library(winner, rows, 130100));
  EXPECT_FALSE(preferred_library(winner, rows, 0));
}

TEST(CudaLibraryText, NamesTheVersionWhereItWasRecorded) {
  EXPECT_EQ(text(Config(proposal(3))), "cublaslt choice=3 version=130002");
  EXPECT_EQ(parse_config("cublaslt choice=3 version=130002").value(), Config(proposal(3)));
  // Rows from before it was recorded keep their text.
  EXPECT_EQ(text(Config(proposal(3, 0))), "cublaslt choice=3");
  EXPECT_EQ(parse_config("cublaslt choice=3").value(), Config(proposal(3, 0)));
}

}  // namespace kiln::vendor_test
