#include "hooks/cublas/call.h"

#include <cuda_fp16.h>

#include <cstring>

namespace kiln::hooks {
namespace {

std::optional<DType> type_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return fp32;
    case CUDA_R_64F:
      return fp64;
    case CUDA_R_16F:
      return fp16;
    case CUDA_R_16BF:
      return bf16;
    case CUDA_R_8I:
      return s8;
    case CUDA_R_32I:
      return s32;
    case CUDA_R_8F_E4M3:
      return fp8_e4m3;
    case CUDA_R_8F_E5M2:
      return fp8_e5m2;
    default:
      return std::nullopt;
  }
}

/// How products are computed: in which type they are added, whether fp32 inputs may be read as
/// tf32, and the type of alpha and beta.
struct Computation {
  DType accumulator;
  bool tf32 = false;
  cudaDataType_t scale;
};

/// Pedantic and emulated modes are the library's: they promise how it computes. fp16 products that
/// may be added in fp16 are added in fp32.
std::optional<Computation> computation_of(cublasComputeType_t type, bool tf32_allowed) {
  switch (type) {
    case CUBLAS_COMPUTE_16F:
      return Computation{fp32, false, CUDA_R_16F};
    case CUBLAS_COMPUTE_32F:
      return Computation{fp32, tf32_allowed, CUDA_R_32F};
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return Computation{fp32, true, CUDA_R_32F};
    case CUBLAS_COMPUTE_64F:
      return Computation{fp64, false, CUDA_R_64F};
    case CUBLAS_COMPUTE_32I:
      return Computation{s32, false, CUDA_R_32I};
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(const void* at, cudaDataType_t type) {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case CUDA_R_16F:
      return __half2float(read(__half{}));
    case CUDA_R_32F:
      return read(float{});
    case CUDA_R_64F:
      return read(double{});
    case CUDA_R_32I:
      return read(std::int32_t{});
    default:
      return std::nullopt;
  }
}

/// Real matrices: the conjugate transpose is the transpose.
std::optional<bool> is_transposed(cublasOperation_t operation) {
  switch (operation) {
    case CUBLAS_OP_N:
      return false;
    case CUBLAS_OP_T:
    case CUBLAS_OP_C:
      return true;
    default:
      return std::nullopt;
  }
}

/// The element type of an input, where it is one of kiln's for this computation.
std::optional<DType> input_type(cudaDataType_t type, const Computation& computation) {
  const auto known = type_of(type);
  return known == fp32 && computation.tf32 ? std::optional(tf32) : known;
}

/// A problem that promises no alignment is bound for addresses that are multiples of 16; for others
/// their alignment is said.
bool state_alignment(Call& call) {
  const Operands& o = call.operands;
  std::uintptr_t all = 16;
  for (const void* pointer : {o.a, o.b, o.c, static_cast<const void*>(o.d), o.bias})
    all |= reinterpret_cast<std::uintptr_t>(pointer);
  // Of scales the same holds for those of blocks.
  for (const auto& [kind, pointer] :
       {std::pair{call.gemm.a.q.scale, o.scale_a}, {call.gemm.b.q.scale, o.scale_b}})
    if (kind == Scale::line_128 || kind == Scale::square_128)
      all |= reinterpret_cast<std::uintptr_t>(pointer);
  if (all % 16 == 0) return true;
  call.gemm.alignment = static_cast<int>(all & (~all + 1));
  return call.gemm.alignment > 1;
}

/// Without alpha neither A nor B is read, whatever they hold. A pitch or stride of 0, one matrix
/// for all batches, means a tight one to kiln.
bool can_be_said(const Call& call) {
  const Gemm& g = call.gemm;
  for (const Matrix* m : g.matrices())
    if (m->ld <= 0 || (g.batch > 1 && m->batch_stride <= 0)) return false;
  return g.m > 0 && g.n > 0 && g.k > 0 && g.batch > 0 && call.operands.alpha != 0;
}

template <typename Value>
std::optional<Value> attribute_of(cublasLtMatmulDesc_t from, cublasLtMatmulDescAttributes_t which) {
  Value value{};
  std::size_t written = 0;
  if (lt_getters().matmul(from, which, &value, sizeof value, &written) != CUBLAS_STATUS_SUCCESS)
    return std::nullopt;
  return value;
}

template <typename Value>
bool read(cublasLtMatrixLayout_t from, cublasLtMatrixLayoutAttribute_t which, Value& value) {
  std::size_t written = 0;
  return lt_getters().layout(from, which, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
}

/// One that an older library does not know has its default there.
template <typename Value>
bool is(cublasLtMatmulDesc_t from, cublasLtMatmulDescAttributes_t which, Value wanted) {
  return attribute_of<Value>(from, which).value_or(wanted) == wanted;
}

/// Attributes that not every version's header names: counters of the parts of D, by which the call
/// waits for another or another for it (12.2 to 12.9), scales of D's blocks that the call writes
/// (12.8), and a description of emulation (13.0).
constexpr auto kCountersIn = static_cast<cublasLtMatmulDescAttributes_t>(29),
               kCountersOut = static_cast<cublasLtMatmulDescAttributes_t>(30),
               kScalesOfD = static_cast<cublasLtMatmulDescAttributes_t>(36),
               kEmulation = static_cast<cublasLtMatmulDescAttributes_t>(38);

/// What kiln does not compute: scales of C and D, amax, a part of D, another number of
/// multiprocessors, …
bool is_plain(cublasLtMatmulDesc_t d) {
  for (const auto pointer :
       {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, kCountersIn, kCountersOut, kScalesOfD, kEmulation})
    if (!is<const void*>(d, pointer, nullptr)) return false;
  return is<std::int32_t>(d, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST) &&
         is<std::int32_t>(d, CUBLASLT_MATMUL_DESC_TRANSC, CUBLAS_OP_N) &&
         is<std::int32_t>(d, CUBLASLT_MATMUL_DESC_FILL_MODE, CUBLAS_FILL_MODE_FULL) &&
         is<std::int32_t>(d, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 0);
}

/// Where an operand's scales go in a call.
struct Scales {
  Scale& kind;
  ScaleOrder& order;
  const void*& pointer;
  std::int64_t lines;  // of the operand
  bool along_k;        // its elements along k are adjacent
};

bool has_lines_in_memory(const Matrix& m, Order order) {
  return (m.order == order) != m.transposed;
}

/// One scale for an operand, or one for each of its lines; those of blocks where they lie as one of
/// kiln's orders has them: of lines block by block, of squares row by row, in fours.
bool set_scale(std::int64_t k, cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t pointer,
               cublasLtMatmulDescAttributes_t mode, const Scales& scales) {
  const void*& to = scales.pointer;
  Scale& kind = scales.kind;
  to = attribute_of<const void*>(d, pointer).value_or(nullptr);
  if (to == nullptr) return true;
  switch (attribute_of<std::int32_t>(d, mode).value_or(CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F:
      kind = Scale::tensor;
      return true;
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
      kind = Scale::line;
      return true;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      kind = Scale::line_128;
      scales.order = ScaleOrder::blocks_4;
      return scales.along_k && scales.lines % 4 == 0;
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      kind = Scale::square_128;
      return scales.along_k && (k + 127) / 128 % 4 == 0;
    default:
      return false;
  }
}

/// Of the types that type_of() knows, kiln scales 8-bit floats alone. The library has one scale for
/// all products of a batch, kiln one for each.
bool set_scales(Call& call, cublasLtMatmulDesc_t d) {
  Gemm& g = call.gemm;
  const auto may_have = [&g](const Matrix& m, Scale scale) {
    return scale == Scale::none || (g.batch == 1 && is_floating(m.dtype) && bits_of(m.dtype) == 8);
  };
  Operands& o = call.operands;
  const Scales of_a{g.a.q.scale, g.a.q.order, o.scale_a, g.m,
                    has_lines_in_memory(g.a, Order::row_major)};
  const Scales of_b{g.b.q.scale, g.b.q.order, o.scale_b, g.n,
                    has_lines_in_memory(g.b, Order::column_major)};
  return set_scale(g.k, d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                   of_a) &&
         set_scale(g.k, d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
                   of_b) &&
         may_have(g.a, g.a.q.scale) && may_have(g.b, g.b.q.scale);
}

constexpr std::int32_t kUsualBias = -1;  // that of D, but for 8-bit floats

/// False for a type that kiln's bias has not.
bool set_bias_type(Gemm& g, std::int32_t type) {
  const DType of_d = g.d.dtype, wide = of_d == fp64 ? fp64 : fp32;
  const auto named = type == kUsualBias ? of_d : type_of(static_cast<cudaDataType_t>(type));
  if (named == wide) return true;
  g.epilogue.bias_as_d = named == of_d && (of_d == fp16 || of_d == bf16);
  return g.epilogue.bias_as_d;
}

/// cuBLASLt's GELU is the one by tanh.
bool set_epilogue(Call& call, cublasLtMatmulDesc_t d) {
  Epilogue& epilogue = call.gemm.epilogue;
  bool bias = false;
  switch (attribute_of<std::int32_t>(d, CUBLASLT_MATMUL_DESC_EPILOGUE)
              .value_or(CUBLASLT_EPILOGUE_DEFAULT)) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      break;
    case CUBLASLT_EPILOGUE_BIAS:
      bias = true;
      break;
    case CUBLASLT_EPILOGUE_RELU:
      epilogue.activation = Activation::relu;
      break;
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      epilogue.activation = Activation::relu, bias = true;
      break;
    case CUBLASLT_EPILOGUE_GELU:
      epilogue.activation = Activation::gelu_tanh;
      break;
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      epilogue.activation = Activation::gelu_tanh, bias = true;
      break;
    default:
      return false;
  }
  if (!bias) return true;
  if (!is<std::int64_t>(d, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 0) || call.gemm.batch > 1)
    return false;
  if (!set_bias_type(
          call.gemm,
          attribute_of<std::int32_t>(d, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE).value_or(kUsualBias)))
    return false;
  epilogue.bias = Bias::per_row;
  call.operands.bias =
      attribute_of<const void*>(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER).value_or(nullptr);
  return call.operands.bias != nullptr;
}

/// A matrix as cuBLASLt describes it.
struct Stored {
  cudaDataType_t type{};
  std::int32_t order = 0, batch = 1;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0, stride = 0;
};

std::optional<Stored> stored_as(cublasLtMatrixLayout_t layout) {
  Stored s;
  std::uint32_t type = 0;
  const bool good = read(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, type) &&
                    read(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, s.order) &&
                    read(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, s.rows) &&
                    read(layout, CUBLASLT_MATRIX_LAYOUT_COLS, s.columns) &&
                    read(layout, CUBLASLT_MATRIX_LAYOUT_LD, s.ld) &&
                    read(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, s.batch) &&
                    read(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, s.stride);
  s.type = static_cast<cudaDataType_t>(type);
  if (!good || (s.order != CUBLASLT_ORDER_COL && s.order != CUBLASLT_ORDER_ROW))
    return std::nullopt;
  // Batches as lists of pointers; unknown to libraries before 13.0.
  std::int32_t mode = 0;
  if (read(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, mode) && mode != 0) return std::nullopt;
  return s;
}

Matrix matrix_of(const Stored& s, DType type, bool transposed) {
  return {.dtype = type,
          .order = s.order == CUBLASLT_ORDER_ROW ? Order::row_major : Order::column_major,
          .transposed = transposed,
          .ld = s.ld,
          .batch_stride = s.batch > 1 ? s.stride : 0};
}

/// Sizes, types and layouts. False: kiln has no such product.
bool set_matrices(Gemm& g, const LtCall& call, const Computation& computation) {
  const auto a = stored_as(call.layout_a), b = stored_as(call.layout_b),
             c = stored_as(call.layout_c), d = stored_as(call.layout_d);
  if (!a || !b || !c || !d || a->batch != d->batch || b->batch != d->batch || c->batch != d->batch)
    return false;
  const auto operation = [&](cublasLtMatmulDescAttributes_t which) {
    return is_transposed(static_cast<cublasOperation_t>(
        attribute_of<std::int32_t>(call.description, which).value_or(CUBLAS_OP_N)));
  };
  const auto ta = operation(CUBLASLT_MATMUL_DESC_TRANSA);
  const auto tb = operation(CUBLASLT_MATMUL_DESC_TRANSB);
  const auto type_a = input_type(a->type, computation), type_b = input_type(b->type, computation);
  const auto type_c = type_of(c->type), type_d = type_of(d->type);
  if (!ta || !tb || !type_a || !type_b || !type_d || type_c != type_d) return false;
  g.m = static_cast<std::int64_t>(d->rows), g.n = static_cast<std::int64_t>(d->columns);
  g.k = static_cast<std::int64_t>(*ta ? a->rows : a->columns);
  const auto b_rows = *tb ? b->columns : b->rows, b_columns = *tb ? b->rows : b->columns;
  const auto a_rows = *ta ? a->columns : a->rows;
  if (a_rows != d->rows || b_rows != static_cast<std::uint64_t>(g.k) || b_columns != d->columns ||
      c->rows != d->rows || c->columns != d->columns)
    return false;
  g.batch = d->batch;
  g.a = {matrix_of(*a, *type_a, *ta), {}}, g.b = {matrix_of(*b, *type_b, *tb), {}};
  g.c = matrix_of(*c, *type_c, false), g.d = {matrix_of(*d, *type_d, false), {}};
  return true;
}

}  // namespace

std::optional<Call> read_call(const CublasCall& from, cublasMath_t math_mode) {
  // The flag about reductions is kept: kiln's partial sums are fp32.
  const int mode = math_mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  const bool tf32_allowed = mode == CUBLAS_TF32_TENSOR_OP_MATH;
  if (mode != CUBLAS_DEFAULT_MATH && mode != CUBLAS_TENSOR_OP_MATH && !tf32_allowed)
    return std::nullopt;
  const auto computation = computation_of(from.compute, tf32_allowed);
  const auto ta = is_transposed(from.transpose_a), tb = is_transposed(from.transpose_b);
  if (!computation || !ta || !tb || from.alpha == nullptr || from.beta == nullptr)
    return std::nullopt;
  const auto type_a = input_type(from.type_a, *computation);
  const auto type_b = input_type(from.type_b, *computation), type_c = type_of(from.type_c);
  const auto alpha = number_at(from.alpha, computation->scale);
  const auto beta = number_at(from.beta, computation->scale);
  if (!type_a || !type_b || !type_c || !alpha || !beta) return std::nullopt;
  const bool batched = from.batch > 1;
  const auto matrix = [&](DType type, bool transposed, std::int64_t ld, std::int64_t stride) {
    return Matrix{type, Order::column_major, transposed, ld, batched ? stride : 0};
  };
  Call call;
  Gemm& g = call.gemm;
  g.m = from.m, g.n = from.n, g.k = from.k, g.batch = from.batch;
  g.a = {matrix(*type_a, *ta, from.lda, from.stride_a), {}};
  g.b = {matrix(*type_b, *tb, from.ldb, from.stride_b), {}};
  g.c = matrix(*type_c, false, from.ldc, from.stride_c);
  g.d = {g.c, {}};
  g.accumulator = computation->accumulator;
  call.operands = {.a = from.a, .b = from.b, .c = from.c, .d = from.c};
  call.operands.alpha = *alpha, call.operands.beta = *beta;
  return can_be_said(call) && state_alignment(call) ? std::optional(call) : std::nullopt;
}

std::optional<Call> read_call(const LtCall& from) {
  for (const void* given :
       {from.alpha, from.beta, static_cast<const void*>(from.description),
        static_cast<const void*>(from.layout_a), static_cast<const void*>(from.layout_b),
        static_cast<const void*>(from.layout_c), static_cast<const void*>(from.layout_d)})
    if (given == nullptr) return std::nullopt;
  if (!is_plain(from.description)) return std::nullopt;
  const auto compute =
      attribute_of<std::int32_t>(from.description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  const auto scale = attribute_of<std::int32_t>(from.description, CUBLASLT_MATMUL_DESC_SCALE_TYPE);
  if (!compute || !scale) return std::nullopt;
  const auto computation =
      computation_of(static_cast<cublasComputeType_t>(*compute), /*tf32_allowed=*/false);
  if (!computation) return std::nullopt;
  Call call;
  call.gemm.accumulator = computation->accumulator;
  if (!set_matrices(call.gemm, from, *computation) || !set_epilogue(call, from.description) ||
      !set_scales(call, from.description))
    return std::nullopt;
  const Gemm fast = call.gemm.with_numerics(Numerics::fast);
  if (attribute_of<std::int8_t>(from.description, CUBLASLT_MATMUL_DESC_FAST_ACCUM).value_or(0) !=
          0 &&
      validate(fast))
    call.gemm = fast;  // other types know no difference
  const auto alpha = number_at(from.alpha, static_cast<cudaDataType_t>(*scale));
  const auto beta = number_at(from.beta, static_cast<cudaDataType_t>(*scale));
  if (!alpha || !beta) return std::nullopt;
  Operands& o = call.operands;
  o.a = from.a, o.b = from.b, o.c = from.c, o.d = from.d, o.alpha = *alpha, o.beta = *beta;
  return can_be_said(call) && state_alignment(call) ? std::optional(call) : std::nullopt;
}

}  // namespace kiln::hooks
