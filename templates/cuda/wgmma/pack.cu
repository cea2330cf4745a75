//% if pack
// Copies one operand into the workspace so that the copy engine can address it: k-major, rows a
// multiple of 128 bytes apart. Expects hopper_ptx.h, grid_ptx.h,
// unaligned.h, workspace.h and the parameters.
//% else
// Copies one operand into the workspace so that the copy engine can address it: k-major, rows a
// multiple of 128 bytes apart. Expects hopper_ptx.h, grid_ptx.h,
// workspace.h and the parameters.
//% end

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

/// Only the distance of lines changes. A thread for every 16 bytes: all of them are on their way at
/// once.
KILN_DEVICE void pack_lines(
    //% if gather
    const Packing& p, const KilnGpuArgs& args
    //% else
    const Packing& p
    //% end
) {
  const u32 units = u32(p.pitch / 16), lines = u32(p.lines);
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 any = t / units, unit = t - any * units;
  //% if batched
  const u32 batch = any / lines, line = any - batch * lines;
  const bool there = batch < p.batches;
  //% else
  const u32 batch = 0, line = any;
  const bool there = line < lines;
  //% end
  if (!there || i64(unit) * 16 >= p.length) return;
  //% if gather
  // A's lines, in the order of the product's rows.
  const auto* end = p.from + (args.rows_of_a - 1) * p.ld + p.length;
  const auto* at = p.from + row_of_a(args, line) * p.ld + unit * 16;
  //% else
  const auto* end = p.from + (p.batches - 1) * p.stride + (p.lines - 1) * p.ld + p.length;
  const auto* at = p.from + batch * p.stride + line * p.ld + unit * 16;
  //% end
  const uint4 bytes =
      words_inside(at, p.from, end) ? shifted(fetch_words(at)) : fetch_bytes(at, p.from, end);
  *reinterpret_cast<uint4*>(p.to + batch * p.batch_bytes + line * p.pitch + unit * 16) = bytes;
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
        tile[i][lane] =
            reinterpret_cast<const T*>(p.from + batch * p.stride + (k0 + i) * p.ld)[row0 + lane];
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
  return {static_cast<const unsigned char*>(from),
          to,
          (AlongK ? args.k : rows) * kSize,
          ld * kSize,
          stride * kSize,
          shape.pitch(),
          shape.bytes(),
          AlongK ? rows : args.k,
          args.batch};
}

/// One launch packs what there is to pack: blockIdx.y 0 is the first such operand. As many threads
/// as a unit of the device holds.
extern "C" __global__ void __launch_bounds__(256, 8)
    kiln_pack(const __grid_constant__ KilnGpuArgs args) {
  auto* workspace = static_cast<unsigned char*>(args.workspace);
  const bool is_a = kPackA && blockIdx.y == 0;
  const Packing p =
      is_a ? packing_of<TypeA, kAlongKA, PackedA>(args.a, workspace + packed_a_at(), args.m,
                                                  args.lda, args.stride_a, args)
           //% if gate
           : packing_of<TypeB, kAlongKB, PackedB>(args.b, workspace + packed_b_at(args), 2 * args.n,
                                                  args.ldb, args.stride_b, args);
  //% else
                         : packing_of<TypeB, kAlongKB, PackedB>(
                               args.b, workspace + packed_b_at(args), args.n, args.ldb,
                               args.stride_b, args);
                         //% end
                         wait_for_previous_grid();
                         let_next_grid_start();
                         // What both do alike stands in the code once.
                         if (is_a ? PackedA::kTurned : PackedB::kTurned) {
                           if (is_a)
                             pack_across<TypeA>(p);
                           else
                             pack_across<TypeB>(p);
                         } else {
                           //% if gather
                           pack_lines(p, args);
                           //% else
                           pack_lines(p);
                           //% end
                         }
}
//% end
