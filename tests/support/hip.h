// AMD targets as tests use them: devices by name, the best configs of the static model, and the
// layouts of matrix instructions that were recorded elsewhere.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "generator/render/render.h"
#include "generator/space/space.h"
#include "support/space.h"

namespace kiln::test {

inline Gemm problem(const std::string& line) {
  auto gemm = parse_gemm(line);
  EXPECT_TRUE(gemm) << line << ": " << (gemm ? "" : gemm.error().message);
  return gemm.value_or(Gemm{});
}

/// Legal configs of one family, those that the model likes best first.
template <typename C>
std::vector<Config> ranked(const Gemm& gemm, const DeviceCaps& device) {
  const auto space = test::space_of(gemm, device);
  if (!space) return {};
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < space->legal.size(); ++i)
    if (space->legal[i].is<C>())
      order.emplace_back(predict_ns(space->problem, device, space->legal[i]), i);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Config> configs;
  for (const auto& [ns, index] : order) configs.push_back(space->legal[index]);
  return configs;
}

}  // namespace kiln::test
