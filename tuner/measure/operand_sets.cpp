#include "tuner/measure/operand_sets.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "generator/problem/product_list.h"
#include "runtime/memory.h"
#include "tuner/measure/measure.h"
#include "tuner/verify/drawn_list.h"

namespace kiln {
namespace {

SetLayout layout_of(const Gemm& gemm) { return SetLayout::of(gemm, std::max(64, gemm.alignment)); }

}  // namespace

SetLayout SetLayout::of(const Gemm& gemm, std::int64_t alignment) {
  SetLayout layout;
  for (const Operand which : kOperands) {
    if (which == Operand::c) continue;
    layout.at[index_of(which)] = layout.bytes;
    layout.bytes += (span_bytes(gemm, which) + alignment - 1) / alignment * alignment;
  }
  layout.at[index_of(Operand::c)] = layout.at[index_of(Operand::d)];
  return layout;
}

std::int64_t touched_bytes(const Gemm& gemm) { return layout_of(gemm).bytes; }

double OperandSets::bytes_needed(const Gemm& gemm, const DeviceCaps& device) {
  const std::int64_t set = std::max<std::int64_t>(1, touched_bytes(gemm));
  return static_cast<double>(set) * rotation_sets(set, device);
}

Result<OperandSets> OperandSets::make(const Gemm& gemm, const DeviceCaps& device,
                                      std::uint64_t seed) {
  if (Status room = room_for(bytes_needed(gemm, device), available_memory(),
                             fmt::format("operands of '{}'", text(gemm)));
      !room)
    return tl::unexpected(room.error());
  const SetLayout layout = layout_of(gemm);
  const int count = rotation_sets(std::max<std::int64_t>(1, layout.bytes), device);
  OperandSets sets;
  sets.set_bytes_ = layout.bytes;
  sets.mapped_ = static_cast<std::size_t>(std::max<std::int64_t>(1, layout.bytes) * count);
  void* memory = mmap(nullptr, sets.mapped_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::device, fmt::format("{} bytes of operands for '{}': {}", sets.mapped_,
                                               text(gemm), strerror(errno)));
  sets.memory_ = static_cast<std::byte*>(memory);

  std::byte* first = sets.memory_;
  // Of a list the sizes of its products come first: the others follow from them.
  std::byte* const numbers = first + layout.at[index_of(Operand::groups)];
  fill(gemm, Operand::groups, Data::uniform, seed, numbers);
  for (const Operand which : kOperands)
    if (which != Operand::c && which != Operand::d && which != Operand::groups)
      for (const Filling& piece :
           fillings(gemm, which, seed, numbers, first + layout.at[index_of(which)]))
        fill(piece.gemm, which, Data::uniform, piece.seed, piece.data);
  for (int i = 0; i < count; ++i) {
    std::byte* base = first + i * layout.bytes;
    for (const Operand which : kOperands) {
      const std::int64_t at = layout.at[index_of(which)];
      const auto bytes = static_cast<std::size_t>(span_bytes(gemm, which));
      // D is written too: the first call of a set should not pay for its page faults.
      if (which == Operand::d)
        memset(base + at, 0, bytes);
      else if (which != Operand::c && i > 0)
        memcpy(base + at, first + at, bytes);
    }
    Operands o;
    layout.point(o, gemm, base);
    if (lists_products(gemm)) {
      const std::vector<ListEntry>& list = sets.lists_.emplace_back(entries_of(gemm, o.groups, o));
      o.list = list.data();
    }
    sets.sets_.push_back(o);
  }
  return sets;
}

OperandSets::OperandSets(OperandSets&& other) noexcept { *this = std::move(other); }

OperandSets& OperandSets::operator=(OperandSets&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(mapped_, other.mapped_);
  std::swap(set_bytes_, other.set_bytes_);
  std::swap(sets_, other.sets_);
  std::swap(lists_, other.lists_);
  return *this;
}

OperandSets::~OperandSets() {
  if (memory_) munmap(memory_, mapped_);
}

}  // namespace kiln
