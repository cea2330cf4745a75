// Code that searches of this process compiled: those of other sizes and shapes ask for it again.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "generator/render/code_key.h"
#include "runtime/compiler.h"
#include "runtime/quiet_lock.h"

namespace kiln {

/// Thread-safe. Of one compiler. Forgets the oldest beyond a limit of bytes.
class CodeCache {
 public:
  std::optional<Binary> find(const Source& source) const {
    const std::string key = code_key(source);
    const QuietLock lock(mutex_);
    const auto it = kept_.find(key);
    return it == kept_.end() ? std::nullopt : std::optional(it->second);
  }
  void keep(const Source& source, const Binary& binary) {
    const std::string key = code_key(source);
    const QuietLock lock(mutex_);
    if (!kept_.try_emplace(key, binary).second) return;
    order_.push_back(key);
    bytes_ += binary.image.size();
    while (bytes_ > kMostBytes) {
      const auto oldest = kept_.find(order_.front());
      bytes_ -= oldest->second.image.size();
      kept_.erase(oldest);
      order_.pop_front();
    }
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  mutable std::mutex mutex_;
  std::map<std::string, Binary> kept_;  // by code_key
  std::deque<std::string> order_;       // of arrival
  std::size_t bytes_ = 0;
};

}  // namespace kiln
