#include "bench/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace kiln {
namespace {

constexpr double kWidth = 860, kPanelHeight = 300;
constexpr double kLineHeight = 18;  // of text
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

/// "8192", "20k", "5G".
std::string number(double value) {
  int thousands = 0;
  for (; value >= 1000 && std::fmod(value, 1000) == 0 && thousands < 4; ++thousands) value /= 1000;
  return fmt::format("{:g}{}", value, std::array{"", "k", "M", "G", "T"}[std::size_t(thousands)]);
}

bool drawn(const ChartPanel& panel, const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second) &&
         (!panel.log_x || point.first > 0) && (!panel.log_y || point.second > 0);
}

/// From values to the places of one panel.
class Scale2d {
 public:
  Scale2d(const ChartPanel& panel, double top) : log_(panel.log_x), log_y_(panel.log_y), top_(top) {
    low_y_ = high_y_ = up(panel.reference);
    bool any = false;
    for (const ChartSeries& series : panel.series)
      for (const auto& point : series.points) {
        if (!drawn(panel, point)) continue;
        const double at = along(point.first);
        low_x_ = any ? std::min(low_x_, at) : at;
        high_x_ = any ? std::max(high_x_, at) : at;
        any = true;
        low_y_ = std::min(low_y_, up(point.second));
        high_y_ = std::max(high_y_, up(point.second));
      }
    if (high_x_ - low_x_ < 1e-9) high_x_ = low_x_ + 1;
    const double margin = std::max(0.02, 0.05 * (high_y_ - low_y_));
    low_y_ -= margin, high_y_ += margin;
  }
  double x(double value) const { return share_x(along(value)); }
  double y(double value) const {
    return top_ + kTop +
           (kPanelHeight - kTop - kBottom) * (high_y_ - up(value)) / (high_y_ - low_y_);
  }
  /// Marks of the axes: their values.
  std::vector<double> marks_x() const {
    if (!log_) return even(low_x_, high_x_);
    std::vector<double> marks;
    if (high_x_ < kMostBits)
      for (int power = int(std::ceil(low_x_ - 1e-9)); power <= high_x_ + 1e-9; ++power)
        marks.push_back(std::exp2(power));
    else
      for (double power = std::floor(low_x_ / std::log2(10.0)); power < 20; ++power)
        for (const double step : few_decades() ? std::vector{1.0, 2.0, 5.0} : std::vector{1.0})
          if (const double mark = step * std::pow(10, power);
              along(mark) >= low_x_ - 1e-9 && along(mark) <= high_x_ + 1e-9)
            marks.push_back(mark);
    return marks;
  }
  std::vector<double> marks_y() const {
    if (!log_y_) return even(low_y_, high_y_);
    const std::vector<double> round{0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 0.9, 1,  1.1,
                                    1.25, 1.5, 2,   3,    5,   7,   10,  20,  50, 100};
    // So many lines of text have room.
    const double apart = (high_y_ - low_y_) / 12;
    std::vector<double> marks{1};
    for (const double mark : round)
      if (mark > 1 && up(mark) <= high_y_ && up(mark) - up(marks.back()) >= apart)
        marks.push_back(mark);
    double last = 1;
    for (auto mark = round.rbegin(); mark != round.rend(); ++mark)
      if (*mark < 1 && up(*mark) >= low_y_ && up(last) - up(*mark) >= apart)
        marks.push_back(last = *mark);
    return marks;
  }

 private:
  bool few_decades() const { return high_x_ - low_x_ < 3 * std::log2(10.0); }
  double along(double value) const { return log_ ? std::log2(value) : value; }
  double up(double value) const { return log_y_ ? std::log2(value) : value; }
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

  /// Larger sizes than these are marked at powers of ten: of two they are too long to be read.
  static constexpr double kMostBits = 17;

  bool log_, log_y_;
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
    out += label(scale.x(at), bottom + 15, number(at));
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
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const auto& point = series.points[i];
    if (!drawn(panel, point)) continue;
    const double x = scale.x(point.first), y = scale.y(point.second);
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"", x, y,
                        series.line ? 2.2 : 3.0, colour);
    dots += i < series.labels.size()
                ? fmt::format("><title>{}</title></circle>\n", escaped(series.labels[i]))
                : "/>\n";
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

std::string chart_svg(const std::vector<ChartPanel>& panels, const std::string& notes) {
  const double drawn_height = kPanelHeight * double(std::max<std::size_t>(1, panels.size()));
  const auto lines = double(std::count(notes.begin(), notes.end(), '\n'));
  const double height = drawn_height + (lines > 0 ? kLineHeight * (lines + 1) : 0);
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
  std::istringstream rest(notes);
  double y = drawn_height;
  for (std::string line; std::getline(rest, line);)
    out += label(kLeft, y += kLineHeight, line, "start");
  return out + "</svg>\n";
}

}  // namespace kiln
