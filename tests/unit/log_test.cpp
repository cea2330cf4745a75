// Where kiln's warnings go, how much of them, and whose loggers they leave alone.
#include "runtime/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

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

}  // namespace kiln::log_test
