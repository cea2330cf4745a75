#include "soak/children.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace kiln::soak {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string outcome_of(const std::function<std::string()>& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    return std::string("exception: ") + e.what();
  }
}

std::string all_of(int pipe) {
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = ::read(pipe, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  return text;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code gone;
  const auto tasks = fmt::format("/proc/{}/task", parent);
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

std::string name_of(pid_t process) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)) >> std::ws, name);
  return name;
}

}  // namespace

std::string in_child(double seconds, const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe() failed";
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGXCPU})
      ::signal(signal, SIG_DFL);
    ::alarm(static_cast<unsigned>(std::max(1.0, seconds)));
    const std::string found = outcome_of(body);
    // A sentence longer than the pipe would wait for its reader.
    (void)!::write(ends[1], found.data(), std::min<std::size_t>(found.size(), 4096));
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string found = all_of(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM   ? fmt::format("took longer than {} s", seconds)
           : WTERMSIG(status) == SIGXCPU ? "took too much of the processor's time"
                                         : fmt::format("killed by signal {} ({})", WTERMSIG(status),
                                                       sigabbrev_np(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit status {}", WEXITSTATUS(status));
  return found;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::string surviving_orphans(double seconds) {
  const auto start = Clock::now();
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    const auto left = children_of(::getpid());
    if (left.empty()) return "";
    if (seconds_since(start) < seconds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    std::string names;
    for (const pid_t process : left) {
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name_of(process), process);
      ::kill(process, SIGKILL);
    }
    while (::waitpid(-1, nullptr, 0) > 0) continue;
    return fmt::format("still running after {} s: {}", seconds, names);
  }
}

pid_t child_named(pid_t parent, const std::string& part) {
  for (const pid_t child : children_of(parent))
    if (name_of(child).find(part) != std::string::npos) return child;
  return 0;
}

}  // namespace kiln::soak
