// The parent's own check of D. A candidate's code runs in the worker's memory and could have it
// answer whatever it likes; here a kernel runs once more, in a fresh worker, on inputs whose seed
// this process draws, and this process compares D with its own reference. Knows no search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "generator/problem/device_caps.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/verify.h"

namespace kiln {

/// Uniform data from `seed`, made alike on both sides.
DataRecipe own_recipe(std::uint64_t seed);
/// Of the memory file that holds D, and its largest magnitude behind it: at least 1.
std::size_t output_bytes(const Gemm& gemm);
/// Where one of kBesideD lies that calls write, in bytes.
std::size_t place_beside_d(const Gemm& gemm, Operand which);
/// `operands` write to that memory.
void bind_outputs(const Gemm& gemm, std::byte* memory, Operands& operands);

/// Seconds that a check may take whose kernel runs on the CPU: a hang, not a busy machine, is what
/// the limit is to catch.
double seconds_on_cpu(const Gemm& gemm, double each_flop = 1e-8);

/// For kernels of one problem on the CPU; what runs on a GPU cannot reach the worker's memory, so
/// there the worker's own verdict stands. Keeps inputs and reference between checks. Move-only; not
/// thread-safe.
class OwnCheck {
 public:
  OwnCheck(const Gemm& gemm, const DeviceCaps& device);
  /// On the problem itself or a smaller one that is the same code (proof_problem); of a D too large
  /// to compare whole, on rows and columns that nobody but this process knows. wrong_result: D is
  /// not what a right kernel leaves, whatever a worker said. Else as Checker::check.
  Verdict check(const Config& config, const Binary& binary);

 private:
  Verdict prepare(const Gemm& gemm);

  Gemm gemm_;
  DeviceCaps device_;
  std::uint64_t seed_, lines_seed_;
  Gemm prepared_;  // what inputs_ were made for
  std::optional<DataSet> inputs_;
};

}  // namespace kiln
