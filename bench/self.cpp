#include "bench/self.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "runtime/cpu/compile_server.h"

namespace kiln {
namespace {

tl::unexpected<Error> refused(const char* call, int error) {
  return fail(ErrorCode::device,
              fmt::format("cannot start this program again: {}: {}", call, std::strerror(error)));
}

std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> result;
  for (std::string& line : lines) result.push_back(line.data());
  result.push_back(nullptr);
  return result;
}

std::string drain(int fd) {
  std::string all;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(buffer.data(), std::size_t(got));
  }
}

}  // namespace

Result<ChildResult> run_self(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment, bool capture) {
  std::vector<std::string> words{"/proc/self/exe"}, lines = environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::array<int, 2> pipe_ends{-1, -1};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (capture) {
    if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
      posix_spawn_file_actions_destroy(&actions);
      return refused("pipe2", errno);
    }
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  }
  pid_t child = 0;
  const int error = posix_spawn(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                pointers(lines).data());
  posix_spawn_file_actions_destroy(&actions);
  if (capture) close(pipe_ends[1]);
  if (error != 0) {
    if (capture) close(pipe_ends[0]);
    return refused("posix_spawn", error);
  }
  ChildResult result;
  if (capture) {
    result.output = drain(pipe_ends[0]);
    close(pipe_ends[0]);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return refused("waitpid", errno);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::vector<std::string> loaded_compilers() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> files;
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    if (path == line.npos) continue;
    const std::string name = line.substr(line.rfind('/') + 1);
    for (const char* part : {"libLLVM", "libclang", "libkiln_clang", "libnvrtc"})
      if (name.starts_with(part)) files.insert(line.substr(path));
  }
  if (compile_servers_started() > 0) files.insert("a compile server");
  return {files.begin(), files.end()};
}

}  // namespace kiln
