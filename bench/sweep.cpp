#include "bench/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "bench/svg.h"
#include "generator/problem/bad_input.h"
#include "generator/problem/size.h"
#include "generator/problem/timed_flops.h"

namespace kiln {
namespace {

constexpr std::size_t kMostProblems = 10000;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

/// "64" or "2^6".
std::optional<std::int64_t> size_in(std::string_view text) {
  const auto whole = [](std::string_view digits) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return value >= 1 && value <= kMostSize ? std::optional(value) : std::nullopt;
  };
  const std::size_t hat = text.find('^');
  if (hat == text.npos) return whole(text);
  const auto base = whole(text.substr(0, hat));
  const std::string_view power = text.substr(hat + 1);
  const auto exponent = power == "0" ? std::optional<std::int64_t>(0) : whole(power);
  if (!base || !exponent) return std::nullopt;
  const double value = std::pow(double(*base), double(*exponent));
  return value <= double(kMostSize) ? std::optional(std::int64_t(value)) : std::nullopt;
}

/// first:last:step.
std::optional<std::vector<std::int64_t>> even_steps(std::string_view text) {
  const std::size_t one = text.find(':'), two = text.find(':', one + 1);
  const auto first = size_in(text.substr(0, one));
  const auto last = size_in(text.substr(one + 1, two == text.npos ? two : two - one - 1));
  const auto step =
      two == text.npos ? std::optional<std::int64_t>(1) : size_in(text.substr(two + 1));
  if (!first || !last || !step || *first > *last) return std::nullopt;
  std::vector<std::int64_t> values;
  for (std::int64_t at = *first; at <= *last && values.size() <= kMostProblems; at += *step)
    values.push_back(at);
  return values;
}

/// first..last or first..last*factor.
std::optional<std::vector<std::int64_t>> even_factors(std::string_view text) {
  const std::size_t dots = text.find(".."), star = text.find('*', dots);
  const auto first = size_in(text.substr(0, dots));
  const auto last = size_in(text.substr(dots + 2, star == text.npos ? star : star - dots - 2));
  double factor = 2;
  if (star != text.npos) {
    const std::string_view digits = text.substr(star + 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), factor);
    if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  }
  if (!first || !last || *first > *last || !(factor > 1 && factor <= 1e6)) return std::nullopt;
  std::vector<std::int64_t> values;
  for (double at = double(*first); std::llround(at) <= *last && values.size() <= kMostProblems;
       at *= factor)
    if (values.empty() || values.back() != std::llround(at)) values.push_back(std::llround(at));
  return values;
}

std::vector<std::string> words_of_line(std::string_view line) {
  std::istringstream in{std::string(line)};
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

Result<std::vector<std::int64_t>> sweep_values(std::string_view size, std::string_view text) {
  std::vector<std::int64_t> values;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    std::optional<std::vector<std::int64_t>> some;
    if (part.find("..") != part.npos)
      some = even_factors(part);
    else if (part.find(':') != part.npos)
      some = even_steps(part);
    else if (const auto one = size_in(part))
      some = {*one};
    if (!some)
      return bad_input(
          "{} = \"{}\": \"{}\" is not a size, first:last:step, first..last or "
          "first..last*factor",
          size, text, part);
    values.insert(values.end(), some->begin(), some->end());
    if (values.size() > kMostProblems)
      return bad_input("{} = \"{}\": more than {} values", size, text, kMostProblems);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  return values;
}

Result<std::vector<Gemm>> sweep_gemms(std::string_view line, const SweepValues& values) {
  std::vector<std::string> words = words_of_line(line);
  if (words.size() < 6) return bad_input("shape = \"{}\": a shape is `dtype ta tb m n k`", line);
  const std::vector<std::string> written = words;
  std::array<std::vector<std::int64_t>, 3> taken{{{0}, {0}, {0}}};
  for (const Size size : kSizes) {
    const std::size_t i = static_cast<std::size_t>(size);
    const bool named =
        std::find(words.begin() + 3, words.begin() + 6, name(size)) != words.begin() + 6;
    if (named && values[i].empty())
      return bad_input("shape = \"{}\": {} has no values: give --{} 64:1024:64", line, name(size),
                       name(size));
    if (!named && !values[i].empty())
      return bad_input("{} = {}…: \"{}\" has no {} among its sizes", name(size), values[i].front(),
                       line, name(size));
    if (named) taken[i] = values[i];
  }
  const double count = double(taken[0].size()) * double(taken[1].size()) * double(taken[2].size());
  if (count > double(kMostProblems))
    return bad_input("shape = \"{}\": {:.0f} problems, at most {}", line, count, kMostProblems);
  std::vector<Gemm> gemms;
  for (const std::int64_t m : taken[0])
    for (const std::int64_t n : taken[1])
      for (const std::int64_t k : taken[2]) {
        for (std::size_t i = 3; i < 6; ++i)
          words[i] = written[i] == "m"   ? std::to_string(m)
                     : written[i] == "n" ? std::to_string(n)
                     : written[i] == "k" ? std::to_string(k)
                                         : written[i];
        std::string problem;
        for (const std::string& word : words) problem += word + ' ';
        const auto gemm = parse_gemm(problem);
        if (!gemm) return tl::unexpected(gemm.error());
        gemms.push_back(*gemm);
      }
  return gemms;
}

namespace {

/// The size with the most values, of those that are swept.
Size along(const BenchReport& report) {
  Size most = Size::m;
  std::size_t count = 0;
  for (const Size size : kSizes) {
    std::set<std::int64_t> values;
    for (const ContestResult& row : report.rows) values.insert(row.gemm.*member_of(size));
    if (values.size() > count) {
      count = values.size();
      most = size;
    }
  }
  return most;
}

/// Of a row: what names its panel. A size that follows the varying one (fp32 N N m m m) is no
/// other.
using PanelKey = std::tuple<int, std::int64_t, std::int64_t>;
PanelKey panel_of(const ContestResult& row, Size size) {
  std::array<std::int64_t, 2> others{};
  std::size_t count = 0;
  const std::int64_t value = row.gemm.*member_of(size);
  for (const Size other : kSizes)
    if (other != size) {
      const std::int64_t at = row.gemm.*member_of(other);
      others[count++] = at == value ? 0 : at;
    }
  return {row.threads, others[0], others[1]};
}

std::string title_of(const ContestResult& row, Size size) {
  std::string line = text(row.gemm), out;
  std::istringstream words(line);
  std::string word;
  for (int i = 0; words >> word; ++i) {
    const bool varies =
        i >= 3 && i < 6 && row.gemm.*member_of(kSizes[i - 3]) == row.gemm.*member_of(size);
    out += (out.empty() ? "" : " ") + (varies ? std::string(name(size)) : word);
  }
  return fmt::format("{}, {} thread{}", out, row.threads, row.threads == 1 ? "" : "s");
}

/// Factors, not steps, lie between the values.
bool grows(const std::vector<std::int64_t>& values) {
  return values.size() > 1 && values.front() > 0 &&
         double(values.back()) / double(values.front()) > double(values.size());
}

}  // namespace

std::string sweep_svg(const BenchReport& report) {
  const Size size = along(report);
  std::map<PanelKey, std::vector<const ContestResult*>> rows;
  for (const ContestResult& row : report.rows) rows[panel_of(row, size)].push_back(&row);
  std::vector<ChartPanel> panels;
  for (auto& [key, of_panel] : rows) {
    if (panels.size() == kMostPanels) break;
    const auto value = [&](const ContestResult* row) { return row->gemm.*member_of(size); };
    std::sort(of_panel.begin(), of_panel.end(),
              [&](auto* x, auto* y) { return value(x) < value(y); });
    std::map<std::string, ChartSeries> peers;
    ChartSeries kiln{.name = "kiln", .points = {}};
    std::vector<std::int64_t> values;
    double peak = 0;
    for (const ContestResult* row : of_panel) {
      const double x = double(value(row)), flops = timed_flops(row->gemm);
      values.push_back(value(row));
      kiln.points.emplace_back(x, flops / row->kiln.median_ns);
      for (const auto& [peer, timing] : row->peers) {
        peers[peer].name = peer;
        peers[peer].points.emplace_back(x, flops / timing.median_ns);
      }
      peak = std::max(peak, row->peak_flops * 1e-9);
    }
    ChartPanel panel{.title = title_of(*of_panel.front(), size),
                     .x_label = std::string(name(size)),
                     .y_label = "GFLOP/s",
                     .series = {kiln},
                     .reference = peak,
                     .log_x = grows(values)};
    if (peak > 0) panel.title += fmt::format(" (dashed: peak, {:.0f} GFLOP/s)", peak);
    for (auto& [peer, series] : peers) panel.series.push_back(std::move(series));
    panels.push_back(std::move(panel));
  }
  return chart_svg(panels, versions_text(report));
}

}  // namespace kiln
