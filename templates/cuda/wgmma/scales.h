//% if block_scales
//% if tma_scales
// Scales of blocks of k, which tma_scales.h brings. Expects tile.h, scales_ptx.h.
//% else
// Scales of blocks of k. A stage's lie beside its operands in shared memory; warps of the producer
// that copy no operand bring them.
// Expects abi.h, grid_ptx.h, tile_scheduler.h, ring.h, scales_ptx.h.
//% end
#pragma once

//% if tma_scales
/// What one thread's sums of a stage are multiplied by: scales of two rows in each 64 of A, and of
/// columns that share one.
struct StageScales {
  float left[kSubtiles][2], right[kRightScales];

  static __device__ __forceinline__ StageScales of(u32 from, u32 row_offset, int thread) {
    StageScales to;
    const int in_64 = thread / 32 * 16 + thread % 32 / 4;
    //% if scale_order
    // Those of a stage lie side by side, behind those of the stages before it.
    const u32 left = from + from / 4 % 4 * ((kLeftTile - 1) * 4);
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        to.left[s][half] = load_scale(left + (int(row_offset) + s * 64 + in_64 + half * 8) * 4);
    //% else
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        to.left[s][half] = load_scale(from + (int(row_offset) + s * 64 + in_64 + half * 8) * 16);
    //% end
    _Pragma("unroll") for (int i = 0; i < kRightScales; ++i)
      to.right[i] = load_scale(from + kRightScalesAt + i * 128);
    return to;
  }
  __device__ __forceinline__ float of(int s, int r) const {
    return left[s][r / 2 % 2] * right[r / 4 * 8 / kRightShare];
  }
};
//% else
//% if scale_order
/// Scales from one of a line, of so many, to the line's next: 1 with a `Unit` of 0; else those of a
/// stage lie side by side, in rows of whole units.
template <int Unit>
KILN_DEVICE int scale_step(i64 lines) {
  if constexpr (Unit == 0)
    return 1;
  else
    return int(ceil_div(lines, Unit) * Unit);
}

/// Where one line's scales begin, of which there is one for each stage of all of k; `Lines` lines
/// share them. Null for a line that does not exist.
template <int Lines, int Unit>
KILN_DEVICE const float* scales_of_line(const void* scales, i64 lines, i64 line, i64 batch, i64 k) {
  if (line < 0 || line >= lines) return nullptr;
  const int stages = int((k + kDepth - 1) / kDepth);
  if constexpr (Unit != 0)
    return static_cast<const float*>(scales) + batch * stages * scale_step<Unit>(lines) + line;
  const i64 row = batch * ((lines + Lines - 1) / Lines) + line / Lines;
  return static_cast<const float*>(scales) + row * stages;
}
//% else
/// Where one line's scales begin, of which there is one for each stage of all of k; `Lines` lines
/// share them. Null for a line that does not exist.
template <int Lines>
KILN_DEVICE const float* scales_of_line(const void* scales, i64 lines, i64 line, i64 batch, i64 k) {
  if (line < 0 || line >= lines) return nullptr;
  const i64 row = batch * ((lines + Lines - 1) / Lines) + line / Lines;
  return static_cast<const float*>(scales) + row * ((k + kDepth - 1) / kDepth);
}
//% end

//% if gate
/// The line of B that is number `at` of this block's tile; -1 where there is none.
KILN_DEVICE i64 line_of_b(const KilnGpuArgs& args, const Work& work, int at) {
  constexpr int kTile = kSwap ? kLeftTile : kRightTile;
  const int unit = at / kUnit, factor = unit % 2;
  const i64 j = i64(kSwap ? work.left : work.right) * (kTile / 2) + unit / 2 * kUnit + at % kUnit;
  //% if gate_order == interleaved
  return j < args.n ? 2 * j + factor : -1;
  //% else
  return j < args.n ? factor * args.n + j : -1;
  //% end
}

//% end
/// The line's scales whose current one is number `index` of a stage: those of the right tile come
/// first.
KILN_DEVICE const float* scales_at(const KilnGpuArgs& args, const Work& work, int index) {
  if (index >= kRightScales + kLeftScales) return nullptr;
  //% if k_group_edges
  if (work.k == 0) return nullptr;  // a stage of zeros may lie behind all blocks
  //% end
  //% if lists
  if (args.k == 0) return nullptr;  // a stage of zeros has none
  //% end
  const bool right = index < kRightScales;
  const int at = right ? index * kRightShare : (index - kRightScales) * kLeftShare;
  if (right == kSwap) {
    //% if k_group_edges || lists
    i64 batch = 0, line = i64(kSwap ? work.right * kRightTile : work.left * kLeftTile) + at;
    //% else
    i64 batch = work.batch,
        line = i64(kSwap ? work.right * kRightTile : work.left * kLeftTile) + at;
    //% end
    //% if row_groups && !masked
    // Rows of the matrix that all groups share. Scales beyond the group's meet no row that is
    // stored.
    batch = 0;
    line += work.first_row;
    //% end
    //% if gather
    line = line < args.m ? row_of_a(args, line) : -1;
    //% if scale_order
    return scales_of_line < kSwap ? kRightLines : kLeftLines,
           kUnitA > (args.scale_a, args.rows_of_a, line, batch, args.k);
    //% else
    return scales_of_line < kSwap
               ? kRightLines
               : kLeftLines > (args.scale_a, args.rows_of_a, line, batch, args.k);
    //% end
    //% else
    //% if scale_order
    return scales_of_line < kSwap ? kRightLines : kLeftLines,
           kUnitA > (args.scale_a, args.m, line, batch, args.k);
    //% else
    return scales_of_line < kSwap ? kRightLines
                                  : kLeftLines > (args.scale_a, args.m, line, batch, args.k);
    //% end
    //% end
  }
  //% if gate
  const i64 line = line_of_b(args, work, at), lines = 2 * args.n;
  //% else
  const i64 line = i64(kSwap ? work.left * kLeftTile : work.right * kRightTile) + at,
            lines = args.n;
  //% end
  //% if scale_order
  //% if k_group_edges || lists
  constexpr i64 batch = 0;
  //% else
  const i64 batch = work.batch;
  //% end
  return scales_of_line < kSwap ? kLeftLines : kRightLines,
         kUnitB > (args.scale_b, lines, line, batch, args.k);
  //% else
  //% if k_group_edges || lists
  return scales_of_line < kSwap ? kLeftLines : kRightLines > (args.scale_b, lines, line, 0, args.k);
  //% else
  return scales_of_line < kSwap ? kLeftLines
                                : kRightLines > (args.scale_b, lines, line, work.batch, args.k);
  //% end
  //% end
}
//% if scale_order

/// Whether scale `index` of a stage is one of A's.
KILN_DEVICE bool is_of_a(int index) { return (index < kRightScales) == kSwap; }
KILN_DEVICE const float* first_scale(const KilnGpuArgs& args, int index) {
  return static_cast<const float*>(is_of_a(index) ? args.scale_a : args.scale_b);
}

/// From scale `index` of a stage to that of the stage behind it.
KILN_DEVICE int step_of_scale(const KilnGpuArgs& args, int index) {
  //% if gate
  const i64 lines_of_b = 2 * args.n;
  //% else
  const i64 lines_of_b = args.n;
  //% end
  return is_of_a(index) ? scale_step<kUnitA>(args.m) : scale_step<kUnitB>(lines_of_b);
}
//% end

/// Where scale `index` lies in a stage, so that a lane reads several at once: reads of scales
/// compete with those of the instructions that multiply.
KILN_DEVICE constexpr int place_of_scale(int index) {
  if (index < kRightScales)
    return kRightShare == 1 ? index % 8 / 2 * kLaneScales + index / 8 * 2 + index % 2 : index;
  const int row = index - kRightScales;
  // A lane's two rows lie beside each other.
  return kRightPlaces + (kLeftShare == 1 ? (row / 16 * 8 + row % 8) * 2 + row / 8 % 2 : row);
}

//% if scales_at_once
constexpr int kScaleChunk = 2;
//% else
constexpr int kScaleChunk = 4;  // stages whose scales are read together
//% end

//% if scale_order
constexpr u32 kNoScale = ~0u;

/// Scale number `from` of the operand that scale `index` of a stage is of; `from` becomes the next
/// stage's. Numbers, of 31 bits, take half the registers that addresses do.
KILN_DEVICE float next_scale(const KilnGpuArgs& args, int index, u32& from, bool exists) {
  if (from == kNoScale || !exists) return 0.0f;
  const float scale = first_scale(args, index)[from];
  from += step_of_scale(args, index);
  return scale;
}

/// What each of kScaleWarps warps does. Lanes read neighbouring lines' scales, each of a stage
/// kScaleChunk ahead of the one that it hands out.
KILN_DEVICE void copy_scales(const Shared& shared, TileScheduler scheduler, const KilnGpuArgs& args,
                             int warp, int lane) {
  constexpr int kLanes = kScaleWarps * 32;
  constexpr int kEach = (kLeftScales + kRightScales + kLanes - 1) / kLanes;  // of a lane
  const int first_index = warp * 32 + lane;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  wait_for_previous_grid();
  //% if lists
  const KilnGpuArgs& whole = args;
  //% end
  for (; more; more = scheduler.take(work)) {
    //% if lists
    const KilnGpuArgs args = args_of_product(whole, work.batch);
    //% end
    u32 from[kEach];
    float ahead[kEach][kScaleChunk];
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      const int index = first_index + e * kLanes;
      const float* first = scales_at(args, work, index);
      from[e] = first == nullptr ? kNoScale
                                 : u32(first - first_scale(args, index)) +
                                       u32(work.begin) * step_of_scale(args, index);
    }
    _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j)
      _Pragma("unroll") for (int e = 0; e < kEach; ++e)
        ahead[e][j] = next_scale(args, first_index + e * kLanes, from[e], j < work.count);
    _Pragma("unroll 1") for (int first = 0; first < work.count; first += kScaleChunk) {
      _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) {
        if (first + j >= work.count) break;
        mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
        const u32 to = shared.scales + turn.stage * kScaleBytes;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
          const int index = first_index + e * kLanes;
          if (index < kRightScales + kLeftScales)
            store_scale(to + place_of_scale(index) * 4, ahead[e][j]);
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared.full + turn.stage * 8);
        turn.step();
        _Pragma("unroll") for (int e = 0; e < kEach; ++e)
          ahead[e][j] = next_scale(args, first_index + e * kLanes, from[e],
                                   first + j + kScaleChunk < work.count);
      }
    }
  }
}
//% else
/// The scales of a chunk, of which `count` exist: by one read where they are aligned. Each line
/// that a warp reads is an access of its own of L1, which is shared memory too.
KILN_DEVICE void read_scales(float (&to)[kScaleChunk], const float* from, int count) {
  //% if !scales_at_once
  if (count >= kScaleChunk && from != nullptr && (reinterpret_cast<u64>(from) & 15) == 0) {
    read_four_scales(to, from);
    return;
  }
  //% end
  _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j)
    to[j] = from != nullptr && j < count ? from[j] : 0.0f;
}

//% if scales_at_once
/// What each of kScaleWarps warps does. A lane brings so many scales that its registers hold one
/// chunk.
//% else
/// What each of kScaleWarps warps does. A chunk is read while the one before it is handed out.
//% end
KILN_DEVICE void copy_scales(const Shared& shared, TileScheduler scheduler, const KilnGpuArgs& args,
                             int warp, int lane) {
  constexpr int kLanes = kScaleWarps * 32;
  constexpr int kEach = (kLeftScales + kRightScales + kLanes - 1) / kLanes;  // of a lane
  const int first_index = warp * 32 + lane;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  wait_for_previous_grid();
  //% if lists
  const KilnGpuArgs& whole = args;
  //% end
  for (; more; more = scheduler.take(work)) {
    //% if lists
    const KilnGpuArgs args = args_of_product(whole, work.batch);
    //% end
    const float* from[kEach];
    //% if scales_at_once
    float now[kEach][kScaleChunk];
    //% else
    float now[kEach][kScaleChunk], next[kEach][kScaleChunk];
    //% end
    _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
      from[e] = scales_at(args, work, first_index + e * kLanes);
      if (from[e]) from[e] += work.begin;
      //% if !scales_at_once
      read_scales(next[e], from[e], work.count);
      //% end
    }
    _Pragma("unroll 1") for (int first = 0; first < work.count; first += kScaleChunk) {
      _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
        //% if scales_at_once
        read_scales(now[e], from[e], work.count - first);
        if (from[e] != nullptr) from[e] += kScaleChunk;
        //% else
        _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) now[e][j] = next[e][j];
        if (from[e] != nullptr) from[e] += kScaleChunk;
        read_scales(next[e], from[e], work.count - first - kScaleChunk);
        //% end
      }
      _Pragma("unroll") for (int j = 0; j < kScaleChunk; ++j) {
        if (first + j >= work.count) break;
        mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
        const u32 to = shared.scales + turn.stage * kScaleBytes;
        _Pragma("unroll") for (int e = 0; e < kEach; ++e) {
          const int index = first_index + e * kLanes;
          if (index < kRightScales + kLeftScales)
            store_scale(to + place_of_scale(index) * 4, now[e][j]);
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared.full + turn.stage * 8);
        turn.step();
      }
    }
  }
}
//% end

/// What one thread's sums of a stage are multiplied by: scales of two rows in each 64 of the left
/// operand, or of all 64, and of its columns or of columns that share one.
struct StageScales {
  static constexpr int kRows = kLeftShare < 64 ? 2 : 1;
  static constexpr int kColumns = kRightShare == 1 ? kSums / 2 : kRightScales;
  static constexpr int kReads = (kColumns + 3) / 4;
  float left[kSubtiles][2], right[kReads][4];

  static __device__ __forceinline__ StageScales of(u32 from, u32 row_offset, int thread) {
    StageScales to;
    const u32 first_right = kRightShare == 1 ? from + thread % 4 * (kLaneScales * 4) : from;
    _Pragma("unroll") for (int i = 0; i < kReads; ++i)
      load_scales(to.right[i], first_right + i * 16);
    const int in_64 = kRows == 2 ? thread / 32 * 16 + thread % 32 / 4 : 0;
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s) {
      const int row = int(row_offset) + s * 64 + in_64;
      if constexpr (kLeftShare == 1) {
        load_scales(to.left[s], from + place_of_scale(kRightScales + row) * 4);
      } else {
        _Pragma("unroll") for (int half = 0; half < kRows; ++half)
          to.left[s][half] =
              load_scale(from + place_of_scale(kRightScales + (row + half * 8) / kLeftShare) * 4);
      }
    }
    return to;
  }
  __device__ __forceinline__ float of(int s, int r) const {
    const int column = kRightShare == 1 ? r / 4 * 2 + r % 2 : r / 4 * 8 / kRightShare;
    return left[s][kRows == 2 ? r / 2 % 2 : 0] * right[column / 4][column % 4];
  }
};
//% end
//% end
