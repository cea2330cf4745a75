// The model that is fitted to a device's measurements.
#include "tuner/search/fitted_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "generator/families/cuda/wgmma/config.h"

namespace kiln::fitted_model_test {

using testing::HasSubstr;

const DeviceCaps kH200 = cuda_caps_named("sm_90a").value();

Gemm shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm gemm = Gemm::row_major(m, n, k, bf16).transpose_b();
  gemm.alignment = 16;
  return gemm;
}

/// Configs that the analytic model and the measurements order differently.
struct Measured {
  std::vector<Config> configs;
  std::vector<TimedConfig> rows;
};

/// Of config i, `factors[i]` times what the analytic model says.
Measured measured(const std::vector<double>& factors, const std::vector<Gemm>& shapes) {
  Measured all;
  const auto space = space_for(Problem::of(shapes.front()).value(), kH200).value();
  for (const Config& config : space.legal)
    if (config.is<CudaWgmma>() && all.configs.size() < factors.size())
      all.configs.push_back(config);
  for (const Gemm& gemm : shapes)
    for (std::size_t i = 0; i < all.configs.size(); ++i)
      all.rows.push_back(
          {gemm, all.configs[i],
           predict_ns(Problem::of(gemm).value(), kH200, all.configs[i]) * factors[i]});
  return all;
}

const std::vector<Gemm> kShapes{shape(256, 512, 512), shape(512, 512, 512), shape(512, 1024, 512),
                                shape(1024, 1024, 512), shape(1024, 1024, 2048)};

TEST(FittedModel, LearnsWhatTheAnalyticModelDoesNotKnow) {
  const auto [configs, rows] = measured({2.0, 1.0, 1.5, 0.5}, kShapes);
  const FittedModel model = FittedModel::fit(rows, configs, kH200);
  EXPECT_TRUE(model.useful());
  EXPECT_EQ(model.quality().shapes, 5);
  EXPECT_GE(model.quality().mean, model.uncorrected().mean);
  const auto unseen = model.at(shape(640, 768, 640));
  EXPECT_NEAR(unseen.of(configs[0]) / unseen.of(configs[3]), 4.0, 1.0);
}

/// A card that takes 1.3 times as long as predicted, beside one that takes 0.9 times as long.
TEST(FittedModel, KernelsOfRelativesErrAsThisDevicesDo) {
  const auto [configs, slow] = measured({1.3, 1.3, 1.3}, kShapes);
  const auto [same, fast] = measured({0.9, 0.9, 0.9}, kShapes);
  const FittedModel own = FittedModel::fit(slow, configs, kH200),
                    theirs = FittedModel::fit(fast, same, kH200);
  const Gemm unseen = shape(640, 768, 640);
  EXPECT_NEAR(own.at(unseen).of_all(), 1.3, 1e-3);
  const double error = error_of_relatives(&own, &theirs, unseen);
  EXPECT_NEAR(error, 1.3 / 0.9 * std::exp(own.spread() + theirs.spread()), 1e-3);
  EXPECT_GE(error * theirs.at(unseen).of(configs[0]), own.at(unseen).of(configs[0]) * 0.999)
      << "equal kernels: the one that ran here is taken";
  EXPECT_NEAR(error_of_relatives(&own, nullptr, unseen), 1.3 * std::exp(own.spread()), 1e-3);
  EXPECT_EQ(error_of_relatives(nullptr, &theirs, unseen), 1);
}

TEST(FittedModel, IsReadBackAsItWasWritten) {
  const auto [configs, rows] = measured({2.0, 1.0, 1.5}, kShapes);
  const FittedModel model = FittedModel::fit(rows, configs, kH200);
  const auto again = FittedModel::parse(model.text());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->text(), model.text());
  for (const Config& config : configs)
    EXPECT_NEAR(again->at(kShapes[0]).of(config), model.at(kShapes[0]).of(config), 1e-3);
}

/// A model's text in its parts: JSON, and a line for each kernel.
struct Parts {
  struct Kernel {
    std::string config, predicted_ns, residuals;
  };

  explicit Parts(const std::string& text) {
    std::istringstream from(text);
    std::string line;
    std::getline(from, line);
    head = nlohmann::json::parse(line);
    while (std::getline(from, line)) {
      Kernel& kernel = kernels.emplace_back();
      std::istringstream parts(line);
      std::getline(parts, kernel.config, '\t');
      std::getline(parts, kernel.predicted_ns, '\t');
      std::getline(parts, kernel.residuals);
    }
  }
  std::string text() const {
    std::string out = head.dump();
    for (const auto& [config, predicted_ns, residuals] : kernels)
      out += "\n" + config + "\t" + predicted_ns + "\t" + residuals;
    return out;
  }
  /// As earlier versions wrote it: residuals as a text, or one for each shape, null where the
  /// kernel was not timed.
  nlohmann::json earlier(bool arrays) const {
    nlohmann::json out = head;
    for (const auto& [config, predicted_ns, residuals] : kernels) {
      nlohmann::json kernel{{"config", config}, {"predicted_ns", std::stod(predicted_ns)}};
      std::vector<nlohmann::json> all(head["shapes"].size());
      std::istringstream pairs(residuals);
      double residual = 0;
      for (std::size_t place = 0; pairs >> place >> residual;) all.at(place) = residual / 1e4;
      kernel["residuals"] = arrays ? nlohmann::json(all) : nlohmann::json(residuals);
      out["kernels"].push_back(kernel);
    }
    return out;
  }

  nlohmann::json head;
  std::vector<Kernel> kernels;
};

TEST(FittedModel, TextsOfEarlierVersionsAreRead) {
  const auto [configs, rows] = measured({2.0, 1.0, 1.5}, kShapes);
  const FittedModel model = FittedModel::fit(rows, configs, kH200);
  EXPECT_TRUE(FittedModel::parse(model.text())->written_as_today());
  for (const bool arrays : {false, true}) {
    nlohmann::json json = Parts(model.text()).earlier(arrays);
    const auto earlier = FittedModel::parse(json.dump());
    ASSERT_TRUE(earlier) << earlier.error().message;
    EXPECT_FALSE(earlier->written_as_today());
    EXPECT_EQ(earlier->text(), model.text());
    json["kernels"][1].erase("predicted_ns");  // as the oldest wrote it
    EXPECT_FALSE(FittedModel::parse(json.dump())->is_current(shape(7, 8, 9), kH200));
    json["kernels"][1]["residuals"] = 5;
    EXPECT_FALSE(FittedModel::parse(json.dump())) << "neither text nor numbers";
  }
}

TEST(FittedModel, LinesOfNoKernelAreAnError) {
  const auto [configs, rows] = measured({2.0, 1.0}, kShapes);
  const Parts good(FittedModel::fit(rows, configs, kH200).text());
  const auto reads = [&](auto change) {
    Parts parts = good;
    change(parts.kernels[0]);
    return FittedModel::parse(parts.text()).has_value();
  };
  const auto residuals = [&](const char* text) {
    return reads([&](Parts::Kernel& kernel) { kernel.residuals = text; });
  };
  for (const char* text : {"", "0 5", "0 5 1 -20000000"}) EXPECT_TRUE(residuals(text)) << text;
  for (const char* text : {"-1 5", "400 5", "1.5 5", "0", "0 ", "0 5 ", " 0 5", "0 5 1", "0,5",
                           "0 5x", "0 99999999999", "99999999999999999999 5", "null", "0 5\t"})
    EXPECT_FALSE(residuals(text)) << text;
  for (const char* text : {"", "x", "5x", " 5", "1e999"})
    EXPECT_FALSE(reads([&](Parts::Kernel& kernel) { kernel.predicted_ns = text; })) << text;
  EXPECT_FALSE(reads([&](Parts::Kernel& kernel) { kernel.config = "cuda_wgmma left=1"; }));
  EXPECT_FALSE(FittedModel::parse(good.text() + "\n"));
  EXPECT_FALSE(FittedModel::parse(good.text() + "\n0 5"));
}

TEST(FittedModel, IsCurrentWhileTheAnalyticModelPredictsWhatItDid) {
  const auto [configs, rows] = measured({2.0, 1.0}, kShapes);
  Parts parts(FittedModel::fit(rows, configs, kH200).text());
  EXPECT_TRUE(FittedModel::parse(parts.text())->is_current(shape(7, 8, 9), kH200));
  const double predicted = std::stod(parts.kernels[1].predicted_ns);
  for (const double factor : {1.0005, 0.9995, 1.002, 0.998}) {
    parts.kernels[1].predicted_ns = std::to_string(predicted * factor);
    EXPECT_EQ(FittedModel::parse(parts.text())->is_current(shape(7, 8, 9), kH200),
              std::abs(factor - 1) < 0.001)
        << factor;
  }
}

// Sizes that no problem of the class may have: a file says what it likes.
TEST(FittedModel, ShapesThatNoProblemHasAreNotCurrent) {
  const auto [configs, rows] = measured({2.0, 1.0}, kShapes);
  Parts parts(FittedModel::fit(rows, configs, kH200).text());
  for (auto& sizes : parts.head["shapes"]) sizes[0] = std::int64_t{1} << 62;
  const auto model = FittedModel::parse(parts.text());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->is_current(shape(7, 8, 9), kH200));
}

TEST(FittedModel, DamagedTextIsAnError) {
  const auto [configs, rows] = measured({2.0, 1.0}, kShapes);
  const std::string good = FittedModel::fit(rows, configs, kH200).text();
  EXPECT_FALSE(FittedModel::parse(""));
  EXPECT_FALSE(FittedModel::parse("{}"));
  EXPECT_FALSE(FittedModel::parse(good.substr(0, good.size() / 2)));
  std::string negative = good;
  const std::size_t at = negative.find("[256,");
  ASSERT_NE(at, std::string::npos);
  negative.replace(at, 4, "[-26");
  EXPECT_THAT(FittedModel::parse(negative).error().message, HasSubstr("is not a size"));
}

TEST(FittedModel, WildMeasurementsAreNotUsed) {
  auto [configs, rows] = measured({1.0, 1.0, 1.0, 1.0}, kShapes);
  // A kernel that is fast on one shape is slow on the next.
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].ns *= (i + i / configs.size()) % 2 == 0 ? 7.0 : 0.15;
  EXPECT_FALSE(FittedModel::fit(rows, configs, kH200).useful());
}

TEST(FittedModel, FewShapesAreNotEnough) {
  const auto [configs, rows] = measured({2.0, 1.0}, {kShapes[0], kShapes[1]});
  EXPECT_FALSE(FittedModel::fit(rows, configs, kH200).useful());
}

}  // namespace kiln::fitted_model_test
