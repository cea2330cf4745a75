#include "generator/problem/product_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "generator/problem/bad_input.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"

namespace kiln {

Status check_list_problem(const Gemm& g) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const auto& [field, size] : {std::pair{"m", g.m}, {"n", g.n}, {"k", g.k}})
    if (size > kMost)
      return bad_input("{} = {}: products of a list are counted in 32 bits", field, size);
  for (const Operand which : kMatrices) {
    const Matrix& m = matrix(g, which);
    if (m.ld != 0) return bad_input("ld{} = {}: entries of a list have it", name(which), m.ld);
    if (m.batch_stride != 0)
      return bad_input("stride_{} = {}: entries of a list have addresses of their own", name(which),
                       m.batch_stride);
  }
  const auto refuse = [](std::string_view why) {
    return fail(ErrorCode::unsupported, fmt::format("grouping = list: {}", why));
  };
  if (has_weights(g))
    return refuse(fmt::format("b.dtype = {}: must not be weights", name(g.b.dtype)));
  for (const Operand which : {Operand::a, Operand::b})
    if (const Scale scale = scale_of(g, which); scale == Scale::mx_32)
      return refuse(
          fmt::format("scale_{} = {}: products may have any k", name(which), name(scale)));
  if (g.a.q.zero != Zero::none)
    return refuse(fmt::format("zero_a = {}: must be none", name(g.a.q.zero)));
  if (g.b_packed) return refuse("b_packed = true: B must lie in rows or columns");
  if (g.amax_d) return refuse("amax_d = true: must be false");
  return {};
}

ListEntry listed(const void* numbers, std::int64_t number) {
  const auto* const at = static_cast<const std::int32_t*>(numbers) + number * kNumbersOfEntry;
  return {
      .m = at[0], .n = at[1], .k = at[2], .lda = at[3], .ldb = at[4], .ldc = at[5], .ldd = at[6]};
}

void put_listed(void* numbers, std::int64_t number, const ListEntry& e) {
  auto* const at = static_cast<std::int32_t*>(numbers) + number * kNumbersOfEntry;
  std::ranges::transform(std::array{e.m, e.n, e.k, e.lda, e.ldb, e.ldc, e.ldd}, at,
                         [](std::int64_t x) { return static_cast<std::int32_t>(x); });
}

Gemm alone(const Gemm& gemm, const ListEntry& entry) {
  Gemm one = gemm;
  one.groups = Groups{};
  one.batch = 1;
  one.m = entry.m, one.n = entry.n, one.k = entry.k;
  one.a.ld = entry.lda, one.b.ld = entry.ldb, one.c.ld = entry.ldc, one.d.ld = entry.ldd;
  one.a.ld = one.lda(), one.b.ld = one.ldb(), one.c.ld = one.ldc(), one.d.ld = one.ldd();
  one.a.batch_stride = one.b.batch_stride = one.c.batch_stride = one.d.batch_stride = 0;
  return one;
}

Problem alone(const Problem& problem, const ListEntry& entry) {
  Problem one = problem;
  one.gemm = alone(problem.gemm, entry);
  Gemm& g = one.gemm;
  g.a.batch_stride = g.stride_a(), g.b.batch_stride = g.stride_b();
  g.c.batch_stride = g.stride_c(), g.d.batch_stride = g.stride_d();
  return one;
}

ListEntry canonical_entry(const Problem& problem, const ListEntry& entry) {
  ListEntry own = entry;
  if (problem.swapped) {
    std::swap(own.m, own.n);
    std::swap(own.a, own.b);
    std::swap(own.lda, own.ldb);
    std::swap(own.scale_a, own.scale_b);
  }
  const auto tight = [](std::int64_t& ld, std::int64_t length) {
    if (ld == 0) ld = std::max<std::int64_t>(1, length);
  };
  tight(own.lda, problem.a_k_major ? own.k : own.m);
  tight(own.ldb, problem.b_k_major ? own.k : gated(problem.gemm) ? 2 * own.n : own.n);
  tight(own.ldc, own.n);
  tight(own.ldd, own.n);
  if (own.k == 0) own.a = own.b = own.d;
  return own;
}

void canonical_entries(const Problem& problem, const ListEntry* list,
                       std::vector<ListEntry>& entries) {
  entries.resize(static_cast<std::size_t>(problem.gemm.batch));
  std::transform(list, list + problem.gemm.batch, entries.begin(),
                 [&](const ListEntry& entry) { return canonical_entry(problem, entry); });
}

Gemm usual_product(Gemm gemm) {
  constexpr double kMean = (1 + kLeastShare) / 2;
  for (std::int64_t* const size : {&gemm.m, &gemm.n, &gemm.k})
    if (*size > 0)
      *size = std::max<std::int64_t>(1, std::llround(kMean * static_cast<double>(*size)));
  return gemm;
}

Problem usual_product(const Problem& problem) {
  Problem usual = problem;
  usual.gemm = usual_product(problem.gemm);
  return usual;
}

}  // namespace kiln
