// Code of a search's candidates: compiled on all cores, or taken from where it is kept.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/compiler.h"
#include "tuner/search/search.h"

namespace kiln {

struct CompiledCode {
  std::atomic<bool> done{false};  // set by the thread that compiled it, last
  Artifact artifact;
  std::string key;
  std::optional<Failure> failure;
};

class CandidateCode {
 public:
  /// `compiler` outlives it.
  CandidateCode(const SearchInput& input, Compiler& compiler);

  /// Begins to compile those that are new. For a CPU they are compiled when this returns: a compile
  /// beside a measurement would be measured too. A GPU's are timed as they come, the others
  /// compiling meanwhile.
  void compile(const std::vector<Config>& group);
  /// Of a config that was given to compile(); waits until it is compiled.
  const CompiledCode& of(const Config& config) const;
  /// Null where it was not rendered yet.
  const Artifact* artifact(const Config& config) const;

 private:
  void compile_one(const Config& config, CompiledCode& out) const;

  const Gemm gemm_;
  const DeviceCaps device_;
  const std::function<std::optional<Binary>(const Source&)> stored_;
  Compiler& compiler_;
  std::map<Config, CompiledCode> code_;
  std::vector<std::jthread> compiling_;  // after code_, so joined before that is destroyed
};

}  // namespace kiln
