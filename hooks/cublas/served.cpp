#include "hooks/cublas/served.h"

#include <array>
#include <cstdint>

#include "hooks/common/decision.h"
#include "hooks/common/once.h"

namespace kiln::hooks {
namespace {

struct Product {
  Gemm gemm;
  int gpu = 0;
  bool operator==(const Product&) const = default;
};

/// Of what tells a program's products apart; types and layouts seldom do.
struct Hash {
  std::size_t operator()(const Product& p) const {
    const auto times = [](std::int64_t value, std::uint64_t factor) {
      return static_cast<std::uint64_t>(value) * factor;
    };
    const Gemm& g = p.gemm;
    const std::int64_t kind = static_cast<std::int64_t>(g.a.dtype) + 64 * p.gpu +
                              16 * (2 * g.a.transposed + g.b.transposed);
    const std::uint64_t sum =
        times(g.m, 0x9e3779b97f4a7c15u) + times(g.n, 0xc2b2ae3d27d4eb4fu) +
        times(g.k, 0x165667b19e3779f9u) + times(g.a.ld, 0xd6e8feb86659fd93u) +
        times(g.b.ld, 0xa0761d6478bd642fu) + times(g.d.ld, 0xe7037ed1a0b428dbu) +
        times(g.batch, 0x8ebc6af09c88c6e3u) + times(kind, 0x589965cc75374cc3u);
    return (sum >> 32) ^ sum;
  }
};

/// One for each GPU that products were computed on.
Engine* engine_of(int gpu) {
  static std::array<Once<Engine*>, 64> all;
  return all.at(static_cast<std::size_t>(gpu)).get([&] {
    return open_engine(std::string("cuda:").append(std::to_string(gpu)), Policy::error);
  });
}

std::unique_ptr<const Decision> decide_product(const Product& product) {
  Engine* const engine = engine_of(product.gpu);
  // The host's part of a call overlaps with the device's work.
  return engine == nullptr ? nullptr : decide(*engine, product.gemm, 0, 0);
}

}  // namespace

bool serve(const Call& call, cudaStream_t stream) {
  using All = Decisions<Product, Hash>;
  static Once<All*> decisions;
  const int gpu = current_gpu();
  if (gpu < 0) return false;
  const Decision* const known =
      decisions.get([] { return new All(decide_product); })->of({call.gemm, gpu});
  if (known == nullptr) return false;
  if (known->plan) {
    Operands operands = call.operands;
    operands.stream = stream;
    if (known->plan->run(operands)) return true;
  }
  if (known->log) known->log->add();
  return false;
}

}  // namespace kiln::hooks
