// What the long-running tests share: their command line, one seed a case, a count of failures, a
// command that repeats each, and the line that ends every run. Knows no problem and no database.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tuner/verify/data.h"

namespace kiln::soak {

/// Where a case says what it found.
class Report {
 public:
  Report(std::string program, std::uint64_t seed) : program_(std::move(program)), seed_(seed) {}

  /// Called before each case. `cases` are what must be repeated together to repeat this one.
  void begin(std::int64_t first, std::int64_t cases);
  /// Prints the sentence and the command that repeats the case.
  void failed(const std::string& what);

  std::int64_t failures() const { return failures_; }
  std::string repeat_command() const;

 private:
  std::string program_;
  std::uint64_t seed_;
  std::int64_t first_ = 0, cases_ = 1, failures_ = 0;
};

struct Program {
  const char* name;    // of the executable
  const char* things;  // what is counted, in the plural: "random problems"
  std::int64_t count;  // cases, where neither --count nor --seconds is given
  /// Before the first case and before the clock of --seconds runs.
  std::function<void()> prepare;
  /// Carries out case `index`. Its random draws come from `random` alone, a stream of its own, so
  /// that a case repeats without those before it.
  std::function<void(Report&, std::int64_t index, Random& random)> one;
  /// What else the summary says; called once, at the end.
  std::function<std::string()> details = nullptr;
  /// Cases that share state come in groups of so many: a failure is repeated from its group's
  /// start.
  std::int64_t group = 1;
  /// Seconds that one case may take; a longer one is a hang, which ends the program. 0 = the cases
  /// keep their own time.
  unsigned case_seconds = 0;
};

/// Parses the command line, runs cases until --count or --seconds is reached, prints the summary.
/// Returns the exit status: 0, 1 after any failure, 2 for wrong usage.
int run(const Program& program, int argc, char** argv);

/// 0 … count-1; count ≥ 1.
inline std::size_t below(Random& random, std::size_t count) {
  return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(count)));
}
inline bool one_in(Random& random, std::int64_t n) { return random.below(n) == 0; }
template <typename Range>
auto& any_of(Random& random, Range& values) {
  return values[below(random, std::size(values))];
}

}  // namespace kiln::soak
