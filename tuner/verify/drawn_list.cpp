#include "tuner/verify/drawn_list.h"

#include <algorithm>
#include <cmath>

#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"

namespace kiln {
namespace {

/// A size of exact data: 0, few, beside a boundary that tiles have, or all.
std::int64_t hostile_size(Random& random, std::int64_t most) {
  return random.below(5) == 0 ? most : hostile_count(random, most);
}

}  // namespace

void fill_list(const Gemm& gemm, Data kind, Random& random, void* data) {
  const auto share = [&](std::int64_t most) {
    const double part = static_cast<double>(random.below(1001)) / 1000;
    return most == 0
               ? 0
               : std::clamp<std::int64_t>(std::llround((kLeastShare + (1 - kLeastShare) * part) *
                                                       static_cast<double>(most)),
                                          1, most);
  };
  const auto size = [&](std::int64_t most) {
    return kind == Data::exact ? hostile_size(random, most) : share(most);
  };
  for (std::int64_t number = 0; number < gemm.batch; ++number) {
    ListEntry entry{.m = size(gemm.m), .n = size(gemm.n), .k = size(gemm.k)};
    Gemm one = gemm;
    one.groups = Groups{};
    one.m = entry.m, one.n = entry.n, one.k = entry.k;
    const auto pitch = [&](Operand which) {
      const std::int64_t least =
          aligned_pitch(gemm, which, std::max<std::int64_t>(1, extent(one, which).length));
      const std::int64_t room = leading_dimension(gemm, which) - least;
      return random.below(3) == 0
                 ? least
                 : aligned_pitch(gemm, which,
                                 least + random.below(std::min<std::int64_t>(room, 40) + 1));
    };
    entry.lda = pitch(Operand::a);
    entry.ldb = pitch(Operand::b);
    entry.ldd = pitch(Operand::d);
    entry.ldc = kind == Data::exact ? entry.ldd : pitch(Operand::c);
    put_listed(data, number, entry);
  }
}

std::vector<Filling> fillings(const Gemm& gemm, Operand which, std::uint64_t seed,
                              const void* numbers, void* data) {
  if (!lists_products(gemm) || which == Operand::groups || !present(gemm, which))
    return {{gemm, seed, data}};
  constexpr std::uint64_t kApart = 1000;  // no other seed of one verification is so far away
  std::vector<Filling> all;
  for (const ProductPart& part : parts_of(gemm, numbers))
    all.push_back(
        {part.gemm, seed + kApart * static_cast<std::uint64_t>(part.group + 1),
         static_cast<std::byte*>(data) +
             offset_bytes(dtype_of(gemm, which), part.group * batch_stride(gemm, which))});
  return all;
}

}  // namespace kiln
