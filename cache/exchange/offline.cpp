#include "cache/exchange/offline.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/keys.h"
#include "cache/records/binaries.h"
#include "cache/records/class_kernels.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "generator/families/hip/common/hip.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"

namespace kiln {
namespace {

/// A prediction depends on no machine.
constexpr const char* kRuntime = "predicted";

Validators now() {
  return {.template_hash = template_hash(Vendor::amd), .compiler = {}, .runtime = kRuntime};
}

/// Moves the first candidate to the front that has a forecast and that the emulator does not find
/// wrong.
void prove_first(const Gemm& gemm, const DeviceCaps& card, std::vector<Ranked>& ranked) {
  for (auto one = ranked.begin(); one != ranked.end() && one->forecast; ++one) {
    const Verdict verdict = prove_emulated(gemm, card, one->config);
    one->proven = verdict.has_value();
    if (verdict || verdict.error().kind == Failure::Kind::resources) {
      std::rotate(ranked.begin(), one, one + 1);
      return;
    }
    one->forecast = fail(ErrorCode::verification, verdict.error().detail);
  }
}

}  // namespace

BestKey predicted_key(const DeviceCaps& card, const Gemm& gemm) {
  return {.device = card, .gemm = normalised(gemm), .policy = std::string(kPredictedPolicy)};
}

bool is_predicted(const BestKey& key) {
  return key.policy == kPredictedPolicy || key.policy == kClassPolicy;
}

Result<std::vector<Ranked>> tune_offline(Store& store, const Gemm& gemm, const DeviceCaps& card,
                                         Compiler& compiler, const RankOptions& options) {
  auto ranked = rank_offline(gemm, card, compiler, options);
  if (!ranked) return ranked;
  prove_first(gemm, card, *ranked);
  if (ranked->empty() || !ranked->front().forecast)
    return fail(
        ErrorCode::compiler,
        fmt::format("none of {} candidates for '{}' came through; first: {}", ranked->size(),
                    text(gemm),
                    ranked->empty() ? "none was begun" : ranked->front().forecast.error().message));
  const BestKey key = predicted_key(card, gemm);
  Validators made_by = now();
  made_by.compiler = compiler.version();
  Status ok =
      store.begin_session({.command = "tune --offline", .budget_seconds = options.budget_seconds});
  for (const Ranked& one : *ranked)
    if (ok)
      ok = store.measurements().put(key, made_by,
                                    predicted_row(one, binary_key(one.source, made_by.compiler)));
  const Ranked& winner = ranked->front();
  if (ok)
    ok = store.binaries().put({.key = binary_key(winner.source, made_by.compiler),
                               .code_key = code_key(winner.source),
                               .compiler = made_by.compiler,
                               .source = winner.source.text,
                               .image = winner.binary->image});
  if (ok) ok = store.winners().make_winner(key, made_by, winner.config);
  if (!ok) return tl::unexpected(ok.error());
  return ranked;
}

std::optional<Record> predicted_record(Store& store, const DeviceCaps& card, const Gemm& gemm) {
  return store.winners().best(predicted_key(card, gemm), now());
}

std::vector<Config> predicted_configs(Store& store, const DeviceCaps& device, const Gemm& gemm,
                                      std::size_t most) {
  std::vector<Measured> rows;
  for (const DeviceCaps& card : hip::cards_of(device.arch))
    for (Measured& row : store.measurements().known(predicted_key(card, gemm), now()))
      if (row.ok()) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const Measured& x, const Measured& y) {
    return x.timing().median_ns < y.timing().median_ns;
  });
  std::vector<Config> configs;
  for (const Measured& row : rows)
    if (configs.size() < most && std::ranges::find(configs, row.config) == configs.end())
      configs.push_back(row.config);
  return configs;
}

}  // namespace kiln
