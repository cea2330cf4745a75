// libxsmm as a peer: Debian ships it as a static library only, so kiln links it into a shared
// object that is loaded when a benchmark runs. Column-major like BLAS: row-major D = A*B is D^T =
// B^T*A^T.
#include <libxsmm.h>

#include "bench/peer_abi.h"

namespace {

union Kernel {
  libxsmm_smmfunction single;
  libxsmm_dmmfunction twice;
};

struct State {
  bool is_double;
  Kernel kernel;
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* kiln_peer_version() {
  return "libxsmm " LIBXSMM_CONFIG_VERSION;
}

__attribute__((visibility("default"))) void* kiln_peer_prepare(const KilnPeerProblem* p) {
  libxsmm_init();
  const auto m = libxsmm_blasint(p->n), n = libxsmm_blasint(p->m), k = libxsmm_blasint(p->k);
  const auto lda = libxsmm_blasint(p->ldb), ldb = libxsmm_blasint(p->lda),
             ldc = libxsmm_blasint(p->ldd);
  const int flags = (p->b_k_major ? LIBXSMM_GEMM_FLAG_TRANS_A : 0) |
                    (p->a_k_major ? 0 : LIBXSMM_GEMM_FLAG_TRANS_B);
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  State state{p->is_double != 0, {}};
  if (state.is_double) {
    const double alpha = 1, beta = 0;
    state.kernel.twice =
        libxsmm_dmmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
    if (!state.kernel.twice) return nullptr;
  } else {
    const float alpha = 1, beta = 0;
    state.kernel.single =
        libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
    if (!state.kernel.single) return nullptr;
  }
  return new State(state);
}

__attribute__((visibility("default"))) void kiln_peer_run(void* state, const void* a, const void* b,
                                                          void* d) {
  const auto& s = *static_cast<State*>(state);
  if (s.is_double)
    s.kernel.twice(static_cast<const double*>(b), static_cast<const double*>(a),
                   static_cast<double*>(d));
  else
    s.kernel.single(static_cast<const float*>(b), static_cast<const float*>(a),
                    static_cast<float*>(d));
}

__attribute__((visibility("default"))) void kiln_peer_release(void* state) {
  delete static_cast<State*>(state);
}
}
