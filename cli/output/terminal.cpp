#include "cli/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include "runtime/env.h"

namespace kiln::cli {

std::optional<std::size_t> terminal_columns() {
  if (const char* set = env("COLUMNS")) {
    const std::string_view text = set;
    std::size_t columns = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
    if (error == std::errc{} && end == text.data() + text.size() && columns > 0) return columns;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace kiln::cli
