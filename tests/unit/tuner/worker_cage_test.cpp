// Candidates that attack: what they try fails, costs them alone, and what they forge is not
// believed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/cpu/cpu.h"
#include "support/child.h"
#include "support/host_compiler.h"
#include "support/planted.h"
#include "tuner/worker/check.h"
#include "tuner/worker/own_check.h"
#include "tuner/worker/process.h"
#include "tuner/worker/program/cage.h"

namespace kiln::worker_cage_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json problem(const SearchInput& input) {
  return {{"do", "problem"},
          {"gemm", text(input.gemm)},
          {"device", to_json(input.device)},
          {"seed", 1}};
}

#ifdef KILN_HAS_LLVM  // the planted kernels are compiled here

class WorkerCageTest : public test::PlantedTest {
 protected:
  /// `attack` ends the candidate, by the name of the call that its cage refused.
  void expect_refused(const std::string& attack, const std::string& call) {
    const Measured row = screen_fault(attack);
    ASSERT_FALSE(row.ok()) << attack;
    EXPECT_EQ(name(row.failure().kind), name(Failure::Kind::crashed));
    EXPECT_THAT(row.failure().detail,
                HasSubstr("made a system call that its cage refuses, " + call));
    EXPECT_THAT(row.failure().detail, HasSubstr("while being verified"));
  }
};

/// `call(arguments…)`, in the kernel's own code, without the C library's wrapper.
std::string direct(long call, const std::string& arguments) {
  return fmt::format("syscall({}L, {});", call, arguments);
}

TEST_F(WorkerCageTest, TheAnswerSaysThatItIsCaged) {
  auto worker = WorkerProcess::start(*find_worker()).value();
  ASSERT_EQ(worker.ask({{"do", "hello"}}, {}, 10)->body.value("hello", false), true);
  const auto reply = worker.ask(problem(input_), {}, 30);
  ASSERT_TRUE(reply) << reply.error().detail;
  EXPECT_EQ(reply->body.value("cage", ""), "host");
  const std::string status = contents(fmt::format("/proc/{}/status", worker.pid()));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
}

TEST_F(WorkerCageTest, HoldsThreadsThatRunKernels) {
  input_.device = detect_cpu(2).value();
  const SearchSpace space = space_for(Problem::of(input_.gemm).value(), input_.device).value();
  configs_.assign(space.legal.begin(), space.legal.begin() + 2);
  const Measured row = screen_fault("");
  EXPECT_TRUE(row.ok()) << row.failure().detail;
}

TEST_F(WorkerCageTest, WritesNoFile) {
  const auto path = folder_ / "stolen";
  expect_refused(fmt::format("long file = {} syscall({}L, file, \"x\", 1L);",
                             direct(SYS_openat, fmt::format("-100L, \"{}\", {}L, 0600L",
                                                            path.string(), O_CREAT | O_WRONLY)),
                             long{SYS_write}),
                 "openat");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(WorkerCageTest, WritesNoFileThroughTheCLibrary) {
  const auto path = folder_ / "stolen";
  expect_refused(fmt::format("extern int open(const char*, int, ...) asm(\"open\");"
                             "open(\"{}\", {}, 0600);",
                             path.string(), O_CREAT | O_WRONLY),
                 "openat");
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Nor by names that begin or end as those of memory files do.
TEST_F(WorkerCageTest, ReadsNoFile) {
  for (const char* path : {"/etc/passwd", "/proc/self/fd/../environ", "/proc/self/fd/3/../../maps",
                           "/proc/self/fd/", "/proc/self/fdinfo/3"})
    expect_refused(direct(SYS_openat, fmt::format("-100L, \"{}\", 0L", path)), "openat");
}

TEST_F(WorkerCageTest, ConnectsToNobody) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listening, plain, length), 0);
  ASSERT_EQ(listen(listening, 1), 0);
  ASSERT_EQ(getsockname(listening, plain, &length), 0);
  expect_refused(fmt::format("unsigned char to[16] = {{2, 0, {}, {}, 127, 0, 0, 1}};"
                             "long one = {} syscall({}L, one, to, 16L);",
                             ntohs(address.sin_port) >> 8, ntohs(address.sin_port) & 255,
                             direct(SYS_socket, "2L, 1L, 0L"), long{SYS_connect}),
                 "socket");
  EXPECT_EQ(accept(listening, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
  close(listening);
}

TEST_F(WorkerCageTest, TouchesNoOtherProcess) {
  static volatile long mine = 42;
  const long self = getpid();
  constexpr long kSeize = 0x4206;
  expect_refused(direct(SYS_ptrace, fmt::format("{}L, {}L, 0L, 0L", kSeize, self)), "ptrace");
  expect_refused(
      fmt::format("long value = 13; long from[2] = {{(long)&value, 8}};"
                  "long to[2] = {{{}L, 8}}; {}",
                  reinterpret_cast<std::uintptr_t>(&mine),
                  direct(SYS_process_vm_writev, fmt::format("{}L, from, 1L, to, 1L, 0L", self))),
      "process_vm_writev");
  EXPECT_EQ(mine, 42);
  expect_refused(direct(SYS_kill, fmt::format("{}L, 0L", self)), "kill");
}

// Refused without a word: the C library asks it of threads that it made.
TEST_F(WorkerCageTest, MovesNoOtherProcess) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) last = cpu;
  const Measured row = screen_fault(
      fmt::format("unsigned long mask[16] = {{}}; mask[{}] = 1ul << {}; {}", last / 64, last % 64,
                  direct(SYS_sched_setaffinity, fmt::format("{}L, 128L, mask", getpid()))));
  EXPECT_TRUE(row.ok()) << row.failure().detail;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_F(WorkerCageTest, StartsNoProgram) {
  const auto path = folder_ / "ran";
  expect_refused(fmt::format("const char* words[] = {{\"sh\", \"-c\", \"echo > {}\", 0}};"
                             "const char* none[] = {{0}}; {}",
                             path.string(), direct(SYS_execve, "\"/bin/sh\", words, none")),
                 "execve");
  EXPECT_FALSE(std::filesystem::exists(path));
  constexpr long kForkFlags = 17;  // SIGCHLD
  expect_refused(direct(SYS_clone, fmt::format("{}L, 0L, 0L, 0L, 0L", kForkFlags)), "clone");
}

/// Wrong by one everywhere; answers its worker's next requests in its place, as a right and very
/// fast candidate.
constexpr const char* kForger = R"(
  for (long long i = 0; i < args->m; ++i)
    for (long long j = 0; j < args->n; ++j) d[i * args->ldd + j] += 1;
  static bool forged = false;
  if (forged) return;
  forged = true;
  for (int id = 1; id <= 40; ++id) {
    char text[1024];
    const char* outcome = "{\"median_ns\":1,\"low_ns\":1,\"high_ns\":1,\"samples\":9}";
    const int length = snprintf(text, sizeof text,
        "{\"id\":%d,\"outcome\":%s,\"round\":1,\"verified\":true,\"passed\":true,\"ran\":true,"
        "\"rows\":[{\"outcome\":%s,\"round\":2,\"verified\":true},"
        "{\"outcome\":%s,\"round\":2,\"verified\":true}]}", id, outcome, outcome, outcome);
    syscall(SYS_write_number, 3L, text, (long)length);
  }
)";

std::string forger() {
  std::string text = kForger;
  const std::string name = "SYS_write_number";
  return text.replace(text.find(name), name.size(), std::to_string(SYS_write));
}

TEST_F(WorkerCageTest, AForgedVerdictDoesNotWin) {
  plant(configs_[0], forger());
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  const auto screened = evaluator->screen({configs_[0], configs_[1]});
  ASSERT_EQ(screened.size(), 2u);
  ASSERT_TRUE(screened[0].ok() && screened[0].verified) << "the worker's answer is the forged one";
  const auto raced = evaluator->race(screened);
  ASSERT_EQ(raced.size(), 2u);
  ASSERT_FALSE(raced[0].ok());
  EXPECT_FALSE(raced[0].verified);
  EXPECT_EQ(raced[0].failure().kind, Failure::Kind::wrong_result);
  EXPECT_THAT(raced[0].failure().detail, HasSubstr("D as this process compared it"));
  ASSERT_TRUE(raced[1].ok()) << raced[1].failure().detail;
  EXPECT_TRUE(raced[1].verified);
  EXPECT_FALSE(evaluator->confirm(configs_[0]));
  EXPECT_TRUE(evaluator->confirm(configs_[1]));
}

// An answer to an earlier request, sent late, is not taken for that of the next candidate.
TEST_F(WorkerCageTest, AnAnswerOutOfTurnIsDropped) {
  std::string late = forger();
  const std::string all = "id = 1; id <= 40";
  late.replace(late.find(all), all.size(), "id = 1; id <= 3");
  plant(configs_[0], late);
  plant(configs_[1], "d[0] += 1;");
  const auto evaluator = worker_evaluator(input_, compiler_).value();
  const auto screened = evaluator->screen({configs_[0], configs_[1]});
  ASSERT_EQ(screened.size(), 2u);
  ASSERT_FALSE(screened[1].ok()) << "the next candidate got the first one's second answer";
  EXPECT_EQ(screened[1].failure().kind, Failure::Kind::wrong_result);
}

Binary planted(const std::string& fault) {
  return test::compiler().compile(test::plain_source(test::planted_text(fault))).value();
}

TEST_F(WorkerCageTest, AForgedVerdictPassesNoCheck) {
  // Once by whole D, once by chosen lines and columns of one that is too large for that.
  for (const char* gemm : {"fp32 N N 33 20 17 ldd=24", "fp32 N N 300 1000 520"}) {
    SCOPED_TRACE(gemm);
    const Gemm g = parse_gemm(gemm).value();
    auto checker = Checker::start(g, input_.device, {.seed = 1, .effort = Effort::quick}).value();
    const Binary forging = planted(forger()), right = planted("");
    const Verdict verdict = checker.check(configs_[0], forging);
    ASSERT_FALSE(verdict);
    EXPECT_EQ(verdict.error().kind, Failure::Kind::wrong_result);
    EXPECT_THAT(verdict.error().detail, HasSubstr("D as this process compared it"));
    auto again = Checker::start(g, input_.device, {.seed = 1, .effort = Effort::quick}).value();
    const Verdict good = again.check(configs_[0], right);
    EXPECT_TRUE(good) << good.error().detail;
  }
}

TEST_F(WorkerCageTest, TheParentsOwnCheckSeesStrayedWritesAndCrashes) {
  OwnCheck own(input_.gemm, input_.device);
  const Verdict strayed = own.check(configs_[0], planted("d[args->n] = 1;"));
  ASSERT_FALSE(strayed);
  EXPECT_EQ(strayed.error().kind, Failure::Kind::out_of_bounds);
  const Verdict crashed = own.check(configs_[0], planted("__builtin_trap();"));
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().kind, Failure::Kind::crashed);
}

#endif  // KILN_HAS_LLVM

// As a driver beside a GPU's code would find it.
TEST(GpuCage, RefusesIntrudersAndServesADriver) {
  const pid_t parent = getpid();
  const bool held = test::in_child([parent] {
    static WorkerStatus status{};
    const auto refused = [](long result) { return result == -1 && errno == EPERM; };
    const auto expect = [](bool as_wanted, const char* what) {
      if (!as_wanted) fmt::print(stderr, "in the cage: {}\n", what);
      return as_wanted;
    };
    char word[8] = "mine";
    iovec here{word, sizeof word};
    const char* const none[] = {nullptr};
    bool all = expect(enter_cage(CageKind::gpu, &status) == "gpu", "enter_cage");
    all &= expect(refused(socket(AF_INET, SOCK_STREAM, 0)), "socket of a network");
    all &= expect(refused(syscall(SYS_ptrace, 0x4206L, parent, 0L, 0L)), "ptrace");
    all &= expect(refused(syscall(SYS_process_vm_readv, parent, &here, 1L, &here, 1L, 0L)),
                  "process_vm_readv");
    all &= expect(refused(syscall(SYS_execve, "/bin/true", none, none)), "execve");
    all &= expect(refused(syscall(SYS_setuid, long(getuid()))), "setuid");
    all &= expect(refused(kill(parent, 0)), "kill of the parent");
    all &= expect(refused(syscall(SYS_io_uring_setup, 1L, nullptr)), "io_uring");
    all &= expect(open("/dev/null", O_RDWR) >= 0, "open of a device file");
    all &= expect(socket(AF_UNIX, SOCK_STREAM, 0) >= 0, "local socket");
    all &= expect(kill(getpid(), 0) == 0, "signal to itself");
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    return expect(ran, "thread") && all;
  });
  EXPECT_TRUE(held);
}

TEST(WorkerEnvironment, HoldsOnlyWhatAWorkerNeeds) {
  setenv("A_TOKEN", "secret", 1);
  setenv("LD_PRELOAD_LATER", "x", 1);
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  auto worker = WorkerProcess::start(*find_worker()).value();
  ASSERT_TRUE(worker.ask({{"do", "hello"}}, {}, 30));
  const std::string passed = contents(fmt::format("/proc/{}/environ", worker.pid()));
  // Not by matchers: a failure is not to print what the environment holds.
  EXPECT_EQ(passed.find("secret"), passed.npos);
  EXPECT_EQ(passed.find("LD_PRELOAD_LATER"), passed.npos);
  EXPECT_NE(passed.find("CUDA_VISIBLE_DEVICES=0"), passed.npos);
  for (const char* name : {"A_TOKEN", "LD_PRELOAD_LATER", "CUDA_VISIBLE_DEVICES"}) unsetenv(name);
}

TEST(WorkerLimits, NoCoreAndAHardLimitOfMemory) {
  auto worker = WorkerProcess::start(*find_worker()).value();
  SearchInput input;
  input.gemm = Gemm::row_major(64, 64, 64);
  input.device = detect_cpu(1).value();
  ASSERT_TRUE(worker.ask(problem(input), {}, 30));
  std::ifstream limits(fmt::format("/proc/{}/limits", worker.pid()));
  std::string core, memory;
  for (std::string line; std::getline(limits, line);) {
    if (line.starts_with("Max core file size")) core = line;
    if (line.starts_with("Max address space")) memory = line;
  }
  EXPECT_THAT(core, ::testing::ContainsRegex("size +0 +0 "));
  EXPECT_THAT(memory, Not(HasSubstr("unlimited")));
}

}  // namespace kiln::worker_cage_test
