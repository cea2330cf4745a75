/// @file
/// The engine: open once, tune once, then call gemm().
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "kiln/export.h"
#include "kiln/options.hpp"

namespace kiln {

/// A copy of B packed by `Engine::pack_b`, for every m. A shared handle, immutable; it needs no
/// engine.
class KILN_API PackedB {
 public:
  struct Impl;
  /// For kiln's own code.
  explicit PackedB(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// For kiln's own code.
  const Impl& impl() const { return *impl_; }
  /// Bytes of the copy.
  std::size_t bytes() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// One product of a list (Grouping::list), of the Gemm's types, layouts and epilogue: sizes from 0
/// to the Gemm's, leading dimensions in elements as those of Matrix (0 = tight) and the first
/// elements of its operands. With m or n = 0 nothing is read or written. With k = 0 A, B and scales
/// of blocks are not read, scales of lines and tensors are, and must be finite. Products may share
/// what is read; no D overlaps another or what any product reads, but C may be the D of its own
/// product, laid out alike.
struct ListEntry {
  std::int64_t m = 0;              ///< rows of D
  std::int64_t n = 0;              ///< columns of D
  std::int64_t k = 0;              ///< columns of op(A)
  std::int64_t lda = 0;            ///< of A
  std::int64_t ldb = 0;            ///< of B
  std::int64_t ldc = 0;            ///< of C
  std::int64_t ldd = 0;            ///< of D and the residual
  const void* a = nullptr;         ///< A
  const void* b = nullptr;         ///< B
  const void* c = nullptr;         ///< C; needed when beta != 0
  void* d = nullptr;               ///< D
  const void* bias = nullptr;      ///< the bias vector
  const void* residual = nullptr;  ///< the residual matrix
  const void* scale_a = nullptr;   ///< scales of A, of this product's m and k, 4-byte aligned
  const void* scale_b = nullptr;   ///< scales of B, likewise
  void* scale_d = nullptr;         ///< scales of D, likewise; read or written as in Operands
};

/// Operands of one call. Pointers are to the first element; batches follow at the Gemm's strides.
/// alpha and beta apply in the accumulator's type (fp32 where that is s32). `beta == 0` never reads
/// C. `alpha == 0` is not such rule, other than in BLAS: A and B are read and their products are
/// multiplied by 0, so a NaN or an infinity in them makes NaN in D. To scale C alone, k is 0. A
/// vendor's library (OpenOptions::allow_vendor) may leave them unread.
struct Operands {
  const void* a = nullptr;            ///< A
  const void* b = nullptr;            ///< B
  const PackedB* packed_b = nullptr;  ///< instead of b, for a problem with b_packed
  const void* c = nullptr;            ///< may equal d (same layout); needed when beta != 0
  void* d = nullptr;                  ///< D; overlaps no other operand but c
  const void* bias = nullptr;         ///< the bias vector
  const void* residual = nullptr;     ///< the residual matrix
  double alpha = 1.0;                 ///< factor of the product
  double beta = 0.0;                  ///< factor of C
  int threads = 0;                    ///< 0 = the engine's default; always 0 on a GPU
  /// A cudaStream_t or CUstream; null is the default stream. On a GPU all pointers are the
  /// device's, and the call returns when the work is in the stream.
  void* stream = nullptr;
  /// Device memory of plan.workspace_bytes() bytes, 256-byte aligned, not shared by calls that may
  /// overlap in time. Null: the engine's, for this stream and thread, or for a capture into a
  /// graph, which keeps it. Runtimes whose graphs hold no user objects (old ROCm) give the stream's
  /// then: a graph that may run beside other calls of that stream needs one of its own there.
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;  ///< of the workspace
  /// Scales of A: fp32 or e8m0 (see Scale), 4-byte aligned at least (see Gemm::alignment).
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;  ///< scales of B, likewise; of weights aligned as their type
  const void* zero_b = nullptr;   ///< zero points of weights (see Zero)
  const void* groups = nullptr;   ///< of a grouped problem: an int32 for each (see Grouping)
  /// Scales of D, fp32, 4-byte aligned (see Gemm::d): read where there is one for the tensor,
  /// else written, and then overlapping no other operand.
  void* scale_d = nullptr;
  const void* zero_a = nullptr;  ///< zero points of A, int32 (see Gemm::a, its q.zero)
  /// Beside zero_a: the sum of each column of op(B), int32, in a batch or with groups one product's
  /// behind another's (column_sums() of kiln/quantise.hpp).
  const void* column_sums_b = nullptr;
  const void* index_a = nullptr;  ///< with a gather: an int32 for each of m rows, its row of A
  const void* index_d = nullptr;  ///< with a scatter: an int32 for each of m rows, its row of D
  /// The largest magnitude of D (see Gemm::amax_d), one fp32 that is written, 4-byte aligned and
  /// overlapping no other operand.
  void* amax_d = nullptr;
  /// With Scatter::weighted: an fp32 for each of m rows, by which it is multiplied.
  const void* row_weights = nullptr;
  /// With Grouping::list, in place of all other pointers but the workspace: Gemm::batch entries in
  /// memory of the host, which the call reads before it returns.
  const ListEntry* list = nullptr;
  /// The operands of Gemm::epilogue's expression, in the order of Expression::operands(); those of
  /// ExtraOperand::host in memory of the host, which the call reads before it returns.
  std::array<const void*, kExtraOperands> extra{};
  /// What it stores beside D, in the order of Expression::outputs(): memory that overlaps no other
  /// operand.
  std::array<void*, kExpressionOutputs> outputs{};
};

/// Medians of a race, in nanoseconds of one call.
struct LibraryRace {
  double kernel_ns = 0;   ///< of kiln's kernel
  double library_ns = 0;  ///< of the library
};

/// A problem bound to its kernel: leaves out the look-up of gemm(). Immutable and thread-safe;
/// keeps the kernel alive.
class KILN_API Plan {
 public:
  struct Impl;
  /// For kiln's own code.
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// Runs it. Errors: bad_input (null or overlapping operands).
  Status run(const Operands& operands) const;
  /// Where the kernel came from.
  Match match() const;
  /// Problem text of the kernel's config.
  const std::string& config() const;
  /// Bytes of workspace that a call needs on a GPU; 0 on the CPU.
  std::int64_t workspace_bytes() const;
  /// The stored race of exactly this problem and number of threads between this kernel and the
  /// library that a program would call else (the system's BLAS on a CPU, see blas_library();
  /// cuBLASLt), of the same build as this process has. Nothing where there was no such race. Opens
  /// the library; not for the warm path.
  std::optional<LibraryRace> library_race() const;
  /// For kiln's own code.
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Calls of one problem that an engine counted.
struct CallCount {
  Gemm gemm;               ///< the problem, as it is tuned
  int threads = 1;         ///< of the calls; on a GPU its multiprocessors
  std::int64_t calls = 0;  ///< since the engine was opened
  double ns_per_call = 0;  ///< mean of those that were timed; 0: none was
};

/// Calls of one problem that a program makes elsewhere, in another library say, as they are added
/// to the file that OpenOptions::record names beside those of gemm(). A shared handle, thread-safe;
/// counting takes no lock, allocates nothing and does no I/O.
class KILN_API CallLog {
 public:
  struct Impl;
  /// For kiln's own code.
  explicit CallLog(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// Whether this thread's next call is to be timed: now and then for short ones, always for
  /// others.
  bool wants_time() const;
  /// One call that took so long; 0: it was not timed.
  void add(double ns = 0) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// All problems of a range, each bound to its kernel. Immutable and thread-safe; keeps the kernels
/// and the engine's databases open.
class KILN_API RangePlan {
 public:
  struct Impl;
  /// For kiln's own code.
  explicit RangePlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// Runs the problem of one size. Errors: bad_input (a size outside the range, null or overlapping
  /// operands), and those of Engine::gemm() where no table serves the size.
  Status run(std::int64_t size, const Operands& operands) const;
  /// Where the kernel of a size came from. Errors: as run().
  Result<Match> match(std::int64_t size) const;
  /// Problem text of its config. Errors: as run().
  Result<std::string> config(std::int64_t size) const;
  /// Bytes of workspace that a call of any size of the table needs at most on a GPU; 0 on the CPU.
  std::int64_t workspace_bytes() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// One device and its databases. Thread-safe: any thread may call any member at any time. A thread
/// that is cancelled (pthread_cancel) inside a member acts on it when the member has returned.
/// Nothing is thrown.
///
/// Warnings go to stderr through a logger of kiln's own; the environment variable KILN_LOG, read
/// once, sets its level: off, error, warn (the default), info or debug.
class KILN_API Engine {
 public:
  /// Opens (creating it if needed) the user's database and the shipped ones.
  /// Errors: bad_input (device, threads), database (unreadable, newer schema, …), device.
  static Result<Engine> open(OpenOptions options = {});
  /// Movable, not copyable.
  Engine(Engine&&) noexcept;
  /// Movable, not copyable.
  Engine& operator=(Engine&&) noexcept;
  /// Waits for background tuning to stop. Plans and packed matrices outlive the engine.
  ~Engine();

  /// Searches, verifies, stores. Errors: bad_input, unsupported, device, compiler, database.
  Result<TuneReport> tune(const Gemm& gemm, const TuneOptions& options = {});

  /// The same of all sizes of a range: a few kernels and a table that says which of them serves
  /// which size. gemm() of any size of the range runs its kernel from then on; a size that was
  /// tuned by itself keeps its own. Of several ranges that hold a size, the narrowest counts.
  Result<RangeReport> tune(const GemmRange& range, const TuneOptions& options = {});

  /// D = activation(alpha*op(A)*op(B) + beta*C + bias) + residual. Works for untuned problems too
  /// (see Policy). The warm path takes no lock, allocates nothing and does no I/O.
  /// On a CPU all threads of a call compute in the floating-point mode of the thread that calls:
  /// its rounding, and whether denormals are flushed or taken for zero (MXCSR; on Arm FPCR).
  /// Instructions that have one mode only (vdpbf16ps, AMX) keep it. Traps and flags are each
  /// thread's own.
  Status gemm(const Gemm& gemm, const Operands& operands);

  /// Binds a problem to the kernel `gemm()` would use now. On a GPU a problem that promises no
  /// alignment is bound for addresses that are multiples of 16 bytes: for others say so
  /// (alignment = 2, say), or call gemm(), which looks at each call's addresses.
  Result<Plan> plan(const Gemm& gemm, int threads = 0);

  /// The same for all sizes of a range: the kernels that its table names are loaded now, so that no
  /// size is slow at its first call, and the first call of a size may be captured into a graph. The
  /// range need not be tuned: then this binds nothing yet.
  Result<RangePlan> plan(const GemmRange& range, int threads = 0);

  /// Where calls of a problem that are not made through this engine are counted; nothing where
  /// calls are not recorded. Errors: bad_input, unsupported (the problem, threads).
  Result<std::optional<CallLog>> call_log(const Gemm& gemm, int threads = 0);

  /// What was counted since the engine was opened, by problem; empty where calls are not recorded.
  /// Thread-safe.
  std::vector<CallCount> counted_calls() const;

  /// Packs B (stored as `gemm.b` says, `gemm.b_packed` set or not) for later calls of packed
  /// problems with the same n, k, batch and type of B: of every m, thread count, epilogue, alpha
  /// and beta, on any engine of this machine's CPU. `threads`: how many pack. CPU only. Errors:
  /// unsupported on a GPU.
  Result<PackedB> pack_b(const Gemm& gemm, const void* b, int threads = 0);

  /// The config that gemm() would use, where it came from, its timing, the configs that were slower
  /// and the source, as text.
  Result<std::string> explain(const Gemm& gemm, int threads = 0);

  /// The source alone, self-contained, with device, problem, config and compile command at its
  /// head. Errors: unsupported (gemm() would run a plain loop or the vendor's library).
  Result<std::string> source(const Gemm& gemm, int threads = 0);

  struct Impl;
  /// For kiln's own code.
  Impl& impl() { return *impl_; }

 private:
  explicit Engine(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with plans of ranges
};

/// File of the BLAS library that is raced beside CPU kernels: $KILN_BLAS, else the best of
/// OpenBLAS, BLIS, MKL and the reference BLAS that is installed; never kiln's own hook. Opens it,
/// once for a process. Empty: there is none.
KILN_API std::string_view blas_library();

/// kiln's version, "major.minor.patch".
KILN_API std::string_view version();

}  // namespace kiln
