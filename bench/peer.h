// The libraries kiln races against, behind one small interface. Each is found at run time and used
// if installed; kiln builds and runs without any of them. Knows nothing of timing or reports.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/library.h"
#include "kiln/engine.hpp"

namespace kiln {

/// One problem bound to one library, everything that can be done ahead already done (primitives
/// created, kernels dispatched). Runs D = op(A) * op(B) and what follows it: alpha 1, beta 0.
class PeerKernel {
 public:
  virtual ~PeerKernel() = default;
  /// `operands.b` points to plain B, or to bytes that `pack_b` wrote when packed_b_bytes() > 0.
  virtual void run(const Operands& operands) = 0;
  /// Bytes of the library's own packed form of B (64-byte aligned); 0 = it reads B as it is.
  virtual std::size_t packed_b_bytes() const { return 0; }
  virtual void pack_b(const void* /*b*/, void* /*packed*/) {}
};

class Peer {
 public:
  virtual ~Peer() = default;
  /// Short and stable: the key in reports, e.g. "openblas", "onednn_matmul".
  virtual std::string name() const = 0;
  /// The library and its version, in every report: "OpenBLAS 0.3.21".
  virtual std::string version() const = 0;
  /// Version and how it is run at its best, for people.
  virtual std::string note() const = 0;
  /// Whether the library has a routine for the problem's types and layouts.
  virtual bool supports(const Gemm& gemm, int threads) const = 0;
  /// Whether products are rounded to D's type before what follows them.
  virtual bool rounds_products() const { return false; }
  /// Errors: unsupported (the library refused a problem that `supports` let through).
  virtual Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) = 0;
};

/// A library that is not there, and why kiln thinks so.
struct AbsentPeer {
  std::string name;
  std::string reason;
  bool given = false;  // $KILN_PEERS names it
};

struct PeerSet {
  std::vector<std::unique_ptr<Peer>> present;
  std::vector<AbsentPeer> absent;
};

/// Loads every peer that is installed. Libraries read their environment as they load, so call
/// enter_peer_environment() (bench/environment.h) first for figures that count.
PeerSet load_peers();

// One loader a library; each appends to `set.present` or `set.absent`.
void load_openblas(PeerSet& set);
void load_blis(PeerSet& set);
void load_aocl(PeerSet& set);
/// Versions 3 and 2, each if it is installed.
void load_onednn(PeerSet& set);
void load_libxsmm(PeerSet& set);
void load_eigen(PeerSet& set);
/// Those that $KILN_PEERS names: files of oneDNN or with a CBLAS interface, a colon between them.
/// After the system's own, which keep their names.
void load_given_peers(PeerSet& set);

/// "separate": the engine's own product of a problem with an epilogue, then a pass of that over D.
/// The engine must outlive it.
std::unique_ptr<Peer> separate_peer(Engine& engine);
/// The problem without what follows.
Gemm plain_product_of(Gemm gemm);

/// A name that no peer of the set has: with as many "+" behind it as that takes.
std::string unused_name(const PeerSet& set, std::string name);
/// The peers that an opened oneDNN makes. Errors: those of onednn::Api::bind.
Status add_onednn(PeerSet& set, const Library& library);
/// The first of the files that loads. Errors: those of Blas::open; device (threads cannot be set).
Status add_blas(PeerSet& set, const std::string& name, const std::vector<std::string>& files);

}  // namespace kiln
