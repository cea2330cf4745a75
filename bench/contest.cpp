#include "bench/contest.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/aligned_bytes.h"
#include "bench/result_check.h"
#include "engine/peak.h"
#include "runtime/cpu/cpu.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {
namespace {

// Threads that fell asleep while other contenders ran take 5 to 50 us to wake: calls shorter than
// this get an untimed call first. For longer ones that is under 1 %.
constexpr double kLeadInBelowNs = 5e6;
// Who needs this many times the fastest's time in a heat of so many samples is out of the race: one
// peer of 100 ms would leave a 1 ms race with a handful of rounds.
constexpr double kHopeless = 3.0;
constexpr int kHeatSamples = 3;

/// Somebody who can run set i.
struct Contestant {
  std::string name;
  Calls calls;
};

/// kiln's call of every set, B packed beforehand where the problem says so.
class KilnRuns {
 public:
  static Result<KilnRuns> make(Engine& engine, const Gemm& gemm, int threads,
                               const OperandSets& sets) {
    auto plan = engine.plan(gemm, threads);
    if (!plan) return tl::unexpected(plan.error());
    KilnRuns runs(std::make_shared<State>(State{*plan, {}, {}}));
    for (int i = 0; i < sets.count(); ++i) {
      Operands operands = sets[i];
      operands.threads = threads;
      if (gemm.b_packed) {
        auto packed = engine.pack_b(gemm, operands.b, threads);
        if (!packed) return tl::unexpected(packed.error());
        runs.state_->packed.push_back(*packed);
        operands.b = nullptr;
      }
      runs.state_->operands.push_back(operands);
    }
    // After the last push: addresses in the vector are final.
    for (std::size_t i = 0; i < runs.state_->packed.size(); ++i)
      runs.state_->operands[i].packed_b = &runs.state_->packed[i];
    return runs;
  }
  const Plan& plan() const { return state_->plan; }
  Status once() const { return state_->plan.run(state_->operands[0]); }
  Calls calls() const {
    // The first call was checked; the same arguments cannot fail later.
    return calls_over(int(state_->operands.size()), [state = state_](int set) {
      (void)state->plan.run(state->operands[std::size_t(set)]);
    });
  }

 private:
  struct State {
    Plan plan;
    std::vector<PackedB> packed;
    std::vector<Operands> operands;
  };
  explicit KilnRuns(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// One peer's kernel over every set.
struct PeerRuns {
  std::shared_ptr<PeerKernel> kernel;
  std::vector<AlignedBytes> packed;
  std::vector<Operands> operands;

  static Result<std::shared_ptr<PeerRuns>> make(Peer& peer, const Gemm& gemm, int threads,
                                                const OperandSets& sets) {
    auto kernel = peer.prepare(gemm, threads);
    if (!kernel) return tl::unexpected(kernel.error());
    auto runs = std::make_shared<PeerRuns>();
    runs->kernel = std::move(*kernel);
    const std::size_t bytes = runs->kernel->packed_b_bytes();
    for (int i = 0; i < sets.count(); ++i) {
      runs->operands.push_back(sets[i]);
      if (bytes == 0) continue;
      runs->packed.push_back(AlignedBytes(bytes));
      if (!runs->packed.back().data())
        return fail(ErrorCode::device, fmt::format("no memory for {} bytes of packed B", bytes));
      runs->kernel->pack_b(sets[i].b, runs->packed.back().data());
      runs->operands.back().b = runs->packed.back().data();
    }
    return runs;
  }
};

Calls calls_of(const std::shared_ptr<PeerRuns>& runs) {
  return calls_over(int(runs->operands.size()),
                    [runs](int set) { runs->kernel->run(runs->operands[std::size_t(set)]); });
}

/// Adds every supporting peer whose result is right; the others go to `result.excluded`.
std::vector<Contestant> admitted(const PeerSet& peers, const OperandSets& sets,
                                 const ResultCheck& check, ContestResult& result) {
  std::vector<Contestant> contestants;
  for (const auto& peer : peers.present) {
    if (!peer->supports(result.gemm, result.threads)) continue;
    auto runs = PeerRuns::make(*peer, result.gemm, result.threads, sets);
    if (!runs) {
      result.excluded.push_back({peer->name(), runs.error().message});
      continue;
    }
    poison_d(result.gemm, sets[0]);
    (*runs)->kernel->run((*runs)->operands[0]);
    if (auto fault = check.fault_of(sets[0].d)) {
      result.excluded.push_back({peer->name(), *fault});
      continue;
    }
    contestants.push_back({peer->name(), calls_of(*runs)});
  }
  return contestants;
}

/// Medians of one interleaved race, in the contestants' order.
std::vector<Timing> timings(const std::vector<Contestant>& contestants, int sets, int threads,
                            int samples, double budget_ns, const Gate& gate) {
  std::vector<Calls> calls;
  for (const Contestant& c : contestants) calls.push_back(c.calls);
  MeasureOptions measure;
  measure.sets = sets;
  measure.samples = samples;
  measure.min_samples = kHeatSamples;
  // Two clock readings want 20 us; waking a sleeping team wants more.
  measure.sample_ns = threads > 1 ? 200e3 : 20e3;
  measure.budget_ns = budget_ns;
  measure.lead_in_below_ns = kLeadInBelowNs;
  measure.gate = gate;
  std::vector<Timing> result;
  for (const Samples& s : race(calls, measure)) result.push_back(timing_of(s.ns));
  return result;
}

/// A short heat for all, then a race without those that are far behind; kiln, the last
/// contestant, is always in it. Who is out keeps the heat's figure.
void run_race(const std::vector<Contestant>& contestants, int sets, const ContestOptions& options,
              const Gate& gate, ContestResult& result) {
  const std::vector<Timing> heat =
      timings(contestants, sets, result.threads, kHeatSamples, options.budget_ns / 2, gate);
  double best = heat.back().median_ns;
  for (const Timing& t : heat) best = std::min(best, t.median_ns);
  std::vector<Contestant> finalists;
  for (std::size_t i = 0; i + 1 < contestants.size(); ++i) {
    result.peers[contestants[i].name] = heat[i];
    if (heat[i].median_ns <= kHopeless * best) finalists.push_back(contestants[i]);
  }
  finalists.push_back(contestants.back());
  const std::vector<Timing> final_times =
      timings(finalists, sets, result.threads, options.samples, options.budget_ns, gate);
  for (std::size_t i = 0; i + 1 < finalists.size(); ++i)
    result.peers[finalists[i].name] = final_times[i];
  result.kiln = final_times.back();
}

/// Operations a second of the fastest contestant with a correct result.
double fastest_rate(const ContestResult& result) {
  double ns = result.verified ? result.kiln.median_ns : 0;
  for (const auto& [peer, timing] : result.peers)
    if (ns <= 0 || timing.median_ns < ns) ns = timing.median_ns;
  return ns > 0 ? result.gemm.flops() / (ns * 1e-9) : 0;
}

}  // namespace

std::string ContestResult::best_peer() const {
  const auto best = std::min_element(peers.begin(), peers.end(), [](const auto& a, const auto& b) {
    return a.second.median_ns < b.second.median_ns;
  });
  return best == peers.end() ? std::string() : best->first;
}

double ContestResult::ratio() const {
  const std::string best = best_peer();
  return best.empty() || kiln.median_ns <= 0 ? 0 : peers.at(best).median_ns / kiln.median_ns;
}

Result<ContestResult> contest(Engine& engine, const PeerSet& peers, const Gemm& gemm, int threads,
                              const ContestOptions& options) {
  if (Status valid = validate(gemm); !valid) return tl::unexpected(valid.error());
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || gemm.batch == 0)
    return fail(ErrorCode::bad_input,
                fmt::format("{}: a problem with a size of 0 has nothing to time", text(gemm)));
  const auto device = detect_cpu(threads);
  if (!device) return tl::unexpected(device.error());
  auto sets = OperandSets::make(gemm, *device, options.seed);
  if (!sets) return tl::unexpected(sets.error());

  ContestResult result;
  result.gemm = gemm;
  result.threads = threads;
  const ResultCheck check(gemm, (*sets)[0], options.seed);
  std::vector<Contestant> contestants = admitted(peers, *sets, check, result);

  auto kiln = KilnRuns::make(engine, gemm, threads, *sets);
  if (!kiln) return tl::unexpected(kiln.error());
  result.config = kiln->plan().config();
  result.match = kiln->plan().match();
  poison_d(gemm, (*sets)[0]);
  if (Status ran = kiln->once(); !ran) return tl::unexpected(ran.error());
  const auto fault = check.fault_of((*sets)[0].d);
  result.verified = !fault;
  result.fault = fault.value_or("");
  contestants.push_back({"kiln", kiln->calls()});
  const auto probe = std::make_shared<SpeedGate>(threads, gemm.a.dtype);
  run_race(contestants, sets->count(), options, fma_gate(probe), result);
  result.peak_flops = raised_peak(engine, gemm, threads, probe->peak_flops(), fastest_rate(result));
  return result;
}

}  // namespace kiln
