#include "runtime/cpu/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "runtime/cpu/affinity.h"
#include "runtime/cpu/float_mode.h"
#include "runtime/no_cancel.h"
#include "runtime/own_folder.h"

namespace kiln {
namespace {

// Long enough to bridge the gap between the layers of a model, short enough that a program between
// calls, or the next library in a benchmark, keeps its cores.
constexpr std::chrono::microseconds kSpin{100};
constexpr int kPausesPerClockRead = 32;
// A caller that waited this long probably waits for a thread that lost its core: give ours away.
constexpr int kPausesBeforeYield = 512;
// Concurrent calls; one beyond it waits for another to end.
constexpr std::uint32_t kMaxTeams = 4096;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

using Word = std::atomic<std::uint32_t>;

void futex_wait(Word& word, std::uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr);
}

void futex_wake(Word& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1);
}

}  // namespace

/// Two lines, so that the caller's words and the thread's own never share one; 128 bytes because
/// neighbouring lines are fetched in pairs.
struct Worker {
  alignas(128) Word go{0};  // number of the newest job; written by the caller
  Word asleep{0};
  alignas(128) Word done{0};  // number of the last finished job
  Team* team = nullptr;
  int thread = 0;
  int cpu = -1;  // where it is pinned; -1 = nowhere
  pthread_t handle{};
};

struct Team {
  Task task = nullptr;
  void* context = nullptr;
  int threads = 1;
  FloatMode mode = 0;  // of the caller, for the time of the task
  int home = -1;       // CPU that the caller ran on when last seen
  std::vector<std::unique_ptr<Worker>> workers;
  std::uint32_t leases = 0;  // wraps
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next{0};  // free list: index + 1 of the team below, 0 = none
};

namespace {

std::atomic<bool> g_fixed{false};  // see fix_threads()

void wait_for_go(Worker& self, std::uint32_t seen) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (self.go.load(std::memory_order_acquire) != seen) return;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < until);
  // Sequentially consistent on both sides: either the caller sees us asleep, or we see its job.
  self.asleep.store(1);
  while (self.go.load() == seen) futex_wait(self.go, seen);
  self.asleep.store(0, std::memory_order_relaxed);
}

void* worker_main(void* argument) {
  Worker& self = *static_cast<Worker*>(argument);
  note_pool_thread();
  FloatMode mode = float_mode();  // as the thread has it that made this one
  for (std::uint32_t job = 0;;) {
    wait_for_go(self, job);
    ++job;
    if (self.team->mode != mode) set_float_mode(mode = self.team->mode);
    self.team->task(self.team->context, self.thread, self.team->threads);
    self.done.store(job, std::memory_order_release);
  }
  return nullptr;
}

/// Threads of ours take no asynchronous signal; faults stay deliverable, or a handler that reports
/// them would never run.
sigset_t blocked_signals() {
  sigset_t set;
  sigfillset(&set);
  for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&set, fault);
  return set;
}

void set_cpu(cpu_set_t& set, int cpu) {
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
}

bool start(Worker& worker) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (worker.cpu >= 0 && worker.cpu < CPU_SETSIZE) {
    cpu_set_t set;
    set_cpu(set, worker.cpu);
    pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
  }
  const sigset_t blocked = blocked_signals();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const int code = pthread_create(&worker.handle, &attributes, worker_main, &worker);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return code == 0;
}

/// Makes workers until the team has `threads` threads or the system refuses one.
void grow(Team& team, int threads) {
  const NoCancel whole;  // reading the machine's topology opens files
  team.home = sched_getcpu();
  const std::vector<int> order = placement(allowed_cores(), team.home);
  while (static_cast<int>(team.workers.size()) + 1 < threads) {
    auto worker = std::make_unique<Worker>();
    worker->team = &team;
    worker->thread = static_cast<int>(team.workers.size()) + 1;
    if (!order.empty()) worker->cpu = order[team.workers.size() % order.size()];
    if (!start(*worker)) return;
    team.workers.push_back(std::move(worker));
  }
}

bool pin(Worker& worker, int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  set_cpu(set, cpu);
  if (pthread_setaffinity_np(worker.handle, sizeof(set), &set) != 0) return false;
  worker.cpu = cpu;
  return true;
}

/// Whether somebody else has changed where the thread may run: taskset -ap, a batch system.
bool was_moved(const Worker& worker) {
  if (worker.cpu < 0 || worker.cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  if (pthread_getaffinity_np(worker.handle, sizeof(set), &set) != 0) return false;
  return CPU_COUNT(&set) != 1 || !CPU_ISSET(static_cast<std::size_t>(worker.cpu), &set);
}

/// Whether the process may use the CPU that its caller has left: it may have left because all
/// threads were told to.
bool may_use(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t own;
  if (sched_getaffinity(0, sizeof(own), &own) == 0 &&
      CPU_ISSET(static_cast<std::size_t>(cpu), &own))
    return true;
  if (g_fixed.load(std::memory_order_relaxed)) return true;
  const NoCancel whole;
  const std::vector<int> cpus = process_cpus();
  return std::ranges::find(cpus, cpu) != cpus.end();
}

/// After was_moved(): the team's threads are placed within what the process may use now. Where that
/// is no other CPU than the caller's, they stay as they were told.
void place_again(Team& team, int here) {
  const NoCancel whole;
  reread_cores();
  const std::vector<int> order = placement(allowed_cores(), here);
  for (std::size_t i = 0; i < team.workers.size(); ++i)
    if (order.empty() || !pin(*team.workers[i], order[i % order.size()])) team.workers[i]->cpu = -1;
}

/// A caller that moved onto the core of one of its threads would share it for milliseconds: that
/// thread takes the core it left.
void follow_caller(Team& team, int threads) {
  constexpr std::uint32_t kLooks = 1024;  // calls between two looks at masks: 0.2 us a thread
  const int here = sched_getcpu();
  if (here < 0) return;
  const bool look = ++team.leases % kLooks == 0;
  if (here == team.home && !look) return;
  for (int i = 0; i + 1 < threads; ++i) {
    Worker& worker = *team.workers[static_cast<std::size_t>(i)];
    const bool meets = worker.cpu == here && here != team.home;
    if ((look || meets) && !g_fixed.load(std::memory_order_relaxed) && was_moved(worker)) {
      place_again(team, here);
      break;
    }
    if (meets && may_use(team.home)) pin(worker, team.home);
  }
  team.home = here;
}

/// Teams live for ever; idle ones hang on a lock-free stack, the hottest on top. The head's upper
/// half counts its changes, so that a team popped and pushed meanwhile is noticed.
class Pool {
 public:
  Team& take() {
    for (;;) {
      std::uint64_t head = head_.load(std::memory_order_acquire);
      while (static_cast<std::uint32_t>(head) != 0) {
        Team* team = teams_[static_cast<std::uint32_t>(head) - 1].load(std::memory_order_acquire);
        const std::uint64_t next = team->next.load(std::memory_order_relaxed);
        if (head_.compare_exchange_weak(head, changed(head) | next, std::memory_order_acq_rel))
          return *team;
      }
      std::uint32_t index = count_.load(std::memory_order_relaxed);
      while (index < kMaxTeams)
        if (count_.compare_exchange_weak(index, index + 1)) return make(index);
      sched_yield();
    }
  }

  void give_back(Team& team) {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      team.next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
    } while (!head_.compare_exchange_weak(head, changed(head) | (team.index + 1),
                                          std::memory_order_acq_rel));
  }

 private:
  static std::uint64_t changed(std::uint64_t head) { return ((head >> 32) + 1) << 32; }

  Team& make(std::uint32_t index) {
    auto* team = new Team;
    team->index = index;
    teams_[index].store(team, std::memory_order_release);
    return *team;
  }

  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint32_t> count_{0};
  std::array<std::atomic<Team*>, kMaxTeams> teams_{};
};

/// Never destroyed: its threads outlive every static object.
std::atomic<Pool*> g_pool{nullptr};

Pool& pool() {
  if (Pool* existing = g_pool.load(std::memory_order_acquire)) return *existing;
  auto fresh = std::make_unique<Pool>();
  Pool* expected = nullptr;
  if (!g_pool.compare_exchange_strong(expected, fresh.get())) return *expected;
  // A forked child has this memory and none of the threads: it forgets them and starts over.
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    g_pool.store(nullptr);
    forget_pool_threads();
  });
  static_cast<void>(registered);
  stay_loaded();  // the threads below run this library's code until the process ends
  return *fresh.release();
}

}  // namespace

void fix_threads() { g_fixed.store(true); }

TeamLease::TeamLease(int threads) : threads_(std::max(threads, 1)) {
  if (threads_ == 1) return;
  lent_ = lent_threads();
  if (lent_ != nullptr) return;
  team_ = &pool().take();
  if (static_cast<int>(team_->workers.size()) + 1 < threads_) {
    grow(*team_, threads_);
    threads_ = std::min(threads_, static_cast<int>(team_->workers.size()) + 1);
  }
  follow_caller(*team_, threads_);
}

TeamLease::~TeamLease() {
  if (team_) pool().give_back(*team_);
}

bool TeamLease::run(Task task, void* context) {
  if (threads_ == 1) {
    task(context, 0, 1);
    return true;
  }
  if (lent_ != nullptr) {
    struct Job {
      Task task;
      void* context;
      int threads;
      FloatMode mode;
    } job{task, context, threads_, float_mode()};
    const auto one = [](void* of, int thread) {
      const Job& j = *static_cast<const Job*>(of);
      const FloatMode own = float_mode();  // the program's thread keeps its mode
      if (own != j.mode) set_float_mode(j.mode);
      j.task(j.context, thread, j.threads);
      if (own != j.mode) set_float_mode(own);
    };
    return lent_->run(lent_->pool, threads_, one, &job);
  }
  Team& team = *team_;
  team.task = task;
  team.context = context;
  team.threads = threads_;
  team.mode = float_mode();
  const int helpers = threads_ - 1;
  for (int i = 0; i < helpers; ++i) {
    Worker& worker = *team.workers[static_cast<std::size_t>(i)];
    worker.go.fetch_add(1);
    if (worker.asleep.load() != 0) futex_wake(worker.go);
  }
  task(context, 0, threads_);
  for (int i = 0; i < helpers; ++i) {
    const Worker& worker = *team.workers[static_cast<std::size_t>(i)];
    const std::uint32_t job = worker.go.load(std::memory_order_relaxed);
    for (int pauses = 0; worker.done.load(std::memory_order_acquire) != job; ++pauses) {
      if (pauses < kPausesBeforeYield)
        pause_briefly();
      else
        sched_yield();
    }
  }
  return true;
}

}  // namespace kiln
