#include "runtime/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <cstdlib>
#include <memory>

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
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_unique<spdlog::logger>("kiln", std::move(sink));
  logger->set_pattern("kiln: %^%l%$: %v");
  const char* named = std::getenv("KILN_LOG");
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

}  // namespace

std::optional<Level> parse_level(std::string_view word) {
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (kLevels[i].first == word) return static_cast<Level>(i);
  return std::nullopt;
}

bool shows(Level level) { return logger().should_log(spdlog_level(level)); }

void write(Level level, std::string_view message) {
  logger().log(spdlog_level(level), "{}", message);
}

}  // namespace kiln::log
