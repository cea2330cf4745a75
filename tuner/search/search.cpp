#include "tuner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "generator/space/summation.h"
#include "runtime/backend.h"
#include "runtime/work_counts.h"
#include "tuner/search/budget.h"
#include "tuner/search/finalists.h"
#include "tuner/search/no_winner.h"
#include "tuner/search/proposer.h"
#include "tuner/search/stopping.h"

namespace kiln {
namespace {

constexpr int kRaceAttempts = 3;

class Search {
 public:
  Search(const SearchInput& input, Evaluator& evaluator, SearchSpace space)
      : input_(input),
        evaluator_(evaluator),
        space_(std::move(space)),
        order_(space_.problem, input.device, input.determinism),
        proposer_(space_, input.options.seed),
        time_(input.time ? input.time : std::make_shared<Budget>(input.options.budget.count())) {
    result_.enumerated = static_cast<std::int64_t>(space_.legal.size());
    result_.rejected = space_.rejected;
  }

  Result<SearchResult> run() {
    count_work(Work::searches);
    report(Progress::Stage::space);
    resume();
    for (const auto& stored : {input_.incumbent, input_.guest})
      if (stored) screen_stored(*stored);
    if (!input_.race_alone) {
      screen_first();
      explore();
    }
    if (cancelled()) {
      result_.winner = best_when_cancelled();
    } else {
      race_finalists();
      if (!result_.winner) return no_winner(input_, result_.measured, latest_.size());
    }
    count_points();
    result_.seconds = seconds();
    report(Progress::Stage::done);
    return std::move(result_);
  }

 private:
  double seconds() const { return time_->spent(); }
  bool cancelled() const { return input_.options.cancelled && input_.options.cancelled(); }

  void report(Progress::Stage stage) const {
    if (!input_.options.progress) return;
    Progress p;
    p.stage = stage;
    p.done = static_cast<int>(latest_.size());
    p.total = static_cast<int>(space_.legal.size());
    p.seconds = seconds();
    if (best_) {
      p.best_ns = result_.measured[*best_].timing().median_ns;
      p.best_config = text(result_.measured[*best_].config);
    }
    input_.options.progress(p);
  }

  bool legal(const Config& config) const {
    return (!input_.allowed || input_.allowed(config)) &&
           broken_rule(space_.problem, space_.device, config).empty() && order_.allows(config);
  }

  bool eligible(std::size_t index) const {
    return result_.measured[index].ok() && result_.measured[index].verified;
  }
  double median(std::size_t index) const { return result_.measured[index].comparable_ns(); }

  void add(Measured row, bool teach) {
    if (teach) proposer_.learn(row);
    const std::size_t index = result_.measured.size();
    latest_[row.config] = index;
    result_.measured.push_back(std::move(row));
    if (eligible(index) && (!best_ || median(index) < median(*best_))) best_ = index;
  }

  void add_new(Measured row) {
    row.predicted_ns = proposer_.predicted_ns(row.config);
    const bool first_of_config = latest_.count(row.config) == 0;
    if (first_of_config) count_work(Work::candidates);
    add(std::move(row), first_of_config);
    if (!input_.sink) return;
    const Measured& stored = result_.measured.back();
    const Artifact* artifact = evaluator_.artifact(stored.config);
    Evidence evidence{stored};
    if (artifact) {
      evidence.source = &artifact->source;
      evidence.binary = artifact->binary.get();
    }
    input_.sink(evidence);
  }

  // A known row that an edited space no longer allows is evidence of another space: left out.
  void resume() {
    for (const Measured& row : input_.known) {
      if (!legal(row.config)) continue;
      add(row, latest_.count(row.config) == 0);
    }
    result_.known = result_.measured.size();
  }

  void screen_stored(const Config& config) {
    if (latest_.count(config) || !legal(config)) return;
    for (Measured& row : evaluator_.screen({config})) add_new(std::move(row));
  }

  /// What the model thinks of the space's best point.
  double best_predicted_ns() const {
    double best = 1e300;
    for (const Config& c : space_.legal) best = std::min(best, proposer_.predicted_ns(c));
    return best;
  }

  // On a CPU those kernels of other problems that the model does not think much slower here than
  // its own best, some at a time: of long calls, eight would leave nothing for the model's own
  // choices.
  void screen_first() {
    if (input_.first.empty() || candidates_left() == 0) return;
    constexpr std::size_t kAtOnce = 2;
    constexpr double kShare = 0.2, kSlower = 1.5;
    const bool host = on_host(space_.device);
    const double slowest = host ? kSlower * best_predicted_ns() : 1e300;
    std::vector<Config> group;
    for (const Config& config : input_.first)
      if (latest_.count(config) == 0 && legal(config) && !cancelled() &&
          proposer_.predicted_ns(config) <= slowest)
        group.push_back(config);
    group.resize(std::min(group.size(), candidates_left()));
    const std::size_t at_once = host ? kAtOnce : group.size();
    for (std::size_t i = 0; i < group.size() && !cancelled(); i += at_once) {
      if (i > 0 && seconds() > kShare * input_.options.budget.count()) break;
      const auto begin = group.begin() + std::ptrdiff_t(i);
      const auto end = group.begin() + std::ptrdiff_t(std::min(i + at_once, group.size()));
      for (Measured& row : evaluator_.screen({begin, end})) add_new(std::move(row));
      report(Progress::Stage::screen);
    }
  }

  // The size of a group follows from the measured time of a call, never from the clock, so that a
  // replay decides alike.
  struct Group {
    int codes, more;
  };
  Group group_size() {
    const double call_ns = best_ ? median(*best_) : best_predicted_ns();
    // A GPU's candidates compile while others are timed: larger groups keep all cores at it.
    if (!on_host(space_.device)) return {call_ns > 5e6 ? 8 : 32, 0};
    if (call_ns > 30e6) return {call_ns > 200e6 ? 2 : 4, 0};
    // Configs of the binaries that there are cost a timing, new ones a compilation too: some of
    // them go with each group, and every fourth group is theirs alone.
    constexpr int kCodes = 8;
    constexpr double kCompileNs = 120e6, kScreenNs = 4e6, kCallsOfScreening = 16;
    const double timings = kCompileNs / (kScreenNs + kCallsOfScreening * call_ns);
    const int each = kCodes * std::clamp(static_cast<int>(timings / 2), 0, 2);
    return ++groups_ % 4 == 0 ? Group{0, std::max(kCodes, 3 * each)} : Group{kCodes, each};
  }

  /// Of those that the caller allows in all.
  std::size_t candidates_left() const {
    if (input_.options.candidates == 0) return space_.legal.size();
    const auto most = static_cast<std::size_t>(input_.options.candidates);
    return most - std::min(most, latest_.size());
  }

  void explore() {
    result_.end = explored();
    // A part of the space says nothing of the whole.
    if (input_.allowed && result_.end == SearchResult::End::space)
      result_.end = SearchResult::End::evaluator;
  }

  SearchResult::End explored() {
    using End = SearchResult::End;
    const double budget = input_.options.budget.count() * (1 - race_share(input_.options.policy));
    double last_group = 0;
    bool begun = best_.has_value();
    int without_kernel = 0;  // groups that the budget cut short before one of them was right
    while (proposer_.remaining() > 0 && !evaluator_.exhausted() && !cancelled()) {
      // Begins no group of which the greater part would lie beyond the budget, but the first one
      // where nothing else could win.
      if (std::exchange(begun, best_.has_value()) && seconds() + 0.5 * last_group > budget)
        return End::budget;
      if (candidates_left() == 0) return End::candidates;
      const double begin = seconds();
      const auto [codes, more] = group_size();
      std::vector<Config> group = proposer_.next(codes, more);
      group.resize(std::min(group.size(), candidates_left()));
      std::vector<Measured> rows = evaluator_.screen(group);
      const bool cut_short = rows.size() < group.size();
      for (Measured& row : rows) add_new(std::move(row));
      last_group = seconds() - begin;
      report(Progress::Stage::screen);
      constexpr int kMostWithout = 3;
      if (cut_short && (best_ || cancelled() || ++without_kernel == kMostWithout))
        return cancelled() ? End::cancelled : evaluator_.exhausted() ? End::evaluator : End::budget;
    }
    return proposer_.remaining() == 0 ? End::space : cancelled() ? End::cancelled : End::evaluator;
  }

  /// Counts points of the space only: a peer in the race is none.
  void count_points() {
    for (const auto& [config, index] : latest_)
      if (proposer_.knows(config))
        ++(result_.measured[index].ok() ? result_.timed : result_.failed);
  }

  /// The last rows that `wanted` takes, the fastest first.
  template <typename Wanted>
  std::vector<std::size_t> by_time(const Wanted& wanted) const {
    std::vector<std::size_t> out;
    for (const auto& [config, index] : latest_)
      if (wanted(index)) out.push_back(index);
    std::sort(out.begin(), out.end(), [&](std::size_t x, std::size_t y) {
      return std::pair(median(x), x) < std::pair(median(y), y);
    });
    return out;
  }

  bool under_load() const { return input_.options.policy == TuningPolicy::sustained; }

  void join(std::vector<std::size_t>& entrants, std::optional<std::size_t> index) const {
    if (index && std::find(entrants.begin(), entrants.end(), *index) == entrants.end())
      entrants.push_back(*index);
  }

  std::vector<std::size_t> finalists() const {
    std::vector<std::size_t> out = by_time([&](std::size_t index) {
      return eligible(index) && result_.measured[index].round != Round::screen;
    });
    if (!out.empty()) {
      const Finalists rule = finalists_rule(space_.device, input_.options, median(out.front()));
      while (out.size() > rule.most || median(out.back()) > rule.ratio * median(out.front()))
        out.pop_back();
    }
    join(out, row_of(input_.incumbent));
    join(out, row_of(input_.guest));
    return out;
  }

  /// Who did not race and was screened faster than the winner raced, by what a race takes longer
  /// than screening; with the winner and the incumbent. A candidate that was screened too fast by
  /// chance leaves others too slow to race, and would win beside few or none (fp64 64³ on a Zen 4:
  /// 12.4 us, alone in its race; fifteen others 9.2 to 9.6). Too few in a race do not tell what it
  /// takes longer: then their screening is believed.
  std::vector<std::size_t> overlooked(const std::vector<std::size_t>& entrants,
                                      std::size_t first) const {
    std::vector<double> longer;
    for (const std::size_t index : entrants) {
      const std::size_t raced = latest_.at(result_.measured[index].config);
      if (raced >= first && eligible(raced)) longer.push_back(median(raced) / median(index));
    }
    std::sort(longer.begin(), longer.end());
    constexpr std::size_t kTell = 4;
    const double usual = longer.size() < kTell ? 1 : longer[longer.size() / 2];
    const double bound = median(*result_.winner) / usual;
    std::vector<std::size_t> out = by_time([&](std::size_t index) {
      const Measured& row = result_.measured[index];
      return index < first && row.ok() && proposer_.knows(row.config) && median(index) < bound;
    });
    if (out.empty()) return out;
    out.resize(std::min(out.size(), finalists_rule(space_.device, input_.options, bound).most));
    join(out, result_.winner);
    join(out, row_of(input_.incumbent));
    return out;
  }

  std::optional<std::size_t> row_of(const std::optional<Config>& config) const {
    if (!config) return std::nullopt;
    const auto it = latest_.find(*config);
    if (it == latest_.end() || !eligible(it->second)) return std::nullopt;
    return it->second;
  }

  // A finalist may still fail (a hang that only a longer run shows): then the next best race.
  void race_finalists() {
    for (int attempt = 0; attempt < kRaceAttempts && !result_.winner; ++attempt) {
      const std::vector<std::size_t> entrants = finalists();
      if (entrants.empty()) return;
      const std::size_t first = race(entrants);
      result_.winner = fastest_from(first);
      // Screening says nothing of times under load.
      if (!result_.winner || cancelled() || time_->over() || under_load()) continue;
      const std::vector<std::size_t> others = overlooked(entrants, first);
      if (others.empty()) continue;
      const auto winner = fastest_from(race(others));
      // The time may have ended before the first race's winner was in.
      if (winner && eligible(latest_.at(result_.measured[*result_.winner].config)))
        result_.winner = winner;
    }
  }

  /// The first of the rows that it adds.
  std::size_t race(const std::vector<std::size_t>& entrants) {
    report(Progress::Stage::race);
    std::vector<Measured> rows;
    for (const std::size_t index : entrants) {
      rows.push_back(result_.measured[index]);
      rows.back().drift = 1;  // they are timed together
      // A race that is cut off leaves this one's time; that of another policy's race is none here.
      if (under_load()) rows.back().round = Round::second;
    }
    const std::size_t first = result_.measured.size();
    for (Measured& row : evaluator_.race(rows)) {
      // Not raced, for the time was over: nothing new is known of it.
      if (under_load() && row.ok() && row.round != Round::race)
        add(std::move(row), false);
      else
        add_new(std::move(row));
    }
    return first;
  }

  /// Of the race's rows, those from `first` on. Who left it early, or often ran while the core was
  /// disturbed, has few samples, and does not win by their luck: only by an interval below that of
  /// the fastest of many.
  std::optional<std::size_t> fastest_from(std::size_t first) const {
    const auto raced = [&](std::size_t i) {
      return eligible(i) && (!under_load() || result_.measured[i].round == Round::race);
    };
    int most = 0;
    for (std::size_t i = first; i < result_.measured.size(); ++i)
      if (raced(i)) most = std::max(most, result_.measured[i].timing().samples);
    std::optional<std::size_t> fastest;
    const auto take = [&](const auto& may_win) {
      for (std::size_t i = first; i < result_.measured.size(); ++i)
        if (raced(i) && may_win(result_.measured[i].timing()) &&
            (!fastest || median(i) < median(*fastest)))
          fastest = i;
    };
    take([&](const Timing& t) { return 2 * t.samples >= most; });
    if (!fastest) return fastest;
    const double low = result_.measured[*fastest].timing().low_ns;
    take([&](const Timing& t) { return t.high_ns < low; });
    const auto incumbent = row_of(input_.incumbent);
    if (incumbent && *incumbent >= first && *incumbent != *fastest && raced(*incumbent) &&
        !yields(result_.measured[*incumbent].timing(), result_.measured[*fastest].timing()))
      return incumbent;
    return fastest;
  }

  std::optional<std::size_t> best_when_cancelled() const {
    if (under_load()) return std::nullopt;  // it was timed by another policy
    const auto incumbent = row_of(input_.incumbent);
    return incumbent ? incumbent : best_;
  }

  const SearchInput& input_;
  Evaluator& evaluator_;
  const SearchSpace space_;
  const AllowedSummation order_;
  Proposer proposer_;
  SearchResult result_;
  std::map<Config, std::size_t> latest_;  // the last row of each config
  std::optional<std::size_t> best_;
  int groups_ = 0;
  const std::shared_ptr<const Budget> time_;
};

}  // namespace

Result<SearchResult> search(const SearchInput& input, Evaluator& evaluator) {
  if (input.options.budget.count() <= 0)
    return fail(ErrorCode::bad_input,
                fmt::format("budget = {} s: must be positive", input.options.budget.count()));
  return Problem::of(input.gemm)
      .and_then([&](const Problem& problem) {
        return space_for(problem, input.device, input.determinism);
      })
      .and_then([&](SearchSpace space) -> Result<SearchResult> {
        if (input.allowed)
          std::erase_if(space.legal, [&](const Config& c) { return !input.allowed(c); });
        if (space.legal.empty())
          return fail(ErrorCode::unsupported,
                      fmt::format("no kernel family has a legal config for '{}' on {}",
                                  text(input.gemm), input.device.arch));
        return Search(input, evaluator, std::move(space)).run();
      });
}

}  // namespace kiln
