#include "runtime/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "runtime/env.h"
#include "runtime/fork_gate.h"
#include "runtime/no_cancel.h"

namespace kiln::log {
namespace {

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> kLevels{
    {{"off", spdlog::level::off},
     {"error", spdlog::level::err},
     {"warn", spdlog::level::warn},
     {"info", spdlog::level::info},
     {"debug", spdlog::level::debug}}};

spdlog::level::level_enum spdlog_level(Level level) {
  return kLevels[static_cast<std::size_t>(level)].second;
}

/// Built by hand: spdlog's factories would add it to the registry that the host program shares.
spdlog::logger* make_logger() {
  // Not its mutex, which a forked child would find locked: see `writing`.
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_st>();
  auto logger = std::make_unique<spdlog::logger>("kiln", std::move(sink));
  logger->set_pattern("kiln: %^%l%$: %v");
  const char* named = env("KILN_LOG");
  const std::string_view word = named != nullptr ? named : "";
  const std::optional<Level> level = word.empty() ? Level::warn : parse_level(word);
  logger->set_level(spdlog_level(level.value_or(Level::warn)));
  if (!level)
    logger->warn("KILN_LOG = {}: must be off, error, warn, info or debug; taken as warn", word);
  return logger.release();
}

/// Never destroyed: threads and static objects that end late may still log.
spdlog::logger& logger() {
  static spdlog::logger* const made = make_logger();
  return *made;
}

/// Of the logger's sink.
std::mutex& writing() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

/// The program's callback and how many threads are inside of it.
struct Listener {
  LogCallback callback;
  int running = 0;  // under Listeners::mutex
};

struct Listeners {
  std::mutex mutex;
  std::condition_variable left;
  std::shared_ptr<Listener> current;  // null: stderr
  std::atomic<bool> any{false};       // so that stderr costs no lock
};

void before_fork();
void in_parent();
void in_child();

/// Never destroyed, as the logger.
Listeners& listeners() {
  static auto* const all = [] {
    ForkGate::at_fork({before_fork, in_parent, in_child}, ForkGate::Locks::leaves);
    return new Listeners;
  }();
  return *all;
}

/// Calls of callbacks that this thread is inside of.
thread_local std::array<const Listener*, 8> inside{};
thread_local std::size_t depth = 0;

int own_calls(const Listener& listener) {
  return static_cast<int>(std::count(inside.begin(), inside.begin() + depth, &listener));
}

void before_fork() {
  listeners().mutex.lock();
  writing().lock();
}
void in_parent() {
  writing().unlock();
  listeners().mutex.unlock();
}
void in_child() {
  Listeners& all = listeners();
  // Other threads that were inside of the callback are not here.
  if (all.current) all.current->running = own_calls(*all.current);
  new (&all.left) std::condition_variable;
  in_parent();
}

/// What waits for the end of this thread's outermost Deferred.
struct Waiting {
  Level level;
  std::string message;
};
thread_local int deferring = 0;
thread_local std::vector<Waiting>* waiting = nullptr;  // no object: exit() logs after those ended

/// False: there is none, or messages of its own calls have gone too deep.
bool told_listener(Level level, std::string_view message) {
  Listeners& all = listeners();
  if (!all.any.load(std::memory_order_acquire)) return false;
  if (deferring > 0) {
    if (waiting == nullptr) waiting = new std::vector<Waiting>;
    waiting->push_back({level, std::string(message)});
    return true;
  }
  std::unique_lock lock(all.mutex);
  const std::shared_ptr<Listener> listener = all.current;
  if (!listener || depth == inside.size()) return false;
  ++listener->running;
  lock.unlock();
  inside[depth++] = listener.get();
  try {
    listener->callback(level, message);
  } catch (...) {  // a message is no place to fail
  }
  --depth;
  lock.lock();
  --listener->running;
  lock.unlock();
  all.left.notify_all();
  return true;
}

}  // namespace

std::optional<Level> parse_level(std::string_view word) {
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (kLevels[i].first == word) return static_cast<Level>(i);
  return std::nullopt;
}

bool shows(Level level) { return logger().should_log(spdlog_level(level)); }

void write(Level level, std::string_view message) {
  if (told_listener(level, message)) return;
  spdlog::logger& to = logger();
  const std::lock_guard lock(writing());
  to.log(spdlog_level(level), "{}", message);
}

Deferred::Deferred() { ++deferring; }
Deferred::~Deferred() {
  if (--deferring > 0 || waiting == nullptr) return;
  const NoCancel whole;
  // A callback that calls kiln has messages of its own.
  const std::unique_ptr<std::vector<Waiting>> told(std::exchange(waiting, nullptr));
  for (const auto& [level, message] : *told) write(level, message);
}

}  // namespace kiln::log

namespace kiln {

void set_log(LogCallback callback) {
  using namespace log;
  const NoCancel whole;
  Listeners& all = listeners();
  std::shared_ptr<Listener> next;
  if (callback) next = std::make_shared<Listener>(Listener{std::move(callback)});
  std::unique_lock lock(all.mutex);
  const std::shared_ptr<Listener> before = std::exchange(all.current, std::move(next));
  all.any.store(all.current != nullptr, std::memory_order_release);
  if (!before) return;
  const int own = own_calls(*before);
  all.left.wait(lock, [&] { return before->running == own; });
}

void set_log_level(LogLevel level) {
  const NoCancel whole;
  log::logger().set_level(log::spdlog_level(level));
}

}  // namespace kiln
