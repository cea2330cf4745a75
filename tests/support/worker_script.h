// kiln-worker as tests want it: one that refuses, that has little memory, that can be killed.
#pragma once

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/worker_program.h"
#include "support/temp_dir.h"

namespace kiln::test {

/// The line of a worker that compiles and does nothing else.
inline constexpr const char* kCompilesAlone = "[ \"$1\" = compile ] || exit 1";

/// kiln-worker behind a line of a shell's; the number of its process group is in the file `group`.
class WorkerScript {
 public:
  explicit WorkerScript(const std::string& line = "") {
    std::ofstream(path()) << "#!/bin/sh\n"
                          << line << "\necho $$ > " << (dir_ / "group").string() << "\nexec "
                          << find_worker().value().string() << " \"$@\"\n";
    ::chmod(path().c_str(), 0755);
  }
  std::filesystem::path path() const { return dir_ / "worker"; }
  void kill() const { send(SIGKILL); }
  void send(int signal) const {
    pid_t group = 0;
    std::ifstream(dir_ / "group") >> group;
    if (group > 1) ::kill(-group, signal);
  }

 private:
  TempDir dir_;
};

}  // namespace kiln::test
