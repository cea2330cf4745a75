#include "cli/commands/fleet_slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "cache/keys.h"
#include "cli/commands/fleet_report.h"
#include "cli/commands/tune_fleet.h"
#include "cli/output/report.h"
#include "fleet/missing.h"
#include "fleet/shared_file.h"
#include "fleet/slurm.h"
#include "runtime/backend.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

constexpr Manual kSlurmManual{
    "slurm", "Tune a list as a Slurm job array, follow it, merge what it found",
    "  Writes a script for sbatch into --out, submits it, and shows how far it is. Each task "
    "tunes\n"
    "  its shards of the list (kiln tune --shard) into databases of its own in --out, a folder "
    "that\n"
    "  all nodes see; with --gpus N a task has N of them, one process each. When the array has\n"
    "  ended, there is one database for each kind of device, and what is missing is listed; exit\n"
    "  code 1 then. The same command again tunes what is missing.\n"
    "  Ctrl-C ends the display, not the job: kiln fleet status FOLDER and kiln fleet merge FOLDER "
    "do\n"
    "  the rest. Without sbatch on $PATH the exit code is 3.\n"
    "  The list is copied into --out: later changes of --file or --recorded change nothing there.",
    "  kiln fleet slurm --layers llama-3-8b --device cuda --gpus 1 --tasks 16 --time 02:00:00 \\\n"
    "      --partition gpu --out /shared/fleet\n"
    "  kiln fleet slurm --file shapes.txt --tasks 4 --out fleet --dry-run   # the script alone\n"
    "  kiln fleet slurm --recorded calls.kiln --tasks 8 --out fleet --sbatch=--qos=low"};

constexpr auto kFirstLooks = std::chrono::seconds(30);
constexpr auto kSoon = std::chrono::seconds(1), kLater = std::chrono::seconds(10);

/// "cuda:0", "cuda" and "cuda:local" are the GPUs that a task is given.
Result<std::string> device_of_tasks(const SlurmCommand& command) {
  const std::string name = command.tune.device.name;
  const std::string vendor = name.substr(0, name.find(':'));
  if (vendor != "cpu" && !names_gpu(vendor + ":0"))
    return fail(ErrorCode::bad_input,
                fmt::format("device = \"{}\": must be cpu, cuda or hip", name));
  if (vendor == "cpu" && command.job.gpus > 0)
    return fail(ErrorCode::bad_input, fmt::format("gpus = {}: device = cpu uses none: say --device "
                                                  "cuda or --device hip",
                                                  command.job.gpus));
  if (vendor != "cpu" && command.tune.device.threads > 0)
    return fail(ErrorCode::bad_input, fmt::format("threads = {}: must be 0 on a GPU, \"{}\"",
                                                  command.tune.device.threads, name));
  return vendor;
}

/// The list as the tasks read it. Returns the option and its file.
Result<std::pair<std::string, std::string>> freeze_list(const TuneCommand& command,
                                                        const FleetPlan& plan,
                                                        const fs::path& out) {
  if (command.recorded.empty()) {
    std::string lines;
    for (const FleetItem& item : plan.list)
      lines += (item.range ? text(*item.range) : text(item.gemm)) + '\n';
    const fs::path file = out / "list.txt";
    if (Status written = write_shared(file, lines); !written)
      return tl::unexpected(written.error());
    return std::pair{std::string("--file"), file.string()};
  }
  const fs::path file = out / "calls.recorded";
  const auto rows = read_calls(command.recorded);
  if (!rows) return tl::unexpected(rows.error());
  const auto partial = empty_beside(file);
  if (!partial) return tl::unexpected(partial.error());
  const Status written = add_calls(*partial, *rows, kLongWait);
  std::error_code code;
  if (written) fs::rename(*partial, file, code);
  if (!written || code) {
    std::error_code ignored;
    fs::remove(*partial, ignored);
  }
  if (!written) return tl::unexpected(written.error());
  if (code) return fail(ErrorCode::database, fmt::format("{}: {}", file.string(), code.message()));
  return std::pair{std::string("--recorded"), file.string()};
}

std::vector<std::string> words_of(const SlurmCommand& command,
                                  const std::pair<std::string, std::string>& list) {
  const TuneCommand& tune = command.tune;
  std::error_code code;
  const std::string self = fs::read_symlink("/proc/self/exe", code).string();
  std::vector<std::string> words{command.kiln.empty() ? self : command.kiln,
                                 "tune",
                                 list.first,
                                 list.second,
                                 "--out",
                                 command.job.out.string()};
  const auto add = [&](const char* option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  if (tune.each) words.emplace_back("--each");
  if (tune.device.threads > 0) add("--threads", std::to_string(tune.device.threads));
  if (tune.budget) add("--budget", fmt::format("{}", *tune.budget));
  if (tune.candidates > 0) add("--candidates", std::to_string(tune.candidates));
  if (tune.seed != 1) add("--seed", std::to_string(tune.seed));
  if (!tune.database.file.empty()) add("--db", fs::absolute(tune.database.file).string());
  if (tune.determinism.chosen != Determinism::run_to_run)
    add("--determinism", std::get<std::string>(to_value(tune.determinism.chosen)));
  if (tune.policy != TuningPolicy::cool)
    add("--policy", std::get<std::string>(to_value(tune.policy)));
  return words;
}

/// Tasks whose shards miss something, of the kinds that have results; all where none has.
Result<std::vector<int>> tasks_with_missing(const FleetFolder& folder, const SlurmJob& job) {
  std::set<int> tasks;
  for (const std::string& kind : folder.kinds()) {
    const auto state = state_of(folder, kind);
    if (!state) return tl::unexpected(state.error());
    for (const MissingItem& item : state->missing)
      tasks.insert(job.task_of(static_cast<int>(item.place % std::size_t(job.shards())) + 1));
  }
  return std::vector<int>(tasks.begin(), tasks.end());
}

/// False: the user ended it, and the job goes on.
Result<bool> follow(const FleetFolder& folder, const std::string& id) {
  const auto start = std::chrono::steady_clock::now();
  CountReport report("fleet", static_cast<int>(folder.plan().list.size()));
  std::string said;
  for (;;) {
    const auto tasks = tasks_of(id);
    if (!tasks) return tl::unexpected(tasks.error());
    const FleetProgress progress = progress_of(folder);
    const std::string note = fmt::format("{} failed; tasks: {} running, {} waiting",
                                         progress.failed, tasks->running, tasks->waiting);
    const std::string now = fmt::format("{} {}", progress.done, note);
    if (now != std::exchange(said, now)) report.update(static_cast<int>(progress.done), note);
    if (tasks->ended()) return true;
    const bool early = std::chrono::steady_clock::now() - start < kFirstLooks;
    const auto next = std::chrono::steady_clock::now() + (early ? kSoon : kLater);
    while (std::chrono::steady_clock::now() < next) {
      if (interrupted()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

void say_submitted(const Session& session, const SlurmCommand& command, const std::string& id) {
  const SlurmJob& job = command.job;
  const int tasks = job.only.empty() ? job.tasks : static_cast<int>(job.only.size());
  if (session.json)
    print_json({{"job", id}, {"tasks", tasks}, {"out", job.out.string()}});
  else
    fmt::print("job {}: {} tasks; their output is in {}\n", id, tasks,
               (job.out / "slurm").string());
  std::fflush(stdout);
}

Result<Outcome> submit_and_follow(const Session& session, const SlurmCommand& command,
                                  const FleetFolder& folder, const fs::path& script) {
  const auto id = submit(script);
  if (!id) return tl::unexpected(id.error());
  say_submitted(session, command, *id);
  if (command.detach) return Outcome::done;
  const auto ended = follow(folder, *id);
  if (!ended) return tl::unexpected(ended.error());
  if (*ended) return merge_and_report(session, folder);
  fmt::print(stderr,
             "kiln: job {} goes on; kiln fleet status {} and kiln fleet merge {} follow it, "
             "scancel {} ends it\n",
             *id, folder.path().string(), folder.path().string(), *id);
  return Outcome::check_failed;
}

Result<Outcome> run_slurm(const Session& session, SlurmCommand command) {
  if (!command.dry_run)
    if (const auto sbatch = find_sbatch(); !sbatch) return tl::unexpected(sbatch.error());
  auto device = device_of_tasks(command);
  if (!device) return tl::unexpected(device.error());
  auto list = fleet_list(command.tune);
  if (!list) return tl::unexpected(list.error());
  SlurmJob& job = command.job;
  job.device = std::move(*device);
  job.out = fs::absolute(command.tune.out).lexically_normal();
  if (!job.out.has_filename()) job.out = job.out.parent_path();
  // Those of its words that the user chooses, before anything is written.
  job.command = {command.kiln, command.tune.database.file};
  if (Status fit = check_job(job); !fit) return tl::unexpected(fit.error());
  if (job.shards() > kMostShards)
    return fail(ErrorCode::bad_input, fmt::format("tasks = {}: with {} GPUs each, {} shards: must "
                                                  "be at most {}",
                                                  job.tasks, job.gpus, job.shards(), kMostShards));
  const auto folder =
      FleetFolder::join(job.out, {std::move(*list), job.shards(), command.tune.determinism.chosen});
  if (!folder) return tl::unexpected(folder.error());
  const auto frozen = freeze_list(command.tune, folder->plan(), job.out);
  if (!frozen) return tl::unexpected(frozen.error());
  job.command = words_of(command, *frozen);
  if (command.only_missing) {
    auto tasks = tasks_with_missing(*folder, job);
    if (!tasks) return tl::unexpected(tasks.error());
    if (tasks->empty() && !folder->kinds().empty()) return merge_and_report(session, *folder);
    job.only = std::move(*tasks);
  }
  // Slurm follows links where it writes what tasks say.
  if (Status made = make_shared_folder(job.out / "slurm"); !made)
    return tl::unexpected(made.error());
  if (Status own = not_for_everybody(job.out / "slurm"); !own) return tl::unexpected(own.error());
  if (Status fit = check_job(job); !fit) return tl::unexpected(fit.error());
  const fs::path script = job.out / "slurm" / "job.sh";
  if (Status written = write_shared(script, script_text(job)); !written)
    return tl::unexpected(written.error());
  if (!command.dry_run) return submit_and_follow(session, command, *folder, script);
  if (session.json)
    print_json({{"script", script.string()}, {"tasks", job.tasks}, {"shards", job.shards()}});
  else
    fmt::print("{}\n", script.string());
  return Outcome::done;
}

CLI::Option* add_number(CLI::App& app, const char* name, int& value, int least, const char* what) {
  return app.add_option(name, value, what)
      ->type_name("N")
      ->check(CLI::Range(least, kMostShards))
      ->capture_default_str();
}

void add_job_options(CLI::App& app, SlurmCommand& command) {
  SlurmJob& job = command.job;
  add_number(app, "--tasks", job.tasks, 1, "Tasks of the array");
  add_number(app, "--gpus", job.gpus, 0, "GPUs of a task, each with a process and a shard");
  add_number(app, "--cpus", job.cpus, 0, "CPUs of a task; 0 = what Slurm gives");
  add_number(app, "--at-once", job.at_once, 0, "Tasks that may run at a time; 0 = all that fit");
  const auto add_text = [&](const char* name, std::string& value, const char* type,
                            const char* what) {
    app.add_option(name, value, what)->type_name(type);
  };
  add_text("--partition", job.partition, "NAME", "Slurm's partition");
  add_text("--constraint", job.constraint, "FEATURE",
           "Features that nodes must have: one kind of "
           "device");
  add_text("--account", job.account, "NAME", "Slurm's account");
  add_text("--time", job.time_limit, "LIMIT", "Time limit of a task, as Slurm takes it: 02:00:00");
  app.add_option("--sbatch", job.more,
                 "A further option of sbatch, as --sbatch=--qos=low. Repeatable")
      ->type_name("OPTION")
      ->allow_extra_args(false);
  add_text("--kiln", command.kiln, "FILE", "The kiln command on the nodes; default this one");
  app.add_flag("--missing", command.only_missing,
               "Only the tasks whose shards the folder's merged files lack something of");
  CLI::Option* dry = app.add_flag("--dry-run", command.dry_run, "Write the script, submit nothing");
  app.add_flag("--detach", command.detach, "Submit, and do not follow")->excludes(dry);
}

}  // namespace

void add_fleet_slurm(CLI::App& parent, Session& session) {
  auto command = std::make_shared<SlurmCommand>();
  CLI::App* app = add_command(parent, session, kSlurmManual,
                              [&session, command] { return run_slurm(session, *command); });
  add_list_options(*app, command->tune);
  app->add_option("--out", command->tune.out, "The folder for results, which all nodes see")
      ->type_name("FOLDER")
      ->required();
  add_job_options(*app, *command);
}

}  // namespace kiln::cli
