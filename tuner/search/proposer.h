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
#include "tuner/measure/measured.h"

namespace kiln {

class Proposer {
 public:
  /// `space` must outlive it.
  Proposer(const SearchSpace& space, std::uint64_t seed);

  /// Up to `count` configs never proposed or seen before, most promising first; empty when none is
  /// left.
  std::vector<Config> next(int count);
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
  bool take(std::size_t index, Picks& picks);
  void take_ranked(const std::vector<double>& score, std::size_t count, Picks& picks);
  void take_first_of_families(std::size_t count, Picks& picks);
  void take_neighbours(std::size_t count, Picks& picks);
  void take_random(std::size_t count, Picks& picks);
  std::uint64_t random();

  const SearchSpace& space_;
  std::vector<Point> points_;
  std::vector<double> log_predicted_;
  std::map<Config, std::size_t> index_;
  std::vector<bool> seen_;
  std::size_t remaining_ = 0;
  std::vector<Observation> observations_;
  // [family * kMaxAxes + axis][number of the value]: log correction
  std::vector<std::vector<double>> effects_;
  std::vector<double> family_effect_;
  std::uint64_t state_;
};

}  // namespace kiln
