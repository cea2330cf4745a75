// The order of tiles along a curve, from the very functions that kernels get, and where the space
// of cuda_wgmma has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/space/family.h"
#include "generator/space/space.h"

#define KILN_DEVICE inline
#include "templates/cuda/common/hilbert.h"
#undef KILN_DEVICE

namespace kiln::hilbert_test {

int distance(Place a, Place b) { return std::abs(a.left - b.left) + std::abs(a.right - b.right); }

/// How many tiles of a grid were visited other than once, and outside of it.
int misplaced(int lefts, int rights, int side) {
  std::vector<int> visits(static_cast<std::size_t>(lefts) * static_cast<std::size_t>(rights));
  int outside = 0;
  for (int at = 0; at < lefts * rights; ++at) {
    const Place place = on_curve(at, lefts, rights, side);
    if (place.left < 0 || place.left >= lefts || place.right < 0 || place.right >= rights)
      ++outside;
    else
      ++visits[static_cast<std::size_t>(place.left * rights + place.right)];
  }
  const auto once = std::count(visits.begin(), visits.end(), 1);
  return outside + static_cast<int>(visits.size() - static_cast<std::size_t>(once));
}

TEST(Curve, StepsFromTileToNeighbourThroughASquare) {
  for (const int side : {1, 2, 4, 8, 16, 32, 64}) {
    Place last = in_square(0, side);
    EXPECT_EQ(distance(last, {0, 0}), 0) << side;
    for (int at = 1; at < side * side; ++at) {
      const Place next = in_square(static_cast<unsigned>(at), side);
      ASSERT_EQ(distance(last, next), 1) << side << " at " << at;
      last = next;
    }
    EXPECT_EQ(distance(last, {0, side - 1}), 0) << side;
  }
}

TEST(Curve, VisitsEveryTileOfARectangleOnce) {
  for (const int side : {1, 2, 4, 8, 16, 64})
    for (int lefts = 1; lefts <= 37; ++lefts)
      for (int rights = 1; rights <= 37; ++rights)
        ASSERT_EQ(misplaced(lefts, rights, side), 0) << lefts << " x " << rights << " by " << side;
  for (const auto& [lefts, rights] : {std::pair{1, 5000}, {5000, 1}, {127, 131}, {64, 256}})
    for (const int side : {4, 8, 16}) EXPECT_EQ(misplaced(lefts, rights, side), 0) << lefts;
}

// What the order is for: tiles that run at the same time touch few rows of both operands.
TEST(Curve, TilesThatRunTogetherShareRows) {
  constexpr int kLefts = 64, kRights = 64, kTogether = 132;
  const auto rows_touched = [](auto place_of) {
    int rows = 0;
    for (int first = 0; first < kLefts * kRights; first += kTogether) {
      std::vector<bool> left(kLefts), right(kRights);
      for (int at = first; at < std::min(first + kTogether, kLefts * kRights); ++at) {
        const Place place = place_of(at);
        left[static_cast<std::size_t>(place.left)] = true;
        right[static_cast<std::size_t>(place.right)] = true;
      }
      rows += static_cast<int>(std::count(left.begin(), left.end(), true) +
                               std::count(right.begin(), right.end(), true));
    }
    return rows;
  };
  const int curve = rows_touched([](int at) { return on_curve(at, kLefts, kRights, 16); });
  const int lines = rows_touched([](int at) { return Place{at / kRights, at % kRights}; });
  EXPECT_LT(2 * curve, lines);
}

std::vector<CudaWgmma> curves_of(const char* shape) {
  std::vector<CudaWgmma> found;
  const auto space =
      space_for(Problem::of(parse_gemm(shape).value()).value(), caps_named("sm_90a").value());
  for (const Config& config : space.value().legal)
    if (const auto c = config.if_is<CudaWgmma>(); c && c->along == Along::hilbert)
      found.push_back(*c);
  return found;
}

TEST(CurvesOfTheSpace, AreWhereTheGridHoldsASquareAndNotAllTilesRunAtOnce) {
  const char* shape = "bf16 N T 4096 4096 4096 align=16";
  const DeviceCaps device = caps_named("sm_90a").value();
  const Problem problem = Problem::of(parse_gemm(shape).value()).value();
  const auto found = curves_of(shape);
  EXPECT_FALSE(found.empty());
  for (const CudaWgmma& c : found) {
    const auto w = cuda::wgmma_sizes(problem, device, c);
    EXPECT_GE(std::min(w.tiles_left, w.tiles_right), c.group) << text(Config(c));
    // Of k cut into pieces there are more clusters than of whole tiles.
    if (c.sharing != Sharing::tiles) continue;
    EXPECT_GT(w.tiles, w.clusters) << text(Config(c));
  }
  EXPECT_TRUE(curves_of("bf16 N T 16 8192 4096 align=16").empty()) << "lines of tiles";
  EXPECT_TRUE(curves_of("bf16 N T 256 256 4096 align=16").empty()) << "all run at once";
}

TEST(CurvesOfTheSpace, HaveSquaresOfAPowerOfTwoWhoseBandsFit) {
  const DeviceCaps device = caps_named("sm_90a").value();
  const auto broken = [&](const char* shape, int group) {
    const CudaWgmma c{.left = 64,
                      .right = 8,
                      .stages = 4,
                      .warpgroups = 1,
                      .along = Along::hilbert,
                      .group = group};
    return broken_rule(Problem::of(parse_gemm(shape).value()).value(), device, c);
  };
  EXPECT_EQ(broken("bf16 N T 1024 1024 64 align=16", 16), "");
  EXPECT_EQ(broken("bf16 N T 1024 1024 64 align=16", 12),
            "along=hilbert needs a group that is a power of two");
  // 2^26 tiles of eight rows lie along a band of 32 and more.
  EXPECT_EQ(broken("bf16 N T 64 536870912 8 align=16", 16), "");
  EXPECT_EQ(broken("bf16 N T 64 536870912 8 align=16", 32),
            "tile numbers and stages of all splits fit 31 bits");
}

TEST(CurvesOfTheSpace, StandBehindTheGroupsInTheModel) {
  const DeviceCaps device = caps_named("sm_90a").value();
  const Problem problem =
      Problem::of(parse_gemm("bf16 N T 8192 8192 8192 align=16").value()).value();
  const auto predicted = [&](Along along, int group) {
    return predict_ns(problem, device, CudaWgmma{.along = along, .group = group});
  };
  EXPECT_LT(predicted(Along::right, 8), predicted(Along::hilbert, 16));
  EXPECT_LT(predicted(Along::hilbert, 16), 1.03 * predicted(Along::left, 8));
}

}  // namespace kiln::hilbert_test
