// Who may run the linker now, and whether it may run at all. Knows nothing of lld.
#pragma once

#include <mutex>
#include <string>

namespace kiln::clang_side {

/// What one run of the linker said of itself.
struct LinkerRun {
  int code = 0;
  /// False after a fatal error or a crash: its global state is then whatever it was at that moment.
  bool can_run_again = true;
};

/// lld keeps its state in globals: two runs at once are a SIGSEGV, and a run after one that left
/// that state behind may link the wrong thing. So runs are serialised, and none is
/// started after one that cannot be followed by another.
class LinkGate {
 public:
  /// Calls `linker`, which appends what it has to say to `text`. Returns the error, empty when it
  /// linked.
  template <typename F>
  std::string pass(std::string& text, F&& linker) {
    const std::lock_guard lock(mutex_);
    if (!last_words_.empty())
      return "link: lld cannot run again in this process since it ended with: " + last_words_;
    const LinkerRun run = linker();
    if (!run.can_run_again) last_words_ = text.empty() ? "no message" : text;
    return run.code != 0 || !run.can_run_again ? "link: " + text : std::string();
  }

 private:
  std::mutex mutex_;
  std::string last_words_;  // of the run that was the last; empty while lld can run
};

}  // namespace kiln::clang_side
