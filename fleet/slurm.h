// A fleet as a Slurm job array: the script, its submission, what its tasks are doing. Slurm is
// asked through its commands, found on $PATH. Knows no lists and no databases.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

struct SlurmJob {
  std::filesystem::path out;         // the fleet's folder; absolute
  std::vector<std::string> command;  // kiln tune and all but --shard and --device
  std::string device = "cpu";        // "cpu", "cuda", "hip"
  int tasks = 1;
  int gpus = 0;           // of a task, each tuned on by a process of its own
  std::vector<int> only;  // tasks to run; empty: all
  std::string partition, constraint, account, time_limit;
  int cpus = 0;                   // of a task; 0: what Slurm gives
  int at_once = 0;                // tasks that may run at a time; 0: as many as fit
  std::vector<std::string> more;  // further options of sbatch, each one word: "--qos=high"

  int processes() const { return gpus > 1 ? gpus : 1; }  // of a task
  int shards() const { return tasks * processes(); }
  /// The task that tunes a shard.
  int task_of(int shard) const { return (shard - 1) / processes() + 1; }
};

/// Errors: bad_input, naming the option and its value: one with control characters, which would add
/// lines to the script; a further option that does not begin with "-".
Status check_job(const SlurmJob& job);
/// The script for sbatch, as a person would have written it, of a job that check_job() let pass.
/// Each value is one word, whatever characters it has.
std::string script_text(const SlurmJob& job);
/// "1-3,7": ascending numbers as Slurm's --array has them.
std::string array_text(const std::vector<int>& tasks);

/// Errors: device, where there is no sbatch on $PATH.
Result<std::filesystem::path> find_sbatch();
/// Submits a script. Returns the job's number. Errors: device, with what sbatch said.
Result<std::string> submit(const std::filesystem::path& script);

/// Of a job array, how many tasks are in the queue.
struct SlurmTasks {
  int waiting = 0, running = 0;
  bool ended() const { return waiting == 0 && running == 0; }
};
/// Errors: device, with what squeue said. A job that Slurm knows no more has ended.
Result<SlurmTasks> tasks_of(const std::string& job);

}  // namespace kiln
