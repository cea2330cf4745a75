// Why a problem runs what it runs, from stored evidence.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "generator/problem/device_class.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

constexpr std::size_t kListed = 5;

std::string timing_text(const Gemm& gemm, const Timing& t) {
  return fmt::format("{:.2f} us ({:.2f} to {:.2f}, {} samples), {:.1f} GFLOP/s", t.median_ns / 1e3,
                     t.low_ns / 1e3, t.high_ns / 1e3, t.samples, gemm.flops() / t.median_ns);
}

/// Operations a second.
double rate(const Gemm& gemm, const Timing& t) { return gemm.flops() / (t.median_ns * 1e-9); }

/// The latest row of each timed config, fastest first; finalists before those that were dropped.
std::vector<Measured> ranked(const std::vector<Measured>& rows) {
  std::vector<Measured> timed;
  for (const Measured& row : rows)
    if (row.ok()) timed.push_back(row);
  std::stable_sort(timed.begin(), timed.end(), [](const Measured& x, const Measured& y) {
    if (x.round != y.round) return x.round > y.round;
    return x.timing().median_ns < y.timing().median_ns;
  });
  return timed;
}

std::string others_text(const Gemm& gemm, const Record& record, const std::vector<Measured>& rows) {
  std::string out;
  std::size_t listed = 0;
  for (const Measured& other : ranked(rows)) {
    if (other.config == record.measured.config) continue;
    if (++listed > kListed) break;
    out += fmt::format("  {:+6.1f} %  {}\n           {}\n",
                       (other.timing().median_ns / record.measured.timing().median_ns - 1) * 100,
                       text(other.config), timing_text(gemm, other.timing()));
  }
  return out.empty() ? "" : "other candidates, slower by:\n" + out;
}

std::string failures_text(const std::vector<Measured>& rows) {
  std::map<std::string, std::pair<int, std::string>> kinds;  // kind -> count, an example
  for (const Measured& row : rows)
    if (!row.ok()) {
      auto& [count, example] = kinds[std::string(kiln::name(row.failure().kind))];
      if (++count == 1) example = row.failure().detail;
    }
  std::string out;
  for (const auto& [kind, seen] : kinds)
    out += fmt::format("  {} x {}: {}\n", seen.first, kind, seen.second);
  return out.empty() ? "" : "failed candidates:\n" + out;
}

std::string evidence_text(const Gemm& gemm, const Record& record, const std::vector<Measured>& rows,
                          double peak_flops) {
  const Timing& timing = record.measured.timing();
  std::string out = fmt::format("measured:  {}\n", timing_text(gemm, timing));
  if (peak_flops > 0)
    out +=
        fmt::format("peak:      {:.1f} GFLOP/s, the most these threads reached; this is {:.1f} %\n",
                    peak_flops * 1e-9, rate(gemm, timing) / peak_flops * 100);
  out += fmt::format("predicted: {:.2f} us\n", record.measured.predicted_ns / 1e3);
  out += fmt::format("verified:  {}\n", record.measured.verified ? "yes" : "no");
  out += fmt::format("policy:    {}\n", record.key.policy);
  out += fmt::format("tuned:     {} in {}\n", record.created, record.database.string());
  out += fmt::format("searched:  {}\n", record.searched ? text(*record.searched) : "not recorded");
  const bool older = record.validators.template_hash != template_hash(record.key.device.vendor);
  out += fmt::format("toolchain: {}; {}; made by {} templates ({})\n", record.validators.compiler,
                     record.validators.runtime, older ? "older" : "today's",
                     record.validators.template_hash);
  const auto failed =
      std::count_if(rows.begin(), rows.end(), [](const Measured& row) { return !row.ok(); });
  out += fmt::format("evidence:  {} configs tried, {} failed\n", rows.size(), failed);
  return out + others_text(gemm, record, rows) + failures_text(rows);
}

/// How the plan's kernel sums, where that is known.
std::string summed_text(const BestKey& key, const Plan::Impl& plan) {
  const Canonical problem = canonicalise(key.gemm);
  const auto config = parse_config(plan.config);
  if (!config || !broken_rule(problem, key.device, *config).empty()) return {};
  const std::string order = summation(problem, key.device, *config);
  return order.empty() ? ", sums in an order of its own" : ", sums: " + order;
}

/// As it was compiled, behind the head that it would be rendered with now (the database keeps texts
/// without, for they are shared); of a kernel that was stored without its text, as rendered now.
std::string source_of(const BestKey& key, const Plan::Impl& plan,
                      const std::optional<Record>& record) {
  const auto config = parse_config(plan.config);
  if (!config) return {};
  const auto of_class = device_class(plan.made_for);
  const DeviceCaps made_for = of_class ? limited_to_class(key.device, *of_class) : key.device;
  const auto rendered = render(key.gemm, made_for, *config);
  const bool stored = record && !record->source.empty() && record->measured.config == *config;
  if (!rendered) return stored ? record->source : std::string();
  if (!stored) return rendered->text;
  const auto body = without_head(rendered->text);
  const auto head = rendered->text.substr(0, rendered->text.size() - body.size());
  return head + std::string(without_head(record->source));
}

}  // namespace

std::string_view name(Match match) {
  switch (match) {
    case Match::exact:
      return "exact";
    case Match::range:
      return "range";
    case Match::nearest:
      return "nearest";
    case Match::model:
      return "model";
    case Match::reference:
      return "reference";
  }
  return "reference";
}

Result<std::string> Engine::Impl::explain(const Gemm& gemm, int threads) {
  const auto plan = plan_for(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  const Plan::Impl& p = **plan;
  const BestKey key = key_of(gemm, p.threads);
  std::string out = fmt::format("problem:   {}\n", text(gemm));
  out += fmt::format("device:    {}\n", fingerprint(key.device));
  out += fmt::format("threads:   {}\n", p.threads);
  out += fmt::format("config:    {}\n", p.config);
  if (!p.made_for.empty()) out += fmt::format("made for:  every CPU with {}\n", p.made_for);
  out += fmt::format("match:     {}: {}\n", name(p.match), p.reason);
  out += fmt::format("class:     {}{}\n", std::get<std::string>(to_value(key.determinism)),
                     summed_text(key, p));
  const auto record = best(key, now);
  if (record) {
    if (record->measured.config != parse_config(p.config).value_or(record->measured.config))
      out += fmt::format("stored:    {}\n", text(record->measured.config));
    const double peak = raised_peak(key, 0, rate(gemm, record->measured.timing()));
    out += evidence_text(gemm, *record, store->known(key, record->validators), peak);
  }
  const std::string source = source_of(key, p, record);
  if (!source.empty()) out += "source:\n" + source;
  return out;
}

Result<std::string> Engine::Impl::source(const Gemm& gemm, int threads) {
  const auto plan = plan_for(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  const BestKey key = key_of(gemm, (*plan)->threads);
  std::string source = source_of(key, **plan, best(key, now));
  if (!source.empty()) return source;
  return fail(ErrorCode::unsupported,
              fmt::format("{}: runs {}, which was not generated", text(gemm), (*plan)->config));
}

}  // namespace kiln
