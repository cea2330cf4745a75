// What a family writes: a row over its own config type and its derived sizes. `family_row` makes
// of it the `Family` that everything else reads. Here alone a config is cast to its type, and its
// sizes are derived once for all rules.
#pragma once

#include <algorithm>
#include <cassert>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "generator/expression/halves.h"
#include "generator/expression/program.h"
#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/space/family.h"

namespace kiln {

/// A named legality predicate. The name is the log line, the rejection count and the test name.
template <typename C, typename S>
struct Rule {
  std::string_view name;
  bool (*allows)(const Problem&, const DeviceCaps&, const C&, const S& sizes);
};

/// A rule that must hold before sizes can be derived: it sees the config alone.
template <typename C>
struct FirstRule {
  std::string_view name;
  bool (*allows)(const Problem&, const DeviceCaps&, const C&);
};

/// Of a family that derives none.
struct NoSizes {};

/// What follows a GPU's kernels where rows of the product are added to rows of D: the kernels
/// compute product_to_add() into the workspace.
struct RowAdder {
  void (*add_parameters)(Parameters&, const Problem& problem);
  void (*add_steps)(GpuLaunch&, const Problem& problem, const DeviceCaps&);
};

/// `C` is the config's type, `S` what is derived from it. Pointers are null as in `Family`.
template <typename C, typename S>
struct TypedFamily {
  using ConfigType = C;
  Vendor vendor;
  std::span<const std::string_view> files;
  std::span<const FirstRule<C>> first_rules;
  /// Called for configs that keep the first rules: no division by zero for any of them.
  S (*sizes)(const Problem&, const DeviceCaps&, const C&);
  std::span<const Rule<C, S>> rules;
  void (*enumerate)(const Problem&, const DeviceCaps&,
                    const std::function<void(const Config&)>& visit);
  Parameters (*parameters)(const Problem&, const DeviceCaps&, const C&, const S&);
  double (*predict_ns)(const Problem&, const DeviceCaps&, const C&, const S&);
  GpuLaunch (*launch)(const Problem&, const DeviceCaps&, const C&, const S&) = nullptr;
  KilnDivision (*division)(const C&) = nullptr;
  Tile (*tile)(const Problem&, const C&, const S&) = nullptr;
  std::string (*summation)(const Problem&, const DeviceCaps&, const C&, const S&) = nullptr;
  std::optional<C> (*plain)(const Problem&, const DeviceCaps&) = nullptr;
  std::optional<C> (*fallback)(const Problem&, const DeviceCaps&) = nullptr;
  C (*ragged)(const C&) = nullptr;
  double (*flushed_by)(const Gemm&, const DeviceCaps&, const C&) = nullptr;
  std::vector<std::string> (*flags)(const DeviceCaps&, const C&) = nullptr;
  Features offers;
  Together (*together)(const Problem&, const C&, const S&) = nullptr;  ///< null: of each element
  const RowAdder* row_adder = nullptr;  ///< of a GPU's family that offers added_rows
  int revision = 1;
  /// Whether threads, or lanes of a warp, hold both columns 2i and 2i + 1 where they finish one.
  bool holds_pairs = false;
  /// Whether what kernels leave of each element for a step behind them may be their D, of another
  /// type than C: the store of D is then the one way out.
  bool keeps_in_d = false;
};

/// Whether a family computes what is before the reductions that an expression reads, and a step
/// behind them the rest.
template <const auto& kRow>
bool divides_expression(const Problem& p) {
  const Expression& expression = p.gemm.epilogue.expression;
  return expression::halves_in(expression) != nullptr &&
         !(kRow.holds_pairs && expression::reads_pairs_alone(expression));
}

/// The problem that a family sees, but for its expression.
template <const auto& kRow, typename F>
decltype(auto) of_one_group(const Problem& p, F&& f) {
  if constexpr (kRow.vendor == Vendor::cpu) {
    if (p.gemm.grouping() == Grouping::k) return f(alone(p, p.gemm.k));
    if (lists_products(p.gemm))
      return f(alone(p, ListEntry{.m = p.gemm.m, .n = p.gemm.n, .k = p.gemm.k}));
    if (grouped(p.gemm)) {
      const std::int64_t parts = p.gemm.grouping() == Grouping::rows ? p.gemm.batch : 2;
      return f(alone(p, std::max<std::int64_t>(1, p.gemm.m / parts)));
    }
  } else {
    if (adds_rows(p.gemm)) return f(product_to_add(p));
  }
  return f(p);
}

/// The problem that a family sees: a CPU's kernels are called for one group after the other, each
/// taken to have an equal share of the rows, or half of those that it may have. Of groups of k each
/// is taken to have all of it, since rules depend on how long k is, and a product of a list is the
/// largest. Where rows are added a GPU's family sees the product alone. Of an expression that reads
/// what it reduces families see the half before the reductions.
template <const auto& kRow, typename F>
decltype(auto) as_seen(const Problem& p, F&& f) {
  // Groups move D's pointers by ways of their own.
  const bool in_d = kRow.keeps_in_d && p.gemm.grouping() == Grouping::none;
  if (divides_expression<kRow>(p)) return of_one_group<kRow>(of_kernels(p, in_d), f);
  return of_one_group<kRow>(p, f);
}

/// As as_seen(), for estimates of time: groups of k have equal shares of it, products of a list the
/// sizes that they have on average where they are timed.
template <const auto& kRow, typename F>
decltype(auto) as_timed(const Problem& p, F&& f) {
  if constexpr (kRow.vendor == Vendor::cpu)
    if (p.gemm.grouping() == Grouping::k)
      return as_seen<kRow>(alone(p, std::max<std::int64_t>(1, p.gemm.k / p.gemm.batch)), f);
  if (lists_products(p.gemm)) return as_seen<kRow>(usual_product(p), f);
  return as_seen<kRow>(p, f);
}

/// A launch before whose steps one thread clears what blocks raise: the largest magnitude of D. It
/// does not overlap with the grid before it in the stream, which may read what the call before
/// found.
inline GpuLaunch cleared_first(const Gemm& gemm, GpuLaunch launch) {
  if (!gemm.amax_d) return launch;
  GpuStep step;
  step.entry = "kiln_clear";
  launch.steps.insert(launch.steps.begin(), std::move(step));
  return launch;
}

/// A launch whose last steps make of an expression's values, which the others leave in the
/// workspace, what it stores of rows, columns and all elements of D, and what is made of that.
GpuLaunch reduced_last(const Gemm& gemm, const Together& together, GpuLaunch launch);
/// How long the step takes that follows the reductions, if there is one.
double expected_ns_behind(const Gemm& gemm, const DeviceCaps& device);

/// A launch whose first steps write the list of the products into the workspace, from parameters: a
/// graph that captures the call keeps them. What kernels of lists use of it besides, without maps,
/// lies behind the entries.
inline GpuLaunch list_first(const Gemm& gemm, GpuLaunch launch) {
  assert(launch.workspace_bytes == 0 || (launch.entry_maps == 0 && launch.zeroed_bytes == 0));
  if (launch.steps.empty()) return launch;
  launch.entry_bytes = known_bytes_of_entry(gemm);
  const std::int64_t together = launch.entries_of_chunk();
  std::vector<GpuStep> steps;
  for (std::int64_t first = 0; first < gemm.batch; first += together) {
    GpuStep& step = steps.emplace_back();
    step.entry = "kiln_take_list";
    step.block.x = 128;
    step.first_entry = first;
    if (launch.entry_maps == 0) continue;
    step.overlaps_previous = true;
    // A warp makes one map.
    step.grid.x = static_cast<unsigned>((together * launch.entry_maps + 3) / 4);
    for (int map = 0; map < launch.entry_maps; ++map) step.maps.push_back(map);
  }
  launch.steps.insert(launch.steps.begin(), steps.begin(), steps.end());
  launch.workspace_bytes += gemm.batch * launch.entry_bytes;
  constexpr std::int64_t kMapBytes = 128;
  if (launch.entry_maps > 0)
    launch.workspace_bytes = (launch.workspace_bytes + kMapBytes - 1) / kMapBytes * kMapBytes +
                             gemm.batch * launch.entry_maps * kMapBytes;
  return launch;
}

/// `kRow` is a constexpr TypedFamily of static storage.
template <const auto& kRow>
Family family_row() {
  using C = typename std::remove_cvref_t<decltype(kRow)>::ConfigType;
  static_assert(kRow.vendor == Vendor::cpu ||
                kRow.offers.has(Feature::added_rows) == (kRow.row_adder != nullptr));
  Family row{.name = C::kFamily,
             .vendor = kRow.vendor,
             .files = kRow.files,
             .offers = kRow.offers,
             .revision = kRow.revision};
  row.enumerate = [](const Problem& p, const DeviceCaps& d,
                     const std::function<void(const Config&)>& visit) {
    as_seen<kRow>(p, [&](const Problem& seen) { kRow.enumerate(seen, d, visit); });
  };
  row.broken_rule = [](const Problem& p, const DeviceCaps& d, const Config& config) {
    return as_seen<kRow>(p, [&](const Problem& seen) -> std::string_view {
      const C c = config.as<C>();
      for (const auto& rule : kRow.first_rules)
        if (!rule.allows(seen, d, c)) return rule.name;
      const auto sizes = kRow.sizes(seen, d, c);
      for (const auto& rule : kRow.rules)
        if (!rule.allows(seen, d, c, sizes)) return rule.name;
      return {};
    });
  };
  row.parameters = [](const Problem& p, const DeviceCaps& d, const Config& config) {
    return as_seen<kRow>(p, [&](const Problem& seen) {
      const C c = config.as<C>();
      Parameters all = kRow.parameters(seen, d, c, kRow.sizes(seen, d, c));
      if (kRow.row_adder != nullptr && adds_rows(p.gemm)) kRow.row_adder->add_parameters(all, p);
      return all;
    });
  };
  row.predict_ns = [](const Problem& p, const DeviceCaps& d, const Config& config) {
    const double ns = as_timed<kRow>(p, [&](const Problem& seen) {
      const C c = config.as<C>();
      return kRow.predict_ns(seen, d, c, kRow.sizes(seen, d, c));
    });
    const bool for_each = kRow.vendor == Vendor::cpu && grouped(p.gemm);
    const double all = for_each ? ns * double(p.gemm.batch) : ns;
    return divides_expression<kRow>(p) ? all + expected_ns_behind(p.gemm, d) : all;
  };
  if (kRow.launch != nullptr)
    row.launch = [](const Problem& p, const DeviceCaps& d, const Config& config) {
      return as_seen<kRow>(p, [&](const Problem& seen) {
        const C c = config.as<C>();
        const auto sizes = kRow.sizes(seen, d, c);
        GpuLaunch all = cleared_first(seen.gemm, kRow.launch(seen, d, c, sizes));
        const Together together =
            kRow.together != nullptr ? kRow.together(seen, c, sizes) : Together{};
        all = reduced_last(seen.gemm, together, std::move(all));
        if (lists_products(seen.gemm)) all = list_first(seen.gemm, std::move(all));
        if (kRow.row_adder != nullptr && adds_rows(p.gemm)) kRow.row_adder->add_steps(all, p, d);
        return all;
      });
    };
  if (kRow.division != nullptr)
    row.division = [](const Config& config) { return kRow.division(config.as<C>()); };
  if (kRow.tile != nullptr)
    row.tile = [](const Problem& p, const DeviceCaps& d, const Config& config) {
      return as_seen<kRow>(p, [&](const Problem& seen) {
        const C c = config.as<C>();
        return kRow.tile(seen, c, kRow.sizes(seen, d, c));
      });
    };
  if (kRow.together != nullptr)
    row.together = [](const Problem& p, const DeviceCaps& d, const Config& config) {
      return as_seen<kRow>(p, [&](const Problem& seen) {
        const C c = config.as<C>();
        return kRow.together(seen, c, kRow.sizes(seen, d, c));
      });
    };
  if (kRow.summation != nullptr)
    row.summation = [](const Problem& p, const DeviceCaps& d, const Config& config) {
      return as_seen<kRow>(p, [&](const Problem& seen) {
        const C c = config.as<C>();
        return kRow.summation(seen, d, c, kRow.sizes(seen, d, c));
      });
    };
  if (kRow.plain != nullptr)
    row.plain = [](const Problem& p, const DeviceCaps& d) {
      return as_seen<kRow>(p, [&](const Problem& seen) -> std::optional<Config> {
        if (const auto config = kRow.plain(seen, d)) return *config;
        return std::nullopt;
      });
    };
  if (kRow.fallback != nullptr)
    row.fallback = [](const Problem& p, const DeviceCaps& d) {
      return as_seen<kRow>(p, [&](const Problem& seen) -> std::optional<Config> {
        if (const auto config = kRow.fallback(seen, d)) return *config;
        return std::nullopt;
      });
    };
  if (kRow.ragged != nullptr)
    row.ragged = [](const Config& config) -> Config { return kRow.ragged(config.as<C>()); };
  if (kRow.flushed_by != nullptr)
    row.flushed_by = [](const Gemm& g, const DeviceCaps& d, const Config& config) {
      return kRow.flushed_by(g, d, config.as<C>());
    };
  if (kRow.flags != nullptr)
    row.flags = [](const DeviceCaps& d, const Config& config) {
      return kRow.flags(d, config.as<C>());
    };
  return row;
}

}  // namespace kiln
