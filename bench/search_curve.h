// `kiln bench --search-curve`: how soon searches came near the best that they ever found, from the
// measurements that databases hold. Runs nothing on a device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/report.h"
#include "cache/store.h"

namespace kiln {

/// The search of one problem: the best time known over the best of its first n candidates.
struct SearchCurve {
  std::string device;  // its model and, of a CPU, the threads
  std::string problem;
  std::vector<double> share;  // [n - 1]; 0 while every candidate failed
  /// After n candidates, or all where there were fewer; n >= 1.
  double after(std::size_t n) const;
};

/// What 16 and 64 candidates found of what their searches did, over the shapes of one device.
struct SearchCurveSummary {
  std::string device;
  std::size_t shapes = 0;
  double mean16 = 0, worst16 = 0, mean64 = 0, worst64 = 0;
};

/// Of every winner with at least `least` measured candidates. Errors: database.
Result<std::vector<SearchCurve>> search_curves(Store& store, std::size_t least);
std::vector<SearchCurveSummary> summarise(const std::vector<SearchCurve>& curves);

std::string table(const std::vector<SearchCurve>& curves);
OrderedJson to_json(const SearchCurve& curve);
OrderedJson summary_json(const std::vector<SearchCurve>& curves);
/// Share of the best over candidates: one panel a device.
std::string svg(const std::vector<SearchCurve>& curves);

}  // namespace kiln
