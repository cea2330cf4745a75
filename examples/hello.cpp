// Tune one shape, use it, ask why.
#include <iostream>
#include <kiln/kiln.hpp>
#include <vector>

int main() {
  std::vector<float> a(512 * 512, 1.0f), b(512 * 512, 2.0f), d(512 * 512);
  auto engine = kiln::Engine::open().value();
  const auto gemm = kiln::Gemm::row_major(512, 512, 512);
  engine.tune(gemm, {.budget = std::chrono::seconds(2)}).value();
  if (!engine.gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data()})) return 1;
  std::cout << "d[0] = " << d[0] << "\n" << engine.explain(gemm).value();
  return d[0] == 1024.0f ? 0 : 1;
}
