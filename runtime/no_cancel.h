// Keeps pthread_cancel() out of kiln's code. Knows nothing of what runs meanwhile.
#pragma once

#include <pthread.h>

namespace kiln {

/// While one lives, a cancellation of this thread stays pending; it is acted on at the first
/// cancellation point after the call. Acting on it inside would unwind through destructors and C
/// libraries (SQLite, LLVM, drivers) that hold locks and end the process where one is noexcept.
class NoCancel {
 public:
  NoCancel() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace kiln
