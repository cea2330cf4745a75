// Charts as SVG text: points and lines over a logarithmic axis, one panel above the other. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x > 0
  bool line = true;                               // joined; else dots alone
};

struct ChartPanel {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  double reference = 1;  // a horizontal line
  bool log_x = true;
};

/// A whole SVG document. Values that are not finite are left out.
std::string chart_svg(const std::vector<ChartPanel>& panels);

}  // namespace kiln
