// Hand-written fp32 kernels that misbehave after their work, compiled in place of what was rendered
// for a config, and a fixture that puts them before the tuner's worker.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/render/render.h"
#include "runtime/compiler.h"
#include "runtime/cpu/cpu.h"
#include "support/kernel_source.h"
#include "tuner/search/search.h"

namespace kiln::test {

/// A plain fp32 kernel (row-major, not transposed); `fault` runs after D is written, by thread 0.
inline std::string planted_text(const std::string& fault) {
  return abi_text() + R"(
extern "C" void abort();
extern "C" void _exit(int);
extern "C" long syscall(long, ...);
extern "C" int snprintf(char*, unsigned long, const char*, ...);
extern "C" __attribute__((visibility("default"))) long long kiln_workspace_bytes(
    const KilnArgs*, int) { return 0; }
extern "C" __attribute__((visibility("default"))) void kiln_gemm(const KilnArgs* args, int thread,
                                                                 int) {
  if (thread != 0) return;
  const float* a = (const float*)args->a;
  const float* b = (const float*)args->b;
  const float* c = (const float*)args->c;
  float* d = (float*)args->d;
  for (long long i = 0; i < args->m; ++i)
    for (long long j = 0; j < args->n; ++j) {
      float sum = 0;
      for (long long p = 0; p < args->k; ++p) sum += a[i * args->lda + p] * b[p * args->ldb + j];
      float value = (float)args->alpha * sum;
      if (args->beta != 0) value += (float)args->beta * c[i * args->ldc + j];
      d[i * args->ldd + j] = value;
    }
)" + fault +
         "\n}\n";
}

/// Compiles, in place of what was rendered for a config, the kernel planted for it.
class PlantingCompiler : public Compiler {
 public:
  Result<Binary> compile(const Source& source) override {
    Source planted = source;
    const auto it = faults.find(source.file_name);
    planted.text = planted_text(it == faults.end() ? "" : it->second);
    return host_compiler().value()->compile(planted);
  }
  Result<std::string> assembly(const Source&) override {
    return fail(ErrorCode::compiler, "not asked for here");
  }
  std::string version() const override { return "planting"; }

  std::map<std::string, std::string> faults;  // by the rendered source's file name
};

/// A small problem, its first configs, and a tuning lock of the test's own: others may be tuning on
/// this machine.
class PlantedTest : public ::testing::Test {
 protected:
  PlantedTest() {
    char folder[] = "/tmp/kiln-worker-test-XXXXXX";
    folder_ = mkdtemp(folder);
    setenv("KILN_LOCK_DIR", folder_.c_str(), 1);
    input_.device = detect_cpu(1).value();
    input_.gemm = parse_gemm("fp32 N N 33 20 17 ldd=24").value();
    input_.options.budget = std::chrono::seconds(60);  // clock: no test here comes near it
    const SearchSpace space = space_for(Problem::of(input_.gemm).value(), input_.device).value();
    for (const Config& c : space.legal)
      if (c.is<HostPacked>()) configs_.push_back(c);
  }
  ~PlantedTest() override { std::filesystem::remove_all(folder_); }

  void plant(const Config& config, const std::string& fault) {
    compiler_.faults[render(Problem::of(input_.gemm).value(), input_.device, config)->file_name] =
        fault;
  }

  /// Screens one candidate with the planted fault and then a good one.
  Measured screen_fault(const std::string& fault) {
    plant(configs_[0], fault);
    auto evaluator = worker_evaluator(input_, compiler_);
    EXPECT_TRUE(evaluator) << evaluator.error().message;
    const auto rows = (*evaluator)->screen({configs_[0], configs_[1]});
    EXPECT_EQ(rows.size(), 2u);
    EXPECT_TRUE(rows[1].ok()) << rows[1].failure().detail;
    EXPECT_TRUE(rows[1].verified);
    EXPECT_GT(rows[1].timing().median_ns, 0);
    return rows[0];
  }

  std::filesystem::path folder_;
  SearchInput input_;
  std::vector<Config> configs_;
  PlantingCompiler compiler_;
};

}  // namespace kiln::test
