#include "bench/search_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/device_name.h"
#include "bench/geometric_mean.h"
#include "bench/svg.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"

namespace kiln {
namespace {

/// A candidate's first time counts: later ones are of a race, or of a later search.
SearchCurve curve_of(const Record& record, const std::vector<Measured>& rows) {
  SearchCurve curve{.device = device_name(record.key.device), .problem = text(record.key.gemm)};
  std::set<Config> seen;
  std::vector<double> best;
  double fastest = 0;
  for (const Measured& row : rows) {
    if (!seen.insert(row.config).second) continue;
    if (row.ok() && row.verified && (fastest == 0 || row.timing().median_ns < fastest))
      fastest = row.timing().median_ns;
    best.push_back(fastest);
  }
  for (const double ns : best) curve.share.push_back(ns > 0 ? fastest / ns : 0);
  return curve;
}

}  // namespace

double SearchCurve::after(std::size_t n) const { return share.at(std::min(n, share.size()) - 1); }

Result<std::vector<SearchCurve>> search_curves(Store& store, std::size_t least) {
  const auto records = store.winners().list();
  if (!records) return tl::unexpected(records.error());
  std::vector<SearchCurve> curves;
  for (const Record& record : *records) {
    SearchCurve curve = curve_of(record, store.measurements().known(record.key, record.validators));
    if (curve.share.size() >= std::max<std::size_t>(1, least)) curves.push_back(std::move(curve));
  }
  std::ranges::stable_sort(curves, {}, &SearchCurve::device);
  return curves;
}

std::vector<SearchCurveSummary> summarise(const std::vector<SearchCurve>& curves) {
  struct Means {
    GeometricMean after16, after64;
  };
  std::map<std::string, Means> devices;
  for (const SearchCurve& curve : curves) {
    // None of the first ones ran: it counts, as next to nothing.
    constexpr double kNothing = 0.01;
    devices[curve.device].after16.add(std::max(kNothing, curve.after(16)));
    devices[curve.device].after64.add(std::max(kNothing, curve.after(64)));
  }
  std::vector<SearchCurveSummary> all;
  for (const auto& [device, means] : devices)
    all.push_back({device, std::size_t(means.after16.count()), means.after16.value(),
                   means.after16.least(), means.after64.value(), means.after64.least()});
  return all;
}

std::string table(const std::vector<SearchCurve>& curves) {
  std::string out;
  for (const SearchCurve& curve : curves)
    out += fmt::format("{}: {}: {} candidates: after 16 {:.3f} of the best, after 64 {:.3f}\n",
                       curve.device, curve.problem, curve.share.size(), curve.after(16),
                       curve.after(64));
  for (const SearchCurveSummary& all : summarise(curves))
    out += fmt::format(
        "{}: {} shapes: after 16 candidates {:.3f} of the best (geometric mean), worst {:.3f}; "
        "after 64 {:.3f}, worst {:.3f}\n",
        all.device, all.shapes, all.mean16, all.worst16, all.mean64, all.worst64);
  return out;
}

OrderedJson to_json(const SearchCurve& curve) {
  return {{"device", curve.device}, {"problem", curve.problem}, {"share", curve.share}};
}

OrderedJson summary_json(const std::vector<SearchCurve>& curves) {
  OrderedJson devices = OrderedJson::array();
  for (const SearchCurveSummary& all : summarise(curves))
    devices.push_back({{"device", all.device},
                       {"shapes", all.shapes},
                       {"after_16", all.mean16},
                       {"worst_after_16", all.worst16},
                       {"after_64", all.mean64},
                       {"worst_after_64", all.worst64}});
  return {{"summary", devices}};
}

std::string svg(const std::vector<SearchCurve>& curves) {
  std::map<std::string, ChartPanel> panels;
  for (const SearchCurve& curve : curves) {
    ChartPanel& panel = panels[curve.device];
    panel.title = curve.device;
    panel.x_label = "measured candidates";
    panel.y_label = "best time known / best so far";
    ChartSeries series{.name = curve.problem};
    for (std::size_t n = 1; n <= curve.share.size(); ++n)
      if (curve.after(n) > 0) series.points.emplace_back(double(n), curve.after(n));
    panel.series.push_back(std::move(series));
  }
  std::vector<ChartPanel> all;
  for (auto& [device, panel] : panels) all.push_back(std::move(panel));
  return chart_svg(all);
}

}  // namespace kiln
