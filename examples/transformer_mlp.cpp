// The feed-forward half of a transformer layer, as a model would call it:
//   hidden = silu(x Wg^T) * (x Wu^T);   y = x + hidden Wd^T
// The gate's SiLU and the residual are epilogues, weights are packed once, and each of the three
// products is bound to its kernel by a Plan. Checked against plain loops.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <kiln/kiln.hpp>
#include <random>
#include <vector>

namespace {

constexpr int kTokens = 16, kModel = 128, kHidden = 352, kThreads = 1;
using Values = std::vector<float>;

Values random_values(std::size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Values values(count);
  for (auto& value : values) value = uniform(random);
  return values;
}

/// One product with its weights: y[tokens, out] = x[tokens, in] W[out, in]^T, then the epilogue.
class Linear {
 public:
  Linear(kiln::Engine& engine, const kiln::Gemm& gemm, const Values& weights)
      : packed_(engine.pack_b(gemm, weights.data(), kThreads).value()),
        plan_(engine.plan(gemm.with_packed_b(), kThreads).value()) {}

  kiln::Status operator()(const Values& x, Values& y, const float* residual = nullptr) const {
    return plan_.run({.a = x.data(),
                      .packed_b = &packed_,
                      .d = y.data(),
                      .residual = residual,
                      .threads = kThreads});
  }

 private:
  kiln::PackedB packed_;
  kiln::Plan plan_;
};

Values reference(const Values& x, const Values& gate, const Values& up, const Values& down) {
  std::vector<double> hidden(kTokens * kHidden);
  for (int t = 0; t < kTokens; ++t)
    for (int h = 0; h < kHidden; ++h) {
      double g = 0, u = 0;
      for (int i = 0; i < kModel; ++i) {
        g += double(x[t * kModel + i]) * gate[h * kModel + i];
        u += double(x[t * kModel + i]) * up[h * kModel + i];
      }
      hidden[t * kHidden + h] = g / (1 + std::exp(-g)) * u;
    }
  Values y(kTokens * kModel);
  for (int t = 0; t < kTokens; ++t)
    for (int o = 0; o < kModel; ++o) {
      double sum = x[t * kModel + o];
      for (int h = 0; h < kHidden; ++h)
        sum += hidden[t * kHidden + h] * double(down[o * kHidden + h]);
      y[t * kModel + o] = float(sum);
    }
  return y;
}

}  // namespace

int main() {
  std::mt19937 random(7);
  const auto x = random_values(kTokens * kModel, random);
  const auto gate = random_values(kHidden * kModel, random);
  const auto up = random_values(kHidden * kModel, random);
  const auto down = random_values(kModel * kHidden, random);

  auto engine = kiln::Engine::open().value();
  const auto widen = kiln::Gemm::row_major(kTokens, kHidden, kModel).transpose_b();
  const auto narrow = kiln::Gemm::row_major(kTokens, kModel, kHidden).transpose_b();
  const Linear gated(engine, widen.with_activation(kiln::Activation::silu), gate);
  const Linear lifted(engine, widen, up);
  const Linear lowered(engine, narrow.with_residual(), down);

  Values g(kTokens * kHidden), u(kTokens * kHidden), y(kTokens * kModel);
  auto status = gated(x, g);
  if (status) status = lifted(x, u);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] *= u[i];
  if (status) status = lowered(g, y, x.data());
  if (!status) {
    std::printf("%s\n", status.error().message.c_str());
    return 1;
  }

  const auto wanted = reference(x, gate, up, down);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    worst = std::max(worst, std::abs(double(y[i]) - wanted[i]));
    largest = std::max(largest, std::abs(double(wanted[i])));
  }
  std::printf("largest error %.3g of values up to %.3g\n", worst, largest);
  return worst <= 1e-5 * largest ? 0 : 1;
}
