// Charts as SVG text: points and lines over axes of either scale, one panel above the other. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x > 0
  bool line = true;                               // joined; else dots alone
  std::vector<std::string> labels = {};           // of the points, shown under the pointer
};

struct ChartPanel {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  double reference = 1;  // a horizontal line
  bool log_x = true;
  bool log_y = false;
};

/// A whole SVG document. Values that are not finite are left out; `notes` are lines of text below
/// the panels.
std::string chart_svg(const std::vector<ChartPanel>& panels, const std::string& notes = "");

}  // namespace kiln
