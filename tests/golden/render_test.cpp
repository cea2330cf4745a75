// What is rendered, kept as files under kept/: a whole kernel for each family, named as the family,
// and of other configs the sections that show what they choose in a template. Run with
// KILN_ACCEPT=1 to take a change, then read it.
#include "generator/render/render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "generator/families/cuda/common/check.h"
#include "generator/families/hip/common/examples.h"
#include "generator/render/embedded.h"
#include "generator/render/template.h"
#include "generator/space/family.h"
#include "support/golden.h"
#include "support/paths.h"
#include "support/sections.h"

namespace kiln::render_test {

struct Case {
  const char* name;
  const char* device;
  int threads;
  const char* gemm;
  const char* config;
  /// Sections that are kept besides the parameters; null: the whole source.
  const char* shows = nullptr;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    // One whole kernel a family.
    {"host_packed", "avx512", 1, "fp32 N N 1024 1024 1024",
     "host_packed isa=avx512 mr=8 nv=3 kc=384 mc=96 nc=96 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=1 fetch_b=2"},
    {"host_dot", "avx512", 2, "fp32 N T 4 4096 4096",
     "host_dot isa=avx512 mr=4 nr=6 kc=0 mc=0 parallel=n prefetch=0"},
    {"host_small", "avx512", 1, "fp32 N N 13 24 9",
     "host_small isa=avx512 bytes=64 mr=8 nv=2 unroll=1 parallel=none"},
    {"host_amx", "amx", 1, "bf16 N T 128 512 512",
     "host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none"},
    {"host_weights", "avx512", 2, "bf16_uint4 N T 1 4096 4096 group=128 scale_type=bf16 zero=int",
     "host_weights isa=avx512 pairs=0 mr=1 nr=4 ahead=1 parallel=n"},
    {"host_amx_weights", "amx", 2, "bf16_int4 N T 128 4096 4096 group=128 scale_type=bf16",
     "host_amx_weights isa=amx mt=2 nt=2 kc=1024 nc=256 mc=128 parallel=n"},
    {"cuda_wgmma", "sm_90a", 132, "bf16 N T 4096 4096 4096 align=16",
     "cuda_wgmma left=128 right=128 stages=6 warpgroups=2 pingpong=1 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0"},
    {"cuda_mma", "sm_80", 108, "bf16 N T 4096 4096 4096 align=16",
     "cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=4 stages=3 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1"},
    {"cuda_simt", "sm_80", 108, "fp32 N N 1024 1024 1024 align=16",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=4 width_b=4 copy=registers stages=2 ahead=0 lines=exchanged resident=2 sharing=tiles "
     "splits=1 group=8"},
    {"cuda_gemv", "sm_90a", 132, "bf16 N T 3 5000 777 epilogue=bias_row+silu",
     "cuda_gemv rows=2 width=1 warps=4 swap=0"},
    {"cuda_gemv_n", "sm_90a", 132, "bf16 N N 3 4099 4096",
     "cuda_gemv_n thin=4 warps=8 ahead=2 words=2 splits=4 matrix=1 swap=0"},
    {"cuda_small", "sm_90a", 132, "fp32 N N 16 16 16 batch=10000 align=16",
     "cuda_small products=4 lanes_m=4 lanes_n=4 depth=4 matrix=0 copy=async width=16 stages=2 "
     "store=direct turns=0 resident=6"},
    {"cuda_weights", "sm_90a", 132, "bf16_int4 N T 16 4096 4096 group=128 scale_type=bf16 align=16",
     "cuda_weights tile_n=128 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1"},
    {"cuda_gemv_weights", "sm_90a", 132,
     "bf16_int4 N T 1 4096 4096 group=128 scale_type=bf16 align=16",
     "cuda_gemv_weights tile_n=16 tile_m=8 warps=8 ahead=4"},
    {"cuda_wgmma_weights", "sm_90a", 132,
     "bf16_int4 N T 512 4096 4096 group=128 scale_type=bf16 align=16",
     "cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 "
     "group=8"},
    {"hip_mfma", "gfx950", 0, "bf16 N T 8192 8192 8192 align=16",
     "hip_mfma rows=16 k=32 tile_m=256 tile_n=256 depth=128 waves_m=2 waves_n=4 staging=direct "
     "banks=by_row splits=1 chunk=64 group=4 priority=1 fence=1 pace=free turn=0"},
    {"hip_mx", "gfx950", 0, "e4m3e2m1 N T 8192 8192 8192 align=16 scale=mx32",
     "hip_mx rows=16 tile_m=256 tile_n=256 tile_k=128 waves_m=2 waves_n=4 staging=twice splits=1 "
     "chunk=64 group=4"},
    {"hip_simt", "gfx1100", 0, "u8s8 N N 99 98 97 out=s8 epilogue=bias_row+silu",
     "hip_simt tile_m=64 tile_n=64 tile_k=16 each_m=4 each_n=4 pad=4"},
    // What other configs choose in the templates.
    {"host_packed_fp32_unpacked_tails", "avx512", 1, "fp32 N N 29 100 300 lda=304",
     "host_packed isa=avx512 mr=6 nv=4 kc=128 mc=96 nc=128 pack_a=0 pack_b=0 inner=columns "
     "parallel=none unroll=1 prefetch=8 stream_d=0 fetch_a=8 fetch_b=1",
     "cpu/packed/operand.h cpu/packed/tile.h cpu/packed/memory.h cpu/packed/packed.cpp"},
    {"host_packed_fp64_avx2_grid_epilogue", "avx2", 4,
     "fp64 T N 500 400 300 epilogue=bias_row+gelu_erf+residual",
     "host_packed isa=avx2 mr=4 nv=3 kc=256 mc=96 nc=768 pack_a=1 pack_b=1 inner=rows "
     "parallel=grid unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/epilogue.h"},
    {"host_packed_bf16_split_k", "avx512_bf16", 2, "bf16 N T 64 96 4096",
     "host_packed isa=avx512 mr=8 nv=3 kc=512 mc=64 nc=96 pack_a=1 pack_b=1 inner=columns "
     "parallel=k unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/share.h"},
    {"host_packed_int8_weights", "avx512_bf16", 1, "int8 N T 32 512 1024 out=fp32 packed_b=1",
     "host_packed isa=avx512 mr=8 nv=2 kc=1024 mc=32 nc=256 pack_a=1 pack_b=1 inner=columns "
     "parallel=none unroll=1 prefetch=16 stream_d=0 fetch_a=0 fetch_b=2",
     "cpu/common/panels.h cpu/packed/operand.h cpu/packed/tile.h cpu/packed/memory.h "
     "cpu/packed/packed.cpp"},
    {"host_dot_ahead", "avx512_bf16", 1, "bf16 N N 4008 3 1529",
     "host_dot isa=avx512 mr=8 nr=3 kc=0 mc=0 parallel=none prefetch=0 pack_b=1 ahead=1",
     "cpu/dot/dot.cpp"},
    {"host_packed_uint4", "avx512", 1,
     "bf16_uint4 N T 512 4096 4096 group=128 scale_type=bf16 zero=int",
     "host_packed isa=avx512 mr=8 nv=3 kc=512 mc=192 nc=528 pack_a=1 pack_b=1 inner=columns "
     "parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/decode.h"},
    {"host_packed_int8_n_major_avx2", "avx2", 1, "fp16_int8 N N 64 128 256 group=k zero=float",
     "host_packed isa=avx2 mr=4 nv=2 kc=64 mc=96 nc=64 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/decode.h"},
    {"host_weights_pairs", "avx512_bf16", 1, "bf16_int4 N T 2 4096 4096 group=128 zero=int",
     "host_weights isa=avx512 pairs=1 mr=2 nr=4 ahead=0 parallel=none", "cpu/weights/weights.cpp"},
    {"host_weights_groups_of_32_avx2", "avx2", 1,
     "fp16_int4 T T 3 4096 4096 group=32 scale_type=fp16 zero=float",
     "host_weights isa=avx2 pairs=0 mr=3 nr=2 ahead=0 parallel=none", "cpu/weights/weights.cpp"},
    {"host_weights_fp8_squares", "avx512", 1, "bf16_fp8 N T 1 4096 4096 group=128x128",
     "host_weights isa=avx512 pairs=0 mr=1 nr=4 ahead=1 parallel=none", "cpu/weights/weights.cpp"},
    {"host_weights_mx_pairs", "avx512_bf16", 1, "bf16_fp4 N T 1 4096 4096 group=mx32",
     "host_weights isa=avx512 pairs=1 mr=1 nr=4 ahead=1 parallel=none",
     "cpu/common/types.h cpu/common/small_floats.h cpu/weights/weights.cpp"},
    {"host_weights_fp4_avx2", "avx2", 1, "fp16_fp4 N T 1 4096 4096 group=mx32",
     "host_weights isa=avx2 pairs=0 mr=1 nr=4 ahead=1 parallel=none", "cpu/common/small_floats.h"},
    {"host_weights_fp4_portable", "portable", 1, "fp16_fp4 N T 1 4096 4096 group=k",
     "host_weights isa=portable pairs=0 mr=1 nr=2 ahead=1 parallel=none",
     "cpu/common/small_floats.h"},
    {"host_amx_weights_mx", "amx", 1, "bf16_fp4 N T 40 512 1024 group=mx32",
     "host_amx_weights isa=amx mt=3 nt=1 kc=512 nc=96 mc=48 parallel=none",
     "cpu/amx_weights/decode.h"},
    {"host_amx_weights_fp8", "amx", 1, "bf16_fp8 N T 40 512 1024 group=128",
     "host_amx_weights isa=amx mt=3 nt=1 kc=512 nc=96 mc=48 parallel=none",
     "cpu/amx_weights/decode.h"},
    {"host_amx_weights_int8_columns", "amx", 1, "bf16_int8 T T 40 512 1000 group=k zero=int",
     "host_amx_weights isa=amx mt=3 nt=1 kc=512 nc=96 mc=48 parallel=none",
     "cpu/amx_weights/decode.h cpu/amx_weights/weights.cpp"},
    {"host_weights_gate", "avx512", 2, "bf16_int4 N T 1 14336 4096 group=128 gate=silu",
     "host_weights isa=avx512 pairs=0 mr=1 nr=4 ahead=1 parallel=n", "cpu/weights/weights.cpp"},
    {"host_packed_uint4_gate", "avx2", 1,
     "bf16_uint4 N N 64 129 256 group=32 zero=int gate=silu epilogue=bias_col",
     "host_packed isa=avx2 mr=2 nv=4 kc=96 mc=48 nc=32 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/decode.h cpu/packed/packed.cpp"},
    {"host_amx_weights_gate_interleaved", "amx", 1,
     "bf16_int4 N T 40 512 1024 group=128 gate=silu:interleaved",
     "host_amx_weights isa=amx mt=2 nt=1 kc=512 nc=96 mc=48 parallel=none",
     "cpu/amx_weights/weights.cpp"},
    {"host_packed_bf16_transposed", "avx512_bf16", 1, "bf16 T N 4515 5 3407",
     "host_packed isa=avx512 mr=5 nv=4 kc=16 mc=5 nc=4544 pack_a=1 pack_b=0 inner=rows "
     "parallel=none unroll=4 prefetch=8 stream_d=0 fetch_a=0 fetch_b=0 swap=1",
     "cpu/packed/transposed.h cpu/packed/operand.h cpu/packed/tile.h cpu/packed/memory.h "
     "cpu/packed/packed.cpp"},
    {"host_packed_int8_gate", "avx512_bf16", 1,
     "int8 N T 100 90 3000 out=bf16 gate=silu epilogue=bias_col",
     "host_packed isa=avx512 mr=6 nv=4 kc=1024 mc=96 nc=96 pack_a=1 pack_b=1 inner=columns "
     "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/epilogue.h cpu/packed/operand.h cpu/packed/tile.h cpu/packed/memory.h "
     "cpu/packed/packed.cpp"},
    {"host_packed_bf16_gate_interleaved", "avx512_bf16", 1,
     "bf16 N N 100 900 300 gate=sigmoid:interleaved epilogue=bias_col+residual",
     "host_packed isa=avx512 mr=6 nv=4 kc=128 mc=96 nc=96 pack_a=0 pack_b=0 inner=rows "
     "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/epilogue.h cpu/packed/operand.h cpu/packed/tile.h cpu/packed/memory.h "
     "cpu/packed/packed.cpp"},
    {"host_dot_gate", "avx512_bf16", 1, "bf16 N T 4 4096 2048 gate=gelu",
     "host_dot isa=avx512 mr=4 nr=6 kc=0 mc=0 parallel=none prefetch=0", "cpu/dot/dot.cpp"},
    {"host_dot_int8_zero_points", "avx512_bf16", 1,
     "int8 N T 4 4096 2048 out=bf16 scale=line zero_a=line gate=silu",
     "host_dot isa=avx512 mr=2 nr=4 kc=0 mc=0 parallel=none prefetch=0",
     "cpu/common/abi.h cpu/common/epilogue.h"},
    {"host_packed_amax", "avx512", 2, "fp32 N N 1024 1024 1024 epilogue=relu amax=1",
     "host_packed isa=avx512 mr=4 nv=3 kc=384 mc=96 nc=96 pack_a=1 pack_b=1 inner=rows "
     "parallel=m unroll=4 prefetch=0 stream_d=0 fetch_a=1 fetch_b=2",
     "cpu/common/abi.h cpu/common/amax.h cpu/common/epilogue.h"},
    {"host_packed_expression", "avx512", 1,
     "bf16 N T 1024 1024 1024 epilogue=y=acc*s[m]+b[n]:bf16;"
     "d=where(y>c[],tanh(y),y/3)*r[n,m]+m-n;q[m]=sum(y*y);z[n,m]:fp32=y",
     "host_packed isa=avx512 mr=8 nv=3 kc=384 mc=96 nc=96 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=1 fetch_b=2",
     "cpu/common/abi.h cpu/common/epilogue.h"},
    {"host_small_amax", "avx512", 1, "fp32 N N 11 24 9 amax=1",
     "host_small isa=avx512 bytes=64 mr=8 nv=2 unroll=1 parallel=none", "cpu/small/small.cpp"},
    {"host_small_stream_d", "avx512", 1, "fp32 N N 16 16 16 batch=1000",
     "host_small isa=avx512 bytes=64 mr=16 nv=1 unroll=4 parallel=none stream_d=1",
     "cpu/small/small.cpp"},
    {"host_small_k_major", "avx512", 1, "fp32 N T 5 24 9",
     "host_small isa=avx512 bytes=64 mr=5 nv=2 unroll=1 parallel=none", "cpu/small/small.cpp"},
    {"host_packed_lines", "avx512", 1, "fp16 T T 3716 686 4",
     "host_packed isa=avx512 mr=14 nv=2 kc=8 mc=3724 nc=704 pack_a=1 pack_b=1 inner=columns "
     "parallel=none unroll=4 prefetch=0 stream_d=1 fetch_a=0 fetch_b=0",
     "cpu/common/lines.h cpu/common/epilogue.h cpu/packed/tile.h cpu/packed/memory.h "
     "cpu/packed/packed.cpp"},
    {"host_packed_rows_d", "avx512", 1, "u8s8 T T 3880 227 91",
     "host_packed isa=avx512 mr=14 nv=2 kc=96 mc=196 nc=256 pack_a=1 pack_b=1 inner=columns "
     "parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0 long_runs=1 rows_d=1",
     "cpu/common/lines.h cpu/common/epilogue.h cpu/packed/rows.h cpu/packed/memory.h "
     "cpu/packed/packed.cpp"},
    {"host_packed_fp16_portable", "portable", 1, "fp16 N N 33 65 17",
     "host_packed isa=portable mr=4 nv=2 kc=24 mc=96 nc=128 pack_a=1 pack_b=1 inner=rows "
     "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
     "cpu/common/vector.h"},
    {"cuda_wgmma_fp16_unaligned_stream", "sm_90a", 132,
     "fp16 T N 1023 1023 1023 epilogue=bias_col+gelu+residual",
     "cuda_wgmma left=128 right=96 stages=6 warpgroups=2 pingpong=0 swap=1 cluster_left=2 "
     "cluster_right=1 sharing=stream splits=1 along=right group=8 pack_a=1 pack_b=1 keep_right=0 "
     "promote=0",
     "cuda/common/tile_scheduler.h cuda/wgmma/store.h "
     "cuda/common/partials.h cuda/wgmma/combine_ptx.h cuda/wgmma/combine.h"},
    {"cuda_wgmma_bf16_hilbert", "sm_90a", 132, "bf16 N T 8192 8192 8192 align=16 batch=2",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 "
     "cluster_right=1 sharing=tiles splits=1 along=hilbert group=16 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/hilbert.h"},
    {"cuda_wgmma_fp8_split_promoted", "sm_90a", 132, "fp8 N T 64 4096 4096 align=16 out=fp32",
     "cuda_wgmma left=64 right=64 stages=8 warpgroups=1 pingpong=0 swap=1 cluster_left=1 "
     "cluster_right=1 sharing=split splits=4 along=left group=8 pack_a=0 pack_b=0 keep_right=1 "
     "promote=1",
     ""},
    {"cuda_wgmma_bf16_paired", "sm_90a", 132, "bf16 N T 1023 1023 1023",
     "cuda_wgmma left=64 right=128 stages=9 warpgroups=1 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=1 pack_b=1 keep_right=0 "
     "promote=0 paired=1",
     "cuda/wgmma/pack.cu cuda/wgmma/store.h"},
    {"cuda_wgmma_bf16_clip", "sm_90a", 132, "bf16 N T 100 6144 4096 align=16",
     "cuda_wgmma left=64 right=96 stages=10 warpgroups=1 pingpong=0 swap=0 cluster_left=2 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0 clip=1",
     "cuda/wgmma/copy.h cuda/wgmma/kernel.cu"},
    {"cuda_wgmma_bf16_summed", "sm_90a", 132, "bf16 N T 256 256 32768 align=16",
     "cuda_wgmma left=128 right=128 stages=7 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=summed splits=32 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/wgmma/reduce.h"},
    {"cuda_mma_fp64_ahead", "sm_90a", 132, "fp64 T N 2048 2048 2048 align=16",
     "cuda_mma block_m=64 block_n=64 block_k=16 warps_m=2 warps_n=2 stages=6 instruction_k=8 "
     "bits_a=2 base_a=5 shift_a=0 bits_b=2 base_b=5 shift_b=0 ahead=1 group=8 splits=1",
     "cuda/common/ampere_ptx.h"},
    {"cuda_mma_fp64_stream", "sm_90a", 132, "fp64 N N 4096 4096 4096 align=16",
     "cuda_mma block_m=128 block_n=64 block_k=32 warps_m=4 warps_n=2 stages=4 instruction_k=16 "
     "bits_a=2 base_a=5 shift_a=0 bits_b=2 base_b=5 shift_b=0 ahead=1 group=8 splits=1 stream=1",
     "cuda/mma/combine_ptx.h cuda/mma/combine.h cuda/mma/mma.cu"},
    {"cuda_mma_int8_split", "sm_80", 108, "int8 T N 100 200 4000 align=4 epilogue=bias_row+relu",
     "cuda_mma block_m=64 block_n=64 block_k=64 warps_m=2 warps_n=2 stages=4 instruction_k=32 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=2 base_b=4 shift_b=1 ahead=1 group=8 splits=4",
     "cuda/common/tile_scheduler.h"},
    {"cuda_mma_fp16_turing", "sm_75", 40, "fp16 N N 333 444 555 epilogue=residual",
     "cuda_mma block_m=64 block_n=64 block_k=32 warps_m=2 warps_n=2 stages=2 instruction_k=8 "
     "bits_a=2 base_a=4 shift_a=1 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1",
     "cuda/mma/copy.h"},
    {"cuda_simt_fp32_async_stream", "sm_90a", 132, "fp32 N N 4096 4096 4096 align=16",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=16 lanes_m=4 spread=1 "
     "width_a=1 width_b=4 copy=async stages=3 ahead=1 lines=padded resident=2 sharing=stream "
     "splits=1 group=8",
     "cuda/common/tile_scheduler.h cuda/simt/combine.h cuda/simt/copy.h "
     "cuda/simt/simt.cu"},
    {"cuda_simt_fp32_warps", "sm_90a", 132, "fp32 N N 4096 4096 4096 align=16",
     "cuda_simt block_m=128 block_n=256 block_k=16 thread_m=8 thread_n=16 lanes_m=4 spread=1 "
     "width_a=1 width_b=4 copy=warps stages=4 ahead=1 lines=padded resident=1 sharing=stream "
     "splits=1 group=8 order=folded unroll=8",
     "cuda/simt/ring.h cuda/simt/fed.cu"},
    {"cuda_simt_bf16_naive", "sm_75", 40, "bf16 N T 100 100 100 epilogue=bias_row+silu",
     "cuda_simt block_m=8 block_n=32 block_k=1 thread_m=1 thread_n=1 lanes_m=1 spread=1 width_a=1 "
     "width_b=1 copy=registers stages=0 ahead=0 lines=plain resident=1 sharing=tiles splits=1 "
     "group=8",
     ""},
    {"cuda_gemv_bf16_shifted", "sm_90a", 132, "bf16 N T 3 5000 777",
     "cuda_gemv rows=4 width=0 warps=4 swap=0", "cuda/gemv/shifted.cu"},
    {"cuda_wgmma_fp8_block_scales", "sm_90a", 132,
     "fp8 N T 4096 4096 4096 align=16 scale=1x128:128x128",
     "cuda_wgmma left=128 right=192 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1 alternate=1",
     "cuda/wgmma/wgmma.cu"},
    {"cuda_wgmma_fp8_in_turn", "sm_90a", 132, "fp8 N T 4096 4096 4096 align=16 scale=1x128:128x128",
     "cuda_wgmma left=256 right=128 stages=3 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/wgmma/scales.h cuda/wgmma/wgmma.cu"},
    {"cuda_wgmma_fp8_scale_d", "sm_90a", 132,
     "fp8 N T 4096 4096 4096 out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 align=16",
     "cuda_wgmma left=128 right=128 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/wgmma/quantise_ptx.h cuda/wgmma/quantise.h"},
    {"cuda_wgmma_fp8_gate_scale_d", "sm_90a", 132,
     "fp8 N T 64 14336 4096 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128 align=16",
     "cuda_wgmma left=256 right=64 stages=4 warpgroups=2 pingpong=0 swap=1 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/wgmma/quantise.h"},
    {"cuda_wgmma_fp8_scale_d_pairs", "sm_90a", 132,
     "fp8 N T 2048 14336 4096 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128 align=16",
     "cuda_wgmma left=256 right=128 stages=3 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=2 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/wgmma/tile.h cuda/wgmma/quantise_ptx.h cuda/wgmma/quantise.h cuda/wgmma/kernel.cu"},
    {"cuda_wgmma_fp8_amax", "sm_90a", 132,
     "fp8 N T 4096 4096 4096 out=fp8_e4m3 scale=tensor scale_d=tensor align=16 amax=1",
     "cuda_wgmma left=128 right=128 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/common/abi.h cuda/common/amax.h cuda/common/epilogue.h cuda/wgmma/store.h "
     "cuda/wgmma/quantise.h"},
    {"cuda_mma_amax", "sm_80", 108, "fp16 N T 4096 4096 4096 align=16 amax=1",
     "cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=4 stages=4 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1",
     "cuda/mma/finish.h cuda/mma/store.h"},
    {"cuda_wgmma_int8_zero_points", "sm_90a", 132,
     "int8 N T 4096 4096 4096 align=16 out=bf16 scale=line zero_a=line",
     "cuda_wgmma left=128 right=128 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/abi.h cuda/common/epilogue.h cuda/wgmma/store.h"},
    {"cuda_wgmma_fp8_tma_scales", "sm_90a", 132,
     "fp8 N T 4096 4096 4096 align=16 scale=1x128:128x128",
     "cuda_wgmma left=128 right=160 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1 tma_scales=1",
     "cuda/wgmma/tile.h cuda/wgmma/ring.h cuda/wgmma/tma_scales.h cuda/wgmma/scales.h"},
    {"cuda_wgmma_fp8_scales", "sm_90a", 132, "fp8 N T 64 7168 2048 align=16 scale=1x128:128x128",
     "cuda_wgmma left=64 right=64 stages=12 warpgroups=1 pingpong=0 swap=1 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=1 "
     "promote=1",
     "cuda/wgmma/scales.h"},
    {"cuda_wgmma_fp8_scale_order", "sm_90a", 132,
     "fp8 N T 64 7168 2048 align=16 scale=1x128:128x128 scale_order=blocks_4:lines",
     "cuda_wgmma left=64 right=64 stages=12 warpgroups=1 pingpong=0 swap=1 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=1 "
     "promote=1",
     "cuda/wgmma/scales.h"},
    {"cuda_wgmma_fp8_tma_scale_order", "sm_90a", 132,
     "fp8 N T 4096 7168 2048 align=16 scale=1x128:128x128 scale_order=blocks_4:lines",
     "cuda_wgmma left=128 right=128 stages=5 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1 tma_scales=1",
     "cuda/wgmma/tma_scales.h cuda/wgmma/scales.h"},
    {"cuda_wgmma_fp8_gate_scales", "sm_90a", 132,
     "fp8 N T 64 14336 4096 align=16 scale=1x128:128x128 gate=silu",
     "cuda_wgmma left=64 right=128 stages=8 warpgroups=2 pingpong=1 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/wgmma/scales.h"},
    {"cuda_wgmma_fp8_scales_ptx", "sm_90a", 132,
     "fp8 N T 256 4096 7168 align=16 scale=1x128:128x128",
     "cuda_wgmma left=128 right=64 stages=7 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=right group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/wgmma/scales_ptx.h"},
    {"host_amx_int8_blocks", "amx", 1, "int8 N N 1024 1024 1024",
     "host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none mc=256 stream_d=1",
     "cpu/amx/tile.h cpu/amx/copies.h cpu/amx/memory.h cpu/amx/blocks.h"},
    {"host_amx_fp32_thirds", "amx", 1, "fp32 N N 128 512 512 numerics=tensor",
     "host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none thirds=1",
     "cpu/amx/tile.h cpu/amx/copies.h"},
    {"cuda_wgmma_fp32_halves", "sm_90a", 132, "fp32 N N 4096 4096 4096 align=16 numerics=tensor",
     "cuda_wgmma left=128 right=128 stages=3 warpgroups=2 pingpong=0 swap=1 cluster_left=2 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=1 pack_b=1 keep_right=0 "
     "promote=1 halves=1",
     "cuda/common/workspace.h cuda/wgmma/split.cu cuda/wgmma/tile.h cuda/wgmma/copy.h "
     "cuda/wgmma/wgmma.cu"},
    {"cuda_wgmma_bring", "sm_90a", 132,
     "bf16 N T 4096 4096 4096 align=16 epilogue=d=gelu(acc+b[n])*r[m,n]+s[n,m]",
     "cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=1 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0 bring=1",
     "cuda/wgmma/bring_ptx.h cuda/wgmma/bring.h cuda/wgmma/consumer.h cuda/wgmma/ring.h "
     "cuda/wgmma/store.h"},
    {"cuda_wgmma_expression", "sm_90a", 132,
     "bf16 N T 4096 4096 4096 align=16 "
     "epilogue=y=acc*s[m]+b[n]:bf16;d=where(y>c[],tanh(y),y/3)*r[n,m]+m-n;q[m]=sum(y*y);"
     "a[]=logsumexp(y);z[m,n]:fp32=y",
     "cuda_wgmma left=128 right=128 stages=6 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/abi.h cuda/common/epilogue.h cuda/wgmma/roll_ptx.h "
     "cuda/wgmma/store.h"},
    {"cuda_wgmma_gate", "sm_90a", 132, "bf16 N T 4096 14336 4096 align=16 gate=silu",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/epilogue.h cuda/wgmma/copy.h cuda/wgmma/store.h"},
    {"cuda_wgmma_groups", "sm_90a", 132, "bf16 N T 8192 4096 7168 groups=8 grouped=rows align=16",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/groups_ptx.h cuda/common/group_args.h cuda/common/groups.h "
     "cuda/common/tile_scheduler.h cuda/wgmma/copy.h cuda/wgmma/store.h"},
    {"cuda_wgmma_rows_by_index", "sm_90a", 132,
     "fp8 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 scale=1x128:128x128 align=16 "
     "gather=rows scatter=rows",
     "cuda_wgmma left=128 right=128 stages=6 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=1 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/common/abi.h cuda/common/indices.h cuda/common/group_args.h cuda/wgmma/pack.cu "
     "cuda/wgmma/scales.h cuda/wgmma/store.h"},
    {"cuda_wgmma_gathered_rows", "sm_90a", 132,
     "bf16 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 align=16 gather=rows",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0 gather=1",
     "cuda/wgmma/gather_ptx.h cuda/wgmma/copy.h cuda/wgmma/gather.h cuda/wgmma/wgmma.cu "
     "cuda/wgmma/kernel.cu"},
    {"cuda_wgmma_added_rows", "sm_90a", 132,
     "bf16 N T 32768 7168 2048 groups=32 grouped=rows rows_of_d=4096 align=16 scatter=weighted",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/abi.h cuda/common/add_rows.cu"},
    {"cuda_mma_rows_by_index", "sm_80", 108,
     "bf16 N T 32768 4096 7168 groups=32 grouped=rows gate=silu rows_of_a=4096 align=16 "
     "gather=rows scatter=rows",
     "cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=4 stages=3 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1",
     "cuda/common/epilogue.h cuda/mma/copy.h "
     "cuda/mma/finish.h cuda/mma/mma.cu"},
    {"cuda_simt_rows_by_index", "sm_80", 108,
     "fp32 N N 1024 1024 1024 groups=4 grouped=rows align=16 gather=rows scatter=rows",
     "cuda_simt block_m=128 block_n=128 block_k=8 thread_m=8 thread_n=8 lanes_m=4 spread=1 "
     "width_a=4 width_b=4 copy=registers stages=2 ahead=0 lines=exchanged resident=1 sharing=tiles "
     "splits=1 group=8",
     "cuda/simt/copy.h cuda/simt/simt.cu"},
    {"cuda_wgmma_groups_of_k", "sm_90a", 132,
     "bf16 T N 7168 2048 32768 groups=32 grouped=k align=16",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/group_args.h cuda/common/groups.h cuda/common/tile_scheduler.h "
     "cuda/wgmma/copy.h cuda/wgmma/kernel.cu"},
    {"cuda_wgmma_groups_along_k", "sm_90a", 132,
     "fp8 N T 7168 2048 32768 groups=32 grouped=k scale=1x128:128x128 align=16",
     "cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/common/tile_scheduler.h cuda/wgmma/copy.h cuda/wgmma/edges.h cuda/wgmma/scales.h "
     "cuda/wgmma/wgmma.cu"},
    {"cuda_wgmma_tf32_registers", "sm_90a", 132, "tf32 N N 4096 4096 4096 align=16",
     "cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=1 cluster_left=1 "
     "cluster_right=2 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/wgmma/registers.h cuda/wgmma/copy.h cuda/wgmma/wgmma.cu"},
    {"cuda_weights_int8_columns", "sm_80", 108, "bf16_int8 N T 64 4096 4096 group=k zero=float",
     "cuda_weights tile_n=64 tile_m=32 block_k=64 warps=2 stages=3 group=8 splits=1",
     "cuda/weights/decode.h cuda/weights/pairs.h cuda/weights/copy.h cuda/weights/scaling.h "
     "cuda/weights/weights.cu"},
    {"cuda_weights_fp8_squares", "sm_80", 108, "bf16_fp8 N T 16 4096 4096 group=128x128 align=16",
     "cuda_weights tile_n=64 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1",
     "cuda/weights/decode.h cuda/weights/pairs.h cuda/weights/scaling.h"},
    {"cuda_weights_mx", "sm_80", 108, "bf16_fp4 N T 16 4096 4096 group=mx32 align=16",
     "cuda_weights tile_n=64 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1",
     "cuda/common/types.h cuda/common/convert.h cuda/weights/decode.h cuda/weights/pairs.h"},
    {"cuda_weights_fp16_integer_zeros", "sm_80", 108,
     "fp16_uint4 N T 4 4096 4096 group=32 zero=int scale_type=fp16 align=16",
     "cuda_weights tile_n=64 tile_m=8 block_k=128 warps=4 stages=4 group=8 splits=1",
     "cuda/weights/decode_ptx.h cuda/weights/decode.h cuda/weights/pairs.h cuda/weights/scaling.h"},
    {"cuda_wgmma_weights_fp16_integer_zeros", "sm_90a", 132,
     "fp16_uint4 N T 512 4096 4096 group=32 zero=int scale_type=fp16 align=16",
     "cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 "
     "group=8",
     "cuda/wgmma_weights/fragment.h"},
    {"cuda_wgmma_weights_rounded", "sm_90a", 132,
     "bf16_int4 N T 512 4096 4096 group=128 scale_type=bf16 align=16 numerics=fast",
     "cuda_wgmma_weights tile_m=256 warpgroups=2 block_k=64 stages=5 sharing=tiles splits=1 "
     "group=8 round_weights=1 turn=2",
     "cuda/weights/scaling.h cuda/wgmma_weights/fragment.h cuda/wgmma_weights/multiply.cu"},
    {"cuda_wgmma_weights_rounded_gate", "sm_90a", 132,
     "fp16_uint4 N T 512 4096 4096 group=64 zero=float scale_type=fp16 gate=silu align=16 "
     "numerics=fast",
     "cuda_wgmma_weights tile_m=96 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 "
     "group=8 round_weights=1",
     "cuda/weights/scaling.h cuda/wgmma_weights/fragment.h cuda/wgmma_weights/multiply.cu"},
    {"cuda_wgmma_weights_groups", "sm_90a", 132,
     "bf16_int4 N T 4096 4096 7168 groups=32 grouped=rows group=128 align=16",
     "cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=3 sharing=tiles splits=1 "
     "group=8",
     "cuda/wgmma_weights/multiply.cu"},
    {"cuda_wgmma_weights_int8_columns", "sm_90a", 132,
     "bf16_int8 N T 512 4096 4096 group=k align=16",
     "cuda_wgmma_weights tile_m=256 warpgroups=2 block_k=64 stages=4 sharing=tiles splits=1 "
     "group=8",
     "cuda/wgmma_weights/fragment.h cuda/wgmma_weights/multiply.cu"},
    {"cuda_wgmma_weights_fp16_fp8", "sm_90a", 132, "fp16_fp8 N T 512 4096 4096 group=k align=16",
     "cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 "
     "group=8",
     "cuda/weights/decode.h cuda/wgmma_weights/fragment.h"},
    {"cuda_wgmma_weights_fp16_fp4", "sm_90a", 132, "fp16_fp4 N T 512 4096 4096 group=k align=16",
     "cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 "
     "group=8",
     "cuda/weights/decode.h cuda/wgmma_weights/fragment.h"},
    {"cuda_gemv_weights_columns", "sm_80", 108,
     "bf16_int8 N T 4 4096 4096 group=k zero=float align=16",
     "cuda_gemv_weights tile_n=32 tile_m=8 warps=4 ahead=2", "cuda/gemv_weights/gemv_weights.cu"},
    {"cuda_gemv_weights_gate", "sm_90a", 132,
     "bf16_int4 N T 1 14336 4096 group=128 scale_type=bf16 gate=silu align=16",
     "cuda_gemv_weights tile_n=32 tile_m=8 warps=8 ahead=2",
     "cuda/weights/scaling.h cuda/gemv/store.h cuda/gemv_weights/source.h "
     "cuda/gemv_weights/gemv_weights.cu"},
    {"cuda_weights_gate", "sm_90a", 132,
     "bf16_int4 N T 16 14336 4096 group=128 scale_type=bf16 gate=silu:interleaved align=16",
     "cuda_weights tile_n=128 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1",
     "cuda/weights/copy.h cuda/weights/scaling.h cuda/weights/weights.cu"},
    {"cuda_weights_groups", "sm_90a", 132,
     "bf16_int4 N T 4096 4096 7168 groups=32 grouped=rows group=128 align=16",
     "cuda_weights tile_n=128 tile_m=64 block_k=128 warps=4 stages=3 group=8 splits=1",
     "cuda/weights/weights.cu"},
    {"cuda_gemv_weights_groups", "sm_90a", 132,
     "bf16_fp4 N T 64 5760 2880 groups=32 grouped=masked expected_rows=2 group=mx32 align=16",
     "cuda_gemv_weights tile_n=16 tile_m=8 warps=8 ahead=4", "cuda/gemv_weights/gemv_weights.cu"},
    {"cuda_mma_list", "sm_80", 108,
     "bf16 N T 512 4096 128 groups=16 grouped=list align=16 epilogue=bias_col",
     "cuda_mma block_m=64 block_n=64 block_k=64 warps_m=2 warps_n=2 stages=3 instruction_k=16 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1",
     "cuda/common/list_abi.h cuda/common/list_chunk.h cuda/common/group_args.h "
     "cuda/common/groups.h cuda/common/tile_scheduler.h cuda/mma/mma.cu cuda/common/take_list.cu"},
    {"cuda_mma_list_scaled", "sm_80", 108,
     "int8 N T 512 4096 128 groups=16 grouped=list align=16 scale=line:tensor out=bf16 gate=silu",
     "cuda_mma block_m=64 block_n=64 block_k=128 warps_m=2 warps_n=2 stages=3 instruction_k=32 "
     "bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1",
     "cuda/common/list_abi.h cuda/common/list_chunk.h cuda/common/group_args.h"},
    {"cuda_wgmma_list_scaled", "sm_90a", 132,
     "fp8 N T 2048 4096 7168 groups=16 grouped=list align=16 scale=1x128:128x128 gate=silu",
     "cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=1",
     "cuda/common/tensor_map_ptx.h cuda/common/group_args.h "
     "cuda/wgmma/copy.h cuda/wgmma/scales.h cuda/wgmma/store.h cuda/common/take_list.cu"},
    {"cuda_wgmma_list", "sm_90a", 132,
     "bf16 N T 2048 4096 4096 groups=16 grouped=list align=16 epilogue=bias_col",
     "cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 "
     "cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 "
     "promote=0",
     "cuda/common/tensor_map_ptx.h cuda/common/group_args.h cuda/common/groups.h "
     "cuda/common/tile_scheduler.h cuda/wgmma/copy.h cuda/wgmma/store.h cuda/wgmma/kernel.cu "
     "cuda/common/take_list.cu"},
    {"cuda_simt_list", "sm_80", 108, "fp32 N N 512 512 128 groups=16 grouped=list",
     "cuda_simt block_m=32 block_n=32 block_k=8 thread_m=4 thread_n=4 lanes_m=4 spread=0 width_a=1 "
     "width_b=1 copy=registers stages=1 ahead=0 lines=padded resident=1 sharing=tiles splits=1 "
     "group=8",
     "cuda/simt/simt.cu"},
    {"cuda_wgmma_weights_gate", "sm_90a", 132,
     "bf16_int4 N T 512 14336 4096 group=128 gate=silu align=16",
     "cuda_wgmma_weights tile_m=64 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 "
     "group=8",
     "cuda/wgmma_weights/multiply.cu"},
    {"cuda_small_bf16_matrix", "sm_90a", 132,
     "bf16 N T 64 64 64 batch=10000 align=16 epilogue=bias_row+silu+residual",
     "cuda_small products=2 lanes_m=16 lanes_n=4 depth=16 matrix=1 copy=async width=16 stages=2 "
     "store=shared turns=0 resident=2",
     "cuda/small/matrix.h cuda/small/store.h"},
    {"cuda_small_fp64_matrix", "sm_90a", 132, "fp64 N N 32 32 32 batch=10000 align=16",
     "cuda_small products=2 lanes_m=8 lanes_n=4 depth=8 matrix=1 copy=async width=16 stages=2 "
     "store=direct turns=0 resident=2",
     "cuda/small/matrix.h"},
    {"cuda_small_fp16_registers", "sm_75", 40, "fp16 N N 9 6 7 batch=1000",
     "cuda_small products=4 lanes_m=3 lanes_n=2 depth=2 matrix=0 copy=registers width=2 stages=1 "
     "store=direct turns=1 resident=8",
     "cuda/small/copy.h cuda/small/small.cu"},
    {"cuda_gemv_n_fp32", "sm_80", 108, "fp32 N N 3 4099 4096",
     "cuda_gemv_n thin=4 warps=4 ahead=4 words=1 splits=1 matrix=0 swap=0", "cuda/gemv_n/sums.h"},
    {"cuda_gemv_bf16_matrix", "sm_90a", 132, "bf16 N T 3 5000 777",
     "cuda_gemv rows=16 width=0 warps=4 swap=0 matrix=1",
     "cuda/common/unaligned.h cuda/gemv/matrix.cu"},
    {"cuda_gemv_fp8_line_scales", "sm_90a", 132, "fp8 N T 3 5000 1024 align=16 scale=line",
     "cuda_gemv rows=2 width=16 warps=4 swap=0", "cuda/common/convert_ptx.h cuda/common/convert.h"},
    {"hip_mfma_bf16_interleaved", "gfx942", 0, "bf16 N T 8192 8192 8192 align=16",
     "hip_mfma rows=16 k=16 tile_m=128 tile_n=128 depth=128 waves_m=2 waves_n=2 staging=single "
     "banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=interleaved turn=0",
     "hip/mfma/pace.h hip/mfma/mfma.hip hip/mfma/mainloop.h"},
    {"hip_mfma_groups", "gfx942", 0, "bf16 N T 8192 4096 7168 groups=8 grouped=rows align=16",
     "hip_mfma rows=16 k=16 tile_m=128 tile_n=64 depth=128 waves_m=2 waves_n=2 staging=single "
     "banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=interleaved turn=0",
     "hip/common/groups.h hip/mfma/kernel.hip"},
    {"hip_mfma_list", "gfx942", 0,
     "bf16 N T 512 4096 1024 groups=16 grouped=list epilogue=bias_col align=16",
     "hip_mfma rows=16 k=16 tile_m=128 tile_n=128 depth=128 waves_m=2 waves_n=4 staging=twice "
     "banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=pingpong turn=0",
     "hip/mfma/stage.h hip/common/groups.h hip/mfma/mfma.hip hip/common/store.h "
     "hip/mfma/kernel.hip "
     "hip/common/take_list.hip"},
    {"hip_mfma_groups_of_k", "gfx950", 0, "bf16 T N 7168 2048 32768 groups=32 grouped=k align=16",
     "hip_mfma rows=16 k=32 tile_m=256 tile_n=256 depth=128 waves_m=2 waves_n=4 staging=direct "
     "banks=by_row splits=1 chunk=64 group=4 priority=0 fence=0 pace=pingpong turn=1",
     "hip/common/groups.h hip/mfma/kernel.hip"},
    {"hip_simt_list", "gfx942", 0, "fp8 N T 512 512 512 groups=16 grouped=list scale=1x128:128x128",
     "hip_simt tile_m=64 tile_n=64 tile_k=16 each_m=4 each_n=4 pad=4", "hip/simt/simt.hip"},
    {"hip_mfma_bf16_turned_pingpong", "gfx950", 0, "bf16 T T 8192 8192 8192 align=16",
     "hip_mfma rows=16 k=32 tile_m=256 tile_n=256 depth=128 waves_m=2 waves_n=4 staging=direct "
     "banks=by_row splits=1 chunk=64 group=4 priority=0 fence=0 pace=pingpong turn=1",
     "hip/mfma/turned_gcn.h hip/mfma/turned.h hip/mfma/mainloop.h"},
    {"hip_mfma_fp8_scaled_unaligned", "gfx950", 0,
     "e4m3e5m2 T N 100 90 333 epilogue=bias_col+gelu_erf+residual",
     "hip_mfma rows=32 k=64 tile_m=64 tile_n=64 depth=64 waves_m=2 waves_n=2 staging=single "
     "banks=padded splits=1 chunk=0 group=4 priority=0 fence=0 pace=free turn=0",
     "hip/common/convert.h hip/common/epilogue.h"},
    {"hip_mfma_int8_zero_points", "gfx942", 0,
     "int8 N T 4096 4096 4096 align=16 out=bf16 scale=line zero_a=line",
     "hip_mfma rows=16 k=32 tile_m=128 tile_n=128 depth=128 waves_m=2 waves_n=2 staging=single "
     "banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=free turn=0",
     "hip/common/epilogue.h"},
    {"hip_mfma_fp16_split_k", "gfx942", 0, "fp16 N T 64 96 8192 align=16",
     "hip_mfma rows=16 k=16 tile_m=64 tile_n=32 depth=128 waves_m=2 waves_n=2 staging=twice "
     "banks=by_row splits=8 chunk=0 group=4 priority=0 fence=0 pace=free turn=0",
     "hip/common/combine.h"},
    {"hip_mfma_fp64", "gfx90a", 0, "fp64 N N 512 512 512",
     "hip_mfma rows=16 k=4 tile_m=64 tile_n=64 depth=64 waves_m=2 waves_n=2 staging=twice "
     "banks=by_pair splits=1 chunk=0 group=8 priority=0 fence=0 pace=free turn=0",
     "hip/mfma/stage.h"},
    {"hip_mx_fp6_ragged_split", "gfx950", 0, "fp6 N T 100 90 1056 scale=mx32",
     "hip_mx rows=32 tile_m=64 tile_n=64 tile_k=256 waves_m=2 waves_n=2 staging=single splits=2 "
     "chunk=0 group=4",
     ""},
};

Result<Source> rendered(const Case& c) {
  auto device = caps_named(c.device);
  const auto gemm = parse_gemm(c.gemm);
  const auto config = parse_config(c.config);
  if (!device) return tl::unexpected(device.error());
  if (!gemm) return tl::unexpected(gemm.error());
  if (!config) return tl::unexpected(config.error());
  if (c.threads > 0) device->compute_units = c.threads;  // of a CPU
  return render(Problem::of(*gemm).value(), *device, *config);
}

std::vector<std::string> words_of(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// The sections named; of the head what does not change with the other sections.
std::string only(const std::string& source, const std::vector<std::string>& shows) {
  std::string out;
  std::size_t found = 0;
  for (const test::Section& section : test::sections_of(source)) {
    if (section.name.empty()) {
      std::istringstream lines(section.text);
      for (std::string line; std::getline(lines, line);)
        if (!line.starts_with("// Written by ") && !line.starts_with("// compile: "))
          out += line + '\n';
    } else if (std::find(shows.begin(), shows.end(), section.name) != shows.end()) {
      out += section.text;
      ++found;
    }
  }
  EXPECT_EQ(found, shows.size()) << "a section that is named is not rendered";
  return out;
}

std::string kept_text(const Case& c, const std::string& source) {
  if (c.shows == nullptr) return source;
  auto shows = words_of(c.shows);
  shows.insert(shows.begin(), "parameters");
  return only(source, shows);
}

/// The golden's file: named as what it holds.
std::string kept_as(const Case& c) {
  const std::string_view device = c.device;
  const char* extension = device.starts_with("gfx")   ? ".hip"
                          : device.starts_with("sm_") ? ".cu"
                                                      : ".cpp";
  return std::string(c.name) + extension;
}

class Render : public testing::TestWithParam<Case> {};

TEST_P(Render, IsAsKept) {
  const auto source = rendered(GetParam());
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE(test::matches_golden(kept_as(GetParam()), kept_text(GetParam(), source->text)));
}

TEST_P(Render, LeavesNoTemplateMarksBehind) {
  const auto source = rendered(GetParam());
  ASSERT_TRUE(source) << source.error().message;
  std::istringstream lines(source->text);
  for (std::string line; std::getline(lines, line);) {
    const auto start = std::min(line.find_first_not_of(' '), line.size());
    EXPECT_NE(line.compare(start, 3, "//%"), 0) << line;
    EXPECT_NE(line.compare(start, 8, "#include"), 0) << "not self-contained: " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, Render, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

/// Sources that are not a kernel of a family: examples of one instruction, without scales and with,
/// and the kernels that verify others.
struct Other {
  const char* name;
  std::string source;
  const char* shows = nullptr;  // as in Case
};

std::vector<Other> others() {
  std::vector<Other> all;
  for (const MfmaExample& e : mfma_examples()) {
    const auto source = render_example(e);
    EXPECT_TRUE(source) << e.name;
    if (!source) continue;
    EXPECT_EQ(source->text.find("//%"), std::string::npos) << e.name;
    if (e.name == "fp16_16x16x16") all.push_back({"example_fp16.hip", source->text});
    if (e.name == "mxfp8_32x32x64")
      all.push_back({"example_mxfp8.hip", source->text, "hip/examples/example.hip"});
  }
  all.push_back({"check.cu", gpu_check_source(caps_named("sm_90a").value()).text,
                 "cuda/check/check.cu cuda/check/judge.cu cuda/check/functions.h "
                 "cuda/check/intervals.h cuda/check/reduced.h cuda/check/judge_expression.cu"});
  all.push_back(
      {"check.hip", gpu_check_source(caps_named("gfx942").value()).text, "hip/check/device.h"});
  return all;
}

std::string kept_text(const Other& other) {
  return other.shows == nullptr ? other.source : only(other.source, words_of(other.shows));
}

TEST(RenderOthers, AreAsKept) {
  const auto all = others();
  EXPECT_EQ(all.size(), 4u);
  for (const Other& other : all) EXPECT_TRUE(test::matches_golden(other.name, kept_text(other)));
}

/// Every text that is kept, by its file.
std::map<std::string, std::string> all_kept() {
  std::map<std::string, std::string> all;
  for (const Case& c : kCases)
    if (const auto source = rendered(c)) all[kept_as(c)] = kept_text(c, source->text);
  for (const Other& other : others()) all[other.name] = kept_text(other);
  return all;
}

TEST(Goldens, AreWholeOnceForEachFamily) {
  std::set<std::string_view> whole;
  for (const auto& c : kCases) {
    if (c.shows != nullptr) continue;
    EXPECT_EQ(c.name, family_name(parse_config(c.config).value())) << "named as its family";
    EXPECT_TRUE(whole.insert(c.name).second) << c.name;
  }
  for (const auto& family : families())  // a library's choices have no source
    EXPECT_TRUE(family.files.empty() || whole.count(family.name)) << family.name;
}

TEST(Goldens, ShowEveryTemplate) {
  std::set<std::string> shown;
  for (const auto& [file, text] : all_kept())
    for (const test::Section& section : test::sections_of(text)) shown.insert(section.name);
  // What a template includes is shown in its section.
  for (const EmbeddedFile& file : embedded_templates())
    if (shown.count(std::string(file.path)) != 0)
      for (const std::string_view included : included_by(file.text)) shown.emplace(included);
  // emu/ never reaches a device, cpu/pass/ belongs to no kernel of a product.
  for (const EmbeddedFile& file : embedded_templates())
    EXPECT_TRUE(file.path.starts_with("emu/") || file.path.starts_with("cpu/pass/") ||
                shown.count(std::string(file.path)))
        << "no golden shows templates/" << file.path;
}

/// A section is kept for what no other golden has; whole kernels share what they share.
TEST(Goldens, KeepASectionOnce) {
  std::set<std::string> whole;
  for (const Case& c : kCases)
    if (const auto source = rendered(c); source && c.shows == nullptr)
      for (const test::Section& section : test::sections_of(source->text))
        whole.insert(section.text);
  for (const Case& c : kCases) {
    const auto source = rendered(c);
    if (!source || c.shows == nullptr) continue;
    for (const test::Section& section : test::sections_of(kept_text(c, source->text)))
      EXPECT_TRUE(section.name.empty() || whole.insert(section.text).second)
          << c.name << ": " << section.name << " is kept elsewhere";
  }
}

TEST(Goldens, HaveNoLeftovers) {
  const auto wanted = all_kept();
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/golden/kept"))
    EXPECT_TRUE(wanted.count(entry.path().filename().string())) << entry.path();
}

TEST(Sections, AreFoundByTheirMarks) {
  const auto found = test::sections_of("// head\n\n// ---- a/b.h ----\nint x;\n\n// ---- c ----\n");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].text, "// head\n");
  EXPECT_EQ(found[1].name, "a/b.h");
  EXPECT_EQ(found[1].text, "\n// ---- a/b.h ----\nint x;\n");
  EXPECT_EQ(found[2].name, "c");
}

TEST(FirstDifference, NamesTheLine) {
  EXPECT_EQ(test::first_difference("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(test::first_difference("a\nb\n", "a\nc\n"), "line 2\n  kept: b\n  now:  c");
  EXPECT_EQ(test::first_difference("a\n", "a\nb\n"), "line 2\n  kept: (end of file)\n  now:  b");
}

}  // namespace kiln::render_test
