// kiln's log: sentences on stderr, never on stdout, through a logger of its own, so that the host
// program's loggers and their levels stay as they are; or to the program's callback (kiln/log.hpp).
// Knows nothing of what is said.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "kiln/log.hpp"

namespace kiln::log {

/// In the order of $KILN_LOG's values.
using Level = LogLevel;

/// Of "off", "error", "warn", "info" and "debug"; nothing for any other text.
std::optional<Level> parse_level(std::string_view word);

/// True when set_log_level() or else $KILN_LOG lets `level` through. The variable is read once, at
/// the first message of the process; unset or empty it is "warn", and a value that is none is one
/// warning that names it.
bool shows(Level level);
/// Writes one line, "kiln: warning: …", or calls the program's callback. Any thread may call it.
void write(Level level, std::string_view message);

/// While one lives, the program's callback is not called from this thread: it may call kiln, and
/// would wait for locks that this thread holds. The messages are told when the outermost one ends.
/// Those for stderr are written at once.
class Deferred {
 public:
  Deferred();
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
};

template <typename... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  if (shows(Level::warn)) write(Level::warn, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  if (shows(Level::info)) write(Level::info, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  if (shows(Level::debug)) write(Level::debug, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace kiln::log
