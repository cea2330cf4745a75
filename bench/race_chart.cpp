// `kiln bench --svg`: the speedup of each shape over its work, a series for each class of problem.
#include <fmt/format.h>

#include "bench/overview.h"
#include "bench/report.h"
#include "bench/svg.h"
#include "generator/problem/timed_flops.h"

namespace kiln {

std::string svg(const BenchReport& report) {
  std::map<int, std::map<std::string, ChartSeries>> by_threads;
  for (const ContestResult& row : report.rows) {
    if (!row.verified || row.peers.empty()) continue;
    ChartSeries& series = by_threads[row.threads][kind_text(row.gemm)];
    series.line = false;
    series.points.emplace_back(timed_flops(row.gemm), row.ratio());
    series.labels.push_back(
        fmt::format("{}: {:.2f} of {}", text(row.gemm), row.ratio(), row.best_peer()));
  }
  std::vector<ChartPanel> panels;
  for (auto& [threads, classes] : by_threads) {
    ChartPanel panel{
        .title = fmt::format("{}, {} thread{}", report.device, threads, threads == 1 ? "" : "s"),
        .x_label = "operations, 2 m n k batch",
        .y_label = "fastest library's time / kiln's",
        .log_y = true};
    for (auto& [kind, series] : classes) {
      series.name = kind;
      panel.series.push_back(std::move(series));
    }
    panels.push_back(std::move(panel));
  }
  return chart_svg(panels, versions_text(report));
}

}  // namespace kiln
