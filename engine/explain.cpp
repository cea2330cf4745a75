// Why a problem runs what it runs, from stored evidence.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "engine/engine_impl.h"
#include "engine/explanation.h"
#include "engine/peak.h"
#include "generator/problem/device_class.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

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

/// The candidates of a search: those beside the winner, and those that failed.
void add_evidence(Explanation& why, const std::vector<Measured>& rows) {
  why.tried = static_cast<int>(rows.size());
  why.others = ranked(rows);
  std::erase_if(why.others,
                [&](const Measured& row) { return row.config == why.record->measured.config; });
  for (const Measured& row : rows) {
    if (row.ok()) continue;
    auto& [count, example] = why.failures[std::string(kiln::name(row.failure().kind))];
    if (++count == 1) example = row.failure().detail;
  }
}

/// How the plan's kernel sums, where that is known.
std::string summed_text(const BestKey& key, const Plan::Impl& plan) {
  const Problem problem = key.problem();
  const auto config = parse_config(plan.config);
  if (!config || !broken_rule(problem, key.device, *config).empty()) return {};
  const std::string order = summation(problem, key.device, *config);
  return order.empty() ? "in an order of its own" : order;
}

/// As it was compiled, behind the head that it would be rendered with now (the database keeps texts
/// without, for they are shared); of a kernel that was stored without its text, as rendered now.
std::string source_of(const BestKey& key, const Plan::Impl& plan,
                      const std::optional<Record>& record) {
  const auto config = parse_config(plan.config);
  if (!config) return {};
  const auto of_class = device_class(plan.made_for);
  const DeviceCaps made_for = of_class ? limited_to_class(key.device, *of_class) : key.device;
  const auto rendered =
      render(Problem::of(record ? record->key.gemm : key.gemm).value(), made_for, *config);
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

Result<Explanation> Engine::Impl::explanation(const Gemm& gemm, int threads) {
  const auto plan = resolver.plan_for(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  const Plan::Impl& p = **plan;
  Explanation why{.key = key_of(gemm, p.threads),
                  .config = p.config,
                  .made_for = p.made_for,
                  .match = p.match,
                  .reason = p.reason};
  why.summation = summed_text(why.key, p);
  why.record = exact_record(gemm, p.threads);
  if (why.record) {
    const Record& record = *why.record;
    why.key.policy = record.key.policy;
    why.peak_flops =
        tuning.raised_peak(why.key, 0, flops_per_second(gemm, record.measured.timing()));
    why.roof = stored_roofline(*store, why.key.device, why.key.gemm);
    why.older_templates =
        record.validators.template_hash != template_hash(record.key.device.vendor);
    add_evidence(why, store->measurements().known(record.key, record.validators));
  }
  why.source = source_of(why.key, p, why.record);
  return why;
}

Result<Explanation> explanation(Engine& engine, const Gemm& gemm, int threads) {
  return shielded([&] {
    Engine::Impl& impl = engine.impl();
    return impl.explanation(impl.with_defaults(gemm), threads);
  });
}

Result<std::string> Engine::Impl::explain(const Gemm& gemm, int threads) {
  return explanation(gemm, threads).map([](const Explanation& why) {
    return text(why) + (why.source.empty() ? "" : "source:\n" + why.source);
  });
}

Result<std::string> Engine::Impl::source(const Gemm& gemm, int threads) {
  const auto plan = resolver.plan_for(gemm, threads);
  if (!plan) return tl::unexpected(plan.error());
  const BestKey key = key_of(gemm, (*plan)->threads);
  std::string source = source_of(key, **plan, exact_record(gemm, (*plan)->threads));
  if (!source.empty()) return source;
  return fail(ErrorCode::unsupported,
              fmt::format("{}: runs {}, which was not generated", text(gemm), (*plan)->config));
}

}  // namespace kiln
