// kiln's own kernels on a GPU: seeded data, references in higher precision, comparisons. Compiled
// once for a device. Knows the canonical form of a problem; knows no candidates.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/telemetry.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/gpu_check_args.h"
#include "tuner/verify/reference.h"

namespace kiln {

/// Shared by all checks of one device; calls go to its own stream.
class GpuTools {
 public:
  /// Compiles them. Errors: compiler (none for the device), device.
  static Result<std::shared_ptr<const GpuTools>> make(gpu::SharedDevice device);

  const gpu::SharedDevice& device() const { return device_; }
  gpu::Stream stream() const { return stream_.get(); }
  /// Null where there is nothing to read.
  const gpu::Telemetry* sensors() const { return sensors_.get(); }

  /// Fills one operand of `gemm` (canonical) as kiln::fill does, with other values; exact data are
  /// whole numbers up to exact_limit(). Leaves alone what the problem does not have.
  Status fill(const Gemm& gemm, Operand which, Data kind, std::uint64_t seed, void* data) const;
  /// `bytes` is a multiple of 8.
  Status poison(void* data, std::size_t bytes, std::uint64_t pattern) const;
  /// Sum of everything in a buffer, for a look whether it changed.
  Result<std::uint64_t> checksum(const gpu::DeviceBuffer& buffer) const;
  /// Sums and magnitudes of the whole product, batch × m × n, tight. `k`: where its k lies in the k
  /// that blocks of scales divide.
  Status products(const Problem& problem, const KilnGpuArgs& args, double* sums, float* magnitudes,
                  const PartOfK& part = {}) const;

  /// How many things are wrong and the least of their indices.
  struct Count {
    std::uint64_t wrong = 0, first = 0;
  };
  /// What a right kernel may have of each line and block that the expression reduces and reads, in
  /// its program's order: where the intervals::Interval of each lies.
  struct ReducedLines {
    std::vector<check_args::Extra> of;
    std::vector<gpu::DeviceBuffer> memory;
    std::int64_t rows_before = 0;  ///< that a D which groups share has before the product's
  };
  Result<ReducedLines> reduced_lines(const Problem& problem, const KilnGpuArgs& args,
                                     const Scaling& scaling, const double* sums,
                                     const float* magnitudes, const void* c,
                                     std::int64_t rows_before) const;
  Result<Count> judge(const Problem& problem, const KilnGpuArgs& args, const Scaling& scaling,
                      const double* sums, const float* magnitudes, const void* c,
                      const ReducedLines& reduced) const;
  /// The same of what an expression stores beside D, or in it (kValueOfD): of lines and blocks the
  /// index is that of their first element.
  Result<Count> judge_output(const Problem& problem, const KilnGpuArgs& args,
                             const Scaling& scaling, const double* sums, const float* magnitudes,
                             const void* c, const ReducedLines& reduced, int output) const;
  /// The same of the scales that follow from D, by their index.
  Result<Count> judge_scales(const Problem& problem, const KilnGpuArgs& args,
                             const Scaling& scaling, const double* sums, const float* magnitudes,
                             const void* c) const;
  /// Between which two numbers of fp32 D's largest magnitude lies, or that it is NaN.
  struct Between {
    double least = 0, most = 0;
  };
  Result<Between> amax(const Problem& problem, const KilnGpuArgs& args, const Scaling& scaling,
                       const double* sums, const float* magnitudes, const void* c) const;
  /// Copies the lines of an operand that a list names, one for each row of the product, to behind
  /// one another.
  Status gather(const Gemm& gemm, Operand which, const void* operand, const void* index,
                void* to) const;
  /// Adds the rows of one part to what rows of D should be, and to what these may be off: both of
  /// rows_of_d × n. `index` and `weights` (null: none) begin with the part's first row.
  struct AddedRows {
    const std::int32_t* index = nullptr;
    const float* weights = nullptr;
    std::int64_t rows_of_d = 0;
    double *values = nullptr, *errors = nullptr;
  };
  Status add_rows(const Problem& part, const KilnGpuArgs& args, const Scaling& scaling,
                  const double* sums, const float* magnitudes, const AddedRows& added,
                  const ReducedLines& reduced) const;
  /// Compares a D that is the sum of such rows, and of beta · C.
  Result<Count> judge_added(const Problem& problem, const KilnGpuArgs& args, const Scaling& scaling,
                            const AddedRows& added, const void* c) const;
  /// Gives the elements of one part of D the pattern back. `index_d`: the list of D's rows, where
  /// they are by index.
  Status forget(const Gemm& gemm, const ProductPart& part, const gpu::DeviceBuffer& buffer,
                std::size_t first, std::uint64_t pattern, const void* index_d) const;
  /// The same of what a part writes beside its D: the scales of a list's product, what an
  /// expression stores.
  Status forget_beside(const Gemm& gemm, const ProductPart& part, Operand which,
                       const gpu::DeviceBuffer& buffer, std::size_t first,
                       std::uint64_t pattern) const;
  /// Bytes of an output's buffer that are part of no element and lost the pattern; `first` is where
  /// the output begins.
  Result<Count> around(const Gemm& gemm, Operand which, const gpu::DeviceBuffer& buffer,
                       std::size_t first, std::uint64_t pattern) const;
  /// The same where no byte is an element of D.
  Result<Count> changed(const gpu::DeviceBuffer& buffer, std::uint64_t pattern) const;

  /// Errors: device, when `bytes` are more than the device has free; as kiln::room_for.
  Status room_for(double bytes, const std::string& what) const;
  /// Waits for the stream. Errors: device, what went wrong since the last look.
  Status wait() const;

 private:
  GpuTools(gpu::SharedDevice device, gpu::SharedModule module, gpu::OwnedStream stream,
           gpu::DeviceBuffer counters)
      : device_(std::move(device)),
        module_(std::move(module)),
        stream_(std::move(stream)),
        counters_(std::move(counters)),
        sensors_(gpu::Telemetry::open(device_->bus_id())) {}
  template <typename... Args>
  Status call(const char* entry, Dim3 grid, Args... args) const;
  Result<Count> counted() const;
  /// Calls one of the kernels of expressions, whose counters begin at 0 and the largest number.
  Status judged(const Problem& problem, const KilnGpuArgs& args, const Scaling& scaling,
                const double* sums, const float* magnitudes, const void* c,
                const check_args::CheckedExpression& expression) const;
  /// Of counters that begin at 0 and `first`.
  Result<Count> compared(const char* entry, const Problem& problem, const KilnGpuArgs& args,
                         const Scaling& scaling, const double* sums, const float* magnitudes,
                         const void* c, std::uint64_t first = ~std::uint64_t{0}) const;
  /// Elements of D in a buffer, in bytes.
  struct DLines {
    std::int64_t first = 0, line = 1, lines = 0, pitch = 1, batch = 1, stride = 1;
  };
  Result<Count> changed_beside(const gpu::DeviceBuffer& buffer, std::uint64_t pattern,
                               const DLines& d) const;
  Status upload(void* to, std::span<const std::byte> from) const;

  gpu::SharedDevice device_;
  gpu::SharedModule module_;
  gpu::OwnedStream stream_;
  gpu::DeviceBuffer counters_;  // two words
  std::unique_ptr<const gpu::Telemetry> sensors_;
};

}  // namespace kiln
