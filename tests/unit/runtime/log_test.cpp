// Where kiln's warnings go, how much of them, and whose loggers they leave alone.
#include "runtime/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/child.h"
#include "support/temp_dir.h"

namespace kiln::log_test {

using testing::IsEmpty;

struct Said {
  std::string out, err;
};

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// What a fresh process writes when each level is used once under `value` of $KILN_LOG.
Said said_under(const char* value) {
  TempDir dir;
  const bool ran = test::in_child([&] {
    const auto redirect = [&](const char* name, int to) {
      const int fd = ::open((dir / name).c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      return fd >= 0 && ::dup2(fd, to) == to;
    };
    if (!redirect("out", STDOUT_FILENO) || !redirect("err", STDERR_FILENO)) return false;
    if (value == nullptr)
      ::unsetenv("KILN_LOG");
    else
      ::setenv("KILN_LOG", value, 1);
    log::write(log::Level::error, "an error");
    log::warn("a warning of {}", 1);
    log::info("an info");
    log::debug("a detail");
    std::fflush(nullptr);
    return true;
  });
  EXPECT_TRUE(ran);
  return {contents(dir / "out"), contents(dir / "err")};
}

TEST(Log, TheLevelIsThatOfTheEnvironment) {
  const struct {
    const char* value;
    int lines;
  } cases[] = {{"off", 0}, {"error", 1}, {"warn", 2}, {nullptr, 2},
               {"", 2},    {"info", 3},  {"debug", 4}};
  for (const auto& [value, lines] : cases) {
    const Said said = said_under(value);
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), lines) << said.err;
    EXPECT_THAT(said.out, IsEmpty());
  }
  EXPECT_EQ(said_under("warn").err, "kiln: error: an error\nkiln: warning: a warning of 1\n");
}

TEST(Log, AnUnknownLevelIsOneWarning) {
  const Said said = said_under("loud");
  EXPECT_EQ(said.err,
            "kiln: warning: KILN_LOG = loud: must be off, error, warn, info or debug; taken as "
            "warn\nkiln: error: an error\nkiln: warning: a warning of 1\n");
}

TEST(Log, TheHostsOwnLoggerHearsNothingAndKeepsItsLevel) {
  EXPECT_TRUE(test::in_child([] {
    ::setenv("KILN_LOG", "debug", 1);
    std::ostringstream heard;
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "host", std::make_shared<spdlog::sinks::ostream_sink_mt>(heard)));
    spdlog::set_level(spdlog::level::critical);
    log::warn("for stderr only");
    return heard.str().empty() && log::shows(log::Level::debug) &&
           spdlog::default_logger()->level() == spdlog::level::critical &&
           spdlog::get("kiln") == nullptr;
  }));
}

/// Messages as a program's callback hears them.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> lines;
  LogCallback callback() {
    return [this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex);
      lines.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(message));
    };
  }
};

TEST(LogCallback, HearsWhatItsLevelLetsThroughInsteadOfStderr) {
  EXPECT_TRUE(test::in_child([] {
    Heard heard;
    set_log_level(LogLevel::info);
    set_log(heard.callback());
    log::warn("one {}", 1);
    log::info("two");
    log::debug("three");
    set_log(nullptr);
    log::warn("to stderr again");
    return heard.lines == std::vector<std::string>{"2 one 1", "3 two"};
  }));
}

TEST(LogCallback, MayThrowLogAndReplaceItself) {
  EXPECT_TRUE(test::in_child([] {
    Heard heard;
    int calls = 0;
    set_log([&](LogLevel level, std::string_view message) {
      if (++calls == 1) log::warn("from inside");  // reaches this callback again
      if (message == "last") set_log(heard.callback());
      heard.callback()(level, message);
      throw std::runtime_error("dropped");
    });
    log::warn("first");
    log::warn("last");
    log::warn("to the next");
    set_log(nullptr);
    return heard.lines ==
           std::vector<std::string>{"2 from inside", "2 first", "2 last", "2 to the next"};
  }));
}

TEST(LogCallback, IsNotRunningWhenItsReplacementReturns) {
  EXPECT_TRUE(test::in_child([] {
    std::atomic<bool> stop{false}, good{true};
    std::vector<std::thread> talkers;
    for (int t = 0; t < 3; ++t)
      talkers.emplace_back([&] {
        while (!stop) log::warn("all the time");
      });
    for (int i = 0; i < 200; ++i) {
      auto alive = std::make_unique<std::atomic<int>>(1);
      set_log([&good, seen = alive.get()](LogLevel, std::string_view) {
        if (*seen != 1) good = false;
        std::this_thread::yield();
        if (*seen != 1) good = false;
      });
      std::this_thread::yield();
      set_log([](LogLevel, std::string_view) {});
      *alive = 0;
    }
    stop = true;
    for (std::thread& one : talkers) one.join();
    return good.load();
  }));
}

}  // namespace kiln::log_test
