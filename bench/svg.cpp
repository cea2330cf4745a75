#include "bench/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kiln {
namespace {

constexpr double kWidth = 860, kPanelHeight = 300;
constexpr double kLeft = 60, kRight = 180, kTop = 36, kBottom = 44;
// Distinguishable with any colour vision (Okabe and Ito).
constexpr std::array<const char*, 7> kColours{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                              "#E69F00", "#56B4E9", "#000000"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string label(double x, double y, const std::string& text, const char* anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

bool drawn(const ChartPanel& panel, const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second) &&
         (!panel.log_x || point.first > 0);
}

/// From values to the places of one panel.
class Scale2d {
 public:
  Scale2d(const ChartPanel& panel, double top) : log_(panel.log_x), top_(top) {
    low_y_ = high_y_ = panel.reference;
    bool any = false;
    for (const ChartSeries& series : panel.series)
      for (const auto& point : series.points) {
        if (!drawn(panel, point)) continue;
        const double at = along(point.first);
        low_x_ = any ? std::min(low_x_, at) : at;
        high_x_ = any ? std::max(high_x_, at) : at;
        any = true;
        low_y_ = std::min(low_y_, point.second);
        high_y_ = std::max(high_y_, point.second);
      }
    if (high_x_ - low_x_ < 1e-9) high_x_ = low_x_ + 1;
    const double margin = std::max(0.02, 0.05 * (high_y_ - low_y_));
    low_y_ -= margin, high_y_ += margin;
  }
  double x(double value) const { return share_x(along(value)); }
  double y(double value) const {
    return top_ + kTop + (kPanelHeight - kTop - kBottom) * (high_y_ - value) / (high_y_ - low_y_);
  }
  /// Marks of the axes: their values.
  std::vector<double> marks_x() const {
    std::vector<double> marks;
    if (log_)
      for (int power = int(std::ceil(low_x_ - 1e-9)); power <= high_x_ + 1e-9; ++power)
        marks.push_back(std::exp2(power));
    else
      marks = even(low_x_, high_x_);
    return marks;
  }
  std::vector<double> marks_y() const { return even(low_y_, high_y_); }

 private:
  double along(double value) const { return log_ ? std::log2(value) : value; }
  double share_x(double at) const {
    return kLeft + (kWidth - kLeft - kRight) * (at - low_x_) / (high_x_ - low_x_);
  }
  static std::vector<double> even(double low, double high) {
    const double rough = (high - low) / 6;
    double step = std::pow(10, std::floor(std::log10(rough)));
    for (const double times : {2.0, 5.0, 10.0})
      if (step * times <= rough * 1.5) {
        step *= times;
        break;
      }
    std::vector<double> marks;
    for (double at = std::ceil(low / step) * step; at <= high; at += step) marks.push_back(at);
    return marks;
  }

  bool log_;
  double top_, low_x_ = 0, high_x_ = 1, low_y_ = 0, high_y_ = 1;
};

std::string axes(const ChartPanel& panel, const Scale2d& scale, double top) {
  const double right = kWidth - kRight, bottom = top + kPanelHeight - kBottom;
  std::string out = label((kLeft + right) / 2, top + 20, panel.title);
  for (const double at : scale.marks_x()) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" "
        "y2=\"{2:.1f}\"/>\n",
        scale.x(at), top + kTop, bottom);
    out += label(scale.x(at), bottom + 15, fmt::format("{:g}", at));
  }
  for (const double at : scale.marks_y()) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" "
        "y2=\"{2:.1f}\"/>\n",
        kLeft, right, scale.y(at));
    out += label(kLeft - 6, scale.y(at) + 4, fmt::format("{:.3g}", at), "end");
  }
  out += fmt::format(
      "<line class=\"reference\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" "
      "y2=\"{2:.1f}\"/>\n",
      kLeft, right, scale.y(panel.reference));
  out += label((kLeft + right) / 2, bottom + 34, panel.x_label);
  out += fmt::format(
      "<text transform=\"translate(14 {:.1f}) rotate(-90)\" "
      "text-anchor=\"middle\">{}</text>\n",
      (top + kTop + bottom) / 2, escaped(panel.y_label));
  return out;
}

std::string drawn_series(const ChartPanel& panel, const Scale2d& scale, std::size_t which,
                         double top) {
  const ChartSeries& series = panel.series[which];
  const char* colour = kColours[which % kColours.size()];
  std::string path, dots;
  for (const auto& point : series.points) {
    if (!drawn(panel, point)) continue;
    const double x = scale.x(point.first), y = scale.y(point.second);
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\" fill=\"{}\"/>\n", x, y, colour);
  }
  std::string out;
  if (series.line && !path.empty())
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" points=\"{}\"/>\n", colour, path);
  out += dots;
  const double y = top + kTop + 14 + 18 * double(which);
  out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n",
                     kWidth - kRight + 16, y - 4, colour);
  return out + label(kWidth - kRight + 26, y, series.name, "start");
}

}  // namespace

std::string chart_svg(const std::vector<ChartPanel>& panels) {
  const double height = kPanelHeight * double(std::max<std::size_t>(1, panels.size()));
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>.grid{{stroke:#ddd}}.reference{{stroke:#555;stroke-dasharray:4 3}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double top = kPanelHeight * double(i);
    const Scale2d scale(panels[i], top);
    out += axes(panels[i], scale, top);
    for (std::size_t which = 0; which < panels[i].series.size(); ++which)
      out += drawn_series(panels[i], scale, which, top);
  }
  return out + "</svg>\n";
}

}  // namespace kiln
