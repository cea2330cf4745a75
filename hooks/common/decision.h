// Whether kiln computes a product or the library that the program called: decided once for each
// product, by the stored race between the two, then found without a lock. Knows the public face of
// kiln, and no library.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "kiln/kiln.hpp"

namespace kiln::hooks {

/// What was found out about a product. Lives until the process ends.
struct Decision {
  std::optional<Plan> plan;    // kiln's kernel, where it is faster than the library
  std::optional<CallLog> log;  // where calls that are passed on are counted
};

/// Never closed: products may be computed while the process ends. Null where it cannot be opened:
/// a warning on stderr says so. With Policy::error nothing is compiled in the caller's process.
Engine* open_engine(const std::string& device, Policy policy);

/// A kernel must be faster by what a challenger needs to replace a stored winner (less is noise),
/// and by `call_ns`, what a served call costs beside its kernel. Null: nothing is known of the
/// product, and its calls are not recorded.
std::unique_ptr<const Decision> decide(Engine& engine, const Gemm& gemm, int threads,
                                       double call_ns);

/// Decisions by product. Thread-safe; a forked child goes on with what was decided, whatever other
/// threads of its parent were deciding.
template <typename Product, typename Hash>
class Decisions {
 public:
  using Decide = std::unique_ptr<const Decision> (*)(const Product&);
  explicit Decisions(Decide decide) : decide_(decide) {
    static std::once_flag once;
    std::call_once(once, [] {
      pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); }, [] { mutex_.unlock(); });
    });
  }

  /// Null as decide() says, and for products beyond kMostProducts, which are not counted either: a
  /// program that never repeats a shape has no use of it. Null also where there is no memory, and
  /// for a call that this thread makes while it decides (from a signal handler, or from a library
  /// that is loaded meanwhile).
  const Decision* of(const Product& product) {
    std::atomic<const Known*>& recent = recent_[Hash{}(product) % recent_.size()];
    const Known* known = recent.load(std::memory_order_acquire);
    if (known == nullptr || known->product != product) {
      known = find(product);
      if (known == nullptr) return nullptr;
      recent.store(known, std::memory_order_release);
    }
    return known->decision.get();
  }

 private:
  static constexpr std::size_t kMostProducts = 16384;

  /// Never changed, never deleted.
  struct Known {
    Product product;
    std::unique_ptr<const Decision> decision;
  };

  /// While one lives, this thread asks for a product that is not among the recent ones.
  class Asking {
   public:
    Asking() { now_ = true; }
    ~Asking() { now_ = false; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    static bool now() { return now_; }

   private:
    inline static thread_local bool now_ = false;
  };

  const Known* find(const Product& product) {
    if (Asking::now()) return nullptr;
    const Asking asking;
    try {
      if (const auto known = look_up(product)) return *known;
      // Without the lock, which a child would find held; threads that meet here decide the same.
      auto made = std::make_unique<const Known>(Known{product, decide_(product)});
      const std::lock_guard lock(mutex_);
      return all_.try_emplace(product, std::move(made)).first->second.get();
    } catch (const std::exception&) {  // callers are of C and Fortran
      return nullptr;
    }
  }

  /// Nothing: it is not decided yet. Null: it never will be.
  std::optional<const Known*> look_up(const Product& product) const {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(product);
    if (at != all_.end()) return at->second.get();
    return all_.size() >= kMostProducts ? std::optional<const Known*>(nullptr) : std::nullopt;
  }

  /// Of all tables of a kind: handlers of fork() know none. Nobody waits while holding it.
  inline static std::mutex mutex_;
  const Decide decide_;
  std::array<std::atomic<const Known*>, 1024> recent_{};  // found without the lock
  std::unordered_map<Product, std::unique_ptr<const Known>, Hash> all_;
};

}  // namespace kiln::hooks
