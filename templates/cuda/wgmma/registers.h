//% if left_registers
// The left operand from registers. The instruction reads what lies across k from shared memory for
// 2-byte types alone; words of 4 bytes are fetched by each lane as the instruction wants them and
// handed over in registers. Expects registers_ptx.h.
#pragma once

constexpr int kSteps = 4;           // instructions of a stage, 8 k each
constexpr int kLeftBlockRows = 32;  // rows that lie side by side, 128 bytes

/// One lane's words of the left operand's rows in a stage.
struct LeftWords {
  u32 words[kSteps][kWarpgroupRows / 64][4];
};

/// What one lane fetches of 64 rows and 8 k: rows r and r + 8 of its warp's 16, k t and t + 4. Each
/// of the four fetches takes another of these by the lane's t: then no two lanes of a warp meet in
/// a bank, which with one of them for all lanes every second pair would.
struct LeftLane {
  u32 offsets[4];
  u32 turn;  // t: fetch j brings word j ^ t

  static __device__ __forceinline__ LeftLane of(u32 row_offset, int thread) {
    const u32 warp = u32(thread) / 32, g = u32(thread) % 32 / 4, t = u32(thread) % 4;
    LeftLane lane;
    lane.turn = t;
    _Pragma("unroll") for (u32 j = 0; j < 4; ++j) {
      const u32 word = j ^ t, row = warp * 16 + g + word % 2 * 8, k = t + word / 2 * 4;
      // As the copy engine laid it: 16-byte units of a line exchanged by the line's number.
      lane.offsets[j] = row_offset * 128 + row / kLeftBlockRows * (kDepth * 128) + k * 128 +
                        ((row % kLeftBlockRows / 4) ^ k) * 16 + row % 4 * 4;
    }
    return lane;
  }

  /// A stage's words as they are fetched.
  __device__ __forceinline__ void fetch(LeftWords& to, u32 stage) const {
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step)
      _Pragma("unroll") for (int block = 0; block < kWarpgroupRows / 64; ++block)
        _Pragma("unroll") for (int j = 0; j < 4; ++j)
          load_shared_one(to.words[step][block][j],
                          stage + offsets[j] + u32(step * 8 * 128 + block * 64 * 128));
  }

  /// The same in the order that the instruction wants.
  __device__ __forceinline__ void order(LeftWords& to, const LeftWords& fetched) const {
    const bool odd = turn % 2 != 0, high = turn / 2 != 0;
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step)
      _Pragma("unroll") for (int block = 0; block < kWarpgroupRows / 64; ++block) {
        const u32(&x)[4] = fetched.words[step][block];
        u32(&y)[4] = to.words[step][block];
        const u32 pairs[4] = {odd ? x[1] : x[0], odd ? x[0] : x[1], odd ? x[3] : x[2],
                              odd ? x[2] : x[3]};
        _Pragma("unroll") for (int j = 0; j < 4; ++j) {
          y[j] = high ? pairs[j ^ 2] : pairs[j];
          pin_word(y[j]);
        }
      }
  }
};
//% end
