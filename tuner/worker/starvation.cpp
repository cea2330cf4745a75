#include "tuner/worker/starvation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace kiln {
namespace {

/// Nanoseconds that each thread spent on a run queue, by its number.
std::map<pid_t, std::int64_t> queued_ns(pid_t process) {
  std::map<pid_t, std::int64_t> out;
  std::error_code gone;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    std::FILE* file = std::fopen((task.path() / "schedstat").c_str(), "re");
    if (file == nullptr) continue;
    long long ran = 0, queued = 0;  // then the number of time slices
    if (std::fscanf(file, "%lld %lld", &ran, &queued) == 2)
      out[std::atoi(task.path().filename().c_str())] = queued;
    std::fclose(file);
  }
  return out;
}

}  // namespace

Starvation::Starvation(pid_t process) : process_(process), before_(queued_ns(process)) {}

std::int64_t Starvation::ns() const {
  std::int64_t most = 0;
  for (const auto& [thread, queued] : queued_ns(process_)) {
    const auto begun = before_.find(thread);
    most = std::max(most, queued - (begun == before_.end() ? 0 : begun->second));
  }
  return most;
}

}  // namespace kiln
