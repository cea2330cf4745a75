// Eigen as a peer. Built once per instruction set, each into a shared object of its own: the same
// templates compiled with different flags must never be linked into one object.
#include <Eigen/Core>

#include "bench/peer_abi.h"

namespace {

template <typename T, int Layout>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Layout>;
using Pitch = Eigen::OuterStride<>;

template <typename T, int LayoutA, int LayoutB>
void multiply(const KilnPeerProblem& p, const void* a, const void* b, void* d) {
  const Eigen::Map<const Matrix<T, LayoutA>, 0, Pitch> lhs(static_cast<const T*>(a), p.m, p.k,
                                                           Pitch(p.lda));
  const Eigen::Map<const Matrix<T, LayoutB>, 0, Pitch> rhs(static_cast<const T*>(b), p.k, p.n,
                                                           Pitch(p.ldb));
  Eigen::Map<Matrix<T, Eigen::RowMajor>, 0, Pitch> out(static_cast<T*>(d), p.m, p.n, Pitch(p.ldd));
  out.noalias() = lhs * rhs;
}

using MultiplyFn = void (*)(const KilnPeerProblem&, const void*, const void*, void*);

struct State {
  KilnPeerProblem problem;
  MultiplyFn multiply;
};

template <typename T>
MultiplyFn choose(bool a_k_major, bool b_k_major) {
  using Eigen::ColMajor, Eigen::RowMajor;
  if (a_k_major)
    return b_k_major ? multiply<T, RowMajor, ColMajor> : multiply<T, RowMajor, RowMajor>;
  return b_k_major ? multiply<T, ColMajor, ColMajor> : multiply<T, ColMajor, RowMajor>;
}

}  // namespace

#define KILN_STRING_OF(x) #x
#define KILN_STRING(x) KILN_STRING_OF(x)

extern "C" {

__attribute__((visibility("default"))) const char* kiln_peer_version() {
  return "Eigen " KILN_STRING(EIGEN_WORLD_VERSION) "." KILN_STRING(
      EIGEN_MAJOR_VERSION) "." KILN_STRING(EIGEN_MINOR_VERSION);
}

__attribute__((visibility("default"))) void* kiln_peer_prepare(const KilnPeerProblem* p) {
  const bool a = p->a_k_major, b = p->b_k_major;
  return new State{*p, p->is_double ? choose<double>(a, b) : choose<float>(a, b)};
}

__attribute__((visibility("default"))) void kiln_peer_run(void* state, const void* a, const void* b,
                                                          void* d) {
  const auto& s = *static_cast<State*>(state);
  Eigen::setNbThreads(s.problem.threads);
  s.multiply(s.problem, a, b, d);
}

__attribute__((visibility("default"))) void kiln_peer_release(void* state) {
  delete static_cast<State*>(state);
}
}
