#include "tuner/worker/program/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/backend.h"
#include "tuner/search/budget.h"
#include "tuner/search/stopping.h"

namespace kiln {
namespace {

using nlohmann::json;

/// Of the time that a race has, until when another finalist is checked: samples need the rest.
constexpr double kAdmittedUntil = 0.6;

json failed_check(const Failure& failure) {
  return {{"passed", false}, {"outcome", to_json(std::variant<Timing, Failure>(failure))}};
}

Result<HarnessInput> input_from(const json& request, bool timed) {
  const auto gemm = parse_gemm(request.at("gemm").get<std::string>());
  if (!gemm) return tl::unexpected(gemm.error());
  const auto device = caps_from(request.at("device"));
  if (!device) return tl::unexpected(device.error());
  return HarnessInput{.gemm = *gemm,
                      .device = *device,
                      .device_index = request.value("device_index", 0),
                      .options = {.seed = request.at("seed").get<std::uint64_t>(),
                                  .effort = static_cast<Effort>(request.value("effort", 0)),
                                  // The parent has checked, counting the inputs of both.
                                  .ask_for_room = request.at("do") != "run"},
                      .timed = timed};
}

std::unique_ptr<Harness> harness_for(const json& request, const DeviceCaps& device) {
  if (request.value("emulated", false)) return emulated_harness();
  return on_host(device) ? host_harness() : gpu_harness();
}

void note_disturbance(json& answer, const std::string& disturbed) {
  if (!disturbed.empty()) answer["disturbed"] = disturbed;
}

bool is_fault(const Failure& failure) { return failure.kind == Failure::Kind::crashed; }

}  // namespace

bool HarnessInput::operator==(const HarnessInput& other) const {
  return gemm == other.gemm && device == other.device && device_index == other.device_index &&
         options.seed == other.options.seed && options.effort == other.options.effort &&
         timed == other.timed;
}

Status Harness::run_into(int, std::span<const std::byte>, const Config&, WorkerStatus*) {
  return fail(ErrorCode::unsupported,
              "do = run: this device cannot write D into the parent's memory");
}

/// The candidates of a race that may run.
struct Session::Finalists {
  std::vector<std::unique_ptr<Candidate>> candidates;  // before what is timed of them
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<int> numbers;  // in the request
};

void Session::enter(WorkerStatus::Phase phase, int candidate) {
  status_->candidate.store(candidate, std::memory_order_relaxed);
  status_->phase.store(phase, std::memory_order_release);
}

json Session::fault(const std::string& detail, int candidate) {
  doomed_ = true;
  return {{"fault", detail}, {"candidate", candidate}};
}

json Session::answer(const Message& request) {
  json reply;
  try {
    reply = dispatch(request);
  } catch (const std::bad_alloc&) {
    reply = {{"error", "no memory"}};
  } catch (const std::exception& e) {  // of the request: a field, a file
    reply = {{"error", e.what()}};
  }
  if (!cage_.empty()) reply["cage"] = cage_;
  enter(WorkerStatus::idle);
  return reply;
}

json Session::dispatch(const Message& request) {
  const auto what = request.body.at("do").get<std::string>();
  if (what == "problem") {
    const Status ready = prepare(request.body, true);
    return ready ? json{{"sets", harness_->sets()}} : refused(ready.error());
  }
  if (what == "rest") {
    prepared_.reset();
    reference_.reset();
    if (harness_) harness_->rest();
    return json::object();
  }
  if (what == "check") return check(request);
  if (what == "run") return run(request);
  if (what != "screen" && what != "race")
    return {{"error", fmt::format("do = {}: unknown request", what)}};
  if (!prepared_ || !prepared_->timed)
    return {{"error", fmt::format("do = {}: no problem was set", what)}};
  json reply = what == "screen" ? screen(request) : race(request);
  if (const auto peak = harness_->peak_flops()) reply["peak_flops"] = *peak;
  return reply;
}

Status Session::prepare(const json& request, bool timed) {
  enter(WorkerStatus::preparing);
  auto input = input_from(request, timed);
  if (!input) return tl::unexpected(input.error());
  if (prepared_ == *input) return {};
  if (!harness_) harness_ = harness_for(request, input->device);
  if (!cage_.empty() && !harness_->serves_many())
    return fail(ErrorCode::device,
                fmt::format("'{}': this worker serves another problem", text(input->gemm)));
  prepared_.reset();
  reference_.reset();
  if (Status ready = harness_->prepare(*input); !ready) return ready;
  if (cage_.empty()) cage_ = harness_->confine(status_);  // before any code can be loaded
  prepared_ = std::move(*input);
  return {};
}

Contender* Session::reference(const Message& request) {
  const auto named = request.body.find("reference");
  if (named == request.body.end()) return nullptr;
  const auto config = parse_config(named->get<std::string>());
  if (!config) return nullptr;
  if (reference_ && reference_->config == *config) return reference_->contender.get();
  reference_.reset();
  const auto image = read_file(request.files.at(1).get());
  if (!image) return nullptr;
  auto candidate = harness_->load(*image, *config);
  if (!candidate) return nullptr;
  auto contender = (*candidate)->contender();
  if (!contender) return nullptr;
  reference_ =
      std::make_unique<Reference>(Reference{*config, std::move(*candidate), std::move(*contender)});
  return reference_->contender.get();
}

json Session::screen(const Message& request) {
  const auto best_ns = request.body.at("best_ns").get<double>();
  const auto config = parse_config(request.body.at("config").get<std::string>());
  if (!config) return refused(config.error());
  bool verified = request.body.at("verified").get<bool>();
  const auto failed = [&](const Failure& failure) {
    return is_fault(failure) ? fault(failure.detail, 0)
                             : answer_of(failure, Round::screen, verified);
  };
  enter(WorkerStatus::loading);
  const auto image = read_file(request.files.at(0).get());
  if (!image) return failed(resources(image.error()));
  const auto candidate = harness_->load(*image, *config);
  if (!candidate) return failed(candidate.error());

  if (!verified && harness_->checks_first()) {
    enter(WorkerStatus::verifying);
    if (const Verdict v = (*candidate)->check(); !v) return failed(v.error());
    verified = true;
  }
  enter(WorkerStatus::timing);
  const auto contender = (*candidate)->contender();
  if (!contender) return failed(contender.error());
  Contender* const other = reference(request);
  const double reference_ns = request.body.value("reference_ns", 0.0);
  double drift = 1;
  const auto timed = [&](Round round) {
    json answer = answer_of((*contender)->timing(), round, verified);
    answer["drift"] = drift;
    note_disturbance(answer, (*contender)->disturbed());
    return answer;
  };
  const ScreeningRule rule;
  for (const ScreeningRule::Stage& stage : {rule.first, rule.second}) {
    if (const Verdict ok = (*contender)->take(stage.samples, stage.budget_ns, other); !ok)
      return failed(ok.error());
    if (const Timing beside = (*contender)->beside(); beside.samples > 0 && reference_ns > 0)
      drift = beside.median_ns / reference_ns;
    if (screened_out((*contender)->timing().median_ns / drift, best_ns, stage))
      return timed(Round::screen);
  }
  // A check of a big problem costs more than its timing: only what could win is checked.
  if (!verified) {
    enter(WorkerStatus::verifying);
    if (const Verdict v = (*candidate)->check(); !v) return failed(v.error());
    verified = true;
  }
  return timed(Round::second);
}

/// What a finalist must pass before it may race: a whole check unless it had one, and the same code
/// on a ragged problem. Its Failure, or nothing, and it joins `finalists`.
std::optional<Failure> Session::admit(const Message& request, std::size_t number,
                                      Finalists& finalists) {
  const json& entry = request.body.at("entries").at(number);
  const int candidate = static_cast<int>(number);
  enter(WorkerStatus::loading, candidate);
  const auto config = parse_config(entry.at("config").get<std::string>());
  if (!config) return Failure{Failure::Kind::load, config.error().message};
  const auto image = read_file(request.files.at(number).get());
  if (!image) return resources(image.error());
  auto loaded = harness_->load(*image, *config);
  if (!loaded) return loaded.error();
  enter(WorkerStatus::verifying, candidate);
  if (!entry.at("verified").get<bool>())
    if (const Verdict v = (*loaded)->check(); !v) return v.error();
  if (const Verdict v = (*loaded)->check_ragged(); !v) return v.error();
  enter(WorkerStatus::racing, candidate);
  auto contender = (*loaded)->contender();
  if (!contender) return contender.error();
  finalists.candidates.push_back(std::move(*loaded));
  finalists.contenders.push_back(std::move(*contender));
  finalists.numbers.push_back(candidate);
  return std::nullopt;
}

json Session::race(const Message& request) {
  const bool with_peer = request.body.at("peer").get<bool>();
  const auto budget_ns = request.body.at("budget_ns").get<double>();
  const bool sustained = request.body.at("sustained").get<bool>();
  const Budget time(request.body.at("seconds").get<double>());
  std::vector<json> rows(request.body.at("entries").size());
  Finalists finalists;
  const auto admitting = [&] { return finalists.numbers.empty() || !time.over(kAdmittedUntil); };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!admitting()) {
      rows[i] = json{{"left_out", true}};
      continue;
    }
    const auto failure = admit(request, i, finalists);
    if (!failure) {
      if (i < 64) status_->admitted.fetch_or(std::uint64_t{1} << i);
      continue;
    }
    if (is_fault(*failure)) return fault(failure->detail, static_cast<int>(i));
    rows[i] = answer_of(*failure, Round::race, false);
  }
  auto reply = race_rows(std::move(rows), finalists, with_peer && admitting(),
                         {.budget_ns = budget_ns,
                          .sustained = sustained,
                          .left_ns = [&] { return time.left() * 1e9; },
                          .on_turn = {}});
  // A fault or a hang is attributed to the contender whose turn it was.
  return reply ? std::move(*reply) : fault(reply.error().detail, status_->candidate);
}

tl::expected<json, Failure> Session::race_rows(std::vector<json> rows, Finalists& finalists,
                                               bool with_peer, Harness::RaceRules rules) {
  std::optional<Harness::Peer> peer;
  if (with_peer) {
    enter(WorkerStatus::racing, kPeerNumber);
    auto found = harness_->peer();
    if (!found) return tl::unexpected(found.error());
    peer = std::move(*found);
  }
  std::vector<Contender*> contenders;
  for (const auto& one : finalists.contenders) contenders.push_back(one.get());
  if (peer) contenders.push_back(peer->contender.get());
  const auto number = [&](std::size_t who) {
    return who < finalists.numbers.size() ? finalists.numbers[who] : kPeerNumber;
  };
  // What is begun under load takes its time.
  if (rules.sustained) rules.budget_ns = std::min(rules.budget_ns, rules.left_ns());
  rules.on_turn = [&](std::size_t who) { enter(WorkerStatus::racing, number(who)); };
  const auto raced = harness_->race(contenders, rules);
  if (!raced) return tl::unexpected(raced.error());
  for (std::size_t i = 0; i < finalists.candidates.size(); ++i) {
    json& row = rows[static_cast<std::size_t>(number(i))];
    row = answer_of(raced->timings[i], Round::race, true);
    if (!raced->disturbed.empty()) note_disturbance(row, raced->disturbed[i]);
    if (!harness_->checks_after_race()) continue;
    enter(WorkerStatus::verifying, number(i));
    const Verdict v = finalists.candidates[i]->check();
    if (v) continue;
    if (is_fault(v.error())) return tl::unexpected(v.error());
    row = answer_of(v.error(), Round::race, false);
  }
  json reply{{"rows", rows}, {"conditions", raced->conditions}};
  if (peer) {
    json row = answer_of(raced->timings.back(), Round::race, false);
    row["config"] = text(peer->config);
    reply["peers"] = json::array({std::move(row)});
  }
  return reply;
}

/// Verification alone, for `kiln verify` and for what a miss chose. No operands for timing are
/// made, which for most problems would cost more than the check.
json Session::check(const Message& request) {
  const auto config = parse_config(request.body.at("config").get<std::string>());
  if (!config) return refused(config.error());
  if (const Status ready = prepare(request.body, false); !ready) return refused(ready.error());
  const auto failed = [&](const Failure& failure) {
    return is_fault(failure) ? fault(failure.detail, 0) : failed_check(failure);
  };
  enter(WorkerStatus::loading);
  const auto image = read_file(request.files.at(0).get());
  if (!image) return failed(resources(image.error()));
  const auto candidate = harness_->load(*image, *config);
  if (!candidate) return failed(candidate.error());
  enter(WorkerStatus::verifying);
  if (const Verdict v = (*candidate)->check(); !v) return failed(v.error());
  if (request.body.value("ragged", true))
    if (const Verdict v = (*candidate)->check_ragged(); !v) return failed(v.error());
  return {{"passed", true}};
}

/// One call of a kernel, whose D the parent compares itself. What is answered says only that the
/// call returned.
json Session::run(const Message& request) {
  const auto config = parse_config(request.body.at("config").get<std::string>());
  if (!config) return refused(config.error());
  if (const Status ready = prepare(request.body, false); !ready) return refused(ready.error());
  enter(WorkerStatus::loading);
  const auto image = read_file(request.files.at(0).get());
  if (!image) return refused(image.error());
  const Status ran = harness_->run_into(request.files.at(1).get(), *image, *config, status_);
  return ran ? json{{"ran", true}} : refused(ran.error());
}

}  // namespace kiln
