// Names the case in hand when a kernel under test kills the process: without it, all that is left
// of a crash is the name of a test that had hundreds of cases.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

namespace kiln::test {

class Attempt {
 public:
  Attempt() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, report);
  }
  ~Attempt() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
      std::signal(signal, SIG_DFL);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void at(const std::string& what) { std::snprintf(text_, sizeof text_, "%s", what.c_str()); }

 private:
  static void report(int signal) {
    static const char kWords[] = "\nkilled by a signal while trying: ";
    (void)!write(STDERR_FILENO, kWords, sizeof kWords - 1);
    (void)!write(STDERR_FILENO, text_, strnlen(text_, sizeof text_));
    (void)!write(STDERR_FILENO, "\n", 1);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

  inline static char text_[1024] = "";
};

}  // namespace kiln::test
