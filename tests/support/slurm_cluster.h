// A Slurm cluster of one node, started by the test, of this user, in a folder and on ports of its
// own: munged, slurmctld and slurmd, as Debian packages them. None of them outlives the test.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/kiln_command.h"

namespace kiln::test {

class SlurmCluster {
 public:
  /// A node with so many GPUs and as many CPUs, whatever this machine has. `folder` is made.
  SlurmCluster(const std::filesystem::path& folder, int gpus) : folder_(folder) {
    std::filesystem::create_directories(folder / "state");
    std::filesystem::create_directories(folder / "spool");
    write_key();
    write_configuration(gpus);
    const auto file = [&](const char* name) { return (folder / name).string(); };
    start("munged", {"/usr/sbin/munged", "--foreground", "--force", "--key-file=" + file("key"),
                     "--socket=" + file("munge"), "--pid-file=" + file("munged.pid"),
                     "--log-file=" + file("munged.log"), "--seed-file=" + file("seed")});
    until([&] { return std::filesystem::exists(folder / "munge"); });
    start("slurmctld", {"/usr/sbin/slurmctld", "-D", "-c", "-f", configuration()});
    start("slurmd", {"/usr/sbin/slurmd", "-D", "-f", configuration()});
  }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  ~SlurmCluster() {
    for (const pid_t daemon : daemons_) ::kill(daemon, SIGKILL);
    for (const pid_t daemon : daemons_) ::waitpid(daemon, nullptr, 0);
    // Steps of jobs, which belong to nobody now: all have the configuration in their environment.
    until([&] { return kill_all_of_this_cluster() == 0; });
  }

  /// What commands of Slurm want as $SLURM_CONF.
  std::string configuration() const { return (folder_ / "slurm.conf").string(); }

  /// Waits until jobs can run. Where they cannot, what the daemons said; empty: they can.
  std::string ready() const {
    const std::string states = (folder_ / "states").string();
    const std::string ask =
        "SLURM_CONF='" + configuration() + "' sinfo --noheader --format=%T >'" + states + "' 2>&1";
    if (until(
            [&] { return std::system(ask.c_str()) == 0 && KilnCommand::read(states) == "idle\n"; }))
      return {};
    std::string said = "scripts/packages tests installs Slurm\n" + KilnCommand::read(states);
    for (const char* daemon : {"munged", "slurmctld", "slurmd"})
      said += std::string(daemon) + ":\n" + KilnCommand::read(folder_ / daemon);
    return said;
  }

 private:
  template <typename F>
  static bool until(F&& holds) {
    for (int i = 0; i < 600; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // clock: how often it asks
    }
    return false;
  }

  void start(const std::string& name, std::vector<std::string> words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string said = (folder_ / name).string(), conf = configuration();
    const pid_t daemon = ::fork();
    if (daemon > 0) daemons_.push_back(daemon);
    if (daemon != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = ::open(said.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::setenv("SLURM_CONF", conf.c_str(), 1);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }

  /// A port that nobody listens on now.
  static int free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    const bool bound = ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
    EXPECT_TRUE(bound) << "no port on 127.0.0.1";
    ::close(fd);
    return ntohs(address.sin_port);
  }

  void write_key() const {
    std::ofstream key(folder_ / "key", std::ios::binary);
    std::random_device random;
    for (int i = 0; i < 256; ++i) key.put(static_cast<char>(random()));
    using std::filesystem::perms;
    std::filesystem::permissions(folder_ / "key", perms::owner_read | perms::owner_write);
  }

  void write_configuration(int gpus) const {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    const passwd* user = ::getpwuid(::geteuid());
    const std::string name = user == nullptr ? "root" : user->pw_name;
    std::ofstream(configuration()) << fmt::format(
        R"(ClusterName=kiln
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={gpus} RealMemory=500 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
)",
        fmt::arg("host", host), fmt::arg("controller", free_port()), fmt::arg("node", free_port()),
        fmt::arg("user", name), fmt::arg("folder", folder_.string()), fmt::arg("gpus", gpus));
    // Slurm counts device files; these are none.
    for (int gpu = 0; gpu < gpus; ++gpu) std::ofstream(folder_ / fmt::format("gpu{}", gpu));
    std::ofstream(folder_ / "gres.conf") << fmt::format("NodeName={} Name=gpu File={}/gpu[0-{}]\n",
                                                        host, folder_.string(), gpus - 1);
    // Groups of processes that Slurm asks for and, with the plug-ins above, never makes.
    std::ofstream(folder_ / "cgroup.conf") << "CgroupPlugin=cgroup/v1\n";
  }

  int kill_all_of_this_cluster() const {
    int found = 0;
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string environment = '\0' + KilnCommand::read(entry.path() / "environ");
      if (environment.find('\0' + ("SLURM_CONF=" + configuration()) + '\0') == std::string::npos)
        continue;
      ::kill(std::stoi(name), SIGKILL);
      ++found;
    }
    return found;
  }

  std::filesystem::path folder_;
  std::vector<pid_t> daemons_;
};

}  // namespace kiln::test
