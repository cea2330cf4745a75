#include "decision.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace kiln::hooks {
namespace {

/// A kernel must be faster by what a challenger needs to replace a stored winner (less is noise),
/// and by what a served call costs beside its kernel: a look-up and the checks of Plan::run().
constexpr double kGain = 1.02, kCallNs = 60;
/// Products beyond are passed on uncounted: a program that never repeats a shape has no use of it.
constexpr std::size_t kMostProducts = 16384;

/// Independent multiplications, which overlap: a chain of them would take longer than the rest.
struct Hash {
  std::size_t operator()(const Product& p) const {
    const auto times = [](std::int64_t value, std::uint64_t factor) {
      return static_cast<std::uint64_t>(value) * factor;
    };
    const std::uint64_t kind = static_cast<std::uint64_t>(p.type) * 8 + p.transpose_a * 2 +
                               p.transpose_b + (static_cast<std::uint64_t>(p.threads) << 16);
    const std::uint64_t sum = times(p.m, 0x9e3779b97f4a7c15u) + times(p.n, 0xc2b2ae3d27d4eb4fu) +
                              times(p.k, 0x165667b19e3779f9u) + times(p.lda, 0xd6e8feb86659fd93u) +
                              times(p.ldb, 0xa0761d6478bd642fu) +
                              times(p.ldc, 0xe7037ed1a0b428dbu) +
                              times(p.batch, 0x8ebc6af09c88c6e3u) + kind * 0x589965cc75374cc3u;
    return (sum >> 32) ^ sum;
  }
};

Gemm gemm_of(const Product& p) {
  Gemm gemm = Gemm::row_major(p.m, p.n, p.k, p.type);
  if (p.type == bf16) gemm = gemm.output(fp32);
  gemm.a.transposed = p.transpose_a;
  gemm.b.transposed = p.transpose_b;
  gemm.a.ld = p.lda, gemm.b.ld = p.ldb, gemm.c.ld = gemm.d.ld = p.ldc;
  gemm.batch = p.batch;
  if (p.batch > 1)
    gemm.a.batch_stride = p.stride_a, gemm.b.batch_stride = p.stride_b,
    gemm.c.batch_stride = gemm.d.batch_stride = p.stride_c;
  return gemm;
}

/// Null where it cannot be opened: a warning says so, once.
Engine* opened(Policy policy) {
  OpenOptions options;
  options.policy = policy;
  options.on_untuned = [](const std::string&) {};
  auto engine = Engine::open(std::move(options));
  if (engine) return new Engine(std::move(*engine));
  std::fprintf(stderr, "kiln: all products are passed on: %s\n", engine.error().message.c_str());
  return nullptr;
}

/// Never closed: products may be computed while the process ends. Untuned problems are errors, so
/// that nothing is compiled in the caller's process.
Engine* engine() {
  static Engine* const made = opened(Policy::error);
  return made;
}

std::unique_ptr<const Decision> decide(const Product& product) {
  if (engine() == nullptr) return nullptr;
  const Gemm gemm = gemm_of(product);
  auto made = std::make_unique<Decision>();
  auto plan = engine()->plan(gemm, product.threads);
  if (plan)
    if (const auto race = plan->library_race();
        race && race->library_ns >= kGain * race->kernel_ns + kCallNs)
      made->plan = std::move(*plan);
  if (!made->plan)
    if (auto log = engine()->call_log(gemm, product.threads)) made->log = std::move(*log);
  return made->plan || made->log ? std::move(made) : nullptr;
}

/// What was found out about one product; never changed, never deleted.
struct Known {
  Product product;
  std::unique_ptr<const Decision> decision;
};

/// Every product that was asked for, and those of late where they are found without a lock.
class Decisions {
 public:
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
  const Known* find(const Product& product) {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(product);
    if (at != all_.end()) return at->second.get();
    if (all_.size() >= kMostProducts) return nullptr;
    auto made = std::make_unique<const Known>(Known{product, decide(product)});
    return all_.emplace(product, std::move(made)).first->second.get();
  }

  std::array<std::atomic<const Known*>, 1024> recent_{};
  std::mutex mutex_;
  std::unordered_map<Product, std::unique_ptr<const Known>, Hash> all_;
};

}  // namespace

bool is_sound(const Product& p) {
  const std::int64_t of_a = p.transpose_a ? p.m : p.k, of_b = p.transpose_b ? p.k : p.n;
  return p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0 && p.lda >= of_a && p.ldb >= of_b &&
         p.ldc >= p.n;
}

const Decision* decision(const Product& product) {
  static Decisions* const decisions = new Decisions;
  return decisions->of(product);
}

Status compute(const Product& product, const Operands& operands) {
  static Engine* const any = opened(Policy::use_best_known);
  if (any == nullptr)
    return tl::unexpected(Error{ErrorCode::database, "no engine could be opened"});
  Operands call = operands;
  call.threads = product.threads;
  return any->gemm(gemm_of(product), call);
}

}  // namespace kiln::hooks
