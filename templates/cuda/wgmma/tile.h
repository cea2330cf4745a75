// Sizes of a tile and of what shared memory holds for it. "Left" is the operand whose rows are the
// instruction's 64 rows, "right" the one whose rows are its columns; kSwap says that left is B, so
// that D's tile is computed transposed. Expects types.h.
#pragma once

constexpr int kCluster = kClusterLeft * kClusterRight;
//% if weights
constexpr int kLeftBytes = kLeftTile * kCodePitch;             // of one stage
constexpr int kRightBytes = kRightTile * (kDepth / 64) * 128;  // lines of 64 k
//% else
constexpr int kLeftBytes = kLeftTile * 128;  // of one stage
constexpr int kRightBytes = (kRightAcrossK ? (kRightTile + 63) / 64 * 64 : kRightTile) * 128;
//% end
//% if halves
constexpr int kStageBytes = 2 * (kLeftBytes + kRightBytes);  // both parts of either
//% else
constexpr int kStageBytes = kLeftBytes + kRightBytes;
//% end
constexpr int kSubtiles = kWarpgroupRows / 64;  // of one warpgroup
constexpr int kThreads = (kWarpgroups + 1) * 128;
//% if store != direct
constexpr int kBufferBytes = 16 * kChunk * int(sizeof(TypeD));  // of a warp's part of D
//% if scale_d && scale_d != tensor && swap
// Behind the buffers, of each warp the largest magnitudes of the tile's rows of D, and of each
// warpgroup the reciprocals of their scales.
constexpr int kLargestAt = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
constexpr int kStoreBytes = kLargestAt + kWarpgroups * 5 * kRightTile * 4;
//% end
//% if scale_pairs
constexpr int kMeetingAt = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
//% end
//% if !scale_d || scale_d == tensor || !swap && !scale_pairs
constexpr int kStoreBytes = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
//% end
//% else
//% if scale_d && scale_d != tensor && swap
constexpr int kLargestAt = 0, kStoreBytes = kWarpgroups * 5 * kRightTile * 4;
//% end
//% if scale_pairs
constexpr int kMeetingAt = 0;
//% end
//% if !scale_d || scale_d == tensor || !swap && !scale_pairs
constexpr int kStoreBytes = 0;
//% end
//% end
//% if scale_pairs
// Behind the buffers, of each warp two places for the largest magnitudes of its rows in the other
// block's tile, and their barriers.
constexpr int kMeetingBytes = kSubtiles * 16 * 4;  // of a place
constexpr int kMeetings = kWarpgroups * 4 * 2;
constexpr int kMeetingBarriersAt = kMeetingAt + kMeetings * kMeetingBytes;
constexpr int kStoreBytes = (kMeetingBarriersAt + kMeetings * 8 + 127) / 128 * 128;
//% end
static_assert(kRightTile / kClusterLeft % 8 == 0, "a block copies whole swizzle atoms");
//% if tma_scales
// Scales of four stages come together, by the copy engine: four of each left row and, behind them,
// of every kRightShare rows of the right tile, those in lines of 128 bytes, where copies may begin.
// A stage is copied when the one kStages before it has been read, so that so many places suffice.
constexpr int kScaleStages = 4,
              kScalePlaces = (kStages + kScaleStages - 1 + kScaleStages - 1) / kScaleStages;
constexpr int kRightScales = kRightTile / kRightShare, kRightScalesAt = kLeftTile * 16;
constexpr int kCopiedScaleBytes = (kLeftTile + kRightScales) * 16;
constexpr int kScaleBytes = kRightScalesAt + kRightScales * 128;  // of a place
//% end
//% if block_scales && !weights && !tma_scales
// A stage has one scale for every kRightShare rows of the right tile and, behind them, one for
// every kLeftShare of the left one. Where each right row has its own, those of one lane (of lanes
// that are equal modulo 4) lie together, in kLaneScales words: a pitch at which four lanes read
// from different banks.
constexpr int kLeftScales = kLeftTile / kLeftShare, kRightScales = kRightTile / kRightShare;
constexpr int kLaneScales = ((kRightTile + 15) / 16 + ((kRightTile + 15) / 16 % 4 == 0)) * 4;
constexpr int kRightPlaces = kRightShare == 1 ? 4 * kLaneScales : (kRightScales + 3) / 4 * 4;
constexpr int kScaleBytes = (kRightPlaces + kLeftScales + 3) / 4 * 16;
constexpr int kScaleWarps = kLeftScales + kRightScales > 64   ? 3
                            : kLeftScales + kRightScales > 32 ? 2
                                                              : 1;  // that bring them
//% end
