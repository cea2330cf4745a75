// Code of a search's candidates: compiled on all cores, or taken from where it is kept. Configs
// that render to the same code share one binary.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/compiler.h"
#include "tuner/search/search.h"

namespace kiln {

/// One config's code. `artifact.source` names the config at its head, the binary may be of another
/// config's source with the same tokens.
struct CompiledCode {
  Artifact artifact;
  std::string key;
  std::optional<Failure> failure;
};

class CandidateCode {
 public:
  /// Told how many of a group are compiled, whenever that changes, and a few times a second: a
  /// compile may take seconds.
  using Told = std::function<void(std::size_t done, std::size_t total)>;
  /// Asked as often, with how many have come to their end, a binary or an error.
  using Enough = std::function<bool(std::size_t done)>;

  /// `compiler` outlives it.
  CandidateCode(const SearchInput& input, Compiler& compiler);

  /// Begins to compile those that are new. For a CPU they are compiled when this returns: a compile
  /// beside a measurement would be measured too. A GPU's are timed as they come, the others
  /// compiling meanwhile.
  /// `told` as long as it waits, on this thread. Once `enough(done)` it waits no longer: what is
  /// not compiled then is left.
  void compile(const std::vector<Config>& group, const Told& told = {}, const Enough& enough = {});
  /// Of a config that was given to compile(); waits until it is compiled. Null where it was left,
  /// or is when `enough` says so; a later compile() begins it anew.
  const CompiledCode* of(const Config& config, const Told& told = {}, const Enough& enough = {});
  /// Null where it was not asked for with of() yet, or could not be rendered.
  const Artifact* artifact(const Config& config) const;

 private:
  /// What all configs with the same tokens share; written by one thread, which sets `done` last.
  /// Neither a binary nor a failure: its compile was left.
  struct Shared {
    std::atomic<bool> done{false};
    std::shared_ptr<const Binary> binary;
    std::optional<Failure> failure;
  };
  /// A config on its way: rendered by one thread, which sets `rendered` last.
  struct Slot {
    std::atomic<bool> rendered{false};
    Source source;
    std::string key;
    std::shared_ptr<const Shared> shared;  // null: it could not be rendered
    std::optional<Failure> failure;
    CompiledCode answer;
    bool answered = false;
  };

  /// How far a group has come.
  struct Batch {
    std::atomic<std::size_t> next{0};
    std::size_t total = 0;
    std::mutex mutex;  // guards done
    std::condition_variable more;
    std::size_t done = 0;
  };

  /// Until `over` or `enough`, which are asked after each config that is done. Whether it is over.
  bool wait(const Told& told, const Enough& enough, const std::function<bool()>& over) const;
  /// Ends all compiles, those under way too where the compiler can.
  void leave();
  static bool was_left(const Slot& slot);
  void compile_one(const Config& config, Slot& out, const std::stop_token& stop);
  void compile_shared(const Source& source, Shared& out, const std::stop_token& stop) const;

  const Gemm gemm_;
  const DeviceCaps device_;
  const std::function<std::optional<Binary>(const Source&)> stored_;
  const std::function<void(const Source&, const Binary&)> compiled_;
  Compiler& compiler_;
  std::map<Config, Slot> slots_;
  std::shared_ptr<Batch> batch_;  // the newest group
  std::mutex mutex_;              // guards by_key_
  std::map<std::string, std::shared_ptr<Shared>> by_key_;
  std::vector<std::jthread> compiling_;  // last, so joined before the others are destroyed
};

}  // namespace kiln
