// What databases hold and earlier races found, as numbers to be drawn: `kiln report --out`. Runs
// nothing on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/search_curve.h"
#include "cache/store.h"

namespace kiln {

struct Overview {
  struct Device {
    std::string name;                     // as device_name(), or what a race calls it
    std::string source;                   // the file of a race; empty: databases
    bool predicted = false;               // a class of CPUs, whose times are the model's
    double bytes_per_second = 0;          // of its memory; 0: not known
    std::map<std::string, double> peaks;  // operations a second by type
    std::int64_t problems = 0, winners = 0, measurements = 0, failures = 0, ranges = 0;
    std::string first, last;  // when its measurements were made, ISO 8601
  };
  /// A problem with kiln's time and those of the libraries that were raced.
  struct Shape {
    std::size_t device = 0;
    std::string text;
    std::string kind;  // type, layouts: "bf16 N T"
    std::string dtype;
    std::string family;
    double ns = 0, flops = 0;
    double bytes = 0;    // of operands that a call with beta = 0 reads and writes, once each
    double roof_ns = 0;  // the least time on its CPU (StoredRoofline); 0: not known
    double joules = 0;   // of a call under load; 0: not known
    std::map<std::string, double> peers;
  };
  /// A size of a range: the kernel that gemm() runs there, and the fastest that is known.
  struct RangePoint {
    std::int64_t size = 0;
    double ns = 0, best_ns = 0;
  };
  struct RangeRegret {
    std::size_t device = 0;
    std::string text, size;
    std::vector<RangePoint> points;  // by size
  };
  /// The candidates of one search and family, by the values of their config's keys.
  struct Landscape {
    std::size_t device = 0;
    std::string text, family;
    std::vector<std::string> keys;                 // those that take more than one value
    std::vector<std::vector<std::string>> values;  // [candidate][key]
    std::vector<double> ns;                        // [candidate]; 0: it failed
  };
  struct FailureCount {
    std::size_t device = 0;
    std::string family, reason, example;
    std::int64_t count = 0;
  };

  std::vector<std::string> sources;  // the files that were read
  std::vector<Device> devices;
  std::vector<Shape> shapes;
  std::vector<RangeRegret> ranges;
  std::vector<SearchCurve> searches;
  std::vector<Landscape> landscapes;
  std::vector<FailureCount> failures;
};

/// How much of what could be drawn is; a page has to stay readable.
struct OverviewLimits {
  std::size_t least_candidates = 16;  // of a search that is drawn
  std::size_t searches = 200;         // the longest of them
  std::size_t landscapes = 24;        // the problems with the most candidates
};

/// Errors: database.
Result<Overview> overview_of(Store& store, const OverviewLimits& limits = {});
/// Adds what `kiln bench --json` printed, with or without --any-m. Errors: bad_input, naming the
/// file and the line.
Status add_races(Overview& overview, const std::filesystem::path& file);

/// The page's data.
OrderedJson to_json(const Overview& overview);

/// What a call with beta = 0 reads and writes, in bytes: every operand once.
double least_traffic(const Gemm& gemm);
/// Types and layouts, what else tells apart the code of kernels for any size: "bf16 N T".
std::string kind_text(const Gemm& gemm);
/// The type as a shape's line spells it: "fp8", "int8".
std::string type_text(const Gemm& gemm);

}  // namespace kiln
