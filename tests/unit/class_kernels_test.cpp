// Kernels of a class of CPUs: a program without a compiler multiplies problems by them that nobody
// tuned, on any CPU that has the class's instructions.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "cache/class_kernels.h"
#include "cache/class_maker.h"
#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "runtime/cpu/cpu.h"
#include "support/opened_engine.h"
#include "support/random_gemm.h"

namespace kiln::class_kernels_test {

using test::why;

/// The kernels of a class's list for problems like `shape`.
std::vector<ClassKernel> of_kind(const DeviceCaps& of_class, const char* shape) {
  const std::string kind = class_text(class_problem(parse_gemm(shape).value()));
  std::vector<ClassKernel> some = class_list(of_class);
  std::erase_if(some, [&](const ClassKernel& kernel) {
    return class_text(class_problem(kernel.gemm)) != kind;
  });
  return some;
}

/// A shipped file with the kernels of one kind of problem.
void make_file(const std::filesystem::path& file, const char* name, const char* shape) {
  const DeviceCaps of_class = device_class(name).value();
  auto store = Store::open({.database = file});
  ASSERT_TRUE(store) << store.error().message;
  const auto list = of_kind(of_class, shape);
  ASSERT_FALSE(list.empty());
  const auto report = make_class(**store, *host_compiler().value(), of_class, list, {});
  ASSERT_TRUE(report) << report.error().message;
  for (const std::string& failed : report->failed) ADD_FAILURE() << failed;
  EXPECT_EQ(report->made + report->same_code, static_cast<int>(list.size()));
}

TEST(ClassKernels, ServeAnUntunedSizeWithoutACompiler) {
  if (!detect_cpu()->cpu.avx512) GTEST_SKIP() << "this CPU lacks AVX-512";
  const TempDir dir;
  make_file(dir / "x86.kiln", "avx512", "fp32 N N 1 1 1");
  auto engine = Engine::open({.database = dir / "own.db", .shipped = {dir / "x86.kiln"}, .threads = 1});
  ASSERT_TRUE(engine);
  const Gemm gemm = Gemm::row_major(77, 130, 91);
  const auto plan = engine->plan(gemm);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->match(), Match::model);
  EXPECT_EQ(plan->impl().made_for, "avx512");
  const Verdict verdict = test::check(*engine, gemm);
  EXPECT_TRUE(verdict) << why(verdict);
  EXPECT_NE(engine->explain(gemm)->find("made for:  every CPU with avx512"), std::string::npos);
}

}  // namespace kiln::class_kernels_test
