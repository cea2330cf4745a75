// Candidates that are compiled together: who waits is told how far it is.
#include "tuner/worker/candidate_code.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "generator/problem/device_caps.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "runtime/left_behind.h"
#include "support/eventually.h"

namespace kiln::candidate_code_test {

/// Compiles until `ticked`, and makes nothing that runs.
class SlowCompiler final : public Compiler {
 public:
  Result<Binary> compile(const Source&) override {
    test::eventually([&] { return ticked.load(); });
    done = true;
    return Binary{};
  }
  std::atomic<bool> ticked{false}, done{false};
  Result<std::string> assembly(const Source&) override { return std::string(); }
  std::string version() const override { return "slow"; }
};

struct Told {
  std::size_t done, total;
};

std::vector<Config> some_configs(const Gemm& gemm, const DeviceCaps& device) {
  auto legal = space_for(Problem::of(gemm).value(), device).value().legal;
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
  for (const Config& config : configs)
    EXPECT_TRUE(code.of(config)->artifact.binary) << text(config);
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
  EXPECT_TRUE(code.of(configs.front())->artifact.binary);
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
  EXPECT_TRUE(code.of(configs.front(), tick)->artifact.binary);
  EXPECT_GT(told, 0);
}

/// Compiles one source; of the others none is done before it is told to stop.
class StoppableCompiler final : public Compiler {
 public:
  Result<Binary> compile(const Source&) override { return Binary{}; }
  Result<Binary> compile_unless(const std::stop_token& stop, const Source& source) override {
    if (free || begun++ == 0) return compile(source);
    test::eventually([&] { return stop.stop_requested(); });
    return fail(ErrorCode::compiler, "stopped");
  }
  Result<std::string> assembly(const Source&) override { return std::string(); }
  std::string version() const override { return "stoppable"; }
  std::atomic<int> begun{0};
  std::atomic<bool> free{false};
};

std::size_t with_a_binary(CandidateCode& code, const std::vector<Config>& configs) {
  std::size_t count = 0;
  for (const Config& config : configs)
    if (const CompiledCode* compiled = code.of(config)) {
      EXPECT_FALSE(compiled->failure) << "what was left says nothing about the config";
      count += compiled->artifact.binary != nullptr;
    }
  return count;
}

TEST(CandidateCode, WhatIsUnderWayIsLeftWhenItIsEnough) {
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const DeviceCaps device = caps_named("avx2").value();
  StoppableCompiler compiler;
  SearchInput input{.gemm = gemm, .device = device};
  CandidateCode code(input, compiler);
  std::set<std::string> texts;
  std::vector<Config> configs;  // of different code
  const auto space = space_for(Problem::of(gemm).value(), device).value();
  for (const Config& config : space.legal)
    if (configs.size() < 6 &&
        texts.insert(code_key(render(Problem::of(gemm).value(), device, config).value())).second)
      configs.push_back(config);
  ASSERT_EQ(configs.size(), 6u);
  code.compile(configs, {}, [](std::size_t done) { return done > 0; });
  EXPECT_EQ(with_a_binary(code, configs), 1u);
  compiler.free = true;
  code.compile(configs);
  EXPECT_EQ(with_a_binary(code, configs), configs.size()) << "and is begun anew";
}

/// A compiler in this process, which cannot be stopped.
TEST(LeftBehind, ACompileGoesOnAlone) {
  SlowCompiler compiler;
  std::stop_source stop;
  stop.request_stop();
  const auto binary = compile_or_leave(compiler, stop.get_token(), {.file_name = "late"});
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().message, "late: stopped");
  compiler.ticked = true;
  test::eventually([&] { return compiler.done.load(); });
  EXPECT_TRUE(compile_or_leave(compiler, std::stop_source().get_token(), {}));
}

// Where nothing is waited for in compile(), of() gives up.
TEST(CandidateCode, OfAGpuTheNextOneIsLeftWhenItIsEnough) {
  const Gemm gemm = Gemm::row_major(64, 64, 64);
  const DeviceCaps device = caps_named("sm_90a").value();
  StoppableCompiler compiler;
  compiler.begun = 1;
  SearchInput input{.gemm = gemm, .device = device};
  CandidateCode code(input, compiler);
  const auto configs = some_configs(gemm, device);
  code.compile(configs);
  EXPECT_EQ(code.of(configs.front(), {}, [](std::size_t) { return true; }), nullptr);
}

}  // namespace kiln::candidate_code_test
