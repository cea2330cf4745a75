// Tune at the factory, ship the database, run where nothing is tuned: the second engine has the
// shipped file read-only under a database of its own, and finds the kernel there.
#include <cstdio>
#include <filesystem>
#include <kiln/kiln.hpp>
#include <vector>

namespace {

namespace fs = std::filesystem;

bool tune_at_the_factory(const kiln::Gemm& gemm, const fs::path& database) {
  auto engine = kiln::Engine::open({.database = database, .threads = 1});
  if (!engine) return std::printf("%s\n", engine.error().message.c_str()), false;
  const auto report = engine->tune(gemm, {.budget = std::chrono::seconds(2)});
  if (!report) return std::printf("%s\n", report.error().message.c_str()), false;
  std::printf("tuned in %.1f s: %s\n", report->seconds, report->config.c_str());
  return true;
}

bool run_at_the_customer(const kiln::Gemm& gemm, const fs::path& shipped, const fs::path& own) {
  // Policy::error proves that the shipped record is used: without one, gemm() would refuse.
  auto engine = kiln::Engine::open(
      {.database = own, .shipped = {shipped}, .policy = kiln::Policy::error, .threads = 1});
  if (!engine) return std::printf("%s\n", engine.error().message.c_str()), false;
  const std::vector<float> a(gemm.m * gemm.k, 0.5f), b(gemm.k * gemm.n, 4.0f);
  std::vector<float> d(gemm.m * gemm.n);
  const auto status = engine->gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data()});
  if (!status) return std::printf("%s\n", status.error().message.c_str()), false;
  std::printf("ran out of %s: d[0] = %g\n", shipped.c_str(), d[0]);
  return d.front() == 2.0f * float(gemm.k) && d.back() == d.front();
}

}  // namespace

int main() {
  const auto gemm = kiln::Gemm::row_major(96, 128, 160);
  const fs::path shipped = "factory.db", own = "customer.db";
  for (const auto& path : {shipped, own}) fs::remove(path);
  return tune_at_the_factory(gemm, shipped) && run_at_the_customer(gemm, shipped, own) ? 0 : 1;
}
