// Which candidates to try next: the analytic model's order, corrected by what was measured, mixed
// with neighbours of the best and random points, since the model may be wrong. Pure and seeded;
// must not know how candidates are run, nor the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "generator/space/space.h"
#include "tuner/measured.h"

namespace kiln {

class Proposer {
 public:
  /// `space` must outlive it.
  Proposer(const SearchSpace& space, std::uint64_t seed);

  /// Configs never proposed or seen before: up to `codes` that need a binary of their own, and up
  /// to `more` that share one with these or with earlier ones. Empty when none is left.
  std::vector<Config> next(int codes, int more);
  /// Learns from an outcome and never proposes its config again.
  void learn(const Measured& row);
  double predicted_ns(const Config& config) const;
  /// Whether it is a point of the space.
  bool knows(const Config& config) const { return index_.count(config) != 0; }
  std::size_t remaining() const { return remaining_; }

 private:
  /// A config as numbers: its family, then each field's value, numbered as it came into sight.
  using Point = std::vector<int>;
  using Picks = std::vector<std::size_t>;
  struct Observation {
    std::size_t index;
    double ns;  // 0 for a failure
  };

  void fit();
  double corrected(std::size_t index) const;
  /// Not seen, and of a code that has no binary yet.
  bool is_new(std::size_t index) const { return !seen_[index] && !made_[codes_[index]]; }
  void take(std::size_t index, Picks& picks);
  void take_ranked(const std::vector<double>& score, std::size_t count, Picks& picks);
  void take_first_of_families(std::size_t count, Picks& picks);
  void take_contrasts(std::size_t count, Picks& picks);
  void take_neighbours(std::size_t count, Picks& picks);
  void take_random(std::size_t count, Picks& picks);
  void take_of_made(const std::vector<double>& score, std::size_t count, Picks& picks);
  std::vector<std::size_t> fastest_seen() const;
  std::uint64_t random();

  const SearchSpace& space_;
  std::vector<Point> points_;
  std::vector<double> log_predicted_;
  std::map<Config, std::size_t> index_;
  std::vector<std::size_t> codes_;  // of each point: a number for all that share a binary
  std::vector<bool> seen_;
  std::vector<bool> made_;  // of each code: a config of it was seen
  std::size_t remaining_ = 0;
  std::vector<Observation> observations_;
  // [family * kMaxAxes + axis][number of the value]: log correction
  std::vector<std::vector<double>> effects_;
  std::vector<double> family_effect_;
  std::uint64_t state_;
};

}  // namespace kiln
