// Kernels that check other kernels: seeded data and a plainly right product in higher precision;
// judge.cu compares. Slow and simple; element types are run-time codes, so that one compile serves
// every problem. Expects types.h, on an NVIDIA GPU convert_ptx.h, on an AMD GPU hip/check/device.h,
// which gives CUDA's words their meaning there. Works on the canonical form of abi.h.
#pragma once

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
