// Classes of CPUs, the list of kernels that each needs, and what makes a kernel of one right on
// every CPU of the class.
#include "tuner/search/class_list.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "cache/keys.h"
#include "cache/records/class_kernels.h"
#include "generator/render/render.h"
#include "generator/space/code_class.h"
#include "generator/space/family.h"
#include "runtime/compiler.h"
#include "runtime/memory_file.h"
#include "support/random_gemm.h"
#include "tuner/verify/envelope.h"

namespace kiln::class_list_test {

constexpr const char* kNames[] = {"portable",    "avx2",        "avx512",
                                  "avx512_vnni", "avx512_bf16", "amx"};

/// A machine with a class's instructions: everything else is odd.
DeviceCaps machine(const char* name, int threads) {
  DeviceCaps device = cpu_caps_named(name).value();
  device.model = "invented";
  device.compute_units = threads;
  device.l1_bytes = 24 << 10;
  device.l2_bytes = 3 << 20;
  device.l3_bytes = 0;
  device.ghz = 1.1;
  return device;
}

TEST(DeviceClass, IsOfEveryCpuWithItsInstructions) {
  const auto names = [](const DeviceCaps& device) {
    std::vector<std::string> all;
    for (const DeviceCaps& of_class : classes_of(device)) all.emplace_back(class_name(of_class));
    return all;
  };
  using Names = std::vector<std::string>;
#if defined(__x86_64__)
  EXPECT_EQ(names(machine("amx", 3)),
            (Names{"amx", "avx512_bf16", "avx512_vnni", "avx512", "avx2", "portable"}));
  EXPECT_EQ(names(machine("avx512_vnni", 3)), (Names{"avx512_vnni", "avx512", "avx2", "portable"}));
  EXPECT_EQ(names(machine("avx2", 3)), (Names{"avx2", "portable"}));
  EXPECT_EQ(names(machine("portable", 3)), (Names{"portable"}));
  EXPECT_EQ(names(machine("aarch64", 3)), (Names{})) << "x86 code on another architecture";
#endif
  EXPECT_EQ(names(cuda_caps_named("sm_90a").value()), (Names{}));
}

TEST(DeviceClass, IsNoDevice) {
  for (const char* name : kNames) {
    const DeviceCaps of_class = device_class(name).value();
    EXPECT_EQ(class_name(of_class), name);
    EXPECT_EQ(class_name(machine(name, kMostClassThreads)), "");
    EXPECT_EQ(class_name(cpu_caps_named(name).value()), "");
  }
  EXPECT_FALSE(device_class("sm_90a"));
}

TEST(DeviceClass, KeepsWhatTheMachineHasButForInstructions) {
  const DeviceCaps device = machine("amx", 5);
  DeviceCaps limited = limited_to_class(device, device_class("avx2").value());
  EXPECT_EQ(limited.cpu, device_class("avx2")->cpu);
  EXPECT_EQ(limited.arch, "x86-64-v3");
  limited.cpu = device.cpu;
  limited.arch = device.arch;
  EXPECT_EQ(limited, device);
}

TEST(ClassList, HasAKernelForEveryProblemOnEveryCpu) {
  std::map<std::pair<std::string, std::string>, std::vector<ClassKernel>> lists;
  for (const char* name : kNames)
    for (const ClassKernel& kernel : class_list(device_class(name).value()))
      lists[{name, class_text(class_problem(kernel.gemm))}].push_back(kernel);
  test::RandomGemm random(5, 300);
  std::set<std::string> kinds;
  const std::size_t all_kinds = kinds_of_problems().size();
  for (int i = 0; i < 1000 || (i < 40000 && kinds.size() < all_kinds); ++i) {
    Gemm gemm = random.next();
    // Kernels of classes compute neither gates nor scales.
    if (gemm.epilogue.gate.has_value() || gemm.a.q.scale != Scale::none ||
        gemm.b.q.scale != Scale::none)
      continue;
    if (gemm.d.order == Order::row_major && random.one_in(4)) gemm = gemm.with_packed_b();
    if (!validate(gemm)) continue;
    const Problem problem = Problem::of(gemm).value();
    const std::string kind = class_text(class_problem(gemm));
    kinds.insert(kind);
    const char* name = kNames[random.below(std::size(kNames))];
    const DeviceCaps device = machine(name, random.one_in(2) ? 1 : 64);
    const auto has_kernel = [&](const DeviceCaps& of_class) {
      const DeviceCaps limited = limited_to_class(device, of_class);
      return lies_alike(gemm, device, of_class) &&
             std::ranges::any_of(
                 lists[{std::string(class_name(of_class)), kind}], [&](const ClassKernel& kernel) {
                   return broken_rule(problem, limited, kernel.config).empty() &&
                          code_class(problem, limited, kernel.config) ==
                              code_class(Problem::of(class_problem(kernel.gemm)).value(), of_class,
                                         kernel.config);
                 });
    };
    EXPECT_TRUE(std::ranges::any_of(classes_of(device), has_kernel)) << name << ": " << text(gemm);
  }
  EXPECT_EQ(kinds.size(), all_kinds) << "not every kind was drawn";
}

TEST(ClassList, NamesEachKernelOnceAndTakesEveryEpilogue) {
  for (const char* name : kNames) {
    std::set<std::string> keys;
    for (const ClassKernel& kernel : class_list(device_class(name).value())) {
      EXPECT_TRUE(keys.insert(key_text(class_problem(kernel.gemm))).second) << text(kernel.gemm);
      EXPECT_TRUE(takes_epilogue(kernel.config)) << text(kernel.config);
    }
    EXPECT_FALSE(keys.empty()) << name;
  }
}

TEST(ClassList, HasOwnKernelsOnlyWhereTheClassHasABetterInstruction) {
  const auto own = [](const char* shape, const char* name) {
    return has_own_instruction(parse_gemm(shape).value(), device_class(name).value());
  };
  EXPECT_TRUE(own("fp32 N N 1 1 1", "avx512"));
  EXPECT_FALSE(own("fp32 N N 1 1 1", "avx512_bf16"));
  EXPECT_TRUE(own("bf16 N N 1 1 1", "avx512"));
  EXPECT_FALSE(own("bf16 N N 1 1 1", "avx512_vnni"));
  EXPECT_TRUE(own("bf16 N N 1 1 1", "avx512_bf16"));
  EXPECT_TRUE(own("int8 N N 1 1 1", "avx512_vnni"));
  EXPECT_FALSE(own("int8 N N 1 1 1", "avx512_bf16"));
  EXPECT_TRUE(own("int8 N N 1 1 1", "amx"));
  EXPECT_FALSE(own("fp16 N N 1 1 1", "amx"));
}

TEST(ClassEnvelope, HasEveryEpilogue) {
  const DeviceCaps of_class = device_class("avx512").value();
  const ClassKernel kernel = class_list(of_class).front();
  const std::vector<Gemm> problems = envelope(kernel.gemm, of_class, kernel.config, 0x1p24);
  std::set<Epilogue> seen;
  for (const Gemm& one : problems) {
    EXPECT_TRUE(validate(one));
    seen.insert(one.epilogue);
  }
  EXPECT_EQ(seen.size(), 30u);
  EXPECT_GT(std::ranges::count(problems, Epilogue{}, &Gemm::epilogue), 40);
}

/// work_of() of a kernel that divides work in one way, as host code.
class Division {
 public:
  using Ask = void (*)(const KilnArgs*, int thread, int threads, long long* eight);
  explicit Division(const char* way) {
    const DeviceCaps of_class = device_class("portable").value();
    Gemm gemm = Gemm::row_major(512, 512, 512);
    gemm.batch = 2;
    const auto config = parse_config(
        fmt::format("host_packed isa=portable mr=4 nv=2 kc=256 mc=192 nc=512 pack_a=1 pack_b=1 "
                    "inner=columns parallel={} unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
                    way));
    how = division_of(config.value());
    auto source = render(Problem::of(gemm).value(), of_class, config.value()).value();
    source.text +=
        "extern \"C\" void division(const KilnArgs* args, int thread, int threads, long long* out) "
        "{ const Work w = work_of(*args, thread, threads); const Range all[] = {w.batches, w.rows, "
        "w.columns, w.ks}; for (int i = 0; i < 4; ++i) out[2 * i] = all[i].begin, out[2 * i + 1] = "
        "all[i].end; }";
    const auto binary = host_compiler().value()->compile(source);
    if (!binary) throw std::runtime_error(binary.error().message);
    const auto file = memory_file("kiln-division", binary->image);
    handle_ = dlopen(fmt::format("/proc/self/fd/{}", file->get()).c_str(), RTLD_NOW | RTLD_LOCAL);
    ask = reinterpret_cast<Ask>(dlsym(handle_, "division"));
  }
  ~Division() { dlclose(handle_); }
  Ask ask = nullptr;
  KilnDivision how;

 private:
  void* handle_ = nullptr;
};

using Part = std::pair<long long, long long>;
/// The different parts of [0, size) that are not empty follow one another without a gap.
bool covers(std::vector<Part>& parts, long long size) {
  std::erase_if(parts, [](const Part& part) { return part.first == part.second; });
  std::ranges::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  long long at = 0;
  for (const auto& [begin, end] : parts) {
    if (begin != at || end < begin) return false;
    at = end;
  }
  return at == size;
}

// What was proved on a few numbers of threads holds for all: a thread computes what it is given,
// and what threads are given is every element once.
TEST(ClassEnvelope, WorkIsDividedWithoutAGapAmongAnyNumberOfThreads) {
  for (const char* way : {"none", "batch", "m", "n", "grid", "k"}) {
    const Division division(way);
    ASSERT_NE(division.ask, nullptr) << way;
    std::mt19937_64 random(3);
    for (int threads = 1; threads <= kMostClassThreads; ++threads) {
      KilnArgs args{};
      args.division = division.how;
      for (long long* size : {&args.m, &args.n, &args.k})
        *size = 1 + static_cast<long long>(random() % 5000);
      args.batch = 1 + static_cast<long long>(random() % 40);
      std::vector<Part> parts[4];
      double elements = 0;
      for (int thread = 0; thread < threads; ++thread) {
        long long out[8];
        division.ask(&args, thread, threads, out);
        double volume = 1;
        for (int i = 0; i < 4; ++i) {
          parts[i].emplace_back(out[2 * i], out[2 * i + 1]);
          volume *= static_cast<double>(out[2 * i + 1] - out[2 * i]);
        }
        elements += volume;
      }
      EXPECT_EQ(elements, static_cast<double>(args.batch) * static_cast<double>(args.m) *
                              static_cast<double>(args.n) * static_cast<double>(args.k))
          << way << ", " << threads << " threads";
      const long long sizes[] = {args.batch, args.m, args.n, args.k};
      for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(covers(parts[i], sizes[i])) << way << ", " << threads;
      }
    }
  }
}

}  // namespace kiln::class_list_test
