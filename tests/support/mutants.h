// Bugs planted in rendered kernels: one at a time, each of which must be caught in one of a few
// orders, by a report or by a wrong result. The kernels as they are must pass.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/emulated.h"
#include "support/seed.h"

namespace kiln::test {

constexpr std::uint64_t kOrders = 8;  // that a planted bug may survive until it must be caught

/// In which the kernels as they are must pass: the plain one and drawn ones. Nearly every planted
/// bug is caught in the plain one.
inline std::uint64_t clean_orders() { return 3 * static_cast<std::uint64_t>(thorough()); }

/// A problem and a config whose kernel has the code in question.
struct Base {
  const char* name;
  const char* arch;
  const char* shape;
  Config config;
  int units = 2;  // few, so that blocks take several tiles
  // Becomes `reaches_to` in the kernel as it is, too: code that else only large problems reach.
  const char* reaches_from = nullptr;
  const char* reaches_to = nullptr;
};

/// `from` becomes `to`, at its `which`-th place.
struct Mutant {
  const Base* base;
  const char* name;
  const char* from;
  const char* to;
  int which = 0;
};

struct Bound {
  Gemm gemm;
  DeviceCaps device;
  Config config;
};

inline Bound bind(const Base& base) {
  const auto gemm = parse_gemm(base.shape);
  const auto device = caps_named(base.arch);
  EXPECT_TRUE(gemm) << base.name << ": " << gemm.error().message;
  EXPECT_TRUE(device) << base.name << ": " << device.error().message;
  Bound bound{gemm.value(), device.value(), base.config};
  bound.device.compute_units = base.units;
  return bound;
}

/// Why the kernel is wrong, or nothing.
inline std::string caught(const Bound& b, const Emulated& kernel, std::uint64_t order) {
  const Verdict verdict = verify_emulated(b.gemm, kernel, order, Effort::usual);
  return verdict ? "" : verdict.error().detail;
}

/// What the base does to its kernel's source.
inline void prepare(const Base& base, std::string& text) {
  if (base.reaches_from == nullptr) return;
  const std::size_t at = text.find(base.reaches_from);
  EXPECT_NE(at, std::string::npos) << base.name << ": the kernel has no such place";
  if (at != std::string::npos)
    text.replace(at, std::string_view(base.reaches_from).size(), base.reaches_to);
}

inline void expect_caught(std::span<const Mutant> mutants) {
  std::string survivors;
  const char* only = std::getenv("KILN_MUTANTS");  // a base's name
  for (const Mutant& mutant : mutants) {
    const std::string what = fmt::format("{}: {}", mutant.base->name, mutant.name);
    if (only != nullptr && std::string_view(only) != mutant.base->name) continue;
    const Bound b = bind(*mutant.base);
    bool planted = false;
    const auto plant = [&](std::string& text) {
      prepare(*mutant.base, text);
      std::size_t at = text.find(mutant.from);
      for (int i = 0; i < mutant.which && at != std::string::npos; ++i)
        at = text.find(mutant.from, at + 1);
      if (at == std::string::npos) return;
      text.replace(at, std::string_view(mutant.from).size(), mutant.to);
      planted = true;
    };
    const auto kernel = emulated_kernel(b.gemm, b.device, b.config, plant);
    EXPECT_TRUE(planted) << what << ": the kernel has no such place";
    EXPECT_TRUE(kernel) << what << ": " << kernel.error().message;
    if (!planted || !kernel) continue;
    std::string why;
    std::uint64_t order = 0;
    for (; order < kOrders && why.empty(); ++order) why = caught(b, *kernel, order);
    fmt::print("{:<70} {} {:.160}\n", what, order, why.empty() ? "SURVIVED" : why);
    if (why.empty()) survivors += "\n  " + what;
  }
  EXPECT_EQ(survivors, "") << "planted bugs that nothing caught";
}

inline void expect_clean(const std::vector<const Base*>& bases) {
  for (const Base* base : bases) {
    const Bound b = bind(*base);
    const auto kernel = emulated_kernel(b.gemm, b.device, b.config,
                                        [&](std::string& text) { prepare(*base, text); });
    ASSERT_TRUE(kernel) << base->name << ": " << kernel.error().message;
    for (std::uint64_t order = 0; order < clean_orders(); ++order)
      EXPECT_EQ(caught(b, *kernel, order), "") << base->name << " in order " << order;
  }
}

}  // namespace kiln::test
