// device:  sm_90a
// problem: fp64 N N 32 32 32 batch=10000 align=16
// config:  cuda_small products=2 lanes_m=8 lanes_n=4 depth=8 matrix=1 copy=async width=16 stages=2 store=direct turns=0 resident=2

// ---- parameters ----
using TypeA = double;             // elements of A
using TypeB = double;             // elements of B
using TypeD = double;             // elements of C and D
using Acc = double;               // accumulators
using Real = double;              // what the epilogue computes in
constexpr int kM = 32;            // rows of D
constexpr int kN = 32;            // columns of D
constexpr int kK = 32;            // columns of op(A)
constexpr int kProducts = 2;      // of a block at once
constexpr int kLanesM = 8;        // lanes of a product along its rows
constexpr int kLanesN = 4;        // lanes of it along its columns
constexpr int kThreadM = 4;       // rows of a lane's accumulators
constexpr int kThreadN = 8;       // columns of them
constexpr int kRunM = 1;          // rows that a lane has side by side
constexpr int kRunN = 2;          // columns that it has side by side
constexpr int kDepth = 8;         // steps of k whose factors are read together
constexpr int kUnroll = 4;        // times that the loop's body holds them
constexpr int kThreads = 64;      // of a block
constexpr int kResident = 2;      // blocks of a unit at once
constexpr int kWidth = 16;        // bytes of A and B copied at once
constexpr int kStages = 2;        // groups of products in shared memory
constexpr bool kAlongKA = true;   // neighbours run along k
constexpr bool kDenseA = true;    // lines and products are adjacent in memory
constexpr bool kFlatA = false;    // a block's products are copied as one run
constexpr int kPitchA = 36;       // elements between lines in shared memory
constexpr int kApartA = 1152;     // elements between products there
constexpr bool kAlongKB = false;  // neighbours run along k
constexpr bool kDenseB = true;    // lines and products are adjacent in memory
constexpr bool kFlatB = false;    // a block's products are copied as one run
constexpr int kPitchB = 36;       // elements between lines in shared memory
constexpr int kApartB = 1152;     // elements between products there
constexpr int kStoreWidth = 2;    // elements of D that a lane stores at once
using Fragment = double;          // a register of an operand
constexpr int kChunks = 1;        // parts of a step of the instruction
constexpr int kMmaSums = 4;       // accumulator registers of the matrix instruction
constexpr int kMmaA = 4;          // registers of A
constexpr int kMmaB = 2;          // registers of B
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+d"((d)[0]), "+d"((d)[1]), "+d"((d)[2]), "+d"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "d"((a)[0]), "d"((a)[1]), "d"((a)[2]), "d"((a)[3]), \
  "d"((b)[0]), "d"((b)[1])

// ---- cuda/small/matrix.h ----
// Matrix instructions: a warp, or several along m, has a product. A lane's elements of D are those
// that it has of multiply-adds, with runs of one row and of two columns. Expects mma.h,
// ampere_ptx.h, copy.h.

constexpr int kTilesM = kThreadM / 2, kTilesN = kThreadN / 2;  // of 16 rows, of 8 columns
constexpr int kPairsN = (kTilesN + 1) / 2;                     // of tiles of columns

/// The first of `count` rows, or columns, from `row` on: earlier where the product has fewer.
template <int Rows>
KILN_DEVICE int within(int row, int count) {
  return min(row, Rows - count);
}

template <typename T, bool AlongK, int Rows, int Pitch>
KILN_DEVICE T element(const T* product, int row, int k) {
  const int own = within<Rows>(row, 1);
  return product[AlongK ? own * Pitch + k : k * Pitch + own];
}
/// Those of one step of k.
KILN_DEVICE void read_fragments(Fragment (&left)[kTilesM][4], Fragment (&right)[2 * kPairsN][2],
                                const TypeA* a, const TypeB* b, int k, int lane_m, int lane_n) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int part = 0; part < 4; ++part)
      left[i][part] = element<TypeA, kAlongKA, kM, kPitchA>(
          a, lane_m + (2 * i + part % 2) * kLanesM, k + lane_n + part / 2 * 4);
  _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
    _Pragma("unroll") for (int part = 0; part < 2; ++part)
      right[j][part] =
          element<TypeB, kAlongKB, kN, kPitchB>(b, j * 8 + lane_m % 8, k + lane_n + part * 4);
}

KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const TypeA* a, const TypeB* b,
                              int lane_m, int lane_n) {
  Acc tiles[kTilesM][kTilesN][4] = {};
  _Pragma("unroll kUnroll") for (int k = 0; k < kK; k += kDepth) {
    Fragment left[kTilesM][4], right[2 * kPairsN][2];
    read_fragments(left, right, a, b, k, lane_m, lane_n);
    _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
      _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
        multiply_step(tiles[i][j], left[i], right[j]);
  }
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      sums[i][j] = tiles[i / 2][j / 2][i % 2 * 2 + j % 2];
}
