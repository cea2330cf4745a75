// device:  sm_80
// problem: fp16 N T 4096 4096 4096 align=16 amax=1
// config:  cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=4 stages=4 instruction_k=16 bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1

// ---- parameters ----
using TypeA = Half;              // elements of A
using TypeB = Half;              // elements of B
using TypeD = Half;              // elements of C and D
using Acc = float;               // accumulators
using Real = float;              // what the epilogue computes in
using Fragment = u32;            // a register of an operand
constexpr int kBlockM = 128;     // rows of D in a block's tile
constexpr int kBlockN = 128;     // columns of D in it
constexpr int kBlockK = 64;      // k of one stage
constexpr int kWarpsM = 2;       // warps that share the tile's rows
constexpr int kThreads = 256;    // of a block
constexpr int kBlocks = 1;       // that are to fit one SM
constexpr int kTilesM = 4;       // 16 rows each, of a warp
constexpr int kTilesN = 4;       // 8 columns each, of a warp
constexpr int kChunks = 1;       // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 16;       // k of one step
constexpr int kMmaSums = 4;      // registers of sums of the matrix instruction
constexpr int kMmaA = 4;         // registers of A
constexpr int kMmaB = 2;         // registers of B
constexpr int kStages = 4;       // of the ring
constexpr int kUnit = 16;        // bytes of one copy to shared memory
constexpr int kBitsA = 3;        // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;        // the first of them
constexpr int kShiftA = 0;       // with bits of the line's number from here on
constexpr int kBitsB = 3;        // the same for B
constexpr int kBaseB = 4;        // 
constexpr int kShiftB = 0;       // 
constexpr int kStoreWidth = 8;   // elements of D stored at once
constexpr int kGroup = 8;        // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;  // A's neighbours run along k
constexpr bool kAlongKB = true;  // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/mma/finish.h ----
// Sums in shared memory, those of a row of D side by side, become elements of D: whole words are
// stored, and C is read alike. Expects epilogue.h, ampere_ptx.h, and Word, SomeD and their sizes.

/// Neighbours in a row of a matrix like D; zero outside.
KILN_DEVICE void load_under(Real (&x)[kTogether], const TypeD* from, i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    SomeD some = {};
    if (e + kStoreWidth <= columns) {
      some = *reinterpret_cast<const SomeD*>(from + e);
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s)
        if (e + s < columns) some.x[s] = from[e + s];
    }
    _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) x[e + s] = to_real(some.x[s]);
  }
}

/// `columns`: how many there are from the first one on.
KILN_DEVICE void store_some(TypeD* to, const TypeD (&x)[kTogether], i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    if (e + kStoreWidth <= columns) {
      SomeD some;
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) some.x[s] = x[e + s];
      *reinterpret_cast<SomeD*>(to + e) = some;
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s)
        if (e + s < columns) to[e + s] = x[e + s];
    }
  }
}

/// Sums of neighbouring columns, finished and stored.
KILN_DEVICE void finish_some(u32 from, const Output& out, i64 row, i64 column, bool exact) {
  const i64 columns = out.columns - column;
  Real c[kTogether] = {};
  if (out.c) load_under(c, out.c + row * out.ldc + column, columns);
  TypeD x[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kWord) {
    Word word;
    load_shared_words(reinterpret_cast<u32(&)[4]>(word), from + e * int(sizeof(Acc)));
    _Pragma("unroll") for (int s = 0; s < kWord; ++s) {
      Real y = product(Real(word.sum[s]), out.alpha);
      if (out.c) y += out.beta * c[e + s];
      y = finish(out, y, row, column + e + s);
      if (e + s < columns) out.largest = larger_magnitude(out.largest, y);
      x[e + s] = from_real(y, TypeD{});
    }
  }
  store_some(out.d + row * out.ldd + column, x, columns);
}

// ---- cuda/mma/store.h ----
// Sums to D: through shared memory, so that whole lines of D are written. Expects place.h,
// finish.h.

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  const bool exact = false;
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    put_down(sums[i], room, lane);
    __syncwarp();
    _Pragma("unroll 1") for (int u = lane; u < 16 * kUnits; u += 32) {
      const int line = u / kUnits, first = u % kUnits * kTogether;
      const i64 row = row0 + row_in_tile(i * 2 + line / 8, line % 8, TileA::kNear);
      const i64 column = column0 + first;
      if (row < out.rows && column < out.columns)
        finish_some(room + u32(line * kRowPitch + first * int(sizeof(Acc))), out, row, column,
                    exact);
    }
    __syncwarp();
  }
  raise_amax(out.amax, out.largest);
}
