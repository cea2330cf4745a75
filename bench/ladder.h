// `kiln bench --ladder`: one shape climbed from the plainest kernel to the tuned one, step by step,
// each step a point of one family's space, beside the vendor's library. Knows no command line.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/contest.h"

namespace kiln {

/// One step: what is new in it, and its config.
struct Rung {
  std::string_view name, config;
};

struct Ladder {
  std::string_view dtype;  // as the command names it
  std::string_view shape;  // climbed when none is given
  std::span<const Rung> rungs;
};

/// Every ladder there is. A ladder's configs are legal for its own shape on sm_90a.
std::span<const Ladder> ladders();
/// Errors: bad_input, listing what there is.
Result<Ladder> ladder_named(std::string_view dtype);

struct RungResult {
  Rung rung;
  Timing timing;
  double tflops = 0;
  double share = 0;  // the library's time over this one's; 0: no library ran
  bool verified = false;
  std::string fault;  // why it was not raced, or is wrong
  GpuConditions conditions;
};

struct LadderResult {
  Gemm gemm;
  std::string library_note;  // why there is no library, or nothing
  Timing library;
  double library_tflops = 0;
  std::vector<RungResult> rungs;
};

struct LadderOptions {
  std::string device = "cuda:0";
  Gemm gemm;
  std::uint64_t seed = 1;
  int samples = 11;
  std::function<void(const RungResult&)> on_rung;
  std::function<bool()> cancelled;  ///< asked before each rung
};

/// A rung that is not legal for the shape or device, does not compile or is wrong says so and the
/// next one is climbed. Errors: bad_input (the device's name), device, compiler.
Result<LadderResult> climb(const Ladder& ladder, const LadderOptions& options);

}  // namespace kiln
