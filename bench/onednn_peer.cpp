// oneDNN 2 as three peers: its BLAS-like calls, its matmul primitive, and matmul over weights that
// were reordered once into the layout it likes best.
#include "bench/peer.h"

#ifndef KILN_HAVE_DNNL_HEADERS

namespace kiln {
void load_onednn(PeerSet& set) {
  set.absent.push_back({"onednn", "kiln was built without oneDNN 2's headers (libdnnl-dev)"});
}
}  // namespace kiln

#else

#include <fmt/format.h>

#include <array>
#include <optional>
#include <unordered_map>

#include "bench/onednn_api.h"
#include "generator/problem/canonical.h"
#include "generator/problem/fields.h"

namespace kiln {
namespace {

std::optional<dnnl_data_type_t> dnnl_type(DType t) {
  switch (t) {
    case fp32:
      return dnnl_f32;
    case bf16:
      return dnnl_bf16;
    case fp16:
      return dnnl_f16;
    case s8:
      return dnnl_s8;
    case u8:
      return dnnl_u8;
    case s32:
      return dnnl_s32;
    default:
      return std::nullopt;
  }
}

/// The problem with B plain, in canonical form.
Canonical plain_canonical(Gemm gemm) {
  gemm.b_packed = false;
  return canonicalise(gemm);
}

bool is_plain_and_not_empty(const Gemm& g) {
  return is_plain_product(g) && g.m > 0 && g.n > 0 && g.k > 0 && g.batch > 0;
}

class GemmKernel final : public PeerKernel {
 public:
  GemmKernel(Onednn& api, const Canonical& problem, int threads)
      : api_(api), problem_(problem), threads_(threads) {}

  void run(const Operands& operands) override {
    api_.use_threads(threads_);
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
      api_.sgemm(ta, tb, g.m, g.n, g.k, 1, static_cast<const float*>(a), g.lda(),
                 static_cast<const float*>(b), g.ldb(), 0, static_cast<float*>(d), g.ldd());
    else if (g.a.dtype == u8)
      api_.gemm_u8s8s32(ta, tb, 'F', g.m, g.n, g.k, 1, static_cast<const std::uint8_t*>(a), g.lda(),
                        0, static_cast<const std::int8_t*>(b), g.ldb(), 0, 0,
                        static_cast<std::int32_t*>(d), g.ldd(), &zero);
    else
      api_.gemm_s8s8s32(ta, tb, 'F', g.m, g.n, g.k, 1, static_cast<const std::int8_t*>(a), g.lda(),
                        0, static_cast<const std::int8_t*>(b), g.ldb(), 0, 0,
                        static_cast<std::int32_t*>(d), g.ldd(), &zero);
  }

  Onednn& api_;
  Canonical problem_;
  int threads_;
};

/// A primitive and the memory objects it runs on; addresses are set before every run.
class MatmulKernel final : public PeerKernel {
 public:
  static Result<std::unique_ptr<PeerKernel>> make(Onednn& api, const Gemm& gemm, int threads,
                                                  bool packed) {
    auto kernel =
        std::unique_ptr<MatmulKernel>(new MatmulKernel(api, plain_canonical(gemm), threads));
    if (!kernel->create(packed))
      return fail(ErrorCode::unsupported, fmt::format("onednn: no matmul for {}", text(gemm)));
    return kernel;
  }
  ~MatmulKernel() override {
    for (auto& [address, memory] : packed_) api_.memory_destroy(memory);
    for (dnnl_memory_t memory : {a_, b_, d_})
      if (memory) api_.memory_destroy(memory);
    for (dnnl_primitive_t primitive : {matmul_, reorder_})
      if (primitive) api_.primitive_destroy(primitive);
  }
  MatmulKernel(const MatmulKernel&) = delete;
  MatmulKernel& operator=(const MatmulKernel&) = delete;

  void run(const Operands& operands) override {
    api_.use_threads(threads_);
    const bool swap = problem_.swapped;
    dnnl_memory_t weights = b_;
    api_.memory_set_data_handle(a_, const_cast<void*>(swap ? operands.b : operands.a));
    api_.memory_set_data_handle(d_, operands.d);
    // Setting the address of a padded layout rewrites its padding, so packed weights have a memory
    // object an address, made when they were packed.
    if (packed_bytes_)
      weights = packed_.at(operands.b);
    else
      api_.memory_set_data_handle(b_, const_cast<void*>(swap ? operands.a : operands.b));
    const std::array<dnnl_exec_arg_t, 3> args{
        {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, d_}}};
    api_.primitive_execute(matmul_, api_.stream, int(args.size()), args.data());
    api_.stream_wait(api_.stream);
  }

  std::size_t packed_b_bytes() const override { return packed_bytes_; }

  void pack_b(const void* b, void* packed) override {
    api_.use_threads(threads_);
    dnnl_memory_t& memory = packed_[packed];
    if (memory) api_.memory_destroy(memory);
    api_.memory_create(&memory, &weights_md_, api_.engine, packed);
    api_.memory_set_data_handle(b_, const_cast<void*>(b));
    const std::array<dnnl_exec_arg_t, 2> args{{{DNNL_ARG_FROM, b_}, {DNNL_ARG_TO, memory}}};
    api_.primitive_execute(reorder_, api_.stream, int(args.size()), args.data());
    api_.stream_wait(api_.stream);
  }

 private:
  MatmulKernel(Onednn& api, const Canonical& problem, int threads)
      : api_(api), problem_(problem), threads_(threads) {}

  /// rows x cols with `cols` contiguous, or with `rows` contiguous.
  bool describe(dnnl_memory_desc_t& md, DType t, std::int64_t rows, std::int64_t cols,
                bool row_major, std::int64_t ld, std::int64_t stride) const {
    const bool batched = problem_.gemm.batch > 1;
    dnnl_dims_t dims{}, strides{};
    int at = 0;
    if (batched) dims[at] = problem_.gemm.batch, strides[at++] = stride;
    dims[at] = rows, strides[at++] = row_major ? ld : 1;
    dims[at] = cols, strides[at++] = row_major ? 1 : ld;
    return api_.memory_desc_init_by_strides(&md, at, dims, *dnnl_type(t), strides) == dnnl_success;
  }

  bool create(bool packed) {
    api_.use_threads(threads_);
    const Gemm& g = problem_.gemm;
    dnnl_memory_desc_t a{}, b{}, d{};
    if (!describe(a, g.a.dtype, g.m, g.k, problem_.a_k_major, g.lda(), g.stride_a()) ||
        !describe(b, g.b.dtype, g.k, g.n, !problem_.b_k_major, g.ldb(), g.stride_b()) ||
        !describe(d, g.d.dtype, g.m, g.n, true, g.ldd(), g.stride_d()))
      return false;
    weights_md_ = b;
    if (packed && api_.memory_desc_init_by_tag(&weights_md_, b.ndims, b.dims, b.data_type,
                                               dnnl_format_tag_any) != dnnl_success)
      return false;
    dnnl_matmul_desc_t op{};
    if (api_.matmul_desc_init(&op, &a, &weights_md_, nullptr, &d) != dnnl_success) return false;
    dnnl_primitive_desc_t pd = nullptr;
    if (api_.primitive_desc_create(&pd, &op, nullptr, api_.engine, nullptr) != dnnl_success)
      return false;
    weights_md_ = *api_.primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    const bool made = api_.primitive_create(&matmul_, pd) == dnnl_success;
    api_.primitive_desc_destroy(pd);
    if (!made || (packed && !create_reorder(b))) return false;
    const auto memory = [&](dnnl_memory_t& slot, const dnnl_memory_desc_t& md) {
      return api_.memory_create(&slot, &md, api_.engine, DNNL_MEMORY_NONE) == dnnl_success;
    };
    return memory(a_, a) && memory(b_, b) && memory(d_, d);
  }

  bool create_reorder(const dnnl_memory_desc_t& plain) {
    dnnl_primitive_desc_t pd = nullptr;
    if (api_.reorder_primitive_desc_create(&pd, &plain, api_.engine, &weights_md_, api_.engine,
                                           nullptr) != dnnl_success)
      return false;
    const bool made = api_.primitive_create(&reorder_, pd) == dnnl_success;
    api_.primitive_desc_destroy(pd);
    packed_bytes_ = api_.memory_desc_get_size(&weights_md_);
    return made;
  }

  Onednn& api_;
  Canonical problem_;
  int threads_;
  dnnl_memory_desc_t weights_md_{};
  dnnl_primitive_t matmul_ = nullptr, reorder_ = nullptr;
  dnnl_memory_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  std::size_t packed_bytes_ = 0;
  std::unordered_map<const void*, dnnl_memory_t> packed_;
};

class OnednnGemmPeer final : public Peer {
 public:
  OnednnGemmPeer(Onednn& api, std::string note) : api_(api), note_(std::move(note)) {}
  std::string name() const override { return "onednn_gemm"; }
  std::string note() const override { return note_ + ", dnnl_sgemm and dnnl_gemm_*8s8s32"; }
  bool supports(const Gemm& gemm, int /*threads*/) const override {
    const Gemm g = plain_canonical(gemm).gemm;
    const bool single = g.a.dtype == fp32 && g.b.dtype == fp32 && g.d.dtype == fp32;
    const bool integer =
        (g.a.dtype == s8 || g.a.dtype == u8) && g.b.dtype == s8 && g.d.dtype == s32;
    return is_plain_and_not_empty(g) && (single || integer);
  }
  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    return std::make_unique<GemmKernel>(api_, plain_canonical(gemm), threads);
  }

 private:
  Onednn& api_;
  std::string note_;
};

class OnednnMatmulPeer final : public Peer {
 public:
  OnednnMatmulPeer(Onednn& api, std::string note, bool packed)
      : api_(api), note_(std::move(note)), packed_(packed) {}
  std::string name() const override { return packed_ ? "onednn_packed" : "onednn_matmul"; }
  std::string note() const override {
    return note_ + (packed_ ? ", matmul primitive over weights reordered once"
                            : ", matmul primitive created once");
  }
  bool supports(const Gemm& gemm, int threads) const override {
    const Canonical problem = plain_canonical(gemm);
    const Gemm& g = problem.gemm;
    if (packed_ && (!gemm.b_packed || problem.swapped)) return false;
    if (!is_plain_and_not_empty(g) || g.a.dtype == fp64 || g.accumulator == fp64) return false;
    return MatmulKernel::make(api_, gemm, threads, packed_).has_value();
  }
  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    return MatmulKernel::make(api_, gemm, threads, packed_);
  }

 private:
  Onednn& api_;
  std::string note_;
  bool packed_;
};

/// One engine and stream for the life of the process: oneDNN's caches outlive any object of ours.
Onednn& onednn() {
  static Onednn api;
  return api;
}

}  // namespace

void load_onednn(PeerSet& set) {
  Onednn& api = onednn();
  if (!api.stream) {
    api.library = Library::open({"libdnnl.so.2"});
    api.openmp = Library::open({"libgomp.so.1"});
    std::string missing;
    if (!api.library || !api.openmp) {
      set.absent.push_back({"onednn", api.library.error() + api.openmp.error()});
      return;
    }
    api.omp_threads = api.openmp.symbol<void (*)(int)>("omp_set_num_threads");
    if (!api.omp_threads || !api.bind(missing)) {
      set.absent.push_back({"onednn", "libdnnl.so.2 or libgomp.so.1 lacks " + missing});
      return;
    }
    if (api.engine_create(&api.engine, dnnl_cpu, 0) != dnnl_success ||
        api.stream_create(&api.stream, api.engine, dnnl_stream_default_flags) != dnnl_success) {
      set.absent.push_back({"onednn", "dnnl_engine_create or dnnl_stream_create failed"});
      return;
    }
  }
  const auto* v = api.version();
  const std::string note = fmt::format("oneDNN {}.{}.{}, isa {:#x}, OpenMP", v->major, v->minor,
                                       v->patch, int(api.get_effective_cpu_isa()));
  set.present.push_back(std::make_unique<OnednnGemmPeer>(api, note));
  set.present.push_back(std::make_unique<OnednnMatmulPeer>(api, note, false));
  set.present.push_back(std::make_unique<OnednnMatmulPeer>(api, note, true));
}

}  // namespace kiln

#endif
