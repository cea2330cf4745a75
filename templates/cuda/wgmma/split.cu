//% if halves
// Splits fp32 operands into two parts of half precision, k-major in the workspace: x · 2^e = high +
// low · 2^-11, where e brings the largest magnitude of the row below 2^15. The parts keep 22 bits
// of elements down to 2^-29 of the largest, and 2^-51 of it of those below. An infinity becomes a
// NaN: its low part is one. Expects convert.h, grid_ptx.h, workspace.h and the parameters.

constexpr float kLowUnit = 0x1p-11f;  // what a low part counts in

/// Rows of one operand, and where their parts and exponents go. `rows` of each batch.
struct Splitting {
  const float* from;
  unsigned char* to;
  i32* exponents;
  i64 rows, k, batches, ld, stride;
  i64 pitch, part_bytes;
};

constexpr int kSplitThreads = 256;

KILN_DEVICE u32 magnitude(float x) { return float_to_bits(x) & 0x7fffffff; }
/// `most`: the largest magnitude of a row. Below 2^-112 all of fp32's bits fit as they are.
KILN_DEVICE i32 exponent_for(u32 most) { return min(141 - i32(most >> 23), 126); }
KILN_DEVICE float power_of_two(i32 e) { return bits_to_float(u32(e + 127) << 23); }

/// Two neighbours along k, scaled, from `k` on of a row whose first part starts at `line`.
KILN_DEVICE void store_parts(const Splitting& s, unsigned char* line, i64 k, float x, float y) {
  const u32 high = floats_to_halves(x, y);
  const auto rest = [](float all, u16 part) { return (all - half_to_float(part)) / kLowUnit; };
  const u32 low = floats_to_halves(rest(x, u16(high)), rest(y, u16(high >> 16)));
  *reinterpret_cast<u32*>(line + k * 2) = high;
  *reinterpret_cast<u32*>(line + s.part_bytes + k * 2) = low;
}

KILN_DEVICE unsigned char* line_of(const Splitting& s, i64 batch, i64 row) {
  return s.to + batch * 2 * s.part_bytes + row * s.pitch;
}

/// A block for each row; what it reads again comes from L1.
KILN_DEVICE void split_along(const Splitting& s) {
  __shared__ u32 most_of[kSplitThreads / 32];
  const int thread = int(threadIdx.x);
  for (i64 any = blockIdx.x; any < s.rows * s.batches; any += gridDim.x) {
    const i64 batch = any / s.rows, row = any - batch * s.rows;
    const float* from = s.from + batch * s.stride + row * s.ld;
    u32 most = 0;
    _Pragma("unroll 8") for (i64 k = thread; k < s.k; k += kSplitThreads)
      most = max(most, magnitude(from[k]));
    _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
      most = max(most, __shfl_xor_sync(0xffffffff, most, apart));
    if (thread % 32 == 0) most_of[thread / 32] = most;
    __syncthreads();
    _Pragma("unroll") for (u32 other : most_of) most = max(most, other);
    const i32 exponent = exponent_for(most);
    if (thread == 0) s.exponents[any] = exponent;
    const float scale = power_of_two(exponent);
    unsigned char* line = line_of(s, batch, row);
    _Pragma("unroll 4") for (i64 k = thread * 2; k < s.k; k += kSplitThreads * 2)
      store_parts(s, line, k, from[k] * scale, k + 1 < s.k ? from[k + 1] * scale : 0.0f);
    // The maxima may be written again only when every thread has read them.
    __syncthreads();
  }
}

/// Rows are neighbours in memory: a block for 16 of them, turned over 64 of k at a time.
KILN_DEVICE void split_across(const Splitting& s) {
  constexpr int kRows = 16, kLines = kSplitThreads / kRows, kDeep = 64;
  __shared__ u32 most_of[kSplitThreads / 32][kRows];
  // One element more a row keeps the writes down a column on different banks.
  __shared__ float tile[kRows][kDeep + 1];
  const int thread = int(threadIdx.x), mine = thread % kRows, line = thread / kRows;
  const i64 groups = ceil_div(s.rows, kRows);
  for (i64 any = blockIdx.x; any < groups * s.batches; any += gridDim.x) {
    const i64 batch = any / groups, row0 = (any - batch * groups) * kRows;
    const bool there = row0 + mine < s.rows;
    // A row that is not there repeats the last.
    const float* from = s.from + batch * s.stride + min(row0 + mine, s.rows - 1);
    u32 most = 0;
    _Pragma("unroll 8") for (i64 k = line; k < s.k; k += kLines)
      most = max(most, magnitude(from[k * s.ld]));
    most = max(most, __shfl_xor_sync(0xffffffff, most, 16));
    if (thread % 32 < kRows) most_of[thread / 32][mine] = most;
    __syncthreads();
    _Pragma("unroll") for (int warp = 0; warp < kSplitThreads / 32; ++warp)
      most = max(most, most_of[warp][mine]);
    const i32 exponent = exponent_for(most);
    if (line == 0 && there) s.exponents[batch * s.rows + row0 + mine] = exponent;
    const float scale = power_of_two(exponent);
    for (i64 k0 = 0; k0 < s.k; k0 += kDeep) {
      float some[kDeep / kLines];
      _Pragma("unroll") for (int i = 0; i < kDeep / kLines; ++i) {
        const i64 k = k0 + line + i * kLines;
        some[i] = k < s.k ? from[k * s.ld] * scale : 0.0f;
      }
      __syncthreads();
      _Pragma("unroll") for (int i = 0; i < kDeep / kLines; ++i)
        tile[mine][line + i * kLines] = some[i];
      __syncthreads();
      const int row = thread / kRows, at = thread % kRows * 4;
      if (row0 + row >= s.rows || k0 + at >= s.k) continue;
      unsigned char* to = line_of(s, batch, row0 + row);
      store_parts(s, to, k0 + at, tile[row][at], tile[row][at + 1]);
      store_parts(s, to, k0 + at + 2, tile[row][at + 2], tile[row][at + 3]);
    }
  }
}

KILN_DEVICE Splitting splitting_of(const void* from, i64 to, i64 exponents, i64 rows, i64 ld,
                                   i64 stride, const KilnGpuArgs& args) {
  auto* workspace = static_cast<unsigned char*>(args.workspace);
  const auto shape = PackedA::of(rows, args.k);
  return {static_cast<const float*>(from),
          workspace + to,
          reinterpret_cast<i32*>(workspace + exponents),
          rows,
          args.k,
          args.batch,
          ld,
          stride,
          shape.pitch(),
          shape.bytes()};
}

/// blockIdx.y 0 is A. As many threads as a unit of the device holds.
extern "C" __global__ void __launch_bounds__(kSplitThreads, 8)
    kiln_split(const __grid_constant__ KilnGpuArgs args) {
  const bool is_a = blockIdx.y == 0;
  const Splitting s = is_a ? splitting_of(args.a, packed_a_at(), exponents_a_at(args), args.m,
                                          args.lda, args.stride_a, args)
                           : splitting_of(args.b, packed_b_at(args), exponents_b_at(args), args.n,
                                          args.ldb, args.stride_b, args);
  wait_for_previous_grid();
  let_next_grid_start();
  if (is_a ? kAlongKA : kAlongKB)
    split_along(s);
  else
    split_across(s);
}

/// Where the exponents of D's rows and columns are, in the batch that `out` is of.
KILN_DEVICE void find_exponents(Output& out, const KilnGpuArgs& args, i64 batch) {
  const auto* workspace = static_cast<const unsigned char*>(args.workspace);
  out.exponents_a = reinterpret_cast<const i32*>(workspace + exponents_a_at(args)) + batch * args.m;
  out.exponents_b = reinterpret_cast<const i32*>(workspace + exponents_b_at(args)) + batch * args.n;
}

/// A sum of products of scaled elements as that of the elements; those outside D read nothing. In
/// two steps, of which only the second may round or overflow.
KILN_DEVICE Real scaled(const Output& out, Real x, i64 row, i64 column) {
  if (row >= out.rows || column >= out.columns) return x;
  const i32 e = -(out.exponents_a[row] + out.exponents_b[column]), half = e / 2;
  return product(product(x, power_of_two(half)), power_of_two(e - half));
}
//% end
