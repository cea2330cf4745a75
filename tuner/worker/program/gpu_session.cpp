#include "tuner/worker/program/gpu_session.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "runtime/gpu/gpu.h"
#include "tuner/search/stopping.h"
#include "tuner/verify/ragged.h"
#include "tuner/worker/program/cage.h"

namespace kiln {
namespace {

using nlohmann::json;

}  // namespace

struct GpuSession::Problem {
  Gemm gemm;
  DeviceCaps device;
  std::uint64_t seed;
  GpuChecker checker;
  std::optional<GpuOperandSets> sets = std::nullopt;  // where calls are to be timed
  std::optional<GpuChecker> ragged = std::nullopt;

  struct Peer {
    VendorLibrary library;
    int choice;
  };
  bool peer_sought = false;
  std::optional<Peer> peer = std::nullopt;
};

GpuSession::GpuSession(WorkerStatus* status) : status_(status) {}
GpuSession::~GpuSession() = default;

void GpuSession::enter(WorkerStatus::Phase phase, int candidate) {
  status_->candidate.store(candidate, std::memory_order_relaxed);
  status_->phase.store(phase, std::memory_order_release);
}

json GpuSession::fault(const std::string& detail, int candidate) {
  doomed_ = true;
  return {{"fault", detail}, {"candidate", candidate}, {"restart", true}};
}

json GpuSession::answer(const Message& request) {
  json reply;
  try {
    const auto what = request.body.at("do").get<std::string>();
    if (what == "problem") {
      reply = prepare(request.body, true);
    } else if (what == "check") {
      reply = check(request);
    } else if (!problem_ || !problem_->sets) {
      reply = {{"error", fmt::format("do = {}: no problem was set", what)}};
    } else if (what == "screen") {
      reply = screen(request);
    } else if (what == "race") {
      reply = race(request);
    } else {
      reply = {{"error", fmt::format("do = {}: unknown request", what)}};
    }
  } catch (const std::bad_alloc&) {
    reply = {{"error", "no memory"}};
  } catch (const std::exception& e) {  // of the request: a field, a file
    reply = {{"error", e.what()}};
  }
  if (!cage_.empty()) reply["cage"] = cage_;
  enter(WorkerStatus::idle);
  return reply;
}

Result<std::shared_ptr<const GpuTools>> GpuSession::tools_for(const json& request, Vendor vendor) {
  if (tools_) return tools_;
  auto device = open_gpu(vendor, request.at("device_index").get<int>());
  if (!device) return tl::unexpected(device.error());
  auto tools = GpuTools::make(std::move(*device));
  if (tools) tools_ = *tools;
  return tools;
}

json GpuSession::prepare(const json& request, bool timed) {
  enter(WorkerStatus::preparing);
  const auto seed = request.at("seed").get<std::uint64_t>();
  const auto gemm = parse_gemm(request.at("gemm").get<std::string>());
  if (!gemm) return refused(gemm.error());
  const auto caps = caps_from(request.at("device"));
  if (!caps) return refused(caps.error());
  const auto tools = tools_for(request, caps->vendor);
  if (!tools) return refused(tools.error());
  problem_.reset();  // its memory first
  auto checker = GpuChecker::make(*tools, *gemm, seed);
  if (!checker) return refused(checker.error());
  auto problem = std::make_unique<Problem>(Problem{*gemm, *caps, seed, std::move(*checker)});
  if (timed) {
    auto sets = GpuOperandSets::make(**tools, canonicalise(*gemm), seed);
    if (!sets) return refused(sets.error());
    problem->sets.emplace(std::move(*sets));
  }
  problem_ = std::move(problem);
  // The driver is open by now, and has started what it starts.
  if (cage_.empty()) cage_ = enter_cage(CageKind::gpu, status_);
  return {{"sets", timed ? problem_->sets->count() : 0}};
}

/// The problem itself where `main_too`, and a nearby ragged one that the same code covers.
Verdict GpuSession::verified(const GpuCandidate& candidate, const Config& config, bool main_too) {
  Problem& p = *problem_;
  if (main_too)
    if (Verdict verdict = p.checker.check(candidate.run()); !verdict) return verdict;
  const auto neighbour = ragged_problem_for(p.gemm, p.device, config);
  if (!neighbour) return {};
  const auto failed = [](const Error& error) {
    return tl::unexpected(Failure{Failure::Kind::resources, error.message});
  };
  if (!p.ragged || p.ragged->gemm() != *neighbour) {
    auto made = GpuChecker::make(tools_, *neighbour, p.seed);
    if (!made) return failed(made.error());
    p.ragged.emplace(std::move(*made));
  }
  const auto beside = candidate.on(*neighbour);
  if (!beside) return failed(beside.error());
  Verdict verdict = p.ragged->check(beside->run());
  if (!verdict) verdict.error().detail += fmt::format(" (the same code on '{}')", text(*neighbour));
  return verdict;
}

json GpuSession::screen(const Message& request) {
  Problem& p = *problem_;
  const auto best_ns = request.body.at("best_ns").get<double>();
  const auto config = parse_config(request.body.at("config").get<std::string>());
  if (!config) return refused(config.error());
  enter(WorkerStatus::loading);
  const auto image = read_file(request.files.at(0).get());
  if (!image) return refused(image.error());
  const auto candidate = GpuCandidate::load(*tools_, *image, p.gemm, p.device, *config);
  if (!candidate)
    return answer_of(Failure{Failure::Kind::load, candidate.error().message}, Round::screen, false);

  enter(WorkerStatus::timing);
  auto calls = GpuCalls::make(*tools_, *p.sets, candidate->run());
  if (!calls) return fault(calls.error().message, 0);
  const ScreeningRule rule;
  for (const ScreeningRule::Stage& stage : {rule.first, rule.second}) {
    if (Status ok = calls->take(stage.samples, stage.budget_ns); !ok)
      return fault(ok.error().message, 0);
    if (screened_out(calls->timing().median_ns, best_ns, stage))
      return answer_of(calls->timing(), Round::screen, false);
  }
  enter(WorkerStatus::verifying);
  if (const Verdict v = p.checker.check(candidate->run()); !v) {
    if (v.error().kind == Failure::Kind::crashed) return fault(v.error().detail, 0);
    return answer_of(v.error(), Round::screen, false);
  }
  return answer_of(calls->timing(), Round::second, true);
}

/// Finds the library's fastest correct proposal, once for each problem. Errors: device (a proposal
/// destroyed the context).
Status GpuSession::seek_peer() {
  Problem& p = *problem_;
  p.peer_sought = true;
  auto library = VendorLibrary::make(*tools_, p.gemm);
  if (!library) return {};  // no library, or no proposal for this problem: no peer in the race
  std::vector<RefusedChoice> refused;
  const auto best = fastest_choice(*tools_, *library, *p.sets, p.checker, refused);
  if (!best) return tl::unexpected(best.error());
  if (*best) p.peer.emplace(Problem::Peer{std::move(*library), **best});
  return {};
}

Result<std::optional<GpuCalls>> GpuSession::peer_calls() {
  Problem& p = *problem_;
  enter(WorkerStatus::racing, kPeerNumber);
  if (!p.peer_sought)
    if (Status sought = seek_peer(); !sought) return tl::unexpected(sought.error());
  if (!p.peer) return std::nullopt;
  auto calls = GpuCalls::make(*tools_, *p.sets, p.peer->library.run(p.peer->choice));
  if (!calls) return tl::unexpected(calls.error());
  return std::optional<GpuCalls>(std::move(*calls));
}

json GpuSession::race(const Message& request) {
  Problem& p = *problem_;
  const json& entries = request.body.at("entries");
  std::vector<json> rows(entries.size());
  std::vector<GpuCandidate> candidates;
  candidates.reserve(entries.size());  // runs hold addresses inside
  std::vector<GpuCalls> calls;
  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int number = static_cast<int>(i);
    enter(WorkerStatus::loading, number);
    const auto config = parse_config(entries[i].at("config").get<std::string>());
    if (!config) return refused(config.error());
    const auto image = read_file(request.files.at(i).get());
    if (!image) return refused(image.error());
    auto candidate = GpuCandidate::load(*tools_, *image, p.gemm, p.device, *config);
    if (!candidate) {
      rows[i] =
          answer_of(Failure{Failure::Kind::load, candidate.error().message}, Round::race, false);
      continue;
    }
    enter(WorkerStatus::verifying, number);
    const bool main_too = !entries[i].at("verified").get<bool>();
    if (const Verdict v = verified(*candidate, *config, main_too); !v) {
      if (v.error().kind == Failure::Kind::crashed) return fault(v.error().detail, number);
      rows[i] = answer_of(v.error(), Round::race, false);
      continue;
    }
    enter(WorkerStatus::racing, number);
    candidates.push_back(std::move(*candidate));
    auto one = GpuCalls::make(*tools_, *p.sets, candidates.back().run());
    if (!one) return fault(one.error().message, number);
    calls.push_back(std::move(*one));
    who.push_back(i);
  }
  std::optional<GpuCalls> peer;
  if (request.body.at("rival").get<bool>()) {
    auto found = peer_calls();
    if (!found) return fault(found.error().message, kPeerNumber);
    if (*found) peer.emplace(std::move(**found));
  }
  return race_rows(std::move(rows), candidates, calls, who, std::move(peer),
                   request.body.at("budget_ns").get<double>());
}

json GpuSession::race_rows(std::vector<json> rows, const std::vector<GpuCandidate>& candidates,
                           std::vector<GpuCalls>& calls, const std::vector<std::size_t>& who,
                           std::optional<GpuCalls> peer, double budget_ns) {
  std::vector<GpuCalls*> contenders;
  for (GpuCalls& one : calls) contenders.push_back(&one);
  if (peer) contenders.push_back(&*peer);
  const auto stop = [&](const std::vector<Timing>& timings) {
    return timings.size() > 1 && decided(timings, kRaceMinSamples);
  };
  // A fault or a hang is charged to whoever ran.
  const auto on_turn = [&](const GpuCalls* one) {
    std::size_t at = 0;
    while (at < calls.size() && &calls[at] != one) ++at;
    enter(WorkerStatus::racing, at < who.size() ? static_cast<int>(who[at]) : kPeerNumber);
  };
  const auto raced = gpu_race(contenders, kRaceSamples, kRaceMinSamples, budget_ns, stop, on_turn);
  if (!raced) return fault(raced.error().message, status_->candidate);
  for (std::size_t i = 0; i < who.size(); ++i) {
    // Thousands of calls later it must be right still: what calls leave behind may spoil the next.
    enter(WorkerStatus::verifying, static_cast<int>(who[i]));
    const Verdict v = problem_->checker.check(candidates[i].run());
    if (!v && v.error().kind == Failure::Kind::crashed)
      return fault(v.error().detail, static_cast<int>(who[i]));
    rows[who[i]] = v ? answer_of(calls[i].timing(), Round::race, true)
                     : answer_of(v.error(), Round::race, false);
  }
  json reply{{"rows", rows}, {"conditions", text(*raced)}};
  if (peer) {
    json row = answer_of(peer->timing(), Round::race, false);
    row["config"] = text(Config(problem_->peer->library.config(problem_->peer->choice)));
    reply["rivals"] = json::array({std::move(row)});
  }
  return reply;
}

json GpuSession::check(const Message& request) {
  const json& body = request.body;
  const auto config = parse_config(body.at("config").get<std::string>());
  if (!config) return refused(config.error());
  enter(WorkerStatus::preparing);
  const auto gemm = parse_gemm(body.at("gemm").get<std::string>());
  if (!gemm) return refused(gemm.error());
  if (!problem_ || problem_->gemm != *gemm)
    if (json prepared = prepare(body, false); prepared.contains("error")) return prepared;
  const auto failed = [](const Failure& failure) {
    return json{{"passed", false}, {"outcome", to_json(std::variant<Timing, Failure>(failure))}};
  };
  enter(WorkerStatus::loading);
  const auto image = read_file(request.files.at(0).get());
  if (!image) return refused(image.error());
  const auto candidate =
      GpuCandidate::load(*tools_, *image, problem_->gemm, problem_->device, *config);
  if (!candidate) return failed({Failure::Kind::load, candidate.error().message});
  enter(WorkerStatus::verifying);
  const Verdict verdict = verified(*candidate, *config, true);
  if (verdict) return {{"passed", true}};
  if (verdict.error().kind == Failure::Kind::crashed) return fault(verdict.error().detail, 0);
  return failed(verdict.error());
}

}  // namespace kiln
