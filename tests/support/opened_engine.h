// An Engine for tests: a database of its own, ears for what it says, and tuning without measuring.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine_impl.h"
#include "kiln/engine.hpp"
#include "support/fake_evaluator.h"
#include "support/temp_dir.h"
#include "tuner/verify/verify.h"

namespace kiln::test {

/// An engine with a database of its own, which hears what it says and tunes without measuring. Of a
/// budget a microsecond is spent with each look at the clock.
struct Opened {
  explicit Opened(Policy policy = Policy::use_best_known) { open(policy); }
  void open(Policy policy = Policy::use_best_known) {
    engine.reset();
    auto opened = Engine::open({.database = dir / "kiln.db",
                                .policy = policy,
                                .threads = 1,
                                .on_untuned = [this](const std::string& s) {
                                  const std::lock_guard lock(saying);
                                  said.push_back(s);
                                }});
    if (!opened) throw std::runtime_error(opened.error().message);
    engine.emplace(std::move(*opened));
    engine->impl().tuning.make_evaluator = fake_bench;
    engine->impl().tuning.clock = [ticks = std::make_shared<std::atomic<std::int64_t>>(0)] {
      return *ticks += 1000;
    };
  }
  Engine* operator->() { return &*engine; }

  TempDir dir;
  std::mutex saying;  // calls of several threads may miss at once
  std::vector<std::string> said;
  std::optional<Engine> engine;
};

/// The whole call checked: bounds, guards, alpha, beta, C in place.
inline Verdict check(Engine& engine, const Gemm& gemm) {
  return verify(gemm, [&](const Operands& operands) { return engine.gemm(gemm, operands); });
}

inline std::string why(const Verdict& verdict) { return verdict ? "" : verdict.error().detail; }

}  // namespace kiln::test
