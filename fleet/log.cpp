#include "fleet/log.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "cache/layers/trust.h"
#include "cache/printable.h"
#include "fleet/shared_file.h"
#include "runtime/log.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kStates{"begun", "tuned", "held", "failed",
                                                  "interrupted"};

std::optional<FleetState> state_named(std::string_view name) {
  for (std::size_t i = 0; i < kStates.size(); ++i)
    if (kStates[i] == name) return static_cast<FleetState>(i);
  return std::nullopt;
}

bool ends_within_a_line(int fd) {
  char last = '\n';
  const off_t size = ::lseek(fd, 0, SEEK_END);
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

std::optional<FleetEvent> event_of(const std::string& line) {
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) return std::nullopt;
  try {
    const auto state = state_named(row.at("state").get<std::string>());
    if (!state) return std::nullopt;
    // Others may have written the file.
    return FleetEvent{printable_line(row.at("item").get<std::string>()), *state,
                      row.value("threads", 0), row.value("seconds", 0.0),
                      printable_line(row.value("reason", ""))};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string_view name(FleetState state) { return kStates[static_cast<std::size_t>(state)]; }

Result<FleetLog> FleetLog::open(const std::filesystem::path& file) {
  const auto cannot = [&](const std::string& why) {
    return fail(ErrorCode::database, fmt::format("{}: {}", file.string(), why));
  };
  const int fd =
      ::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) return cannot(::strerror(errno));
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return cannot(fmt::format("it is {}, not a regular file", kind_of_file(info.st_mode)));
  }
  // A file system without locks is no reason not to tune: two processes of one part waste time
  // there and lose nothing, since the database has locks of its own.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    return cannot("another process tunes this part of the list");
  }
  // What was being written when its process was killed.
  if (ends_within_a_line(fd) && ::write(fd, "\n", 1) != 1)
    log::warn("{}: {}", file.string(), ::strerror(errno));
  return FleetLog(fd, file);
}

FleetLog::FleetLog(FleetLog&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), file_(std::move(other.file_)) {}

FleetLog::~FleetLog() {
  if (fd_ >= 0) ::close(fd_);
}

void FleetLog::add(const FleetEvent& event) const {
  Json row{{"item", event.item}, {"state", name(event.state)}};
  if (event.threads > 0) row["threads"] = event.threads;
  if (event.seconds > 0) row["seconds"] = event.seconds;
  if (!event.reason.empty()) row["reason"] = event.reason;
  const std::string line = row.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log::warn("{}: {}", file_.string(), ::strerror(errno));
}

std::vector<FleetEvent> read_log(const std::filesystem::path& file) {
  std::vector<FleetEvent> events;
  const auto text = read_shared(file);
  if (!text) {
    log::warn("{}", text.error().message);
    return events;
  }
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);)
    if (auto event = event_of(line)) events.push_back(std::move(*event));
  return events;
}

}  // namespace kiln
