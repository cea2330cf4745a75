#include "runtime/workspace.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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
};
constinit thread_local Arena t_arena;
// A line of its own: the threads of a call hammer it.
alignas(128) constinit thread_local unsigned t_barrier[32] = {};

/// Frees the arena when its thread ends; touched only by growth.
struct Reaper {
  bool armed = false;
  ~Reaper() {
    if (t_arena.mapping) munmap(t_arena.mapping, t_arena.mapped);
    t_arena = {};
  }
};
thread_local Reaper t_reaper;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// Populating before the advice would fill the range with small pages.
void populate(std::byte* data, std::size_t bytes) {
  madvise(data, bytes, MADV_HUGEPAGE);
#if defined(MADV_POPULATE_WRITE)
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::size_t at = 0; at < bytes; at += kPage) static_cast<volatile std::byte*>(data)[at] = {};
}

Result<void*> grow(std::int64_t bytes) {
  // Doubling bounds the number of growths when a search tries ever larger configs.
  const auto wanted = std::max(static_cast<std::size_t>(bytes),
                               std::min<std::size_t>(2 * t_arena.bytes, std::size_t{64} << 20));
  const std::size_t alignment = wanted >= kHugePage ? kHugePage : kPage;
  const std::size_t usable = round_up(wanted, alignment);
  const std::size_t mapped = usable + (alignment == kHugePage ? kHugePage : 0);
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return fail(ErrorCode::device,
                fmt::format("workspace of {} bytes: {}", bytes, std::strerror(errno)));
  t_reaper.armed = true;
  if (t_arena.mapping) munmap(t_arena.mapping, t_arena.mapped);
  const std::size_t address = reinterpret_cast<std::size_t>(mapping);
  auto* data = static_cast<std::byte*>(mapping) + (round_up(address, alignment) - address);
  populate(data, usable);
  t_arena = {data, static_cast<std::int64_t>(usable), mapping, mapped};
  return t_arena.data;
}

}  // namespace

Result<void*> workspace(std::int64_t bytes) {
  if (bytes <= t_arena.bytes) return t_arena.data;
  return grow(bytes);
}

unsigned* barrier_words() { return t_barrier; }

}  // namespace kiln
