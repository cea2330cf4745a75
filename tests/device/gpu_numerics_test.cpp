// What numerics=tensor keeps, on a GPU: fp32 products by tensor cores beside the library's own
// fp32, both against sums in fp64. Errors are shares of sum |a||b|.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "generator/problem/spelling.h"
#include "kiln/engine.hpp"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device.h"
#include "runtime/gpu/device.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::gpu_numerics_test {

/// A [rows, k] and B [columns, k], and their sums in fp64.
struct Data {
  std::int64_t rows, columns, k;
  std::vector<float> a, b;
  std::vector<double> sums = {}, magnitudes = {};

  void add_up() {
    sums.assign(static_cast<std::size_t>(rows * columns), 0.0);
    magnitudes = sums;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          const double x = double(a[i * k + p]) * double(b[j * k + p]);
          sum += x;
          magnitude += std::fabs(x);
        }
        sums[i * columns + j] = sum;
        magnitudes[i * columns + j] = magnitude;
      }
  }
};

/// An element by its place: line and p, the place along k, of A or of B.
struct Place {
  int line, p;
  bool of_b;
};
using Draw = std::function<float(std::mt19937&, Place)>;

float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }
/// -range to range, the same for the same number.
int exponent_of(int number, int range) { return number * 7919 % (2 * range + 1) - range; }

const std::pair<const char*, Draw> kKinds[] = {
    {"uniform", [](std::mt19937& random,
                   Place) { return std::uniform_real_distribution<float>(-1, 1)(random); }},
    {"normal", [](std::mt19937& random, Place) { return normal(random); }},
    {"log-normal, sigma = 4",
     [](std::mt19937& random, Place) {
       const float x = std::exp(4 * normal(random));
       return random() % 2 == 0 ? x : -x;
     }},
    {"lines of A and B times 2^-30 to 2^30",
     [](std::mt19937& random, Place at) {
       return std::ldexp(normal(random), exponent_of(at.line, 30));
     }},
    {"lines of A and rows of B along k times 2^-30 to 2^30", [](std::mt19937& random, Place at) {
       return std::ldexp(normal(random), exponent_of(at.of_b ? at.p : at.line, 30));
     }}};

Data data_of(const Draw& draw) {
  Data data{.rows = 192, .columns = 256, .k = 4096, .a = {}, .b = {}};
  std::mt19937 random(1);
  const auto fill = [&](std::vector<float>& to, std::int64_t lines, bool of_b) {
    for (int line = 0; line < lines; ++line)
      for (int p = 0; p < data.k; ++p) to.push_back(draw(random, {line, p, of_b}));
  };
  fill(data.a, data.rows, false);
  fill(data.b, data.columns, true);
  data.add_up();
  return data;
}

struct Errors {
  double rms = 0, largest = 0;
};

gpu::DeviceBuffer on_device(const gpu::SharedDevice& device, const std::vector<float>& host) {
  auto buffer = gpu::DeviceBuffer::make(device, host.size() * 4).value();
  EXPECT_TRUE(gpu::upload(*device, buffer.pointer(), std::as_bytes(std::span(host))));
  return buffer;
}

Errors errors_of(Engine& engine, const gpu::SharedDevice& device, const Gemm& gemm,
                 const Data& data) {
  std::vector<float> got(data.sums.size(), std::numeric_limits<float>::quiet_NaN());
  const auto a = on_device(device, data.a), b = on_device(device, data.b);
  const auto d = on_device(device, got);
  const Status ran = engine.gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data()});
  EXPECT_TRUE(ran) << ran.error().message;
  const gpu::Guest guest(*device);
  device->driver().cuCtxSynchronize();
  device->driver().cuMemcpyDtoH(got.data(), d.pointer(), got.size() * 4);
  Errors errors;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::fabs(double(got[i]) - data.sums[i]) / data.magnitudes[i];
    errors.rms += off * off;
    errors.largest = std::isnan(off) ? off : std::max(errors.largest, off);
  }
  errors.rms = std::sqrt(errors.rms / double(got.size()));
  return errors;
}

TEST(GpuNumerics, TensorCoresKeepWhatTheLibraryKeeps) {
  const auto device = cuda::open_device(0);
  if (!device) GTEST_SKIP() << "no NVIDIA GPU: " << device.error().message;
  ASSERT_TRUE(cuda::cublaslt_version()) << "cuBLASLt is part of what this test is about";
  TempDir dir;
  const Gemm ieee = parse_gemm("fp32 N T 192 256 4096 align=16").value();
  const Gemm tensor = ieee.with_numerics(Numerics::tensor);
  OpenOptions options;
  options.device = "cuda:0";
  options.database = dir / "kiln.db";
  options.allow_vendor = true;
  options.on_untuned = [](const std::string&) {};
  const auto tuned = [&](const Gemm& gemm) {
    auto engine = Engine::open(options).value();
    ASSERT_TRUE(engine.tune(gemm, {.budget = std::chrono::duration<double>(3)}));
  };
  const auto favour = [&](const char* family, const char* config) {
    test::tamper(
        dir / "kiln.db",
        fmt::format("UPDATE measurement SET median_ns = 1, low_ns = 1, high_ns = 1 WHERE "
                    "failure IS NULL AND config_id IN (SELECT id FROM config WHERE family = "
                    "'{}' AND text LIKE '%{}%')",
                    family, config));
  };
  tuned(ieee);
  favour("cublaslt", "");
  tuned(tensor);
  favour("cuda_wgmma", "halves=1");
  auto engine = Engine::open(options).value();
  if (!splits_fp32((*device)->caps())) GTEST_SKIP() << "this GPU has no kernel that splits fp32";
  ASSERT_NE(engine.plan(tensor).value().config().find("halves=1"), std::string::npos);
  ASSERT_EQ(engine.plan(ieee).value().config().find("cublaslt"), 0);
  for (const auto& [kind, draw] : kKinds) {
    const Data data = data_of(draw);
    const Errors own = errors_of(engine, *device, tensor, data);
    const Errors library = errors_of(engine, *device, ieee, data);
    fmt::print("{}: rms {:.3g}, largest {:.3g}; cuBLASLt {:.3g}, {:.3g}\n", kind, own.rms,
               own.largest, library.rms, library.largest);
    EXPECT_LE(own.rms, 1.5 * library.rms) << kind;
    EXPECT_LE(own.largest, 2 * library.largest) << kind;
  }
}

}  // namespace kiln::gpu_numerics_test
