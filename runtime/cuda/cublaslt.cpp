#include "runtime/cuda/cublaslt.h"

#include <fmt/format.h>

#include <array>
#include <mutex>
#include <optional>

#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "runtime/env.h"
#include "runtime/gpu/shared_library.h"

namespace kiln::cuda {
namespace {

using Handle = struct LtHandle*;
using Description = struct LtMatmulDesc*;
using Layout = struct LtLayout*;
using Preference = struct LtPreference*;

/// cublasLtMatmulAlgo_t, opaque.
struct Algorithm {
  std::uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct Choice {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// Attribute numbers of cublasLt.h.
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBias = 8,
              kDescFastAccum = 25, kDescBiasType = 26;
// Of our A and B, which are its right and left operands.
constexpr int kDescScalePointerA = 18, kDescScalePointerB = 17, kDescScaleModeA = 32,
              kDescScaleModeB = 31;
constexpr std::int32_t kScaleScalar = 0, kScaleOuterVector = 3, kScaleVector128 = 4,
                       kScaleBlock128 = 5;
// cublasLtEpilogue_t: a sum of these.
constexpr std::int32_t kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32;
constexpr int kLayoutBatch = 5, kLayoutStride = 6;
constexpr int kPreferenceWorkspace = 1;
constexpr int kPreferenceAlignments[] = {5, 6, 7, 8};  // of A, B, C, D
constexpr std::int32_t kOpN = 0, kOpT = 1;
// cudaDataType_t and cublasComputeType_t.
constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kR8E4M3 = 28,
              kR8E5M2 = 29;
constexpr int kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kComputeTf32 = 77;

struct Library {
  int (*cublasLtCreate)(Handle*);
  std::size_t (*cublasLtGetVersion)();
  const char* (*cublasLtGetStatusString)(int);
  int (*cublasLtMatmulDescCreate)(Description*, int compute, int scale);
  int (*cublasLtMatmulDescDestroy)(Description);
  int (*cublasLtMatmulDescSetAttribute)(Description, int, const void*, std::size_t);
  int (*cublasLtMatrixLayoutCreate)(Layout*, int type, std::uint64_t rows, std::uint64_t columns,
                                    std::int64_t ld);
  int (*cublasLtMatrixLayoutDestroy)(Layout);
  int (*cublasLtMatrixLayoutSetAttribute)(Layout, int, const void*, std::size_t);
  int (*cublasLtMatmulPreferenceCreate)(Preference*);
  int (*cublasLtMatmulPreferenceDestroy)(Preference);
  int (*cublasLtMatmulPreferenceSetAttribute)(Preference, int, const void*, std::size_t);
  int (*cublasLtMatmulAlgoGetHeuristic)(Handle, Description, Layout a, Layout b, Layout c, Layout d,
                                        Preference, int wanted, Choice*, int* found);
  int (*cublasLtMatmul)(Handle, Description, const void* alpha, const void* a, Layout,
                        const void* b, Layout, const void* beta, const void* c, Layout, void* d,
                        Layout, const Algorithm*, void* workspace, std::size_t bytes, gpu::Stream);
};

/// The one that is named, else one that this process has loaded already, else the installed one.
Result<Library> open_library() {
  auto names = gpu::toolkit_names({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (const char* named = env("KILN_CUBLASLT"); named != nullptr && *named != '\0')
    names.insert(names.begin(), named);
  const auto library = gpu::SharedLibrary::open(names);
  if (!library) return fail(ErrorCode::unsupported, "no cuBLASLt: " + library.error().message);
  Library l{};
  std::string missing;
  const auto load = [&](auto& function, const char* symbol) {
    if (!library->load(function, symbol)) missing = symbol;
  };
  load(l.cublasLtCreate, "cublasLtCreate");
  load(l.cublasLtGetVersion, "cublasLtGetVersion");
  load(l.cublasLtGetStatusString, "cublasLtGetStatusString");
  load(l.cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate");
  load(l.cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy");
  load(l.cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  load(l.cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  load(l.cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
  load(l.cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
  load(l.cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
  load(l.cublasLtMatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
  load(l.cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  load(l.cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  load(l.cublasLtMatmul, "cublasLtMatmul");
  if (!missing.empty())
    return fail(ErrorCode::unsupported, fmt::format("{} has no {}", library->name(), missing));
  return l;
}

const Result<Library>& library() {
  static const auto& opened = *new Result<Library>(open_library());
  return opened;
}

/// The library's name of a type; nothing for those it does not multiply.
std::optional<int> type_code(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::tf32:
      return kR32F;
    case DType::fp64:
      return kR64F;
    case DType::fp16:
      return kR16F;
    case DType::bf16:
      return kR16BF;
    case DType::s8:
      return kR8I;
    case DType::s32:
      return kR32I;
    case DType::fp8_e4m3:
      return kR8E4M3;
    case DType::fp8_e5m2:
      return kR8E5M2;
    case DType::u8:
    case DType::fp8_e4m3fnuz:
    case DType::fp8_e5m2fnuz:
    case DType::fp6_e2m3:
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
    case DType::s4:
    case DType::u4:
      break;
  }
  return std::nullopt;
}

/// The library's number of an epilogue, for D^T: one value for each of its rows is one for each of
/// our columns. Nothing for what it has not, an exact GELU say.
std::optional<std::int32_t> epilogue_code(const Gemm& g) {
  Gemm product = g;
  for (ScaledMatrix* const x : {&product.a, &product.b})
    x->q.scale = Scale::none, x->q.order = ScaleOrder::lines;
  product.epilogue.bias = Bias::none, product.epilogue.bias_as_d = false;
  product.epilogue.activation = Activation::none;
  if (!is_plain_product(product) || g.epilogue.bias == Bias::per_row) return std::nullopt;
  const std::int32_t bias = g.epilogue.bias == Bias::none ? 0 : kEpilogueBias;
  switch (g.epilogue.activation) {
    case Activation::none:
      return bias == 0 ? kEpilogueNone : bias;
    case Activation::relu:
      return kEpilogueRelu + bias;
    case Activation::gelu_tanh:
      return kEpilogueGelu + bias;
    case Activation::gelu_erf:
    case Activation::silu:
      break;
  }
  return std::nullopt;
}

/// The same of scales of blocks along k, of operands along k. The library has scales of lines block
/// by block, a multiple of four lines, and those of squares line by line with rows of a multiple of
/// four; either are 16-byte aligned (27 products of both, verified on an H100).
std::optional<std::int32_t> code_of_blocks(const Problem& problem, Operand which) {
  const Gemm& g = problem.gemm;
  const bool along_k = problem.a_k_major && problem.b_k_major;
  if (!along_k || matrix(g, which).dtype != fp8_e4m3 ||
      address_alignment(g, scales_of(which)) < 16 || extent(g, scales_of(which)).length % 4 != 0)
    return std::nullopt;
  if (scale_of(g, which) == Scale::square_128) return kScaleBlock128;
  const bool ordered = order_of_scales(g, which) != ScaleOrder::lines;
  return scale_of(g, which) == Scale::line_128 && ordered ? std::optional(kScaleVector128)
                                                          : std::nullopt;
}

/// The library's number of a kind of scales; it has one scalar for all products of a batch.
std::optional<std::int32_t> scale_code(const Problem& problem, Operand which) {
  const Gemm& g = problem.gemm;
  const Scale scale = scale_of(g, which);
  if (scale == Scale::none) return kScaleScalar;
  // Sums of integers become no floats there.
  if (g.accumulator == s32 || g.batch > 1) return std::nullopt;
  if (scale == Scale::tensor) return kScaleScalar;
  if (scale == Scale::line) return kScaleOuterVector;
  return code_of_blocks(problem, which);
}

struct ComputeTypes {
  int compute, scale;
};

ComputeTypes compute_types(const Gemm& g) {
  if (g.accumulator == fp64) return {kCompute64F, kR64F};
  if (g.accumulator == s32) return {kCompute32I, g.d.dtype == s32 ? kR32I : kR32F};
  return {g.a.dtype == tf32 ? kComputeTf32 : kCompute32F, kR32F};
}

}  // namespace

struct CublasLt::Impl {
  const Library& lt;
  gpu::SharedDevice device;
  Handle handle = nullptr;
  int scale = 0;
  bool has_bias = false, has_scale_a = false, has_scale_b = false;
  Description description = nullptr;
  Layout left = nullptr, right = nullptr, c = nullptr, d = nullptr;
  std::array<Choice, kMostChoices> found{};
  int count = 0;

  Impl(const Library& l, gpu::SharedDevice on) : lt(l), device(std::move(on)) {}
  ~Impl() {
    for (const Layout layout : {left, right, c, d})
      if (layout != nullptr) lt.cublasLtMatrixLayoutDestroy(layout);
    if (description != nullptr) lt.cublasLtMatmulDescDestroy(description);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status check(int status, const char* call) const {
    if (status == 0) return {};
    return fail(ErrorCode::unsupported,
                fmt::format("{}: {}", call, lt.cublasLtGetStatusString(status)));
  }

  Status describe_matrix(Layout& layout, const Matrix& m, std::int64_t rows, std::int64_t columns,
                         std::int64_t batch) {
    const auto type = type_code(m.dtype);
    if (!type)
      return fail(ErrorCode::unsupported,
                  fmt::format("cuBLASLt has no {} matrices", name(m.dtype)));
    const auto batches = static_cast<std::int32_t>(batch);
    Status ok =
        check(lt.cublasLtMatrixLayoutCreate(&layout, *type, static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(columns), m.ld),
              "cublasLtMatrixLayoutCreate");
    if (ok && batch > 1)
      ok =
          check(lt.cublasLtMatrixLayoutSetAttribute(layout, kLayoutBatch, &batches, sizeof batches),
                "cublasLtMatrixLayoutSetAttribute");
    if (ok && batch > 1)
      ok = check(lt.cublasLtMatrixLayoutSetAttribute(layout, kLayoutStride, &m.batch_stride,
                                                     sizeof m.batch_stride),
                 "cublasLtMatrixLayoutSetAttribute");
    return ok;
  }

  template <typename Value>
  Status set(int attribute, const Value& value) const {
    return check(lt.cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }

  Status describe_epilogue(const Gemm& g) {
    const std::int32_t epilogue = epilogue_code(g).value_or(kEpilogueNone);
    if (epilogue == kEpilogueNone) return {};
    Status ok = set(kDescEpilogue, epilogue);
    has_bias = g.epilogue.bias != Bias::none;
    const std::int32_t type = type_code(dtype_of(g, Operand::bias)).value_or(kR32F);
    if (ok && has_bias) ok = set(kDescBiasType, type);
    return ok;
  }

  Status describe_scales(const Problem& problem) {
    const Gemm& g = problem.gemm;
    if (g.numerics == Numerics::fast)
      if (Status ok = set(kDescFastAccum, std::int8_t{1}); !ok) return ok;
    has_scale_a = g.a.q.scale != Scale::none;
    has_scale_b = g.b.q.scale != Scale::none;
    for (const auto& [which, mode] :
         {std::pair{Operand::a, kDescScaleModeA}, {Operand::b, kDescScaleModeB}})
      if (const auto code = scale_code(problem, which).value_or(kScaleScalar); code != kScaleScalar)
        if (Status ok = set(mode, code); !ok) return ok;
    // The heuristic looks whether there are pointers.
    return point_to({.scale_a = &g, .scale_b = &g});
  }

  /// What a call reads besides the matrices.
  struct Vectors {
    const void *bias = nullptr, *scale_a = nullptr, *scale_b = nullptr;
  };
  Status point_to(const Vectors& v) const {
    Status ok;
    if (has_bias && v.bias != nullptr) ok = set(kDescBias, v.bias);
    if (ok && has_scale_a) ok = set(kDescScalePointerA, v.scale_a);
    if (ok && has_scale_b) ok = set(kDescScalePointerB, v.scale_b);
    return ok;
  }

  /// The library's matrices are column-major: what it computes is D^T = op(B)^T op(A)^T, so our B
  /// is its left operand.
  Status describe(const Problem& problem) {
    const Gemm& g = problem.gemm;
    const ComputeTypes types = compute_types(g);
    scale = types.scale;
    Status ok = check(lt.cublasLtMatmulDescCreate(&description, types.compute, types.scale),
                      "cublasLtMatmulDescCreate");
    const std::int32_t left_op = problem.b_k_major ? kOpT : kOpN;
    const std::int32_t right_op = problem.a_k_major ? kOpN : kOpT;
    for (const auto& [attribute, op] : {std::pair{kDescTransA, left_op}, {kDescTransB, right_op}})
      if (ok) ok = set(attribute, op);
    if (ok) ok = describe_epilogue(g);
    if (ok) ok = describe_scales(problem);
    if (ok)
      ok = problem.b_k_major ? describe_matrix(left, g.b, g.k, g.n, g.batch)
                             : describe_matrix(left, g.b, g.n, g.k, g.batch);
    if (ok)
      ok = problem.a_k_major ? describe_matrix(right, g.a, g.k, g.m, g.batch)
                             : describe_matrix(right, g.a, g.m, g.k, g.batch);
    if (ok) ok = describe_matrix(c, g.c, g.n, g.m, g.batch);
    if (ok) ok = describe_matrix(d, g.d, g.n, g.m, g.batch);
    return ok;
  }

  Status ask(std::size_t workspace_bytes, int alignment) {
    Preference preference = nullptr;
    const auto bytes = static_cast<std::uint64_t>(workspace_bytes);
    Status ok =
        check(lt.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    if (!ok) return ok;
    ok = check(lt.cublasLtMatmulPreferenceSetAttribute(preference, kPreferenceWorkspace, &bytes,
                                                       sizeof bytes),
               "cublasLtMatmulPreferenceSetAttribute");
    // It takes 256 for granted; no instruction of it asks for more than 16.
    const auto promised = static_cast<std::uint32_t>(alignment);
    for (const int attribute : kPreferenceAlignments)
      if (ok && alignment < 16)
        ok = check(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &promised,
                                                           sizeof promised),
                   "cublasLtMatmulPreferenceSetAttribute");
    if (ok)
      ok = check(lt.cublasLtMatmulAlgoGetHeuristic(handle, description, left, right, c, d,
                                                   preference, kMostChoices, found.data(), &count),
                 "cublasLtMatmulAlgoGetHeuristic");
    lt.cublasLtMatmulPreferenceDestroy(preference);
    while (ok && count > 0 && found[static_cast<std::size_t>(count - 1)].state != 0) --count;
    if (ok && count == 0) return fail(ErrorCode::unsupported, "cuBLASLt proposes no algorithm");
    return ok;
  }
};

CublasLt::CublasLt(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CublasLt::CublasLt(CublasLt&&) noexcept = default;
CublasLt& CublasLt::operator=(CublasLt&&) noexcept = default;
CublasLt::~CublasLt() = default;

namespace {

/// One handle a device for the life of the process: making one takes milliseconds and memory.
Result<Handle> handle_for(const Library& lt, const gpu::GpuDevice& device) {
  constexpr int kMostDevices = 64;
  static auto& handles = []() -> auto& {
    auto& none = *new std::array<Result<Handle>, kMostDevices>;
    none.fill(Handle{nullptr});
    return none;
  }
  ();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto& slot = handles.at(static_cast<std::size_t>(device.ordinal()));
  if (slot && *slot == nullptr) {
    Handle made = nullptr;
    const int status = lt.cublasLtCreate(&made);
    if (status != 0)
      slot = fail(ErrorCode::unsupported,
                  fmt::format("cublasLtCreate: {}", lt.cublasLtGetStatusString(status)));
    else
      slot = made;
  }
  return slot;
}

}  // namespace

Result<CublasLt> CublasLt::make(gpu::SharedDevice device, const Problem& problem,
                                std::size_t workspace_bytes) {
  const Gemm& g = problem.gemm;
  if (!epilogue_code(g) || !scale_code(problem, Operand::a) || !scale_code(problem, Operand::b) ||
      g.b_packed)
    return fail(ErrorCode::unsupported, "cuBLASLt has no such epilogue, scales or packed B");
  const Result<Library>& lt = library();
  if (!lt) return tl::unexpected(lt.error());
  auto impl = std::make_unique<Impl>(*lt, std::move(device));
  const gpu::Guest guest(*impl->device);
  const gpu::RelaxedCapture relaxed(*impl->device);
  const auto handle = handle_for(*lt, *impl->device);
  if (!handle) return tl::unexpected(handle.error());
  impl->handle = *handle;
  if (Status ok = impl->describe(problem); !ok) return tl::unexpected(ok.error());
  if (Status ok = impl->ask(workspace_bytes, problem.gemm.alignment); !ok)
    return tl::unexpected(ok.error());
  return CublasLt(std::move(impl));
}

int CublasLt::choices() const { return impl_->count; }

std::size_t CublasLt::workspace_bytes(int choice) const {
  return impl_->found.at(static_cast<std::size_t>(choice)).workspace_bytes;
}

Status CublasLt::enqueue(const KilnGpuArgs& args, int choice, gpu::Stream stream) const {
  const Choice& chosen = impl_->found[static_cast<std::size_t>(choice)];
  // alpha and beta are of the scale type; one of these is what it reads.
  const double wide[] = {args.alpha, args.beta};
  const float narrow[] = {static_cast<float>(args.alpha), static_cast<float>(args.beta)};
  const std::int32_t whole[] = {static_cast<std::int32_t>(args.alpha),
                                static_cast<std::int32_t>(args.beta)};
  const void* alpha = narrow;
  const void* beta = narrow + 1;
  if (impl_->scale == kR64F) alpha = wide, beta = wide + 1;
  if (impl_->scale == kR32I) alpha = whole, beta = whole + 1;
  if (Status ok = impl_->point_to({args.bias, args.scale_a, args.scale_b}); !ok) return ok;
  // C is not read without beta, and what stands in its place must then lie as D does.
  const bool reads_c = args.beta != 0;
  const int status = impl_->lt.cublasLtMatmul(
      impl_->handle, impl_->description, alpha, args.b, impl_->left, args.a, impl_->right, beta,
      reads_c ? args.c : args.d, reads_c ? impl_->c : impl_->d, args.d, impl_->d, &chosen.algorithm,
      args.workspace, chosen.workspace_bytes, stream);
  if (status == 0) return {};
  return fail(ErrorCode::device,
              fmt::format("cublasLtMatmul: {}", impl_->lt.cublasLtGetStatusString(status)));
}

Result<int> cublaslt_version_number() {
  const Result<Library>& lt = library();
  if (!lt) return tl::unexpected(lt.error());
  return static_cast<int>(lt->cublasLtGetVersion());
}

Result<std::string> cublaslt_version() {
  return cublaslt_version_number().map(
      [](int v) { return fmt::format("cuBLASLt {}.{}.{}", v / 10000, v % 10000 / 100, v % 100); });
}

}  // namespace kiln::cuda
