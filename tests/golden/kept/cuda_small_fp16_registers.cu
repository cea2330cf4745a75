// device:  sm_75
// problem: fp16 N N 9 6 7 batch=1000
// config:  cuda_small products=4 lanes_m=3 lanes_n=2 depth=2 matrix=0 copy=registers width=2 stages=1 store=direct turns=1 resident=8

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = Half;               // elements of B
using TypeD = Half;               // elements of C and D
using Acc = float;                // accumulators
using Real = float;               // what the epilogue computes in
constexpr int kM = 9;             // rows of D
constexpr int kN = 6;             // columns of D
constexpr int kK = 7;             // columns of op(A)
constexpr int kProducts = 4;      // of a block at once
constexpr int kLanesM = 3;        // lanes of a product along its rows
constexpr int kLanesN = 2;        // lanes of it along its columns
constexpr int kThreadM = 3;       // rows of a lane's accumulators
constexpr int kThreadN = 4;       // columns of them
constexpr int kRunM = 1;          // rows that a lane has side by side
constexpr int kRunN = 2;          // columns that it has side by side
constexpr int kDepth = 2;         // steps of k whose factors are read together
constexpr int kUnroll = 3;        // times that the loop's body holds them
constexpr int kThreads = 32;      // of a block
constexpr int kResident = 8;      // blocks of a unit at once
constexpr int kWidth = 2;         // bytes of A and B copied at once
constexpr int kStages = 1;        // groups of products in shared memory
constexpr bool kAlongKA = true;   // neighbours run along k
constexpr bool kDenseA = true;    // lines and products are adjacent in memory
constexpr bool kFlatA = false;    // a block's products are copied as one run
constexpr int kPitchA = 8;        // elements between lines in shared memory
constexpr int kApartA = 74;       // elements between products there
constexpr bool kAlongKB = false;  // neighbours run along k
constexpr bool kDenseB = true;    // lines and products are adjacent in memory
constexpr bool kFlatB = false;    // a block's products are copied as one run
constexpr int kPitchB = 6;        // elements between lines in shared memory
constexpr int kApartB = 44;       // elements between products there
constexpr int kStoreWidth = 1;    // elements of D that a lane stores at once
constexpr int kVectorA = 2;       // elements of A read from shared memory at once
constexpr int kVectorB = 2;       // elements of B read from it at once

// ---- cuda/small/copy.h ----
// Operands of a block's products on their way from memory to shared memory, where they keep the
// type and the order that they have in memory. Expects types.h, ampere_ptx.h, and from the
// parameters the shape.

/// Elements that are read or written at once.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Some {
  T x[Count];
};

/// One operand. `Flat`: the products of a block are one run in memory and in shared memory.
/// Otherwise each line is copied by itself, to lines `Pitch` elements apart and products `Apart`
/// elements apart. `Dense`: lines and products are adjacent in memory.
template <typename T, bool AlongK, int Rows, bool Flat, bool Dense, int Pitch, int Apart>
struct Operand {
  static constexpr int kRun = AlongK ? kK : Rows, kLines = AlongK ? Rows : kK;
  static constexpr int kEach = kWidth / int(sizeof(T));  // elements of a copy
  static constexpr int kCopiesOfLine =
      Flat ? kProducts * kRun * kLines / kEach : (kRun + kEach - 1) / kEach;
  static constexpr int kCopies = Flat ? kCopiesOfLine : kCopiesOfLine * kLines * kProducts;
  static constexpr int kOfThread = (kCopies + kThreads - 1) / kThreads;
  static constexpr bool kWhole = Flat || kRun % kEach == 0;  // every copy is of kEach elements
  /// Of a stage, with what alignment leaves behind it.
  static constexpr int kBytes = (kProducts * Apart * int(sizeof(T)) + 15) / 16 * 16;

  /// One copy: where its elements are in memory and in shared memory, and how many exist.
  struct Copy {
    i64 from;
    int to, count;
  };
  /// Only the first `products` exist.
  static __device__ __forceinline__ Copy copy_at(int number, i64 ld, i64 stride, int products) {
    if constexpr (Flat) {
      const int at = number * kEach, end = products * kRun * kLines;
      return {at, at, max(0, min(kEach, end - at))};
    } else {
      const int line = number / kCopiesOfLine, x = (number - line * kCopiesOfLine) * kEach;
      const int product = line / kLines, own = line - product * kLines;
      const i64 from = Dense && kWhole ? i64(number) * kEach : product * stride + own * ld + x;
      const int count = kWhole ? kEach : min(kEach, kRun - x);
      return {from, product * Apart + own * Pitch + x, product < products ? count : 0};
    }
  }

  /// Brings the products from `from` on to shared memory at `to`, some copies at a time in flight.
  static __device__ __forceinline__ void bring(T* to, const T* from, i64 ld, i64 stride,
                                               int products, int thread) {
    constexpr int kTogether = kOfThread < 8 ? kOfThread : 8;
    using Read = Some<T, kEach>;
    _Pragma("unroll 1") for (int first = thread; first < kCopies; first += kTogether * kThreads) {
      Read held[kTogether];
      _Pragma("unroll") for (int i = 0; i < kTogether; ++i) {
        const Copy copy = copy_at(first + i * kThreads, ld, stride, products);
        if (copy.count > 0) held[i] = *reinterpret_cast<const Read*>(from + copy.from);
      }
      _Pragma("unroll") for (int i = 0; i < kTogether; ++i) {
        const Copy copy = copy_at(first + i * kThreads, ld, stride, products);
        if (copy.count > 0) *reinterpret_cast<Read*>(to + copy.to) = held[i];
      }
    }
  }
};

using OperandA = Operand<TypeA, kAlongKA, kM, kFlatA, kDenseA, kPitchA, kApartA>;
using OperandB = Operand<TypeB, kAlongKB, kN, kFlatB, kDenseB, kPitchB, kApartB>;
constexpr int kStageBytes = OperandA::kBytes + OperandB::kBytes;

// ---- cuda/small/small.cu ----
// Batches of small products. A block has kProducts of them at once in shared memory, kLanesM ×
// kLanesN lanes for each; the next ones are on their way meanwhile. All sizes are constants.
// Expects copy.h, factors.h or matrix.h, store.h and, where grids overlap, grid_ptx.h.

/// Starts to bring a group of products to a stage.
KILN_DEVICE void fetch(const KilnGpuArgs& args, i64 group, unsigned char* stage, int thread) {
  const i64 first = group * kProducts;
  const int products = int(min(args.batch - first, i64(kProducts)));
  const auto* a = static_cast<const TypeA*>(args.a) + first * args.stride_a;
  const auto* b = static_cast<const TypeB*>(args.b) + first * args.stride_b;
  OperandA::bring(reinterpret_cast<TypeA*>(stage), a, args.lda, args.stride_a, products, thread);
  OperandB::bring(reinterpret_cast<TypeB*>(stage + OperandA::kBytes), b, args.ldb, args.stride_b,
                  products, thread);
}

/// One lane's part of its product, of which `left` are the accumulators in shared memory.
KILN_DEVICE void compute(const KilnGpuArgs& args, i64 group, const unsigned char* stage, Acc* left,
                         int thread) {
  constexpr int kLanes = kLanesM * kLanesN;
  const int team = thread / kLanes, lane = thread - team * kLanes;
  const int lane_m = lane / kLanesN, lane_n = lane - lane_m * kLanesN;
  const i64 product = group * kProducts + team;
  if (team >= kProducts || product >= args.batch) return;
  const auto* a = reinterpret_cast<const TypeA*>(stage) + team * kApartA;
  const auto* b = reinterpret_cast<const TypeB*>(stage + OperandA::kBytes) + team * kApartB;
  Acc sums[kThreadM][kThreadN] = {};
  sum_products(sums, a, b, lane_m, lane_n);
  store_sums(sums, output_of(args, product), lane_m, lane_n);
}

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = int(threadIdx.x);
  const i64 groups = ceil_div(args.batch, kProducts), apart = i64(gridDim.x);
  Acc* left = reinterpret_cast<Acc*>(shared + kStages * kStageBytes);
  _Pragma("unroll 1") for (i64 group = i64(blockIdx.x); group < groups; group += apart) {
    fetch(args, group, shared, thread);
    __syncthreads();
    compute(args, group, shared, left, thread);
    __syncthreads();
  }
}
