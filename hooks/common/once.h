// Values that are made on first use. Knows none of them.
#pragma once

#include <atomic>
#include <mutex>
#include <type_traits>
#include <utility>

namespace kiln::hooks {

/// Like a static object and its initialiser, except after fork(): a child whose parent was making
/// the value on another thread makes its own, where it would wait for that thread for ever.
/// Initialised before any code runs and never destroyed: constructors and destructors of other
/// libraries call BLAS, too.
template <typename T>
class Once {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  /// What `make` throws is thrown, and the next call makes the value.
  template <typename Make>
  const T& get(Make&& make) {
    if (!made_.load(std::memory_order_acquire)) [[unlikely]]
      std::call_once(once_, [&] {  // of threads that are gone after fork() it knows
        value_ = std::forward<Make>(make)();
        made_.store(true, std::memory_order_release);
      });
    return value_;
  }

 private:
  T value_{};
  std::atomic<bool> made_{false};
  std::once_flag once_;
};

}  // namespace kiln::hooks
