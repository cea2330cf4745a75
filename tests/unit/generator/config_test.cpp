// Configs with absurd values, as a database or a command line may hold them. Every family's rules
// and model answer without overflow (run under UBSan too), and what the rules allow has a finite
// cost. And what a text must say.
#include "generator/families/cpu/amx/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "generator/families/cpu/amx_weights/config.h"
#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/small/config.h"
#include "generator/families/cpu/weights/config.h"
#include "generator/families/cuda/gemv/config.h"
#include "generator/families/cuda/gemv_n/config.h"
#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/families/cuda/library/config.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/small/config.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mx/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/space/config.h"
#include "generator/space/family.h"
#include "generator/space/space.h"

namespace kiln::config_test {
constexpr int kAbsurd[] = {std::numeric_limits<int>::min(), -1, 0, 1, 7, 1024, 1 << 15, 1 << 30,
                           std::numeric_limits<int>::max()};

/// A config type's whole-number fields.
template <typename C>
std::vector<int C::*> numbers() {
  std::vector<int C::*> out;
  auto take = [&](auto field) {
    if constexpr (std::is_same_v<decltype(field.member), int C::*>) out.push_back(field.member);
  };
  std::apply([&](auto... field) { (take(field), ...); }, C::fields());
  return out;
}

/// Devices that between them have every family, and problems of several types and layouts.
struct Asked {
  DeviceCaps device;
  std::vector<Problem> problems;
};

std::vector<Asked> asked() {
  std::vector<Problem> problems;
  for (const DType t : {fp32, fp64, bf16, fp8_e4m3}) {
    Gemm aligned = Gemm::row_major(64, 96, 128, t).transpose_b();
    aligned.alignment = 16;  // as kernels that copy by TMA need it
    problems.push_back(Problem::of(aligned).value());
    problems.push_back(
        Problem::of(Gemm::row_major(1 << 20, 1 << 20, 1 << 20, t).transpose_b()).value());
  }
  std::vector<Asked> out;
  for (const char* name : {"avx512", "sm_90a", "gfx950"})
    out.push_back({caps_named(name).value(), problems});
  return out;
}

/// As they come: by a text.
void ask(const Asked& where, const Config& absurd) {
  const auto config = parse_config(text(absurd));
  if (!config) return;
  for (const auto& problem : where.problems) {
    if (!broken_rule(problem, where.device, *config).empty()) continue;
    EXPECT_TRUE(std::isfinite(predict_ns(problem, where.device, *config))) << text(*config);
  }
}

template <typename C>
void every_pair() {
  const auto fields = numbers<C>();
  for (const auto& where : asked()) {
    if (find_family(C{}, where.device.vendor) == nullptr) continue;
    for (const auto first : fields)
      for (const auto second : fields)
        for (const int x : kAbsurd)
          for (const int y : kAbsurd) {
            C config;
            config.*first = x;
            config.*second = y;
            ask(where, config);
          }
    for (const int x : kAbsurd) {
      C config;
      for (const auto field : fields) config.*field = x;
      ask(where, config);
    }
  }
}

/// Calls `visit` with a config of each family.
template <typename F>
void every_family(F visit) {
  const auto each = [&]<FamilyConfig... C>() {
    static_assert(sizeof...(C) == kFamilyNames.size());
    (visit(C{}), ...);
  };
  each.template
  operator()<HostPacked, HostDot, HostSmall, HostAmx, CudaWgmma, CudaMma, CudaSimt, CudaGemv,
             CudaLibrary, HipMfma, HipMx, HipSimt, BlasLibrary, HostWeights, CudaWeights,
             HostAmxWeights, CudaWgmmaWeights, CudaGemvWeights, CudaGemvN, CudaSmall>();
}

TEST(Config, AbsurdValuesAreRefusedOrCosted) {
  every_family([]<typename C>(const C&) { every_pair<C>(); });
}

TEST(Config, AnInstructionSetThatTheDeviceLacksIsRefused) {
  const auto problem = Problem::of(Gemm::row_major(64, 96, 128)).value();
  HostPacked packed;  // its defaults are for AVX-512
  EXPECT_EQ(broken_rule(problem, caps_named("avx512").value(), packed), "");
  EXPECT_NE(broken_rule(problem, caps_named("avx2").value(), packed), "");
  EXPECT_NE(broken_rule(problem, caps_named("aarch64").value(), packed), "");
  packed.isa = Isa::amx;  // another family's
  const auto bytes = Problem::of(Gemm::row_major(64, 96, 128, s8)).value();
  EXPECT_NE(broken_rule(bytes, caps_named("amx").value(), packed), "");
}

std::string error_of(const std::string& line) {
  const auto config = parse_config(line);
  return config ? "none" : config.error().message;
}

/// A text older than the field is of the same config as one that says 0, and is how both are
/// spelt: a key in a database must not have two spellings.
TEST(Config, AFieldThatCameLaterStandsOnlyWhereItIsNotZero) {
  const std::string before = text(CudaWgmma{});
  EXPECT_EQ(before.find("paired"), std::string::npos) << before;
  EXPECT_EQ(before.find("clip"), std::string::npos) << before;
  EXPECT_EQ(text(CudaWgmma{.paired = true}), before + " paired=1");
  EXPECT_EQ(text(CudaWgmma{.clip = true}), before + " clip=1");
  for (const auto& [line, paired] :
       {std::pair{before, false}, {before + " paired=0", false}, {before + " paired=1", true}}) {
    const auto config = parse_config(line);
    ASSERT_TRUE(config) << line << ": " << config.error().message;
    EXPECT_EQ(*config, Config(CudaWgmma{.paired = paired})) << line;
    EXPECT_EQ(text(*config), paired ? line : before);
  }
  EXPECT_EQ(error_of(before + " paired=2"), "config: paired=2 is not a legal value");
  EXPECT_EQ(error_of(before + " paired=0 paired=0"), "config: field 'paired' is given twice");
}

/// Leaves out one field at a time: what is absent must not mean a default, which may change.
template <typename C>
void expect_needed(const C& config) {
  const std::string whole = text(config);
  const auto without = [&](std::string_view name) {
    std::string line = whole;
    const auto begin = line.find(fmt::format(" {}=", name));
    if (begin != std::string::npos) line.erase(begin, line.find(' ', begin + 1) - begin);
    return line;
  };
  const auto expect = [&](std::string_view name, bool later) {
    EXPECT_EQ(error_of(without(name)),
              later ? "none" : fmt::format("config: {} lacks {}", C::kFamily, name));
  };
  std::apply([&](auto... field) { (expect(field.name, field.later), ...); }, C::fields());
}

TEST(Config, EveryOtherFieldIsRequiredByName) {
  every_family([](const auto& config) { expect_needed(config); });
  EXPECT_EQ(error_of("cuda_wgmma paired=1").find("config: cuda_wgmma lacks left right stages"), 0u);
}

TEST(Config, ANumberOutOfItsFieldsRangeIsRefusedByName) {
  const auto config =
      parse_config("host_dot isa=avx512 mr=-1 nr=6 kc=0 mc=0 parallel=none prefetch=0");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("mr=-1"), std::string::npos) << config.error().message;
}

}  // namespace kiln::config_test
