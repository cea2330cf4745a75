#include <map>
#include <set>
#include <utility>

#include "tuner/search/search.h"

namespace kiln {
namespace {

class ReplayEvaluator final : public Evaluator {
 public:
  explicit ReplayEvaluator(std::vector<Measured> rows) {
    for (Measured& row : rows) {
      unasked_.insert(row.config);
      auto& slot = row.round == Round::race ? raced_ : screened_;
      slot.emplace(row.config, std::move(row));
    }
  }

  std::vector<Measured> screen(const std::vector<Config>& group) override {
    std::vector<Measured> out;
    for (const Config& config : group) {
      unasked_.erase(config);
      const Measured* row = find(config, screened_, raced_);
      out.push_back(row ? *row : not_recorded(config));
    }
    return out;
  }

  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Measured> out;
    for (const Measured& finalist : finalists) {
      const Measured* row = find(finalist.config, raced_, screened_);
      out.push_back(row ? *row : finalist);
    }
    return out;
  }

  bool exhausted() const override { return unasked_.empty(); }

 private:
  using Rows = std::map<Config, Measured>;

  static const Measured* find(const Config& config, const Rows& first, const Rows& second) {
    if (const auto it = first.find(config); it != first.end()) return &it->second;
    if (const auto it = second.find(config); it != second.end()) return &it->second;
    return nullptr;
  }

  static Measured not_recorded(const Config& config) {
    Measured m;
    m.config = config;
    m.outcome = Failure{Failure::Kind::timed_out, "not recorded"};
    return m;
  }

  Rows screened_, raced_;
  std::set<Config> unasked_;
};

}  // namespace

std::unique_ptr<Evaluator> replay_bench(std::vector<Measured> rows) {
  return std::make_unique<ReplayEvaluator>(std::move(rows));
}

}  // namespace kiln
