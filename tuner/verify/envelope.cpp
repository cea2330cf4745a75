#include "tuner/verify/envelope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "generator/problem/fields.h"
#include "generator/space/code_class.h"
#include "generator/space/family.h"
#include "tuner/verify/ragged.h"

namespace kiln {
namespace {

using Sizes = std::array<std::int64_t, 3>;  // m, n, k

/// Codes that promise themselves multiples of something are proved on multiples of it.
constexpr std::array<std::int64_t, 9> kSteps{1, 2, 4, 8, 16, 32, 64, 128, 256};
/// Which of m, n, k are brought to a multiple: bits, fewest first.
constexpr std::array<unsigned, 7> kRounded{4, 2, 1, 6, 5, 3, 7};

std::int64_t multiple_near(std::int64_t size, std::int64_t step) {
  return std::max(step, size / step * step);
}

class Envelope {
 public:
  Envelope(const Gemm& gemm, const DeviceCaps& device, const Config& config, double most_work)
      : gemm_(gemm),
        device_(device),
        config_(config),
        most_work_(most_work),
        own_(code_class(Problem::of(gemm).value(), device, config)) {
    Gemm single = gemm;
    single.batch = 1;
    if (!broken_rule(Problem::of(single).value(), device, config).empty()) least_batch_ = 2;
  }

  /// The problem of these sizes, or the nearest that is the same code.
  void add(Sizes sizes, std::int64_t batch, std::int64_t extra) {
    const Sizes own{gemm_.m, gemm_.n, gemm_.k};
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0) sizes[i] = own[i];
    for (const std::int64_t step : kSteps)
      for (const unsigned rounded : kRounded) {
        Sizes tried = sizes;
        for (std::size_t i = 0; i < tried.size(); ++i)
          if (rounded >> i & 1 && sizes[i] != own[i]) tried[i] = multiple_near(tried[i], step);
        if (take(tried, batch, extra)) return;
        if (step == 1) break;
      }
  }
  std::vector<Gemm> problems() && { return std::move(problems_); }

 private:
  /// Whether nothing nearer need be tried.
  bool take(const Sizes& sizes, std::int64_t batch, std::int64_t extra) {
    Gemm one = gemm_;
    one.m = sizes[0];
    one.n = sizes[1];
    one.k = sizes[2];
    one.batch = std::max(batch, least_batch_);
    loosen_pitches(one, gemm_, extra);
    if (one.flops() / 2 > most_work_) return true;
    const auto problem = Problem::of(one);
    if (!problem || !broken_rule(*problem, device_, config_).empty()) return false;
    if (code_class(*problem, device_, config_) != own_) return false;
    if (seen_.insert(one).second) problems_.push_back(one);
    return true;
  }

  const Gemm& gemm_;
  const DeviceCaps& device_;
  const Config& config_;
  const double most_work_;
  const CodeClass own_;
  std::int64_t least_batch_ = 1;  // threads may have a product each
  std::vector<Gemm> problems_;
  std::set<Gemm> seen_;
};

/// On either side of one tile, and of several.
std::array<std::int64_t, 5> around(std::int64_t tile) {
  if (tile == 0) return {};
  const auto least = [](std::int64_t size) { return std::max<std::int64_t>(1, size); };
  return {1, least(tile - 1), tile, tile + 1, 2 * tile + tile / 2 + 1};
}

/// One element, on either side of a stage, fewer stages than parts of k, and more.
std::array<std::int64_t, 7> depths(std::int64_t stage) {
  if (stage == 0) return {};
  return {1,
          std::max<std::int64_t>(1, stage - 1),
          stage,
          stage + 1,
          4 * stage + stage / 2 + 1,
          12 * stage,
          40 * stage + 3};
}

/// What a CPU's code has beyond tiles: on either side of a cache block, each part of a tile that
/// has code of its own, whole and ragged in the other sizes.
void add_blocks(Envelope& all, const Tile& tile, std::span<const std::int64_t> m,
                std::span<const std::int64_t> n, std::span<const std::int64_t> k) {
  for (std::int64_t rows = tile.step_m; tile.step_m > 0 && rows < tile.m; rows += tile.step_m)
    for (const std::size_t i : {1, 2}) all.add({rows, n[i], k[i]}, 1, 0);
  for (std::int64_t columns = tile.step_n; tile.step_n > 0 && columns < tile.n;
       columns += tile.step_n)
    for (const std::size_t i : {1, 2})
      all.add({m[i], std::max<std::int64_t>(1, columns - (i == 1 ? 0 : 3)), k[i + 1]}, 1, 0);
  if (tile.block_m > 0) {
    all.add({tile.block_m, n[1], k[3]}, 1, 0);
    all.add({tile.block_m + 1, n[3], k[3]}, 1, 1);
    all.add({2 * tile.block_m + tile.m + 1, n[0], k[4]}, 1, 0);
  }
  if (tile.block_n > 0) {
    all.add({m[1], tile.block_n, k[3]}, 1, 0);
    all.add({m[3], tile.block_n + 1, k[3]}, 1, 1);
    all.add({m[0], 2 * tile.block_n + tile.n + 1, k[4]}, 1, 0);
  }
  // The same with as little else as there can be: of large blocks the problems above are too much.
  for (const std::int64_t rows : {tile.block_m + 1, 2 * tile.block_m + tile.m + 1})
    if (tile.block_m > 0) all.add({rows, n[0], k[3]}, 1, 0);
  for (const std::int64_t columns : {tile.block_n + 1, 2 * tile.block_n + tile.n + 1})
    if (tile.block_n > 0) all.add({m[0], columns, k[3]}, 1, 0);
  if (tile.block_m > 0 && tile.block_n > 0) {
    all.add({tile.block_m + 1, tile.block_n + 1, k[3]}, 1, 0);
    all.add({tile.block_m + 1, tile.block_n + 1, 9}, 1, 0);
  }
}

/// The epilogue that is number `turn` of all of them. A field's values follow each other by turns
/// as long as those of all fields before it whose numbers of values have a factor in common with
/// its own, so that all values meet.
void set_epilogue(Gemm& gemm, std::size_t turn) {
  std::vector<std::size_t> counts;
  for (const GemmField& field : kGemmFields) {
    if (!told_at_calls(field)) continue;
    const std::size_t count = field.flag ? 2 : field.names.size();
    std::size_t length = 1;
    for (const std::size_t before : counts)
      if (std::gcd(before, count) != 1) length *= before;
    counts.push_back(count);
    Gemm with = gemm;
    if (field.set(with, static_cast<std::int64_t>(turn / length % count)) && Problem::of(with))
      gemm = with;
  }
}

/// Every other problem has an epilogue, all of them in turn: the code has a branch around them.
void vary_epilogues(std::vector<Gemm>& problems) {
  for (std::size_t i = 0; i < problems.size(); ++i) {
    problems[i].epilogue = {};
    if (i % 2 == 1) set_epilogue(problems[i], i / 2 + 1);
  }
}

std::optional<Tile> tile_of(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  const Family& family = family_of(config, device.vendor);
  if (family.tile == nullptr) return std::nullopt;
  return family.tile(Problem::of(gemm).value(), device, config);
}

}  // namespace

bool has_envelope(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  return tile_of(gemm, device, config).has_value();
}

std::vector<Gemm> envelope(const Gemm& gemm, const DeviceCaps& device, const Config& config,
                           double most_work) {
  const auto found = tile_of(gemm, device, config);
  if (!found) return {};
  const Tile tile = *found;
  Envelope all(gemm, device, config, most_work);
  const auto m = around(tile.m), n = around(tile.n);
  const auto k = depths(tile.k);
  // Five and seven have no common factor: every m meets every k, and every n nearly all.
  for (std::size_t i = 0; i < m.size() * k.size(); ++i)
    all.add({m[i % 5], n[(i / 5 + 2 * (i % 5)) % 5], k[i % 7]}, 1,
            static_cast<std::int64_t>(i % 3));
  // Where the code is for few values of k, its own and those beside it.
  for (std::size_t i = 0; i < m.size(); ++i)
    for (const std::int64_t near : {gemm.k - 1, gemm.k, gemm.k + 1})
      all.add({m[i], n[4 - i], std::max<std::int64_t>(1, near)}, 1, 0);
  all.add({m[4], n[3], k[4]}, 3, 1);
  all.add({m[1], n[1], 100 * tile.k + 1}, 1, 0);
  all.add({50 * tile.m + 1, n[3], k[3]}, 1, 0);
  all.add({m[3], 50 * tile.n + 1, k[3]}, 1, 0);
  // Several waves, the last of them not full.
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(2.3 * device.compute_units)));
  all.add({side * tile.m + 1, side * tile.n - 1, k[4]}, 1, 0);
  all.add({side * tile.m + 1, side * tile.n - 1, k[5]}, 1, 0);
  add_blocks(all, tile, m, n, k);
  std::vector<Gemm> problems = std::move(all).problems();
  std::ranges::stable_sort(problems, {}, [](const Gemm& g) { return g.flops(); });
  if (takes_epilogue(config)) vary_epilogues(problems);
  return problems;
}

}  // namespace kiln
