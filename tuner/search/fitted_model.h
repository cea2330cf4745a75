// The analytic model corrected by what was measured on this device: for each stored kernel, how far
// its times lay from the model's on every shape where it was timed. Pure; knows no database and no
// device but as values.
#pragma once

#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/space/space.h"

namespace kiln {

/// One measurement: a config's median time on a problem.
struct TimedConfig {
  Gemm gemm;
  Config config;
  double ns = 0;
};

/// What a choice for one shape, made without its measurements, reached.
struct LeftOutShape {
  std::array<std::int64_t, 4> sizes;  // m, n, k, batch
  double quality = 1;                 // best measured time / that of the chosen kernel
  double analytic = 1;                // the same of the analytic model's choice
};

/// How good a choice by predictions is, over shapes of which each is left out in turn: the best
/// measured time over that of the chosen kernel.
struct ChoiceQuality {
  int shapes = 0;
  double mean = 1, worst = 1;  // geometric mean; 1: the best kernel was chosen
  std::string worst_shape;
};

class FittedModel {
 public:
  /// From measurements of one class of problems (types, layouts, epilogue); those of configs that
  /// `kernels` does not list are left out.
  static FittedModel fit(std::span<const TimedConfig> timed, std::span<const Config> kernels,
                         const DeviceCaps& device);
  /// Errors: bad_input (not what text() writes).
  static Result<FittedModel> parse(std::string_view text);
  /// JSON, and a line for each kernel, parted by tabs: the config, what was predicted at the first
  /// shape where it was timed, and the places of those shapes, each with 10,000 times
  /// log(measured / predicted).
  std::string text() const;
  /// Whether it was parsed from such a text, not from the JSON of an earlier version, which takes
  /// longer to read.
  bool written_as_today() const { return spelt_as_today_; }
  /// Whether today's analytic models predict what those did that it was fitted to, for a problem of
  /// its class on its device. Where not, its corrections mean nothing: fit() it again.
  bool is_current(const Gemm& like, const DeviceCaps& device) const;

  /// What predictions for one problem are multiplied by.
  class Correction {
   public:
    double of(const Config& config) const;
    /// What all kernels' predictions near the problem are to be multiplied by on average.
    double of_all() const;

   private:
    friend class FittedModel;
    Correction(const FittedModel& model, const Gemm& gemm, std::ptrdiff_t left_out);
    const FittedModel& model_;
    std::vector<double> weights_;  // of each shape
  };
  /// What predictions of kernels that it does not know are multiplied by.
  double mean() const { return std::exp(mean_); }
  /// Valid as long as the model.
  Correction at(const Gemm& gemm) const { return Correction(*this, gemm, -1); }

  /// Leave-one-out by shape; empty for a model that was parsed.
  const std::vector<LeftOutShape>& left_out() const { return left_out_; }
  /// Leave-one-out, as stored with the fit.
  const ChoiceQuality& quality() const { return quality_; }
  /// The same of the analytic model alone.
  const ChoiceQuality& uncorrected() const { return uncorrected_; }
  /// Standard deviation of log(measured / corrected prediction), leave-one-out.
  double spread() const { return spread_; }
  /// Whether its choices are no worse than the analytic model's and its errors are of a size that
  /// says something. Where not, it should not be used.
  bool useful() const;

 private:
  using Sizes = std::array<std::int64_t, 4>;  // m, n, k, batch
  struct Residual {
    std::size_t shape;
    double value;
  };
  struct Kernel {
    std::vector<Residual> residuals;  // of shapes where it was timed, in their order
    double mean = 0;                  // drawn towards that of all kernels
    double predicted_ns = 0;          // at the first shape that has a residual, tightly laid out
  };

  /// What the analytic model says of the first shape where a kernel was timed.
  double first_prediction(const Config& config, const Kernel& kernel, const Gemm& like,
                          const DeviceCaps& device) const;
  double correction(const Kernel& kernel, const std::vector<double>& weights) const;
  std::vector<double> weights_of(const Sizes& sizes, std::ptrdiff_t left_out) const;
  void settle();
  struct Rows;
  struct Reader;
  void judge(const Rows& rows);

  std::vector<Sizes> shapes_;
  std::map<Config, Kernel> kernels_;
  bool spelt_as_today_ = true;
  std::vector<double> sums_;  // of all kernels' residuals, of each shape
  std::vector<int> counts_;   // of them
  double mean_ = 0;           // residual of all kernels
  double reach_ = 1;          // of a measurement, in doublings of sizes
  double trust_ = 0.3;        // weight of a kernel's mean beside its measurements nearby
  double spread_ = 0;
  ChoiceQuality quality_, uncorrected_;
  std::vector<LeftOutShape> left_out_;
};

/// What predictions of kernels that were measured on a relative alone, corrected by `theirs`, are
/// multiplied by beside those of this device, corrected by `own`. Measurements of this device lie
/// elsewhere relative to predictions: an H100, which its power limits, takes 14 % longer than
/// predicted where an H200 takes 2 %. And what never ran here is to win by more than both models
/// err. 1 without `own`; `theirs` may be missing.
double error_of_relatives(const FittedModel* own, const FittedModel* theirs, const Gemm& gemm);

}  // namespace kiln
