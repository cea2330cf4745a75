// kiln-worker: runs candidates, or the compiler, where a crash or a hang costs one of them alone.
// Started by kiln, never by hand: talks over the descriptors that tuner/worker/protocol.h names,
// as a compile server over that of runtime/cpu/compile_server.h.
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "runtime/cpu/affinity.h"
#include "runtime/cpu/compile_server.h"
#include "tuner/worker/program/fault_report.h"
#include "tuner/worker/program/session.h"

namespace {

// A backstop for a parent that lost its clock: the longest budget there is, on every core.
rlim_t cpu_seconds() { return rlim_t{86400} * static_cast<rlim_t>(kiln::core_count()); }

bool parent_is(int pid) { return getppid() == pid; }

void confine() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const rlimit cpu{cpu_seconds(), cpu_seconds() + 5};
  setrlimit(RLIMIT_CPU, &cpu);
  // Should memory run out, the candidate is to go, not its parent.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  kiln::reread_cores();  // in the cage no file can be read
}

int usage() {
  fmt::print(stderr, "kiln-worker is started by kiln; there is nothing to run by hand\n");
  return 2;
}

/// In a child: who started this process waits for its end and has no child then.
int compile_server() {
  if (fork() != 0) return 0;
  confine();
  kiln::serve_compiles();
  _exit(0);  // threads may be inside of the compiler, whose objects exit() ends
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return usage();
  if (argv[1] == std::string_view(kiln::kCompileServerArgument)) return compile_server();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!parent_is(std::atoi(argv[1]))) return usage();  // it died before the line above
  confine();
  void* page = mmap(nullptr, sizeof(kiln::WorkerStatus), PROT_READ | PROT_WRITE, MAP_SHARED,
                    kiln::kWorkerStatusFd, 0);
  if (page == MAP_FAILED) return usage();
  auto* status = static_cast<kiln::WorkerStatus*>(page);
  kiln::report_faults_on(status);

  kiln::Session session(status);
  for (;;) {
    auto request = kiln::receive_message(kiln::kWorkerSocketFd);
    if (!request) return 0;  // the parent is done
    nlohmann::json answer{{"hello", true}};
    if (request->body.value("do", nlohmann::json()) != "hello") answer = session.answer(*request);
    if (const auto id = request->body.find("id"); id != request->body.end()) answer["id"] = *id;
    if (!kiln::send_message(kiln::kWorkerSocketFd, answer)) return 1;
    // Not a clean end: after a fault the driver may wait for ever on what was lost.
    if (session.doomed()) _exit(0);
  }
}
