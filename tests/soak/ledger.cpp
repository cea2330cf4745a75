#include "soak/ledger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "cache/records/binaries.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "soak/soak.h"
#include "support/stored.h"

namespace kiln::soak {
namespace {

constexpr int kProblems = 60, kConfigs = 24;

BestKey key_of(std::int32_t problem) { return test::key_of(problem, 96, 128); }

std::string failed(const char* what, const Status& status) {
  return fmt::format("{}: {}", what, status.error().message);
}

/// One round: a row, its code, its winner, a proof and a failed candidate.
std::string write_round(Store& store, std::int32_t problem, std::int32_t config, int pipe) {
  const BestKey key = key_of(problem);
  const auto measured = test::timed(config, 100.0 + config);
  if (const Status s = store.measurements().put(key, test::kNow, measured); !s)
    return failed("put", s);
  report(pipe, {Written::row, {problem, config}});
  if (const Status s = store.binaries().put(test::code_of(config)); !s)
    return failed("put_binary", s);
  report(pipe, {Written::code, {config}});
  if (const Status s = store.winners().make_winner(key, test::kNow, measured.config); !s)
    return failed("make_winner", s);
  report(pipe, {Written::winner, {problem, config}});
  if (const Status s = store.proofs().proved(measured.binary_key, key, measured.config, "r2"); !s)
    return failed("proved", s);
  report(pipe, {Written::proof, {problem, config}});
  const auto failure = test::failed(kConfigs + config, Failure::Kind::wrong_result);
  if (const Status s = store.measurements().put(key, test::kNow, failure); !s)
    return failed("put", s);
  return "";
}

}  // namespace

void report(int pipe, const Written& written) { (void)!::write(pipe, &written, sizeof written); }

std::string write_rounds(const std::filesystem::path& file, int count, Random& random, int pipe) {
  auto store = Store::open({.database = file});
  if (!store) return store.error().message;
  if (const Status s = (*store)->begin_session({.command = "soak_kill"}); !s)
    return failed("begin_session", s);
  for (int i = 0; i < count; ++i) {
    const auto problem = static_cast<std::int32_t>(1 + below(random, kProblems));
    const auto config = static_cast<std::int32_t>(1 + below(random, kConfigs));
    if (auto found = write_round(**store, problem, config, pipe); !found.empty()) return found;
  }
  return "";
}

void Ledger::add(const Written& written) {
  const auto& [kind, what] = written;
  switch (kind) {
    case Written::row:
      rows_.emplace(what[0], what[1]);
      break;
    case Written::code:
      codes_.insert(what[0]);
      break;
    case Written::winner:
      winners_.insert(what[0]);
      break;
    case Written::proof:
      proofs_.emplace(what[0], what[1]);
      break;
    case Written::tuned:
      tuned_.insert(what);
      break;
  }
}

std::string Ledger::missing_from(const std::filesystem::path& file) const {
  auto opened = Store::open({.database = file});
  if (!opened) return opened.error().message;
  Store& store = **opened;
  const auto checked = store.maintenance().check(false);
  if (!checked) return checked.error().message;
  if (!checked->ok()) return fmt::format("check: {}", fmt::join(checked->problems, "; "));
  for (const auto& [problem, config] : rows_) {
    const auto known = store.measurements().known(key_of(problem), test::kNow);
    const bool there = std::any_of(known.begin(), known.end(), [&](const Measured& measured) {
      return measured.ok() && measured.config == test::config_of(config);
    });
    if (!there) return fmt::format("lost: row of config {} for problem {}", config, problem);
  }
  for (const auto config : codes_) {
    const auto code = store.binaries().of_source(fmt::format("source{}", config), "");
    if (!code || code->image != test::code_of(config).image)
      return fmt::format("lost: code of config {}", config);
  }
  for (const auto problem : winners_)
    if (!store.winners().best(key_of(problem), test::kNow))
      return fmt::format("lost: winner of problem {}", problem);
  for (const auto& [problem, config] : proofs_)
    if (!store.proofs().proven(fmt::format("binary{}", config), key_of(problem),
                               test::config_of(config), "r2"))
      return fmt::format("lost: proof of config {} for problem {}", config, problem);
  return write_round(store, kProblems + 1, kConfigs + 1, -1);
}

}  // namespace kiln::soak
