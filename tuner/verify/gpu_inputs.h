// The inputs of a check on a GPU: data by seed with NaN where no kernel may look, rows in order
// where they are by index, and what their product should be. Knows no kernel and nothing that one
// writes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "generator/problem/groups.h"
#include "tuner/verify/gpu_tools.h"

namespace kiln {

/// Whole numbers, of which only equality is right; any; some of them NaN and infinity.
enum class GpuContents : std::uint8_t { exact, uniform, nonfinite };
/// As messages say it: "exact data".
std::string_view name(GpuContents contents);

/// The 8 bytes that memory around inputs, and what a run writes, is filled with: a NaN of the type
/// in every element, or the pattern that no integer sum of the test data meets.
std::uint64_t poison_pattern(DType type);
/// Bytes of a buffer whose contents are so many, which is filled and summed by words of 8.
std::size_t whole_words(std::int64_t bytes);
std::size_t buffer_bytes(const Gemm& gemm, Operand which);

/// One part of a run, as a problem without groups.
struct PartOfRun {
  Problem problem;
  std::int64_t group = 0;
  KilnGpuArgs args;
  const void* c = nullptr;  // what was given, which D may have taken the place of
  double* sums = nullptr;
  float* magnitudes = nullptr;
  std::int64_t rows_before = 0;  // that a D which groups share has before this one's
};

/// Move-only; not thread-safe.
class GpuInputs {
 public:
  /// `problem` and `tools` outlive it. Errors: device.
  static Result<GpuInputs> make(const GpuTools& tools, const Problem& problem, GpuContents contents,
                                std::uint64_t seed);

  GpuContents contents() const { return contents_; }
  bool exact() const { return contents_ == GpuContents::exact; }
  const std::vector<ProductPart>& parts() const { return parts_; }
  /// What fill() of data.h made of the operand `groups`.
  const void* groups() const { return groups_.data(); }
  /// Empty: not there, or an output.
  const gpu::DeviceBuffer& operator[](Operand which) const { return inputs_[index_of(which)]; }

  /// A call's arguments but for what it writes, and C and its scalars as nobody asked for them.
  KilnGpuArgs args() const;
  /// One part of a call with these arguments; `rows_of_d`: where D's rows lie in order, where they
  /// are by index.
  PartOfRun part(const ProductPart& part, const KilnGpuArgs& args, void* rows_of_d) const;
  /// Fills memory at `to` as an operand is.
  Status fill_like(Operand which, void* to) const;
  /// Whether all inputs are as they were made. Errors: device.
  Result<bool> unchanged() const;

 private:
  GpuInputs(const GpuTools& tools, const Problem& problem, GpuContents contents, std::uint64_t seed)
      : tools_(&tools), problem_(&problem), contents_(contents), seed_(seed) {}
  const Gemm& gemm() const { return problem_->gemm; }
  Data data() const { return exact() ? Data::exact : Data::uniform; }

  Status allocate();
  Status fill();
  Status spoil() const;
  Status spoil_behind_groups() const;
  Status spoil_groups() const;
  std::vector<std::int64_t> rows_without_name() const;
  Status put(DType type, const gpu::DeviceBuffer& to, std::int64_t at, double value) const;
  Status order_rows();
  Status multiply() const;
  Result<std::uint64_t> checksum() const;

  const GpuTools* tools_;
  const Problem* problem_;
  GpuContents contents_;
  std::uint64_t seed_;
  std::array<gpu::DeviceBuffer, kOperandCount> inputs_;
  std::vector<std::int32_t> groups_;
  std::vector<ProductPart> parts_;  // of the canonical problem
  gpu::DeviceBuffer rows_of_a_, scales_of_a_;
  gpu::DeviceBuffer sums_, magnitudes_;
  std::uint64_t checksum_ = 0;
};

}  // namespace kiln
