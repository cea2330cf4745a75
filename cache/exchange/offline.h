// Records of kernels that were ranked without their device: written under a policy of their own,
// which no look-up of measured kernels asks for; read by `kiln` and as the first candidates of a
// search on the device itself.
#pragma once

#include <optional>
#include <vector>

#include "cache/record.h"
#include "cache/store.h"
#include "tuner/offline/offline.h"

namespace kiln {

/// The key of a prediction for a card by name; `gemm` as callers spell it.
BestKey predicted_key(const DeviceCaps& card, const Gemm& gemm);
/// Whether its times are a model's: of a card by name, or of a class of CPUs.
bool is_predicted(const BestKey& key);

/// Ranks and stores: a row a candidate, the first that the emulator proves with its code and as its
/// key's winner. Errors:
/// those of rank_offline, compiler (no candidate came through), database.
Result<std::vector<Ranked>> tune_offline(Store& store, const Gemm& gemm, const DeviceCaps& card,
                                         Compiler& compiler, const RankOptions& options);

/// The prediction for exactly this card and problem, with its code.
std::optional<Record> predicted_record(Store& store, const DeviceCaps& card, const Gemm& gemm);

/// What was predicted for this problem on any card of the device's target, best first.
std::vector<Config> predicted_configs(Store& store, const DeviceCaps& device, const Gemm& gemm,
                                      std::size_t most);

}  // namespace kiln
