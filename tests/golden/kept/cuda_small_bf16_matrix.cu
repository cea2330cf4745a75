// device:  sm_90a
// problem: bf16 N T 64 64 64 batch=10000 epilogue=bias_row+silu+residual align=16
// config:  cuda_small products=2 lanes_m=16 lanes_n=4 depth=16 matrix=1 copy=async width=16 stages=2 store=shared turns=0 resident=2

// ---- parameters ----
using TypeA = Bfloat;            // elements of A
using TypeB = Bfloat;            // elements of B
using TypeD = Bfloat;            // elements of C and D
using Acc = float;               // accumulators
using Real = float;              // what the epilogue computes in
constexpr int kM = 64;           // rows of D
constexpr int kN = 64;           // columns of D
constexpr int kK = 64;           // columns of op(A)
constexpr int kProducts = 2;     // of a block at once
constexpr int kLanesM = 16;      // lanes of a product along its rows
constexpr int kLanesN = 4;       // lanes of it along its columns
constexpr int kThreadM = 4;      // rows of a lane's accumulators
constexpr int kThreadN = 16;     // columns of them
constexpr int kRunM = 1;         // rows that a lane has side by side
constexpr int kRunN = 2;         // columns that it has side by side
constexpr int kDepth = 16;       // steps of k whose factors are read together
constexpr int kUnroll = 4;       // times that the loop's body holds them
constexpr int kThreads = 128;    // of a block
constexpr int kResident = 2;     // blocks of a unit at once
constexpr int kWidth = 16;       // bytes of A and B copied at once
constexpr int kStages = 2;       // groups of products in shared memory
constexpr bool kAlongKA = true;  // neighbours run along k
constexpr bool kDenseA = true;   // lines and products are adjacent in memory
constexpr bool kFlatA = false;   // a block's products are copied as one run
constexpr int kPitchA = 72;      // elements between lines in shared memory
constexpr int kApartA = 4608;    // elements between products there
constexpr bool kAlongKB = true;  // neighbours run along k
constexpr bool kDenseB = true;   // lines and products are adjacent in memory
constexpr bool kFlatB = false;   // a block's products are copied as one run
constexpr int kPitchB = 72;      // elements between lines in shared memory
constexpr int kApartB = 4608;    // elements between products there
constexpr int kStoreWidth = 2;   // accumulators that a lane leaves at once
constexpr int kWidthD = 8;       // elements of D that a block's thread finishes at once
using Fragment = u32;            // a register of an operand
constexpr int kChunks = 1;       // parts of a step of the instruction
constexpr int kMmaSums = 4;      // accumulator registers of the matrix instruction
constexpr int kMmaA = 4;         // registers of A
constexpr int kMmaB = 2;         // registers of B
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

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

/// Four 8 × 8 matrices, each of 8 rows from the one on that this lane's `row` is of, and of 8 steps
/// of k from `k` on. `line` is the lane's line of its matrix.
template <typename T, bool AlongK, int Rows, int Pitch>
KILN_DEVICE void read_matrices(u32 (&to)[4], const T* product, int row, int k, int line) {
  if constexpr (AlongK) {
    ldmatrix_x4(to, shared_address(product + within<Rows>(row + line, 1) * Pitch + k));
  } else {
    ldmatrix_x4_trans(to, shared_address(product + (k + line) * Pitch + within<Rows>(row, 8)));
  }
}
/// Those of one step of k.
KILN_DEVICE void read_fragments(Fragment (&left)[kTilesM][4], Fragment (&right)[2 * kPairsN][2],
                                const TypeA* a, const TypeB* b, int k, int lane_m, int lane_n) {
  const int lane = lane_m % 8 * 4 + lane_n, number = lane / 8, line = lane % 8;
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    read_matrices<TypeA, kAlongKA, kM, kPitchA>(
        left[i], a, lane_m / 8 * 8 + (2 * i + number % 2) * kLanesM, k + number / 2 * 8, line);
  _Pragma("unroll") for (int j = 0; j < kPairsN; ++j) {
    u32 both[4];
    read_matrices<TypeB, kAlongKB, kN, kPitchB>(both, b, (2 * j + number / 2) * 8,
                                                k + number % 2 * 8, line);
    _Pragma("unroll") for (int part = 0; part < 4; ++part)
      right[2 * j + part / 2][part % 2] = both[part];
  }
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

// ---- cuda/small/store.h ----
// Accumulators become elements of D: each lane stores its own, or leaves them in shared memory,
// from where a block finishes those of all its products in the order of D. Expects copy.h,
// epilogue.h.

/// The row, or column, of a lane's `i`-th one: runs of `run`, between which other lanes' lie.
KILN_DEVICE int place_of(int lane, int i, int lanes, int run) {
  return (lane + i / run * lanes) * run + i % run;
}

/// What follows alpha and C.
KILN_DEVICE TypeD finished(const Output& out, Real x, int row, int column) {
  x = finish(out, x, row, column);
  return from_real(x, TypeD{});
}

/// Leaves a lane's accumulators in shared memory, where a product's rows are adjacent.
KILN_DEVICE void leave_sums(const Acc (&sums)[kThreadM][kThreadN], Acc* to, int lane_m,
                            int lane_n) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const int row = place_of(lane_m, i, kLanesM, kRunM);
    if (row >= kM) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth) {
      const int column = place_of(lane_n, j, kLanesN, kRunN);
      if (column >= kN) continue;
      Some<Acc, kStoreWidth> some;
      _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e) some.x[e] = sums[i][j + e];
      *reinterpret_cast<Some<Acc, kStoreWidth>*>(to + row * kN + column) = some;
    }
  }
}

/// An element from its accumulator.
KILN_DEVICE TypeD finished_sum(const Output& out, Acc sum, int row, int column) {
  Real x = product(Real(sum), out.alpha);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  return finished(out, x, row, column);
}

/// Finishes a group's products, kWidthD neighbours at a time: of one row, or, where D has no room
/// between rows and products, whatever follows it.
KILN_DEVICE void store_group(const KilnGpuArgs& args, i64 group, const Acc* sums, int thread) {
  using Piece = Some<TypeD, kWidthD>;
  const i64 first = group * kProducts;
  const int end = int(min(args.batch - first, i64(kProducts))) * (kM * kN);
  _Pragma("unroll 1") for (int at = thread * kWidthD; at < end; at += kThreads * kWidthD) {
    int team = at / (kM * kN), row = (at - team * (kM * kN)) / kN;
    int column = at - team * (kM * kN) - row * kN;
    Output out = output_of(args, first + team);
    TypeD* const d = out.d + row * out.ldd + column;
    Piece piece;
    _Pragma("unroll") for (int e = 0; e < kWidthD; ++e) {
      if (kN % kWidthD == 0 || at + e < end)
        piece.x[e] = finished_sum(out, sums[at + e], row, column);
      if (++column < kN || kN % kWidthD == 0) continue;
      column = 0;
      if (++row < kM) continue;
      row = 0;
      out = output_of(args, first + ++team);
    }
    if (kN % kWidthD == 0 || at + kWidthD <= end) {
      *reinterpret_cast<Piece*>(d) = piece;
    } else {
      _Pragma("unroll") for (int e = 0; e < kWidthD; ++e)
        if (at + e < end) d[e] = piece.x[e];
    }
  }
}
