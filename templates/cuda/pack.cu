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

/// 16 bytes from any address, of which `valid` lie inside the line; words that would reach outside
/// the matrix are read byte by byte.
KILN_DEVICE uint4 load_unaligned(const unsigned char* at, i64 valid, const unsigned char* begin,
                                 const unsigned char* end) {
  const int shift = int(reinterpret_cast<u64>(at) & 15);
  const unsigned char* word = at - shift;
  u32 words[8] = {};
  if (word >= begin && word + 32 <= end) {
    const uint4 low = *reinterpret_cast<const uint4*>(word);
    const uint4 high = shift ? *reinterpret_cast<const uint4*>(word + 16) : uint4{};
    const u32 all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const int skip = shift / 4, bits = shift % 4 * 8;
    // Selecting by comparison keeps the array in registers.
    _Pragma("unroll") for (int s = 0; s < 4; ++s) if (s == skip)
        _Pragma("unroll") for (int i = 0; i < 4; ++i) words[i] =
            __funnelshift_r(all[s + i], s + i + 1 < 8 ? all[s + i + 1] : 0, bits);
  } else {
    _Pragma("unroll") for (int i = 0; i < 16; ++i) if (i < valid && at + i < end) words[i / 4] |=
        u32(at[i]) << i % 4 * 8;
  }
  return uint4{words[0], words[1], words[2], words[3]};
}

/// Only the distance of lines changes.
template <typename T>
KILN_DEVICE void pack_lines(const Packing<T>& p) {
  const i64 units = p.pitch / 16, all = p.batches * p.lines * units;
  const auto* begin = reinterpret_cast<const unsigned char*>(p.from);
  const auto* end = reinterpret_cast<const unsigned char*>(
      p.from + (p.batches - 1) * p.stride + (p.lines - 1) * p.ld + p.length);
  for (i64 t = i64(blockIdx.x) * blockDim.x + threadIdx.x; t < all;
       t += i64(gridDim.x) * blockDim.x) {
    const i64 any = t / units, unit = t - any * units;
    const i64 batch = any / p.lines, line = any - batch * p.lines;
    const i64 valid = p.length * i64(sizeof(T)) - unit * 16;
    if (valid <= 0) continue;
    const auto* at = reinterpret_cast<const unsigned char*>(p.from + batch * p.stride + line * p.ld);
    *reinterpret_cast<uint4*>(p.to + batch * p.batch_bytes + line * p.pitch + unit * 16) =
        load_unaligned(at + unit * 16, valid, begin, end);
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
