// Races on this machine's CPU, in the caller's memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "bench/result_check.h"
#include "bench/track.h"
#include "engine/plan.h"
#include "generator/problem/did_you_mean.h"
#include "runtime/cpu/cpu.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {
namespace {

// Who needs this many times the fastest's time in a heat of so many samples is out of the race: one
// peer of 100 ms would leave a 1 ms race with a handful of rounds.
constexpr double kHopeless = 3.0;
constexpr int kHeatSamples = 3;

/// Somebody who can run set i.
struct Contestant {
  std::string name;
  Calls calls;
};

/// A plan, or a peer's kernel, and the operands of every set as it reads them.
struct PlanRuns {
  Plan plan;
  std::deque<PackedB> packed;  // does not move when it grows
  std::vector<Operands> operands;
};
struct PeerRuns {
  std::unique_ptr<PeerKernel> kernel;
  std::vector<std::shared_ptr<std::byte[]>> packed;
  std::vector<Operands> operands;
};

class HostContest final : public Contest {
 public:
  HostContest(const PeerSet& peers, const Gemm& gemm, int threads, OperandSets sets,
              std::uint64_t seed)
      : peers_(peers), gemm_(gemm), threads_(threads), seed_(seed), sets_(std::move(sets)) {}

  Status enter(Engine& engine, const Plan& plan) override {
    const auto runs = std::make_shared<PlanRuns>(PlanRuns{plan, {}, {}});
    for (int i = 0; i < sets_.count(); ++i) {
      Operands& operands = runs->operands.emplace_back(sets_[i]);
      operands.threads = threads_;
      if (!gemm_.b_packed) continue;
      auto packed = engine.pack_b(gemm_, operands.b, threads_);
      if (!packed) return tl::unexpected(packed.error());
      operands.packed_b = &runs->packed.emplace_back(std::move(*packed));
      operands.b = nullptr;
    }
    if (!first_) first_ = runs;
    // What ran once cannot fail with the same arguments.
    if (Status ran = plan.run(runs->operands[0]); !ran) return ran;
    plans_.push_back({"kiln", calls_over(sets_.count(), [runs](int set) {
                        (void)runs->plan.run(runs->operands[std::size_t(set)]);
                      })});
    return {};
  }

  Result<std::optional<std::string>> fault() override {
    poison_d(gemm_, sets_[0]);
    if (Status ran = first_->plan.run(first_->operands[0]); !ran)
      return tl::unexpected(ran.error());
    return check(false).fault_of(sets_[0].d);
  }

  Status admit_peers(std::vector<Excluded>& excluded) override {
    for (const auto& peer : peers_.present) {
      if (!peer->supports(gemm_, threads_)) continue;
      auto admitted = prepared(*peer);
      if (admitted)
        admitted_.push_back(std::move(*admitted));
      else
        excluded.push_back({peer->name(), admitted.error().message});
    }
    return {};
  }

  /// A short heat for all, then a race without the peers that are far behind: they keep the heat's
  /// figure.
  Result<RaceTimes> race(int samples, double budget_ns) override {
    const auto probe = std::make_shared<SpeedGate>(threads_, gemm_.a.dtype);
    const SampleGate gate = fma_gate(probe);
    std::vector<Contestant> running = plans_;
    running.insert(running.end(), admitted_.begin(), admitted_.end());
    RaceTimes result;
    const auto run = [&](int wanted, double budget) {
      const std::vector<Timing> times = timings(running, wanted, budget, gate);
      result.plans.assign(times.begin(), times.begin() + std::ptrdiff_t(plans_.size()));
      for (std::size_t i = plans_.size(); i < times.size(); ++i)
        result.peers[running[i].name] = times[i];
      return times;
    };
    if (!admitted_.empty()) {
      const std::vector<Timing> heat = run(kHeatSamples, budget_ns / 2);
      double best = heat.front().median_ns;
      for (const Timing& t : heat) best = std::min(best, t.median_ns);
      for (std::size_t i = running.size(); i-- > plans_.size();)
        if (heat[i].median_ns > kHopeless * best)
          running.erase(running.begin() + std::ptrdiff_t(i));
    }
    run(samples, budget_ns);
    result.probed_flops = probe->peak_flops();
    return result;
  }

 private:
  /// Errors: why the peer cannot be raced, its wrong result among it.
  Result<Contestant> prepared(Peer& peer) {
    auto kernel = peer.prepare(gemm_, threads_);
    if (!kernel) return tl::unexpected(kernel.error());
    const auto runs = std::make_shared<PeerRuns>(PeerRuns{std::move(*kernel), {}, {}});
    const std::size_t bytes = runs->kernel->packed_b_bytes();
    for (int i = 0; i < sets_.count(); ++i) {
      Operands& operands = runs->operands.emplace_back(sets_[i]);
      if (bytes == 0) continue;
      const auto& packed = runs->packed.emplace_back(aligned_bytes(std::int64_t(bytes)));
      if (!packed)
        return fail(ErrorCode::device, fmt::format("no memory for {} bytes of packed B", bytes));
      runs->kernel->pack_b(operands.b, packed.get());
      operands.b = packed.get();
    }
    poison_d(gemm_, sets_[0]);
    runs->kernel->run(runs->operands[0]);
    if (const auto fault = check(peer.rounds_products()).fault_of(sets_[0].d))
      return fail(ErrorCode::internal, *fault);
    return Contestant{peer.name(), calls_over(sets_.count(), [runs](int set) {
                        runs->kernel->run(runs->operands[std::size_t(set)]);
                      })};
  }

  /// Made when first asked for, and then for every contestant that rounds alike.
  const ResultCheck& check(bool rounds_products) {
    std::optional<ResultCheck>& made = rounds_products ? rounded_check_ : check_;
    if (!made) made.emplace(gemm_, sets_[0], seed_, rounds_products);
    return *made;
  }

  /// Medians of one interleaved race, in the contestants' order.
  std::vector<Timing> timings(const std::vector<Contestant>& contestants, int samples,
                              double budget_ns, const SampleGate& gate) {
    std::vector<Calls> calls;
    for (const Contestant& c : contestants) calls.push_back(c.calls);
    MeasureOptions measure;
    measure.samples = samples;
    measure.min_samples = kHeatSamples;
    // Two clock readings want 20 us; waking a sleeping team wants more.
    measure.sample_ns = threads_ > 1 ? 200e3 : 20e3;
    measure.budget_ns = budget_ns;
    measure.lead_in_below_ns = kLeadInBelowNs;
    measure.gate = gate;
    measure.settle_ns = settle_ns(sets_.count());
    measure.next_set = &next_set_;
    std::vector<Timing> result;
    for (const Samples& s : kiln::race(calls, measure)) result.push_back(timing_of(s.ns));
    return result;
  }

  const PeerSet& peers_;
  Gemm gemm_;
  int threads_;
  std::uint64_t seed_;
  OperandSets sets_;
  std::int64_t next_set_ = 0;
  std::optional<ResultCheck> check_, rounded_check_;
  std::shared_ptr<PlanRuns> first_;
  std::vector<Contestant> plans_, admitted_;
};

/// Why a peer of this name is not there; empty where nothing is known of it.
std::string why_absent(const PeerSet& set, const std::string& name) {
  // "onednn" is the beginning of "onednn3_matmul" too: the longest is meant.
  const AbsentPeer* best = nullptr;
  for (const AbsentPeer& absent : set.absent)
    if (name.starts_with(absent.name) && (!best || best->name.size() < absent.name.size()))
      best = &absent;
  return best ? best->reason : "";
}

/// Keeps the peers that were asked for; all when none were named.
Status keep_named(PeerSet& set, const std::vector<std::string>& names) {
  // Who names a file wants it raced.
  for (const AbsentPeer& absent : set.absent)
    if (absent.given) return fail(ErrorCode::bad_input, absent.reason);
  if (names.empty()) return {};
  std::vector<std::string> known;
  for (const auto& peer : set.present) known.push_back(peer->name());
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      if (const std::string why = why_absent(set, name); !why.empty())
        return fail(ErrorCode::bad_input,
                    fmt::format("peer = \"{}\": not installed: {}", name, why));
      return fail(ErrorCode::bad_input,
                  fmt::format("peer = \"{}\": no such peer; there are {}{}", name,
                              fmt::join(known, ", "), did_you_mean(name, known)));
    }
  std::erase_if(set.present, [&](const auto& peer) {
    return std::find(names.begin(), names.end(), peer->name()) == names.end();
  });
  set.absent.clear();  // nobody asked for those
  return {};
}

class HostTrack final : public RaceTrack {
 public:
  explicit HostTrack(PeerSet peers) { peers_ = std::move(peers); }

  Status find_peers(const std::vector<std::string>& names, Engine* engine) override {
    peers_ = load_peers();
    if (engine) peers_.present.push_back(separate_peer(*engine));
    return keep_named(peers_, names);
  }
  std::map<std::string, std::string> versions() const override {
    std::map<std::string, std::string> known;
    for (const auto& peer : peers_.present) known[peer->name()] = peer->version();
    return known;
  }
  const Backend& backend() const override { return backend_of(Vendor::cpu); }
  /// 1 and every core.
  Result<std::vector<int>> threads() const override {
    const auto device = detect_cpu();
    if (!device) return tl::unexpected(device.error());
    if (device->compute_units == 1) return std::vector<int>{1};
    return std::vector<int>{1, device->compute_units};
  }
  Result<std::optional<MachineLimits>> limits(int threads) const override {
    const auto device = detect_cpu(threads);
    if (!device) return tl::unexpected(device.error());
    return measure_limits(*device);
  }
  Result<std::unique_ptr<Contest>> prepare(const Gemm& gemm, int threads,
                                           std::uint64_t seed) const override {
    const auto device = detect_cpu(threads);
    if (!device) return tl::unexpected(device.error());
    auto sets = OperandSets::make(gemm, *device, seed);
    if (!sets) return tl::unexpected(sets.error());
    return std::make_unique<HostContest>(peers_, gemm, device->compute_units, std::move(*sets),
                                         seed);
  }
};

}  // namespace

std::unique_ptr<RaceTrack> host_track(PeerSet peers) {
  return std::make_unique<HostTrack>(std::move(peers));
}

Result<std::unique_ptr<RaceTrack>> open_track(const std::string& device) {
  if (names_gpu(device)) return gpu_track(device);
  return host_track({});
}

}  // namespace kiln
