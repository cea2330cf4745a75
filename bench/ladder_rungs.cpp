// The ladders: what each step adds, and the config that has it.
#include <fmt/format.h>

#include <array>

#include "bench/ladder.h"

namespace kiln {
namespace {

constexpr Rung kFp32[] = {
    {"one element a thread, neighbours down a column",
     "cuda_simt block_m=32 block_n=8 block_k=1 thread_m=1 thread_n=1 lanes_m=32 spread=0 width_a=1 "
     "width_b=1 copy=registers stages=0 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"neighbours along a row: whole lines of memory",
     "cuda_simt block_m=8 block_n=32 block_k=1 thread_m=1 thread_n=1 lanes_m=1 spread=0 width_a=1 "
     "width_b=1 copy=registers stages=0 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"32 x 32 x 32 tiles in shared memory",
     "cuda_simt block_m=32 block_n=32 block_k=32 thread_m=1 thread_n=1 lanes_m=1 spread=0 "
     "width_a=1 "
     "width_b=1 copy=registers stages=1 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"8 accumulators a thread, in a column",
     "cuda_simt block_m=64 block_n=64 block_k=8 thread_m=8 thread_n=1 lanes_m=1 spread=0 width_a=1 "
     "width_b=1 copy=registers stages=1 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"8 x 8 accumulators a thread, 128 x 128 x 8 tiles",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=2 spread=0 "
     "width_a=1 "
     "width_b=1 copy=registers stages=1 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"128 bits a read of memory",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=2 spread=0 "
     "width_a=4 "
     "width_b=4 copy=registers stages=1 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"warp tiles: 4 x 8 lanes",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=0 "
     "width_a=4 "
     "width_b=4 copy=registers stages=1 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"sub-warp tiles: a thread's accumulators in quads, spread",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=4 "
     "width_b=4 copy=registers stages=1 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"lines padded by 16 bytes: A turned over without conflicts",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=4 "
     "width_b=4 copy=registers stages=1 ahead=0 lines=padded resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"two stages of shared memory",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=4 "
     "width_b=4 copy=registers stages=2 ahead=0 lines=padded resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"factors read a step ahead, into registers",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=4 "
     "width_b=4 copy=registers stages=2 ahead=1 lines=padded resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"copies that pass registers by, three stages",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=1 "
     "width_b=4 copy=async stages=3 ahead=1 lines=padded resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"8 x 16 accumulators a thread, two blocks a unit",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=16 lanes_m=4 spread=1 "
     "width_a=1 "
     "width_b=4 copy=async stages=3 ahead=1 lines=padded resident=2 sharing=tiles splits=1 "
     "group=8"},
    {"128 x 256 tiles, k by 16",
     "cuda_simt block_m=128 block_n=256 block_k=16 thread_m=8 thread_n=16 lanes_m=4 spread=1 "
     "width_a=1 "
     "width_b=4 copy=async stages=3 ahead=1 lines=padded resident=1 sharing=tiles splits=1 "
     "group=8"},
    {"stream-K: the k of the last waves divided evenly",
     "cuda_simt block_m=128 block_n=128 block_k=16 thread_m=8 thread_n=16 lanes_m=4 spread=1 "
     "width_a=1 "
     "width_b=4 copy=async stages=3 ahead=1 lines=padded resident=2 sharing=stream splits=1 "
     "group=8"},
};

constexpr Rung kFp16[] = {
    {"64 x 64 x 32 tiles in swizzled lines, small instructions",
     "cuda_mma block_m=64 block_n=64 block_k=32 warps_m=2 warps_n=2 stages=2 instruction_k=8 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=0 group=8 splits=1"},
    {"instructions of twice the k",
     "cuda_mma block_m=64 block_n=64 block_k=32 warps_m=2 warps_n=2 stages=2 instruction_k=16 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=0 group=8 splits=1"},
    {"128 x 128 tiles: 64 x 64 a warp",
     "cuda_mma block_m=128 block_n=128 block_k=32 warps_m=2 warps_n=2 stages=2 instruction_k=16 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=0 group=8 splits=1"},
    {"operands read a step ahead, into registers",
     "cuda_mma block_m=128 block_n=128 block_k=32 warps_m=2 warps_n=2 stages=2 instruction_k=16 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=1 group=8 splits=1"},
    {"whole lines of 128 bytes: k by 64",
     "cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=2 stages=2 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=1 group=8 splits=1"},
    {"four stages on their way",
     "cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=2 stages=4 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=1 group=8 splits=1"},
    {"128 x 256 tiles, eight warps",
     "cuda_mma block_m=128 block_n=256 block_k=64 warps_m=2 warps_n=4 stages=4 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=1 group=8 splits=1"},
};

constexpr std::array kLadders{Ladder{"fp32", "fp32 N N 4096 4096 4096 align=16", kFp32},
                              Ladder{"fp16", "fp16 N T 4096 4096 4096 align=16", kFp16}};

}  // namespace

std::span<const Ladder> ladders() { return kLadders; }

Result<Ladder> ladder_named(std::string_view dtype) {
  std::string known;
  for (const Ladder& ladder : kLadders) {
    if (ladder.dtype == dtype) return ladder;
    known += (known.empty() ? "" : ", ") + std::string(ladder.dtype);
  }
  return fail(ErrorCode::bad_input, fmt::format("ladder = {}: must be one of {}", dtype, known));
}

}  // namespace kiln
