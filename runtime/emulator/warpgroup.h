// Warpgroup matrix instructions in flight: what was issued, by which lanes, what has been computed.
// Sums are taken out of the lanes' registers when an instruction is issued and put back when a lane
// has waited for it; meanwhile the registers hold NaN. Knows no scheduling.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "templates/emu/abi.h"

namespace kiln::emu {

inline constexpr int kWarpgroupLanes = 128;

/// What an instruction's name and its operands' text say.
struct WgmmaShape {
  enum class Type : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8 };
  int n = 0, k = 0;
  Type a = Type::bf16, b = Type::bf16;
  bool integer = false;                     // sums are s32, else f32
  bool a_registers = false;                 // A comes from the lanes' registers
  bool a_across = false, b_across = false;  // rows are neighbours, not k
  bool negate_a = false, negate_b = false;
};
/// Nothing when the instruction is not one that the machine knows.
bool parse_wgmma(std::string_view name, std::string_view operands, WgmmaShape& shape);

/// 64 × n sums of a warpgroup, row by row, as f32 or s32.
struct AccumulatorTile {
  std::vector<std::uint32_t> bits;
};

struct WgmmaOp {
  KilnEmuWgmma issued{};
  std::shared_ptr<AccumulatorTile> tile;
  int lanes = 0;  // that have issued it
  /// The lanes' words of A: read when the instruction is executed, so that what was overwritten
  /// before it was waited for gives wrong sums.
  std::array<const unsigned*, kWarpgroupLanes> words{};
};

struct Warpgroup {
  std::deque<WgmmaOp> ops;     // the first one has number `executed`
  std::uint64_t executed = 0;  // operations done
};

struct WarpgroupLane {
  struct Held {
    void* sums;
    int count;
    std::shared_ptr<AccumulatorTile> tile;
    std::uint64_t last;  // number of the last operation on it, from 1
  };
  std::uint64_t issued = 0;
  std::vector<std::uint64_t> groups;  // operations issued before each commit
  std::vector<Held> held;
  bool fenced = false;
};

}  // namespace kiln::emu
