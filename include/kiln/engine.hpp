// The front door: open once, tune once, gemm() ever after.
#pragma once

#include <memory>
#include <string>

#include "kiln/export.h"
#include "kiln/options.hpp"

namespace kiln {

/// A matrix packed once by `Engine::pack_b`; holds its own copy. Shared handle, immutable.
class KILN_API PackedB {
 public:
  struct Impl;
  explicit PackedB(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }
  std::size_t bytes() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Operands of one call. Pointers are to the first element; batches follow at the Gemm's strides.
/// alpha and beta apply in the accumulator's type (fp32 where that is s32). `beta == 0` never reads
/// C.
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  const PackedB* packed_b = nullptr;  ///< instead of b, for a problem with b_packed
  const void* c = nullptr;            ///< may equal d (same layout); needed when beta != 0
  void* d = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  double alpha = 1.0;
  double beta = 0.0;
  int threads = 0;  ///< 0 = the engine's default; always 0 on a GPU
  // On a GPU all pointers above are the device's, and the call returns when it is in the stream.
  void* stream = nullptr;  ///< a cudaStream_t or CUstream; null is the default stream
  /// Memory of the caller's for plan.workspace_bytes() bytes, 256-byte aligned; not shared by calls
  /// that may overlap in time. Null: the plan keeps one of its own for each stream and thread, made
  /// by the first call, which therefore must not be captured into a graph. A graph that may run
  /// beside other calls of the plan needs a workspace that is its own.
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
  /// Of a problem with scales: see Scale for how they lie. fp32, or bytes of e8m0; 4-byte aligned.
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
};

/// A problem bound to its kernel: the cheapest way to run one shape many times.
/// Immutable and thread-safe; keeps the kernel alive.
class KILN_API Plan {
 public:
  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// Runs it. Errors: bad_input (null or overlapping operands).
  Status run(const Operands& operands) const;
  Match match() const;
  const std::string& config() const;
  /// What a call needs of a workspace on a GPU; 0 on the CPU.
  std::int64_t workspace_bytes() const;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Thread-safe: any thread may call any member at any time. A thread that is cancelled
/// (pthread_cancel) inside a member acts on it when the member has returned. Nothing is thrown.
///
/// Warnings go to stderr through a logger of kiln's own; the environment variable KILN_LOG, read
/// once, sets its level: off, error, warn (the default), info or debug.
class KILN_API Engine {
 public:
  /// Opens (creating it if needed) the user's database and the shipped ones.
  /// Errors: bad_input (device, threads), database (unreadable, newer schema, …), device.
  static Result<Engine> open(OpenOptions options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// Searches, verifies, stores. Errors: bad_input, unsupported, device, compiler, database.
  Result<TuneReport> tune(const Gemm& gemm, const TuneOptions& options = {});

  /// D = activation(alpha*op(A)*op(B) + beta*C + bias) + residual. Works for untuned problems too
  /// (see Policy). The warm path takes no lock, allocates nothing and does no I/O.
  Status gemm(const Gemm& gemm, const Operands& operands);

  /// Binds a problem to the kernel `gemm()` would use now. On a GPU a problem that promises no
  /// alignment is bound for addresses that are multiples of 16 bytes, as far as its pitches are:
  /// for others say so (alignment = 2, say), or call gemm(), which looks at each call's addresses.
  Result<Plan> plan(const Gemm& gemm, int threads = 0);

  /// Packs B (stored as `gemm.b` says, `gemm.b_packed` set or not) for later calls of
  /// `gemm.with_packed_b()` with the same thread count. CPU only. Errors: unsupported on a GPU.
  Result<PackedB> pack_b(const Gemm& gemm, const void* b, int threads = 0);

  /// Config, why it was chosen, rivals and evidence, as text a person reads.
  Result<std::string> explain(const Gemm& gemm, int threads = 0);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// kiln's version, "major.minor.patch".
KILN_API std::string_view version();

}  // namespace kiln
