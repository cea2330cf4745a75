// From fp32 weights and activations to packed codes with scales, multiplied as they are: the usual
// fp8 recipe, and microscaled blocks of 8, 6 and 4 bits. Prints what each loses.
#include <cmath>
#include <cstdio>
#include <kiln/kiln.hpp>
#include <random>
#include <vector>

namespace {

struct Recipe {
  const char* name;
  kiln::DType activations, weights;
  kiln::Scale of_activations, of_weights;
  double most;  // relative error of the whole product
};

constexpr Recipe kRecipes[] = {
    {"fp8, a scale a line", kiln::fp8_e4m3, kiln::fp8_e4m3, kiln::Scale::line, kiln::Scale::line,
     0.05},
    {"fp8, scales of 1x128 and 128x128", kiln::fp8_e4m3, kiln::fp8_e4m3, kiln::Scale::line_128,
     kiln::Scale::square_128, 0.05},
    {"mx fp8", kiln::fp8_e4m3, kiln::fp8_e4m3, kiln::Scale::mx_32, kiln::Scale::mx_32, 0.06},
    {"mx fp8 times mx fp4", kiln::fp8_e4m3, kiln::fp4_e2m1, kiln::Scale::mx_32, kiln::Scale::mx_32,
     0.2},
    {"mx fp6", kiln::fp6_e2m3, kiln::fp6_e2m3, kiln::Scale::mx_32, kiln::Scale::mx_32, 0.08},
    {"mx fp4", kiln::fp4_e2m1, kiln::fp4_e2m1, kiln::Scale::mx_32, kiln::Scale::mx_32, 0.3},
};

std::vector<float> random_matrix(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace

int main() {
  constexpr std::int64_t kTokens = 48, kOutputs = 160, kInputs = 256;
  const auto x = random_matrix(kTokens * kInputs, 1);   // row-major, a token a line
  const auto w = random_matrix(kOutputs * kInputs, 2);  // an output's weights a line
  std::vector<float> exact(kTokens * kOutputs), y(kTokens * kOutputs);
  auto engine = kiln::Engine::open().value();
  const auto plain = kiln::Gemm::row_major(kTokens, kOutputs, kInputs).transpose_b();
  if (!engine.gemm(plain, {.a = x.data(), .b = w.data(), .d = exact.data()})) return 1;

  bool good = true;
  for (const Recipe& r : kRecipes) {
    const auto a = kiln::quantise(x, kTokens, kInputs, r.activations, r.of_activations).value();
    const auto b = kiln::quantise(w, kOutputs, kInputs, r.weights, r.of_weights).value();
    kiln::Gemm gemm = kiln::Gemm::row_major(kTokens, kOutputs, kInputs, r.activations)
                          .transpose_b()
                          .output(kiln::fp32)
                          .scaled(r.of_activations, r.of_weights);
    gemm.b.dtype = r.weights;
    kiln::Operands operands{.a = a.codes.data(), .b = b.codes.data(), .d = y.data()};
    operands.scale_a = a.scales.data();
    operands.scale_b = b.scales.data();
    if (!engine.gemm(gemm, operands)) return 1;
    double off = 0, size = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      off += std::pow(y[i] - exact[i], 2);
      size += std::pow(exact[i], 2);
    }
    const double error = std::sqrt(off / size);
    std::printf("%-34s %5zu + %4zu bytes of weights, error %.3f\n", r.name, b.codes.size(),
                b.scales.size(), error);
    good = good && error > 0 && error < r.most;
  }
  return good ? 0 : 1;
}
