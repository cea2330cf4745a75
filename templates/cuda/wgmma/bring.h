//% if bring
// Matrices of D's shape that an expression reads come by the copy engine while a tile is
// multiplied, in parts of some turns each. They lie in the ring, behind the tile's stages. Where
// warpgroups take turns, one would wait for places that the other still reads: there parts have
// places of their own. Expects epilogue.h, hopper_ptx.h, tile_scheduler.h, ring.h.
#pragma once

// A part of a tile of D: of each warpgroup 64 left rows by kPartRight right ones.
//% if gate && swap
constexpr int kLeftOfGroup = kWarpgroupRows / 2, kLeftOfTile = kLeftTile / 2;
//% else
constexpr int kLeftOfGroup = kWarpgroupRows, kLeftOfTile = kLeftTile;
//% end
//% if gate && !swap
constexpr int kRightOfTile = kRightTile / 2;
//% else
constexpr int kRightOfTile = kRightTile;
//% end
constexpr int kPartsOf64 = kRightOfTile / kPartRight;
static_assert(kParts == kLeftOfGroup / 64 * kPartsOf64);

/// A warpgroup's part of a matrix in shared memory: boxes of kBox bytes of each line, whose units
/// of 16 bytes the copy engine exchanges. kOfRow: lines are rows of D.
template <typename T, bool kOfRow>
struct Brought {
  static constexpr bool kAlongRight = kOfRow != kSwap;
  static constexpr int kLines = kAlongRight ? 64 : kPartRight;
  static constexpr int kLength = kAlongRight ? kPartRight : 64, kSize = int(sizeof(T));
  static constexpr int kBox = kLength * kSize % 128 == 0  ? 128
                              : kLength * kSize % 64 == 0 ? 64
                              : kLength * kSize % 32 == 0 ? 32
                                                          : 16;
  static constexpr int kBytes = kLines * kLength * kSize;
};
/// Their tensor maps.
struct BroughtMaps {
  //% include expression/brought_members
};
//% include expression/brought_sizes
//% if pingpong
static_assert(kPartBytes == kBroughtBytes);

/// Where among the parts' places a warp is, and the parity of its barriers: a place is free when
/// the tile before has been read, and each warpgroup has a barrier of its own that says when its
/// tile's part is there, because a warp cannot wait for a phase behind the next one.
struct PartTurn {
  int place = 0;
  u32 parity = 0;
  __device__ __forceinline__ void step() {
    if (++place == kParts) {
      place = 0;
      parity ^= 1;
    }
  }
};
//% else
static_assert(kRegions * kBroughtBytes <= kStageBytes, "a part lies in one place of the ring");
using PartTurn = Turn;
//% end

KILN_DEVICE bool in_units(const void* from) { return (reinterpret_cast<u64>(from) & 15) == 0; }
/// Whether the copy engine can bring all of them.
KILN_DEVICE bool brings(const Output& out) {
  //% include expression/brought_fit
}
KILN_DEVICE Output output_under(const KilnGpuArgs& args, const Work& work) {
  //% if row_groups
  return output_of_group(args, work.batch, work.first_row, work.rows);
  //% end
  //% if k_groups
  return output_of_group(args, work.batch);
  //% end
  //% if !groups
  return output_of(args, work.batch);
  //% end
}

/// Copies a warpgroup's part of a matrix: from (left, right) of D's tile on.
template <typename T, bool kOfRow>
KILN_DEVICE u32 bring_lines(u32 to, u32 barrier, const KilnTensorMap* map, int left, int right,
                            int first_row, int batch) {
  using Lines = Brought<T, kOfRow>;
  const int row = first_row + (kSwap ? right : left), column = kSwap ? left : right;
  _Pragma("unroll") for (int box = 0; box < Lines::kLength * Lines::kSize / Lines::kBox; ++box) {
    const int along = box * (Lines::kBox / Lines::kSize);
    tma_load_3d(to + box * (Lines::kLines * Lines::kBox), map, barrier,
                (kOfRow ? column : row) + along, kOfRow ? row : column, batch, kBroughtHint);
  }
  return to + Lines::kBytes;
}

/// All parts of a tile.
KILN_DEVICE void bring_tile(const Shared& shared, PartTurn& turn, const KilnGpuArgs& args,
                            const BroughtMaps& maps, const Work& work) {
  if (!brings(output_under(args, work))) return;
  //% if row_groups && !masked
  const int first_row = work.first_row, batch = 0;
  //% else
  const int first_row = 0, batch = work.batch;
  //% end
  _Pragma("unroll 1") for (int part = 0; part < kParts; ++part) {
    //% if pingpong
    // Of the tiles every other one is each warpgroup's.
    mbarrier_wait(shared.parts_empty + turn.place * 8, turn.parity ^ 1);
    const u32 barrier = shared.parts_full + (turn.parity * kParts + turn.place) * 8;
    u32 to = shared.parts + turn.place * kPartBytes;
    //% else
    mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
    const u32 barrier = shared.full + turn.stage * 8;
    u32 to = shared.ring + turn.stage * kStageBytes;
    //% end
    mbarrier_expect(barrier, kRegions * kBroughtBytes);
    const int right = work.right * kRightOfTile + part % kPartsOf64 * kPartRight;
    _Pragma("unroll") for (int region = 0; region < kRegions; ++region) {
      const int left = work.left * kLeftOfTile + region * kLeftOfGroup + part / kPartsOf64 * 64;
      //% include expression/brought_lines
    }
    turn.step();
  }
}
//% end
