// Kernels of a class of CPUs: a program without a compiler and without a worker multiplies problems
// by them that nobody tuned, on any CPU that has the class's instructions.
#include "cache/records/class_kernels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <variant>

#include "cache/exchange/class_maker.h"
#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "runtime/cpu/cpu.h"
#include "support/child.h"
#include "support/opened_engine.h"
#include "support/random_gemm.h"
#include "support/stored.h"

namespace kiln::class_kernels_test {

using test::why;

Parallel way_of(const Config& config) {
  return static_cast<Parallel>(value_of_key(config, "parallel").value_or(0));
}

struct Wanted {
  const char* of_class;
  const char* kind;
};
/// What the file has: enough that every look-up below has something to choose from.
constexpr Wanted kWanted[] = {{"avx512", "fp32 N N 1 1 1"},
                              {"avx512", "bf16 N T 1 1 1"},
                              {"avx512", "int8 N N 1 1 1 packed_b=1"},
                              {"avx512_vnni", "int8 N N 1 1 1 packed_b=1"},
                              {"avx512_bf16", "bf16 N T 1 1 1"},
                              {"avx2", "fp32 N N 1 1 1"},
                              {"portable", "fp32 N N 1 1 1"},
                              {"portable", "fp32 T T 1 1 1"},
                              {"portable", "fp64 N T 1 1 1"}};

/// Two kernels of the class's list for one thread, and one for several.
std::vector<ClassKernel> some_kernels(const DeviceCaps& of_class, const char* shape) {
  const std::string kind = class_text(class_problem(parse_gemm(shape).value()));
  std::map<Parallel, int> left{{Parallel::none, 2}, {Parallel::n, 1}};
  std::vector<ClassKernel> some;
  for (const ClassKernel& kernel : class_list(of_class))
    if (class_text(class_problem(kernel.gemm)) == kind && left[way_of(kernel.config)]-- > 0)
      some.push_back(kernel);
  return some;
}

bool make_file(const std::filesystem::path& file) {
  auto store = Store::open({.database = file});
  const DeviceCaps here = detect_cpu().value();
  for (const auto& [name, kind] : kWanted) {
    const DeviceCaps of_class = device_class(name).value();
    const std::vector<DeviceCaps> classes = classes_of(here);
    if (std::ranges::find(classes, of_class) == classes.end()) continue;
    const auto list = some_kernels(of_class, kind);
    const auto report = make_class(**store, *host_compiler().value(), of_class, list, {});
    if (!report || report->made != static_cast<int>(list.size()) || list.size() < 2) {
      std::fprintf(stderr, "%s, %s: %zu listed; %s\n", name, kind, list.size(),
                   !report                  ? report.error().message.c_str()
                   : report->failed.empty() ? "too few"
                                            : report->failed.front().c_str());
      return false;
    }
    // A second run finds everything there.
    const auto again = make_class(**store, *host_compiler().value(), of_class, list, {});
    if (!again || again->made != 0 || again->there != static_cast<int>(list.size())) return false;
  }
  return store.value()->transfer().export_to(file.string() + ".kiln").has_value();
}

/// A process without a compiler and without a worker: the file is made by another one.
class ClassKernels : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<TempDir>();
    made_ = test::in_child([] { return make_file(*dir_ / "classes"); });
    setenv("KILN_CLANG", "/nowhere/libkiln_clang.so", 1);
    setenv("KILN_WORKER", "/nowhere/kiln-worker", 1);
  }
  static void TearDownTestSuite() {
    unsetenv("KILN_CLANG");
    unsetenv("KILN_WORKER");
    dir_.reset();
  }
  void SetUp() override {
    ASSERT_TRUE(made_);
    file_ = own_ / "shipped.kiln";
    std::filesystem::copy_file(*dir_ / "classes.kiln", file_);
    std::filesystem::permissions(file_, std::filesystem::perms{0600});
  }

  /// An engine on this machine as if it had no more instructions than `cpu`.
  Engine open(const char* cpu, int threads = 1) {
    auto engine = Engine::open({.database = ":memory:",
                                .shipped = {file_},
                                .threads = threads,
                                .on_untuned = [](const std::string&) {}});
    auto& impl = engine->impl();
    impl.device = limited_to_class(impl.device, device_class(cpu).value());
    impl.device.model = "a CPU that nobody measured";
    impl.device.l2_bytes = 512 << 10;
    return std::move(*engine);
  }
  /// Whether this machine can be a CPU of this name.
  static bool runs(const char* cpu) {
    const auto classes = classes_of(detect_cpu().value());
    return std::ranges::find(classes, device_class(cpu).value()) != classes.end();
  }
  std::string made_for(Engine& engine, const Gemm& gemm, int threads = 1) {
    const auto plan = engine.plan(gemm, threads);
    if (!plan) return plan.error().message;
    EXPECT_EQ(plan->match(), plan->impl().made_for.empty() ? Match::reference : Match::model);
    return plan->impl().made_for;
  }

  /// The whole call checked, allowing for what the kernel's instructions flush.
  static Verdict check(Engine& engine, const Gemm& gemm) {
    const Plan::Impl& plan = engine.plan(gemm)->impl();
    const auto config = parse_config(plan.config);
    const double flushed =
        config ? flushed_by(gemm, device_class(plan.made_for).value(), *config) : 0;
    return verify(
        gemm, [&](const Operands& operands) { return engine.gemm(gemm, operands); }, {}, flushed);
  }

  TempDir own_;
  std::filesystem::path file_;

 private:
  static inline std::unique_ptr<TempDir> dir_;
  static inline bool made_ = false;
};

TEST_F(ClassKernels, ServeAnyCpuWithTheirInstructions) {
  const Gemm fp32 = Gemm::row_major(77, 130, 91),
             bf16_gemm = parse_gemm("bf16 N T 9 40 70").value();
  const std::map<std::string, std::pair<std::string, std::string>> expected{
      {"avx512_bf16", {"avx512", "avx512_bf16"}},
      {"avx512_vnni", {"avx512", "avx512"}},
      {"avx512", {"avx512", "avx512"}},
      {"avx2", {"avx2", ""}},
      {"portable", {"portable", ""}}};
  for (const auto& [cpu, classes] : expected) {
    if (!runs(cpu.c_str())) continue;
    Engine engine = open(cpu.c_str());
    EXPECT_EQ(made_for(engine, fp32), classes.first) << cpu;
    EXPECT_EQ(made_for(engine, bf16_gemm), classes.second) << cpu;
    for (const Gemm& gemm : {fp32, bf16_gemm}) {
      const Verdict verdict = check(engine, gemm);
      EXPECT_TRUE(verdict) << cpu << ": " << text(gemm) << ": " << why(verdict);
    }
  }
  EXPECT_FALSE(test::is_mapped("libkiln_clang"));
}

TEST_F(ClassKernels, MultiplyRandomProblemsOfTheirKinds) {
  std::set<std::string> kinds;
  for (const auto& [of_class, kind] : kWanted)
    if (std::string_view(of_class) == "portable")
      kinds.insert(class_text(class_problem(parse_gemm(kind).value())));
  for (const char* cpu : {"avx512_bf16", "avx512", "avx2", "portable"}) {
    if (!runs(cpu)) continue;
    Engine engine = open(cpu, detect_cpu()->compute_units);
    test::RandomGemm random(71);
    std::set<Epilogue> epilogues;
    int swapped = 0, threads = 0;
    for (int checked = 0; checked < 40;) {
      const Gemm gemm = random.next();
      if (gemm.epilogue.gate.has_value()) continue;  // they compute none
      if (!kinds.contains(class_text(class_problem(gemm)))) continue;
      EXPECT_NE(made_for(engine, gemm, 0), "") << cpu << ": " << text(gemm);
      const Verdict verdict = check(engine, gemm);
      EXPECT_TRUE(verdict) << cpu << ": " << text(gemm) << ": " << why(verdict);
      epilogues.insert(gemm.epilogue);
      swapped += Problem::of(gemm).value().swapped;
      threads += engine.plan(gemm)->config().find("parallel=n") != std::string::npos;
      ++checked;
    }
    EXPECT_GT(epilogues.size(), 10u);
    EXPECT_GT(swapped, 0);
    EXPECT_TRUE(threads > 0 || detect_cpu()->compute_units == 1) << cpu;
  }
}

TEST_F(ClassKernels, APackedBIsReadAsTheDeviceLaysItOut) {
  const Gemm gemm = parse_gemm("int8 N N 20 48 70 packed_b=1").value();
  for (const auto& [cpu, expected] : {std::pair{"avx512_bf16", "avx512_vnni"},
                                      {"avx512_vnni", "avx512_vnni"},
                                      {"avx512", "avx512"},
                                      {"avx2", ""}}) {
    if (!runs(cpu)) continue;
    Engine engine = open(cpu);
    EXPECT_EQ(made_for(engine, gemm), expected) << cpu;
    const Verdict verdict = verify(gemm, [&](const Operands& operands) {
      const auto packed = engine.pack_b(gemm, operands.b);
      Operands with = operands;
      with.packed_b = &*packed;
      return engine.gemm(gemm, with);
    });
    EXPECT_TRUE(verdict) << cpu << ": " << why(verdict);
  }
}

TEST_F(ClassKernels, AreSaidToBeUnmeasured) {
  if (!runs("avx2")) GTEST_SKIP() << "this CPU lacks AVX2";
  Engine engine = open("avx2");
  const std::string said = engine.explain(Gemm::row_major(50, 60, 70)).value();
  EXPECT_NE(said.find("made for:  every CPU with avx2"), std::string::npos) << said;
  EXPECT_NE(said.find("never measured on this one"), std::string::npos) << said;
  EXPECT_NE(said.find("-march=x86-64-v3"), std::string::npos) << "not the source of its kernel";
}

TEST_F(ClassKernels, NobodyRunsInstructionsThatTheCpuLacks) {
  if (!runs("avx512_bf16")) GTEST_SKIP() << "this CPU lacks AVX512-BF16";
  // As if the file had nothing else.
  test::tamper(file_,
               "DELETE FROM measurement WHERE device_id IN (SELECT id FROM device WHERE model NOT "
               "IN ('avx512_bf16', 'avx512_vnni'))");
  for (const char* cpu : {"avx512", "avx2", "portable"}) {
    Engine engine = open(cpu);
    for (const char* shape : {"bf16 N T 9 40 70", "fp32 N N 9 40 70"})
      EXPECT_EQ(made_for(engine, parse_gemm(shape).value()), "") << cpu << ": " << shape;
  }
  Engine engine = open("avx512_bf16");
  EXPECT_EQ(made_for(engine, parse_gemm("bf16 N T 9 40 70").value()), "avx512_bf16");
}

TEST_F(ClassKernels, OfFilesThatOthersMayWriteAreNotLoaded) {
  std::filesystem::permissions(file_, std::filesystem::perms{0666});
  Engine engine = open("portable");
  EXPECT_EQ(made_for(engine, Gemm::row_major(50, 60, 70)), "");
  EXPECT_TRUE(check(engine, Gemm::row_major(50, 60, 70)));
}

TEST_F(ClassKernels, OfDamagedRowsAreNotLoaded) {
  const Gemm gemm = Gemm::row_major(50, 60, 70);
  for (const char* sql :
       {"UPDATE measurement SET seal = 'x'", "UPDATE measurement SET binary_key = 'x'",
        "UPDATE binary SET seal = 'x'", "UPDATE binary_data SET data = zeroblob(length(data))",
        "UPDATE verification SET problem_key = replace(problem_key, 'threads=1024', 'threads=2')",
        "UPDATE verification SET problem_key = replace(problem_key, ';code=', ';code=1')",
        "UPDATE device SET key = replace(key, 'compute_units=1024', 'compute_units=1')",
        "DELETE FROM verification", "DELETE FROM binary_data"}) {
    std::filesystem::remove(file_);
    SetUp();
    test::tamper(file_, sql);
    Engine engine = open("avx2");
    EXPECT_EQ(made_for(engine, gemm), "") << sql;
    EXPECT_TRUE(check(engine, gemm)) << sql;
  }
}

TEST_F(ClassKernels, AMeasuredKernelOfThisDeviceIsPreferredWhereItIsFaster) {
  if (!runs("avx512")) GTEST_SKIP() << "this CPU lacks AVX-512";
  Engine engine = open("avx512");
  auto& impl = engine.impl();
  const BestKey key = impl.key_of(Gemm::row_major(64, 64, 64), 1);
  const Problem problem = key.problem();
  StoredCode stored;
  ClassSource classes(impl, stored);
  EXPECT_FALSE(classes.choices(key, 1).empty());
  EXPECT_TRUE(classes.below({problem, 1}, 1e12));
  EXPECT_FALSE(classes.below({problem, 1}, 1)) << "a kernel of 1 ns is faster";
}

}  // namespace kiln::class_kernels_test
