#include "fleet/slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "cache/printable.h"
#include "cache/store.h"
#include "runtime/env.h"

namespace kiln {
namespace {

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// A value as sbatch and a shell read it as one word: sbatch knows no other quoting in which a
/// quote may stand. Without control characters, which check_job() refuses: a line feed ends a
/// directive.
std::string escaped(std::string_view value) {
  constexpr std::string_view kPlain = "_-+=:,./@%";
  std::string out;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x80 || std::isalnum(byte) != 0 || kPlain.find(c) != kPlain.npos;
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

/// A path in which Slurm replaces nothing: "%j" is the job's number, "%%" a percent sign.
std::string without_patterns(const std::string& path) {
  std::string out;
  for (const char c : path) out.append(c == '%' ? 2 : 1, c);
  return out;
}

/// Errors: bad_input. `option` is what the command calls it.
Status without_controls(const char* option, std::string_view value) {
  if (std::ranges::none_of(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("{} = \"{}\": must not have control characters: each option is a line "
                          "of the script",
                          option, printable_line(value)));
}

struct Ran {
  int exit_code = -1;
  std::string said;  // on both outputs
};

Ran run_command(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += shell_quoted(word) + ' ';
  Ran ran;
  FILE* pipe = ::popen((line + "2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe))
    ran.said.append(piece.data(), count);
  const int status = ::pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  while (ran.said.ends_with('\n')) ran.said.pop_back();
  return ran;
}

/// A line of options for sbatch where the value is given.
std::string directive(const char* option, const std::string& value) {
  return value.empty() ? "" : fmt::format("#SBATCH --{}={}\n", option, escaped(value));
}
std::string directive(const char* option, int value) {
  return value == 0 ? "" : directive(option, std::to_string(value));
}

std::string directives(const SlurmJob& job) {
  std::vector<int> all(static_cast<std::size_t>(job.tasks));
  std::iota(all.begin(), all.end(), 1);
  std::string array = array_text(job.only.empty() ? all : job.only);
  if (job.at_once > 0) array += fmt::format("%{}", job.at_once);
  std::string text = directive("job-name", std::string("kiln-fleet"));
  text += directive("array", array);
  text += directive("partition", job.partition) + directive("constraint", job.constraint) +
          directive("account", job.account) + directive("time", job.time_limit);
  if (job.gpus > 0) text += directive("gres", fmt::format("gpu:{}", job.gpus));
  text += directive("cpus-per-task", job.cpus);
  // A CPU is timed as a whole: whoever else computes on the machine is in the samples.
  if (job.device == "cpu") text += "#SBATCH --exclusive\n";
  // Before the time limit, so that the fastest kernel so far is stored.
  text += "#SBATCH --signal=B:TERM@60\n#SBATCH --requeue\n#SBATCH --open-mode=append\n";
  text += directive("output", without_patterns((job.out / "slurm").string()) + "/task-%a.out");
  for (const std::string& option : job.more) text += fmt::format("#SBATCH {}\n", escaped(option));
  return text;
}

constexpr const char* kOneProcess = R"(# In this shell's place, so that Slurm's signals reach it.
exec_tune "$SLURM_ARRAY_TASK_ID" {}
)";

/// One process a GPU; they end as the last of them does.
constexpr const char* kManyProcesses = R"(processes=()
for gpu in {{0..{0}}}; do
  exec_tune $(((SLURM_ARRAY_TASK_ID - 1) * {1} + gpu + 1)) "{2}:$gpu" &
  processes+=($!)
done
trap 'kill -TERM "${{processes[@]}}" 2>/dev/null' INT TERM
status=0
for process in "${{processes[@]}}"; do
  # A signal ends wait, not the process.
  while wait "$process"; code=$?; kill -0 "$process" 2>/dev/null; do :; done
  [ "$code" -eq 0 ] || status=$code
done
exit "$status"
)";

}  // namespace

Status check_job(const SlurmJob& job) {
  const std::pair<const char*, std::string> values[] = {
      {"out", job.out.string()},      {"device", job.device},   {"partition", job.partition},
      {"constraint", job.constraint}, {"account", job.account}, {"time", job.time_limit}};
  for (const auto& [option, value] : values)
    if (Status clean = without_controls(option, value); !clean) return clean;
  for (const std::string& option : job.more) {
    if (Status clean = without_controls("sbatch", option); !clean) return clean;
    if (!option.starts_with('-'))
      return fail(ErrorCode::bad_input,
                  fmt::format("sbatch = \"{}\": must be an option of sbatch, --name=value",
                              printable_line(option)));
  }
  for (const std::string& word : job.command)
    if (Status clean = without_controls("command", word); !clean) return clean;
  return {};
}

std::string array_text(const std::vector<int>& tasks) {
  std::string text;
  for (std::size_t first = 0; first < tasks.size();) {
    std::size_t last = first;
    while (last + 1 < tasks.size() && tasks[last + 1] == tasks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", tasks[first]);
    if (last > first) text += fmt::format("-{}", tasks[last]);
    first = last + 1;
  }
  return text;
}

std::string script_text(const SlurmJob& job) {
  std::vector<std::string> quoted;
  for (const std::string& word : job.command) quoted.push_back(shell_quoted(word));
  std::string text =
      "#!/bin/bash\n# Written by kiln fleet slurm: each task tunes its shard of the "
      "list.\n" +
      directives(job);
  text += fmt::format(
      "\nexec_tune() {{  # exec_tune SHARD DEVICE\n  exec {} \\\n    --shard "
      "\"$1/{}\" --device \"$2\"\n}}\n\n",
      fmt::join(quoted, " "), job.shards());
  if (job.processes() > 1)
    return text + fmt::format(kManyProcesses, job.gpus - 1, job.gpus, job.device);
  return text + fmt::format(kOneProcess, job.device == "cpu" ? "cpu" : job.device + ":0");
}

Result<std::filesystem::path> find_sbatch() {
  const char* path = env("PATH");
  for (const auto& folder : split_paths(path == nullptr ? "" : path))
    if (const auto file = folder / "sbatch"; ::access(file.c_str(), X_OK) == 0) return file;
  return fail(
      ErrorCode::device,
      "sbatch: not on $PATH: no Slurm jobs can be submitted from here; --dry-run writes the "
      "script alone, and kiln tune --shard I/N or mpirun kiln tune --mpi need no Slurm");
}

Result<std::string> submit(const std::filesystem::path& script) {
  const auto sbatch = find_sbatch();
  if (!sbatch) return tl::unexpected(sbatch.error());
  const Ran ran = run_command({sbatch->string(), "--parsable", script.string()});
  const std::string job = ran.said.substr(0, ran.said.find(';'));
  const bool number = !job.empty() && job.find_first_not_of("0123456789") == std::string::npos;
  if (ran.exit_code == 0 && number) return job;
  return fail(ErrorCode::device, fmt::format("{} {}: exit code {}: {}", sbatch->string(),
                                             script.string(), ran.exit_code, printable(ran.said)));
}

Result<SlurmTasks> tasks_of(const std::string& job) {
  const Ran ran = run_command({"squeue", "--noheader", "--array", "--format=%T", "--jobs", job});
  SlurmTasks tasks;
  if (ran.said.find("Invalid job id") != std::string::npos) return tasks;
  if (ran.exit_code != 0)
    return fail(ErrorCode::device, fmt::format("squeue --jobs {}: exit code {}: {}", job,
                                               ran.exit_code, printable(ran.said)));
  std::istringstream lines(ran.said);
  for (std::string state; std::getline(lines, state);) {
    const bool waits = state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD" ||
                       state == "CONFIGURING" || state == "SUSPENDED";
    tasks.waiting += waits;
    tasks.running += !waits && !state.empty();
  }
  return tasks;
}

}  // namespace kiln
