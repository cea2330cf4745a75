// From memory to the registers of matrix instructions: packed codes of 8, 6 or 4 bits by way of
// shared memory, and their scales. Rows lie along k in memory. In shared memory a row is followed
// by 16 bytes of nothing, so that lanes that read one column of units meet different banks. Expects
// device.h, memory.h.
#pragma once

constexpr int kGroupsOfK = 64 / kRows;       // lanes that share a row
constexpr int kStepK = 32 * kGroupsOfK;      // of one instruction
constexpr int kSteps = kTileK / kStepK;      // of one stage
constexpr int kBlocksOfStage = kTileK / 32;  // that have a scale, of one row
static_assert(kSteps * kStepK == kTileK, "a stage is whole instructions deep");

/// A tile's rows of one operand: where they are, and how far along k they have been read.
template <int Rows, int Bits, int Width>
struct Operand {
  static constexpr int kRowBytes = kTileK * Bits / 8, kPitch = kRowBytes + 16;
  static constexpr int kUnits = kRowBytes / 16;            // of 16 bytes, of one row
  static constexpr int kCount = Rows * kUnits / kThreads;  // units of a thread
  static_assert(Rows * kUnits % kThreads == 0, "threads share a tile's units evenly");
  const u8* at;
  u32 pitch;       // bytes
  u32 rows_bytes;  // of all rows but the last
  i32 left;        // bytes of a row

  static KILN_MEMBER Operand start(const void* base, i64 ld, i64 row, i64 rows, i64 begin,
                                   i64 end) {
    Operand o;
    const i64 there = rows - row < Rows ? rows - row : Rows;
    o.pitch = u32(ld * Bits / 8);
    o.at = static_cast<const u8*>(base) + row * o.pitch + begin * Bits / 8;
    o.rows_bytes = u32(there - 1) * o.pitch;
    o.left = i32((end - begin) * Bits / 8);
    return o;
  }

  /// The next stage into registers; what does not exist is zero.
  KILN_MEMBER void load(U32x4 (&unit)[kCount], u32 thread) {
    const Buffer from = buffer_of(at, rows_bytes + u32(left));
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, along = slot % kUnits * 16;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 offset = slot / kUnits * pitch + along + p;
        //% if ragged_k
        if (i32(along + p) >= left) offset = kOutside;
        //% end
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, offset);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
    at += kRowBytes;
    left -= kRowBytes;
  }
  static KILN_MEMBER void store(const U32x4 (&unit)[kCount], u32 to, u32 thread) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      ds_write_b128(to + slot / kUnits * kPitch + slot % kUnits * 16, unit[i]);
    }
  }

  /// One lane's codes for step number `step`: where the instruction looks for each k depends on
  /// their width. `group` counts the lanes that share `row`.
  static KILN_MEMBER Codes read(u32 from, u32 row, u32 step, u32 group) {
    const u32 first = from + row * kPitch + step * (kStepK * Bits / 8);
    u32 words[8] = {};
    const auto take = [&words](int to, u32 address) {
      const U32x4 four = ds_read_b128(address);
      KILN_UNROLL for (int w = 0; w < 4; ++w) words[to + w] = four[w];
    };
    if constexpr (Bits == 8) {
      take(0, first + group * 16);
      take(4, first + (kGroupsOfK + group) * 16);
    } else if constexpr (Bits == 4) {
      take(0, first + group * 16);
    } else {
      static_assert(Bits == 6, "codes have 8, 6 or 4 bits");
      // 24 bytes, of which every other lane's begin in the middle of a unit.
      const u32 begin = group * 24, unit = first + begin / 16 * 16;
      const U32x4 low = ds_read_b128(unit), high = ds_read_b128(unit + 16);
      // By value: a choice between places in an array would keep the array in memory.
      const bool half = begin % 16 != 0;
      words[0] = half ? low[2] : low[0];
      words[1] = half ? low[3] : low[1];
      words[2] = half ? high[0] : low[2];
      words[3] = half ? high[1] : low[3];
      words[4] = half ? high[2] : high[0];
      words[5] = half ? high[3] : high[1];
    }
    return bits_as<Codes>(words);
  }
};

/// Scales of a wave's rows of one operand, a byte for each 32 along k.
template <int Blocks>
struct Scales {
  static constexpr int kWords = kBlocksOfStage / 4;  // of one row in one stage
  static_assert(kWords * 4 == kBlocksOfStage && kSteps <= 4, "a register holds a row's steps");
  u32 words[Blocks][kWords];

  /// `at` points to the scales of the tile's first row in this stage, `rows` of which exist; `row`
  /// is the lane's own in the wave's first block of them.
  KILN_MEMBER void load(const u8* at, u32 pitch, u32 rows, u32 row, i32 left) {
    const u32 last = u32(left < kBlocksOfStage ? left : kBlocksOfStage);
    const Buffer from = buffer_of(at, (rows - 1) * pitch + last);
    KILN_UNROLL for (int b = 0; b < Blocks; ++b) {
      KILN_UNROLL for (int w = 0; w < kWords; ++w) words[b][w] = 0;
      KILN_UNROLL for (int p = 0; p < kBlocksOfStage; p += kScaleWidth) {
        u32 offset = (row + b * kRows) * pitch + p;
        //% if ragged_k
        // Beyond k lie the next row's: a NaN among them would spoil zeros.
        if (i32(p) >= left) offset = kOutside;
        //% end
        u32 piece[1];
        buffer_load<kScaleWidth>(piece, from, offset);
        words[b][p / 4] |= piece[0] << (p % 4 * 8);
      }
    }
  }
  /// Byte s is that of step s for the lane's share of k.
  KILN_MEMBER u32 of_steps(int block, u32 group) const {
    u32 all = 0;
    KILN_UNROLL for (int s = 0; s < kSteps; ++s) {
      const u32 byte = s * kGroupsOfK % 4 + group;
      all |= (words[block][s * kGroupsOfK / 4] >> (byte * 8) & 0xff) << (s * 8);
    }
    return all;
  }
};
