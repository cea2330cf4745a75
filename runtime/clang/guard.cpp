#include "runtime/clang/guard.h"

#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <pthread.h>
#include <sys/mman.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>

namespace kiln::clang_side {
namespace {

// Clang's own driver runs the front end on 8 MB; the caller's thread may have much less.
constexpr size_t kStackBytes = 8U << 20;
constexpr size_t kGuardBytes = 64U << 10;

// LLVM's exit code for a fatal error that is not a crash (sysexits EX_SOFTWARE).
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

// The stack of one guarded call. LLVM keeps global lists of objects that live on it (timer groups
// are one), and a crash leaves them listed: the memory of such a stack stays mapped for good, or
// the next compile writes into whatever came after it, under a lock that is never released.
class Stack {
 public:
  Stack() : base_(::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0)) {
    if (base_ == MAP_FAILED || ::mprotect(base_, kGuardBytes, PROT_NONE) != 0)
      throw std::system_error(errno, std::generic_category(), "the compiler's stack");
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() {
    if (!kept_) ::munmap(base_, kStackBytes);
  }

  void* base() const { return base_; }
  void keep() { kept_ = true; }

 private:
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;

  void* base_;
  bool kept_ = false;
};

// Runs `body` to its end on `stack`.
void run_on(const Stack& stack, const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_t thread{};
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstack(&attributes, stack.base(), kStackBytes);
  const auto enter = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  const int refused =
      ::pthread_create(&thread, &attributes, enter, const_cast<std::function<void()>*>(&body));
  ::pthread_attr_destroy(&attributes);
  if (refused != 0)
    throw std::system_error(refused, std::generic_category(), "the compiler's thread");
  ::pthread_join(thread, nullptr);
}

std::string describe(int code, const std::string& message) {
  if (!message.empty()) return "fatal error in the compiler: " + message;
  // The recovery context reports a signal the way a shell does.
  if (code > 128) return std::string("the compiler crashed: ") + ::strsignal(code - 128);
  return std::string("the compiler gave up with code ").append(std::to_string(code));
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
  std::exception_ptr thrown;
  bool returned = false;
  Stack stack;
  llvm::CrashRecoveryContext context;
  run_on(stack, [&] {
    returned = context.RunSafely([&] {
      fatal_message = &message;
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
  });
  if (thrown) std::rethrow_exception(thrown);
  if (returned) return std::nullopt;
  stack.keep();
  return describe(context.RetCode, message);
}

}  // namespace kiln::clang_side
