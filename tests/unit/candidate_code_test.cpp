// Candidates that are compiled together: who waits is told how far it is.
#include "tuner/worker/candidate_code.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "generator/problem/device_caps.h"
#include "support/eventually.h"

namespace kiln::candidate_code_test {

/// Compiles until `ticked`, and makes nothing that runs.
class SlowCompiler final : public Compiler {
 public:
  Result<Binary> compile(const Source&) override {
    test::eventually([&] { return ticked.load(); });
    return Binary{};
  }
  std::atomic<bool> ticked{false};
  Result<std::string> assembly(const Source&) override { return std::string(); }
  std::string version() const override { return "slow"; }
};

struct Told {
  std::size_t done, total;
};

std::vector<Config> some_configs(const Gemm& gemm, const DeviceCaps& device) {
  auto legal = space_for(gemm, device).value().legal;
  legal.resize(std::min<std::size_t>(6, legal.size()));
  return legal;
}

TEST(CandidateCode, TellsHowManyAreDoneAndTicksMeanwhile) {
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const DeviceCaps device = caps_named("avx2").value();
  SlowCompiler compiler;
  SearchInput input{.gemm = gemm, .device = device};
  CandidateCode code(input, compiler);
  std::vector<Told> told;
  const auto me = std::this_thread::get_id();
  const auto configs = some_configs(gemm, device);
  ASSERT_GE(configs.size(), 2u);
  code.compile(configs, [&](std::size_t done, std::size_t total) {
    EXPECT_EQ(std::this_thread::get_id(), me);
    if (!told.empty() && told.back().done == done) compiler.ticked = true;
    told.push_back({done, total});
  });
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front().done, 0u);
  std::size_t before = 0;
  int idle = 0;  // reports of a clock that goes on
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].total, configs.size());
    EXPECT_GE(told[i].done, before);
    idle += i > 0 && told[i].done == before;
    before = told[i].done;
  }
  EXPECT_GT(idle, 0);
  for (const Config& config : configs) EXPECT_TRUE(code.of(config).artifact.binary) << text(config);
}

TEST(CandidateCode, WhatTheToldFunctionThrowsEndsTheWaitAlone) {
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const DeviceCaps device = caps_named("avx2").value();
  SlowCompiler compiler;
  SearchInput input{.gemm = gemm, .device = device};
  CandidateCode code(input, compiler);
  const auto configs = some_configs(gemm, device);
  const auto throws = [&](std::size_t, std::size_t) {
    compiler.ticked = true;
    throw std::runtime_error("enough");
  };
  EXPECT_THROW(code.compile(configs, throws), std::runtime_error);
  code.compile(configs);
  EXPECT_TRUE(code.of(configs.front()).artifact.binary);
}

// A GPU's candidates are timed as they come: compile() does not wait, of() does.
TEST(CandidateCode, OfAGpuTheFirstOneIsWaitedFor) {
  const Gemm gemm = Gemm::row_major(64, 64, 64);
  const DeviceCaps device = caps_named("sm_90a").value();
  SlowCompiler compiler;
  SearchInput input{.gemm = gemm, .device = device};
  CandidateCode code(input, compiler);
  const auto configs = some_configs(gemm, device);
  int told = 0;
  code.compile(configs, [&](std::size_t, std::size_t) { ++told; });
  EXPECT_EQ(told, 0);
  const auto tick = [&](std::size_t, std::size_t) {
    ++told;
    compiler.ticked = true;
  };
  EXPECT_TRUE(code.of(configs.front(), tick).artifact.binary);
  EXPECT_GT(told, 0);
}

}  // namespace kiln::candidate_code_test
