#include "tuner/worker/candidate_code.h"

#include <algorithm>
#include <memory>

#include "runtime/backend.h"

namespace kiln {

CandidateCode::CandidateCode(const SearchInput& input, Compiler& compiler)
    : gemm_(input.gemm), device_(input.device), stored_(input.stored), compiler_(compiler) {}

void CandidateCode::compile(const std::vector<Config>& group) {
  compiling_.clear();  // joins
  std::vector<CompiledCode*> slots;
  std::vector<const Config*> configs;
  for (const Config& config : group) {
    const auto [it, fresh] = code_.try_emplace(config);
    if (!fresh) continue;
    slots.push_back(&it->second);
    configs.push_back(&it->first);
  }
  const auto next = std::make_shared<std::atomic<std::size_t>>(0);
  const auto work = [this, next, slots, configs](const std::stop_token& stop) {
    for (std::size_t i; (i = next->fetch_add(1)) < slots.size();) {
      if (!stop.stop_requested()) compile_one(*configs[i], *slots[i]);
      slots[i]->done.store(true);
      slots[i]->done.notify_all();
    }
  };
  const std::size_t helpers =
      std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), slots.size());
  for (std::size_t i = 0; i < helpers; ++i) compiling_.emplace_back(work);
  if (!on_host(device_)) return;
  for (std::jthread& t : compiling_) t.join();
  compiling_.clear();
  return;
}

void CandidateCode::compile_one(const Config& config, CompiledCode& out) const {
  auto source = render(gemm_, device_, config);
  if (!source) {
    out.failure = Failure{Failure::Kind::compile, source.error().message};
    return;
  }
  out.artifact.source = std::move(*source);
  if (stored_) out.artifact.binary = stored_(out.artifact.source);
  if (!out.artifact.binary) {
    auto binary = compiler_.compile(out.artifact.source);
    if (!binary) {
      out.failure = Failure{Failure::Kind::compile, binary.error().message};
      return;
    }
    out.artifact.binary = std::move(*binary);
  }
  out.key = binary_key(out.artifact.source, compiler_.version());
}

const CompiledCode& CandidateCode::of(const Config& config) const {
  const CompiledCode& found = code_.at(config);
  found.done.wait(false);
  return found;
}

const Artifact* CandidateCode::artifact(const Config& config) const {
  const auto it = code_.find(config);
  return it == code_.end() || !it->second.done || it->second.artifact.source.text.empty()
             ? nullptr
             : &it->second.artifact;
}

}  // namespace kiln
