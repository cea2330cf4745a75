// The places of elements in shared memory and in lanes, from the CUDA templates' own functions:
// each taken once, and no bank met twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#define KILN_DEVICE inline
#include "templates/cuda/common/swizzle.h"
#include "templates/cuda/simt/lanes.h"
#undef KILN_DEVICE

namespace kiln::cuda_lanes_test {

/// The most accesses that meet in one of the 32 banks, each of 16 bytes, 8 lanes at a time.
int worst_bank(const std::vector<unsigned>& bytes) {
  int worst = 0;
  for (std::size_t first = 0; first < bytes.size(); first += 8) {
    std::map<unsigned, std::set<unsigned>> lines;
    for (std::size_t i = first; i < std::min(first + 8, bytes.size()); ++i)
      lines[bytes[i] / 16 % 8].insert(bytes[i]);
    for (const auto& [bank, wanted] : lines) worst = std::max(worst, int(wanted.size()));
  }
  return worst;
}

TEST(CudaSwizzle, MatrixStoresMeetNoBankTwice) {
  for (const int pitch : {16, 32, 64, 128})
    for (int unit = 0; unit < pitch / 16; ++unit) {
      std::vector<unsigned> rows;
      for (int row = 0; row < 8; ++row) rows.push_back(swizzled_byte(row, unit, pitch));
      EXPECT_EQ(worst_bank(rows), 1) << "pitch " << pitch << " unit " << unit;
    }
  // Without the exchange, a column of a 128-byte pitch is one bank.
  std::vector<unsigned> plain;
  for (unsigned row = 0; row < 8; ++row) plain.push_back(row * 128);
  EXPECT_EQ(worst_bank(plain), 8);
}

TEST(CudaSwizzle, IsAnExchangeWithinRows) {
  for (const int pitch : {16, 32, 64, 128}) {
    std::set<unsigned> seen;
    for (int row = 0; row < 16; ++row)
      for (int unit = 0; unit < pitch / 16; ++unit) {
        const unsigned at = swizzled_byte(row, unit, pitch);
        EXPECT_EQ(at / unsigned(pitch), unsigned(row));
        EXPECT_TRUE(seen.insert(at).second);
      }
  }
}

/// A warp writes quads of k, each down a column: element `e` of every lane at once.
TEST(CudaQuadPlace, TransposingWritesMeetNoBankTwice) {
  for (const int block_k : {8, 16, 32})
    for (int e = 0; e < 4; ++e) {
      std::map<int, int> banks;
      for (int lane = 0; lane < 32; ++lane) {
        const int k = lane % (block_k / 4) * 4 + e, row = lane / (block_k / 4);
        ++banks[quad_place(k, row, 128, 4, block_k) % 32];
      }
      for (const auto& [bank, lanes] : banks) EXPECT_EQ(lanes, 1) << block_k << " bank " << bank;
    }
}

TEST(CudaQuadPlace, KeepsQuadsWholeAndElementsApart) {
  for (const int rows : {16, 32, 64, 96, 128, 256})
    for (const int quad : {2, 4})
      for (const int block_k : {8, 16, 32}) {
        std::set<int> seen;
        for (int k = 0; k < block_k; ++k)
          for (int row = 0; row < rows; ++row) {
            const int at = quad_place(k, row, rows, quad, block_k);
            EXPECT_TRUE(seen.insert(at).second);
            EXPECT_EQ(at / rows, k);
            EXPECT_EQ(at - row % quad, quad_place(k, row - row % quad, rows, quad, block_k));
          }
      }
}

TEST(CudaSimtLanes, EachTakesAPartOfItsOwn) {
  for (const int lanes_m : {1, 2, 4, 8, 16, 32}) {
    std::set<std::pair<int, int>> seen;
    for (int lane = 0; lane < 32; ++lane) {
      const int m = lane_part(lane, lanes_m, true), n = lane_part(lane, lanes_m, false);
      EXPECT_TRUE(m >= 0 && m < lanes_m && n >= 0 && n < 32 / lanes_m) << lanes_m;
      EXPECT_TRUE(seen.emplace(m, n).second) << lanes_m << " lane " << lane;
    }
  }
}

/// What 16 bytes a lane cost: half a warp at a time where each lane's address is also that of its
/// neighbour, or of the one after, a quarter otherwise; one turn more for each bank met again.
int turns_of_quads(const std::vector<int>& quads) {
  int turns = 0;
  for (std::size_t half = 0; half < 32; half += 16) {
    const auto pairs = [&](std::size_t mask) {
      for (std::size_t i = half; i < half + 16; ++i)
        if (quads[i] != quads[i ^ mask]) return false;
      return true;
    };
    const std::size_t step = pairs(1) || pairs(2) ? 16 : 8;
    for (std::size_t first = half; first < half + 16; first += step) {
      std::map<int, std::set<int>> banks;
      for (std::size_t i = first; i < first + step; ++i) banks[quads[i] % 8].insert(quads[i]);
      std::size_t most = 0;
      for (const auto& [bank, wanted] : banks) most = std::max(most, wanted.size());
      turns += int(most);
    }
  }
  return turns;
}

TEST(CudaSimtLanes, ReadBothOperandsInTwoTurns) {
  for (const int lanes_m : {4, 8})
    for (const bool rows : {true, false}) {
      std::vector<int> quads, plain;
      for (int lane = 0; lane < 32; ++lane) {
        quads.push_back(lane_part(lane, lanes_m, rows));
        plain.push_back(rows ? lane / (32 / lanes_m) : lane % (32 / lanes_m));
      }
      EXPECT_EQ(turns_of_quads(quads), 2) << lanes_m << rows;
      EXPECT_GE(turns_of_quads(plain), 2);
    }
  std::vector<int> row_by_row;  // eight columns side by side: four turns
  for (int lane = 0; lane < 32; ++lane) row_by_row.push_back(lane % 8);
  EXPECT_EQ(turns_of_quads(row_by_row), 4);
}

/// Threads copy every element of a tile once, at constant distances from their first.
TEST(CudaSimtCopies, CoverTheTile) {
  for (const bool along_k : {true, false})
    for (const int width : {1, 2, 4})
      for (const int block_k : {4, 8, 16, 32})
        for (const int rows : {32, 128, 256}) {
          if (along_k && width > block_k) continue;
          const int threads = 128, reads = rows * block_k / width / threads;
          std::set<std::pair<int, int>> seen;
          for (int thread = 0; thread < threads; ++thread)
            for (int i = 0; i < reads; ++i) {
              const auto row = [&](int q) { return copied_row(q, along_k, rows, width, block_k); };
              const auto k = [&](int q) { return copied_k(q, along_k, rows, width, block_k); };
              const int q = thread + i * threads;
              EXPECT_EQ(row(q), row(thread) + row(i * threads));
              EXPECT_EQ(k(q), k(thread) + k(i * threads));
              for (int e = 0; e < width; ++e)
                EXPECT_TRUE(
                    seen.emplace(row(q) + (along_k ? 0 : e), k(q) + (along_k ? e : 0)).second);
            }
          EXPECT_EQ(seen.size(), std::size_t(reads) * std::size_t(width * threads));
        }
}

/// A warp that turns a tile over, one element at a time, meets no bank twice in padded lines.
TEST(CudaSimtCopies, TurnATileOverWithoutConflicts) {
  for (const int width : {1, 4})
    for (const int block_k : {8, 16, 32})
      for (int e = 0; e < width; ++e) {
        std::set<int> banks;
        for (int lane = 0; lane < 32; ++lane)
          banks.insert(line_place(copied_k(lane, true, 128, width, block_k) + e,
                                  copied_row(lane, true, 128, width, block_k), 132) %
                       32);
        EXPECT_EQ(banks.size(), 32u) << width << " " << block_k;
      }
}

}  // namespace kiln::cuda_lanes_test
