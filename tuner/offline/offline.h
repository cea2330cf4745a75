// Tuning for a GPU that this machine lacks: the analytic model's best configs are compiled, and
// what the compiler made of them decides the order. Nothing runs. Knows no database.
#pragma once

#include <functional>
#include <vector>

#include "tuner/measured.h"
#include "tuner/search/hip_model.h"
#include "tuner/verify/verify.h"

namespace kiln {

/// The policy of predicted records. It is part of their key, so that none is ever taken for a
/// measured one.
inline constexpr std::string_view kPredictedPolicy = "predicted-hip-v1";

/// One config and what came of it.
struct Ranked {
  Config config;
  double model_ns = 0;  // the config's model, before there was a binary
  Source source = {};
  Result<Binary> binary = fail(ErrorCode::compiler, "not compiled");
  Result<HipForecast> forecast = fail(ErrorCode::compiler, "not compiled");
  bool proven = false;  // by prove_emulated()
};

struct RankOptions {
  int candidates = 32;
  double budget_seconds = 60;  // no compile is begun after
  std::function<void(int done, int total)> progress = {};
  std::function<bool()> cancelled = {};
};

/// Every candidate that was compiled, those with a forecast first, fastest first. Errors:
/// unsupported (no AMD target, or no family covers the problem), bad_input.
Result<std::vector<Ranked>> rank_offline(const Gemm& gemm, const DeviceCaps& device,
                                         Compiler& compiler, const RankOptions& options);

/// Whether the config's code is right, on the emulator in a worker, on a small problem that is the
/// same code. `resources`: no such problem, or nobody to check it.
Verdict prove_emulated(const Gemm& gemm, const DeviceCaps& device, const Config& config);

/// As a record keeps it: the forecast is its time, no samples stand behind it.
Measured predicted_row(const Ranked& ranked, std::string binary_key);

}  // namespace kiln
