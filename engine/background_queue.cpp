#include "engine/background_queue.h"

#include <new>

namespace kiln {

void BackgroundQueue::add(const Job& job) {
  const std::lock_guard lock(mutex_);
  if (closing_.load()) return;
  jobs_.push_back(job);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  filled_.notify_one();
}

void BackgroundQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_.store(true);
  }
  filled_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundQueue::begin_in_child() {
  new (&mutex_) std::mutex;
  new (&filled_) std::condition_variable_any;
  new (&jobs_) std::deque<Job>;
  new (&thread_) std::thread;
}

void BackgroundQueue::run() {
  for (;;) {
    Job job{};
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [&] { return closing_.load() || !jobs_.empty(); });
      if (closing_.load()) return;
      job = jobs_.front();
      jobs_.pop_front();
    }
    work_(job);
  }
}

}  // namespace kiln
