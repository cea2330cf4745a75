#include "decision.h"

#include <cstddef>

#include "hooks/common/decision.h"
#include "hooks/common/once.h"

namespace kiln::hooks {
namespace {

/// Of a served call beside its kernel: a look-up and the checks of Plan::run().
constexpr double kCallNs = 60;

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

std::unique_ptr<const Decision> decide_product(const Product& product) {
  static Once<Engine*> opened;
  Engine* const engine = opened.get([] { return open_engine("cpu", Policy::error); });
  return engine == nullptr ? nullptr : decide(*engine, gemm_of(product), product.threads, kCallNs);
}

}  // namespace

bool is_sound(const Product& p) {
  const std::int64_t of_a = p.transpose_a ? p.m : p.k, of_b = p.transpose_b ? p.k : p.n;
  return p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0 && p.lda >= of_a && p.ldb >= of_b &&
         p.ldc >= p.n;
}

bool has_strides(const Product& p) {
  return p.batch == 1 || (p.stride_a > 0 && p.stride_b > 0 && p.stride_c > 0);
}

const Decision* decision(const Product& product) {
  using All = Decisions<Product, Hash>;
  static Once<All*> decisions;
  return decisions.get([] { return new All(decide_product); })->of(product);
}

Status compute(const Product& product, const Operands& operands) {
  static Once<Engine*> opened;
  Engine* const any = opened.get([] { return open_engine("cpu", Policy::use_best_known); });
  if (any == nullptr)
    return tl::unexpected(Error{ErrorCode::database, "no engine could be opened"});
  Operands call = operands;
  call.threads = product.threads;
  if (has_strides(product)) return any->gemm(gemm_of(product), call);
  Product one = product;
  one.batch = 1;
  const Gemm gemm = gemm_of(one);
  const auto skip = [](const void* from, std::int64_t elements, DType type) {
    return static_cast<const std::byte*>(from) + elements * size_of(type);
  };
  for (std::int64_t i = 0; i < product.batch; ++i) {
    call.a = skip(operands.a, i * product.stride_a, gemm.a.dtype);
    call.b = skip(operands.b, i * product.stride_b, gemm.b.dtype);
    call.c = skip(operands.c, i * product.stride_c, gemm.c.dtype);
    call.d = const_cast<std::byte*>(static_cast<const std::byte*>(call.c));
    if (Status ok = any->gemm(gemm, call); !ok) return ok;
  }
  return {};
}

}  // namespace kiln::hooks
