#include "engine/stored_record.h"

#include "engine/engine_impl.h"

namespace kiln {

std::optional<Record> stored_record(Engine& engine, const Gemm& gemm, int threads,
                                    TuningPolicy policy) {
  Engine::Impl& impl = engine.impl();
  const auto count = impl.threads_of(threads);
  if (!count || !Problem::of(gemm)) return std::nullopt;
  const Gemm full = impl.with_defaults(gemm);
  const auto chosen = impl.policy_of(full, policy);
  return chosen ? impl.best(impl.key_of(full, *count, *chosen), impl.now) : std::nullopt;
}

bool is_complete(const Record& record, double budget_seconds, int candidates) {
  if (!record.searched) return true;
  const SearchExtent& searched = *record.searched;
  if (candidates > 0 && searched.measured + searched.failed >= candidates) return true;
  return record.measured.disturbed.empty() &&
         (searched.whole_space || searched.spent_seconds >= budget_seconds);
}

}  // namespace kiln
