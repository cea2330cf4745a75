#include "engine/stored_kernels.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cache/keys.h"
#include "cache/records/devices.h"
#include "cache/records/fits.h"
#include "cache/records/winners.h"
#include "generator/problem/device_class.h"
#include "generator/space/launch_text.h"
#include "generator/space/summation.h"
#include "runtime/backend.h"
#include "tuner/verify/envelope.h"

namespace kiln {

KernelClass& StoredKernels::of(const BestKey& key, Store& store, const Validators& now) {
  BestKey shapeless = key;
  shapeless.gemm = {};
  const auto [entry, fresh] = classes_.try_emplace(key_text(shapeless) + class_text(key.gemm));
  KernelClass& found = entry->second;
  if (!fresh) return found;
  std::set<std::pair<Config, std::string>> seen;
  for (const BestKey& of : keys_of_kernels(key)) {
    const auto like = std::make_shared<const BestKey>(of);
    for (KernelRow& row : store.winners().kernels_like(of, now))
      if (row.verified && (of == key || !seen.contains({row.config, row.binary_key}))) {
        seen.emplace(row.config, row.binary_key);
        found.kernels.push_back({.row = std::move(row),
                                 .like = like,
                                 .record = {},
                                 .code = {},
                                 .proved = {},
                                 .code_class = {}});
      }
  }
  if (!found.kernels.empty())
    if (auto model = store.fits().of(key);
        model && model->useful() && model->is_current(key.gemm, key.device))
      found.model = std::move(*model);
  return found;
}

const std::vector<DeviceCaps>& StoredKernels::classes_of_cpus(const DeviceCaps& device,
                                                              Store& store) {
  if (!classes_of_cpus_) {
    classes_of_cpus_ = classes_of(device);
    std::erase_if(*classes_of_cpus_,
                  [&](const DeviceCaps& of_class) { return !store.devices().knows(of_class); });
  }
  return *classes_of_cpus_;
}

const std::vector<DeviceCaps>& StoredKernels::relatives(const DeviceCaps& device, Store& store) {
  if (!relatives_) {
    // A CPU has classes instead: its misses read nothing for this.
    relatives_ = on_host(device) ? std::vector<DeviceCaps>{} : store.devices().list();
    std::erase_if(*relatives_, [&](const DeviceCaps& other) {
      return other == device || !are_relatives(device, other);
    });
  }
  return *relatives_;
}

std::vector<RankedKernel> KernelClass::ranked(const BestKey& key) {
  const auto& [device, gemm, policy, determinism] = key;
  const Problem problem = Problem::of(gemm).value();
  const AllowedSummation order(problem, device, determinism);
  std::optional<FittedModel::Correction> correction;
  if (model) correction.emplace(model->at(gemm));
  std::vector<RankedKernel> allowed;
  for (StoredKernel& kernel : kernels) {
    const Config& config = kernel.config();
    if (!broken_rule(problem, device, config).empty() || !order.allows(config)) continue;
    const double ns = predict_ns(problem, device, config);
    allowed.push_back({correction ? ns * correction->of(config) : ns, &kernel});
  }
  std::ranges::stable_sort(allowed, {}, &RankedKernel::ns);
  return allowed;
}

namespace {

/// Reads the kernel's record. False: it is none that serves other sizes.
bool read_record(StoredKernel& kernel, Store& store) {
  if (kernel.useless || kernel.record) return !kernel.useless;
  auto record = store.winners().record_of(*kernel.like, kernel.row);
  kernel.useless = true;
  if (!record) return false;
  const Problem tuned = record->key.problem();
  if (!broken_rule(tuned, kernel.made_on(), kernel.config()).empty() ||
      !has_envelope(record->key.gemm, kernel.made_on(), kernel.config()))
    return false;
  kernel.record = std::move(record);
  kernel.useless = false;
  return true;
}

}  // namespace

bool serves(StoredKernel& kernel, const Gemm& gemm, const DeviceCaps& device, Store& store) {
  const Config& config = kernel.config();
  const DeviceCaps& made_on = kernel.made_on();
  const Problem problem = Problem::of(gemm).value();
  if (!broken_rule(problem, device, config).empty() || !read_record(kernel, store)) return false;
  if (!kernel.code_class) {
    const Problem tuned = kernel.record->key.problem();
    kernel.code_class = code_class(tuned, made_on, config);
  }
  if (code_class(problem, device, config) != *kernel.code_class) return false;
  return on_host(device) || made_on == device ||
         launch_text(problem, made_on, config) == launch_text(problem, device, config);
}

}  // namespace kiln
