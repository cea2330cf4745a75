#include "tuner/search/fitted_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "generator/problem/groups.h"
#include "generator/problem/indices.h"

namespace kiln {
namespace {

using nlohmann::json;

/// Of a kernel's mean: the mean of all kernels counts as so many of its measurements.
constexpr double kPrior = 2;
/// A time beyond e^2 of the prediction is a fault of the measurement or of the config.
constexpr double kLargest = 2;
/// Residuals are written as whole numbers of which 10,000 are a factor of e.
constexpr double kUnits = 1e4;
/// Errors beyond a factor of e^0.5 say nothing about kernels that differ by a tenth.
constexpr double kWildSpread = 0.5;
/// Least shapes that leaving one out says something of.
constexpr int kLeastShapes = 4;
constexpr std::size_t kMostShapes = 4096, kMostKernels = 4096;

/// A fit holds while the analytic model predicts within this of what it did: no timing resolves
/// less.
constexpr double kSamePrediction = 1e-3;

/// Of masked groups the rows that are expected count, not those that there may be.
std::array<std::int64_t, 4> sizes_of(const Gemm& gemm) {
  const bool masked = gemm.grouping() == Grouping::masked;
  const std::int64_t rows = masked ? std::llround(expected_rows_of(gemm)) : gemm.m;
  return {std::max<std::int64_t>(1, rows), gemm.n, gemm.k, gemm.batch};
}

/// The problem of a class with these sizes, tightly laid out.
Gemm with_sizes(Gemm gemm, const std::array<std::int64_t, 4>& sizes) {
  gemm.m = sizes[0], gemm.n = sizes[1], gemm.k = sizes[2], gemm.batch = sizes[3];
  if (auto* const masked = std::get_if<MaskedGroups>(&gemm.groups)) masked->expected_rows = gemm.m;
  index_every_row(gemm);
  for (Matrix* matrix : gemm.matrices()) matrix->ld = 0, matrix->batch_stride = 0;
  return gemm;
}

class Quality {
 public:
  void add(double ratio, const std::array<std::int64_t, 4>& sizes) {
    ++quality_.shapes;
    logs_ += std::log(ratio);
    quality_.mean = std::exp(logs_ / quality_.shapes);
    if (ratio >= quality_.worst) return;
    quality_.worst = ratio;
    quality_.worst_shape = fmt::format("{}x{}x{}{}", sizes[0], sizes[1], sizes[2],
                                       sizes[3] == 1 ? "" : fmt::format(" batch {}", sizes[3]));
  }
  const ChoiceQuality& value() const { return quality_; }

 private:
  ChoiceQuality quality_;
  double logs_ = 0;
};

json to_json(const ChoiceQuality& q) {
  return {{"shapes", q.shapes}, {"mean", q.mean}, {"worst", q.worst}, {"at", q.worst_shape}};
}

/// A whole number of the range of `least` to `most`, or json's exception.
std::int64_t whole(const json& from, std::int64_t least, std::int64_t most) {
  // A float beyond the integers has no value as one.
  const auto value = from.is_number_integer() ? from.get<std::int64_t>() : least - 1;
  if (value < least || value > most)
    throw json::other_error::create(500, from.dump() + " is not a size", nullptr);
  return value;
}

double bounded(double residual) { return std::clamp(residual, -kLargest, kLargest); }

ChoiceQuality quality_from(const json& from) {
  return {.shapes = static_cast<int>(whole(from.at("shapes"), 0, kMostShapes)),
          .mean = std::clamp(from.at("mean").get<double>(), 0.0, 1.0),
          .worst = std::clamp(from.at("worst").get<double>(), 0.0, 1.0),
          .worst_shape = from.at("at").get<std::string>()};
}

}  // namespace

/// The kernels, as text() writes them or as earlier versions did.
struct FittedModel::Reader {
  using Residuals = std::vector<Residual>;

  /// "shape residual shape residual …". Nothing: the text is not such a list.
  static std::optional<Residuals> in_text(std::string_view text, std::size_t shapes) {
    if (text.ends_with(' ')) return std::nullopt;
    Residuals residuals;
    const char *at = text.data(), *const end = at + text.size();
    const auto read = [&](auto& number) {
      const auto [past, error] = std::from_chars(at, end, number);
      if (error != std::errc()) return false;
      at = past == end ? end : past + 1;
      return past == end || *past == ' ';
    };
    while (at != end) {
      std::size_t shape = 0;
      int units = 0;
      if (!read(shape) || at == end || !read(units) || shape >= shapes) return std::nullopt;
      if (!residuals.empty() && shape <= residuals.back().shape) return std::nullopt;
      residuals.push_back({shape, bounded(units / kUnits)});
    }
    return residuals;
  }

  /// Earlier versions: one for each shape, or null.
  static std::optional<Residuals> in_array(const json& from, std::size_t shapes) {
    if (from.size() != shapes) return std::nullopt;
    Residuals residuals;
    for (std::size_t i = 0; i < shapes; ++i)
      if (!from[i].is_null()) residuals.push_back({i, bounded(from[i].get<double>())});
    return residuals;
  }

  Status add(std::string_view config, double predicted_ns, std::optional<Residuals> residuals) {
    auto parsed = parse_config(config);
    if (!parsed) return tl::unexpected(parsed.error());
    if (!residuals) return wrong("residuals are missing");
    if (kernels.size() == kMostKernels) return wrong("too many kernels");
    kernels.emplace(std::move(*parsed),
                    Kernel{.residuals = std::move(*residuals), .predicted_ns = predicted_ns});
    return {};
  }

  /// Lines of "config\tpredicted_ns\tresiduals", each behind its '\n'.
  Status lines(std::string_view text, std::size_t shapes) {
    while (!text.empty()) {
      const std::string_view line = text.substr(1, text.find('\n', 1) - 1);
      text.remove_prefix(1 + line.size());
      const std::size_t config = line.find('\t'), number = line.find('\t', config + 1);
      if (config == line.npos || number == line.npos) return wrong("a line of no kernel");
      double predicted_ns = 0;
      const char* const end = line.data() + number;
      const auto [past, error] = std::from_chars(line.data() + config + 1, end, predicted_ns);
      if (error != std::errc() || past != end) return wrong("a prediction is not a number");
      const Status added =
          add(line.substr(0, config), predicted_ns, in_text(line.substr(number + 1), shapes));
      if (!added) return added;
    }
    return {};
  }

  /// Objects of earlier versions, the oldest of which have no predictions.
  Status objects(const json& from, std::size_t shapes) {
    for (const json& one : from) {
      const json& residuals = one.at("residuals");
      const Status added =
          add(one.at("config").get<std::string>(), one.value("predicted_ns", -1.0),
              residuals.is_string()  ? in_text(residuals.get_ref<const std::string&>(), shapes)
              : residuals.is_array() ? in_array(residuals, shapes)
                                     : std::nullopt);
      if (!added) return added;
    }
    return {};
  }

  static tl::unexpected<Error> wrong(const std::string& what) {
    return fail(ErrorCode::bad_input, "fitted model: " + what);
  }

  std::map<Config, Kernel> kernels;
};

/// The measurements by shape, with predictions, for leave-one-out.
struct FittedModel::Rows {
  struct Row {
    Config config;
    double predicted_ns, measured_ns;
  };
  std::vector<std::vector<Row>> of_shape;
};

FittedModel::Correction::Correction(const FittedModel& model, const Gemm& gemm,
                                    std::ptrdiff_t left_out)
    : model_(model), weights_(model.weights_of(sizes_of(gemm), left_out)) {}

double FittedModel::Correction::of(const Config& config) const {
  const auto kernel = model_.kernels_.find(config);
  if (kernel == model_.kernels_.end()) return model_.mean();
  return std::exp(model_.correction(kernel->second, weights_));
}

double FittedModel::Correction::of_all() const {
  double sum = model_.trust_ * model_.mean_, weight = model_.trust_;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    sum += weights_[i] * model_.sums_[i];
    weight += weights_[i] * model_.counts_[i];
  }
  return std::exp(sum / weight);
}

std::vector<double> FittedModel::weights_of(const Sizes& sizes, std::ptrdiff_t left_out) const {
  std::vector<double> weights(shapes_.size(), 0);
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (static_cast<std::ptrdiff_t>(i) == left_out) continue;
    double distance = 0;
    for (std::size_t side = 0; side < sizes.size(); ++side) {
      const double log = std::log2(static_cast<double>(std::max<std::int64_t>(1, sizes[side])) /
                                   static_cast<double>(shapes_[i][side]));
      distance += log * log;
    }
    weights[i] = std::exp(-0.5 * distance / (reach_ * reach_));
  }
  return weights;
}

double FittedModel::correction(const Kernel& kernel, const std::vector<double>& weights) const {
  double sum = trust_ * kernel.mean, weight = trust_;
  for (const auto& [shape, residual] : kernel.residuals) {
    sum += weights[shape] * residual;
    weight += weights[shape];
  }
  return sum / weight;
}

double FittedModel::first_prediction(const Config& config, const Kernel& kernel, const Gemm& like,
                                     const DeviceCaps& device) const {
  if (kernel.residuals.empty()) return 0;
  // A file may say any sizes.
  const auto problem = Problem::of(with_sizes(like, shapes_[kernel.residuals.front().shape]));
  const bool legal = problem && broken_rule(*problem, device, config).empty();
  return legal ? predict_ns(*problem, device, config) : 0;
}

bool FittedModel::is_current(const Gemm& like, const DeviceCaps& device) const {
  return std::ranges::all_of(kernels_, [&](const auto& entry) {
    const double now = first_prediction(entry.first, entry.second, like, device);
    return std::abs(now - entry.second.predicted_ns) <= kSamePrediction * now;
  });
}

/// The means that measurements are drawn towards.
void FittedModel::settle() {
  sums_.assign(shapes_.size(), 0);
  counts_.assign(shapes_.size(), 0);
  for (const auto& [config, kernel] : kernels_)
    for (const auto& [shape, residual] : kernel.residuals)
      sums_[shape] += residual, ++counts_[shape];
  const double count = std::accumulate(counts_.begin(), counts_.end(), 0.0);
  mean_ = count > 0 ? std::accumulate(sums_.begin(), sums_.end(), 0.0) / count : 0;
  for (auto& [config, kernel] : kernels_) {
    double own = kPrior * mean_, of = kPrior;
    for (const auto& [shape, residual] : kernel.residuals) own += residual, ++of;
    kernel.mean = own / of;
  }
}

/// Leave-one-out with the present reach and trust. Kernels' means keep the shape that is left out:
/// it is one of many there.
void FittedModel::judge(const Rows& rows) {
  Quality corrected, plain;
  left_out_.clear();
  double squares = 0, count = 0;
  for (std::size_t s = 0; s < rows.of_shape.size(); ++s) {
    const auto& all = rows.of_shape[s];
    if (all.size() < 2) continue;
    const std::vector<double> weights = weights_of(shapes_[s], static_cast<std::ptrdiff_t>(s));
    double best = all.front().measured_ns, least = 0, least_plain = 0;
    const Rows::Row *chosen = nullptr, *chosen_plain = nullptr;
    for (const Rows::Row& row : all) {
      best = std::min(best, row.measured_ns);
      const double ns = row.predicted_ns * std::exp(correction(kernels_.at(row.config), weights));
      const double error = std::log(row.measured_ns / ns);
      squares += error * error, ++count;
      if (chosen == nullptr || ns < least) chosen = &row, least = ns;
      if (chosen_plain == nullptr || row.predicted_ns < least_plain)
        chosen_plain = &row, least_plain = row.predicted_ns;
    }
    corrected.add(best / chosen->measured_ns, shapes_[s]);
    left_out_.push_back({shapes_[s], best / chosen->measured_ns, best / chosen_plain->measured_ns});
    plain.add(best / chosen_plain->measured_ns, shapes_[s]);
  }
  quality_ = corrected.value();
  uncorrected_ = plain.value();
  spread_ = count > 0 ? std::sqrt(squares / count) : 0;
}

FittedModel FittedModel::fit(std::span<const TimedConfig> timed, std::span<const Config> kernels,
                             const DeviceCaps& device) {
  FittedModel model;
  const std::set<Config> wanted(kernels.begin(), kernels.end());
  std::map<Sizes, std::size_t> places;
  Rows rows;
  for (const TimedConfig& one : timed) {
    if (!wanted.contains(one.config) || !(one.ns > 0)) continue;
    const Problem problem = Problem::of(one.gemm).value();
    if (!broken_rule(problem, device, one.config).empty()) continue;
    const double predicted = predict_ns(problem, device, one.config);
    const Sizes sizes = sizes_of(one.gemm);
    // The newest come first: what is beyond the bounds of parse() is left out.
    const bool full = places.size() == kMostShapes && !places.contains(sizes);
    const bool crowded =
        model.kernels_.size() == kMostKernels && !model.kernels_.contains(one.config);
    if (full || crowded || *std::ranges::min_element(sizes) < 1) continue;
    const auto [place, fresh] = places.try_emplace(sizes, model.shapes_.size());
    if (fresh) {
      model.shapes_.push_back(sizes);
      rows.of_shape.emplace_back();
    }
    std::vector<Residual>& residuals = model.kernels_[one.config].residuals;
    const auto at = std::ranges::lower_bound(residuals, place->second, {}, &Residual::shape);
    // The newest comes first.
    if (at != residuals.end() && at->shape == place->second) continue;
    residuals.insert(at, {place->second, bounded(std::log(one.ns / predicted))});
    rows.of_shape[place->second].push_back({one.config, predicted, one.ns});
  }
  for (auto& [config, kernel] : model.kernels_) {
    kernel.predicted_ns = model.first_prediction(config, kernel, timed.front().gemm, device);
  }
  model.settle();
  FittedModel best = model;
  best.judge(rows);
  for (const double reach : {0.5, 1.0, 2.0, 4.0})
    for (const double trust : {0.1, 0.3, 1.0}) {
      model.reach_ = reach;
      model.trust_ = trust;
      model.judge(rows);
      if (model.quality_.mean > best.quality_.mean) best = model;
    }
  return best;
}

bool FittedModel::useful() const {
  return quality_.shapes >= kLeastShapes && spread_ < kWildSpread &&
         quality_.mean >= uncorrected_.mean;
}

// The kernels are nearly all of it, and JSON takes ten times as long to read as such lines.
std::string FittedModel::text() const {
  std::string lines;
  for (const auto& [config, kernel] : kernels_) {
    lines += fmt::format("\n{}\t{}\t", kiln::text(config), kernel.predicted_ns);
    const char* before = "";
    for (const auto& [shape, residual] : kernel.residuals) {
      lines += fmt::format("{}{} {}", before, shape, std::llround(residual * kUnits));
      before = " ";
    }
  }
  const json head{{"shapes", shapes_},
                  {"reach", reach_},
                  {"trust", trust_},
                  {"spread", spread_},
                  {"quality", to_json(quality_)},
                  {"uncorrected", to_json(uncorrected_)}};
  return head.dump() + lines;
}

Result<FittedModel> FittedModel::parse(std::string_view text) {
  try {
    const std::string_view head = text.substr(0, text.find('\n'));
    const json from = json::parse(head);
    FittedModel model;
    if (from.at("shapes").size() > kMostShapes) return Reader::wrong("too many shapes");
    for (const json& sizes : from.at("shapes")) {
      Sizes& shape = model.shapes_.emplace_back();
      for (std::size_t i = 0; i < shape.size(); ++i)
        shape[i] = whole(sizes.at(i), 1, std::numeric_limits<std::int64_t>::max());
    }
    Reader reader;
    model.spelt_as_today_ = !from.contains("kernels");
    const Status read = model.spelt_as_today_
                            ? reader.lines(text.substr(head.size()), model.shapes_.size())
                            : reader.objects(from.at("kernels"), model.shapes_.size());
    if (!read) return tl::unexpected(read.error());
    model.kernels_ = std::move(reader.kernels);
    model.reach_ = std::clamp(from.at("reach").get<double>(), 0.1, 10.0);
    model.trust_ = std::clamp(from.at("trust").get<double>(), 1e-3, 10.0);
    model.spread_ = from.at("spread").get<double>();
    model.quality_ = quality_from(from.at("quality"));
    model.uncorrected_ = quality_from(from.at("uncorrected"));
    model.settle();
    return model;
  } catch (const json::exception& e) {
    return Reader::wrong(e.what());
  }
}

double error_of_relatives(const FittedModel* own, const FittedModel* theirs, const Gemm& gemm) {
  if (own == nullptr) return 1;
  const double here = own->at(gemm).of_all() * std::exp(own->spread());
  return theirs == nullptr ? here : here * std::exp(theirs->spread()) / theirs->at(gemm).of_all();
}

}  // namespace kiln
