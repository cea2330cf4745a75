// oneDNN as three peers a version: its BLAS-like calls, its matmul primitive, and matmul over
// weights that were reordered once into the layout it likes best. What follows a product is a chain
// of its post-ops.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bench/onednn.h"
#include "bench/peer.h"
#include "bench/post_ops.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/problem.h"

namespace kiln {
namespace {

using onednn::Api;
using onednn::Argument;

std::optional<onednn::Type> onednn_type(DType t) {
  switch (t) {
    case fp32:
      return onednn::Type::fp32;
    case bf16:
      return onednn::Type::bf16;
    case fp16:
      return onednn::Type::fp16;
    case s8:
      return onednn::Type::s8;
    case u8:
      return onednn::Type::u8;
    case s32:
      return onednn::Type::s32;
    default:
      return std::nullopt;
  }
}

/// The problem with B plain.
Problem with_plain_b(Gemm gemm) {
  gemm.b_packed = false;
  return Problem::of(gemm).value();
}

/// But for what follows the product.
bool is_plain_and_not_empty(Gemm g) {
  g.epilogue = {};
  return is_plain_product(g) && g.m > 0 && g.n > 0 && g.k > 0 && g.batch > 0;
}

class GemmKernel final : public PeerKernel {
 public:
  GemmKernel(std::shared_ptr<const Api> api, const Problem& problem, int threads)
      : api_(std::move(api)), problem_(problem), threads_(threads) {}

  void run(const Operands& operands) override {
    api_->use_threads(threads_);
    const Gemm& g = problem_.gemm;
    const void* a = problem_.swapped ? operands.b : operands.a;
    const void* b = problem_.swapped ? operands.a : operands.b;
    for (std::int64_t i = 0; i < g.batch; ++i) {
      const auto at = [&](const void* p, std::int64_t stride, DType t) {
        return static_cast<const std::byte*>(p) + i * stride * size_of(t);
      };
      one(at(a, g.stride_a(), g.a.dtype), at(b, g.stride_b(), g.b.dtype),
          static_cast<std::byte*>(operands.d) + i * g.stride_d() * size_of(g.d.dtype));
    }
  }

 private:
  void one(const void* a, const void* b, void* d) {
    const Gemm& g = problem_.gemm;
    const char ta = problem_.a_k_major ? 'N' : 'T', tb = problem_.b_k_major ? 'T' : 'N';
    const std::int32_t zero = 0;
    if (g.a.dtype == fp32)
      api_->call.sgemm(ta, tb, g.m, g.n, g.k, 1, static_cast<const float*>(a), g.lda(),
                       static_cast<const float*>(b), g.ldb(), 0, static_cast<float*>(d), g.ldd());
    else if (g.a.dtype == u8)
      api_->call.gemm_u8s8s32(ta, tb, 'F', g.m, g.n, g.k, 1, static_cast<const std::uint8_t*>(a),
                              g.lda(), 0, static_cast<const std::int8_t*>(b), g.ldb(), 0, 0,
                              static_cast<std::int32_t*>(d), g.ldd(), &zero);
    else
      api_->call.gemm_s8s8s32(ta, tb, 'F', g.m, g.n, g.k, 1, static_cast<const std::int8_t*>(a),
                              g.lda(), 0, static_cast<const std::int8_t*>(b), g.ldb(), 0, 0,
                              static_cast<std::int32_t*>(d), g.ldd(), &zero);
  }

  std::shared_ptr<const Api> api_;
  Problem problem_;
  int threads_;
};

/// A primitive and the memory objects it runs on; addresses are set before every run.
class MatmulKernel final : public PeerKernel {
 public:
  static Result<std::unique_ptr<PeerKernel>> make(std::shared_ptr<const Api> api, const Gemm& gemm,
                                                  int threads, bool packed) {
    auto kernel = std::unique_ptr<MatmulKernel>(
        new MatmulKernel(std::move(api), with_plain_b(gemm), threads));
    if (!kernel->create(packed))
      return fail(ErrorCode::unsupported, fmt::format("onednn: no matmul for {}", text(gemm)));
    return kernel;
  }
  ~MatmulKernel() override {
    for (auto& [address, memory] : packed_) api_->call.memory_destroy(memory);
    for (onednn::Memory* memory : {a_, b_, d_})
      if (memory) api_->call.memory_destroy(memory);
    for (const Other& other : others_)
      if (other.memory) api_->call.memory_destroy(other.memory);
    for (onednn::Primitive* primitive : {matmul_, reorder_})
      if (primitive) api_->call.primitive_destroy(primitive);
    if (description_) api_->call.primitive_desc_destroy(description_);
  }
  MatmulKernel(const MatmulKernel&) = delete;
  MatmulKernel& operator=(const MatmulKernel&) = delete;

  void run(const Operands& operands) override {
    api_->use_threads(threads_);
    const bool swap = problem_.swapped;
    onednn::Memory* weights = b_;
    api_->call.memory_set_data_handle(a_, const_cast<void*>(swap ? operands.b : operands.a));
    api_->call.memory_set_data_handle(d_, operands.d);
    // Setting the address of a padded layout rewrites its padding, so packed weights have a memory
    // object an address, made when they were packed.
    if (packed_bytes_)
      weights = packed_.at(operands.b);
    else
      api_->call.memory_set_data_handle(b_, const_cast<void*>(swap ? operands.a : operands.b));
    for (const Other& other : others_)
      api_->call.memory_set_data_handle(other.memory,
                                        const_cast<void*>(pointer(operands, other.operand)));
    arguments_[1].memory = weights;
    execute(matmul_, arguments_);
  }

  std::size_t packed_b_bytes() const override { return packed_bytes_; }

  void pack_b(const void* b, void* packed) override {
    api_->use_threads(threads_);
    onednn::Memory*& memory = packed_[packed];
    if (memory) api_->call.memory_destroy(memory);
    api_->call.memory_create(&memory, weights_of(*api_, description_), api_->engine, packed);
    api_->call.memory_set_data_handle(b_, const_cast<void*>(b));
    execute(reorder_, {{Argument::from, b_}, {Argument::to, memory}});
  }

 private:
  /// A descriptor until the end of a scope; null where the library refused it.
  using Described = std::unique_ptr<onednn::Descriptor, std::function<void(onednn::Descriptor*)>>;

  MatmulKernel(std::shared_ptr<const Api> api, const Problem& problem, int threads)
      : api_(std::move(api)), problem_(problem), threads_(threads) {}

  void execute(onednn::Primitive* primitive,
               const std::vector<onednn::ExecutionArgument>& arguments) const {
    api_->call.primitive_execute(primitive, api_->stream, int(arguments.size()), arguments.data());
    api_->call.stream_wait(api_->stream);
  }

  Described owned(onednn::Descriptor* descriptor) const {
    return {descriptor, [api = api_](onednn::Descriptor* d) { api->destroy(d); }};
  }

  /// rows x cols with `cols` contiguous, or with `rows` contiguous.
  onednn::Tensor tensor(DType t, std::int64_t rows, std::int64_t cols, bool row_major,
                        std::int64_t ld, std::int64_t stride) const {
    onednn::Tensor made{.type = *onednn_type(t)};
    const auto dimension = [&](std::int64_t size, std::int64_t apart) {
      made.sizes[std::size_t(made.dims)] = size;
      made.strides[std::size_t(made.dims++)] = apart;
    };
    if (problem_.gemm.batch > 1) dimension(problem_.gemm.batch, stride);
    dimension(rows, row_major ? ld : 1);
    dimension(cols, row_major ? 1 : ld);
    return made;
  }

  /// What a step reads, with a size of 1 along what it does not change with.
  onednn::Tensor tensor_of(const onednn::PostOp& op) const {
    const Gemm& g = problem_.gemm;
    const auto [batch, m, n] = op.along;
    const std::int64_t rows = m ? g.m : 1, cols = n ? g.n : 1;
    const std::int64_t ld = m && n ? leading_dimension(g, *op.operand) : cols;
    const std::int64_t stride = batch ? batch_stride(g, *op.operand) : rows * ld;
    onednn::Tensor made =
        tensor(dtype_of(g, *op.operand), rows, cols, !op.column_major, ld, stride);
    if (g.batch > 1 && !batch) made.sizes[0] = 1;
    return made;
  }

  /// Descriptors of what the steps read, and the memory that calls point to it.
  bool create_matmul(const onednn::Descriptor* a, const onednn::Descriptor* b,
                     const onednn::Descriptor* d) {
    const auto chain = onednn::post_ops(problem_);
    if (!chain) return false;
    std::vector<std::size_t> steps;  // that have an operand
    std::vector<Described> read;
    std::vector<const onednn::Descriptor*> others;
    for (std::size_t i = 0; i < chain->size(); ++i) {
      const onednn::PostOp& op = (*chain)[i];
      if (!op.operand) continue;
      if (!onednn_type(dtype_of(problem_.gemm, *op.operand))) return false;
      steps.push_back(i);
      others.push_back(read.emplace_back(owned(api_->describe(tensor_of(op)))).get());
      if (!others.back()) return false;
    }
    onednn::Attributes* attributes = nullptr;
    if (!chain->empty() && !(attributes = api_->attributes_of(*chain, others))) return false;
    const int made = api_->create_matmul(&description_, a, b, d, attributes);
    if (attributes) api_->call.primitive_attr_destroy(attributes);
    if (made != onednn::kSuccess) return false;
    const std::vector<Argument> arguments = api_->arguments_of(description_, steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      others_.push_back({*(*chain)[steps[i]].operand, arguments[i], nullptr});
      if (api_->call.memory_create(&others_.back().memory, others[i], api_->engine, nullptr) !=
          onednn::kSuccess)
        return false;
    }
    return true;
  }

  bool create(bool packed) {
    api_->use_threads(threads_);
    const Gemm& g = problem_.gemm;
    const onednn::Tensor weights =
        tensor(g.b.dtype, g.k, g.n, !problem_.b_k_major, g.ldb(), g.stride_b());
    const Described a = owned(
        api_->describe(tensor(g.a.dtype, g.m, g.k, problem_.a_k_major, g.lda(), g.stride_a())));
    const Described b = owned(api_->describe(weights));
    const Described d =
        owned(api_->describe(tensor(g.d.dtype, g.m, g.n, true, g.ldd(), g.stride_d())));
    const Described any = owned(packed ? api_->describe_any_layout(weights) : nullptr);
    if (!a || !b || !d || (packed && !any)) return false;
    if (!create_matmul(a.get(), packed ? any.get() : b.get(), d.get())) return false;
    // Plain loops, for what none of its kernels computes: one call may take a minute.
    if (api_->implementation(description_).starts_with("ref")) return false;
    if (api_->call.primitive_create(&matmul_, description_) != onednn::kSuccess) return false;
    if (packed && !create_reorder(b.get())) return false;
    const auto memory = [&](onednn::Memory*& slot, const Described& description) {
      return api_->call.memory_create(&slot, description.get(), api_->engine, nullptr) ==
             onednn::kSuccess;
    };
    if (!memory(a_, a) || !memory(b_, b) || !memory(d_, d)) return false;
    arguments_ = {{Argument::source, a_}, {Argument::weights, b_}, {Argument::destination, d_}};
    for (const Other& other : others_) arguments_.push_back({other.argument, other.memory});
    return true;
  }

  bool create_reorder(const onednn::Descriptor* plain) {
    const onednn::Descriptor* wanted = weights_of(*api_, description_);
    onednn::PrimitiveDescriptor* reorder = nullptr;
    if (api_->call.reorder_primitive_desc_create(&reorder, plain, api_->engine, wanted,
                                                 api_->engine, nullptr) != onednn::kSuccess)
      return false;
    const bool made = api_->call.primitive_create(&reorder_, reorder) == onednn::kSuccess;
    api_->call.primitive_desc_destroy(reorder);
    packed_bytes_ = api_->call.memory_desc_get_size(wanted);
    return made;
  }

  /// An operand of what follows.
  struct Other {
    Operand operand;
    Argument argument;
    onednn::Memory* memory;
  };

  std::shared_ptr<const Api> api_;
  Problem problem_;
  int threads_;
  std::vector<Other> others_;
  std::vector<onednn::ExecutionArgument> arguments_;    // of a call
  onednn::PrimitiveDescriptor* description_ = nullptr;  // of matmul_, and of its weights' layout
  onednn::Primitive *matmul_ = nullptr, *reorder_ = nullptr;
  onednn::Memory *a_ = nullptr, *b_ = nullptr, *d_ = nullptr;
  std::size_t packed_bytes_ = 0;
  std::unordered_map<const void*, onednn::Memory*> packed_;
};

enum class Way { gemm, matmul, packed };

class OnednnPeer final : public Peer {
 public:
  OnednnPeer(std::shared_ptr<const Api> api, std::string name, Way way)
      : api_(std::move(api)), name_(std::move(name)), way_(way) {}
  std::string name() const override { return name_; }
  std::string version() const override { return api_->version_text(); }
  std::string note() const override {
    return fmt::format("{}, isa {:#x}, {}, {}, {}", version(), api_->call.get_effective_cpu_isa(),
                       api_->one_thread_only() ? "one thread" : "OpenMP",
                       way_ == Way::gemm ? "dnnl_sgemm and dnnl_gemm_*8s8s32"
                       : way_ == Way::matmul
                           ? "matmul primitive created once, with post-ops"
                           : "matmul primitive with post-ops over weights reordered once",
                       api_->library().path());
  }
  bool supports(const Gemm& gemm, int threads) const override {
    const Problem problem = with_plain_b(gemm);
    const Gemm& g = problem.gemm;
    if (!is_plain_and_not_empty(g) || (threads > 1 && api_->one_thread_only())) return false;
    if (way_ == Way::gemm) {
      if (!is_plain_product(g)) return false;
      const bool single = g.a.dtype == fp32 && g.b.dtype == fp32 && g.d.dtype == fp32;
      const bool bytes = g.a.dtype == s8 || g.a.dtype == u8;
      return single || (bytes && g.b.dtype == s8 && g.d.dtype == s32);
    }
    if (way_ == Way::packed && (!gemm.b_packed || problem.swapped)) return false;
    if (!onednn_type(g.a.dtype) || !onednn_type(g.b.dtype) || !onednn_type(g.d.dtype)) return false;
    return g.accumulator != fp64 && matmul(gemm, threads).has_value();
  }
  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    if (way_ != Way::gemm) return matmul(gemm, threads);
    return std::make_unique<GemmKernel>(api_, with_plain_b(gemm), threads);
  }

 private:
  Result<std::unique_ptr<PeerKernel>> matmul(const Gemm& gemm, int threads) const {
    return MatmulKernel::make(api_, gemm, threads, way_ == Way::packed);
  }

  std::shared_ptr<const Api> api_;
  std::string name_;
  Way way_;
};

/// "onednn_matmul" of version 2, "onednn3_matmul" of version 3.
std::string family_of(int major) { return major == 2 ? "onednn" : fmt::format("onednn{}", major); }

void add_installed(PeerSet& set, int major) {
  const Library library = Library::open({fmt::format("libdnnl.so.{}", major)});
  if (!library) {
    set.absent.push_back({family_of(major), library.error()});
    return;
  }
  if (Status added = add_onednn(set, library); !added)
    set.absent.push_back({family_of(major), added.error().message});
}

}  // namespace

Status add_onednn(PeerSet& set, const Library& library) {
  const auto bound = Api::bind(library);
  if (!bound) return tl::unexpected(bound.error());
  for (const auto& [way, what] :
       {std::pair{Way::gemm, "gemm"}, {Way::matmul, "matmul"}, {Way::packed, "packed"}}) {
    std::string name = fmt::format("{}_{}", family_of((*bound)->major()), what);
    set.present.push_back(
        std::make_unique<OnednnPeer>(*bound, unused_name(set, std::move(name)), way));
  }
  return {};
}

void load_onednn(PeerSet& set) {
  add_installed(set, 3);
  add_installed(set, 2);
}

}  // namespace kiln
