// Generated CUDA kernels through NVRTC, for several targets: they compile, and what an untried
// device would run first does not spill. No GPU. Where there is no NVRTC, that is what is said.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/family.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "support/proofs.h"

namespace kiln::cuda_compile_test {

struct Target {
  const char* device;
  const char* line;
  const char* family;
};
std::ostream& operator<<(std::ostream& out, const Target& t) {
  return out << t.family << " " << t.device << ": " << t.line;
}

constexpr Target kTargets[] = {
    {"sm_90a", "bf16 N T 4096 4096 4096 align=16 epilogue=y=acc+r[m,n];d=y;q[m]=sum(y*y)",
     "cuda_wgmma"},
    {"sm_80",
     "fp64 N N 300 200 100 epilogue=d=where(random(7,m,n)<0.5,0,acc);l[n]=logsumexp(acc);"
     "a[]:fp16=max(abs(acc));y[m,n]:fp32=acc",
     "cuda_simt"},
    {"sm_80",
     "bf16 N T 512 4096 4096 align=16 epilogue=y=acc+r[m,n];d=y;q[m]=sum(y*y);"
     "e[n,m]:fp16=silu(y);a[]=logsumexp(y);s[n]:bf16=min(y)",
     "cuda_mma"},
    {"sm_90a", "bf16 N T 4096 4096 4096 align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 T N 1000 1000 1000 align=16 epilogue=bias_col+gelu+residual", "cuda_wgmma"},
    {"sm_90a", "fp16 T T 1023 1023 1023", "cuda_wgmma"},
    {"sm_90a", "int8 N N 300 500 700", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 64 6144 4096 align=16 numerics=fast", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 4096 4096 4096 align=16 scale=line", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 4096 4096 4096 align=16 scale=1x128:128x128", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 64 4096 4096 align=16 scale=1x128:128x128", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 4096 7168 2048 align=16 scale=1x128:128x128 scale_order=blocks_4:lines",
     "cuda_wgmma"},
    {"sm_90a", "fp8 N T 64 7168 2048 align=16 scale=1x128 scale_order=blocks", "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 8192 4096 7168 groups=8 grouped=rows align=16 scale=1x128:128x128 "
     "scale_order=blocks_4:lines",
     "cuda_wgmma"},
    {"sm_90a", "tf32 N N 512 512 512 align=16", "cuda_wgmma"},
    {"sm_90a", "tf32 N N 4096 4096 4096 align=16", "cuda_wgmma"},
    {"sm_90a", "tf32 T T 2048 2048 2048 align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 N T 256 256 32768 align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 N T 64 64 65536 align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 N T 8192 7168 2048 groups=32 grouped=rows align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 N T 512 7168 2048 groups=256 grouped=masked align=16", "cuda_wgmma"},
    {"sm_90a",
     "bf16 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 align=16 gather=rows",
     "cuda_wgmma"},
    {"sm_90a", "bf16 N T 32768 7168 2048 groups=32 grouped=rows align=16 scatter=rows",
     "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 scale=1x128:128x128 align=16 "
     "gather=rows scatter=rows",
     "cuda_wgmma"},
    {"sm_80",
     "bf16 N T 32768 4096 7168 groups=32 grouped=rows gate=silu rows_of_a=4096 align=16 "
     "gather=rows",
     "cuda_mma"},
    {"sm_80", "bf16 N T 32768 7168 2048 groups=32 grouped=rows align=16 scatter=rows", "cuda_mma"},
    {"sm_90a",
     "bf16 N T 32768 7168 2048 groups=32 grouped=rows rows_of_d=4096 align=16 scatter=weighted",
     "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 32768 7168 2048 groups=32 grouped=rows rows_of_d=4096 scale=1x128:128x128 align=16 "
     "scatter=weighted",
     "cuda_wgmma"},
    {"sm_80", "bf16 N T 32768 7168 2048 groups=32 grouped=rows rows_of_d=4096 align=16 scatter=add",
     "cuda_mma"},
    {"sm_75", "fp16 N T 300 200 100 groups=5 grouped=rows scatter=weighted", "cuda_mma"},
    {"sm_90a",
     "bf16_int4 N T 4096 7168 2048 group=128 groups=32 grouped=rows rows_of_d=512 align=16 "
     "scatter=weighted",
     "cuda_wgmma_weights"},
    {"sm_80", "bf16_int4 N T 64 7168 2048 group=128 groups=8 grouped=rows scatter=weighted",
     "cuda_weights"},
    {"sm_80", "fp64 N N 300 200 100 groups=5 grouped=rows gather=rows scatter=weighted",
     "cuda_simt"},
    {"sm_75", "fp16 N T 300 200 100 groups=5 grouped=rows gather=rows scatter=rows", "cuda_mma"},
    {"sm_80", "fp32 N N 300 200 100 groups=5 grouped=rows gather=rows scatter=rows", "cuda_simt"},
    {"sm_90a", "bf16 N T 512 4096 4096 groups=32 grouped=list align=16 epilogue=bias_col+gelu",
     "cuda_mma"},
    {"sm_90a", "bf16 N T 2048 4096 4096 groups=16 grouped=list align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 N N 512 4096 128 groups=64 grouped=list align=16 epilogue=bias_col+gelu",
     "cuda_wgmma"},
    {"sm_90a", "fp16 T N 1024 1024 4096 groups=8 grouped=list out=fp32 epilogue=residual align=16",
     "cuda_wgmma"},
    {"sm_90a", "fp8 N T 2048 4096 4096 groups=16 grouped=list align=16", "cuda_wgmma"},
    {"sm_90a", "int8 N T 512 4096 4096 groups=300 grouped=list align=16", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 2048 4096 7168 groups=32 grouped=list align=16 scale=1x128:128x128",
     "cuda_wgmma"},
    {"sm_90a", "fp8 N T 64 7168 2048 groups=32 grouped=list align=16 scale=1x128", "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 2048 4096 7168 groups=32 grouped=list align=16 scale=1x128:128x128 "
     "scale_order=blocks_4:lines",
     "cuda_wgmma"},
    {"sm_90a", "bf16 N T 2048 2048 7168 groups=32 grouped=list align=16 gate=silu", "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 2048 2048 7168 groups=32 grouped=list align=16 gate=silu scale=1x128:128x128",
     "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 2048 4096 7168 groups=32 grouped=list align=16 scale=line:tensor scale_d=1x128 "
     "out=fp8_e4m3",
     "cuda_wgmma"},
    {"sm_80",
     "int8 N T 512 4096 4096 groups=99 grouped=list align=16 scale=line:tensor out=bf16 gate=silu",
     "cuda_mma"},
    {"sm_89", "fp8 N N 512 4096 4096 groups=99 grouped=list align=16 scale=tensor:line",
     "cuda_simt"},
    {"sm_75", "fp16 T N 300 200 100 groups=5 grouped=list order=column", "cuda_mma"},
    {"sm_80", "fp32 N T 512 512 256 groups=300 grouped=list align=16", "cuda_simt"},
    {"sm_90a", "bf16 T N 7168 2048 32768 groups=32 grouped=k align=16", "cuda_wgmma"},
    {"sm_90a", "fp16 T N 2048 7168 8192 groups=256 grouped=k out=fp32 epilogue=residual align=16",
     "cuda_wgmma"},
    {"sm_90a", "fp8 N T 7168 2048 32768 groups=32 grouped=k align=16 scale=1x128", "cuda_wgmma"},
    {"sm_90a", "fp8 N T 7168 2048 32768 groups=32 grouped=k align=16", "cuda_wgmma"},
    {"sm_90a", "int8 N T 4096 4096 32768 groups=8 grouped=k align=16", "cuda_wgmma"},
    {"sm_89", "fp8 T N 4096 2048 8192 groups=32 grouped=k align=16 numerics=fast", "cuda_mma"},
    {"sm_80", "bf16 T N 7168 2048 32768 groups=32 grouped=k align=16", "cuda_mma"},
    {"sm_75", "fp16 N T 100 200 300 groups=5 grouped=k epilogue=bias_row", "cuda_mma"},
    {"sm_80", "fp32 T N 100 200 300 groups=5 grouped=k epilogue=bias_col", "cuda_simt"},
    {"sm_90a", "fp8 N T 8192 4096 7168 groups=8 grouped=rows scale=line align=16", "cuda_wgmma"},
    {"sm_90a", "bf16 N T 4096 4096 4096 out=fp8_e4m3 scale_d=1x128 align=16", "cuda_wgmma"},
    {"sm_90a", "int8 N T 4096 200 4096 out=s8 scale_d=line align=16", "cuda_wgmma"},
    {"sm_90a", "int8 N T 4096 4096 4096 out=bf16 scale=line zero_a=line align=16", "cuda_wgmma"},
    {"sm_90a", "int8 N T 64 4096 4096 out=bf16 scale=line zero_a=line align=16", "cuda_wgmma"},
    {"sm_90a", "int8 N T 2048 14336 4096 out=bf16 scale=line zero_a=line gate=silu align=16",
     "cuda_wgmma"},
    {"sm_80", "int8 N T 4096 4096 4096 out=bf16 scale=line zero_a=line align=16", "cuda_mma"},
    {"sm_80", "int8 N T 2048 14336 4096 out=bf16 scale=line zero_a=line gate=silu align=16",
     "cuda_mma"},
    {"sm_75", "u8s8 N T 100 100 100 out=fp16 scale=tensor:line zero_a=tensor", "cuda_simt"},
    {"sm_80", "int8 N T 3 4096 4096 out=bf16 scale=line zero_a=line align=16", "cuda_gemv"},
    {"sm_90a",
     "fp8 N T 4096 14336 4096 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128 align=16",
     "cuda_wgmma"},
    {"sm_90a", "fp8 N T 64 4096 4096 out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 align=16",
     "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 8192 4096 7168 groups=8 grouped=rows out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 "
     "align=16",
     "cuda_wgmma"},
    {"sm_89", "bf16 N T 4096 4096 4096 out=fp8_e4m3 scale_d=tensor align=16", "cuda_mma"},
    {"sm_80", "int8 N T 4096 4096 4096 out=s8 scale_d=tensor align=16", "cuda_mma"},
    {"sm_75", "fp16 N T 1024 1024 1024 align=16", "cuda_mma"},
    {"sm_75", "fp16 T N 333 444 555 epilogue=bias_row+silu", "cuda_mma"},
    {"sm_80", "bf16 N N 4096 4096 4096 align=16", "cuda_mma"},
    {"sm_80", "fp64 N T 2048 2048 2048 align=16", "cuda_mma"},
    {"sm_80", "int8 T N 1000 1000 1000", "cuda_mma"},
    {"sm_86", "tf32 T T 1000 1000 1000 align=4", "cuda_mma"},
    {"sm_89", "fp8 N T 4096 4096 4096 align=16 numerics=fast", "cuda_mma"},
    {"sm_89", "e4m3e5m2 T N 512 512 512 align=16 out=fp32 numerics=fast", "cuda_mma"},
    {"sm_90a", "fp64 N N 4096 4096 4096 align=16", "cuda_mma"},
    {"sm_90a", "fp64 T T 333 444 5555 epilogue=gelu_erf+residual", "cuda_mma"},
    {"sm_90a", "tf32 N N 4096 4096 4096 align=16", "cuda_mma"},
    {"sm_100a", "bf16 N T 4096 4096 4096 align=16", "cuda_mma"},
    {"sm_100", "u8s8 N T 512 512 512 align=16", "cuda_mma"},
    {"sm_120a", "fp16 T N 1000 1000 1000 batch=2 align=16", "cuda_mma"},
    {"sm_75", "fp32 N N 512 512 512 align=16", "cuda_simt"},
    {"sm_90a", "fp32 N N 4096 4096 4096 align=16", "cuda_simt"},
    {"sm_80", "bf16 T N 100 100 100 epilogue=bias_row+silu", "cuda_simt"},
    {"sm_86", "fp64 N T 100 100 100 epilogue=gelu_erf+residual", "cuda_simt"},
    {"sm_89", "fp8 N T 100 100 100", "cuda_simt"},
    {"sm_90a", "int8 N N 100 100 100 out=fp32", "cuda_simt"},
    {"sm_100a", "fp16 T T 100 100 100 batch=2", "cuda_simt"},
    {"sm_120a", "fp32 N T 100 100 100 out=bf16", "cuda_simt"},
    {"sm_75", "fp16 N T 3 5000 777", "cuda_gemv"},
    {"sm_90a", "bf16 N T 3 5000 777", "cuda_gemv"},
    {"sm_90a", "int8 N T 16 4000 4095", "cuda_gemv"},
    {"sm_89", "fp8 N T 16 5000 777", "cuda_gemv"},
    {"sm_90a", "bf16 N T 1 4096 4096 align=16", "cuda_gemv"},
    {"sm_90a", "bf16 N T 8 300 8", "cuda_gemv"},
    {"sm_80", "fp16 T T 5 3000 1001", "cuda_gemv"},
    {"sm_120a", "fp64 N T 16 100 100", "cuda_gemv"},
    {"sm_90a", "bf16 N N 1 4099 4096", "cuda_gemv_n"},
    {"sm_75", "fp16 N N 4 4097 14336", "cuda_gemv_n"},
    {"sm_80", "fp32 N N 8 4099 4096", "cuda_gemv_n"},
    {"sm_120a", "int8 N N 3 4099 4096", "cuda_gemv_n"},
    {"sm_90a", "fp32 N N 16 16 16 batch=10000 align=16", "cuda_small"},
    {"sm_90a", "fp32 N T 64 64 64 batch=10000 align=16", "cuda_small"},
    {"sm_90a", "bf16 N T 64 64 64 batch=10000 align=16 epilogue=bias_row+silu", "cuda_small"},
    {"sm_80", "fp64 T N 32 32 32 batch=1000 align=16", "cuda_small"},
    {"sm_75", "fp16 N N 5 7 17 batch=1000", "cuda_small"},
    {"sm_120a", "fp16 N N 31 31 31 batch=1000 align=16", "cuda_small"},
    {"sm_90a", "bf16_int4 N T 1 4096 4096 group=128 scale_type=bf16 align=16", "cuda_weights"},
    {"sm_90a", "bf16_int4 N T 64 28672 4096 group=128 align=16", "cuda_weights"},
    {"sm_90a", "bf16_int4 N T 512 28672 4096 group=128 align=16", "cuda_weights"},
    {"sm_80", "fp16_uint4 N T 16 4096 14336 group=32 scale_type=fp16 zero=int", "cuda_weights"},
    {"sm_80", "bf16_int8 N T 128 4096 4096 group=k zero=float align=16", "cuda_weights"},
    {"sm_120a", "fp16_int8 N T 32 4096 4096 group=64 zero=int align=16", "cuda_weights"},
    {"sm_90a", "bf16_int4 N T 512 28672 4096 group=128 scale_type=bf16 align=16",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int4 N T 128 4096 4096 group=64 align=16 epilogue=bias_col+gelu+residual",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int4 N T 512 28672 4096 group=128 scale_type=bf16 align=16 numerics=fast",
     "cuda_wgmma_weights"},
    {"sm_90a",
     "fp16_uint4 N T 4096 4096 14336 group=32 zero=float scale_type=fp16 align=16 numerics=fast",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_fp4 N T 2048 5760 2880 group=mx32 gate=silu align=16 numerics=fast",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_fp8 N T 64 7168 2048 group=128x128 align=16 numerics=fast",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int4 N T 256 14336 4096 group=128 gate=silu align=16 numerics=fast",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int4 N T 32768 7168 2048 groups=32 grouped=rows group=128 align=16",
     "cuda_wgmma_weights"},
    {"sm_90a",
     "bf16_fp4 N T 512 2880 2880 groups=32 grouped=masked group=mx32 gate=silu align=16 "
     "numerics=fast",
     "cuda_wgmma_weights"},
    {"sm_90a", "fp16_uint4 N T 4096 4096 14336 group=32 zero=int scale_type=fp16 align=16",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int8 N T 4096 4096 4096 group=k align=16 out=fp32", "cuda_wgmma_weights"},
    {"sm_90a", "fp16_int8 N T 32 4096 4096 group=64 zero=int align=16", "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int4 N T 1 4096 4096 group=128 scale_type=bf16 align=16", "cuda_gemv_weights"},
    {"sm_80", "fp16_uint4 N T 16 4096 14336 group=32 zero=int scale_type=fp16 align=16",
     "cuda_gemv_weights"},
    {"sm_120a", "bf16_int8 N T 30 8192 8192 group=k zero=float align=16", "cuda_gemv_weights"},
    {"sm_80", "bf16_fp8 N T 16 4096 14336 group=128x128 align=16", "cuda_weights"},
    {"sm_120a", "fp16_fp8 N T 128 4096 4096 group=32 align=16", "cuda_weights"},
    {"sm_90a", "bf16_fp8 N T 128 4096 4096 group=128x128 align=16", "cuda_wgmma_weights"},
    {"sm_90a", "fp16_fp8 N T 4096 4096 4096 group=k align=16 out=fp32", "cuda_wgmma_weights"},
    {"sm_90a", "bf16_fp8 N T 1 8192 28672 group=128 scale_type=bf16 align=16", "cuda_gemv_weights"},
    {"sm_80", "fp16_fp8 N T 16 4096 4096 group=k align=16", "cuda_gemv_weights"},
    {"sm_80", "bf16_fp4 N T 16 4096 14336 group=mx32 align=16", "cuda_weights"},
    {"sm_120a", "fp16_fp8 N T 128 4096 4096 group=mx32 align=16", "cuda_weights"},
    {"sm_90a", "bf16_fp4 N T 128 4096 4096 group=mx32 align=16", "cuda_wgmma_weights"},
    {"sm_90a", "fp16_fp4 N T 4096 4096 4096 group=k align=16 out=fp32", "cuda_wgmma_weights"},
    {"sm_90a", "bf16_fp4 N T 1 8192 28672 group=mx32 align=16", "cuda_gemv_weights"},
    {"sm_80", "fp16_fp4 N T 16 4096 4096 group=128 scale_type=fp16 align=16", "cuda_gemv_weights"},
    {"sm_90a", "bf16_int4 N T 1 14336 4096 group=128 scale_type=bf16 gate=silu align=16",
     "cuda_gemv_weights"},
    {"sm_80", "fp16_uint4 N T 8 14336 4096 group=128 zero=int gate=silu:interleaved align=16",
     "cuda_gemv_weights"},
    {"sm_120a", "bf16_int8 N T 30 8192 8192 group=k zero=float gate=gelu align=16",
     "cuda_gemv_weights"},
    {"sm_90a", "bf16_int4 N T 16 14336 4096 group=128 scale_type=bf16 gate=silu align=16",
     "cuda_weights"},
    {"sm_80", "fp16_uint4 N T 128 14336 4096 group=32 zero=int gate=silu:interleaved align=16",
     "cuda_weights"},
    {"sm_120a", "bf16_fp8 N T 512 14336 4096 group=128x128 gate=gelu align=16", "cuda_weights"},
    {"sm_90a", "bf16_int4 N T 4096 7168 2048 groups=32 grouped=rows group=128 align=16",
     "cuda_weights"},
    {"sm_80",
     "bf16_fp4 N T 512 5760 2880 groups=32 grouped=masked expected_rows=8 group=mx32 gate=silu "
     "align=16",
     "cuda_weights"},
    {"sm_90a", "bf16_int4 N T 64 7168 2048 groups=32 grouped=rows group=128 gate=silu align=16",
     "cuda_gemv_weights"},
    {"sm_90a", "bf16_int4 N T 64 14336 4096 group=128 scale_type=bf16 gate=silu align=16",
     "cuda_wgmma_weights"},
    {"sm_90a", "fp16_uint4 N T 4096 14336 4096 group=32 zero=int gate=silu:interleaved align=16",
     "cuda_wgmma_weights"},
    {"sm_90a", "bf16_int8 N T 512 14336 4096 group=k gate=gelu align=16", "cuda_wgmma_weights"},
    {"sm_90a", "bf16 N T 4096 4096 4096 align=16 amax=1", "cuda_wgmma"},
    {"sm_90a", "bf16 N T 64 4096 4096 epilogue=bias_col+gelu+residual align=16 amax=1",
     "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 4096 4096 4096 out=fp8_e4m3 scale=tensor scale_d=tensor align=16 numerics=fast "
     "amax=1",
     "cuda_wgmma"},
    {"sm_90a",
     "fp8 N T 2048 14336 4096 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=tensor align=16 "
     "amax=1",
     "cuda_wgmma"},
    {"sm_90a", "fp8 N T 8192 4096 7168 groups=8 grouped=rows scale=line align=16 amax=1",
     "cuda_wgmma"},
    {"sm_90a", "int8 N T 4096 4096 4096 out=s8 scale=line scale_d=tensor align=16 amax=1",
     "cuda_wgmma"},
    {"sm_90a", "fp32 N T 4096 4096 4096 numerics=tensor align=16 amax=1", "cuda_wgmma"},
    {"sm_80", "bf16 N T 4096 4096 4096 align=16 amax=1", "cuda_mma"},
    {"sm_89", "fp8 N T 4096 4096 4096 out=fp8_e4m3 scale_d=tensor align=16 numerics=fast amax=1",
     "cuda_mma"},
    {"sm_75", "fp16 T N 333 444 555 epilogue=bias_row+silu amax=1", "cuda_mma"},
    {"sm_86", "fp64 N T 100 100 100 epilogue=gelu_erf+residual amax=1", "cuda_simt"},
    {"sm_90a", "fp32 N N 4096 4096 4096 align=16 amax=1", "cuda_simt"},
    {"sm_80", "bf16_int4 N T 16 4096 4096 group=128 scale_type=bf16 align=16 amax=1",
     "cuda_weights"},
    {"sm_90a", "bf16_int4 N T 512 14336 4096 group=128 gate=silu align=16 amax=1", "cuda_weights"}};

/// The model's first choices in a family.
std::vector<Config> favourites(const Target& t, std::size_t count) {
  const auto device = cuda_caps_named(t.device).value();
  const auto space = space_for(Problem::of(parse_gemm(t.line).value()).value(), device);
  if (!space) return {};
  std::vector<std::pair<double, Config>> all;
  for (const auto& c : space->legal)
    if (family_name(c) == t.family) all.emplace_back(predict_ns(space->problem, device, c), c);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Config> first;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i) first.push_back(all[i].second);
  return first;
}

std::string complaint(const Result<Binary>& binary) {
  if (!binary) return binary.error().message;
  const ResourceReport& needs = binary->resources;
  if (needs.spills == 0 && needs.registers > 0 && needs.registers <= 255) return {};
  return fmt::format("{} registers, {} bytes spilled", needs.registers, needs.spills);
}

void expect_no_spills(const Target& target, const std::vector<Config>& configs) {
  const auto compiler = nvrtc_compiler();
  if (!compiler) {
    EXPECT_EQ(compiler.error().code, ErrorCode::compiler);
    EXPECT_THAT(compiler.error().message, testing::HasSubstr("nvrtc"));
    return;
  }
  for (const auto& config : configs) {
    const auto source = render(Problem::of(parse_gemm(target.line).value()).value(),
                               cuda_caps_named(target.device).value(), config);
    ASSERT_TRUE(source) << source.error().message;
    const std::string wrong = test::proof(code_key(*source) + (*compiler)->version(),
                                          [&] { return complaint((*compiler)->compile(*source)); });
    EXPECT_EQ(wrong, "") << target << "\n" << text(config);
  }
}

class CudaCompile : public testing::TestWithParam<Target> {};

TEST_P(CudaCompile, FavouritesDoNotSpill) {
  const auto configs = favourites(GetParam(), 2);
  ASSERT_FALSE(configs.empty());
  expect_no_spills(GetParam(), configs);
}

// No favourites of the model: the order of tiles is worked out by the warps that copy, too, which
// have the fewest registers.
TEST(CudaCompileCurve, OrdersAlongACurveDoNotSpill) {
  const Target target{"sm_90a", "bf16 N T 8192 8192 8192 align=16 batch=2", "cuda_wgmma"};
  const auto curve = [](CudaWgmma c) {
    c.along = Along::hilbert;
    c.group = 16;
    return c;
  };
  expect_no_spills(target, {curve({}), curve({.left = 64, .right = 256, .pingpong = true}),
                            curve({.left = 192, .right = 160, .warpgroups = 3}),
                            curve({.right = 128, .cluster_left = 2, .sharing = Sharing::stream})});
}

// Sums of integers are finished in their registers, as integers or as floats, whatever a call's
// factors are; wgmma is not serialised for it.
TEST(CudaCompileIntegers, TilesOfAnySharingOfWorkCompile) {
  for (const char* line : {"int8 N T 4096 4096 4096 align=16",
                           "int8 N T 4096 4096 4096 epilogue=relu+residual align=16"})
    expect_no_spills({"sm_90a", line, "cuda_wgmma"},
                     {CudaWgmma{}, CudaWgmma{.left = 64, .right = 256, .pingpong = true},
                      CudaWgmma{.left = 192, .right = 160, .stages = 3, .warpgroups = 3},
                      CudaWgmma{.left = 256, .right = 128, .warpgroups = 2},
                      CudaWgmma{.right = 128, .swap = true},
                      CudaWgmma{.right = 128, .pingpong = true, .cluster_right = 2}});
}

// The stages of a tile come from the list of groups, which neither spills nor serialises wgmma.
TEST(CudaCompileGroupsOfK, TilesOfAnySharingOfWorkCompile) {
  for (const char* line : {"bf16 T N 7168 2048 32768 groups=32 grouped=k align=16",
                           "bf16 T N 7168 2048 32768 groups=32 grouped=k out=fp32 align=16"})
    expect_no_spills(
        {"sm_90a", line, "cuda_wgmma"},
        {CudaWgmma{}, CudaWgmma{.left = 64, .right = 256, .pingpong = true},
         CudaWgmma{.left = 192, .right = 160, .stages = 3, .warpgroups = 3},
         CudaWgmma{.left = 256, .right = 128, .warpgroups = 2},
         CudaWgmma{.right = 128, .swap = true}, CudaWgmma{.right = 128, .cluster_left = 2},
         CudaWgmma{.right = 128, .pingpong = true, .cluster_right = 2}});
}

// The stages and tensor maps of a tile are those of its product.
TEST(CudaCompileLists, TilesOfAnySharingOfWorkCompile) {
  expect_no_spills(
      {"sm_90a", "bf16 N T 2048 4096 4096 groups=16 grouped=list align=16", "cuda_wgmma"},
      {CudaWgmma{}, CudaWgmma{.left = 64, .right = 256, .pingpong = true},
       CudaWgmma{.left = 192, .right = 160, .stages = 3, .warpgroups = 3},
       CudaWgmma{.right = 128, .swap = true}, CudaWgmma{.right = 128, .cluster_left = 2},
       CudaWgmma{.right = 128, .pingpong = true, .cluster_right = 2},
       CudaWgmma{.right = 128, .along = Along::hilbert, .group = 8}});
  expect_no_spills(
      {"sm_90a", "bf16 N N 2048 4096 4096 groups=16 grouped=list out=fp32 align=16", "cuda_wgmma"},
      {CudaWgmma{}, CudaWgmma{.left = 64, .right = 256, .pingpong = true},
       CudaWgmma{.left = 192, .right = 128, .stages = 3, .warpgroups = 3},
       CudaWgmma{.right = 128, .swap = true}});
  expect_no_spills(
      {"sm_90a", "fp8 N T 2048 4096 4096 groups=16 grouped=list align=16", "cuda_wgmma"},
      {CudaWgmma{.left = 128, .right = 128, .promote = true},
       CudaWgmma{.left = 64, .right = 128, .pingpong = true, .promote = true},
       CudaWgmma{.right = 128, .swap = true, .cluster_right = 2, .promote = true}});
  expect_no_spills(
      {"sm_90a", "bf16 N T 2048 2048 4096 groups=16 grouped=list gate=silu align=16", "cuda_wgmma"},
      {CudaWgmma{.left = 128, .right = 256, .stages = 3},
       CudaWgmma{.left = 64, .right = 256, .stages = 3, .pingpong = true},
       CudaWgmma{.left = 256, .right = 128, .stages = 3, .swap = true},
       CudaWgmma{.left = 192, .right = 160, .stages = 3, .warpgroups = 3}});
}

// Blocks of columns that two tiles of a cluster share: the largest tiles, both factors.
TEST(CudaCompilePairs, TilesThatTellEachOtherDoNotSpill) {
  const CudaWgmma wide{.left = 128, .right = 192, .stages = 4, .cluster_right = 2, .promote = true};
  CudaWgmma copied = wide;
  copied.tma_scales = true;
  expect_no_spills(
      {"sm_90a", "fp8 N T 4096 24576 1536 out=fp8_e4m3 scale=1x128:128x128 scale_d=1x128 align=16",
       "cuda_wgmma"},
      {wide, copied});
  expect_no_spills({"sm_90a",
                    "fp8 N T 8192 7168 2048 groups=8 grouped=rows out=fp8_e4m3 "
                    "scale=1x128:128x128 scale_d=1x128 align=16",
                    "cuda_wgmma"},
                   {copied});
  expect_no_spills(
      {"sm_90a", "bf16 N T 4096 14336 4096 out=fp8_e4m3 gate=silu scale_d=1x128 align=16",
       "cuda_wgmma"},
      {CudaWgmma{.left = 256, .right = 128, .stages = 3, .cluster_right = 2}});
  const CudaWgmma gate{.left = 256, .right = 128, .stages = 3, .cluster_right = 2, .promote = true};
  expect_no_spills(
      {"sm_90a",
       "fp8 N T 2048 14336 4096 out=fp8_e4m3 scale=1x128:128x128 gate=silu scale_d=1x128 align=16",
       "cuda_wgmma"},
      {gate, CudaWgmma{.left = 64,
                       .right = 128,
                       .stages = 6,
                       .pingpong = true,
                       .cluster_right = 2,
                       .promote = true}});
}

// What is of other groups is cleared beside the instructions.
TEST(CudaCompileGroupsOfK, LinesAlongKCompile) {
  for (const char* line : {"bf16 N T 7168 2048 32768 groups=32 grouped=k align=16",
                           "int8 N T 7168 2048 32768 groups=32 grouped=k align=16"})
    expect_no_spills({"sm_90a", line, "cuda_wgmma"},
                     {CudaWgmma{}, CudaWgmma{.left = 64, .right = 256, .pingpong = true},
                      CudaWgmma{.left = 192, .right = 160, .stages = 3, .warpgroups = 3},
                      CudaWgmma{.right = 128, .swap = true, .cluster_left = 2}});
  for (const char* line : {"fp8 N T 7168 2048 32768 groups=32 grouped=k align=16",
                           "fp8 N T 7168 2048 32768 groups=32 grouped=k align=16 scale=1x128",
                           "fp8 N T 7168 2048 32768 groups=32 grouped=k align=16 "
                           "scale=1x128:128x128"})
    expect_no_spills({"sm_90a", line, "cuda_wgmma"},
                     {CudaWgmma{.left = 128, .right = 128, .promote = true},
                      CudaWgmma{.left = 64, .right = 128, .pingpong = true, .promote = true},
                      CudaWgmma{.left = 256, .right = 96, .warpgroups = 2, .promote = true},
                      CudaWgmma{.right = 128, .swap = true, .cluster_right = 2, .promote = true}});
}

// The largest tiles that the registers of a warpgroup allow, of each number of them.
TEST(CudaCompileWeights, LargestTilesDoNotSpill) {
  const auto largest = [](const Target& target) {
    const auto device = cuda_caps_named(target.device).value();
    const Problem problem = Problem::of(parse_gemm(target.line).value()).value();
    std::vector<Config> all;
    for (const int warpgroups : {1, 2, 3})
      for (int tile_m = 256; tile_m >= 8; tile_m -= 8) {
        CudaWgmmaWeights c{.tile_m = tile_m, .warpgroups = warpgroups, .stages = 2};
        if (problem.gemm.numerics == Numerics::fast)
          c = {.tile_m = tile_m,
               .warpgroups = warpgroups,
               .block_k = 64,
               .stages = 3,
               .round_weights = true,
               .turn = 2};
        if (!broken_rule(problem, device, c).empty()) continue;
        all.emplace_back(c);
        break;
      }
    return all;
  };
  for (const char* line :
       {"bf16_int4 N T 4096 4096 4096 group=128 align=16",
        "fp16_int4 N T 4096 4096 4096 group=32 zero=int align=16",
        "bf16_int8 N T 4096 4096 4096 group=k zero=int align=16 "
        "epilogue=bias_col+gelu+residual",
        "bf16_fp8 N T 4096 4096 4096 group=128 align=16",
        "bf16_fp8 N T 4096 4096 4096 group=mx32 align=16",
        "bf16_fp4 N T 4096 4096 4096 group=mx32 align=16",
        "fp16_fp4 N T 4096 4096 4096 group=k align=16",
        "bf16_int4 N T 4096 4096 4096 group=128 gate=silu align=16",
        "fp16_uint4 N T 4096 4096 4096 group=64 zero=int gate=gelu align=16",
        "bf16_fp8 N T 4096 4096 4096 group=k gate=silu align=16",
        "bf16_int4 N T 4096 4096 4096 group=128 numerics=fast align=16",
        "fp16_uint4 N T 4096 4096 4096 group=32 zero=float scale_type=fp16 "
        "numerics=fast align=16 epilogue=bias_col+gelu+residual",
        "bf16_uint4 N T 4096 4096 4096 group=32 zero=int numerics=fast align=16",
        "bf16_int8 N T 4096 4096 4096 group=32 zero=float numerics=fast align=16",
        "bf16_fp8 N T 4096 4096 4096 group=128 numerics=fast align=16",
        "bf16_fp4 N T 4096 4096 4096 group=mx32 numerics=fast align=16",
        "bf16_int4 N T 4096 4096 4096 group=128 gate=silu numerics=fast align=16",
        "fp16_uint4 N T 4096 4096 4096 group=64 zero=float scale_type=fp16 "
        "gate=gelu numerics=fast align=16",
        "bf16_fp4 N T 4096 4096 4096 group=mx32 gate=silu numerics=fast "
        "align=16"}) {
    const Target target{"sm_90a", line, "cuda_wgmma_weights"};
    const auto configs = largest(target);
    EXPECT_EQ(configs.size(), 3u) << line;
    expect_no_spills(target, configs);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CudaCompile, testing::ValuesIn(kTargets));

}  // namespace kiln::cuda_compile_test
