// Drawn problems and configs of a family, compiled for the emulator and checked as the tuner
// checks.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/emulated.h"
#include "support/family_samples.h"
#include "support/gpu_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::test {

inline DeviceCaps device_of(const Target& target) {
  DeviceCaps device = caps_named(target.arch).value();
  device.compute_units = target.units;
  return device;
}

/// The type rows for which the target has this family at all.
inline std::vector<TypeRow> rows_of(const Target& target) {
  const DeviceCaps device = device_of(target);
  std::vector<TypeRow> rows;
  const auto covers = [&](const Gemm& layout, const TypeRow& row) {
    Gemm g = layout;
    g.a.dtype = row.a, g.b.dtype = row.b, g.accumulator = row.accumulator;
    g.c.dtype = g.d.dtype = row.usual_output();
    const auto space = test::space_of(g, device);
    return space && std::ranges::any_of(space->legal, [&](const Config& config) {
             return family_name(config) == target.family;
           });
  };
  const Gemm across_k = Gemm::row_major(8, 64, 64), along_k = across_k.transpose_b();
  for (const TypeRow& row : kTypeRows)
    if (covers(along_k, row) || covers(across_k, row)) rows.push_back(row);
  return rows;
}

using Draw = std::function<Gemm(RandomGpuGemm&)>;
using Wanted = std::function<bool(const Gemm&, const Config&)>;

/// Draws problems, and for each a config of the target's family that is wanted, until as many as
/// the target asks for were right, and one of each type in `every`; every fourth in the plain
/// order, the others in drawn ones.
inline void prove(
    const Target& target, const Draw& draw,
    const Wanted& wanted = [](const Gemm&, const Config&) { return true; },
    const std::vector<TypeRow>& every = {}) {
  const DeviceCaps device = device_of(target);
  const std::uint64_t seed = seed_of_run();
  testing::Test::RecordProperty("seed", fmt::format("{}", seed));
  RandomGpuGemm random(seed, target.largest);
  const int configs = std::max(target.configs, int(every.size())) * thorough();
  std::set<std::pair<DType, DType>> due;
  for (const TypeRow& row : every) due.emplace(row.a, row.b);
  int proven = 0;
  std::string without;  // the last problem that had nothing to draw from
  const int most = configs * target.tries;
  for (int tries = 0; proven < configs ? tries < most : !due.empty() && tries < 10 * most;
       ++tries) {
    const Gemm gemm = draw(random);
    if (proven >= configs && due.count({gemm.a.dtype, gemm.b.dtype}) == 0) continue;
    std::vector<Config> mine;
    if (const auto space = test::space_of(gemm, device))
      for (const Config& config : space->legal)
        if (family_name(config) == target.family && wanted(gemm, config)) mine.push_back(config);
    if (mine.empty()) {
      without = text(gemm);
      continue;
    }
    const Config& config = mine[random.below(mine.size())];
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, text(gemm), text(config));
    const auto kernel = emulated_kernel(gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const std::uint64_t order = proven % 4 == 0 ? 0 : seed + static_cast<std::uint64_t>(proven);
    const Verdict verdict = verify_emulated(gemm, *kernel, order);
    EXPECT_TRUE(verdict) << what << " | order " << order << ": "
                         << (verdict ? "" : verdict.error().detail);
    due.erase({gemm.a.dtype, gemm.b.dtype});
    ++proven;
  }
  EXPECT_GE(proven, configs) << "KILN_SEED=" << seed << ": no such config: " << without;
  for (const auto& [a, b] : due)
    ADD_FAILURE() << "KILN_SEED=" << seed << ": no config of " << name(a) << " x " << name(b);
}

/// Problems of each type that the target has the family for, in turn.
inline Draw any_of(const std::vector<TypeRow>& rows) {
  return [rows, turn = std::size_t{0}](RandomGpuGemm& random) mutable {
    return random.next({rows[turn++ % rows.size()]});
  };
}

}  // namespace kiln::test
