// When the vendor's library runs instead of kiln's winner: the decision, without a GPU.
#include "engine/vendor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cuda/library/config.h"
#include "generator/families/cuda/simt/config.h"
#include "kiln/engine.hpp"
#include "support/few.h"
#include "support/stored.h"
#include "support/temp_dir.h"

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

TEST(RacedLibraries, HaveTheirNewestTimeOverThatOfTheWinner) {
  const BlasLibrary openblas{BlasName::openblas, 3021, 7}, blis{BlasName::blis, 9000, 8};
  const Measured winner = row(HostPacked{}, 1000);
  const std::vector<Measured> rows{row(openblas, 1500),   winner,         row(openblas, 3000),
                                   failed(CudaLibrary{}), row(blis, 900), row(HostDot{}, 10)};
  const auto raced = raced_libraries(rows, text(winner.config));
  ASSERT_EQ(raced.size(), 2u);
  EXPECT_EQ(raced[0].config, Config(openblas));
  EXPECT_DOUBLE_EQ(raced[0].race.library_ns, 1.5 * raced[0].race.kernel_ns);
  EXPECT_DOUBLE_EQ(raced[1].race.library_ns, 0.9 * raced[1].race.kernel_ns);
  EXPECT_TRUE(raced_libraries(rows, "another config").empty());
}

// No process has a build of this hash, or a cuBLASLt that was not recorded.
TEST(RacedLibraries, OfAnotherBuildCountForNothing) {
  const std::vector<RacedLibrary> raced{{BlasLibrary{BlasName::openblas, 3021, -1}, 2.0},
                                        {CudaLibrary{0, 0}, 2.0}};
  EXPECT_FALSE(race_with_loaded(raced));
  EXPECT_FALSE(race_with_loaded({}));
}

TEST(BlasLibraryText, NamesLibraryVersionAndBuild) {
  const Config config = BlasLibrary{BlasName::openblas, 3021, 1978071828};
  EXPECT_EQ(text(config), "blas_library library=openblas version=3021 build=1978071828");
  EXPECT_EQ(parse_config(text(config)).value(), config);
}

// Where no BLAS library is installed there is no verdict.
TEST(LibraryRatio, IsThatOfTheStoredRaceOfExactlyThisProblem) {
  const TempDir dir;
  auto engine = Engine::open({.database = dir / "kiln.db", .threads = 1}).value();
  const Gemm gemm = Gemm::row_major(40, 48, 32);
  ASSERT_TRUE(engine.tune(gemm, test::few(16)));
  const bool there = !blas_library().empty();
  EXPECT_EQ(engine.plan(gemm).value().library_race().has_value(), there);
  auto later = Engine::open({.database = dir / "kiln.db", .threads = 1}).value();
  const Plan plan = later.plan(gemm).value();
  EXPECT_EQ(plan.match(), Match::exact);
  EXPECT_EQ(plan.library_race().has_value(), there);
  EXPECT_FALSE(later.plan(Gemm::row_major(41, 48, 32)).value().library_race());
}

TEST(LibraryRatio, IsMeasuredAgainWithoutASearch) {
  const TempDir dir;
  auto engine = Engine::open({.database = dir / "kiln.db", .threads = 1}).value();
  const Gemm gemm = Gemm::row_major(40, 48, 32);
  const auto tuned = engine.tune(gemm, test::few(16));
  ASSERT_TRUE(tuned);
  // What a machine without the library, or with another build of it, left behind.
  test::tamper(dir / "kiln.db",
               "DELETE FROM measurement WHERE config_id IN (SELECT id FROM config WHERE family = "
               "'blas_library')");
  auto later = Engine::open({.database = dir / "kiln.db", .threads = 1}).value();
  EXPECT_FALSE(later.plan(gemm).value().library_race());
  const auto raced = later.tune(gemm, {.race = true});
  ASSERT_TRUE(raced) << raced.error().message;
  EXPECT_FALSE(raced->already_tuned);
  EXPECT_EQ(raced->config, tuned->config);
  EXPECT_EQ(raced->measured, 1);
  ASSERT_TRUE(raced->searched);
  EXPECT_EQ(raced->searched->measured, tuned->searched->measured) << "nothing was searched";
  auto last = Engine::open({.database = dir / "kiln.db", .threads = 1}).value();
  EXPECT_EQ(last.plan(gemm).value().library_race().has_value(), !blas_library().empty());
  EXPECT_TRUE(last.tune(gemm, test::few(16))->already_tuned);
  const auto range = last.tune(gemm.with_m(1, 40), {.race = true});
  ASSERT_FALSE(range);
  EXPECT_EQ(range.error().message, "race = true: must be false for a range");
}

}  // namespace kiln::vendor_test
