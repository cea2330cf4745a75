// Copies a stage of both operands into the ring. Included by multiply.cu in its loops over stages.
// It would take a product in a call outside a function for a pointer:
// clang-format off
#pragma once

mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
const u32 barrier = shared.full + turn.stage * 8;
const u32 to = shared.ring + turn.stage * kStageBytes;
//% if round_weights
const int stage = work.begin * kTurn + i;
//% else
const int stage = work.begin + i;
//% end
mbarrier_expect(barrier, kStageBytes);
//% if gate
// The map counts factors as batches.
_Pragma("unroll") for (int unit = 0; unit < 2 * kWarpgroups; ++unit)
  tma_load_3d(to + unit * kFactorBytes, left, barrier, stage * kCodePitch,
              work.left * kColumns + unit / 2 * 64, work.batch * 2 + unit % 2, kLeftHint);
//% else
tma_load_3d(to, left, barrier, stage * kCodePitch, work.left * kLeftTile, work.batch,
            kLeftHint);
//% end
_Pragma("unroll") for (int line = 0; line < kDepth / 64; ++line)
  //% if row_groups && !masked
  // Rows of the matrix that all groups share; those of the next group are not stored.
  tma_load_3d(to + kLeftBytes + line * kRightTile * 128, right, barrier,
              stage * kDepth + line * 64, work.first_row + work.right * kRightTile, 0,
              kRightHint);
  //% else
  tma_load_3d(to + kLeftBytes + line * kRightTile * 128, right, barrier,
              stage * kDepth + line * 64, work.right * kRightTile, work.batch, kRightHint);
  //% end
turn.step();
