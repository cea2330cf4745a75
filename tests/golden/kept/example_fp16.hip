// Written by kiln 0.3.0.
// device:  gfx942
// example: v_mfma_f32_16x16x16_f16 on fp16
// compile: clang++ -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib --offload-arch=gfx942 -std=c++17 -O3 kiln_mfma_fp16_16x16x16.hip -o kernel.hsaco

// ---- cuda/common/abi.h ----
// The contract between a generated GPU kernel and whoever launches it: plain C, no headers, so that
// a generated source stays self-contained (this file is pasted into it).

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements. The
/// first parameter of every kernel, by value; tensor maps follow it in the order of GpuLaunch.
struct KilnGpuArgs {
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  void* workspace;       // 256-byte aligned
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- hip/common/types.h ----
// Names of the element types and the marks of device functions. Attributes instead of the vendor's
// macros, so that Clang alone, without any header, takes the text as hipRTC and hipcc do.

#define KILN_DEVICE static inline __attribute__((device, always_inline))
#define KILN_MEMBER inline __attribute__((device, always_inline))
#define KILN_SHARED static __attribute__((shared))
#define KILN_KERNEL(threads, waves)                              \
  extern "C" __attribute__((global))                             \
  __attribute__((amdgpu_flat_work_group_size(threads, threads))) \
  __attribute__((amdgpu_waves_per_eu(waves))) void
#define KILN_UNROLL _Pragma("unroll")

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

template <typename T, int N>
using Vector = T __attribute__((ext_vector_type(N)));
using U32x4 = u32 __attribute__((ext_vector_type(4)));
using U32x2 = u32 __attribute__((ext_vector_type(2)));
using I32x4 = i32 __attribute__((ext_vector_type(4)));

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
/// Eight bits: sign, exponent, mantissa. Without −0, infinity and all NaNs but one ("fnuz") the
/// exponent's bias is one more.
template <int Mantissa, bool Fnuz>
struct Float8 {
  u8 bits;
};

template <typename To, typename From>
KILN_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bits are neither added nor lost");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- parameters ----
using Operand = Vector<_Float16, 4>;  // a lane's part of A or of B
constexpr int kRows = 16;             // of A; columns of B
constexpr int kDepth = 16;            // elements along k
constexpr int kSums = 4;              // of a lane
constexpr int kLineBytes = 32;        // of a row of A, of a column of B
constexpr int kLaneBytes = 8;         // of a lane's part
#define KILN_MFMA mfma_f32_16x16x16_f16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x16f16

// ---- hip/examples/example.hip ----
// One wave, one matrix instruction: D = A · B. A has kRows rows of kDepth elements, B as many
// columns, so that k runs along both; D is fp32, row by row. Expects abi.h, types.h.

using Sums = Vector<float, kSums>;
constexpr u32 kGroups = 64 / kRows;  // lanes that share a row of A, a column of B

KILN_DEVICE u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }

/// The instruction, under its own name.
KILN_DEVICE Sums KILN_MFMA(Operand a, Operand b, Sums sums) {
  return KILN_MFMA_BUILTIN(a, b, sums, 0, 0, 0);
}

/// What a lane brings of A or of B: part of the k of one row or column.
KILN_DEVICE Operand fragment(const void* matrix, u32 lane) {
  const u8* line = static_cast<const u8*>(matrix) + lane % kRows * kLineBytes;
  const u32 group = lane / kRows;
  Operand operand{};
  __builtin_memcpy(&operand, line + group * kLaneBytes, kLaneBytes);
  return operand;
}

KILN_KERNEL(64, 1) kiln_gemm(KilnGpuArgs args) {
  const u32 lane = thread_index();
  const Operand a = fragment(args.a, lane), b = fragment(args.b, lane);
  const Sums sums = KILN_MFMA(a, b, Sums(0));
  // A lane has one column, four neighbouring rows at a time.
  float* d = static_cast<float*>(args.d);
  KILN_UNROLL for (u32 i = 0; i < kSums; ++i) {
    const u32 row = i / 4 * (4 * kGroups) + lane / kRows * 4 + i % 4;
    d[row * kRows + lane % kRows] = sums[i];
  }
}
