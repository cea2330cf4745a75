// device:  sm_80
// problem: bf16 N T 32768 4096 7168 groups=32 grouped=rows rows_of_a=4096 align=16 gate=silu gather=rows scatter=rows
// config:  cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=4 stages=3 instruction_k=16 bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1

// ---- parameters ----
using TypeA = Bfloat;            // elements of A
using TypeB = Bfloat;            // elements of B
using TypeD = Bfloat;            // elements of C and D
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
constexpr int kStages = 3;       // of the ring
constexpr int kUnit = 16;        // bytes of one copy to shared memory
constexpr int kBitsA = 3;        // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;        // the first of them
constexpr int kShiftA = 0;       // with bits of the line's number from here on
constexpr int kBitsB = 3;        // the same for B
constexpr int kBaseB = 4;        // 
constexpr int kShiftB = 0;       // 
constexpr int kStoreWidth = 8;   // elements of D stored at once
constexpr int kGroup = 8;        // rows of tiles in a band of the rasterization
constexpr int kGroupRows = 128;  // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;  // room in the tables of groups
constexpr bool kAlongKA = true;  // A's neighbours run along k
constexpr bool kAlongKB = true;  // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// x / y for y from 1 on, to two units in the last place; 0 beyond 2^126. Without the branch of an
/// exact division the elements of a lane are computed beside each other.
KILN_DEVICE float quotient(float x, float y) { return __fmul_rn(x, near_reciprocal(y)); }
KILN_DEVICE double quotient(double x, double y) { return x / y; }

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// 1 / (1 + 2^-x) to some roundoffs of 1: what x lost in the exponent is small beside 1 where it
/// is large.
KILN_DEVICE float logistic(float x) { return near_reciprocal(1.0f + near_exp2(-x)); }
KILN_DEVICE double logistic(double x) { return 1.0 / (1.0 + exp(x * -0.6931471805599453)); }
KILN_DEVICE Real silu(Real x) { return product(x, logistic(x * Real(1.4426950408889634))); }

/// x · y + z, rounded once.
KILN_DEVICE Real fused(Real x, Real y, Real z) { return fma(x, y, z); }

/// An element of a matrix where it is there, else 0.
KILN_DEVICE Real real_if(const float* from, bool there) {
  return Real(bits_to_float(load_if(reinterpret_cast<const u32*>(from), there)));
}
KILN_DEVICE Real real_if(const double* from, bool there) {
  const u64 bits = load_if(reinterpret_cast<const u64*>(from), there);
  return Real(__longlong_as_double(static_cast<long long>(bits)));
}
KILN_DEVICE Real real_if(const Half* from, bool there) {
  return to_real(Half{load_if(reinterpret_cast<const u16*>(from), there)});
}
/// Of the other types of D.
template <typename T>
KILN_DEVICE Real real_if(const T* from, bool there) {
  return there ? to_real(*from) : Real(0);
}
KILN_DEVICE Real real_if(const Bfloat* from, bool there) {
  return to_real(Bfloat{load_if(reinterpret_cast<const u16*>(from), there)});
}

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  const void* index_d;  // of rows of the product, their rows of D
  int rows_of_d;
  // None.
};

/// Where a row of the product begins in D.
KILN_DEVICE TypeD* row_of_d(const Output& out, i64 row) {
  return out.d + listed_row(out.index_d, row, out.rows_of_d) * out.ldd;
}

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  out.index_d = args.index_d;
  out.rows_of_d = int(args.rows_of_d);
  // None.
  return out;
}

/// Columns of the product under one of D: of what goes through the gate, and of the other factor.
KILN_DEVICE i64 first_factor(const Output& out, i64 column) {
  return column;
}
KILN_DEVICE i64 second_factor(const Output& out, i64 column) {
  return out.columns + column;
}

/// A sum with alpha, the scales of its row and of the product's column, and the bias.
KILN_DEVICE Real factor(const Output& out, Real x, i64 row, i64 column) {
  x = product(x, out.alpha);
  return x;
}

/// The sums of both products with alpha, their scales and biases; those outside D read nothing.
KILN_DEVICE void make_factors(const Output& out, Real& first, Real& second, i64 row, i64 column) {
  first = factor(out, first, row, first_factor(out, column));
  second = factor(out, second, row, second_factor(out, column));
}

/// What the expression reads for one element; those outside D read nothing.
struct Extras {
  // None.
  Real other;  // the second product's element
};
KILN_DEVICE Extras extras_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = row < out.rows, in_column = column < out.columns;
  Extras x;
  // None.
  return x;
}
/// The expression's value for one element; what else is stored is left in `x`.
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column, Extras& x) {
  using Value = Real;
  const Value acc0 = v;
  const Value acc1 = x.other;
  v = product(silu(acc0), acc1);
  return v;
}
/// The same of the sums of both products; what else is stored is.
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column, Extras& x) {
  make_factors(out, first, second, row, column);
  x.other = second;
  const Real v = finish(out, first, row, column, x);
  return v;
}
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column) {
  Extras x = extras_at(out, row, column);
  return gated(out, first, second, row, column, x);
}

// ---- cuda/mma/copy.h ----
// From memory to shared memory: every thread's share of one operand's tile, kWidth bytes at a time,
// which the operand's alignment decides. What lies outside the operand becomes zeros. Expects
// read.h.

/// `Factors`: the operand is B, and of each warp's lines the first half is one factor's, the second
/// half the other's, of the same columns of D.
/// `Gathered`: the operand is A, whose lines lie where its list of rows says.
template <typename T, typename Tile, bool AlongK, int Rows, bool Factors = false,
          bool Gathered = false>
struct Copier {
  static constexpr int kSize = int(sizeof(T));
  static constexpr int kUnits = Tile::kPitch / kUnit;  // of a line
  static constexpr int kLinesAtOnce = kThreads / kUnits;
  static constexpr int kCopies = (Tile::kLines + kLinesAtOnce - 1) / kLinesAtOnce;
  static constexpr bool kEven = Tile::kLines % kLinesAtOnce == 0;
  static_assert(kThreads % kUnits == 0, "threads share a line evenly");

  const unsigned char* from;  // this thread's first unit of the next tile
  i64 step, tile_step;        // bytes between its lines, between tiles
  int lines, bytes;           // from the first unit on to the operand's end
  int line, byte;             // of the first unit in the tile

  static __device__ __forceinline__ Copier at(const void* operand, i64 batch_stride, i64 batch,
                                              i64 ld, i64 row0, i64 rows, i64 k0, i64 k,
                                              int thread) {
    Copier c;
    c.line = thread / kUnits;
    c.byte = thread % kUnits * kUnit;
    const i64 first_line = (AlongK ? row0 : k0) + c.line, first = AlongK ? k0 : row0;
    c.from = static_cast<const unsigned char*>(operand) +
             (batch * batch_stride + first_line * ld + first) * kSize + c.byte;
    c.step = ld * kLinesAtOnce * kSize;
    c.tile_step = (AlongK ? 1 : ld) * kBlockK * kSize;
    c.lines = int(AlongK ? rows - row0 : k - k0) - c.line;
    c.bytes = int(min((AlongK ? k - k0 : rows - row0) * kSize, i64(1) << 30)) - c.byte;
    if constexpr (Factors) {
      c.pitch = ld * kSize;
      c.other = kColumnLines == 1 ? rows : 1;
      const i64 origin = batch * batch_stride + (AlongK ? k0 : first_line * ld);
      const int place = AlongK ? 0 : c.byte / kSize;
      c.from = static_cast<const unsigned char*>(operand) + origin * kSize;
      if constexpr (AlongK) {
        c.from += row0 * kColumnLines * c.pitch + c.byte;
        c.lines = int(rows - row0);
      } else {
        c.from += (row0 + c.line_of_b(place)) * kSize;
        c.bytes = int(min((rows - row0 - column_of(place)) * kSize, i64(1) << 30));
      }
    }
    return c;
  }
  static constexpr int kWarpLines = Rows / (kThreads / 32 / kWarpsM), kHalf = kWarpLines / 2;
  static constexpr int kColumnLines = 1;  // from a column's line to the next one's
  i64 pitch, other;  // bytes of a line of B; lines from one factor's to the other's
  /// The column of D, from the tile's first, under line `line` of the tile.
  static __device__ __forceinline__ int column_of(int line) {
    return line / kWarpLines * kHalf + line % kHalf;
  }
  /// Its line of B, seen from that of the tile's first column.
  __device__ __forceinline__ i64 line_of_b(int line) const {
    return i64(column_of(line)) * kColumnLines + (line % kWarpLines < kHalf ? 0 : other);
  }

  int row_of[Gathered ? kCopies : 1];  // of each copy the line's row of A
  i64 gathered_pitch;                  // bytes
  /// Looks the lines up, which begin with row `row0` of the group's product.
  __device__ __forceinline__ void gather(const KilnGpuArgs& args, i64 row0, i64 k0) {
    from = static_cast<const unsigned char*>(args.a) + k0 * kSize + byte;
    gathered_pitch = args.lda * kSize;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i) {
      const bool there = i * kLinesAtOnce < lines && mine(i);
      row_of[i] = there ? row_of_a(args, row0 + line + i * kLinesAtOnce) : 0;
    }
  }

  /// Bytes of copy `i` that exist.
  __device__ __forceinline__ int valid(int i) const {
    if constexpr (Factors && AlongK)
      return column_of(line + i * kLinesAtOnce) < lines ? max(0, min(bytes, kUnit)) : 0;
    return i * kLinesAtOnce < lines ? max(0, min(bytes, kUnit)) : 0;
  }
  /// Where copy `i` comes from; `here`: the same of a matrix whose lines follow one another.
  __device__ __forceinline__ const unsigned char* source(int i, const unsigned char* here) const {
    if constexpr (Gathered) return from + row_of[i] * gathered_pitch;
    if constexpr (Factors && AlongK) return from + line_of_b(line + i * kLinesAtOnce) * pitch;
    return here;
  }
  __device__ __forceinline__ bool mine(int i) const {
    return kEven || line + i * kLinesAtOnce < Tile::kLines;
  }
  /// Where in the tile copy `i` goes.
  __device__ __forceinline__ u32 place(int i) const {
    if constexpr (kLinesAtOnce % Tile::kPeriod == 0)
      return Tile::place(line, byte) + u32(i * kLinesAtOnce * Tile::kPitch);
    else
      return Tile::place(line + i * kLinesAtOnce, byte);
  }
  __device__ __forceinline__ void advance() {
    from += tile_step;
    if constexpr (AlongK)
      bytes -= kBlockK * kSize;
    else
      lines -= kBlockK;
  }

  /// Starts the copies of one tile and goes on to the next.
  __device__ __forceinline__ void copy(u32 to) {
    const unsigned char* here = from;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, here += step) {
      if (!mine(i)) continue;
      const u32 there = to + place(i);
      const unsigned char* const at = source(i, here);
      if constexpr (kUnit == 16)
        cp_async_16(there, at, valid(i));
      else if constexpr (kUnit == 8)
        cp_async_8(there, at, valid(i));
      else
        cp_async_4(there, at, valid(i));
    }
    advance();
  }
};

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
  // All loads before the first value that needs one.
  Extras extras[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) extras[e] = extras_at(out, row, column + e);
  TypeD x[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kWord) {
    Word word;
    load_shared_words(reinterpret_cast<u32(&)[4]>(word), from + e * int(sizeof(Acc)));
    Word other;
    load_shared_words(reinterpret_cast<u32(&)[4]>(other),
                      from + (e + kWarpN / 2) * int(sizeof(Acc)));
    _Pragma("unroll") for (int s = 0; s < kWord; ++s) {
      Real y =
          gated(out, Real(word.sum[s]), Real(other.sum[s]), row, column + e + s, extras[e + s]);
      x[e + s] = from_real(y, TypeD{});
    }
  }
  store_some(row_of_d(out, row) + column, x, columns);
}

// ---- cuda/mma/mma.cu ----
// Matrix instructions of a warp, on every NVIDIA GPU since Turing: a block's tiles of A and B pass
// through a ring of stages in shared memory, and each warp multiplies its part of the block's tile
// from registers. Where cp.async exists and the alignment allows it, copies of the next stages are
// always on their way; else the next stage waits in registers. Expects store.h and what stands
// before it.

constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSteps = kBlockK / kStepK;  // of a stage
using CopierA = Copier<TypeA, TileA, kAlongKA, kBlockM, false, true>;
using CopierB = Copier<TypeB, TileB, kAlongKB, kBlockN, true>;
constexpr int kColumns = kBlockN / 2;  // of D in a tile
using ReaderA = TileA::Reader<kTilesM * 2>;
using ReaderB = TileB::Reader<kTilesN>;

/// One step's operands of a warp.
struct Fragments {
  Fragment a[kTilesM * 2][kChunks * 2], b[kTilesN][kChunks * 2];
};

KILN_DEVICE void read_step(Fragments& to, const ReaderA& a, const ReaderB& b, u32 stage, int step) {
  a.read(to.a, stage, step);
  b.read(to.b, stage + TileA::kBytes, step);
}

KILN_DEVICE void multiply(Sums& sums, const Fragments& f) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    Fragment a[kChunks * 4];
    _Pragma("unroll") for (int k = 0; k < kChunks * 2; ++k) {
      a[k * 2] = f.a[i * 2][k];
      a[k * 2 + 1] = f.a[i * 2 + 1][k];
    }
    // Every second row of tiles goes backwards: it begins with what was used last.
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
      const int n = i % 2 ? kTilesN - 1 - j : j;
      multiply_step(sums[i][n], a, f.b[n]);
    }
  }
}

/// The products of `count` stages.
KILN_DEVICE void run(Sums& sums, CopierA copy_a, CopierB copy_b, const ReaderA& a, const ReaderB& b,
                     u32 ring, int count) {
  int copied = 0;
  u32 to = ring;
  const auto copy_next = [&] {
    if (copied < count) {
      copy_a.copy(to);
      copy_b.copy(to + TileA::kBytes);
    }
    ++copied;
    to = to == ring + (kStages - 1) * kStageBytes ? ring : to + kStageBytes;
    // Groups without copies keep the count.
    cp_async_commit();
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  cp_async_wait<kStages - 2>();
  __syncthreads();
  u32 stage = ring;
  const auto next_stage = [&] {
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
    cp_async_wait<kStages - 2>();
    __syncthreads();
  };
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    copy_next();
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
      Fragments f;
      read_step(f, a, b, stage, step);
      // All of the stage is read: while this step multiplies, faster warps begin the next one.
      if (step == kSteps - 1) next_stage();
      multiply(sums, f);
    }
  }
}

/// A thread of the block, by what it has to do with a tile. Worked out anew before and after the
/// products: while the block multiplies, registers are full.
struct Place {
  int thread, lane, warp, row, column;  // row, column: of its warp's part of the tile
  static __device__ __forceinline__ Place mine() {
    Place p;
    p.thread = int(threadIdx.x);
    forget(p.thread);
    p.lane = p.thread & 31;
    // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
    p.warp = __shfl_sync(0xffffffff, p.thread / 32, 0);
    p.row = p.warp % kWarpsM * kTilesM * 16;
    p.column = p.warp / kWarpsM * kTilesN * 8;
    return p;
  }
};

/// The products of one tile, or of a part of its k.
KILN_DEVICE void run_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  const i64 row0 = i64(work.left) * kBlockM, column0 = i64(work.right) * kColumns;
  const i64 k0 = i64(work.begin) * kBlockK;
  CopierA copy_a =
      CopierA::at(args.a, args.stride_a, work.batch, args.lda, row0, args.m, k0, args.k, my.thread);
  copy_a.gather(args, row0, k0);
  run(sums, copy_a,
      CopierB::at(args.b, args.stride_b, work.batch, args.ldb, column0, args.n, k0, args.k,
                  my.thread),
      ReaderA::at(my.row, my.lane), ReaderB::at(my.column, my.lane), ring, work.count);
}

KILN_DEVICE void store_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM + my.row,
             i64(work.right) * kColumns + my.column / 2, ring + u32(my.warp * 16 * kRowPitch),
             my.lane);
}

KILN_DEVICE void work_on(const Work& work, const KilnGpuArgs& args, u32 ring) {
  Sums sums = {};
  run_tile(sums, work, args, ring);
  // The ring is free when every warp has read its last stage.
  __syncthreads();
  store_tile(sums, work, args, ring);
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  return TileScheduler::start((int(args.m) + kBlockM - 1) / kBlockM,
                              (int(args.n) + kColumns - 1) / kColumns,
                              (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const u32 ring = shared_address(shared_bytes);
  // In shared memory, because registers are full while the block multiplies.
  __shared__ Work work;
  __shared__ u32 tables[2 * kMostGroups + 1];
  __shared__ bool any;
  const Groups groups = Groups::at(shared_address(tables), args);
  groups.read(args, int(threadIdx.x), kThreads);
  __syncthreads();
  if (threadIdx.x < 32) groups.count_tiles(scheduler_of(args).rights, int(threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) {
    TileScheduler scheduler = scheduler_of(args);
    scheduler.groups = groups;
    scheduler.tiles = groups.tiles_before(groups.count);
    any = scheduler.take(work);
  }
  __syncthreads();
  if (!any) return;
  work_on(work, args_of_group(args, work.batch, work.first_row, work.rows, kAlongKA ? args.lda : 1),
          ring);
}
