// The products of a list (Grouping::list): what a problem with one may be, its entries in canonical
// form. Sizes drawn for a list are kept as numbers (the operand `groups`), without addresses. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/operand.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"

namespace kiln {

inline bool lists_products(const Gemm& gemm) { return gemm.grouping() == Grouping::list; }

/// What such a problem refuses. Errors: bad_input, unsupported.
Status check_list_problem(const Gemm& gemm);

/// Numbers of one entry without addresses: m, n, k and the leading dimensions of A, B, C and D.
inline constexpr std::int64_t kNumbersOfEntry = 7;
/// Entry `number` of a drawn list, without addresses.
ListEntry listed(const void* numbers, std::int64_t number);
void put_listed(void* numbers, std::int64_t number, const ListEntry& entry);

/// Of an entry the first so many bytes: those that kernels of the problem know.
inline std::int64_t known_bytes_of_entry(const Gemm& gemm) {
  const bool scaled = gemm.a.q.scale != Scale::none || gemm.b.q.scale != Scale::none ||
                      gemm.d.q.scale != Scale::none;
  return scaled ? std::int64_t{sizeof(ListEntry)} : std::int64_t{offsetof(ListEntry, scale_a)};
}

/// Whether the entry's D has elements.
inline bool writes_d(const ListEntry& entry) { return entry.m > 0 && entry.n > 0; }

/// One product as a problem without groups, its leading dimensions spelt out.
Gemm alone(const Gemm& gemm, const ListEntry& entry);
/// The same in canonical form, of an entry in canonical form.
Problem alone(const Problem& problem, const ListEntry& entry);

/// The entry of a call in canonical form, no leading dimension 0. A and B of a product without k
/// are its D: an address that may be worked with, and from which nothing is read.
ListEntry canonical_entry(const Problem& problem, const ListEntry& entry);
/// All entries of a call in canonical form.
void canonical_entries(const Problem& problem, const ListEntry* list,
                       std::vector<ListEntry>& entries);

/// A drawn list with addresses: each product lies in a place of its own of the operands that
/// `pointers` (Operands or kernel arguments) names, as many elements apart as batch_stride() says.
/// A and B of a product without k are null.
template <typename Pointers>
std::vector<ListEntry> entries_of(const Gemm& gemm, const void* numbers, const Pointers& pointers);

/// Makes a call of one product of `to` (Operands or kernel arguments).
template <typename Args>
void call_one(Args& to, const ListEntry& entry) {
  to.m = entry.m, to.n = entry.n, to.k = entry.k, to.batch = 1;
  to.lda = entry.lda, to.ldb = entry.ldb, to.ldc = entry.ldc, to.ldd = entry.ldd;
  to.a = entry.a, to.b = entry.b, to.c = entry.c, to.d = entry.d;
  to.bias = entry.bias, to.residual = entry.residual;
  to.scale_a = entry.scale_a, to.scale_b = entry.scale_b, to.scale_d = entry.scale_d;
}

/// The problem whose sizes are those of a product as it is drawn for timing, on average.
Gemm usual_product(Gemm gemm);
Problem usual_product(const Problem& problem);
/// Sizes of a product that is drawn for timing lie from this share of the largest to all of it.
inline constexpr double kLeastShare = 0.5;

// ---- implementation

template <typename Pointers>
std::vector<ListEntry> entries_of(const Gemm& gemm, const void* numbers, const Pointers& pointers) {
  std::vector<ListEntry> entries;
  const auto place = [&](Operand which, std::int64_t number) -> std::byte* {
    const void* const first = pointer(pointers, which);
    if (first == nullptr || !present(gemm, which)) return nullptr;
    // What is written is not const in any struct of pointers.
    return static_cast<std::byte*>(const_cast<void*>(first)) +
           offset_bytes(dtype_of(gemm, which), number * batch_stride(gemm, which));
  };
  for (std::int64_t i = 0; i < gemm.batch; ++i) {
    ListEntry entry = listed(numbers, i);
    entry.a = place(Operand::a, i), entry.b = place(Operand::b, i);
    entry.c = place(Operand::c, i), entry.d = place(Operand::d, i);
    if (entry.k == 0) entry.a = entry.b = nullptr;
    entry.bias = place(Operand::bias, i), entry.residual = place(Operand::residual, i);
    entry.scale_a = place(Operand::scale_a, i), entry.scale_b = place(Operand::scale_b, i);
    entry.scale_d = place(Operand::scale_d, i);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace kiln
