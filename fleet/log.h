// What one process of a fleet began and how it ended, a line of JSON each: progress for whoever
// follows, and the reason of what failed. Who holds the file is the only process of that part.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/work_list.h"

namespace kiln {

/// What became of an item.
enum class FleetState { begun, tuned, held, failed, interrupted };
std::string_view name(FleetState state);

struct FleetEvent {
  std::string item;  // text() of it
  FleetState state = FleetState::begun;
  int threads = 0;          // it was tuned for
  double seconds = 0;       // it took
  std::string reason = {};  // of what failed
};

class FleetLog {
 public:
  /// Errors: database (cannot be written; another process holds it), naming the file.
  static Result<FleetLog> open(const std::filesystem::path& file);
  FleetLog(FleetLog&& other) noexcept;
  FleetLog& operator=(FleetLog&&) = delete;
  ~FleetLog();

  /// One write, so that a reader and a kill see whole lines. What cannot be written is a warning:
  /// the records are what counts.
  void add(const FleetEvent& event) const;

 private:
  FleetLog(int fd, std::filesystem::path file) : fd_(fd), file_(std::move(file)) {}
  int fd_;
  std::filesystem::path file_;
};

/// Every event of a file that can be read; lines that cannot are left out.
std::vector<FleetEvent> read_log(const std::filesystem::path& file);

}  // namespace kiln
