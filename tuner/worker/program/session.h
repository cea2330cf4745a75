// One worker's answers: requests are read, the device's harness does the work. Knows the requests
// of tuner/worker/evaluator.cpp and tuner/verify/{check,own_check}.cpp; knows no device and no
// search.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/worker/program/harness.h"
#include "tuner/worker/protocol.h"

namespace kiln {

class Session {
 public:
  /// `status` is kept up to date with what is being done.
  explicit Session(WorkerStatus* status) : status_(status) {}

  /// Answers one request ("do": problem, screen, race, rest, check, run). Errors of the request
  /// itself (a missing field, no memory) come back as {"error": text}; a candidate's as its
  /// outcome. The first problem puts the process into its cage before any code is loaded, and the
  /// answer says so ("cage"). A candidate that breaks the device ends the process: the answer says
  /// so ("fault").
  nlohmann::json answer(const Message& request);
  /// The device is lost: nothing more can be asked of this process.
  bool doomed() const { return doomed_; }

 private:
  struct Finalists;
  /// A kernel that ran before, timed beside others.
  struct Reference {
    Config config;
    std::unique_ptr<Candidate> candidate;  // before what is timed of it
    std::unique_ptr<Contender> contender;
  };

  nlohmann::json dispatch(const Message& request);
  Status prepare(const nlohmann::json& request, bool timed);
  nlohmann::json screen(const Message& request);
  /// What the request names to time beside its candidate ("reference", its image the second file);
  /// null where it names nothing, or that cannot be loaded.
  Contender* reference(const Message& request);
  nlohmann::json race(const Message& request);
  nlohmann::json check(const Message& request);
  nlohmann::json run(const Message& request);
  std::optional<Failure> admit(const Message& request, std::size_t number, Finalists& finalists);
  tl::expected<nlohmann::json, Failure> race_rows(std::vector<nlohmann::json> rows,
                                                  Finalists& finalists, bool with_peer,
                                                  Harness::RaceRules rules);
  nlohmann::json fault(const std::string& detail, int candidate);
  void enter(WorkerStatus::Phase phase, int candidate = 0);

  WorkerStatus* status_;
  std::unique_ptr<Harness> harness_;
  std::optional<HarnessInput> prepared_;
  std::unique_ptr<Reference> reference_;  // loaded by the harness, so it goes first
  std::string cage_;                      // what enter_cage said; empty before the first problem
  bool doomed_ = false;
};

}  // namespace kiln
