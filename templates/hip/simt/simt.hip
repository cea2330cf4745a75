// Tiles of D by ordinary arithmetic, for every type and layout: the fallback, and the path of
// targets without matrix instructions. Elements become Acc on their way into shared memory, which
// holds both tiles as [k][row]. Expects abi.h, types.h, device.h, convert.h, epilogue.h.

constexpr int kThreadsN = kTileN / kEachN, kThreads = kTileM / kEachM * kThreadsN;
constexpr int kPitchM = kTileM + kPad, kPitchN = kTileN + kPad;  // elements

KILN_SHARED Acc shared_a[kTileK * kPitchM];
KILN_SHARED Acc shared_b[kTileK * kPitchN];

//% if scales && !integer
/// An operand whose elements have scales and may be packed codes of fewer than eight bits. `Lines`
/// of its rows and `Along` of k (0: all) share a scale: an fp32, or a byte that is an exponent.
template <typename T, int Bits, int Mantissa, int Lines, int Along>
struct Scaled {
  const T* from;
  const void* scales;
  i64 pitch;  // scales of a row

  static KILN_MEMBER Scaled start(const void* base, const void* scales, i64 batch, i64 stride,
                                  i64 rows, i64 k) {
    Scaled s;
    s.from = reinterpret_cast<const T*>(static_cast<const u8*>(base) + batch * stride * Bits / 8);
    s.pitch = Along == 0 ? 1 : ceil_div(k, Along);
    const i64 of_batch = Lines == 0 ? 0 : ceil_div(rows, Lines) * s.pitch;
    s.scales = static_cast<const u8*>(scales) + batch * of_batch * (Along == 32 ? 1 : 4);
    return s;
  }

  KILN_MEMBER Real element(i64 at) const {
    if constexpr (Bits == 8) {
      return to_real(from[at]);
    } else {
      const u8* bytes = reinterpret_cast<const u8*>(from);
      const i64 bit = at * Bits;
      u32 code = bytes[bit / 8];
      if (bit % 8 + Bits > 8) code |= u32(bytes[bit / 8 + 1]) << 8;
      code = code >> (bit % 8) & ((1u << Bits) - 1);
      constexpr int kBias = (1 << (Bits - Mantissa - 2)) - 1;
      constexpr float kLeast = 1.0f / float(1 << (Mantissa + kBias - 1));
      const u32 sign = code >> (Bits - 1) << 31, magnitude = code & ((1u << (Bits - 1)) - 1);
      const u32 normal = (magnitude << (23 - Mantissa)) + (u32(127 - kBias) << 23);
      const u32 bits = magnitude >> Mantissa ? normal : bits_as<u32>(float(magnitude) * kLeast);
      return Real(bits_as<float>(bits | sign));
    }
  }
  KILN_MEMBER Real scale(i64 row, i64 k) const {
    if constexpr (Lines == 0) {
      return Real(1);
    } else if constexpr (Along == 32) {
      const u32 exponent = static_cast<const u8*>(scales)[row * pitch + k / 32];
      const u32 bits = exponent == 0 ? 0x00400000 : exponent << 23;
      return Real(bits_as<float>(exponent == 255 ? 0x7fc00000 : bits));
    } else {
      return Real(static_cast<const float*>(
          scales)[row / Lines * pitch + (Along == 0 ? 0 : k / (Along == 0 ? 1 : Along))]);
    }
  }
};
using ScaledA = Scaled<TypeA, kBitsA, kMantissaA, kLinesA, kAlongOfA>;
using ScaledB = Scaled<TypeB, kBitsB, kMantissaB, kLinesB, kAlongOfB>;

//% end
/// Rows × kTileK elements that may or may not exist; those that do not are zero.
//% if gate
/// Factors: of B, both factors of each of D's columns side by side.
template <bool AlongRows, int Rows, int Pitch, typename T, bool Factors = false>
//% else
template <bool AlongRows, int Rows, int Pitch, typename T>
//% end
struct Tile {
  static constexpr int kCount = Rows * kTileK / kThreads;
  static_assert(Rows * kTileK % kThreads == 0, "threads share a tile evenly");
  Acc value[kCount];

  static KILN_MEMBER int row_of(int slot) { return AlongRows ? slot / kTileK : slot % Rows; }
  static KILN_MEMBER int k_of(int slot) { return AlongRows ? slot % kTileK : slot / Rows; }

  KILN_MEMBER void load(
      //% if scales && !integer
      const T& from,
      //% else
      const T* from,
      //% end
      i64 ld, i64 row, i64 rows, i64 k, i64 ks, int thread) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const int slot = thread + i * kThreads;
      //% if gate && gate_order == stacked
      i64 r = row + row_of(slot);
      const i64 d = k + k_of(slot);
      value[i] = Acc(0);
      if (r >= rows || d >= ks) continue;
      if constexpr (Factors) r = r % 2 * (rows / 2) + r / 2;
      //% else
      const i64 r = row + row_of(slot), d = k + k_of(slot);
      value[i] = Acc(0);
      if (r >= rows || d >= ks) continue;
      //% end
      //% if scales && !integer
      value[i] = Acc(from.element(AlongRows ? r * ld + d : d * ld + r) * from.scale(r, d));
      //% else
      const T x = AlongRows ? from[r * ld + d] : from[d * ld + r];
      //% if integer
      value[i] = Acc(x);
      //% else
      value[i] = Acc(to_real(x));
      //% end
      //% end
    }
  }
  KILN_MEMBER void store(Acc* to, int thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const int slot = thread + i * kThreads;
      to[k_of(slot) * Pitch + row_of(slot)] = value[i];
    }
  }
};

KILN_DEVICE void multiply(Acc (&sums)[kEachM][kEachN], int row, int column) {
  KILN_UNROLL for (int k = 0; k < kTileK; ++k) {
    Acc a[kEachM], b[kEachN];
    KILN_UNROLL for (int i = 0; i < kEachM; ++i) a[i] = shared_a[k * kPitchM + row + i];
    KILN_UNROLL for (int j = 0; j < kEachN; ++j) b[j] = shared_b[k * kPitchN + column + j];
    KILN_UNROLL for (int i = 0; i < kEachM; ++i) KILN_UNROLL for (int j = 0; j < kEachN; ++j)
        sums[i][j] += a[i] * b[j];
  }
}

KILN_KERNEL(kThreads, 1) kiln_gemm(KilnGpuArgs args) {
  const int thread = int(thread_index());
  //% if row_groups
  const GroupBlock own = group_of(args, block_index(), u32(ceil_div(args.n, kTileN)));
  if (own.rows == 0) return;
  args = args_of_group(args, own.group, own.first_row, own.rows, kAlongA ? args.lda : 1);
  //% end
  //% if lists
  const ProductBlock own = product_of(args, block_index());
  if (own.product < 0) return;
  //% if scales && !integer
  const KilnListEntry& entry = entries_of(args)[own.product];
  args.scale_a = entry.scale_a;
  args.scale_b = entry.scale_b;
  //% end
  args = args_of_listed(args, own.product);
  //% end
  //% if gate
  // Of B's columns, of which D has half.
  const i64 tiles_m = ceil_div(args.m, kTileM), tiles_n = ceil_div(2 * args.n, kTileN);
  //% else
  const i64 tiles_m = ceil_div(args.m, kTileM), tiles_n = ceil_div(args.n, kTileN);
  //% end
  //% if row_groups
  const i64 block = own.block, batch = own.group;
  //% end
  //% if lists && scales && !integer
  const i64 block = own.block, batch = 0;  // its scales are its own
  //% end
  //% if lists && !scales || lists && integer
  const i64 block = own.block, batch = own.product;
  //% end
  //% if !row_groups && !lists
  const i64 block = block_index(), batch = block / (tiles_m * tiles_n);
  //% end
  //% if k_groups
  const GroupK own = part_of_group(args, batch);
  args = args_of_group(args, batch, own.first, own.count, kAlongA ? 1 : args.lda,
                       kAlongB ? 1 : args.ldb);
  //% end
  const i64 in_batch = block % (tiles_m * tiles_n);
  const i64 row = in_batch % tiles_m * kTileM, column = in_batch / tiles_m * kTileN;
  //% if scales && !integer
  const auto a = ScaledA::start(args.a, args.scale_a, batch, args.stride_a, args.m, args.k);
  //% if gate
  const auto b = ScaledB::start(args.b, args.scale_b, batch, args.stride_b, 2 * args.n, args.k);
  //% else
  const auto b = ScaledB::start(args.b, args.scale_b, batch, args.stride_b, args.n, args.k);
  //% end
  Tile<kAlongA, kTileM, kPitchM, ScaledA> tile_a;
  //% if gate
  Tile<kAlongB, kTileN, kPitchN, ScaledB, true> tile_b;
  //% else
  Tile<kAlongB, kTileN, kPitchN, ScaledB> tile_b;
  //% end
  //% else
  const TypeA* a = static_cast<const TypeA*>(args.a) + batch * args.stride_a;
  const TypeB* b = static_cast<const TypeB*>(args.b) + batch * args.stride_b;
  Tile<kAlongA, kTileM, kPitchM, TypeA> tile_a;
  //% if gate
  Tile<kAlongB, kTileN, kPitchN, TypeB, true> tile_b;
  //% else
  Tile<kAlongB, kTileN, kPitchN, TypeB> tile_b;
  //% end
  //% end
  const int my_row = thread / kThreadsN * kEachM, my_column = thread % kThreadsN * kEachN;
  Acc sums[kEachM][kEachN] = {};
  tile_a.load(a, args.lda, row, args.m, 0, args.k, thread);
  //% if gate
  tile_b.load(b, args.ldb, column, 2 * args.n, 0, args.k, thread);
  //% else
  tile_b.load(b, args.ldb, column, args.n, 0, args.k, thread);
  //% end
  for (i64 k = 0; k < args.k; k += kTileK) {
    tile_a.store(shared_a, thread);
    tile_b.store(shared_b, thread);
    block_barrier();
    if (k + kTileK < args.k) {
      tile_a.load(a, args.lda, row, args.m, k + kTileK, args.k, thread);
      //% if gate
      tile_b.load(b, args.ldb, column, 2 * args.n, k + kTileK, args.k, thread);
      //% else
      tile_b.load(b, args.ldb, column, args.n, k + kTileK, args.k, thread);
      //% end
    }
    multiply(sums, my_row, my_column);
    block_barrier();
  }
  const Output out = output_of(args, batch);
  //% if gate
  KILN_UNROLL for (int i = 0; i < kEachM; ++i) KILN_UNROLL for (int j = 0; j < kEachN; j += 2) {
    const i64 r = row + my_row + i, c = (column + my_column + j) / 2;
    if (r < out.rows && c < out.columns) gate_and_store(out, sums[i][j], sums[i][j + 1], r, c);
  }
  //% else
  KILN_UNROLL for (int i = 0; i < kEachM; ++i) KILN_UNROLL for (int j = 0; j < kEachN; ++j) {
    const i64 r = row + my_row + i, c = column + my_column + j;
    if (r < out.rows && c < out.columns) finish_and_store(out, sums[i][j], r, c);
  }
  //% end
}
