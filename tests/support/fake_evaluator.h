// A bench that runs nothing: the analytic model's prediction is the measurement, and time runs out
// after kScreened candidates.
#pragma once

#include <memory>
#include <vector>

#include "tuner/search/search.h"

namespace kiln::test {

class FakeEvaluator : public Evaluator {
 public:
  static constexpr std::size_t kScreened = 12;
  explicit FakeEvaluator(const SearchInput& input)
      : problem_(Problem::of(input.gemm).value()), device_(input.device) {}

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    std::vector<Measured> rows;
    for (const Config& config : group) {
      if (screened_ == kScreened) break;
      rows.push_back(row(config, Round::second));
      ++screened_;
    }
    return rows;
  }
  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Measured> rows;
    for (const Measured& finalist : finalists) rows.push_back(row(finalist.config, Round::race));
    return rows;
  }

 private:
  Measured row(const Config& config, Round round) const {
    Measured measured;
    measured.config = config;
    measured.predicted_ns = predict_ns(problem_, device_, config);
    const double ns = measured.predicted_ns;
    measured.outcome = Timing{.median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 9};
    measured.round = round;
    measured.verified = true;
    measured.binary_key = "fake";
    return measured;
  }

  Problem problem_;
  DeviceCaps device_;
  std::size_t screened_ = 0;
};

inline Result<std::unique_ptr<Evaluator>> fake_bench(const SearchInput& input, Compiler&) {
  return std::make_unique<FakeEvaluator>(input);
}

}  // namespace kiln::test
