// The overview as the page's data: indices for devices, columns for candidates, rounded times.
#include <cmath>

#include "bench/overview.h"

namespace kiln {
namespace {

/// Four digits more than a chart shows, a third of the characters of a double.
double rounded(double value) {
  if (!(value > 0)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 5);
  return unit >= 1 ? std::round(value / unit) * unit : std::round(value * 1e4) / 1e4;
}

OrderedJson to_json(const Overview::Device& device) {
  return {{"name", device.name},           {"source", device.source},
          {"predicted", device.predicted}, {"bytesPerSecond", device.bytes_per_second},
          {"peaks", device.peaks},         {"problems", device.problems},
          {"winners", device.winners},     {"measurements", device.measurements},
          {"failures", device.failures},   {"ranges", device.ranges},
          {"first", device.first},         {"last", device.last}};
}

OrderedJson to_json(const Overview::Shape& shape) {
  OrderedJson peers = OrderedJson::object();
  for (const auto& [peer, ns] : shape.peers) peers[peer] = rounded(ns);
  return {{"device", shape.device}, {"text", shape.text},     {"kind", shape.kind},
          {"dtype", shape.dtype},   {"family", shape.family}, {"ns", rounded(shape.ns)},
          {"flops", shape.flops},   {"bytes", shape.bytes},   {"roofNs", rounded(shape.roof_ns)},
          {"joules", shape.joules}, {"peers", peers}};
}

OrderedJson to_json(const Overview::RangeRegret& range) {
  OrderedJson points = OrderedJson::array();
  for (const Overview::RangePoint& point : range.points)
    points.push_back({point.size, rounded(point.ns), rounded(point.best_ns)});
  return {{"device", range.device}, {"text", range.text}, {"size", range.size}, {"points", points}};
}

/// Steps alone: [candidates so far, share of the best] where the share changes.
OrderedJson steps_of(const SearchCurve& curve) {
  OrderedJson steps = OrderedJson::array();
  double last = 0;
  for (std::size_t n = 1; n <= curve.share.size(); ++n)
    if (curve.after(n) != last) {
      last = curve.after(n);
      steps.push_back({n, rounded(last)});
    }
  return steps;
}

OrderedJson to_json(const Overview::Landscape& landscape) {
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 0; i < landscape.ns.size(); ++i) {
    OrderedJson row = landscape.values[i];
    row.push_back(rounded(landscape.ns[i]));
    rows.push_back(std::move(row));
  }
  return {{"device", landscape.device},
          {"text", landscape.text},
          {"family", landscape.family},
          {"keys", landscape.keys},
          {"rows", rows}};
}

OrderedJson to_json(const Overview::FailureCount& failure) {
  return {{"device", failure.device},
          {"family", failure.family},
          {"reason", failure.reason},
          {"count", failure.count},
          {"example", failure.example}};
}

template <typename T>
OrderedJson array_of(const std::vector<T>& values) {
  OrderedJson array = OrderedJson::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

}  // namespace

OrderedJson to_json(const Overview& overview) {
  OrderedJson searches = OrderedJson::array();
  for (const SearchCurve& curve : overview.searches)
    searches.push_back({{"device", curve.device},
                        {"text", curve.problem},
                        {"count", curve.share.size()},
                        {"steps", steps_of(curve)}});
  return {{"sources", overview.sources},
          {"devices", array_of(overview.devices)},
          {"shapes", array_of(overview.shapes)},
          {"ranges", array_of(overview.ranges)},
          {"searches", searches},
          {"landscapes", array_of(overview.landscapes)},
          {"failures", array_of(overview.failures)}};
}

}  // namespace kiln
