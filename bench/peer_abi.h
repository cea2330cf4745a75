// The contract between kiln and its peer modules (bench/modules): shared objects of kiln's own that
// wrap what cannot be dlopen-ed as it is. Plain C types only.
#pragma once

extern "C" {

/// D = op(A) * op(B) with row-major D [m,n]; A is [m,k] when a_k_major, else [k,m]; B is [n,k] when
/// b_k_major, else [k,n]. Leading dimensions count elements.
struct KilnPeerProblem {
  int is_double;
  int a_k_major, b_k_major;
  int threads;
  long long m, n, k, lda, ldb, ldd;
};

using KilnPeerVersionFn = const char* (*)();  // "kiln_peer_version"
/// Null when the library has no kernel for the problem.
using KilnPeerPrepareFn = void* (*)(const KilnPeerProblem* problem);  // "kiln_peer_prepare"
using KilnPeerRunFn = void (*)(void* state, const void* a, const void* b,
                               void* d);          // "kiln_peer_run"
using KilnPeerReleaseFn = void (*)(void* state);  // "kiln_peer_release"
}
