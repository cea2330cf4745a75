// Benchmark results as JSON lines, a table, CSV and a chart, and their summary. Pure functions over
// results; the field names of a JSON line are fixed: scripts rely on them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/contest.h"
#include "runtime/cpu/probe.h"

namespace kiln {

using OrderedJson = nlohmann::ordered_json;

/// A shape that could not be raced, and why.
struct ShapeFailure {
  Gemm gemm;
  int threads = 1;
  Error error;
};

/// What the machine reaches at one thread count: the reference lines.
struct MachineLine {
  int threads = 1;
  MachineLimits limits;
};

struct BenchReport {
  std::string device = "cpu";
  std::vector<MachineLine> machine;
  std::vector<ContestResult> rows;
  std::vector<ShapeFailure> failures;
  bool cancelled = false;
};

struct PeerSummary {
  int shapes = 0;
  double ratio = 0;  // geometric mean of peer's time / kiln's over the shapes it ran
};

struct BenchSummary {
  int shapes = 0;    // raced
  int compared = 0;  // of them, with at least one peer
  int verified = 0;
  int failed = 0;    // not raced
  int excluded = 0;  // peer results that were wrong or refused
  double ratio = 0;  // geometric mean of best peer's time / kiln's
  double worst_ratio = 0;
  std::string worst_shape;  // "fp32 N N 63 63 63, 2 threads"
  std::map<std::string, PeerSummary> peers;
  std::map<int, double> ratio_by_threads;
  /// Share of the peak (ContestResult::peak_flops) of squares from 1024 to 4096, "fp32" and "fp64"
  /// by threads: the least and the geometric mean.
  struct Share {
    int shapes = 0;
    double least = 0, mean = 0;
  };
  std::map<std::string, Share> peak_share;  // "fp32, 1 threads"
};

/// Adds a row with its roof; the machine's line of its threads is raised to the row's peak before,
/// so that no share of it exceeds 100 %.
void add_row(BenchReport& report, ContestResult row);

BenchSummary summarise(const BenchReport& report);

/// One line of `kiln bench --json`.
OrderedJson to_json(const ContestResult& row, const std::string& device);
OrderedJson to_json(const ShapeFailure& failure, const std::string& device);
/// What rows of GPUs with sensors have as "conditions".
OrderedJson to_json(const GpuConditions& conditions);
/// {"machine": …} and the last line, {"summary": …}.
OrderedJson to_json(const MachineLine& machine);
OrderedJson to_json(const BenchSummary& summary);

/// Every row for people: times, the best peer, ratio, share of peak; then what is to be said of
/// single rows, the conditions of a GPU's races among it. `bars`: the ratio as a bar, too.
std::string table(const BenchReport& report, bool bars = false);
std::string text(const BenchSummary& summary);
/// What raced, one library a line: "OpenBLAS 0.3.21: openblas".
std::string versions_text(const std::vector<const ContestResult*>& rows);
std::string versions_text(const BenchReport& report);
/// RFC 4180, one line a row and peer ("kiln" is one), times in nanoseconds.
std::string csv(const BenchReport& report);
/// Speedups over the fastest peer by operations and class of problem: one panel a thread count.
std::string svg(const BenchReport& report);

}  // namespace kiln
