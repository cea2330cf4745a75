// Eigen and libxsmm, through kiln's own peer modules.
#include <fmt/format.h>

#include "bench/environment.h"
#include "bench/library.h"
#include "bench/peer.h"
#include "bench/peer_abi.h"
#include "generator/problem/fields.h"
#include "generator/problem/problem.h"

namespace kiln {
namespace {

struct Module {
  Library library;
  KilnPeerVersionFn version = nullptr;
  KilnPeerPrepareFn prepare = nullptr;
  KilnPeerRunFn run = nullptr;
  KilnPeerReleaseFn release = nullptr;

  static Module open(const std::string& file_name) {
    Module m{.library = Library::open(module_candidates(file_name))};
    if (!m.library) return m;
    m.version = m.library.symbol<KilnPeerVersionFn>("kiln_peer_version");
    m.prepare = m.library.symbol<KilnPeerPrepareFn>("kiln_peer_prepare");
    m.run = m.library.symbol<KilnPeerRunFn>("kiln_peer_run");
    m.release = m.library.symbol<KilnPeerReleaseFn>("kiln_peer_release");
    return m;
  }
  bool complete() const { return version && prepare && run && release; }
};

class ModuleKernel final : public PeerKernel {
 public:
  ModuleKernel(const Module& module, void* state, const Problem& problem)
      : module_(module), state_(state), problem_(problem), bytes_(size_of(problem.gemm.d.dtype)) {}
  ~ModuleKernel() override { module_.release(state_); }
  ModuleKernel(const ModuleKernel&) = delete;
  ModuleKernel& operator=(const ModuleKernel&) = delete;

  void run(const Operands& operands) override {
    const Gemm& g = problem_.gemm;
    auto* a = static_cast<const std::byte*>(problem_.swapped ? operands.b : operands.a);
    auto* b = static_cast<const std::byte*>(problem_.swapped ? operands.a : operands.b);
    auto* d = static_cast<std::byte*>(operands.d);
    for (std::int64_t i = 0; i < g.batch; ++i)
      module_.run(state_, a + i * g.stride_a() * bytes_, b + i * g.stride_b() * bytes_,
                  d + i * g.stride_d() * bytes_);
  }

 private:
  Module module_;
  void* state_;
  Problem problem_;
  std::int64_t bytes_;
};

class ModulePeer final : public Peer {
 public:
  /// `largest` bounds m, n and k; 0 = unbounded.
  ModulePeer(Module module, std::string name, std::string note, std::int64_t largest)
      : module_(std::move(module)),
        name_(std::move(name)),
        note_(std::move(note)),
        largest_(largest) {}
  std::string name() const override { return name_; }
  std::string version() const override { return module_.version(); }
  std::string note() const override { return note_; }

  /// Asks the library itself: which transposes libxsmm can generate is its own knowledge.
  bool supports(const Gemm& g, int threads) const override {
    const DType t = g.a.dtype;
    const bool small = !largest_ || (g.m <= largest_ && g.n <= largest_ && g.k <= largest_);
    if ((t != fp32 && t != fp64) || g.b.dtype != t || g.d.dtype != t || g.accumulator != t ||
        !is_plain_product(g) || g.m <= 0 || g.n <= 0 || g.k <= 0 || !small)
      return false;
    return kernel(g, threads) != nullptr;
  }

  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    if (auto made = kernel(gemm, threads)) return made;
    return fail(ErrorCode::unsupported, fmt::format("{}: no kernel for {}", name_, text(gemm)));
  }

 private:
  std::unique_ptr<PeerKernel> kernel(Gemm gemm, int threads) const {
    gemm.b_packed = false;
    const Problem problem = Problem::of(gemm).value();
    const Gemm& g = problem.gemm;
    const KilnPeerProblem p{.is_double = g.a.dtype == fp64,
                            .a_k_major = problem.a_k_major,
                            .b_k_major = problem.b_k_major,
                            .threads = threads,
                            .m = g.m,
                            .n = g.n,
                            .k = g.k,
                            .lda = g.lda(),
                            .ldb = g.ldb(),
                            .ldd = g.ldd()};
    void* state = module_.prepare(&p);
    if (!state) return nullptr;
    return std::make_unique<ModuleKernel>(module_, state, problem);
  }

  Module module_;
  std::string name_, note_;
  std::int64_t largest_;
};

void add(PeerSet& set, const std::string& file, const std::string& name, std::string_view how,
         std::int64_t largest) {
  Module module = Module::open(file);
  if (!module.library) {
    set.absent.push_back({name, module.library.error()});
    return;
  }
  if (!module.complete()) {
    set.absent.push_back(
        {name, fmt::format("{} lacks a kiln_peer_ symbol", module.library.path())});
    return;
  }
  std::string note = fmt::format("{}, {}", module.version(), how);
  set.present.push_back(
      std::make_unique<ModulePeer>(std::move(module), name, std::move(note), largest));
}

}  // namespace

void load_libxsmm(PeerSet& set) {
  // Its generated code grows with the problem and unrolls past any cache; its authors aim it at
  // (m n k)^(1/3) <= 64 or so. 256 leaves room around that.
  add(set, "libkiln_peer_xsmm.so", "libxsmm",
      "kernel dispatched once, on the calling thread only, up to 256 a side", 256);
}

void load_eigen(PeerSet& set) {
  if (cpu_has_avx512())
    return add(set, "libkiln_peer_eigen_avx512.so", "eigen", "compiled for AVX-512, OpenMP", 0);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return add(set, "libkiln_peer_eigen_avx2.so", "eigen", "compiled for AVX2 and FMA, OpenMP", 0);
#endif
  add(set, "libkiln_peer_eigen_baseline.so", "eigen", "compiled for the baseline CPU, OpenMP", 0);
}

}  // namespace kiln
