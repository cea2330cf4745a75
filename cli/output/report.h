// How results reach people and programs: aligned tables, units, JSON lines on stdout, progress on
// stderr. Knows nothing of what it prints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/records/stored_roofline.h"
#include "kiln/options.hpp"
#include "tuner/measured.h"

namespace kiln::cli {

using Json = nlohmann::ordered_json;

/// One object, one line, flushed: a reader sees it as soon as it is known. Text that is not UTF-8
/// is replaced, not thrown over.
void print_json(const Json& object);

/// How far a search went; null where nothing is known of it.
Json to_json(const std::optional<SearchExtent>& searched);
/// The least time of a product on its CPU; null where no limits are stored.
Json to_json(const std::optional<StoredRoofline>& roof);
/// The roof over a time, 0..1 and more where caches hold more than a race expects; null where
/// either is not known.
Json share_json(const std::optional<StoredRoofline>& roof, double ns);
/// A tuned range: its table from size to kernel.
Json to_json(const RangeReport& report, const std::string& device);
std::string text(const RangeReport& report);
/// What is kept of the problem (`shape`) that was being tuned when the user interrupted.
std::string interruption_text(std::string_view shape, const Result<TuneReport>& report);

/// "850 ns", "12.3 us", "4.56 ms", "1.20 s".
std::string human_time(double nanoseconds);
/// "512 B", "48.0 KiB", "1.5 MiB".
std::string human_bytes(double bytes);
/// Whether what is printed may hold bars and sparklines: standard output (or that descriptor) is a
/// terminal, and the locale's characters are UTF-8.
bool draws_bars(int descriptor);

/// "  3.4 %"-style share, without padding.
std::string percent(double share);
/// Adds "joules" and "sm_mhz" where a race under load told them.
void add_load(Json& row, const Timing& timing);

/// Left-aligned text and right-aligned figures, two spaces between columns.
class Table {
 public:
  /// A header that starts with '>' makes a right-aligned column, with '~' one that may be clipped,
  /// with '?' one that may be left out (the sign is not printed).
  explicit Table(std::vector<std::string> headers);
  void add(std::vector<std::string> row);
  std::string text() const;
  /// In lines of `columns`: without the widest of the columns that may be left out, as many as is
  /// needed, then with those clipped that may be.
  std::string text(std::size_t columns) const;
  bool empty() const { return rows_.size() < 2; }

 private:
  std::vector<char> sign_;                      // of each column, or ' '
  std::vector<std::vector<std::string>> rows_;  // the header is row 0

  std::vector<std::size_t> widths() const;
  /// A column of width 0 is left out; a wider cell is clipped.
  std::string laid_out(const std::vector<std::size_t>& widths) const;
};

/// Tuning progress on stderr: a bar redrawn in place on a terminal, with a sparkline of how fast
/// the best kernel was since tuning began; else a plain line a stage.
class ProgressReport {
 public:
  /// `label` names the shape, e.g. "[3/17] fp32 N T 512 4096 4096".
  explicit ProgressReport(std::string label);
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;
  /// Clears the bar, so that whatever follows starts on a clean line.
  ~ProgressReport();
  void update(const Progress& progress);

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  int stage_ = -1;
  double last_drawn_ = -1;      // seconds since tune() began
  std::vector<double> speeds_;  // of the best kernel, at each drawing
};

/// Progress of a count on stderr: a bar on a terminal, else a line every tenth of the way.
class CountReport {
 public:
  CountReport(std::string label, int total);
  CountReport(const CountReport&) = delete;
  CountReport& operator=(const CountReport&) = delete;
  ~CountReport() { clear(); }
  void update(int done, std::string_view note);
  /// Takes the bar away before something else is printed.
  void clear();

 private:
  std::string label_;
  int total_;
  bool terminal_;
  bool drawn_ = false;
};

/// "space", "compile", "screen", "verify", "race", "done".
std::string_view name(Progress::Stage stage);

}  // namespace kiln::cli
