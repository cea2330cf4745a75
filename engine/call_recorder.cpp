#include "engine/call_recorder.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>
#include <new>
#include <set>
#include <utility>

#include "runtime/fork_gate.h"
#include "runtime/log.h"
#include "runtime/no_cancel.h"
#include "runtime/own_folder.h"

namespace kiln {

/// Those of this process: exit() adds what they counted, and fork() takes them along.
struct LiveRecorders {
  std::mutex mutex;
  std::set<CallRecorder*> all;

  /// Never destroyed: exit() may come before or after any static object's end.
  static LiveRecorders& get() {
    static LiveRecorders& live = [&]() -> LiveRecorders& {
      std::atexit([] { get().flush(); });
      // Counters and SQLite are at rest while a process forks.
      ForkGate::at_fork(
          {[] { get().lock(); }, [] { get().unlock(); }, [] { get().begin_in_child(); }});
      return *new LiveRecorders;
    }();
    return live;
  }

  void flush() {
    const log::Deferred messages;
    const std::lock_guard lock(mutex);
    for (CallRecorder* recorder : all) recorder->flush();
  }
  void lock() {
    mutex.lock();
    for (CallRecorder* recorder : all) recorder->mutex_.lock();
  }
  void unlock() {
    for (CallRecorder* recorder : all) recorder->mutex_.unlock();
    mutex.unlock();
  }
  void begin_in_child() {
    for (CallRecorder* recorder : all) recorder->begin_in_child();
    unlock();
  }
};

CallRecorder::CallRecorder(std::filesystem::path file, DeviceCaps device)
    : file_(std::move(file)), device_(std::move(device)) {
  LiveRecorders& live = LiveRecorders::get();
  const std::lock_guard lock(live.mutex);
  live.all.insert(this);
}

Result<std::shared_ptr<CallRecorder>> CallRecorder::open(std::filesystem::path file,
                                                         DeviceCaps device) {
  if (file == kMemory)
    return std::shared_ptr<CallRecorder>(new CallRecorder({}, std::move(device)));
  // The process may go elsewhere before it writes.
  std::error_code error;
  if (auto absolute = std::filesystem::absolute(file, error); !error) file = std::move(absolute);
  {
    const log::Deferred messages;
    const std::lock_guard at_rest(LiveRecorders::get().mutex);  // no fork meanwhile
    if (Status made = prepare_calls(file); !made) return tl::unexpected(made.error());
  }
  return std::shared_ptr<CallRecorder>(new CallRecorder(std::move(file), std::move(device)));
}

CallRecorder::~CallRecorder() {
  const NoCancel whole;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  closed_.notify_all();
  if (thread_.joinable()) thread_.join();
  flush();
  // Until here a fork waits for what this writes.
  LiveRecorders& live = LiveRecorders::get();
  const std::lock_guard lock(live.mutex);
  live.all.erase(this);
}

CallCounter& CallRecorder::counter(const Gemm& gemm, int threads) {
  keep_flushing();
  std::unique_lock lock(mutex_);
  const auto found = counted_.find({gemm, threads});
  if (found != counted_.end()) return found->second->counter;
  if (counted_.size() < kMostProblems)
    return counted_.emplace(std::pair(gemm, threads), std::make_unique<Counted>())
        .first->second->counter;
  const bool told = std::exchange(others_told_, true);
  lock.unlock();  // a callback that hears the message may call kiln
  if (!told)
    log::warn("recorded calls {}: {} problems are counted; calls of others are not recorded",
              file_.empty() ? kMemory : file_.string(), kMostProblems);
  return others_;
}

std::vector<CallCount> CallRecorder::counts() {
  const std::lock_guard lock(mutex_);
  std::vector<CallCount> all;
  for (const auto& [key, counted] : counted_) {
    const CallCounter::Counts counts = counted->counter.counts();
    if (counts.calls == 0) continue;
    const RecordedCalls row{
        .calls = counts.calls, .timed_calls = counts.timed_calls, .timed_ns = counts.timed_ns};
    all.push_back({key.first, key.second, row.calls, row.ns_per_call()});
  }
  return all;
}

void CallRecorder::flush(std::chrono::milliseconds wait) {
  const NoCancel whole;
  const log::Deferred messages;
  const std::lock_guard lock(mutex_);
  flush_or_warn(wait);
}

Status CallRecorder::add_fresh(std::chrono::milliseconds wait) {
  if (file_.empty()) return {};
  std::vector<RecordedCalls> fresh;
  std::vector<std::pair<Counted*, CallCounter::Counts>> now;
  for (const auto& [key, counted] : counted_) {
    const CallCounter::Counts counts = counted->counter.counts();
    const CallCounter::Counts& before = counted->written;
    if (counts.calls == before.calls) continue;
    DeviceCaps device = device_;
    device.compute_units = key.second;
    fresh.push_back({.device = fingerprint(device),
                     .gemm = key.first,
                     .threads = key.second,
                     .calls = counts.calls - before.calls,
                     .timed_calls = counts.timed_calls - before.timed_calls,
                     .timed_ns = counts.timed_ns - before.timed_ns});
    now.emplace_back(counted.get(), counts);
  }
  if (fresh.empty()) return {};
  if (Status added = add_calls(file_, fresh, wait); !added) return added;
  for (const auto& [counted, counts] : now) counted->written = counts;
  return {};
}

void CallRecorder::flush_or_warn(std::chrono::milliseconds wait) {
  std::string wrong;
  try {
    if (const Status added = add_fresh(wait); !added) wrong = added.error().message;
  } catch (const std::exception& e) {
    wrong = fmt::format("recorded calls {}: {}", file_.string(), e.what());
  }
  failures_ = wrong.empty() ? 0 : failures_ + 1;
  // Where many processes write, a wait may be too short once; that is not worth a word.
  const bool passing = failures_ == 1 && wait < kLongWait;
  if (wrong.empty() || passing || wrong == warned_) return;
  warned_ = wrong;
  log::warn("{}; what was counted is kept to be added later", wrong);
}

void CallRecorder::start_thread() {
  const log::Deferred messages;
  const std::lock_guard lock(mutex_);
  if (running_.load(std::memory_order_relaxed) || closing_) return;
  if (file_.empty()) return running_.store(true, std::memory_order_relaxed);
  stay_loaded();  // the thread runs this library's code until the recorder is destroyed
  // The program's signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run_thread(); });
    running_.store(true, std::memory_order_relaxed);
  } catch (const std::exception& e) {
    running_.store(true, std::memory_order_relaxed);  // not tried again at every call
    log::warn("recorded calls {}: no thread: {}; they are added when the program ends",
              file_.string(), e.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void CallRecorder::run_thread() {
  constexpr std::chrono::milliseconds kFirst{100}, kLast{10000};
  for (auto interval = kFirst;; interval = std::min(2 * interval, kLast)) {
    const log::Deferred messages;  // told before the next wait, without the lock
    std::unique_lock lock(mutex_);
    if (closed_.wait_for(lock, interval, [this] { return closing_; })) return;
    flush_or_warn(kShortWait);
  }
}

void CallRecorder::begin_in_child() {
  // What the parent counted is the parent's to write. Its thread is not here: nothing is joined,
  // and nobody waits.
  for (auto& [key, counted] : counted_) {
    counted->written = counted->counter.counts();
    counted->counter.begin_again();
  }
  new (&thread_) std::thread;
  new (&closed_) std::condition_variable;
  running_.store(false, std::memory_order_relaxed);
}

}  // namespace kiln
