#include "bench/leave_one_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/device_name.h"
#include "bench/geometric_mean.h"
#include "bench/svg.h"
#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"

namespace kiln {
namespace {

/// The types and layouts of a problem's line, without its sizes.
std::string without_sizes(const Gemm& gemm) {
  Gemm one = gemm;
  one.m = one.n = one.k = 1;
  one.batch = 1;
  for (Matrix* x : one.matrices()) x->ld = x->batch_stride = 0;
  const std::string line = text(one);
  const std::size_t at = line.find(" 1 1 1");
  return at == line.npos ? line : line.substr(0, at) + line.substr(at + 6);
}

OrderedJson to_json(const ChoiceQuality& quality) {
  return {{"shapes", quality.shapes},
          {"ratio", quality.mean},
          {"worst_ratio", quality.worst},
          {"worst_shape", quality.worst_shape}};
}

struct Overall {
  GeometricMean mean;
  void add(const LeaveOneOutRow& row) {
    for (const LeftOutShape& shape : row.shapes)
      mean.add(row.used ? shape.quality : shape.analytic);
  }
};

}  // namespace

Result<std::vector<LeaveOneOutRow>> leave_one_out(Store& store) {
  const auto records = store.winners().list();
  if (!records) return tl::unexpected(records.error());
  // One key of each class, and the configs of its winners.
  struct Class {
    BestKey key;
    std::set<Config> kernels;
  };
  std::map<std::string, Class> classes;
  for (const Record& record : *records) {
    BestKey shapeless = record.key;
    shapeless.gemm = {};
    Class& found = classes[key_text(shapeless) + class_text(record.key.gemm)];
    found.key = record.key;
    found.kernels.insert(record.measured.config);
  }
  std::vector<LeaveOneOutRow> rows;
  for (const auto& [name, one] : classes) {
    const std::vector<Config> kernels(one.kernels.begin(), one.kernels.end());
    const FittedModel model =
        FittedModel::fit(store.measurements().timed_like(one.key), kernels, one.key.device);
    if (model.quality().shapes < 2) continue;
    rows.push_back({.device = device_name(one.key.device),
                    .problems = without_sizes(one.key.gemm),
                    .kernels = static_cast<int>(kernels.size()),
                    .used = model.useful(),
                    .fitted = model.quality(),
                    .analytic = model.uncorrected(),
                    .spread = model.spread(),
                    .shapes = model.left_out()});
  }
  std::ranges::stable_sort(rows, [](const LeaveOneOutRow& x, const LeaveOneOutRow& y) {
    return std::pair(x.device, -x.fitted.shapes) < std::pair(y.device, -y.fitted.shapes);
  });
  return rows;
}

std::string table(const std::vector<LeaveOneOutRow>& rows) {
  std::string out;
  std::map<std::string, Overall> devices;
  for (const LeaveOneOutRow& row : rows) {
    out += fmt::format(
        "{}: {}: {} shapes, {} kernels: {:.3f} of the best, worst {:.3f} ({}); errors {:.0f} %; "
        "analytic model {:.3f}, worst {:.3f}{}\n",
        row.device, row.problems, row.fitted.shapes, row.kernels, row.fitted.mean, row.fitted.worst,
        row.fitted.worst_shape, row.spread * 100, row.analytic.mean, row.analytic.worst,
        row.used ? "" : "; not used");
    devices[row.device].add(row);
  }
  for (const auto& [device, all] : devices)
    out += fmt::format("{}: {:.3f} (geometric mean of {} shapes), worst {:.3f}\n", device,
                       all.mean.value(), all.mean.count(), all.mean.least());
  return out;
}

OrderedJson to_json(const LeaveOneOutRow& row) {
  return {{"device", row.device},
          {"problems", row.problems},
          {"kernels", row.kernels},
          {"used", row.used},
          {"spread", row.spread},
          {"fitted", to_json(row.fitted)},
          {"analytic", to_json(row.analytic)}};
}

OrderedJson summary_json(const std::vector<LeaveOneOutRow>& rows) {
  std::map<std::string, Overall> devices;
  for (const LeaveOneOutRow& row : rows) devices[row.device].add(row);
  OrderedJson all = OrderedJson::object();
  for (const auto& [device, one] : devices)
    all[device] = {{"shapes", one.mean.count()},
                   {"ratio", one.mean.value()},
                   {"worst_ratio", one.mean.least()}};
  return {{"summary", {{"leave_one_out", all}}}};
}

std::string svg(const std::vector<LeaveOneOutRow>& rows) {
  std::map<std::string, ChartPanel> panels;
  for (const LeaveOneOutRow& row : rows) {
    ChartPanel& panel = panels[row.device];
    panel.title = row.device;
    panel.x_label = "m n k batch";
    panel.y_label = "best time / chosen kernel's";
    ChartSeries series{.name = row.problems, .line = false};
    for (const LeftOutShape& shape : row.shapes) {
      double work = 1;
      for (const std::int64_t size : shape.sizes) work *= double(size);
      series.points.emplace_back(work, row.used ? shape.quality : shape.analytic);
    }
    panel.series.push_back(std::move(series));
  }
  std::vector<ChartPanel> all;
  for (auto& [device, panel] : panels) all.push_back(std::move(panel));
  return chart_svg(all);
}

}  // namespace kiln
