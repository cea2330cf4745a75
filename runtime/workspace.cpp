#include "runtime/workspace.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/host.h"

namespace kiln {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Plain data, so that the warm path tests no initialisation guard.
struct Arena {
  void* data = nullptr;
  std::int64_t bytes = 0;
  void* mapping = nullptr;
  std::size_t mapped = 0;
  const HostMemory* lender = nullptr;  // whose the mapping is; null: kiln's own

  void end() {
    if (mapping == nullptr) return;
    if (lender == nullptr)
      munmap(mapping, mapped);
    else
      lender->release(lender->user, mapping, mapped);
    *this = {};
  }
};
constinit thread_local Arena t_arena, t_operands, t_products, t_values;
// A line of its own: the threads of a call hammer it.
alignas(128) constinit thread_local unsigned t_barrier[32] = {};

/// Frees the arenas when their thread ends; touched only by growth.
struct Reaper {
  bool armed = false;
  ~Reaper() {
    t_arena.end();
    t_operands.end();
    t_products.end();
    t_values.end();
  }
};
thread_local Reaper t_reaper;

std::size_t rounded_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// Populating before the advice would fill the range with small pages.
void populate(std::byte* data, std::size_t bytes) {
  madvise(data, bytes, MADV_HUGEPAGE);
#if defined(MADV_POPULATE_WRITE)
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::size_t at = 0; at < bytes; at += kPage) static_cast<volatile std::byte*>(data)[at] = {};
}

Arena mapped_arena(std::size_t wanted) {
  const std::size_t alignment = wanted >= kHugePage ? kHugePage : kPage;
  const std::size_t usable = rounded_up(wanted, alignment);
  const std::size_t mapped = usable + (alignment == kHugePage ? kHugePage : 0);
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return {};
  const std::size_t address = reinterpret_cast<std::size_t>(mapping);
  auto* data = static_cast<std::byte*>(mapping) + (rounded_up(address, alignment) - address);
  populate(data, usable);
  return {data, static_cast<std::int64_t>(usable), mapping, mapped};
}

Arena lent_arena(const HostMemory& lender, std::size_t wanted) {
  const std::size_t bytes = rounded_up(wanted, kPage);
  void* const data = lender.allocate(lender.user, bytes, kPage);
  if (data == nullptr) return {};
  return {data, static_cast<std::int64_t>(bytes), data, bytes, &lender};
}

Result<void*> grow(Arena& arena, std::int64_t bytes, const HostMemory* lender) {
  // Doubling bounds the number of growths when a search tries ever larger configs.
  const std::int64_t before = arena.lender == lender ? arena.bytes : 0;
  const auto wanted = std::max(static_cast<std::size_t>(bytes),
                               std::min<std::size_t>(2 * before, std::size_t{64} << 20));
  const Arena made = lender == nullptr ? mapped_arena(wanted) : lent_arena(*lender, wanted);
  if (made.data == nullptr)
    return fail(
        ErrorCode::device,
        fmt::format("workspace of {} bytes: {}", bytes,
                    lender == nullptr ? std::strerror(errno) : "the program's allocator has none"));
  t_reaper.armed = true;
  arena.end();
  arena = made;
  return arena.data;
}

[[gnu::always_inline]] inline Result<void*> at_least(Arena& arena, std::int64_t bytes) {
  const HostMemory* const lender = lent_memory();
  if (bytes <= arena.bytes && (lender == arena.lender || bytes == 0)) [[likely]]
    return arena.data;
  return grow(arena, bytes, lender);
}

}  // namespace

Result<void*> workspace(std::int64_t bytes) { return at_least(t_arena, bytes); }
Result<void*> operand_space(std::int64_t bytes) { return at_least(t_operands, bytes); }
Result<void*> product_space(std::int64_t bytes) { return at_least(t_products, bytes); }
Result<void*> value_space(std::int64_t bytes) { return at_least(t_values, bytes); }

unsigned* barrier_words() { return t_barrier; }

}  // namespace kiln
