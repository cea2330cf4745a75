#include "cache/records/fit_class.h"

#include <set>

#include "cache/keys.h"
#include "cache/records/fits.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"

namespace kiln {

Status fit_class(Store& store, const BestKey& key) {
  std::vector<Config> kernels;
  for (const BestKey& of : keys_of_kernels(key))
    for (const Record& record : store.winners().tuned_like(of, {}))
      kernels.push_back(record.measured.config);
  return store.fits().put(
      key, FittedModel::fit(store.measurements().timed_like(key), kernels, key.device));
}

Result<int> fit_stale_classes(Store& store, bool write) {
  const auto records = store.winners().list();
  if (!records) return tl::unexpected(records.error());
  std::set<std::string> seen;
  int stale = 0;
  for (const Record& record : *records) {
    BestKey shapeless = record.key;
    shapeless.gemm = {};
    if (write && record.database != store.path()) continue;
    if (!seen.insert(key_text(shapeless) + class_text(record.key.gemm)).second) continue;
    const auto model = store.fits().of(record.key);
    if (!model) continue;
    const bool current = model->is_current(record.key.gemm, record.key.device);
    stale += !current;
    if (!write || (current && model->written_as_today())) continue;
    const Status done =
        current ? store.fits().put(record.key, *model) : fit_class(store, record.key);
    if (!done) return tl::unexpected(done.error());
  }
  return stale;
}

}  // namespace kiln
