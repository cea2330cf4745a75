// The worker's side of tuning on a GPU: its own context, operands and references made once, then
// many candidates loaded, verified and timed. The requests are those of session.h. A candidate that
// breaks the context ends the process: the answer then says so ("fault", "restart").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/measure/gpu_candidate.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/vendor_library.h"
#include "tuner/worker/protocol.h"

namespace kiln {

class GpuSession {
 public:
  explicit GpuSession(WorkerStatus* status);
  ~GpuSession();

  /// As Session::answer.
  nlohmann::json answer(const Message& request);
  /// The context is lost: nothing more can be asked of this process.
  bool doomed() const { return doomed_; }

 private:
  struct Problem;

  nlohmann::json prepare(const nlohmann::json& request, bool timed);
  nlohmann::json screen(const Message& request);
  nlohmann::json race(const Message& request);
  nlohmann::json check(const Message& request);
  Result<std::shared_ptr<const GpuTools>> tools_for(const nlohmann::json& request, Vendor vendor);
  Verdict verified(const GpuCandidate& candidate, const Config& config, bool main_too);
  nlohmann::json race_rows(std::vector<nlohmann::json> rows,
                           const std::vector<GpuCandidate>& candidates,
                           std::vector<GpuCalls>& calls, const std::vector<std::size_t>& who,
                           std::optional<GpuCalls> peer, double budget_ns);
  Status seek_peer();
  Result<std::optional<GpuCalls>> peer_calls();
  nlohmann::json fault(const std::string& detail, int candidate);
  void enter(WorkerStatus::Phase phase, int candidate = 0);

  WorkerStatus* status_;
  std::shared_ptr<const GpuTools> tools_;
  std::unique_ptr<Problem> problem_;
  std::string cage_;  // what enter_cage said; empty before the first problem
  bool doomed_ = false;
};

}  // namespace kiln
