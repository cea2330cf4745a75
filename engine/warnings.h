// What goes wrong beside a call that succeeds, as a write to the database.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "kiln/error.hpp"
#include "runtime/log.h"
#include "runtime/quiet_lock.h"

namespace kiln {

/// Logs each message once.
class Warnings {
 public:
  void operator()(const Status& status) {
    if (status) return;
    const QuietLock lock(mutex_);
    if (said_.insert(status.error().message).second) log::warn("{}", status.error().message);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> said_;
};

}  // namespace kiln
