// The worker process with hand-written kernels: each planted fault costs one candidate, leaves its
// reason, and the next good candidate is timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/cpu/blas_library.h"
#include "runtime/cpu/cpu.h"
#include "support/eventually.h"
#include "support/planted.h"
#include "tuner/search/budget.h"
#include "tuner/search/search.h"
#include "tuner/worker/process.h"

namespace kiln::worker_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;

#ifdef KILN_HAS_LLVM  // the planted kernels are compiled here

class WorkerTest : public test::PlantedTest {
 protected:
  void expect_failure(const std::string& fault, Failure::Kind kind, const std::string& detail) {
    const Measured row = screen_fault(fault);
    ASSERT_FALSE(row.ok());
    EXPECT_EQ(name(row.failure().kind), name(kind)) << row.failure().detail;
    EXPECT_THAT(row.failure().detail, HasSubstr(detail));
    EXPECT_FALSE(row.verified);
    EXPECT_FALSE(row.binary_key.empty());
  }
};

TEST_F(WorkerTest, AGoodKernelIsVerifiedAndTimed) {
  const Measured row = screen_fault("");
  ASSERT_TRUE(row.ok()) << row.failure().detail;
  EXPECT_TRUE(row.verified);
  EXPECT_EQ(row.round, Round::second);
  EXPECT_GE(row.timing().samples, 3);
}

TEST_F(WorkerTest, AnIllegalInstruction) {
  expect_failure("__builtin_trap();", Failure::Kind::crashed, "SIGILL");
}

TEST_F(WorkerTest, AnEndlessLoop) {
  expect_failure("for (;;) asm volatile(\"\");", Failure::Kind::timed_out, "timed out after");
}

// The budget is spent when the first is given up.
TEST_F(WorkerTest, AnEndlessFirstCandidateLeavesTheNextItsChance) {
  plant(configs_[0], "for (;;) asm volatile(\"\");");
  input_.options.budget = std::chrono::seconds(1);  // clock: which is spent
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  const auto rows = evaluator->screen({configs_[0], configs_[1]});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(name(rows[0].failure().kind), name(Failure::Kind::timed_out));
  EXPECT_TRUE(rows[1].ok()) << rows[1].failure().detail;
}

// As on a machine whose memory is slow to come: calls end 4 s from now, beyond a candidate's 2 s.
// Where the machine is slower than that it is in time, and passes too.
TEST_F(WorkerTest, AFirstCandidateThatIsLateIsAskedAgain) {
  const auto begin = std::chrono::steady_clock::now();  // clock: how long a tick is
  const std::uint64_t ticks = __builtin_ia32_rdtsc();
  // clock: the same
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100)) {
  }
  const std::uint64_t second = (__builtin_ia32_rdtsc() - ticks) * 10;
  const Measured row = screen_fault("while (__builtin_ia32_rdtsc() < " +
                                    std::to_string(ticks + 4 * second) + "ull) {}");
  ASSERT_TRUE(row.ok()) << row.failure().detail;
  EXPECT_TRUE(row.verified);
}

TEST_F(WorkerTest, AWriteFarPastTheEnd) {
  expect_failure("for (long long i = 0; i < 4096; ++i) d[args->m * args->ldd + i] = 1;",
                 Failure::Kind::out_of_bounds, "SIGSEGV at 0x");
}

TEST_F(WorkerTest, AWriteIntoThePaddingBetweenRows) {
  expect_failure("d[args->n] = 1;", Failure::Kind::out_of_bounds, "");
}

TEST_F(WorkerTest, AWrongElement) {
  expect_failure("d[5 * args->ldd + 3] += 0.5f;", Failure::Kind::wrong_result, "expected");
}

TEST_F(WorkerTest, ANullPointer) {
  expect_failure("*(volatile int*)0 = 1;", Failure::Kind::crashed, "SIGSEGV at 0x0");
}

TEST_F(WorkerTest, AnAbort) { expect_failure("abort();", Failure::Kind::crashed, "SIGABRT"); }

TEST_F(WorkerTest, AnExit) {
  expect_failure("_exit(7);", Failure::Kind::crashed, "exited with code 7");
}

TEST_F(WorkerTest, AnImageThatIsNoKernel) {
  class NoKernel : public test::PlantingCompiler {
    Result<Binary> compile(const Source& source) override {
      Source other = source;
      other.text = "extern \"C\" int nothing() { return 0; }\n";
      return host_compiler().value()->compile(other);
    }
  } compiler;
  const auto evaluator = worker_evaluator(input_, compiler).value();
  const auto rows = evaluator->screen({configs_[0]});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].failure().kind, Failure::Kind::load);
}

TEST_F(WorkerTest, ASourceThatDoesNotCompileKeepsItsDiagnostics) {
  plant(configs_[0], "no_such_name();");
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  const auto rows = evaluator->screen({configs_[0], configs_[1]});
  EXPECT_EQ(rows[0].failure().kind, Failure::Kind::compile);
  EXPECT_THAT(rows[0].failure().detail, HasSubstr("no_such_name"));
  EXPECT_TRUE(rows[0].binary_key.empty());
  EXPECT_NE(evaluator->artifact(configs_[0]), nullptr);
  EXPECT_FALSE(evaluator->artifact(configs_[0])->binary);
  EXPECT_TRUE(rows[1].ok());
  EXPECT_TRUE(evaluator->artifact(configs_[1])->binary);
}

TEST_F(WorkerTest, ARaceTellsFastFromSlow) {
  plant(configs_[0], "for (volatile int i = 0; i < 100000; ++i) {}");
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  const auto screened = evaluator->screen({configs_[1], configs_[0]});
  ASSERT_TRUE(screened[0].ok() && screened[1].ok());
  EXPECT_EQ(screened[1].round, Round::screen) << "far beyond 1.5 times the best";
  const auto raced = evaluator->race(screened);
  ASSERT_EQ(raced.size(), system_blas() == nullptr ? 2u : 3u);
  for (const Measured& row : raced) EXPECT_EQ(row.round, Round::race);
  if (system_blas() != nullptr) {  // beside the kernels
    EXPECT_EQ(raced[2].config, Config(system_blas()->identity));
    EXPECT_TRUE(raced[2].ok()) << raced[2].failure().detail;
  }
  EXPECT_LT(raced[0].timing().high_ns, raced[1].timing().low_ns);
}

// Rows of an earlier session say that both are sound; one no longer is.
TEST_F(WorkerTest, ADeathInTheRaceCostsThatFinalistAlone) {
  plant(configs_[0], "__builtin_trap();");
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  std::vector<Measured> finalists(2);
  for (std::size_t i = 0; i < 2; ++i) {
    finalists[i].config = configs_[i];
    finalists[i].outcome = Timing{100, 99, 101, 10};
    finalists[i].round = Round::second;
    finalists[i].verified = true;
  }
  const auto raced = evaluator->race(finalists);
  ASSERT_EQ(raced.size(), system_blas() == nullptr ? 2u : 3u);
  ASSERT_FALSE(raced[0].ok());
  EXPECT_THAT(raced[0].failure().detail, HasSubstr("SIGILL"));
  ASSERT_TRUE(raced[1].ok()) << raced[1].failure().detail;
  EXPECT_EQ(raced[1].round, Round::race);
}

TEST_F(WorkerTest, TheWholeSearchRunsOnRealKernels) {
  input_.gemm = Gemm::row_major(48, 64, 32);
  input_.options.budget =
      std::chrono::milliseconds(1500);  // clock: spent or not, there is a winner
  input_.options.candidates = 24;
  std::size_t with_code = 0;
  input_.sink = [&](const Evidence& e) { with_code += e.source && e.binary; };
  const auto evaluator = worker_evaluator(input_, *host_compiler().value()).value();
  const auto result = search(input_, *evaluator);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(result->winner);
  const Measured& winner = result->measured[*result->winner];
  EXPECT_EQ(winner.round, Round::race);
  EXPECT_TRUE(winner.verified);
  EXPECT_GT(with_code, 0u);
  for (const Measured& row : result->measured)
    if (!row.ok()) ADD_FAILURE() << text(row.config) << ": " << row.failure().detail;
}

/// A budget of ten seconds by a clock that moves by `step` seconds with each reading.
struct SteppedTime {
  double seconds = 0, step = 0;
  std::shared_ptr<Budget> budget = std::make_shared<Budget>(
      10, [this] { return static_cast<std::int64_t>((seconds += step) * 1e9); });
};

const char* const kEndless = "for (;;) asm volatile(\"\");";

/// Of a few configs, one of which is planted to be endless: nothing is compiled while time steps.
class CutOffTest : public WorkerTest {
 protected:
  CutOffTest() {
    input_.time = time_.budget;
    plant(configs_[1], kEndless);
    for (std::size_t i = 0; i < 2; ++i) {
      const Source source =
          render(Problem::of(input_.gemm).value(), input_.device, configs_[i]).value();
      compiled_[source.file_name] = compiler_.compile(source).value();
    }
    input_.stored = [this](const Source& source) -> std::optional<Binary> {
      const auto found = compiled_.find(source.file_name);
      return found == compiled_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  SteppedTime time_;
  std::map<std::string, Binary> compiled_;
};

// It would have 2 s of its own, and says nothing of the candidate.
TEST_F(CutOffTest, ACandidateIsLeftWhenTheTimeOfScreeningIsOver) {
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  const auto first = evaluator->screen({configs_[0]});
  ASSERT_TRUE(first.size() == 1 && first[0].ok());
  time_.step = 0.5;
  EXPECT_TRUE(evaluator->screen({configs_[1]}).empty());
  EXPECT_FALSE(evaluator->exhausted());
  time_.step = 0;
  time_.seconds = 9;
  const auto raced = evaluator->race(first);
  ASSERT_TRUE(raced[0].ok()) << raced[0].failure().detail;
  EXPECT_TRUE(raced[0].verified);
}

TEST_F(WorkerTest, TheFirstCandidateIsTimedThoughTheBudgetIsSpent) {
  SteppedTime time;
  input_.time = time.budget;
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  time.seconds = 10.2;
  const auto rows = evaluator->screen({configs_[0], configs_[1]});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].ok() && rows[0].verified);
  const auto raced = evaluator->race(rows);
  EXPECT_TRUE(raced[0].ok() && raced[0].verified);
  EXPECT_EQ(raced[0].round, Round::race);
}

std::vector<Measured> sound_rows(const std::vector<Config>& configs, std::size_t count) {
  std::vector<Measured> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    rows[i].config = configs[i];
    rows[i].outcome = Timing{100, 99, 101, 10};
    rows[i].round = Round::second;
    rows[i].verified = true;
  }
  return rows;
}

TEST_F(WorkerTest, ARaceWithoutTimeChecksAndTimesItsFirstFinalistAlone) {
  SteppedTime time;
  input_.time = time.budget;
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  time.seconds = 10.1;
  const auto raced = evaluator->race(sound_rows(configs_, 2));
  ASSERT_EQ(raced.size(), 2u) << "and no library";
  EXPECT_TRUE(raced[0].ok() && raced[0].verified);
  EXPECT_EQ(raced[0].round, Round::race);
  EXPECT_FALSE(raced[1].verified) << "it cannot win";
  EXPECT_EQ(raced[1].timing(), (Timing{100, 99, 101, 10})) << "and keeps its time";
}

// The second is checked for ever.
TEST_F(CutOffTest, ARaceKeepsThoseThatPassedAllChecks) {
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  time_.step = 0.5;
  const auto raced = evaluator->race(sound_rows(configs_, 2));
  ASSERT_TRUE(raced[0].ok()) << raced[0].failure().detail;
  EXPECT_TRUE(raced[0].verified);
  ASSERT_TRUE(raced[1].ok()) << "nothing is known against it: " << raced[1].failure().detail;
  EXPECT_FALSE(raced[1].verified);
}

#endif  // KILN_HAS_LLVM

TEST(WorkerProcess, IsNotWaitedForBeyondACutOff) {
  auto worker = WorkerProcess::start(*find_worker()).value();
  ::kill(worker.pid(), SIGSTOP);
  int asked = 0;
  const CutOff end([&] { return ++asked > 2; });
  {
    const CutOff never([] { return false; });
  }
  const auto answer = worker.ask({{"do", "hello"}}, {}, 1e6);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Failure::Kind::timed_out);
  EXPECT_THAT(answer.error().detail, HasSubstr("cut off"));
  EXPECT_FALSE(worker.alive());
}

TEST(FindWorker, NamesWhatItTried) {
  setenv("KILN_WORKER", "/nowhere/kiln-worker", 1);
  const auto found = find_worker();
  unsetenv("KILN_WORKER");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::device);
  EXPECT_THAT(found.error().message, HasSubstr("KILN_WORKER = /nowhere/kiln-worker"));
}

TEST(WorkerProcess, DiesWithItsParent) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto worker = WorkerProcess::start(*find_worker());
    const pid_t pid = worker ? worker->pid() : 0;
    (void)!write(pipe_ends[1], &pid, sizeof pid);
    raise(SIGKILL);
  }
  pid_t worker = 0;
  ASSERT_EQ(read(pipe_ends[0], &worker, sizeof worker), ssize_t(sizeof worker));
  ASSERT_GT(worker, 0);
  waitpid(parent, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  const auto running = [&] {
    // A zombie that nobody has reaped yet is dead as well.
    std::ifstream stat("/proc/" + std::to_string(worker) + "/stat");
    std::string number, name, state;
    return bool(stat >> number >> name >> state) && state != "Z" && state != "X";
  };
  test::eventually([&] { return !running(); });
}

TEST(WorkerProcess, RefusesWhatItDoesNotUnderstand) {
  auto worker = WorkerProcess::start(*find_worker()).value();
  EXPECT_THAT(worker.ask({{"do", "dance"}}, {}, 10)->body.at("error").get<std::string>(),
              AnyOf(HasSubstr("dance"), HasSubstr("no problem")));
  EXPECT_THAT(worker.ask({{"no", 1}}, {}, 10)->body.at("error").get<std::string>(),
              HasSubstr("do"));
  EXPECT_TRUE(worker.alive());
}

}  // namespace kiln::worker_test
