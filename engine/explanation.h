// Why a problem runs what it runs, as values, for the command's reports; and in words, which fit
// one screen.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/record.h"
#include "cache/records/stored_roofline.h"
#include "kiln/engine.hpp"

namespace kiln {

struct Explanation {
  /// Candidates that failed for one reason.
  struct Failed {
    int count = 0;
    std::string example;  // what was said of the first one
  };

  BestKey key;  // the problem as its plans spell it, device, threads, policy, class
  std::string config;
  std::string made_for;  // a class of CPUs; empty: a device
  Match match = Match::reference;
  std::string reason;     // why this one: a sentence
  std::string summation;  // the order in which the kernel sums; empty: not known
  // What was stored of the problem itself:
  std::optional<Record> record = {};
  double peak_flops = 0;  // operations a second that these threads are known to reach
  std::optional<StoredRoofline> roof = {};
  bool older_templates = false;            // made by templates that have changed since
  int tried = 0;                           // configs
  std::vector<Measured> others;            // the other timed configs, fastest first
  std::map<std::string, Failed> failures;  // by kind
  std::string source;                      // of the kernel; empty where it was not generated
};

/// Errors: those of Engine::explain().
Result<Explanation> explanation(Engine& engine, const Gemm& gemm, int threads);

/// All but the source, in at most 24 rows of 100 columns for what kiln tunes.
std::string text(const Explanation& why);
/// The keys of `other` whose values are not those of `config`; all of it, of another family.
std::string difference(const Config& config, const Config& other);

}  // namespace kiln
