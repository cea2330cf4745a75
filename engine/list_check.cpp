#include "engine/list_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "engine/overlap.h"
#include "generator/problem/bad_input.h"
#include "generator/problem/extent.h"
#include "generator/problem/product_list.h"

namespace kiln {
namespace {

std::int64_t address(const void* pointer) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// One entry of a call.
class EntryCheck {
 public:
  EntryCheck(const Gemm& gemm, const ListEntry& entry, std::int64_t number, bool unit_aligned)
      : gemm_(gemm), entry_(entry), number_(number), unit_aligned_(unit_aligned), tight_(gemm) {
    tight_.groups = Groups{};
    tight_.batch = 1;
    tight_.m = entry.m, tight_.n = entry.n, tight_.k = entry.k;
  }

  Status run(double beta) {
    for (const auto& [field, size, most] :
         {std::tuple{"m", entry_.m, gemm_.m}, {"n", entry_.n, gemm_.n}, {"k", entry_.k, gemm_.k}})
      if (size < 0 || size > most)
        return bad_input("list[{}].{} = {}: must be 0 to {}, as large as the problem's", number_,
                         field, size, most);
    if (!writes_d(entry_)) return {};
    if (Status ok = check(Operand::d, entry_.d, entry_.ldd); !ok) return ok;
    d_ = shape_of(Operand::d, entry_.d, entry_.ldd);
    Status ok = check_scales_of_d();
    if (ok) ok = check_input(Operand::a, entry_.a, entry_.lda);
    if (ok) ok = check_input(Operand::b, entry_.b, entry_.ldb);
    if (ok && beta != 0) ok = check_input(Operand::c, entry_.c, entry_.ldc);
    if (ok) ok = check_input(Operand::bias, entry_.bias, 0);
    if (ok) ok = check_input(Operand::residual, entry_.residual, entry_.ldd);
    if (ok) ok = check_input(Operand::scale_a, entry_.scale_a, 0);
    if (ok) ok = check_input(Operand::scale_b, entry_.scale_b, 0);
    return ok;
  }

 private:
  int size(Operand which) const { return size_of(dtype_of(gemm_, which)); }

  Bytes2d shape_of(Operand which, const void* pointer, std::int64_t ld) const {
    const Extent e = extent(tight_, which);
    return {.first = address(pointer),
            .width = e.length * size(which),
            .lines = e.lines,
            .pitch = pitch_of(which, e, ld) * size(which)};
  }

  /// Rows of scales that lie block by block are as long as their order says.
  std::int64_t pitch_of(Operand which, const Extent& e, std::int64_t ld) const {
    if (ld != 0) return ld;
    return row_of(which).matrix ? e.length : leading_dimension(tight_, which);
  }

  Status check(Operand which, const void* pointer, std::int64_t ld) const {
    const Extent e = extent(tight_, which);
    if (row_of(which).matrix)
      if (Status ok = check_pitch(which, e, ld); !ok) return ok;
    if (pointer == nullptr)
      return bad_input("list[{}].{} = null: {} needs it", number_, name(which), text(gemm_));
    if (row_of(which).matrix && address(pointer) % gemm_.alignment != 0)
      return bad_input("list[{}].{} = {}: not a multiple of alignment = {}", number_, name(which),
                       fmt::ptr(pointer), gemm_.alignment);
    const bool scales = scale_of(gemm_, which) != Scale::none && !row_of(which).matrix;
    const int least = scales ? address_alignment(gemm_, which) : unit_aligned_ ? size(which) : 1;
    if (address(pointer) % least != 0)
      return bad_input("list[{}].{} = {}: must be {}-byte aligned", number_, name(which),
                       fmt::ptr(pointer), least);
    return {};
  }

  Status check_pitch(Operand which, const Extent& e, std::int64_t ld) const {
    const std::string_view of = which == Operand::residual ? name(Operand::d) : name(which);
    const std::int64_t pitch = ld != 0 ? ld : e.length;
    if (pitch < e.length)
      return bad_input("list[{}].ld{} = {}: must be 0 (tight) or at least {}", number_, of, ld,
                       e.length);
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(pitch, e.lines, &bytes) ||
        __builtin_mul_overflow(bytes, size(which), &bytes))
      return bad_input("list[{}].ld{} = {}: {} lines of it do not fit 64 bits", number_, of, ld,
                       e.lines);
    if (e.lines > 1 && pitch * size(which) % gemm_.alignment != 0)
      return bad_input("list[{}].ld{} = {}: {} bytes are not a multiple of alignment = {}", number_,
                       of, ld, pitch * size(which), gemm_.alignment);
    return {};
  }

  /// Those that are written overlap D as little as an input does.
  Status check_scales_of_d() {
    constexpr Operand kWhich = Operand::scale_d;
    if (!is_output(gemm_, kWhich)) return check_input(kWhich, entry_.scale_d, 0);
    if (Status ok = check(kWhich, entry_.scale_d, 0); !ok) return ok;
    scales_of_d_ = shape_of(kWhich, entry_.scale_d, 0);
    if (!share_bytes(*scales_of_d_, d_)) return {};
    return bad_input("list[{}].scale_d = {} overlaps its d = {}", number_, fmt::ptr(entry_.scale_d),
                     fmt::ptr(entry_.d));
  }

  /// C may be D, laid out alike. A and B have no elements where k is 0.
  Status check_input(Operand which, const void* pointer, std::int64_t ld) const {
    const Extent e = extent(tight_, which);
    if (!present(gemm_, which) || e.length == 0 || e.lines == 0) return {};
    if (Status ok = check(which, pointer, ld); !ok) return ok;
    const Bytes2d shape = shape_of(which, pointer, ld);
    if (scales_of_d_ && share_bytes(shape, *scales_of_d_))
      return bad_input("list[{}].{} = {} overlaps its scale_d = {}, which is written", number_,
                       name(which), fmt::ptr(pointer), fmt::ptr(entry_.scale_d));
    const bool is_d = which == Operand::c && shape.first == d_.first && shape.pitch == d_.pitch;
    if (is_d || !share_bytes(shape, d_)) return {};
    return bad_input("list[{}].{} = {} overlaps its d = {}{}", number_, name(which),
                     fmt::ptr(pointer), fmt::ptr(entry_.d), why_not_in_d(which));
  }

  const Gemm& gemm_;
  const ListEntry& entry_;
  const std::int64_t number_;
  const bool unit_aligned_;
  Gemm tight_;  // the product alone
  Bytes2d d_;
  std::optional<Bytes2d> scales_of_d_;  // where they are written
};

}  // namespace

std::uintptr_t bits_of_list(const Gemm& gemm, const Operands& operands) {
  if (!lists_products(gemm)) return 0;
  std::uintptr_t all = 0;
  Gemm one = gemm;
  one.groups = Groups{};
  one.batch = 1;
  for (std::int64_t i = 0; i < gemm.batch; ++i) {
    const ListEntry& e = operands.list[i];
    if (!writes_d(e)) continue;
    one.m = e.m, one.n = e.n, one.k = e.k;
    const auto add = [&](Operand which, const void* pointer, std::int64_t ld) {
      const Extent x = extent(one, which);
      if (x.length == 0 || x.lines == 0) return;
      all |= reinterpret_cast<std::uintptr_t>(pointer);
      if (x.lines > 1)
        all |= static_cast<std::uintptr_t>(ld != 0 ? ld : x.length) *
               static_cast<std::uintptr_t>(size_of(dtype_of(gemm, which)));
    };
    add(Operand::a, e.a, e.lda);
    add(Operand::b, e.b, e.ldb);
    if (operands.beta != 0) add(Operand::c, e.c, e.ldc);
    add(Operand::d, e.d, e.ldd);
    add(Operand::residual, e.residual, e.ldd);
  }
  return all;
}

Status check_entries(const Gemm& gemm, const ListEntry* list, double beta, bool unit_aligned) {
  if (list == nullptr) return bad_input("list = null: {} needs it", text(gemm));
  if (beta != 0 && !present(gemm, Operand::c))
    return bad_input("beta = {}: {} has no C", beta, text(gemm));
  for (std::int64_t i = 0; i < gemm.batch; ++i)
    if (Status ok = EntryCheck(gemm, list[i], i, unit_aligned).run(beta); !ok) return ok;
  return {};
}

}  // namespace kiln
