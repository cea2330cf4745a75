// Which calls of an engine are counted, and under which problem.
#pragma once

#include <memory>
#include <vector>

#include "engine/call_recorder.h"
#include "engine/plan.h"
#include "engine/target.h"

namespace kiln {

class Recorder {
 public:
  /// `target` must outlive it, and may be filled in later.
  explicit Recorder(const Target& target) : target_(target) {}

  /// Opens the file that the options or $KILN_RECORD name. Errors: database, where the options do.
  Status open();
  bool records() const { return calls_ != nullptr; }
  /// Where calls of the problem are counted; null: they are not.
  CallCounter* counter_of(const Gemm& gemm, int threads) const;
  /// bare_plan(), recorded where calls are. A plan of a config is to get its `expected_ns`, too.
  std::shared_ptr<Plan::Impl> new_plan(const Gemm& gemm, int threads) const;
  /// Null: calls are not recorded. Plans keep it.
  const std::shared_ptr<CallRecorder>& calls() const { return calls_; }
  std::vector<CallCount> counts() const;
  void flush();

 private:
  const Target& target_;
  std::shared_ptr<CallRecorder> calls_;
};

}  // namespace kiln
