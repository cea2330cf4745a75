// Verification in this process's memory, for code that the CPU runs: a GPU's code, too, where the
// emulator runs it. Keeps operands and references between candidates. Knows no code and no timing.
#pragma once

#include <functional>
#include <optional>

#include "tuner/worker/program/harness.h"

namespace kiln {

/// Code as a verifier calls it, on one problem that it covers. Errors: device (it cannot be loaded
/// for that problem).
using CodeOn = std::function<Result<RunKernel>(const Gemm&)>;

class Verifiers {
 public:
  /// Errors: bad_input, unsupported (invalid problem), device (no memory).
  static Result<Verifiers> make(const HarnessInput& input);

  /// As Candidate's; `flushed` as Verifier::check's.
  Verdict check(const CodeOn& code, double flushed);
  Verdict check_ragged(const CodeOn& code, const Config& config, double flushed);

 private:
  explicit Verifiers(const HarnessInput& input, Verifier problem)
      : input_(input), problem_(std::move(problem)) {}

  HarnessInput input_;
  Verifier problem_;
  std::optional<Verifier> ragged_;  // of the last candidate's neighbour
};

}  // namespace kiln
