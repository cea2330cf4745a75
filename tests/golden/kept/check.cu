
// ---- cuda/check/check.cu ----
// Kernels that check other kernels: seeded data and a plainly right product in higher precision;
// judge.cu compares. Slow and simple; element types are run-time codes, so that one compile serves
// every problem. Expects types.h, on an NVIDIA GPU convert_ptx.h, on an AMD GPU hip/check/device.h,
// which gives CUDA's words their meaning there. Works on the canonical form of abi.h.

/// The order of kiln's DType.
enum TypeCode {
  kFp32,
  kFp64,
  kFp16,
  kBf16,
  kS8,
  kU8,
  kS32,
  kE4m3,
  kE5m2,
  kTf32,
  kE4m3Fnuz,
  kE5m2Fnuz,
  kE2m3,
  kE3m2,
  kE2m1,
  kS4,
  kU4
};

KILN_DEVICE float brain_to_float(u16 bits) { return __int_as_float(int(u32(bits) << 16)); }
KILN_DEVICE u16 float_to_brain(float x) {
  const u32 bits = u32(__float_as_int(x));
  if ((bits & 0x7fffffff) > 0x7f800000) return u16(bits >> 16 | 0x40);
  return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

KILN_DEVICE float small_float(u8 bits, int mantissa, int bias, bool has_infinity) {
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (has_infinity && exponent == 0x7f >> mantissa)
    return fraction == 0 ? sign * __int_as_float(0x7f800000) : __int_as_float(0x7fc00000);
  if (!has_infinity && (bits & 0x7f) == 0x7f) return __int_as_float(0x7fc00000);
  const int whole = exponent == 0 ? fraction : fraction + (1 << mantissa);
  return sign * ldexpf(float(whole), (exponent == 0 ? 1 : exponent) - bias - mantissa);
}
/// The formats without −0 and infinity, whose one NaN is what −0 would be.
KILN_DEVICE float small_float_fnuz(u8 bits, int mantissa, int bias) {
  if (bits == 0x80) return __int_as_float(0x7fc00000);
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << mantissa);
  return (bits & 0x80 ? -1.0f : 1.0f) *
         ldexpf(float(whole), (exponent == 0 ? 1 : exponent) - bias - mantissa);
}
/// For magnitudes within the format's range, NaN included.
KILN_DEVICE u8 to_small_float(float x, int mantissa, int bias) {
  const u8 sign = __float_as_int(x) < 0 ? 0x80 : 0;
  if (x != x) return sign | 0x7f;
  const int lowest = 1 - bias;
  const float magnitude = fabsf(x);
  int exponent = magnitude > 0 ? ilogbf(magnitude) : lowest;
  if (exponent < lowest) exponent = lowest;
  const int units = int(rintf(ldexpf(magnitude, mantissa - exponent)));
  return u8(sign | (((exponent - lowest) << mantissa) + units));
}

KILN_DEVICE u8 to_small_float_fnuz(float x, int mantissa, int bias) {
  if (x != x) return 0x80;
  const u8 bits = to_small_float(x, mantissa, bias);
  return bits == 0x80 ? 0 : bits;
}

/// Codes of fewer than eight bits side by side, whose types stand behind the others.
constexpr int kFirstPacked = kE2m3;
KILN_DEVICE float packed_float(const void* base, int type, i64 at) {
  const int bits = type == kE2m1 ? 4 : 6;
  const int mantissa = type == kE2m3 ? 3 : type == kE3m2 ? 2 : 1, bias = type == kE3m2 ? 3 : 1;
  const i64 bit = at * bits;
  const u8* bytes = (const u8*)base + bit / 8;
  u32 code = bytes[0];
  if (bit % 8 + bits > 8) code |= u32(bytes[1]) << 8;
  code >>= bit % 8;
  const int magnitude = int(code & ((1u << (bits - 1)) - 1));
  const int exponent = magnitude >> mantissa, fraction = magnitude & ((1 << mantissa) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << mantissa);
  const float sign = code >> (bits - 1) & 1 ? -1.0f : 1.0f;
  return sign * ldexpf(float(whole), (exponent == 0 ? 1 : exponent) - bias - mantissa);
}

KILN_DEVICE int packed_integer(const void* base, int type, i64 at) {
  const int code = ((const u8*)base)[at / 2] >> at % 2 * 4 & 15;
  return type == kS4 ? (code ^ 8) - 8 : code;
}

KILN_DEVICE double load(const void* base, int type, i64 at) {
  if (type >= kS4) return packed_integer(base, type, at);
  if (type >= kFirstPacked) return packed_float(base, type, at);
  switch (type) {
    case kFp64:
      return ((const double*)base)[at];
    case kFp16:
      return half_to_float(((const u16*)base)[at]);
    case kBf16:
      return brain_to_float(((const u16*)base)[at]);
    case kS8:
      return ((const i8*)base)[at];
    case kU8:
      return ((const u8*)base)[at];
    case kS32:
      return ((const i32*)base)[at];
    case kE4m3:
      return small_float(((const u8*)base)[at], 3, 7, false);
    case kE5m2:
      return small_float(((const u8*)base)[at], 2, 15, true);
    case kE4m3Fnuz:
      return small_float_fnuz(((const u8*)base)[at], 3, 8);
    case kE5m2Fnuz:
      return small_float_fnuz(((const u8*)base)[at], 2, 16);
    default:
      return ((const float*)base)[at];
  }
}

KILN_DEVICE double clamped(double x, double low, double high) {
  return x != x ? 0 : fmin(fmax(rint(x), low), high);
}

KILN_DEVICE void store(void* base, int type, i64 at, double x) {
  switch (type) {
    case kFp32:
      ((float*)base)[at] = float(x);
      return;
    case kFp64:
      ((double*)base)[at] = x;
      return;
    case kFp16:
      ((u16*)base)[at] = float_to_half(float(x));
      return;
    case kBf16:
      ((u16*)base)[at] = float_to_brain(float(x));
      return;
    case kS8:
      ((i8*)base)[at] = i8(clamped(x, -128, 127));
      return;
    case kU8:
      ((u8*)base)[at] = u8(clamped(x, 0, 255));
      return;
    case kS32:
      ((i32*)base)[at] = i32(clamped(x, -2147483648.0, 2147483647.0));
      return;
    case kE4m3:
      ((u8*)base)[at] = to_small_float(float(x), 3, 7);
      return;
    case kE5m2:
      ((u8*)base)[at] = to_small_float(float(x), 2, 15);
      return;
    case kE4m3Fnuz:
      ((u8*)base)[at] = to_small_float_fnuz(float(x), 3, 8);
      return;
    case kE5m2Fnuz:
      ((u8*)base)[at] = to_small_float_fnuz(float(x), 2, 16);
      return;
    case kTf32: {
      const u32 bits = u32(__float_as_int(float(x)));
      const u32 rounded = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
      ((u32*)base)[at] = (bits & 0x7f800000) == 0x7f800000 ? bits : rounded;
      return;
    }
  }
}

/// What a store of `x` leaves, read back.
KILN_DEVICE double rounded(int type, double x) {
  switch (type) {
    case kFp32:
      return float(x);
    case kFp16:
      return half_to_float(float_to_half(float(x)));
    case kBf16:
      return brain_to_float(float_to_brain(float(x)));
    case kS8:
      return clamped(x, -128, 127);
    case kU8:
      return clamped(x, 0, 255);
    case kS32:
      return clamped(x, -2147483648.0, 2147483647.0);
    case kE4m3: {
      const float near = float(x < -448 ? -448 : x > 448 ? 448 : x);
      return small_float(to_small_float(near, 3, 7), 3, 7, false);
    }
    default:
      return x;
  }
}

KILN_DEVICE u64 mixed(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

KILN_DEVICE double uniform_value(int type, u64 bits) {
  const double unit = double(i32(bits >> 32)) * 0x1p-31;
  switch (type) {
    case kFp64:
      return double(i64(bits)) * 0x1p-63;
    case kS8:
      return double(i8(bits >> 56));
    case kU8:
      return double(u8(bits >> 56));
    case kS32:
      return rint(unit * 1000);
    default:
      return unit;
  }
}

/// Any code of e4m3 but NaN; `lowest`: zeros and denormals alone.
KILN_DEVICE u8 finite_code(u8 code, bool lowest) {
  if (lowest) return code & 0x87;
  return (code & 0x7f) == 0x7f ? code ^ 1 : code;
}

/// Lines of `length` elements, `pitch` elements apart, in batches `stride` apart. limit 0: uniform
/// values; -1: codes of e4m3, in every fourth line the smallest alone; else whole numbers of
/// [-limit, limit], without the negative ones in an unsigned type.
extern "C" __global__ void check_fill(void* base, int type, i64 length, i64 lines, i64 pitch,
                                      i64 batch, i64 stride, u64 seed, int limit) {
  const i64 count = length * lines * batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 at = i / (length * lines) * stride + i / length % lines * pitch + i % length;
    const u64 bits = mixed(mixed(seed + 0x9e3779b97f4a7c15ull) + u64(i) * 0x9e3779b97f4a7c15ull);
    if (limit == 0) {
      store(base, type, at, uniform_value(type, bits));
      continue;
    }
    if (limit < 0) {
      ((u8*)base)[at] = finite_code(u8(bits >> 56), i / length % 4 == 3);
      continue;
    }
    const i64 lowest = type == kU8 ? 0 : -limit;
    store(base, type, at, double(lowest + i64((bits >> 32) * u64(limit - lowest + 1) >> 32)));
  }
}

/// The batch that holds a place, if any does. Batches lie behind one another or, where they are
/// closer together than their lines reach, beside one another within the same lines.
KILN_DEVICE i64 batch_at(i64 at, i64 length, i64 lines, i64 pitch, i64 batch, i64 stride) {
  if (batch == 1) return 0;
  return stride >= (lines - 1) * pitch + length ? at / stride : at % pitch / stride;
}

/// A code of four bits: any; of [-limit, limit] without the negative ones of an unsigned type; or
/// of e2m1, with `limit` the whole numbers, or `lowest`: zeros and denormals alone.
KILN_DEVICE int nibble(int type, u64 bits, int limit, bool lowest) {
  if (type == kE2m1) {
    const int code = int(bits & (lowest ? 9 : 15));
    return limit > 0 && (code & 7) < 4 ? code & ~1 : code;  // 1 is 0.5, 3 is 1.5
  }
  if (limit == 0) return int(bits & 15);
  const u64 count = u64(limit) * (type == kS4 ? 2 : 1) + 1;  // of different codes
  return ((type == kS4 ? -limit : 0) + int((bits & 0xffffffff) * count >> 32)) & 15;
}

/// As check_fill for codes of four bits, two to a byte, of which a thread writes both. `bytes` from
/// the first line on; codes between lines are left as they are.
extern "C" __global__ void check_fill_nibbles(u8* base, int type, i64 length, i64 lines, i64 pitch,
                                              i64 batch, i64 stride, u64 seed, int limit,
                                              i64 bytes) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < bytes;
       i += i64(gridDim.x) * blockDim.x) {
    u64 bits = mixed(mixed(seed + 0x9e3779b97f4a7c15ull) + u64(i) * 0x9e3779b97f4a7c15ull);
    int byte = base[i];
    for (int half = 0; half < 2; ++half, bits >>= 32) {
      const i64 at = i * 2 + half, b = batch_at(at, length, lines, pitch, batch, stride);
      const i64 within = at - b * stride;
      if (b >= batch || within / pitch >= lines || within % pitch >= length) continue;
      const int code = nibble(type, bits, limit, limit < 0 && within / pitch % 4 == 3);
      byte = (byte & ~(15 << half * 4)) | code << half * 4;
    }
    base[i] = u8(byte);
  }
}

/// Repeats an 8-byte pattern over `words` words.
extern "C" __global__ void check_poison(u64* base, i64 words, u64 pattern) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < words;
       i += i64(gridDim.x) * blockDim.x)
    base[i] = pattern;
}

/// Writes the pattern to `lines` of D from `first` (bytes) on, each `line` bytes, `pitch` apart.
extern "C" __global__ void check_forget(u8* base, u64 pattern, i64 first, i64 line, i64 lines,
                                        i64 pitch) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < line * lines;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 at = first + i / line * pitch + i % line;
    base[at] = u8(pattern >> 8 * (at & 7));
  }
}

/// As tuner/verify/data.cpp's lists: what one may not say becomes the nearest of `of` rows.
KILN_DEVICE i64 listed(const int* index, i64 row, i64 of) {
  return index[row] < 0 ? 0 : index[row] < of ? index[row] : of - 1;
}

/// Copies `line` bytes for each of `rows` rows, whose lines lie `pitch` bytes apart where the list
/// says, to behind one another.
extern "C" __global__ void check_gather(u8* to, const u8* from, const int* index, i64 rows, i64 of,
                                        i64 line, i64 pitch) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < line * rows;
       i += i64(gridDim.x) * blockDim.x)
    to[i] = from[listed(index, i / line, of) * pitch + i % line];
}

/// check_forget() of lines that a list names.
extern "C" __global__ void check_forget_listed(u8* base, u64 pattern, i64 first, i64 line,
                                               i64 lines, i64 pitch, const int* index, i64 of) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < line * lines;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 at = first + listed(index, i / line, of) * pitch + i % line;
    base[at] = u8(pattern >> 8 * (at & 7));
  }
}

/// Counts the bytes that no longer hold the pattern, among those of [0, bytes) that are no element
/// of D: its lines start at `first` (bytes), each `line` bytes, `pitch` bytes apart, in batches
/// `stride` bytes apart. out[0] counts, out[1] becomes the least offset.
extern "C" __global__ void check_around(const u8* base, i64 bytes, u64 pattern, i64 first, i64 line,
                                        i64 lines, i64 pitch, i64 batch, i64 stride, u64* out) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < bytes;
       i += i64(gridDim.x) * blockDim.x) {
    if (base[i] == u8(pattern >> 8 * (i & 7))) continue;
    const i64 from = i - first;
    bool inside = false;
    if (from >= 0) {
      const i64 b = batch_at(from, line, lines, pitch, batch, stride);
      const i64 within = from - b * stride;
      inside = b < batch && within / pitch < lines && within % pitch < line;
    }
    if (inside) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// Adds up a mixture of every word and its place: changes when any word does.
extern "C" __global__ void check_sum(const u64* base, i64 words, u64* out) {
  u64 sum = 0;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < words;
       i += i64(gridDim.x) * blockDim.x)
    sum += mixed(base[i] + u64(i) * 0x9e3779b97f4a7c15ull);
  atomicAdd(out, sum);
}

/// Which elements of an operand share a scale, and how many scales lie from one to the next.
struct ScalePlaces {
  int lines, along;        // elements that share one, 0 lines: without
  i64 line, block, batch;  // between blocks of lines, blocks along k, batches
};

struct Types {
  int a, b, d, bias;
  int a_k_major, b_k_major;
  ScalePlaces a_scales, b_scales;
  int mx;           // scales are bytes of e8m0
  int scale, zero;  // types of other scales and of zero points; -1: without
  int d_scale;      // 0: D has no scales; 1: one that is given; 2: some that follow from it
  i64 d_along;      // columns that share one
  float d_largest;  // number of D's type
  int zero_a;       // zero points of A: 0: none; 1: one a row; 2: one
  i64 first_k;      // of the k that scales' blocks divide, the product's own begins here
  int integers;     // are summed, exactly, before their scales are applied
};

/// The scale, or zero point, of element `p` of a line: which of all, as kiln's Scale says.
KILN_DEVICE i64 scale_place(const ScalePlaces& of, i64 batch, i64 line, i64 p) {
  return batch * of.batch + line / of.lines * of.line + p / of.along * of.block;
}

/// The scale of element `p` of a line: a number, or of 32 elements a byte.
KILN_DEVICE double scale_at(const void* scales, const ScalePlaces& of, const Types& t, i64 batch,
                            i64 line, i64 p) {
  if (of.lines == 0) return 1;
  const i64 at = scale_place(of, batch, line, t.first_k + p);
  if (t.mx == 0) return load(scales, t.scale, at);
  const u8 code = ((const u8*)scales)[at];
  return code == 255 ? __int_as_float(0x7fc00000) : ldexpf(1.0f, int(code) - 127);
}

KILN_DEVICE double a_at(const KilnGpuArgs& g, const Types& t, i64 batch, i64 i, i64 p) {
  if (i >= g.m || p >= g.k) return 0;
  const i64 at = batch * g.stride_a + (t.a_k_major ? i * g.lda + p : p * g.lda + i);
  const double value = load(g.a, t.a, at);
  return t.integers ? value : value * scale_at(g.scale_a, t.a_scales, t, batch, i, p);
}
KILN_DEVICE double b_at(const KilnGpuArgs& g, const Types& t, i64 batch, i64 p, i64 j) {
  if (j >= g.n || p >= g.k) return 0;
  const i64 at = batch * g.stride_b + (t.b_k_major ? j * g.ldb + p : p * g.ldb + j);
  double value = load(g.b, t.b, at);
  if (t.zero >= 0) value -= load(g.zero_b, t.zero, scale_place(t.b_scales, batch, j, p));
  return t.integers ? value : value * scale_at(g.scale_b, t.b_scales, t, batch, j, p);
}

/// What the zero point of a row of A, which is of integers, adds to a sum.
KILN_DEVICE double added_by_zero(const KilnGpuArgs& g, const Types& t, i64 batch, i64 i, i64 j) {
  if (t.zero_a == 0) return 0;
  const i64 row = t.zero_a == 2 ? batch : batch * g.m + i;
  return load(g.zero_a, kS32, row) * load(g.column_sums_b, kS32, batch * g.n + j);
}

/// What sums of integers are multiplied by.
KILN_DEVICE double scale_of_sum(const KilnGpuArgs& g, const Types& t, i64 batch, i64 i, i64 j) {
  if (!t.integers) return 1;
  return scale_at(g.scale_a, t.a_scales, t, batch, i, 0) *
         scale_at(g.scale_b, t.b_scales, t, batch, j, 0);
}

constexpr int kTile = 64, kDepth = 16, kOwn = 4;

/// Sums of op(A)*op(B) in fp64 and of |a||b| in fp32, batches × m × n, tight. `compensated`: fp64
/// problems, whose own precision that is; the rounding errors of each step are kept beside the sum.
/// Blocks of 16 × 16 threads, each with 4 × 4 elements 16 apart.
extern "C" __global__ void check_products(const __grid_constant__ KilnGpuArgs g,
                                          const __grid_constant__ Types t, int compensated,
                                          double* sums, float* magnitudes) {
  __shared__ double a_tile[kDepth][kTile + 1];
  __shared__ double b_tile[kDepth][kTile + 1];
  // Magnitudes beside them: a conversion in the innermost loop would cost more than the products.
  __shared__ float a_size[kDepth][kTile + 1];
  __shared__ float b_size[kDepth][kTile + 1];
  const int thread = threadIdx.x, x = thread % 16, y = thread / 16;
  // All along x: the other two directions of a grid end at 65,535.
  const i64 across = (g.n + kTile - 1) / kTile, down = (g.m + kTile - 1) / kTile;
  const i64 tile = blockIdx.x, batch = tile / (across * down);
  const i64 first_i = tile / across % down * kTile, first_j = tile % across * kTile;
  double sum[kOwn][kOwn] = {}, low[kOwn][kOwn] = {};
  float magnitude[kOwn][kOwn] = {};
  for (i64 p0 = 0; p0 < g.k; p0 += kDepth) {
    for (int e = thread; e < kTile * kDepth; e += 256) {
      // Neighbouring threads read along memory, whichever way the operand lies.
      const int ap = t.a_k_major ? e % kDepth : e / kTile,
                ai = t.a_k_major ? e / kDepth : e % kTile;
      const int bp = t.b_k_major ? e % kDepth : e / kTile,
                bj = t.b_k_major ? e / kDepth : e % kTile;
      const double a = a_at(g, t, batch, first_i + ai, p0 + ap);
      const double b = b_at(g, t, batch, p0 + bp, first_j + bj);
      a_tile[ap][ai] = a, a_size[ap][ai] = fabsf(float(a));
      b_tile[bp][bj] = b, b_size[bp][bj] = fabsf(float(b));
    }
    __syncthreads();
    // Zeros beyond k would turn an infinity into NaN: the last steps are not made.
    const int depth = int(g.k - p0 < kDepth ? g.k - p0 : kDepth);
    for (int p = 0; p < depth; ++p)
      for (int i = 0; i < kOwn; ++i)
        for (int j = 0; j < kOwn; ++j) {
          const double a = a_tile[p][y + 16 * i], b = b_tile[p][x + 16 * j];
          magnitude[i][j] = fmaf(a_size[p][y + 16 * i], b_size[p][x + 16 * j], magnitude[i][j]);
          if (!compensated) {
            sum[i][j] = fma(a, b, sum[i][j]);
            continue;
          }
          const double product = a * b, s = sum[i][j], total = s + product, back = total - s;
          low[i][j] += fma(a, b, -product) + ((s - (total - back)) + (product - back));
          sum[i][j] = total;
        }
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) {
      const i64 row = first_i + y + 16 * i, column = first_j + x + 16 * j;
      if (row >= g.m || column >= g.n) continue;
      const i64 at = (batch * g.m + row) * g.n + column;
      const double scale = scale_of_sum(g, t, batch, row, column);
      const double value = (sum[i][j] - added_by_zero(g, t, batch, row, column)) * scale;
      sums[at] = compensated && isfinite(value) ? value + low[i][j] : value;
      magnitudes[at] = magnitude[i][j] * fabsf(float(scale));
    }
}

// ---- cuda/check/functions.h ----
// The functions of expressions as references compute them, on a GPU and, where the host includes
// this file (generator/expression/functions.h), on the CPU: plain C++ without headers. Expects
// KILN_DEVICE and the functions of math.h.

/// In the order of kFunctions in generator/expression/functions.cpp.
enum ExpressionFunction {
  function_add,
  function_subtract,
  function_multiply,
  function_divide,
  function_less,
  function_at_most,
  function_more,
  function_at_least,
  function_equal,
  function_differ,
  function_negate,
  function_where,
  function_min,
  function_max,
  function_clamp,
  function_relu,
  function_round,
  function_abs,
  function_exp,
  function_log,
  function_sqrt,
  function_rsqrt,
  function_tanh,
  function_erf,
  function_sigmoid,
  function_silu,
  function_gelu,
  function_gelu_erf,
  function_remainder,
  function_random,
  function_fp32,
  function_fp16,
  function_bf16,
  function_e4m3,
  function_s8
};

// A NaN stays a NaN in both.
KILN_DEVICE double smaller(double x, double y) { return x < y || x != x ? x : y; }
KILN_DEVICE double larger(double x, double y) { return x > y || x != x ? x : y; }

/// Of two numbers of 32 bits one whose bits depend on all of theirs.
KILN_DEVICE unsigned mixed_bits(unsigned x, unsigned y) {
  x ^= y * 0x9e3779b1u + 0x7f4a7c15u;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}
/// A whole number of fp32's; any other counts as 0.
KILN_DEVICE bool is_counter(double x) { return x >= 0 && x <= 16777216.0 && x == rint(x); }
KILN_DEVICE unsigned counter(double x) { return is_counter(x) ? unsigned(x) : 0; }

/// The nearest number, ties to even, of those with so many bits behind the first one, whose
/// exponents are `least` and more.
KILN_DEVICE float nearest_of(float x, int bits, int least) {
  if (x == 0 || x - x != 0) return x;  // infinity and NaN
  int exponent = ilogbf(x);
  if (exponent < least) exponent = least;
  return ldexpf(rintf(ldexpf(x, bits - exponent)), exponent - bits);
}
/// The same of fp16: what would be 2^16 or more is infinite.
KILN_DEVICE float nearest_half(float x) {
  const float near = nearest_of(x, 10, -14);
  return near >= 65536.0f || near <= -65536.0f ? ldexpf(near, 128) : near;
}
KILN_DEVICE float nearest_e4m3(float x) {
  return nearest_of(x < -448.0f ? -448.0f : x > 448.0f ? 448.0f : x, 3, -6);
}
/// A NaN is 0.
KILN_DEVICE float nearest_s8(float x) {
  return x != x ? 0.0f : rintf(x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x);
}

/// A comparison's value is 1 where it holds. Functions of fewer arguments do not look at others.
KILN_DEVICE double function_value(int function, double x, double y, double z) {
  switch (function) {
    case function_add:
      return x + y;
    case function_subtract:
      return x - y;
    case function_multiply:
      return x * y;
    case function_divide:
      return x / y;
    case function_less:
      return x < y;
    case function_at_most:
      return x <= y;
    case function_more:
      return x > y;
    case function_at_least:
      return x >= y;
    case function_equal:
      return x == y;
    case function_differ:
      return x != y;
    case function_negate:
      return -x;
    case function_where:
      return x != 0 ? y : z;
    case function_min:
      return smaller(x, y);
    case function_max:
      return larger(x, y);
    case function_clamp:
      return smaller(larger(x, y), z);
    case function_relu:
      return x < 0 ? 0 : x;
    case function_round:
      return rint(x);
    case function_abs:
      return fabs(x);
    case function_exp:
      return exp(x);
    case function_log:
      return ::log(x);  // kiln has a namespace of that name
    case function_sqrt:
      return sqrt(x);
    case function_rsqrt:
      return 1 / sqrt(x);
    case function_tanh:
      return tanh(x);
    case function_erf:
      return erf(x);
    case function_sigmoid:
      return 1 / (1 + exp(-x));
    case function_silu:
      return x / (1 + exp(-x));
    case function_gelu:  // x/2 (1 + tanh u) as x / (1 + e^(-2u)), which does not cancel
      return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case function_gelu_erf:
      return 0.5 * x * erfc(-0.70710678118654752 * x);
    case function_remainder:
      return counter(y) > 0 && is_counter(x) ? double(counter(x) % counter(y)) : 0;
    case function_random: {  // 24 bits
      const unsigned bits =
          mixed_bits(mixed_bits(mixed_bits(0, counter(x)), counter(y)), counter(z));
      return double(bits >> 8) / 16777216.0;
    }
    case function_fp32:
      return float(x);
    case function_fp16:
      return nearest_half(float(x));
    case function_bf16:
      return nearest_of(float(x), 7, -126);
    case function_e4m3:
      return nearest_e4m3(float(x));
    case function_s8:
      return nearest_s8(float(x));
  }
  return x;
}

// ---- cuda/check/intervals.h ----
// What a right kernel may compute of an expression: each value as an interval, which a function
// widens by what its implementations may be off. On a GPU and, where the host includes this file
// (tuner/verify/interval.h), on the CPU: plain C++ without headers. Expects functions.h.

/// All numbers from `low` to `high`, none where low > high; and NaN, where `nan`.
struct Interval {
  double low, high;
  bool nan;
};

/// The type of a kernel's values.
struct Precision {
  double roundoff, largest;  // beyond `largest` values become infinite
  double normal, least;      // the least numbers that are not denormal, and not 0
  double flushed;            // what results near 0 may lose besides
  double infinity;
};

/// How a function's value follows its arguments.
enum ExpressionCourse {
  course_rising,   // in every argument
  course_falling,  // of one argument
  course_valley,   // of one argument: falls up to `lowest`, then rises
  course_sum,      // x + y, and likewise
  course_difference,
  course_product,
  course_quotient,
  course_comparison,  // of two arguments: no number
  course_choice,      // where(c, x, y)
  course_drawn,       // a number from 0 to 1 that follows from whole numbers alone
  course_remainder    // of whole numbers; of others it is any number
};

enum ExpressionOp { op_acc, op_operand, op_number, op_index, op_call, op_reduced };

/// One value of an expression, behind those that it is made of.
struct ExpressionStep {
  int op;
  int which;  // the operand, the function or the index: 1 is m, 2 is n
  int of[3];  // a function's arguments, or what is reduced: numbers of earlier steps
  int arity, course;
  bool exact;  // a number that fp32 has; a function that is not rounded
  bool exponential;
  double number;
  double roundoffs, of_argument;  // what implementations may be off, in unit roundoffs
  double lowest, domain;
};

constexpr int kMostSteps = 96;
/// Of them what is reduced and read.
constexpr int kMostReduced = 12;

KILN_DEVICE bool is_empty(const Interval& x) { return x.low > x.high; }
KILN_DEVICE bool contains(const Interval& x, double value) {
  return x.low <= value && value <= x.high;
}
KILN_DEVICE bool is_infinite(const Interval& x, const Precision& p) {
  return x.low == -p.infinity || x.high == p.infinity;
}
KILN_DEVICE bool is_finite(double x, const Precision& p) {
  return x > -p.infinity && x < p.infinity;
}
KILN_DEVICE Interval nothing(const Precision& p) { return {p.infinity, -p.infinity, true}; }
KILN_DEVICE Interval anything(const Precision& p) { return {-p.infinity, p.infinity, true}; }
KILN_DEVICE Interval exactly(double x, const Precision& p) {
  if (x != x) return nothing(p);
  return {x, x, false};
}
/// A value that is infinite or NaN is itself.
KILN_DEVICE Interval within(double value, double error, const Precision& p) {
  if (!is_finite(value, p)) return exactly(value, p);
  return {value - error, value + error, false};
}

/// Takes a number in; a NaN is one that may be met.
KILN_DEVICE void widen(Interval& x, double number) {
  if (number != number) {
    x.nan = true;
    return;
  }
  if (number < x.low) x.low = number;
  if (number > x.high) x.high = number;
}

/// What an implementation may make of a result: off by its roundoffs, denormal or beyond the type's
/// largest number. `argument` is the largest magnitude of the function's.
KILN_DEVICE Interval rounded(Interval x, const ExpressionStep& f, const Precision& p,
                             double argument) {
  if (is_empty(x) || f.exact) return x;
  const double share = f.roundoffs * p.roundoff, of_argument = f.of_argument * p.roundoff;
  // Where e^x or e^-x overflows, a denormal result is 0.
  const double near_zero = p.least + p.flushed + (f.exponential ? p.normal : 0) +
                           (of_argument == 0 ? 0 : of_argument * argument);
  if (is_finite(x.low, p)) x.low -= share * fabs(x.low) + near_zero;
  if (is_finite(x.high, p)) x.high += share * fabs(x.high) + near_zero;
  // The largest number may be rounded to infinity, and what is beyond it to the largest number.
  const double edge = p.largest * (1 - share - of_argument);
  if (x.high >= edge) x.high = p.infinity;
  if (x.low <= -edge) x.low = -p.infinity;
  if (x.low > p.largest && x.low < p.infinity) x.low = p.largest;
  if (x.high < -p.largest && x.high > -p.infinity) x.high = -p.largest;
  return x;
}

KILN_DEVICE Interval sum_of(const Interval& x, const Interval& y, const Precision& p) {
  const bool opposite = (contains(x, p.infinity) && contains(y, -p.infinity)) ||
                        (contains(x, -p.infinity) && contains(y, p.infinity));
  if (opposite && x.low == x.high && y.low == y.high) return nothing(p);
  Interval out = {x.low + y.low, x.high + y.high, x.nan || y.nan || opposite};
  // Ends that cancel: of what does not, any number is left.
  if (out.low != out.low) out.low = -p.infinity;
  if (out.high != out.high) out.high = p.infinity;
  return out;
}

KILN_DEVICE Interval product_of(const Interval& x, const Interval& y, const Precision& p) {
  const bool nan = x.nan || y.nan || (contains(x, 0) && is_infinite(y, p)) ||
                   (contains(y, 0) && is_infinite(x, p));
  const double ends[4] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
  if (x.low == x.high && y.low == y.high && ends[0] != ends[0]) return nothing(p);
  Interval out = nothing(p);
  // Zero times what is nearly infinite is zero.
  for (int i = 0; i < 4; ++i) widen(out, ends[i] == ends[i] ? ends[i] : 0);
  out.nan = nan;
  return out;
}

KILN_DEVICE Interval quotient_of(const Interval& x, const Interval& y, const Precision& p) {
  const bool single = x.low == x.high && y.low == y.high;
  if (contains(y, 0)) return single && x.low == 0 ? nothing(p) : anything(p);
  const double ends[4] = {x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high};
  if (single && ends[0] != ends[0]) return nothing(p);
  Interval out = nothing(p);
  for (int i = 0; i < 4; ++i) {
    if (ends[i] != ends[i]) return anything(p);
    widen(out, ends[i]);
  }
  out.nan = x.nan || y.nan || (is_infinite(x, p) && is_infinite(y, p));
  return out;
}

/// What a function makes of a NaN: one again, but where it is a cast to integers.
KILN_DEVICE Interval of_nan(const ExpressionStep& f, const Precision& p) {
  const double nan = p.infinity - p.infinity;
  return exactly(function_value(f.which, nan, nan, nan), p);
}
/// Of monotone functions and of valleys.
KILN_DEVICE Interval applied(const ExpressionStep& f, const Interval* of, const Precision& p) {
  bool nan = false;
  for (int i = 0; i < f.arity; ++i) {
    nan = nan || of[i].nan;
    if (is_empty(of[i])) return of_nan(f, p);
  }
  Interval first = of[0];
  if (first.low < f.domain) {
    if (first.high < f.domain) return nothing(p);
    nan = true;
    first.low = f.domain;
  }
  // The value of smooth ones at -infinity is not agreed on.
  if (f.course == course_valley && f.of_argument != 0 && first.low == -p.infinity)
    return anything(p);
  Interval out = nan ? of_nan(f, p) : nothing(p);
  out.nan = out.nan && nan;
  widen(out, function_value(f.which, first.low, of[1].low, of[2].low));
  widen(out, function_value(f.which, first.high, of[1].high, of[2].high));
  if (f.course == course_valley && contains(first, f.lowest))
    widen(out, function_value(f.which, f.lowest, 0, 0));
  return out;
}

/// Whether a comparison may hold: 1; whether it may not: 2.
KILN_DEVICE int truth_of(const ExpressionStep& f, const Interval& x, const Interval& y,
                         const Precision& p) {
  const auto side = [&](double a, double b) {
    return function_value(f.which, a, b, 0) != 0 ? 1 : 2;
  };
  int truth = 0;
  const double nan = p.infinity - p.infinity;
  if (x.nan || y.nan) truth |= side(nan, 0);
  if (is_empty(x) || is_empty(y)) return truth;
  truth |= side(x.low, y.low) | side(x.low, y.high) | side(x.high, y.low) | side(x.high, y.high);
  // The ends say how others compare, but not that two within are equal.
  const double shared = larger(x.low, y.low);
  if (shared <= smaller(x.high, y.high)) truth |= side(shared, shared);
  return truth;
}

KILN_DEVICE Interval chosen(int truth, const Interval& yes, const Interval& no,
                            const Precision& p) {
  Interval out = nothing(p);
  out.nan = false;
  for (int i = 0; i < 2; ++i) {
    if ((truth & (i + 1)) == 0) continue;
    const Interval& one = i == 0 ? yes : no;
    if (one.low < out.low) out.low = one.low;
    if (one.high > out.high) out.high = one.high;
    out.nan = out.nan || one.nan;
  }
  return out;
}

KILN_DEVICE Interval drawn(const ExpressionStep& f, const Interval* of, const Precision& p) {
  for (int i = 0; i < f.arity; ++i)
    if (of[i].nan || of[i].low != of[i].high || !is_counter(of[i].low)) return {0, 1, false};
  return exactly(function_value(f.which, of[0].low, of[1].low, of[2].low), p);
}

KILN_DEVICE Interval remainder_of(const ExpressionStep& f, const Interval* of, const Precision& p) {
  for (int i = 0; i < 2; ++i)
    if (of[i].nan || of[i].low != of[i].high || !is_counter(of[i].low)) return anything(p);
  if (of[1].low == 0) return anything(p);
  return exactly(function_value(f.which, of[0].low, of[1].low, 0), p);
}

KILN_DEVICE bool is_whole(const Interval& x) {
  return x.low == x.high && !x.nan && is_counter(fabs(x.low));
}
/// What additions and multiplications make of x and y. Whole numbers that fp32 has are not rounded.
KILN_DEVICE Interval rounded_once(const Interval& z, const Interval& x, const Interval& y,
                                  const ExpressionStep& f, const Precision& p) {
  return is_whole(x) && is_whole(y) && is_whole(z) ? z : rounded(z, f, p, 0);
}

KILN_DEVICE Interval called(const ExpressionStep& f, const Interval* of, int truth,
                            const Precision& p) {
  if (f.course == course_choice) return chosen(truth, of[1], of[2], p);
  if (f.course == course_drawn) return drawn(f, of, p);
  if (f.course == course_remainder) return remainder_of(f, of, p);
  const bool many = f.course >= course_sum && f.course <= course_quotient;
  for (int i = 0; many && i < f.arity; ++i)
    if (is_empty(of[i])) return nothing(p);
  const Interval& x = of[0];
  const Interval& y = of[1];
  switch (f.course) {
    case course_sum:
      return rounded_once(sum_of(x, y, p), x, y, f, p);
    case course_difference:
      return rounded_once(sum_of(x, {-y.high, -y.low, y.nan}, p), x, y, f, p);
    case course_product:
      return rounded_once(product_of(x, y, p), x, y, f, p);
    case course_quotient:
      return rounded(quotient_of(x, y, p), f, p, 0);
    default:
      return rounded(applied(f, of, p), f, p, larger(fabs(x.low), fabs(x.high)));
  }
}

/// The value of step `result`. `products`: the product's element, or those of a gate's two;
/// `operands`: of the element, in the order of the expression's; `reduced`: what the element's
/// lines are, in the order of the steps (null: it is not known).
KILN_DEVICE Interval expression_interval(const ExpressionStep* steps, int result,
                                         const Precision& p, const Interval (&products)[2],
                                         const double* operands, const Interval* reduced, double m,
                                         double n) {
  Interval x[kMostSteps];
  int truth[kMostSteps];
  int lines = 0;
  for (int i = 0; i <= result; ++i) {
    const ExpressionStep& step = steps[i];
    truth[i] = 0;
    if (step.op == op_acc) {
      x[i] = products[step.which == 2 ? 1 : 0];
    } else if (step.op == op_operand) {
      // Values of fp32 round what is loaded from fp64.
      ExpressionStep load = step;
      const double value = operands[step.which];
      load.exact = p.roundoff < 1e-10 || double(float(value)) == value;
      x[i] = rounded(exactly(value, p), load, p, 0);
    } else if (step.op == op_number) {
      x[i] = rounded(exactly(step.number, p), step, p, 0);
    } else if (step.op == op_index) {
      x[i] = exactly(step.which == 1 ? m : n, p);
    } else if (step.op == op_reduced) {
      x[i] = reduced == nullptr ? anything(p) : reduced[lines];
      ++lines;
    } else {
      Interval of[3] = {{0, 0, false}, {0, 0, false}, {0, 0, false}};
      for (int a = 0; a < step.arity; ++a) of[a] = x[step.of[a]];
      if (step.course == course_comparison)
        truth[i] = truth_of(step, of[0], of[1], p);
      else
        x[i] = called(step, of, truth[step.of[0]], p);
    }
  }
  return x[result];
}

// ---- cuda/check/reduced.h ----
// What a right kernel may make of many elements: their sum, the largest, the smallest, the
// logarithm of the sum of e^x. On a GPU and, by tuner/verify/interval.h, on the CPU: plain C++
// without headers. Expects intervals.h.

enum ExpressionReduction {
  reduce_none,
  reduce_sum,
  reduce_max,
  reduce_min,
  reduce_logsumexp,
  reduce_even,  // the one or the other of two neighbours: nothing is made of them
  reduce_odd
};

/// Of the elements that were taken in.
struct ReducedElements {
  int how;           // an ExpressionReduction
  double value;      // the sum; the largest, or the smallest
  double lost;       // what roundings took from the sum
  double total;      // logsumexp: of e^(x - value)
  double size;       // the sum of magnitudes; logsumexp: the largest one
  double error;      // the sum of what elements may be off; logsumexp: the most
  double low, high;  // max, min: the same of both bounds
  double count;
  bool nan, unsure, whole;  // one is NaN; of one anything is right; all are exact integers
};

KILN_DEVICE ReducedElements no_elements(int how, const Precision& p) {
  const double none = how == reduce_min ? p.infinity : how == reduce_sum ? 0 : -p.infinity;
  return {how, none, 0, 0, 0, 0, none, none, 0, false, false, true};
}

/// The largest of two, or the smallest.
KILN_DEVICE double taken_of(int how, double x, double y) {
  return how == reduce_min ? smaller(x, y) : larger(x, y);
}

KILN_DEVICE ReducedElements merged(const ReducedElements& x, const ReducedElements& y,
                                   const Precision& p) {
  ReducedElements z = x;
  z.count += y.count;
  z.nan = x.nan || y.nan, z.unsure = x.unsure || y.unsure, z.whole = x.whole && y.whole;
  if (x.how == reduce_sum) {
    // Equal terms drift one way when they are added in the precision that is judged.
    z.value = x.value + y.value;
    const double of_y = z.value - x.value;
    z.lost = x.lost + y.lost + ((x.value - (z.value - of_y)) + (y.value - of_y));
    z.size += y.size, z.error += y.error;
    return z;
  }
  z.value = taken_of(x.how, x.value, y.value);
  z.low = taken_of(x.how, x.low, y.low);
  z.high = taken_of(x.how, x.high, y.high);
  z.size = larger(x.size, y.size);
  z.error = larger(x.error, y.error);
  if (x.how == reduce_logsumexp && is_finite(z.value, p))
    z.total = x.total * (x.value == z.value ? 1 : exp(x.value - z.value)) +
              y.total * (y.value == z.value ? 1 : exp(y.value - z.value));
  return z;
}

/// One element more: `value`, which may be off by `error`. NaN is one; an infinite error says that
/// anything is right.
KILN_DEVICE void take_in(ReducedElements& all, double value, double error, const Precision& p) {
  ReducedElements one = no_elements(all.how, p);
  one.count = 1;
  if (!is_finite(error, p)) {
    one.unsure = true;
    one.value = value;
    one.total = 1;
  } else if (value != value) {
    one.nan = true;
  } else {
    one.value = value;
    one.total = 1;
    one.size = is_finite(value, p) ? fabs(value) : 0;
    one.error = error;
    one.low = error == 0 ? value : value - error;
    one.high = error == 0 ? value : value + error;
    one.whole = error == 0 && value == rint(value);
  }
  all = merged(all, one, p);
}

/// An expected value, and how far a right kernel's may be from it: as of an element. NaN is one;
/// an infinite error says that anything is right.
struct ExpectedReduction {
  double value, error;
};

KILN_DEVICE ExpectedReduction expected_in(const Interval& x, const Precision& p) {
  const bool exact = x.low == x.high;
  if (is_empty(x)) return {p.infinity - p.infinity, 0};
  if (x.nan || (!exact && is_infinite(x, p))) return {0, p.infinity};
  if (exact) return {x.low, 0};
  return {(x.low + x.high) / 2, (x.high - x.low) / 2};
}

/// The other way. What may be beyond the largest number may be infinite, or of infinities NaN.
KILN_DEVICE Interval interval_of(const ExpectedReduction& x, const Precision& p) {
  if (!is_finite(x.error, p)) return anything(p);
  if (x.error > 0 && fabs(x.value) + x.error > p.largest) return anything(p);
  return within(x.value, x.error, p);
}

/// What they become without errors.
KILN_DEVICE double center_of(const ReducedElements& all, const Precision& p) {
  if (!is_finite(all.value, p)) return all.value;
  if (all.how == reduce_sum) return all.value + all.lost;
  if (all.how != reduce_logsumexp) return all.value;
  return all.value + function_value(function_log, all.total, 0, 0);
}

/// Kernels add in chains of at most an eighth of the elements.
KILN_DEVICE ExpectedReduction expected_of(const ReducedElements& all, const Precision& p) {
  const double infinity = p.infinity;
  if (all.nan) return {infinity - infinity, 0};
  if (all.unsure) return {center_of(all, p), infinity};
  const double chain = (all.count / 8 + 32) * p.roundoff;
  if (all.how == reduce_sum) {
    if (!is_finite(all.value, p)) return {all.value, 0};
    if (all.size > p.largest / 2) return {all.value, infinity};
    const bool exact = all.whole && all.size * p.roundoff < 1;
    return {center_of(all, p), exact ? 0 : all.error + chain * all.size + p.flushed * all.count};
  }
  if (!is_finite(all.value, p)) return {all.value, 0};
  if (all.how != reduce_logsumexp)
    return {all.value, larger(all.high - all.value, all.value - all.low)};
  const double value = center_of(all, p);
  return {value, all.error + chain + p.roundoff * 8 * (2 + all.size + fabs(value))};
}

// ---- cuda/check/judge.cu ----
// Kernels that compare what another kernel left in D, and in the scales that follow from it, with
// products in higher precision. Expects check.cu.

/// What the comparison allows, worked out on the host: see tuner/verify/reference.cpp, whose rules
/// these are.
struct Allowance {
  double per_sum, per_step, per_residual;  // shares of magnitudes
  double unit, steepest, factor;           // of a smooth activation
  double per_gate;                         // of the product of a gate and what it lets through
  int bias, activation, residual, gate;    // kiln's Bias, Activation and Gate
  int interleaved;                         // columns of a gated product alternate
};

/// The only gate that is no activation.
constexpr int kSigmoid = 5;

KILN_DEVICE double activated(int f, double x) {
  switch (f) {
    case 1:
      return x < 0 ? 0 : x;
    case 2:
      return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case 3:
      return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case 4:
      return x / (1 + exp(-x));
    case kSigmoid:
      return 1 / (1 + exp(-x));
    default:
      return x;
  }
}

KILN_DEVICE void add_term(double term, double roundoff, double& value, double& error) {
  error += roundoff * (fabs(value) + fabs(term));
  value += term;
}

/// A function that gates and activations are, with what its approximation may be off.
KILN_DEVICE void apply(int f, const Allowance& allow, double& value, double& error) {
  if (f >= 2)
    error = allow.steepest * error + allow.factor * allow.unit * (f == kSigmoid ? 1 : fabs(value));
  value = activated(f, value);
}

/// alpha times a sum, plus beta times C (which no gated problem has), plus the bias of its column.
KILN_DEVICE void affine(const KilnGpuArgs& g, const Types& t, const Allowance& allow, double sum,
                        float magnitude, const void* c, i64 c_at, i64 row, i64 column,
                        double& value, double& error) {
  value = g.alpha * sum;
  error = allow.per_sum * double(magnitude) + allow.per_step * fabs(value);
  if (g.beta != 0) add_term(g.beta * load(c, t.d, c_at), allow.per_step, value, error);
  if (allow.bias != 0)
    add_term(load(g.bias, t.bias, allow.bias == 1 ? row : column), allow.per_step, value, error);
}

/// What a run left is compared with: products, and what C held before.
struct Known {
  const double* sums;
  const float* magnitudes;
  const void* c;
};

/// An element of D before it is rounded, and how far a right kernel may be off.
KILN_DEVICE void expect(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                        const Known& known, i64 batch, i64 row, i64 column, double& value,
                        double& error) {
  const i64 c_at = batch * g.stride_c + row * g.ldc + column;
  // Of the product's columns.
  const i64 first = allow.interleaved ? 2 * column : column;
  const i64 line = (batch * g.m + row) * (allow.gate != 0 ? 2 * g.n : g.n);
  affine(g, t, allow, known.sums[line + first], known.magnitudes[line + first], known.c, c_at, row,
         first, value, error);
  apply(allow.gate != 0 ? allow.gate : allow.activation, allow, value, error);
  if (allow.gate != 0) {
    const i64 second = allow.interleaved ? first + 1 : g.n + column;
    double other, off;
    affine(g, t, allow, known.sums[line + second], known.magnitudes[line + second], known.c, c_at,
           row, second, other, off);
    error = error * (fabs(other) + off) + fabs(value) * off;
    value *= other;
    error += allow.per_gate * fabs(value);
  }
  if (allow.residual)
    add_term(load(g.residual, t.d, batch * g.stride_d + row * g.ldd + column), allow.per_residual,
             value, error);
  if (!isfinite(error)) error = 0;
}

KILN_DEVICE float scale_of_d(const KilnGpuArgs& g, const Types& t, i64 batch, i64 row, i64 column) {
  const float* scales = (const float*)g.scale_d;
  if (t.d_scale == 1) return scales[batch];
  return scales[(batch * g.m + row) * ((g.n + t.d_along - 1) / t.d_along) + column / t.d_along];
}

/// Compares every element of D. `c` is what C held before the run. out[0] counts the wrong ones,
/// out[1] becomes the least index of one, as (batch*m + row)*n + column.
extern "C" __global__ void check_judge(const __grid_constant__ KilnGpuArgs g,
                                       const __grid_constant__ Types t,
                                       const __grid_constant__ Allowance allow, const double* sums,
                                       const float* magnitudes, const void* c, u64* out) {
  const i64 count = g.m * g.n * g.batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    double value, error;
    expect(g, t, allow, {sums, magnitudes, c}, batch, row, column, value, error);
    double low = value - error, high = value + error;
    if (t.d_scale != 0) {
      // As tuner/verify/quantised.cpp: rounding to fp32 keeps the order.
      const float inverse = 1.0f / scale_of_d(g, t, batch, row, column);
      low = float(low) * inverse;
      high = float(high) * inverse;
      value = float(value) * inverse;
    }
    const double got = load(g.d, t.d, batch * g.stride_d + row * g.ldd + column);
    const bool right =
        value != value ? (t.d == kS8 ? got == 0 : got != got)
                       : got == value || (got >= rounded(t.d, low) && got <= rounded(t.d, high));
    if (right) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// Adds the rows of one part to what D's rows, of the same n columns, should be, each with what it
/// may be off. `index`, `weights` (or null): of the part's first row. A thread has columns, so that
/// nothing need be atomic. A negative number names no row.
extern "C" __global__ void check_add_rows(const __grid_constant__ KilnGpuArgs g,
                                          const __grid_constant__ Types t,
                                          const __grid_constant__ Allowance allow,
                                          const double* sums, const float* magnitudes,
                                          const int* index, const float* weights, i64 rows_of_d,
                                          double* values, double* errors) {
  for (i64 column = blockIdx.x * i64(blockDim.x) + threadIdx.x; column < g.n;
       column += i64(gridDim.x) * blockDim.x)
    for (i64 row = 0; row < g.m; ++row) {
      if (index[row] < 0) continue;
      const i64 to = index[row] < rows_of_d ? index[row] : rows_of_d - 1, at = to * g.n + column;
      double value, error;
      expect(g, t, allow, {sums, magnitudes, nullptr}, 0, row, column, value, error);
      const double weight = weights == nullptr ? 1 : double(weights[row]);
      errors[at] += fabs(weight) * error;
      add_term(weight * value, 2 * allow.per_residual, values[at], errors[at]);
    }
}

/// Compares a D whose rows are such sums, and beta times what C held before. out[0] counts the
/// wrong elements, out[1] becomes the least index of one, as row*n + column.
extern "C" __global__ void check_judge_added(const __grid_constant__ KilnGpuArgs g,
                                             const __grid_constant__ Types t,
                                             const __grid_constant__ Allowance allow, i64 rows_of_d,
                                             int expressed, const double* values,
                                             const double* errors, const void* c, u64* out) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < rows_of_d * g.n;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 row = i / g.n, column = i % g.n;
    double value = values[i], error = errors[i];
    if (g.beta != 0)
      add_term(g.beta * load(c, t.d, row * g.ldc + column), 2 * allow.per_residual, value, error);
    // Of an expression anything may be right where the error is infinite.
    const bool anything = expressed && error == error && !isfinite(error);
    if (!isfinite(error)) error = 0;
    const double got = load(g.d, t.d, row * g.ldd + column);
    const bool right = anything         ? true
                       : value != value ? got != got
                                        : got == value || (got >= rounded(t.d, value - error) &&
                                                           got <= rounded(t.d, value + error));
    if (right) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// The same of scales that follow from D: out[1] is the least index of a scale.
extern "C" __global__ void check_scales(const __grid_constant__ KilnGpuArgs g,
                                        const __grid_constant__ Types t,
                                        const __grid_constant__ Allowance allow, const double* sums,
                                        const float* magnitudes, const void* c, u64* out) {
  const i64 blocks = (g.n + t.d_along - 1) / t.d_along, count = g.batch * g.m * blocks;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * blocks), row = i / blocks % g.m, first = i % blocks * t.d_along;
    float least = 0, most = 0;  // of the largest magnitude
    for (i64 column = first; column < g.n && column < first + t.d_along; ++column) {
      double value, error;
      expect(g, t, allow, {sums, magnitudes, c}, batch, row, column, value, error);
      const float low = float(fabs(value) - error), high = float(fabs(value) + error);
      if (low > least) least = low;
      if (high > most) most = high;
    }
    least /= t.d_largest;
    most /= t.d_largest;
    const float scale = scale_of_d(g, t, batch, row, first);
    const bool one = scale == 1.0f && least < 0x1p-126f;
    if (one || (scale >= 0x1p-126f && scale >= least && scale <= most)) continue;
    atomicAdd(&out[0], 1ull);
    atomicMin(&out[1], u64(i));
  }
}

/// A number that is not negative: its bits are ordered as such numbers are, NaN above all.
KILN_DEVICE u64 bits_of_magnitude(double x) {
  return u64(__double_as_longlong(x)) & 0x7fffffffffffffffull;
}

/// Between which numbers of fp32 the largest magnitude of D lies: out[0] becomes the bits of the
/// lower one, out[1] those of the upper.
extern "C" __global__ void check_amax(const __grid_constant__ KilnGpuArgs g,
                                      const __grid_constant__ Types t,
                                      const __grid_constant__ Allowance allow, const double* sums,
                                      const float* magnitudes, const void* c, u64* out) {
  const i64 count = g.m * g.n * g.batch;
  u64 least = 0, most = 0;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    double value, error;
    expect(g, t, allow, {sums, magnitudes, c}, batch, row, column, value, error);
    const double low = float(fabs(value) - error), high = float(fabs(value) + error);
    const u64 low_bits = low < 0 ? 0 : bits_of_magnitude(low), high_bits = bits_of_magnitude(high);
    if (low_bits > least) least = low_bits;
    if (high_bits > most) most = high_bits;
  }
  if (least > 0) atomicMax(&out[0], least);
  if (most > 0) atomicMax(&out[1], most);
}

// ---- cuda/check/judge_expression.cu ----
// Kernels that compare what another kernel left in D, and beside it, with what an expression makes
// of products in higher precision; what it reduces and reads itself is worked out before. Expects
// intervals.h, reduced.h and judge.cu.

/// Memory of an expression: how far apart its elements of neighbouring rows, columns and batches
/// are (0: all rows, or all columns, share one), and how many neighbouring rows and columns of D
/// share one.
struct Extra {
  const void* data;
  i64 row, column, batch;
  i64 type;
  i64 per_row, per_column;
};

/// What these kernels know of the expression, in the device's memory.
struct CheckedExpression {
  Precision precision;
  Extra extra[8];
  Extra reduced[kMostReduced];  // an Interval for each line and block that is reduced and read
  Extra stored;  // what is compared: D, or an output beside it; or what such intervals are put in
  i64 operands, lines, result, reduction;
  i64 puts;         // whether intervals are put, not compared
  i64 rows_before;  // that a D which groups share has before this product's
  ExpressionStep steps[kMostSteps];
};

KILN_DEVICE i64 place_in(const Extra& x, i64 batch, i64 row, i64 column) {
  // Few are shared, and a division of 64 bits is dear.
  if (x.per_row != 1) row /= x.per_row;
  if (x.per_column != 1) column /= x.per_column;
  return batch * x.batch + row * x.row + column * x.column;
}

/// Whether a row, or a column, is the first of those that share an element.
KILN_DEVICE bool is_first(i64 step, i64 per, i64 at) {
  return step == 0 ? at == 0 : per == 1 || at % per == 0;
}

/// What is stored of an element of D.
KILN_DEVICE Interval stored_of(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                               const Known& known, const CheckedExpression& e, i64 batch, i64 row,
                               i64 column) {
  const bool two = allow.gate != 0;
  const i64 line = (batch * g.m + row) * (two ? 2 * g.n : g.n);
  Interval products[2], reduced[kMostReduced];
  for (int p = 0; p < (two ? 2 : 1); ++p) {
    // Of the product's columns.
    const i64 at = !two ? column : allow.interleaved ? 2 * column + p : p * g.n + column;
    double value, error;
    affine(g, t, allow, known.sums[line + at], known.magnitudes[line + at], known.c,
           batch * g.stride_c + row * g.ldc + column, row, at, value, error);
    products[p] = within(value, error, e.precision);
  }
  double operands[8];
  for (int o = 0; o < e.operands; ++o)
    operands[o] =
        load(e.extra[o].data, int(e.extra[o].type), place_in(e.extra[o], batch, row, column));
  for (int r = 0; r < e.lines; ++r)
    reduced[r] = ((const Interval*)e.reduced[r].data)[place_in(e.reduced[r], batch, row, column)];
  return expression_interval(e.steps, int(e.result), e.precision, products, operands,
                             e.lines == 0 ? nullptr : reduced, double(e.rows_before + row),
                             double(column));
}

KILN_DEVICE void count_wrong(u64* out, i64 index) {
  atomicAdd(&out[0], 1ull);
  atomicMin(&out[1], u64(index));
}

/// As check_judge, of what is stored of each element of D, or of each line or block: by its first
/// element.
extern "C" __global__ void check_judge_expression(const __grid_constant__ KilnGpuArgs g,
                                                  const __grid_constant__ Types t,
                                                  const __grid_constant__ Allowance allow,
                                                  const double* sums, const float* magnitudes,
                                                  const void* c, u64* out,
                                                  const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  const int type = int(e.stored.type);
  const i64 count = g.m * g.n * g.batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (g.m * g.n), row = i / g.n % g.m, column = i % g.n;
    if (!is_first(e.stored.row, e.stored.per_row, row) ||
        !is_first(e.stored.column, e.stored.per_column, column))
      continue;
    const Interval all = stored_of(g, t, allow, {sums, magnitudes, c}, e, batch, row, column);
    const double got = load(e.stored.data, type, place_in(e.stored, batch, row, column));
    // Integers have no NaN: what becomes of one is 0.
    const bool nan = type == kS8 || type == kU8 || type == kS32 ? got == 0 : got != got;
    const bool right = (all.nan && nan) || (!is_empty(all) && got >= rounded(type, all.low) &&
                                            got <= rounded(type, all.high));
    if (!right) count_wrong(out, i);
  }
}

KILN_DEVICE bool is_right(const ExpectedReduction& want, int type, double got, const Precision& p) {
  if (!is_finite(want.error, p)) return true;
  if (want.value != want.value) return got != got;
  return got == want.value || (got >= rounded(type, want.value - want.error) &&
                               got <= rounded(type, want.value + want.error));
}

/// The same of what is made of rows, of columns or of all elements, by a block each: out[1] is the
/// least index of a line's first element. Or puts it where check_judge_expression reads it.
extern "C" __global__ void check_reduction(const __grid_constant__ KilnGpuArgs g,
                                           const __grid_constant__ Types t,
                                           const __grid_constant__ Allowance allow,
                                           const double* sums, const float* magnitudes,
                                           const void* c, u64* out,
                                           const CheckedExpression* expression) {
  __shared__ ReducedElements of_thread[kCheckThreads];
  const CheckedExpression& e = *expression;
  const Precision& p = e.precision;
  // Along which indices of D a line runs.
  const i64 rows = e.stored.row == 0 ? g.m : 1, columns = e.stored.column == 0 ? g.n : 1;
  const i64 lines_of_rows = g.m / rows, lines_of_columns = g.n / columns;
  for (i64 i = blockIdx.x; i < g.batch * lines_of_rows * lines_of_columns; i += gridDim.x) {
    const i64 batch = i / (lines_of_rows * lines_of_columns);
    const i64 row0 = i / lines_of_columns % lines_of_rows, column0 = i % lines_of_columns;
    ReducedElements all = no_elements(int(e.reduction), p);
    for (i64 j = threadIdx.x; j < rows * columns; j += blockDim.x) {
      const Interval one = stored_of(g, t, allow, {sums, magnitudes, c}, e, batch,
                                     row0 + j / columns, column0 + j % columns);
      const ExpectedReduction expected = expected_in(one, p);
      take_in(all, expected.value, expected.error, p);
    }
    of_thread[threadIdx.x] = all;
    __syncthreads();
    for (unsigned apart = kCheckThreads / 2; apart > 0; apart /= 2) {
      if (threadIdx.x < apart)
        of_thread[threadIdx.x] = merged(of_thread[threadIdx.x], of_thread[threadIdx.x + apart], p);
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      const ExpectedReduction want = expected_of(of_thread[0], p);
      const i64 at = place_in(e.stored, batch, row0, column0);
      if (e.puts != 0)
        ((Interval*)e.stored.data)[at] = interval_of(want, p);
      else if (!is_right(want, int(e.stored.type), load(e.stored.data, int(e.stored.type), at), p))
        count_wrong(out, (batch * g.m + row0) * g.n + column0);
    }
    __syncthreads();
  }
}

/// What a right kernel may make of one block, whose first element this is: of `rows` × `columns`
/// elements, which are fewer at D's edge.
KILN_DEVICE Interval block_of(const KilnGpuArgs& g, const Types& t, const Allowance& allow,
                              const Known& known, const CheckedExpression& e, i64 batch, i64 row0,
                              i64 column0, i64 rows, i64 columns) {
  const int how = int(e.reduction);
  const auto element = [&](i64 i) {
    return stored_of(g, t, allow, known, e, batch, row0 + i / columns, column0 + i % columns);
  };
  // One of two neighbours is as it is; without the odd one, the even one.
  if (how == reduce_even || how == reduce_odd)
    return element(how == reduce_odd && rows * columns > 1 ? 1 : 0);
  ReducedElements all = no_elements(how, e.precision);
  for (i64 i = 0; i < rows * columns; ++i) {
    const ExpectedReduction one = expected_in(element(i), e.precision);
    take_in(all, one.value, one.error, e.precision);
  }
  return interval_of(expected_of(all, e.precision), e.precision);
}

/// Puts what is made of blocks, of so few elements that a thread takes in all of them, where
/// check_judge_expression reads it.
extern "C" __global__ void check_put_blocks(const __grid_constant__ KilnGpuArgs g,
                                            const __grid_constant__ Types t,
                                            const __grid_constant__ Allowance allow,
                                            const double* sums, const float* magnitudes,
                                            const void* c, u64*,
                                            const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  const i64 per_row = e.stored.per_row, per_column = e.stored.per_column;
  const i64 lines = (g.m + per_row - 1) / per_row, blocks = (g.n + per_column - 1) / per_column;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < g.batch * lines * blocks;
       i += i64(gridDim.x) * blockDim.x) {
    const i64 batch = i / (lines * blocks);
    const i64 row0 = i / blocks % lines * per_row, column0 = i % blocks * per_column;
    const i64 rows = g.m - row0 < per_row ? g.m - row0 : per_row;
    const i64 columns = g.n - column0 < per_column ? g.n - column0 : per_column;
    ((Interval*)e.stored.data)[place_in(e.stored, batch, row0, column0)] =
        block_of(g, t, allow, {sums, magnitudes, c}, e, batch, row0, column0, rows, columns);
  }
}

/// check_add_rows() of what an expression makes of each element.
extern "C" __global__ void check_add_expressed(const __grid_constant__ KilnGpuArgs g,
                                               const __grid_constant__ Types t,
                                               const __grid_constant__ Allowance allow,
                                               const double* sums, const float* magnitudes,
                                               const int* index, const float* weights,
                                               i64 rows_of_d, double* values, double* errors,
                                               const CheckedExpression* expression) {
  const CheckedExpression& e = *expression;
  for (i64 column = blockIdx.x * i64(blockDim.x) + threadIdx.x; column < g.n;
       column += i64(gridDim.x) * blockDim.x)
    for (i64 row = 0; row < g.m; ++row) {
      if (index[row] < 0) continue;
      const i64 to = index[row] < rows_of_d ? index[row] : rows_of_d - 1, at = to * g.n + column;
      const Interval all = stored_of(g, t, allow, {sums, magnitudes, nullptr}, e, 0, row, column);
      const ExpectedReduction one = expected_in(all, e.precision);
      const double weight = weights == nullptr ? 1 : double(weights[row]);
      errors[at] += fabs(weight) * one.error;
      add_term(weight * one.value, 2 * allow.per_residual, values[at], errors[at]);
    }
}
