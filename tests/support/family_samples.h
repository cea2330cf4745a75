// What the tests have of each family. A new family adds its rows here;
// tests/unit/generator/families_test.cpp fails when one is missing.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln::test {

/// Where the emulator runs sampled configs of a GPU family on random problems, emulated_test.cpp.
struct Target {
  const char* arch;
  const char* family;
  int configs;
  std::int64_t largest;  // size of a problem
  int units = 6;         // few: persistent blocks then take several tiles each
  int tries = 20;        // to draw a problem that has what is wanted, for each config
  /// At least one config of every type that the target has. Without it where another target of the
  /// family has the same instructions.
  bool every_type = true;
};

inline constexpr Target kDrawnOnTheEmulator[] = {
    {"gfx90a", "hip_mfma", 8, 200},
    {"gfx942", "hip_mfma", 8, 200},
    {"gfx950", "hip_mfma", 8, 200},
    {.arch = "gfx90a", .family = "hip_simt", .configs = 4, .largest = 100, .every_type = false},
    {"gfx942", "hip_simt", 8, 100},
    {.arch = "gfx950", .family = "hip_simt", .configs = 4, .largest = 100, .every_type = false},
    {.arch = "gfx1100", .family = "hip_simt", .configs = 4, .largest = 100, .every_type = false},
    {.arch = "gfx1200", .family = "hip_simt", .configs = 4, .largest = 100, .every_type = false},
    {"sm_90a", "cuda_wgmma", 8, 300},
    {.arch = "sm_75", .family = "cuda_simt", .configs = 4, .largest = 150, .every_type = false},
    {.arch = "sm_80", .family = "cuda_simt", .configs = 4, .largest = 150, .every_type = false},
    {"sm_90a", "cuda_simt", 8, 150},
    {"sm_75", "cuda_mma", 8, 150},
    {"sm_80", "cuda_mma", 8, 150},
    {"sm_89", "cuda_mma", 8, 150},
    {"sm_90a", "cuda_mma", 8, 150},
    {.arch = "sm_80", .family = "cuda_gemv", .configs = 4, .largest = 200, .every_type = false},
    {"sm_90a", "cuda_gemv", 8, 200},
    {.arch = "sm_80", .family = "cuda_gemv_n", .configs = 4, .largest = 200, .every_type = false},
    {"sm_90a", "cuda_gemv_n", 8, 200},
};

/// Families whose problems no general draw gives, with the test file that draws them.
struct DrawnElsewhere {
  const char* family;
  const char* file;  // of the family's folder
};
inline constexpr DrawnElsewhere kDrawnElsewhere[] = {
    {"hip_mx", "emulated_mx_test.cpp"},  // pairs of MX formats
    {"cuda_weights", "emulated_weights_test.cpp"},
    {"cuda_wgmma_weights", "emulated_wgmma_weights_test.cpp"},
    {"cuda_gemv_weights", "emulated_gemv_weights_test.cpp"},
    {"cuda_small", "emulated_small_test.cpp"},
};

/// A problem of which the family has configs, and one of them.
struct FamilySample {
  const char* family;
  const char* device;  // as caps_named knows it
  const char* shape;
  const char* config;
  /// Why no bugs are planted in this family's kernels; null: they are.
  const char* no_planted_bugs = nullptr;
};

/// CPU kernels run natively in the process of the test.
inline constexpr const char* kRunsNatively =
    "a planted bug may write anywhere in the test's process; tests/unit/tuner/verify_test.cpp "
    "plants "
    "faults in a plain loop instead, and sanitizers run the kernels as they are";

inline constexpr FamilySample kFamilySamples[] = {
    {"host_packed", "avx2", "fp32 N N 33 40 70",
     "host_packed isa=avx2 mr=4 nv=3 kc=32 mc=96 nc=768 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0"},
    {"host_dot", "avx2", "fp32 N T 5 40 70",
     "host_dot isa=avx2 mr=2 nr=4 kc=0 mc=0 parallel=none prefetch=0"},
    {"host_small", "avx2", "fp32 N N 13 24 9",
     "host_small isa=avx2 bytes=32 mr=4 nv=2 unroll=1 parallel=none", kRunsNatively},
    {"host_amx", "amx", "bf16 N T 40 50 70",
     "host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none", kRunsNatively},
    {"host_weights", "avx2", "bf16_uint4 N T 3 21 224 group=32 zero=int",
     "host_weights isa=avx2 pairs=0 mr=2 nr=3 ahead=1 parallel=none"},
    {"host_amx_weights", "amx", "bf16_uint4 N T 37 41 320 group=64 zero=int",
     "host_amx_weights isa=amx mt=2 nt=1 kc=128 nc=32 mc=32 parallel=none"},
    {"cuda_wgmma", "sm_90a", "bf16 N T 130 70 100 lda=104 ldb=104 ldc=72 ldd=72 align=16",
     "cuda_wgmma left=64 right=64 stages=3 warpgroups=1 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0"},
    {"cuda_mma", "sm_80", "bf16 N T 71 75 100 lda=104 ldb=104 ldc=80 ldd=80 align=16",
     "cuda_mma block_m=64 block_n=64 block_k=32 warps_m=2 warps_n=2 stages=3 instruction_k=16 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=0 group=8 splits=1"},
    {"cuda_simt", "sm_80", "fp32 N T 75 83 61",
     "cuda_simt block_m=32 block_n=32 block_k=8 thread_m=4 thread_n=4 lanes_m=4 spread=1 width_a=1 "
     "width_b=1 copy=registers stages=2 ahead=1 lines=padded resident=1 sharing=tiles splits=1 "
     "group=4"},
    {"cuda_gemv", "sm_90a", "bf16 N T 3 101 777 lda=779 ldb=781 align=2",
     "cuda_gemv rows=2 width=0 warps=4 swap=0"},
    {"cuda_gemv_n", "sm_90a", "bf16 N N 3 301 777 lda=779 ldb=303 align=2",
     "cuda_gemv_n thin=4 warps=8 ahead=1 words=2 splits=3 matrix=1 swap=0"},
    {"cuda_weights", "sm_80", "bf16_uint4 N T 11 83 384 group=64 zero=int",
     "cuda_weights tile_n=64 tile_m=16 block_k=64 warps=2 stages=3 group=8 splits=2"},
    {"cuda_wgmma_weights", "sm_90a",
     "bf16_uint4 N T 51 83 384 group=64 zero=int ldc=88 ldd=88 align=16",
     "cuda_wgmma_weights tile_m=32 warpgroups=2 block_k=64 stages=3 sharing=split splits=2 "
     "group=8"},
    {"cuda_gemv_weights", "sm_80",
     "bf16_uint4 N T 5 83 384 group=64 zero=int ldc=88 ldd=88 align=16",
     "cuda_gemv_weights tile_n=16 tile_m=8 warps=2 ahead=2"},
    {"cuda_small", "sm_80", "fp32 N N 9 12 8 batch=11 align=16",
     "cuda_small products=4 lanes_m=3 lanes_n=3 depth=4 matrix=0 copy=async width=16 stages=2 "
     "store=direct turns=0 resident=4"},
    {"hip_mfma", "gfx942", "bf16 N T 100 120 203 lda=208 ldb=208 ldc=123 ldd=121 align=2",
     "hip_mfma rows=16 k=16 tile_m=64 tile_n=64 depth=64 waves_m=2 waves_n=2 staging=twice "
     "banks=by_row splits=1 chunk=0 group=4 priority=0 fence=0 pace=free turn=0"},
    {"hip_mx", "gfx950", "e4m3e2m1 N T 70 90 544 scale=mx32",
     "hip_mx rows=16 tile_m=64 tile_n=64 tile_k=256 waves_m=2 waves_n=2 staging=twice splits=1 "
     "chunk=0 group=4"},
    {"hip_simt", "gfx1100", "fp32 N N 50 70 90",
     "hip_simt tile_m=32 tile_n=32 tile_k=16 each_m=2 each_n=2 pad=4"},
};

}  // namespace kiln::test
