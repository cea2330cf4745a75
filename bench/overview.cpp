#include "bench/overview.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "bench/device_name.h"
#include "cache/exchange/offline.h"
#include "cache/records/devices.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/ranges.h"
#include "cache/records/stored_roofline.h"
#include "generator/problem/extent.h"
#include "generator/problem/operand.h"
#include "generator/problem/size.h"
#include "generator/problem/timed_flops.h"
#include "runtime/backend.h"

namespace kiln {
namespace {

struct Candidate {
  Config config;
  double ns = 0;  // 0: it failed
  bool winner = false;
  std::string created;
  double joules = 0;  // of a call under load; 0: not known
};

/// Every candidate of one problem, whatever templates made it.
struct Search {
  std::vector<Candidate> candidates;

  /// The newest winner: each toolchain has one. Null where none has a time, or it is a library.
  const Candidate* winner() const {
    const Candidate* newest = nullptr;
    for (const Candidate& one : candidates)
      if (one.winner && one.ns > 0 && !is_library(one.config) &&
          (!newest || one.created > newest->created))
        newest = &one;
    return newest;
  }
  double fastest() const {
    double least = 0;
    for (const Candidate& one : candidates)
      if (one.ns > 0 && !is_library(one.config) && (least == 0 || one.ns < least)) least = one.ns;
    return least;
  }
  double time_of(const Config& config) const {
    for (const Candidate& one : candidates)
      if (one.config == config) return one.ns;
    return 0;
  }
};

struct SearchKey {
  std::size_t device = 0;
  Gemm gemm;
  Determinism determinism = Determinism::run_to_run;
  bool under_load = false;
  auto operator<=>(const SearchKey&) const = default;
};

/// Rows of all layers, put together.
class Collected {
 public:
  explicit Collected(Overview& to) : to_(to) {}

  void take(const StoredMeasurement& row) {
    const std::size_t at = device_of(row.key);
    Overview::Device& device = to_.devices[at];
    ++device.measurements;
    device.winners += row.winner;
    if (device.first.empty() || row.created < device.first) device.first = row.created;
    device.last = std::max(device.last, row.created);
    problems_[at].insert(row.key.gemm);
    if (!row.measured.ok()) count_failure(at, row.measured);
    // Kernels of ranges are copies of rows of single sizes.
    if (device.predicted || row.key.policy.find(' ') != std::string::npos) return;
    const bool under_load = row.key.policy == backend_of(row.key.device.vendor).sustained;
    Search& search = searches_[{at, row.key.gemm, row.key.determinism, under_load}];
    const double ns = row.measured.ok() ? row.measured.timing().median_ns : 0;
    const Candidate fresh{row.measured.config, ns, row.winner, row.created,
                          row.measured.ok() ? row.measured.timing().joules : 0};
    const auto known =
        std::ranges::find(search.candidates, row.measured.config, &Candidate::config);
    // Of one toolchain after another, or of one file after another: what look-ups take stands.
    if (known == search.candidates.end())
      search.candidates.push_back(fresh);
    else if (known->ns == 0 || (fresh.winner && fresh.created > known->created))
      *known = fresh;
  }

  void finish() {
    for (auto& [at, problems] : problems_)
      to_.devices[at].problems = static_cast<std::int64_t>(problems.size());
    for (auto& [key, failure] : failures_) to_.failures.push_back(failure);
  }

  std::size_t device_of(const BestKey& key) {
    const auto [at, fresh] = devices_.try_emplace(fingerprint(key.device), to_.devices.size());
    if (fresh)
      to_.devices.push_back(
          {.name = is_predicted(key) ? "any CPU with " + key.device.model : device_name(key.device),
           .predicted = is_predicted(key),
           .bytes_per_second = 1e9 * key.device.gpu.memory_gbs}),
          caps_.push_back(key.device);
    return at->second;
  }

  const std::map<SearchKey, Search>& searches() const { return searches_; }
  const std::vector<DeviceCaps>& caps() const { return caps_; }

 private:
  void count_failure(std::size_t at, const Measured& measured) {
    ++to_.devices[at].failures;
    const std::string family(family_name(measured.config)), reason(name(measured.failure().kind));
    auto& failure = failures_[{at, family, reason}];
    if (failure.count++ == 0) failure = {at, family, reason, measured.failure().detail, 1};
  }

  Overview& to_;
  std::map<std::string, std::size_t> devices_;
  std::vector<DeviceCaps> caps_;
  std::map<std::size_t, std::set<Gemm>> problems_;
  std::map<SearchKey, Search> searches_;
  std::map<std::tuple<std::size_t, std::string, std::string>, Overview::FailureCount> failures_;
};

std::string shape_text(const SearchKey& key) {
  std::string line = text(key.gemm);
  if (key.determinism == Determinism::batch_invariant) line += " (batch_invariant)";
  if (key.under_load) line += " (under load)";
  return line;
}

void add_shapes(Overview& to, Store& store, const Collected& collected) {
  for (const auto& [key, search] : collected.searches()) {
    const Candidate* kernel = search.winner();
    if (!kernel) continue;
    Overview::Shape shape{.device = key.device,
                          .text = shape_text(key),
                          .kind = kind_text(key.gemm),
                          .dtype = type_text(key.gemm),
                          .family = std::string(family_name(kernel->config)),
                          .ns = kernel->ns,
                          .flops = timed_flops(key.gemm),
                          .bytes = least_traffic(key.gemm),
                          .joules = kernel->joules};
    if (const auto roof = stored_roofline(store, collected.caps()[key.device], key.gemm))
      shape.roof_ns = roof->roof.ns;
    for (const Candidate& one : search.candidates) {
      if (!is_library(one.config) || one.ns == 0) continue;
      double& ns = shape.peers[std::string(family_name(one.config))];
      ns = ns == 0 ? one.ns : std::min(ns, one.ns);
    }
    to.shapes.push_back(std::move(shape));
  }
}

/// Peaks of types that shapes have, and of CPUs the rate of memory, where they are stored.
void add_limits(Overview& to, Store& store, const Collected& collected) {
  std::vector<std::optional<MachineLimits>> limits;
  for (const DeviceCaps& caps : collected.caps()) limits.push_back(store.devices().limits(caps));
  for (std::size_t at = 0; at < limits.size(); ++at)
    if (limits[at]) to.devices[at].bytes_per_second = limits[at]->dram_read;
  for (const auto& [key, search] : collected.searches()) {
    double& peak = to.devices[key.device].peaks[type_text(key.gemm)];
    if (peak != 0) continue;
    peak = store.devices().peak(collected.caps()[key.device], key.gemm.a.dtype);
    if (limits[key.device]) peak = std::max(peak, peak_for(key.gemm, *limits[key.device]));
  }
  for (Overview::Device& device : to.devices)
    std::erase_if(device.peaks, [](const auto& peak) { return peak.second == 0; });
}

void add_ranges(Overview& to, const std::vector<RangeRecord>& ranges, Collected& collected) {
  for (const RangeRecord& record : ranges) {
    const std::size_t device = collected.device_of(record.key);
    ++to.devices[device].ranges;
    Overview::RangeRegret regret{
        .device = device, .text = text(record.range), .size = std::string(name(record.range.size))};
    for (const auto& [key, search] : collected.searches()) {
      const std::int64_t size = key.gemm.*member_of(record.range.size);
      if (key.device != device || key.determinism != record.key.determinism ||
          size < record.range.first || size > record.range.last() ||
          key.gemm != record.range.at(size))
        continue;
      const double ns = search.time_of(record.table.at(size).config);
      if (ns > 0) regret.points.push_back({size, ns, search.fastest()});
    }
    std::ranges::sort(regret.points, {}, &Overview::RangePoint::size);
    to.ranges.push_back(std::move(regret));
  }
}

/// "family key=value …" without its first word, as pairs.
std::vector<std::pair<std::string, std::string>> fields_of(const Config& config) {
  std::istringstream words(text(config));
  std::string word;
  words >> word;
  std::vector<std::pair<std::string, std::string>> fields;
  while (words >> word) {
    const auto equals = word.find('=');
    if (equals != std::string::npos)
      fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

Overview::Landscape landscape_of(const SearchKey& key, const Search& search) {
  std::map<std::string, std::size_t> families;
  for (const Candidate& one : search.candidates)
    if (!is_library(one.config)) ++families[std::string(family_name(one.config))];
  Overview::Landscape landscape{.device = key.device, .text = shape_text(key)};
  std::size_t most = 0;
  for (const auto& [family, count] : families)
    if (count > most) most = count, landscape.family = family;
  std::map<std::string, std::set<std::string>> seen;
  std::vector<std::map<std::string, std::string>> rows;
  for (const Candidate& one : search.candidates) {
    if (family_name(one.config) != landscape.family) continue;
    auto& row = rows.emplace_back();
    landscape.ns.push_back(one.ns);
    for (const auto& [name, value] : fields_of(one.config)) {
      if (seen[name].insert(value).second && seen[name].size() == 2) landscape.keys.push_back(name);
      row[name] = value;
    }
  }
  for (const auto& row : rows) {
    auto& values = landscape.values.emplace_back();
    for (const std::string& name : landscape.keys)
      values.push_back(row.contains(name) ? row.at(name) : "");
  }
  return landscape;
}

void add_landscapes(Overview& to, const std::map<SearchKey, Search>& searches,
                    const OverviewLimits& limits) {
  std::vector<const std::pair<const SearchKey, Search>*> longest;
  for (const auto& entry : searches)
    if (entry.second.candidates.size() >= limits.least_candidates) longest.push_back(&entry);
  std::ranges::stable_sort(longest, std::ranges::greater{},
                           [](const auto* entry) { return entry->second.candidates.size(); });
  for (const auto* entry : longest) {
    if (to.landscapes.size() == limits.landscapes) return;
    auto landscape = landscape_of(entry->first, entry->second);
    if (landscape.keys.size() >= 2) to.landscapes.push_back(std::move(landscape));
  }
}

Status add_searches(Overview& to, Store& store, const OverviewLimits& limits) {
  auto curves = search_curves(store, limits.least_candidates);
  if (!curves) return tl::unexpected(curves.error());
  std::ranges::stable_sort(*curves, std::ranges::greater{},
                           [](const SearchCurve& curve) { return curve.share.size(); });
  if (curves->size() > limits.searches) curves->resize(limits.searches);
  to.searches = std::move(*curves);
  return {};
}

}  // namespace

double least_traffic(const Gemm& gemm) {
  double bytes = 0;
  for (const Operand which : kOperands)
    if (which != Operand::c && present(gemm, which)) bytes += double(span_bytes(gemm, which));
  return bytes;
}

std::string type_text(const Gemm& gemm) {
  const std::string line = text(gemm);
  return line.substr(0, line.find(' '));
}

std::string kind_text(const Gemm& gemm) {
  std::istringstream line(text(gemm));
  std::string type, ta, tb;
  line >> type >> ta >> tb;
  std::string kind = type + ' ' + ta + ' ' + tb;
  if (gemm.b_packed) kind += " packed";
  if (gemm.numerics == Numerics::fast) kind += " fast";
  return kind;
}

Result<Overview> overview_of(Store& store, const OverviewLimits& limits) {
  Overview overview;
  Collected collected(overview);
  const auto stats = store.maintenance().stats();
  if (!stats) return tl::unexpected(stats.error());
  for (const StoreStats& file : *stats) overview.sources.push_back(file.database.string());
  if (Status read = store.measurements().each({}, [&](const auto& row) { collected.take(row); });
      !read)
    return tl::unexpected(read.error());
  const auto ranges = store.ranges().list();
  if (!ranges) return tl::unexpected(ranges.error());
  add_ranges(overview, *ranges, collected);
  collected.finish();
  add_shapes(overview, store, collected);
  add_limits(overview, store, collected);
  add_landscapes(overview, collected.searches(), limits);
  if (Status added = add_searches(overview, store, limits); !added)
    return tl::unexpected(added.error());
  return overview;
}

}  // namespace kiln
