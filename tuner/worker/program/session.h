// One problem inside the worker: operands and references made once, then many candidates loaded,
// verified and timed. Knows the requests of tuner/worker/bench.cpp; knows no search.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/verify.h"
#include "tuner/worker/protocol.h"

namespace kiln {

class Session {
 public:
  /// `status` is kept up to date with what is being done.
  explicit Session(WorkerStatus* status);
  ~Session();

  /// Answers one request ("do": problem, screen, race, check, run). Errors of the request itself (a
  /// missing field, no memory) come back as {"error": text}; a candidate's as its outcome. The
  /// first that brings code puts the process into its cage before the code is loaded, and the
  /// answer says so ("cage"); a process therefore serves one problem.
  nlohmann::json answer(const Message& request);

 private:
  struct Problem;
  struct Check;

  nlohmann::json prepare(const nlohmann::json& request);
  nlohmann::json screen(const Message& request);
  nlohmann::json race(const Message& request);
  nlohmann::json check(const Message& request);
  nlohmann::json run(const Message& request);
  Status open_for(const Gemm& gemm, int threads);
  void confine(int threads, std::optional<std::int64_t> set_bytes);
  Result<Verdict> admit(const nlohmann::json& entry, BoundKernel& kernel);
  std::vector<Samples> run_race(const std::vector<Calls>& contenders, double budget_ns) const;
  void enter(WorkerStatus::Phase phase, int candidate = 0);

  WorkerStatus* status_;
  std::unique_ptr<Problem> problem_;
  std::shared_ptr<Check> check_;  // what `check` keeps between requests
  std::string cage_;              // what enter_cage said; empty before
};

}  // namespace kiln
