// The CUDA families without a device: layouts in shared memory, legality, launches, tensor maps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "generator/cuda_wgmma.h"
#include "generator/family.h"
#include "generator/render.h"
#include "tuner/proposer.h"

#define KILN_DEVICE inline
#include "templates/cuda/simt_lanes.h"
#include "templates/cuda/swizzle.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kShapes[] = {
    "bf16 N T 4096 4096 4096 align=16",
    "bf16 T N 1000 1000 1000 align=16",
    "fp16 N N 520 648 264 batch=3 align=16 epilogue=bias_col+gelu+residual",
    "bf16 T T 1023 1023 1023",
    "int8 N N 300 500 700",
    "fp8 N T 16 6144 4096 align=16",
    "tf32 N T 128 512 512 align=16",
    "bf16 N T 64 64 65536 align=16",
    "bf16 N T 3 5000 777",
    "fp16 N T 256 512 256 order=column align=16 out=fp32"};

DeviceCaps h200() { return cuda_caps_named("sm_90a").value(); }

/// Every `step`-th legal point of a family: spaces have thousands.
template <typename C>
std::vector<Config> some(const SearchSpace& space, std::size_t step) {
  std::vector<Config> all, out;
  for (const auto& c : space.legal)
    if (std::holds_alternative<C>(c)) all.push_back(c);
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

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

class Spaces : public testing::TestWithParam<const char*> {};

TEST_P(Spaces, MapsAreWhatTheDriverTakes) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(gemm, h200());
  ASSERT_TRUE(space) << space.error().message;
  const auto configs = some<CudaWgmma>(*space, 7);
  ASSERT_FALSE(configs.empty());
  for (const auto& config : configs) {
    const GpuLaunch launch = family_of(config).launch(space->problem, h200(), config);
    for (const auto& map : launch.maps) {
      const int size = map.element == MapElement::u8                                       ? 1
                       : map.element == MapElement::bf16 || map.element == MapElement::f16 ? 2
                                                                                           : 4;
      const int row = int(map.box[0]) * size;
      const int span = map.swizzle == MapSwizzle::b128  ? 128
                       : map.swizzle == MapSwizzle::b64 ? 64
                       : map.swizzle == MapSwizzle::b32 ? 32
                                                        : 16;
      EXPECT_EQ(row, span) << text(config);
      for (int d = 0; d < map.rank; ++d) {
        EXPECT_GE(map.box[std::size_t(d)], 1u) << text(config);
        EXPECT_LE(map.box[std::size_t(d)], 256u) << text(config);
      }
      for (int d = 0; d + 1 < map.rank; ++d)
        EXPECT_EQ(map.strides[std::size_t(d)] % 16, 0u) << text(config);
      EXPECT_EQ(map.offset % 128, 0) << text(config);
    }
  }
}

TEST_P(Spaces, LaunchesFitTheDevice) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(gemm, h200());
  ASSERT_TRUE(space) << space.error().message;
  for (std::size_t i = 0; i < space->legal.size(); i += 5) {
    const auto& config = space->legal[i];
    const GpuLaunch launch = family_of(config).launch(space->problem, h200(), config);
    EXPECT_LE(launch.zeroed_bytes, launch.workspace_bytes);
    for (const auto& step : launch.steps) {
      EXPECT_LE(step.dynamic_shared_bytes, h200().gpu.shared_block_bytes) << text(config);
      EXPECT_LE(step.block.count(), h200().gpu.threads_block) << text(config);
      EXPECT_EQ(step.grid.x % step.cluster.x, 0u) << text(config);
      for (const int map : step.maps) EXPECT_LT(std::size_t(map), launch.maps.size());
    }
    EXPECT_GT(predict_ns(space->problem, h200(), config), 0) << text(config);
  }
}

/// One stage of the ring is exactly what the copies of all sharers bring.
TEST_P(Spaces, CopiesFillAStage) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(gemm, h200());
  ASSERT_TRUE(space);
  for (const auto& config : some<CudaWgmma>(*space, 11)) {
    const auto& c = std::get<CudaWgmma>(config);
    const auto w = cuda::plan(space->problem, h200(), c);
    const GpuLaunch launch = family_of(config).launch(space->problem, h200(), config);
    const auto bytes = [&](const TensorMapSpec& map, bool across, int tile, int sharers) {
      const int boxes = across ? (tile + 63) / 64 : 1;
      return std::int64_t(boxes) * sharers * map.box[1] * 128;
    };
    EXPECT_EQ(bytes(launch.maps[0], w.left.across_k, c.left, c.cluster_right) +
                  bytes(launch.maps[1], w.right.across_k, c.right, c.cluster_left),
              w.stage_bytes)
        << text(config);
  }
}

TEST_P(Spaces, RenderWithoutTemplateMarks) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  const auto space = space_for(gemm, h200());
  ASSERT_TRUE(space);
  for (std::size_t i = 0; i < space->legal.size(); i += 97) {
    if (family_of(space->legal[i]).files.empty()) continue;  // a library's choice has no source
    const auto source = render(gemm, h200(), space->legal[i]);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_THAT(source->text, Not(HasSubstr("//%")));
    EXPECT_THAT(source->text, Not(HasSubstr("#include")));
    EXPECT_THAT(source->text, HasSubstr("kiln_gemm"));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Spaces, testing::ValuesIn(kShapes));

TEST(CudaSimtSpace, LaunchesFitTheDevice) {
  for (const char* line : {"fp32 N N 2560 2560 2560 align=16", "fp64 N T 300 200 1000",
                           "bf16 T T 77 55 333 batch=4", "fp32 N N 64 64 65536"}) {
    const auto space = space_for(parse_gemm(line).value(), h200());
    ASSERT_TRUE(space) << space.error().message;
    const auto configs = some<CudaSimt>(*space, 3);
    ASSERT_FALSE(configs.empty()) << line;
    bool cut = false;
    for (const auto& config : configs) {
      const auto& c = std::get<CudaSimt>(config);
      const GpuLaunch launch = family_of(config).launch(space->problem, h200(), config);
      ASSERT_EQ(launch.steps.size(), 1u);
      const GpuStep& step = launch.steps[0];
      EXPECT_LE((step.dynamic_shared_bytes + 1024) * c.resident, h200().gpu.shared_unit_bytes);
      EXPECT_LE(step.block.count() * c.resident, h200().gpu.threads_unit) << text(config);
      const bool parts = c.sharing != Sharing::tiles;
      EXPECT_EQ(launch.zeroed_bytes > 0, parts) << text(config);
      if (c.sharing == Sharing::stream) {
        EXPECT_LE(int(step.grid.x), h200().compute_units * c.resident) << text(config);
      }
      EXPECT_GT(predict_ns(space->problem, h200(), config), 0) << text(config);
      cut = cut || parts;
    }
    EXPECT_TRUE(cut) << line;
  }
}

TEST(CudaSimtRules, NameWhatIsWrong) {
  const auto problem = canonicalise(parse_gemm("fp32 N N 1024 1024 1024 align=16").value());
  const auto broken = [&](CudaSimt c, const char* device = "sm_90a") {
    return broken_rule(problem, cuda_caps_named(device).value(), c);
  };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.lanes_m = 3}), "warps cover the tile");
  EXPECT_EQ(broken({.block_k = 12}), "threads share the copies evenly");
  EXPECT_EQ(broken({.width_a = 8}), "memory is aligned to what is read at once");
  const char* by = "copies that pass registers by bring what is summed";
  EXPECT_EQ(broken({.width_b = 4, .copy = SimtCopy::async, .stages = 3}), "");
  EXPECT_EQ(broken({.width_a = 4, .copy = SimtCopy::async}), by);  // A would have to be turned
  EXPECT_EQ(broken({.copy = SimtCopy::async}, "sm_75"), by);
  EXPECT_EQ(broken({.stages = 3}), "stages are as many as the copy can fill");
  EXPECT_EQ(broken({.thread_n = 16, .resident = 4}), "sums and factors fit the registers");
  EXPECT_EQ(broken({.splits = 2}), "splits are cut where k is long enough");
}

/// The first proposals of a search, before anything was measured.
std::vector<CudaWgmma> first_guesses(const char* line) {
  const auto space = space_for(parse_gemm(line).value(), h200());
  std::vector<CudaWgmma> guesses;
  for (const Config& config : Proposer(*space, 1).next(16))
    if (const auto* c = std::get_if<CudaWgmma>(&config)) guesses.push_back(*c);
  return guesses;
}

/// Sums of 8-bit floats that are not promoted are refused where k is long: a search that begins
/// with them may end before it finds a right kernel.
TEST(CudaWgmmaModel, PromotesFirstWhereKIsLong) {
  const auto raw = [](const CudaWgmma& c) { return !c.promote && c.splits == 1; };
  const auto longest = first_guesses("fp8 N T 16384 16384 16384 align=16");
  ASSERT_GE(longest.size(), 8u);
  EXPECT_EQ(std::count_if(longest.begin(), longest.end(), raw), 0);
  const auto shorter = first_guesses("fp8 N T 4096 4096 4096 align=16");
  EXPECT_GE(std::count_if(shorter.begin(), shorter.end(), raw), 4);
  // Cut k is as short as its parts.
  const auto thin = first_guesses("fp8 N T 64 64 65536 align=16");
  EXPECT_TRUE(std::any_of(thin.begin(), thin.end(),
                          [](const CudaWgmma& c) { return !c.promote && c.splits > 4; }));
}

TEST(CudaGemvModel, ShiftsWhereRowsBeginAnywhere) {
  const auto first = [](const char* line) {
    const auto space = space_for(parse_gemm(line).value(), h200()).value();
    return text(*std::min_element(
        space.legal.begin(), space.legal.end(), [&](const auto& x, const auto& y) {
          return predict_ns(space.problem, h200(), x) < predict_ns(space.problem, h200(), y);
        }));
  };
  EXPECT_THAT(first("bf16 N T 3 5000 777"), testing::ContainsRegex("cuda_gemv.* width=0"));
  EXPECT_THAT(first("fp32 N T 2 4096 4095"), testing::ContainsRegex("cuda_gemv.* width=0"));
  EXPECT_THAT(first("fp32 N T 2 4096 4096 align=16"),
              testing::ContainsRegex("cuda_gemv.* width=4"));
}

TEST(CudaFallback, IsLegalEverywhere) {
  for (const char* device : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    const auto caps = cuda_caps_named(device).value();
    for (const char* line :
         {"fp32 N N 1 1 0", "bf16 T T 77 55 33 batch=4", "fp64 N T 1000 3 7", "int8 T N 5 600 33",
          "fp16 N N 33 65 17 order=column epilogue=bias_row+silu", "tf32 N N 100 100 100"}) {
      const auto problem = canonicalise(parse_gemm(line).value());
      const auto config = fallback_config(problem, caps);
      EXPECT_EQ(broken_rule(problem, caps, config), "") << device << ": " << line;
    }
  }
}

TEST(CudaWgmmaRules, NameWhatIsWrong) {
  const auto problem = canonicalise(parse_gemm("bf16 N T 1024 1024 1024 align=16").value());
  const auto broken = [&](CudaWgmma c) { return broken_rule(problem, h200(), c); };
  EXPECT_EQ(broken({}), "");
  EXPECT_EQ(broken({.right = 20}), "the tile is one that the instruction has");
  EXPECT_EQ(broken({.stages = 5}), "stages fit shared memory");
  EXPECT_EQ(broken({.pingpong = true}), "sums fit the registers");
  EXPECT_EQ(broken({.right = 128, .promote = true}), "only 8-bit floats are promoted");
  EXPECT_EQ(broken({.splits = 4}), "splits are cut where k is long enough");
  EXPECT_EQ(broken_rule(problem, cuda_caps_named("sm_80").value(), CudaWgmma{}),
            "the device has wgmma");
  const auto odd = canonicalise(parse_gemm("bf16 N T 1023 1023 1023").value());
  EXPECT_EQ(broken_rule(odd, h200(), CudaWgmma{}), "the copy engine can address A");
  EXPECT_EQ(broken_rule(odd, h200(), CudaWgmma{.pack_a = true}), "the copy engine can address B");
  EXPECT_EQ(broken_rule(odd, h200(), CudaWgmma{.pack_a = true, .pack_b = true}), "");
}

}  // namespace
}  // namespace kiln
