// The parent's handle on one worker process: started, asked under a time limit, and reaped
// with a reason when it ends. Does not know what it is asked to do.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "runtime/worker_program.h"
#include "tuner/worker/protocol.h"

namespace kiln {

class Starvation;

/// While it lives, what this thread asks of workers is waited for no longer than until `over` says
/// so: a worker that has not answered by then is ended, which counts as a timeout. One inside
/// another takes its place.
class CutOff {
 public:
  explicit CutOff(std::function<bool()> over);
  CutOff(const CutOff&) = delete;
  CutOff& operator=(const CutOff&) = delete;
  ~CutOff();

 private:
  const std::function<bool()> over_;
  std::function<bool()> outer_;
};

/// One running worker, with only those variables of this process's environment that it needs. It
/// dies with the thread that started it, with this object, and by SIGKILL when it overruns a limit:
/// its work is then over, whatever the state it was in.
class WorkerProcess {
 public:
  /// Errors: device (it could not be started).
  static Result<WorkerProcess> start(const std::filesystem::path& executable);
  WorkerProcess(WorkerProcess&&) noexcept = default;
  WorkerProcess& operator=(WorkerProcess&&) noexcept;
  ~WorkerProcess();

  /// Sends a request and waits for the answer to it, `seconds` times patience() and as long as the
  /// worker waits for a core, but never beyond a CutOff; an answer to an earlier one, which a
  /// candidate's code may have caused to be sent, is dropped. A crash, an exit or a timeout is the
  /// Failure of the candidate that `status().candidate` names; the process is gone then.
  tl::expected<Message, Failure> ask(const nlohmann::json& request, std::span<const int> files,
                                     double seconds);
  /// Whether the last request came as far as loading code. What ended the process before that (no
  /// memory for its libraries, say) is the machine's trouble, not the code's.
  bool came_to_code() const { return status_.page->phase > WorkerStatus::preparing; }
  bool alive() const { return pid_.value > 0; }
  const WorkerStatus& status() const { return *status_.page; }
  pid_t pid() const { return pid_.value; }

 private:
  struct Pid {
    Pid() = default;
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, 0)) {}
    pid_t value = 0;
  };
  struct Page {
    Page() = default;
    Page(Page&& other) noexcept : page(std::exchange(other.page, nullptr)) {}
    ~Page();
    WorkerStatus* page = nullptr;
  };

  WorkerProcess() = default;
  int bury();
  std::optional<int> reap(double seconds);
  Failure obituary(int wait_status) const;
  /// False: the limit came first.
  bool readable_within(std::int64_t begin, double seconds, const Starvation& starved) const;

  Pid pid_;
  Fd socket_;
  Page status_;
  std::int64_t asked_ = 0;  // the number of the last request
};

/// A worker between two searches, where it serves more than one problem (a GPU's): it need not open
/// the device again. Used by one thread.
struct IdleWorker {
  std::optional<WorkerProcess> process;
};

}  // namespace kiln
