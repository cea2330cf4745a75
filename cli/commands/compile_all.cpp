#include "cli/commands/compile_all.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "cli/session.h"
#include "runtime/cpu/affinity.h"

namespace kiln::cli {
namespace {

Compiled compile_one(Compiler& compiler, const Gemm& gemm, const Target& target,
                     const Config& config) {
  Compiled out;
  Result<Source> source = source_for(target, gemm, config);
  if (!source) {
    out.binary = tl::unexpected(source.error());
    return out;
  }
  out.source = std::move(*source);
  const auto start = std::chrono::steady_clock::now();
  out.binary = compiler.compile(out.source);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  out.ms = spent.count();
  return out;
}

}  // namespace

std::vector<Compiled> compile_all(Compiler& compiler, const Gemm& gemm, const Target& target,
                                  const std::vector<Config>& configs, int jobs) {
  std::vector<Compiled> results(configs.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < configs.size() && !interrupted();)
      results[i] = compile_one(compiler, gemm, target, configs[i]);
  };
  const auto cores = static_cast<std::size_t>(usable_threads());
  const std::size_t wanted = jobs > 0 ? static_cast<std::size_t>(jobs) : cores;
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(wanted, configs.size()); ++i) others.emplace_back(work);
    work();
  }
  return results;
}

}  // namespace kiln::cli
