// The proof that a kernel is right: seeded operands in guarded memory, poisoned outputs, an
// element-wise bound against a reference in higher precision. Knows a kernel only as something that
// can be called; knows nothing of processes, timing or databases.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kiln/engine.hpp"
#include "tuner/measured.h"

namespace kiln {

/// How many times the kernel is run. automatic: by the problem's size.
///   quick: every element on exact data, and uniform data with alpha and beta (2 runs).
///   usual: also in place (3 runs).
///   full: also new data of both kinds, no C at all, NaN and infinity in floating inputs, and
///   results in the denormal range where types and epilogue leave room for them (6 to 8 runs).
enum class Effort : std::uint8_t { automatic, quick, usual, full };

struct VerifyOptions {
  std::uint64_t seed = 1;  ///< each set of data has a seed of its own, counted up from this one
  Effort effort = Effort::automatic;
  /// False where there is known to be memory for the problem, as for a smaller neighbour of one
  /// that was asked for: the system is not asked, which a worker in its cage cannot.
  bool ask_for_room = true;
};

/// Runs the kernel once and returns when D is written. Operands hold plain pointers: for a problem
/// with b_packed, `b` is the unpacked B, and packing it is the callee's business. `threads` is 0.
/// An error ends the verification.
using RunKernel = std::function<Status(const Operands&)>;

/// alpha and beta of the runs on uniform data, inexact in binary on purpose. Integer sums that go
/// to a narrow type are scaled down, since nearly all of them would saturate.
std::pair<double, double> uniform_scalars(const Gemm& gemm);

using Verdict = tl::expected<void, Failure>;

/// Holds the operands and references of one problem, so that only the first check of many pays for
/// them. Move-only; not thread-safe.
class Verifier {
 public:
  /// Least bytes that a check takes: one set of inputs, every output and the reference.
  static double bytes_needed(const Gemm& gemm);
  /// Cheap: operands are made by the first check. Errors: bad_input, unsupported (invalid problem);
  /// device (there is less memory than a check takes).
  static Result<Verifier> make(const Gemm& gemm, const VerifyOptions& options = {});
  Verifier(Verifier&&) noexcept;
  Verifier& operator=(Verifier&&) noexcept;
  ~Verifier();

  /// Runs the kernel a few times. wrong_result names the first wrong element met, with what was
  /// expected, its bound and how to repeat it; out_of_bounds names what was written that is not D;
  /// resources says that there was no memory for the operands.
  /// A kernel that strays across an unreadable page faults here: run it where that may happen.
  /// `flushed`: what each product or addition may lose because the kernel's instructions take
  /// denormals for zero (flushed_by() in generator/space/space.h); 0: denormal results must be
  /// right to the last bit. Runs on integers never allow for it.
  Verdict check(const RunKernel& run, double flushed = 0);

  /// Whether `address` lies in this verifier's operands, guard pages included: for fault reports.
  bool owns(const void* address) const;

  const Gemm& gemm() const;
  /// Times that one check runs the kernel.
  int runs() const;

 private:
  struct Impl;
  explicit Verifier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One check of one kernel.
Verdict verify(const Gemm& gemm, const RunKernel& run, const VerifyOptions& options = {},
               double flushed = 0);

/// Problems beside `gemm` on which every size is ragged: sizes a little smaller (big ones cut down
/// to about 2^28 multiply-adds in all), leading dimensions beyond tight, alignment, layouts, types
/// and epilogue kept. For kernels that take their sizes at run time; none for an empty or 1×1×1
/// problem.
std::vector<Gemm> ragged_neighbours(const Gemm& gemm);

}  // namespace kiln
