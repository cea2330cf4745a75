// Copies one operand into the workspace so that the copy engine can address it: k-major, rows a
// multiple of 128 bytes apart. Expects hopper.h, workspace.h and the parameters.

//% if pack
/// Where a matrix comes from and goes to: `lines` of `length` neighbours, as they lie in memory.
template <typename T>
struct Packing {
  const T* from;
  unsigned char* to;
  i64 length, lines, ld, stride;  // elements
  i64 pitch, batch_bytes;         // of the packed matrix
  i64 batches;
};

constexpr int kUnits = 4;  // of 16 bytes that a lane copies of one piece of a line

/// By a division of 32 bits where they hold both: one of 64 is a hundred instructions.
KILN_DEVICE i64 quotient(i64 a, i64 b) {
  return ((a | b) >> 32) == 0 ? i64(u32(a) / u32(b)) : a / b;
}

/// 16 bytes from byte `shift` of two aligned words on. Selecting keeps them in registers.
KILN_DEVICE uint4 from_byte(int shift, uint4 low, uint4 high) {
  const u32 all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  u32 two[6], one[5];
  _Pragma("unroll") for (int i = 0; i < 6; ++i) two[i] = shift & 8 ? all[i + 2] : all[i];
  _Pragma("unroll") for (int i = 0; i < 5; ++i) one[i] = shift & 4 ? two[i + 1] : two[i];
  const int bits = shift % 4 * 8;
  return uint4{__funnelshift_r(one[0], one[1], bits), __funnelshift_r(one[1], one[2], bits),
               __funnelshift_r(one[2], one[3], bits), __funnelshift_r(one[3], one[4], bits)};
}

/// Up to 16 bytes, one by one: for words that would reach outside the matrix.
KILN_DEVICE uint4 load_bytes(const unsigned char* at, i64 valid) {
  u32 words[4] = {};
  _Pragma("unroll") for (int i = 0; i < 16; ++i)
    if (i < valid) words[i / 4] |= u32(at[i]) << i % 4 * 8;
  return uint4{words[0], words[1], words[2], words[3]};
}

/// Only the distance of lines changes. A warp takes whole pieces of a line, which all begin at the
/// same place within an aligned word, and has a piece's loads on their way before it stores.
template <typename T>
KILN_DEVICE void pack_lines(const Packing<T>& p) {
  const i64 bytes = p.length * i64(sizeof(T)), units = ceil_div(bytes, 16);
  const i64 pieces = ceil_div(units, 32 * kUnits), all = p.batches * p.lines * pieces;
  const auto* begin = reinterpret_cast<const unsigned char*>(p.from);
  const auto* end = reinterpret_cast<const unsigned char*>(
      p.from + (p.batches - 1) * p.stride + (p.lines - 1) * p.ld + p.length);
  const int lane = int(threadIdx.x) & 31, warps = int(blockDim.x) / 32;
  for (i64 t = i64(blockIdx.x) * warps + threadIdx.x / 32; t < all; t += i64(gridDim.x) * warps) {
    const i64 any = quotient(t, pieces), unit0 = (t - any * pieces) * (32 * kUnits);
    const i64 batch = quotient(any, p.lines), line = any - batch * p.lines;
    const int count = int(min(units - unit0, i64(32 * kUnits)));
    const auto* from =
        reinterpret_cast<const unsigned char*>(p.from + batch * p.stride + line * p.ld);
    const auto* at = from + unit0 * 16;
    auto* to = reinterpret_cast<uint4*>(p.to + batch * p.batch_bytes + line * p.pitch) + unit0;
    const int shift = int(reinterpret_cast<u64>(at) & 15);
    const auto* words = reinterpret_cast<const uint4*>(at - shift);
    const auto* last = words + count + (shift != 0 ? 1 : 0);
    if (at - shift < begin || reinterpret_cast<const unsigned char*>(last) > end) {
      for (int i = lane; i < count; i += 32)
        to[i] = load_bytes(at + i * 16, bytes - (unit0 + i) * 16);
      continue;
    }
    uint4 low[kUnits], high[kUnits];
    _Pragma("unroll") for (int u = 0; u < kUnits; ++u) {
      const int i = u * 32 + lane;
      low[u] = i < count ? words[i] : uint4{};
      high[u] = i < count && shift != 0 ? words[i + 1] : uint4{};
    }
    _Pragma("unroll") for (int u = 0; u < kUnits; ++u)
      if (const int i = u * 32 + lane; i < count) to[i] = from_byte(shift, low[u], high[u]);
  }
}

/// Lines run along the rows: turned over in tiles of 64 × 64 through shared memory.
template <typename T>
KILN_DEVICE void pack_across(const Packing<T>& p) {
  constexpr int kTile = 64;
  // One element more a row keeps the reads down a column on different banks.
  __shared__ T tile[kTile][kTile + 4 / sizeof(T)];
  const i64 rows = p.length, depth = p.lines;
  const i64 row_tiles = ceil_div(rows, kTile), k_tiles = ceil_div(depth, kTile);
  const int lane = int(threadIdx.x) % kTile, line = int(threadIdx.x) / kTile;
  const int lines = int(blockDim.x) / kTile;
  for (i64 t = blockIdx.x; t < row_tiles * k_tiles * p.batches; t += gridDim.x) {
    const i64 batch = t / (row_tiles * k_tiles), at = t - batch * row_tiles * k_tiles;
    const i64 k0 = at / row_tiles * kTile, row0 = at % row_tiles * kTile;
    const T* from = p.from + batch * p.stride;
    for (int i = line; i < kTile; i += lines)
      if (k0 + i < depth && row0 + lane < rows)
        tile[i][lane] = from[(k0 + i) * p.ld + row0 + lane];
    __syncthreads();
    for (int i = line; i < kTile; i += lines)
      if (row0 + i < rows && k0 + lane < depth)
        reinterpret_cast<T*>(p.to + batch * p.batch_bytes + (row0 + i) * p.pitch)[k0 + lane] =
            tile[lane][i];
    __syncthreads();
  }
}

template <typename T, bool AlongK>
KILN_DEVICE void pack(const Packing<T>& p) {
  if constexpr (PackedShape<T, AlongK>::kTurned)
    pack_across(p);
  else
    pack_lines(p);
}

/// One launch packs what there is to pack: blockIdx.y 0 is the first such operand.
extern "C" __global__ void __launch_bounds__(256)
    kiln_pack(const __grid_constant__ KilnGpuArgs args) {
  wait_for_previous_grid();
  let_next_grid_start();
  auto* workspace = static_cast<unsigned char*>(args.workspace);
  if (kPackA && blockIdx.y == 0) {
    const auto shape = PackedA::of(args.m, args.k);
    pack<TypeA, kAlongKA>({static_cast<const TypeA*>(args.a), workspace + packed_a_at(),
                           kAlongKA ? args.k : args.m, kAlongKA ? args.m : args.k, args.lda,
                           args.stride_a, shape.pitch(), shape.bytes(), args.batch});
  } else {
    const auto shape = PackedB::of(args.n, args.k);
    pack<TypeB, kAlongKB>({static_cast<const TypeB*>(args.b), workspace + packed_b_at(args),
                           kAlongKB ? args.k : args.n, kAlongKB ? args.n : args.k, args.ldb,
                           args.stride_b, shape.pitch(), shape.bytes(), args.batch});
  }
}
//% end
