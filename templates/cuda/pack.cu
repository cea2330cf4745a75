// Copies one operand into the workspace so that the copy engine can address it: k-major, rows a
// multiple of 128 bytes apart. Expects hopper.h, workspace.h and the parameters.

//% if pack
/// Where a matrix comes from and goes to: `lines` of neighbours, as they lie in memory. All but
/// `lines` and `batches` in bytes.
struct Packing {
  const unsigned char* from;
  unsigned char* to;
  i64 length, ld, stride;
  i64 pitch, batch_bytes;  // of the packed matrix
  i64 lines, batches;
};

/// 16 bytes on their way from any address: the two aligned words that hold them, or the bytes
/// themselves in the first one.
struct Fetched {
  uint4 low, high;
  int shift;  // bytes before them in the first word
};

/// `valid` of them lie inside the line; words that would reach outside the matrix are read byte by
/// byte.
KILN_DEVICE Fetched fetch_unaligned(const unsigned char* at, i64 valid, const unsigned char* begin,
                                    const unsigned char* end) {
  Fetched f = {};
  const int shift = int(reinterpret_cast<u64>(at) & 15);
  const unsigned char* word = at - shift;
  if (word >= begin && word + 32 <= end) {
    f.low = *reinterpret_cast<const uint4*>(word);
    if (shift) f.high = *reinterpret_cast<const uint4*>(word + 16);
    f.shift = shift;
    return f;
  }
  // Those that are not there repeat the last, so that all loads are on their way together: whoever
  // is last holds up the launch behind this one.
  const int inside = int(min(valid, i64(end - at)));
  u32 bytes[16], words[4] = {};
  _Pragma("unroll") for (int i = 0; i < 16; ++i) bytes[i] = at[min(i, inside - 1)];
  _Pragma("unroll") for (int i = 0; i < 16; ++i) words[i / 4] |=
      (i < inside ? bytes[i] : 0) << i % 4 * 8;
  f.low = uint4{words[0], words[1], words[2], words[3]};
  return f;
}

/// The bytes where they belong. Words are chosen bit by bit of their number, which keeps all of them
/// in registers.
KILN_DEVICE uint4 shifted(const Fetched& f) {
  const u32 all[8] = {f.low.x,  f.low.y,  f.low.z,  f.low.w,
                      f.high.x, f.high.y, f.high.z, f.high.w};
  const bool one = (f.shift & 4) != 0, two = (f.shift & 8) != 0;
  u32 from[5];
  _Pragma("unroll") for (int i = 0; i < 5; ++i) {
    const u32 near = one ? all[i + 1] : all[i];
    const u32 far = one ? all[i + 3 < 8 ? i + 3 : 7] : all[i + 2];
    from[i] = two ? far : near;
  }
  const int bits = f.shift % 4 * 8;
  return uint4{__funnelshift_r(from[0], from[1], bits), __funnelshift_r(from[1], from[2], bits),
               __funnelshift_r(from[2], from[3], bits), __funnelshift_r(from[3], from[4], bits)};
}

/// Only the distance of lines changes. The grid covers the operand: all that a thread copies is on
/// its way before any of it is stored.
KILN_DEVICE void pack_lines(const Packing& p) {
  const u32 units = u32(p.pitch / 16), lines = u32(p.lines);
  const auto* end =
      p.from + (p.batches - 1) * p.stride + (p.lines - 1) * p.ld + p.length;
  Fetched some[kPackUnits];
  unsigned char* to[kPackUnits];
  _Pragma("unroll") for (int j = 0; j < kPackUnits; ++j) {
    const u32 t = (blockIdx.x * kPackUnits + j) * blockDim.x + threadIdx.x;
    const u32 any = t / units, unit = t - any * units;
    //% if batched
    const u32 batch = any / lines, line = any - batch * lines;
    const bool there = batch < p.batches;
    //% else
    const u32 batch = 0, line = any;
    const bool there = line < lines;
    //% end
    const i64 valid = p.length - i64(unit) * 16;
    to[j] = nullptr;
    if (!there || valid <= 0) continue;
    to[j] = p.to + batch * p.batch_bytes + line * p.pitch + unit * 16;
    some[j] = fetch_unaligned(p.from + batch * p.stride + line * p.ld + unit * 16, valid, p.from, end);
  }
  _Pragma("unroll") for (int j = 0; j < kPackUnits; ++j) if (to[j])
      *reinterpret_cast<uint4*>(to[j]) = shifted(some[j]);
}

/// Lines run along the rows: turned over in tiles of 64 × 64 through shared memory.
template <typename T>
KILN_DEVICE void pack_across(const Packing& p) {
  constexpr int kTile = 64;
  // One element more a row keeps the reads down a column on different banks.
  __shared__ T tile[kTile][kTile + 4 / sizeof(T)];
  const i64 rows = p.length / i64(sizeof(T)), depth = p.lines;
  const i64 row_tiles = ceil_div(rows, kTile), k_tiles = ceil_div(depth, kTile);
  const int lane = int(threadIdx.x) % kTile, line = int(threadIdx.x) / kTile;
  const int lines = int(blockDim.x) / kTile;
  for (i64 t = blockIdx.x; t < row_tiles * k_tiles * p.batches; t += gridDim.x) {
    const i64 batch = t / (row_tiles * k_tiles), at = t - batch * row_tiles * k_tiles;
    const i64 k0 = at / row_tiles * kTile, row0 = at % row_tiles * kTile;
    for (int i = line; i < kTile; i += lines)
      if (k0 + i < depth && row0 + lane < rows)
        tile[i][lane] = reinterpret_cast<const T*>(p.from + batch * p.stride +
                                                   (k0 + i) * p.ld)[row0 + lane];
    __syncthreads();
    for (int i = line; i < kTile; i += lines)
      if (row0 + i < rows && k0 + lane < depth)
        reinterpret_cast<T*>(p.to + batch * p.batch_bytes + (row0 + i) * p.pitch)[k0 + lane] =
            tile[lane][i];
    __syncthreads();
  }
}

template <typename T, bool AlongK, typename Shape>
KILN_DEVICE Packing packing_of(const void* from, unsigned char* to, i64 rows, i64 ld, i64 stride,
                               const KilnGpuArgs& args) {
  constexpr i64 kSize = sizeof(T);
  const auto shape = Shape::of(rows, args.k);
  return {static_cast<const unsigned char*>(from), to, (AlongK ? args.k : rows) * kSize, ld * kSize,
          stride * kSize, shape.pitch(), shape.bytes(), AlongK ? rows : args.k, args.batch};
}

/// One launch packs what there is to pack: blockIdx.y 0 is the first such operand. With one unit a
/// thread all of them are to run at once.
extern "C" __global__ void __launch_bounds__(256, kPackUnits == 1 ? 8 : 1)
    kiln_pack(const __grid_constant__ KilnGpuArgs args) {
  auto* workspace = static_cast<unsigned char*>(args.workspace);
  const bool is_a = kPackA && blockIdx.y == 0;
  const Packing p = is_a ? packing_of<TypeA, kAlongKA, PackedA>(args.a, workspace + packed_a_at(),
                                                                args.m, args.lda, args.stride_a, args)
                         : packing_of<TypeB, kAlongKB, PackedB>(
                               args.b, workspace + packed_b_at(args), args.n, args.ldb,
                               args.stride_b, args);
  wait_for_previous_grid();
  let_next_grid_start();
  // What both do alike stands in the code once.
  if (is_a ? PackedA::kTurned : PackedB::kTurned) {
    if (is_a)
      pack_across<TypeA>(p);
    else
      pack_across<TypeB>(p);
  } else {
    pack_lines(p);
  }
}
//% end
