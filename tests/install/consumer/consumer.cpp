// Multiplies once through the installed library and checks every element.
#include <cstdio>
#include <kiln/kiln.hpp>
#include <string>
#include <vector>

int main() {
  constexpr int m = 33, n = 17, k = 65;
  std::vector<float> a(m * k), b(k * n), d(m * n, -1.0f);
  for (int i = 0; i < m * k; ++i) a[i] = static_cast<float>(i % 7 - 3);
  for (int i = 0; i < k * n; ++i) b[i] = static_cast<float>(i % 5 - 2);

  auto engine = kiln::Engine::open();
  if (!engine) return std::printf("open: %s\n", engine.error().message.c_str()), 1;
  const auto gemm = kiln::Gemm::row_major(m, n, k);
  kiln::Operands operands;
  operands.a = a.data();
  operands.b = b.data();
  operands.d = d.data();
  if (auto status = engine->gemm(gemm, operands); !status)
    return std::printf("gemm: %s\n", status.error().message.c_str()), 1;

  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;  // small integers: exact in any order
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      if (sum != d[i * n + j])
        return std::printf("d[%d,%d] = %g, not %g\n", i, j, d[i * n + j], sum), 1;
    }
  std::printf("kiln %s\n", std::string(kiln::version()).c_str());
  return 0;
}
