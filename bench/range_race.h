// `kiln bench --any-m`: sizes drawn from ranges; what gemm() runs there beside a kernel tuned for
// that size alone, and the peers. Knows the Engine and the peers; knows no command line.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/contest.h"
#include "bench/report.h"

namespace kiln {

struct RangeRaceOptions {
  std::vector<GemmRange> ranges;
  int count = 40;          ///< sizes drawn from each range, fewer where it has fewer
  std::uint64_t seed = 1;  ///< of the sizes, the data and of tuning
  int threads = 0;
  OpenOptions open;
  bool tune = false;                                 ///< tune a range first that has no table
  std::chrono::duration<double> range_budget{60.0};  ///< of that
  /// Race kernels tuned for one size, too; of run_to_run where `open` asks for batch_invariant.
  bool alone = true;
  std::chrono::duration<double> budget{10.0};  ///< of tuning one size
  std::vector<std::string> peers;              ///< as BenchOptions
  ContestOptions contest;
  std::function<void(const Result<RangeReport>&)> on_range;
  std::function<void(const ContestResult&)> on_row;
  std::function<void(const ShapeFailure&)> on_failure;
  std::function<void(const Gemm&, const Progress&)> on_tune;
  std::function<bool()> cancelled;
};

/// One drawn size.
struct RangeRaceRow {
  std::size_t range = 0;  // which of the ranges
  ContestResult race;     // kiln: what gemm() runs; others: the kernel tuned alone, if it raced
};

/// Times of something else over those of what gemm() runs, over all rows that have both.
struct RangeRaceSummary {
  struct Against {
    int sizes = 0;
    double mean = 0, worst = 0;  // geometric
    std::string worst_shape;
  };
  std::map<std::string, Against> against;  // "alone", and the peers
  /// By how much a size is at most slower than a larger one of its range; 0: none is.
  double slower_than_larger = 0;
  std::string slower_shape;
  int verified = 0, failed = 0;
};

struct RangeRaceReport {
  std::string device;
  std::vector<GemmRange> ranges;
  std::vector<RangeReport> tables;  // of the ranges that have one
  std::vector<RangeRaceRow> rows;   // of each range by size
  std::vector<ShapeFailure> failures;
  bool cancelled = false;
};

/// `count` different sizes of a range, log-uniform, ascending.
std::vector<std::int64_t> drawn_sizes(const GemmRange& range, int count, std::uint64_t seed);

/// Call enter_peer_environment() first. Kernels of single sizes are tuned in a private database
/// over those that are open. Errors: as run_bench().
Result<RangeRaceReport> run_range_race(const RangeRaceOptions& options);

RangeRaceSummary summarise(const RangeRaceReport& report);
/// The last line of `kiln bench --any-m --json`.
OrderedJson to_json(const RangeRaceSummary& summary);
std::string table(const RangeRaceReport& report);
std::string text(const RangeRaceSummary& summary);
/// Times over what gemm() runs, by size: one panel a range.
std::string svg(const RangeRaceReport& report);

}  // namespace kiln
