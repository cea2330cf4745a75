// Pairs of configs that sum in one order by what their families say, of problems that differ in m
// alone, and whether their kernels leave the same bits in the same rows.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "support/rows.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::test {

/// Configs of a problem's space by what `order_of` says of them; those of no known order left out.
using Orders = std::map<std::string, std::vector<Config>>;
using OrderOf = std::function<std::string(const Problem&, const DeviceCaps&, const Config&)>;

inline Orders orders_of(const Gemm& gemm, const DeviceCaps& device, const OrderOf& order_of,
                        std::string_view family = {}) {
  Orders orders;
  const auto space = test::space_of(gemm, device);
  if (!space) return orders;
  for (const Config& config : space->legal) {
    if (!family.empty() && family_name(config) != family) continue;
    if (auto order = order_of(space->problem, device, config); !order.empty())
      orders[std::move(order)].push_back(config);
  }
  return orders;
}

/// Two problems that differ in m, a config for each, and where the rows of the second are in the
/// first.
struct Pair {
  Gemm tall, low;
  Config of_tall, of_low;
  std::int64_t first = 0;
};

inline std::string text_of(const Pair& pair) {
  return fmt::format("KILN_SEED={}: {} | {} against m = {} | {} at row {}", seed_of_run(),
                     text(pair.tall), text(pair.of_tall), pair.low.m, text(pair.of_low),
                     pair.first);
}

using Start = std::function<Result<Run>(const Gemm&, const DeviceCaps&, const Config&)>;

/// Nothing, or how the bits differ.
inline std::optional<std::string> difference(const Pair& pair, const DeviceCaps& device,
                                             const Start& start) {
  const auto kernel = start(pair.tall, device, pair.of_tall);
  const auto other = start(pair.low, device, pair.of_low);
  if (!kernel) return kernel.error().message;
  if (!other) return other.error().message;
  Rows tall(pair.tall, seed_of_run());
  Rows low = tall.part(pair.low, pair.first);
  if (const Status ran = tall.run(*kernel); !ran) return ran.error().message;
  if (const Status ran = low.run(*other); !ran) return ran.error().message;
  return low.difference(tall, pair.first);
}

/// Draws pairs of a problem's orders: in turn the one that is most seldom, and any.
inline std::vector<Pair> pairs_of(const Gemm& tall, const DeviceCaps& device,
                                  const OrderOf& order_of, std::size_t count,
                                  std::mt19937_64& random, std::string_view family = {}) {
  const std::int64_t m = 1 + std::int64_t(random() % std::uint64_t(tall.m));
  const Gemm low = with_rows(tall, m);
  const Orders of_tall = orders_of(tall, device, order_of, family);
  const Orders of_low = orders_of(low, device, order_of, family);
  std::vector<std::string> shared;
  for (const auto& [order, configs] : of_tall)
    if (of_low.contains(order)) shared.push_back(order);
  std::ranges::shuffle(shared, random);
  std::vector<Pair> pairs;
  for (const std::string& order : shared) {
    if (pairs.size() == count) break;
    const auto any = [&](const std::vector<Config>& from) { return from[random() % from.size()]; };
    pairs.push_back({tall, low, any(of_tall.at(order)), any(of_low.at(order)),
                     std::int64_t(random() % std::uint64_t(tall.m - m + 1))});
  }
  return pairs;
}

/// What the families say.
inline std::string stated_order(const Problem& problem, const DeviceCaps& device,
                                const Config& config) {
  return summation(problem, device, config);
}

}  // namespace kiln::test
