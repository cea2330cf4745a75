#include "cli/output/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdio>

#include "bench/bars.h"
#include "cache/printable.h"
#include "runtime/env.h"
#include "tuner/measured.h"

namespace kiln::cli {
namespace {

/// The first columns of a UTF-8 text, with a sign where something is missing.
std::string clipped(const std::string& text, std::size_t columns) {
  if (columns_of(text) <= columns) return text;
  std::size_t end = 0;
  for (std::size_t kept = 0; end < text.size(); ++end)
    if ((text[end] & 0xC0) != 0x80 && kept++ == columns - 1) break;
  return text.substr(0, end) + "…";
}

std::string bar(int done, int total) {
  constexpr int kCells = 24;
  const double share = total > 0 ? std::clamp(double(done) / total, 0.0, 1.0) : 0.0;
  const int full = static_cast<int>(share * kCells);
  return fmt::format("[{:#<{}}{:.<{}}]", "", full, "", kCells - full);
}

/// JSON whose DEL and U+0080 to U+009F, which a terminal may obey, are escaped as well.
std::string for_a_terminal(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    if (byte == 0x7f) {
      out += "\\u007f";
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      out += fmt::format("\\u{:04x}", unsigned{next});
      ++i;
    } else {
      out += json[i];
    }
  }
  return out;
}

}  // namespace

bool draws_bars(int descriptor) {
  if (isatty(descriptor) != 1) return false;
  // The first of them that is set decides, as for setlocale().
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* locale = env(name); locale && *locale) {
      const std::string_view text = locale;
      return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
    }
  return false;
}

void print_json(const Json& object) {
  fmt::print("{}\n", for_a_terminal(object.dump(-1, ' ', false, Json::error_handler_t::replace)));
  std::fflush(stdout);
}

std::string human_time(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.3f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string human_bytes(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

void add_load(Json& row, const Timing& timing) {
  if (timing.joules > 0) row["joules"] = timing.joules;
  if (timing.sm_mhz > 0) row["sm_mhz"] = timing.sm_mhz;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

Table::Table(std::vector<std::string> headers) {
  for (std::string& header : headers) {
    const bool marked = header.find_first_of(">~?") == 0;
    sign_.push_back(marked ? header.front() : ' ');
    if (marked) header.erase(0, 1);
  }
  rows_.push_back(std::move(headers));
}

void Table::add(std::vector<std::string> row) {
  assert(row.size() == sign_.size());
  for (std::string& cell : row) cell = printable_line(cell);
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(sign_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  return widths;
}

std::string Table::laid_out(const std::vector<std::size_t>& widths) const {
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string cell = clipped(row[i], widths[i]);
      const std::string pad(widths[i] - columns_of(cell), ' ');
      line += (line.empty() ? "" : "  ") + (sign_[i] == '>' ? pad + cell : cell + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string Table::text() const { return laid_out(widths()); }

std::string Table::text(std::size_t columns) const {
  constexpr std::size_t kLeast = 16;  // of a clipped column
  std::vector<std::size_t> widths = this->widths();
  const auto total = [&](bool at_least) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > 0)
        sum += 2 + (at_least && sign_[i] == '~' ? std::min(kLeast, widths[i]) : widths[i]);
    return sum - 2;
  };
  while (total(true) > columns) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (sign_[i] == '?' && widths[i] > 0 &&
          (widest == widths.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == widths.size()) break;
    widths[widest] = 0;
  }
  for (std::size_t now = total(false); now > columns; now = total(false)) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (sign_[i] == '~' && widths[i] > kLeast &&
          (widest == widths.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return laid_out(widths);
}

Json to_json(const std::optional<SearchExtent>& searched) {
  if (!searched) return nullptr;
  return {{"seconds", searched->seconds},
          {"budget_seconds", searched->budget_seconds},
          {"spent_seconds", searched->spent_seconds},
          {"measured", searched->measured},
          {"failed", searched->failed},
          {"enumerated", searched->enumerated},
          {"whole_space", searched->whole_space},
          {"interrupted", searched->interrupted}};
}

Json to_json(const std::optional<StoredRoofline>& roof) {
  if (!roof) return nullptr;
  return {{"ns", roof->roof.ns},
          {"by", roof->roof.of},
          {"rate", roof->roof.rate},
          {"limits_measured", roof->measured}};
}

Json share_json(const std::optional<StoredRoofline>& roof, double ns) {
  return roof && ns > 0 ? Json(roof->roof.ns / ns) : Json(nullptr);
}

Json to_json(const RangeReport& report, const std::string& device) {
  Json parts = Json::array();
  for (const RangeReport::Part& part : report.parts)
    parts.push_back({{"last", part.last},
                     {"config", part.config},
                     {"tuned_at", part.tuned_at},
                     {"expected_ns", part.expected_ns}});
  return {{"shape", kiln::text(report.range)},
          {"device", device},
          {"threads", report.threads},
          {"kernels", report.kernels},
          {"parts", parts},
          {"searched", report.searched},
          {"measured", report.measured},
          {"seconds", report.seconds},
          {"already_tuned", report.already_tuned},
          {"stored", report.stored},
          {"warnings", report.warnings}};
}

std::string text(const RangeReport& report) {
  const std::string_view size = kiln::name(report.range.size);
  std::string out = fmt::format(
      "{}\n  {} kernels, {}\n", kiln::text(report.range), report.kernels,
      report.already_tuned ? "tuned before"
                           : fmt::format("{} sizes searched, {} candidates measured, {:.1f} s",
                                         report.searched, report.measured, report.seconds));
  Table table({fmt::format(">{} up to", size), ">expected", ">tuned at", "config"});
  for (const RangeReport::Part& part : report.parts)
    table.add({fmt::to_string(part.last), human_time(part.expected_ns),
               fmt::to_string(part.tuned_at), part.config});
  out += table.text();
  for (const std::string& warning : report.warnings) out += fmt::format("  warning: {}\n", warning);
  return out;
}

std::string interruption_text(std::string_view shape, const Result<TuneReport>& report) {
  if (!report)
    return fmt::format(
        "kiln: interrupted: {}: no kernel was chosen, so there is no record; what "
        "was measured is kept\n",
        shape);
  if (!report->searched || !report->searched->interrupted)
    return fmt::format("kiln: interrupted: {}: its search had ended, and its record is kept\n",
                       shape);
  return fmt::format(
      "kiln: interrupted: {}: {}; the fastest of them is its record, and the same "
      "command continues from there\n",
      shape, text(*report->searched));
}

std::string_view name(Progress::Stage stage) {
  switch (stage) {
    case Progress::Stage::space:
      return "space";
    case Progress::Stage::compile:
      return "compile";
    case Progress::Stage::screen:
      return "screen";
    case Progress::Stage::verify:
      return "verify";
    case Progress::Stage::race:
      return "race";
    case Progress::Stage::done:
      return "done";
  }
  return "done";
}

ProgressReport::ProgressReport(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressReport::~ProgressReport() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

void ProgressReport::update(const Progress& p) {
  if (p.total == 0 && p.stage != Progress::Stage::done) return;
  const bool new_stage = static_cast<int>(p.stage) != stage_;
  stage_ = static_cast<int>(p.stage);
  std::string best =
      p.best_ns > 0 ? fmt::format("  best {}  {}", human_time(p.best_ns), p.best_config) : "";
  if (!terminal_) {
    if (new_stage)
      fmt::print(stderr, "{}: {} {}/{}  {:.1f} s{}\n", label_, name(p.stage), p.done, p.total,
                 p.seconds, best);
    return;
  }
  constexpr double kRedrawSeconds = 0.1;  // fast shapes report thousands of times a second
  if (!new_stage && p.seconds < last_drawn_ + kRedrawSeconds) return;
  last_drawn_ = p.seconds;
  drawn_ = true;
  if (p.best_ns > 0) speeds_.push_back(1 / p.best_ns);
  constexpr std::size_t kSparkCells = 12;
  if (speeds_.size() > 1 && draws_bars(STDERR_FILENO))
    best = fmt::format("  {}{}", sparkline(speeds_, kSparkCells), best);
  // The terminal's own wrapping is switched off: a line that wraps cannot be redrawn in place.
  fmt::print(stderr, "\r\033[?7l\033[K{} {} {:7} {:>4}/{:<4} {:5.1f} s{}\033[?7h", label_,
             bar(p.done, p.total), name(p.stage), p.done, p.total, p.seconds, best);
  std::fflush(stderr);
}

CountReport::CountReport(std::string label, int total)
    : label_(std::move(label)), total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}

void CountReport::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

void CountReport::update(int done, std::string_view note) {
  const int step = std::max(1, total_ / 10);
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{} {} {}/{}  {}", label_, bar(done, total_), done, total_, note);
    drawn_ = true;
  } else if (done % step == 0 || done == total_) {
    fmt::print(stderr, "{}: {}/{}  {}\n", label_, done, total_, note);
  }
  std::fflush(stderr);
}

}  // namespace kiln::cli
