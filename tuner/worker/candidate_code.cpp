#include "tuner/worker/candidate_code.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/backend.h"
#include "runtime/cpu/affinity.h"

namespace kiln {

CandidateCode::CandidateCode(const SearchInput& input, Compiler& compiler)
    : gemm_(input.gemm),
      device_(input.device),
      stored_(input.stored),
      compiled_(input.compiled),
      compiler_(compiler) {}

bool CandidateCode::was_left(const Slot& slot) {
  if (slot.answered || slot.failure) return false;
  return !slot.shared || (slot.shared->done && !slot.shared->binary && !slot.shared->failure);
}

void CandidateCode::leave() {
  for (std::jthread& t : compiling_) t.request_stop();
  compiling_.clear();  // joins
}

void CandidateCode::compile(const std::vector<Config>& group, const Told& told,
                            const Enough& enough) {
  leave();
  // What an earlier group was stopped before is begun anew.
  std::erase_if(slots_, [](const auto& one) { return was_left(one.second); });
  std::vector<std::pair<const Config*, Slot*>> fresh;
  for (const Config& config : group) {
    const auto [it, added] = slots_.try_emplace(config);
    if (added) fresh.emplace_back(&it->first, &it->second);
  }
  const auto batch = batch_ = std::make_shared<Batch>();
  batch->total = fresh.size();
  const auto work = [this, batch, fresh](const std::stop_token& stop) {
    for (std::size_t i; (i = batch->next.fetch_add(1)) < fresh.size();) {
      const auto& [config, slot] = fresh[i];
      if (!stop.stop_requested()) compile_one(*config, *slot, stop);
      slot->rendered.store(true);
      slot->rendered.notify_all();
      const std::lock_guard lock(batch->mutex);
      ++batch->done;
      batch->more.notify_all();
    }
  };
  const std::size_t helpers = std::min(static_cast<std::size_t>(usable_threads()), fresh.size());
  for (std::size_t i = 0; i < helpers; ++i) compiling_.emplace_back(work);
  if (!on_host(device_)) return;
  wait(told, enough, [&] { return batch->done == batch->total; });
  leave();
}

bool CandidateCode::wait(const Told& told, const Enough& enough,
                         const std::function<bool()>& over) const {
  constexpr std::chrono::milliseconds kTold{100};
  std::unique_lock lock(batch_->mutex);
  while (!over()) {
    const std::size_t done = batch_->done;
    lock.unlock();
    if (told) told(done, batch_->total);  // may throw
    if (enough && enough(done)) return false;
    lock.lock();
    batch_->more.wait_for(lock, kTold, [&] { return batch_->done != done; });
  }
  return true;
}

void CandidateCode::compile_one(const Config& config, Slot& out, const std::stop_token& stop) {
  auto source = render(Problem::of(gemm_).value(), device_, config);
  if (!source) {
    out.failure = Failure{Failure::Kind::compile, source.error().message};
    return;
  }
  out.source = std::move(*source);
  out.key = binary_key(out.source, compiler_.version());
  std::shared_ptr<Shared> mine;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Shared>& known = by_key_[out.key];
    if (!known) known = mine = std::make_shared<Shared>();
    out.shared = known;
  }
  if (!mine) return;  // the thread that came first compiles it
  compile_shared(out.source, *mine, stop);
  if (!mine->binary && !mine->failure) {
    const std::lock_guard lock(mutex_);
    by_key_.erase(out.key);
  }
  mine->done.store(true);
  mine->done.notify_all();
}

void CandidateCode::compile_shared(const Source& source, Shared& out,
                                   const std::stop_token& stop) const {
  if (stored_)
    if (auto kept = stored_(source)) {
      out.binary = std::make_shared<const Binary>(std::move(*kept));
      return;
    }
  auto binary = compiler_.compile_unless(stop, source);
  if (!binary && stop.stop_requested()) return;
  if (binary && compiled_) compiled_(source, *binary);
  if (binary)
    out.binary = std::make_shared<const Binary>(std::move(*binary));
  else
    out.failure = Failure{Failure::Kind::compile, binary.error().message};
}

const CompiledCode* CandidateCode::of(const Config& config, const Told& told,
                                      const Enough& enough) {
  Slot& slot = slots_.at(config);
  const auto compiled = [&] { return slot.rendered && (!slot.shared || slot.shared->done); };
  if (!wait(told, enough, compiled)) leave();
  if (was_left(slot)) return nullptr;
  if (std::exchange(slot.answered, true)) return &slot.answer;
  CompiledCode& answer = slot.answer;
  answer.artifact.source = std::move(slot.source);
  answer.key = std::move(slot.key);
  answer.failure = std::move(slot.failure);
  if (slot.shared) {
    answer.artifact.binary = slot.shared->binary;
    answer.failure = slot.shared->failure;
    if (answer.failure) answer.key.clear();
  }
  return &answer;
}

const Artifact* CandidateCode::artifact(const Config& config) const {
  const auto it = slots_.find(config);
  return it == slots_.end() || it->second.answer.artifact.source.text.empty()
             ? nullptr
             : &it->second.answer.artifact;
}

}  // namespace kiln
