// Mistakes planted in kernels of CPUs, which are compiled and run here: verification must find
// each. None may reach beyond the operands and the workspace.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "generator/render/render.h"
#include "runtime/compiler.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "tuner/verify/verify.h"

namespace kiln::test {

struct HostBase {
  const char* cpu;
  const char* shape;
  Config config;
};
/// `from` becomes `to` wherever it stands.
struct HostMutant {
  const HostBase* base;
  const char* name;
  const char* from;
  const char* to;
};

/// Why the kernel is wrong, or nothing; `change` is done to its source.
template <typename F>
std::string wrong_on_host(const HostBase& base, F&& change) {
  const auto device = runnable(base.cpu, 1);
  const Gemm gemm = parse_gemm(base.shape).value();
  auto source = render(Problem::of(gemm).value(), *device, base.config);
  if (!source) return "not rendered: " + source.error().message;
  change(source->text);
  const auto binary = host_compiler().value()->compile(*source);
  if (!binary) return "not compiled: " + binary.error().message;
  BoundKernel kernel(HostKernel::load(binary->image).value(), base.config, gemm, *device);
  auto verifier = Verifier::make(gemm, {.seed = 5, .effort = Effort::full}).value();
  const auto verdict =
      verifier.check([&](const Operands& operands) { return kernel.run(operands); });
  return verdict ? "" : "wrong: " + verdict.error().detail;
}

/// Those that this machine can run.
inline void expect_caught_on_host(std::span<const HostMutant> mutants) {
  Attempt attempt;
  for (const HostMutant& mutant : mutants) {
    if (!runnable(mutant.base->cpu, 1)) continue;
    attempt.at(mutant.name);
    bool planted = false;
    const std::string why = wrong_on_host(*mutant.base, [&](std::string& source) {
      const std::string from = mutant.from, to = mutant.to;
      for (auto at = source.find(from); at != source.npos; at = source.find(from, at + to.size())) {
        source.replace(at, from.size(), to);
        planted = true;
      }
    });
    EXPECT_TRUE(planted) << mutant.name << ": the kernel has no such place";
    EXPECT_TRUE(why.starts_with("wrong"))
        << mutant.name << ": " << (why.empty() ? "survived" : why);
  }
}

inline void expect_right_on_host(std::span<const HostBase* const> bases) {
  Attempt attempt;
  for (const HostBase* base : bases) {
    if (!runnable(base->cpu, 1)) continue;
    attempt.at(base->shape);
    EXPECT_EQ(wrong_on_host(*base, [](std::string&) {}), "") << base->shape;
  }
}

}  // namespace kiln::test
