// Weights that never change are packed once, into the order that kernels read; every later call, of
// any m and thread count, skips that work. The packed problem is tuned as a problem of its own.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <kiln/kiln.hpp>
#include <vector>

namespace {

/// Microseconds of the fastest of a few runs.
template <typename F>
double best_us(F&& run) {
  double best = 1e30;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

int main() {
  constexpr int tokens = 8, in = 512, out = 768;
  std::vector<float> x(tokens * in), weights(out * in), plain(tokens * out), packed(tokens * out);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(int(i % 9) - 4);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = float(int(i % 7) - 3);

  auto engine = kiln::Engine::open().value();
  const auto layer = kiln::Gemm::row_major(tokens, out, in).transpose_b();
  const auto layer_packed = layer.with_packed_b();
  const kiln::TuneOptions options{.budget = std::chrono::seconds(2), .threads = 1};
  engine.tune(layer, options).value();
  engine.tune(layer_packed, options).value();

  const auto handle = engine.pack_b(layer, weights.data(), 1).value();
  const kiln::Operands from_memory{
      .a = x.data(), .b = weights.data(), .d = plain.data(), .threads = 1};
  const kiln::Operands from_handle{
      .a = x.data(), .packed_b = &handle, .d = packed.data(), .threads = 1};
  const auto run = [&](const kiln::Gemm& gemm, const kiln::Operands& operands) {
    return best_us([&] {
      if (const auto status = engine.gemm(gemm, operands); !status)
        std::printf("%s\n", status.error().message.c_str());
    });
  };
  std::printf("weights as stored %8.1f us\n", run(layer, from_memory));
  std::printf("packed once       %8.1f us, %zu bytes kept\n", run(layer_packed, from_handle),
              handle.bytes());
  return plain == packed ? 0 : 1;  // small integers: both sums are exact
}
