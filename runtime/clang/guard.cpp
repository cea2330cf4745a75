#include "runtime/clang/guard.h"

#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/ErrorHandling.h>

#include <csignal>
#include <cstring>
#include <mutex>

namespace kiln::clang_side {
namespace {

// Clang's own driver runs the front end on 8 MB; the caller's thread may have much less.
constexpr unsigned kStackBytes = 8U << 20;

// LLVM's exit code for a fatal error that is no crash (sysexits EX_SOFTWARE).
constexpr int kFatalExit = 70;

thread_local std::string* fatal_message = nullptr;

void on_fatal_error(void*, const char* reason, bool) {
  auto* context = llvm::CrashRecoveryContext::GetCurrent();
  if (context == nullptr || fatal_message == nullptr) return;  // not ours: LLVM aborts
  *fatal_message = reason;
  context->HandleExit(kFatalExit);
}

// The recovery handlers replace the process's own for SIGSEGV and its like, so they are installed
// only while something compiles.
class Handlers {
 public:
  Handlers() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) llvm::CrashRecoveryContext::Enable();
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;
  ~Handlers() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) llvm::CrashRecoveryContext::Disable();
  }

 private:
  static inline std::mutex mutex_;
  static inline int users_ = 0;
};

std::string describe(int code, const std::string& message) {
  if (!message.empty()) return "fatal error in the compiler: " + message;
  // The recovery context reports a signal the way a shell does.
  if (code > 128) return std::string("the compiler crashed: ") + ::strsignal(code - 128);
  return "the compiler gave up with code " + std::to_string(code);
}

}  // namespace

std::optional<std::string> run_guarded(const std::function<void()>& work) {
  static const bool installed = [] {
    llvm::install_fatal_error_handler(on_fatal_error);
    return true;
  }();
  static_cast<void>(installed);
  const Handlers handlers;
  std::string message;
  llvm::CrashRecoveryContext context;
  const bool returned = context.RunSafelyOnThread(
      [&] {
        fatal_message = &message;
        work();
      },
      kStackBytes);
  if (returned) return std::nullopt;
  return describe(context.RetCode, message);
}

}  // namespace kiln::clang_side
