// Whether kiln computes a product or the library that the program called: decided once for each
// product, by the stored race between the two, then found without a lock. Knows the public face of
// kiln, and no library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
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

/// Decisions by product. Thread-safe.
template <typename Product, typename Hash>
class Decisions {
 public:
  using Decide = std::unique_ptr<const Decision> (*)(const Product&);
  explicit Decisions(Decide decide) : decide_(decide) {}

  /// Null as decide() says, and for products beyond kMostProducts, which are not counted either: a
  /// program that never repeats a shape has no use of it.
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

  const Known* find(const Product& product) {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(product);
    if (at != all_.end()) return at->second.get();
    if (all_.size() >= kMostProducts) return nullptr;
    auto made = std::make_unique<const Known>(Known{product, decide_(product)});
    return all_.emplace(product, std::move(made)).first->second.get();
  }

  const Decide decide_;
  std::array<std::atomic<const Known*>, 1024> recent_{};  // found without the lock
  std::mutex mutex_;
  std::unordered_map<Product, std::unique_ptr<const Known>, Hash> all_;
};

}  // namespace kiln::hooks
