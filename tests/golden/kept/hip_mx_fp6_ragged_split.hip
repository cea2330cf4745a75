// device:  gfx950
// problem: fp6 N T 100 90 1056 scale=mx32
// config:  hip_mx rows=32 tile_m=64 tile_n=64 tile_k=256 waves_m=2 waves_n=2 staging=single splits=2 chunk=0 group=4

// ---- parameters ----
using TypeA = u8;                    // elements of A
using TypeB = u8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
constexpr int kTileM = 64;           // rows of D in a block's tile
constexpr int kTileN = 64;           // columns of it
constexpr int kTileK = 256;          // k of one stage
constexpr int kBitsA = 6;            // of a code of A
constexpr int kBitsB = 6;            // of a code of B
constexpr int kWavesM = 2;           // waves along m
constexpr int kWavesN = 2;           // waves along n
constexpr int kThreads = 256;        // of a block
constexpr int kWavesPerUnit = 1;     // waves of a block that share a SIMD
constexpr int kRows = 32;            // rows and columns of one instruction
constexpr int kSums = 16;            // accumulators of a lane, for one instruction
constexpr int kStages = 1;           // in shared memory
constexpr int kSharedBytes = 26624;  // of all stages
constexpr int kWidthA = 1;           // bytes of a load of A
constexpr int kWidthB = 1;           // bytes of a load of B
constexpr int kScaleWidth = 1;       // bytes of a load of scales
constexpr int kFormatA = 2;          // of the instruction's first operand, B
constexpr int kFormatB = 2;          // of the second, A
constexpr int kGroup = 4;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 2;           // parts that k is divided into
#define KILN_MFMA mfma_scale_32x32x64
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4
