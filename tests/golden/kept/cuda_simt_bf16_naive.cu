// device:  sm_75
// problem: bf16 N T 100 100 100 epilogue=bias_row+silu
// config:  cuda_simt block_m=8 block_n=32 block_k=1 thread_m=1 thread_n=1 lanes_m=1 spread=1 width_a=1 width_b=1 copy=registers stages=0 ahead=0 lines=plain resident=1 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = Bfloat;            // elements of A
using TypeB = Bfloat;            // elements of B
using TypeD = Bfloat;            // elements of C and D
using Acc = float;               // accumulators
using Real = float;              // what the epilogue computes in
constexpr int kBlockM = 8;       // rows of D in a block's tile
constexpr int kBlockN = 32;      // columns of D in it
constexpr int kBlockK = 1;       // k of one pass
constexpr int kThreadM = 1;      // rows of a thread's accumulators
constexpr int kThreadN = 1;      // columns of them
constexpr int kLanesM = 1;       // lanes of a warp along the rows
constexpr bool kSpread = true;   // other lanes' rows and columns lie between a thread's quads
constexpr int kThreads = 256;    // of a block
constexpr int kResident = 1;     // blocks of a unit at once
constexpr int kStoreWidth = 1;   // elements of D stored at once
constexpr int kGroup = 8;        // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;  // A's neighbours run along k
constexpr bool kAlongKB = true;  // B's neighbours run along k
