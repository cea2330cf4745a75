#include "runtime/buffers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kiln {
namespace {

constexpr std::size_t kMaxAlignment = 4096;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Differs from byte to byte, so that a shifted copy of canaries is damage too.
std::byte canary(std::size_t at) { return static_cast<std::byte>(0xC5u ^ (at * 29u & 0xffu)); }

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// One element of the pattern, in its first size_of(type) bytes.
std::uint64_t pattern(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::tf32:
      return 0x7fdeadbe;
    case DType::fp64:
      return 0x7ffdeadbeefcafe5;
    case DType::fp16:
      return 0x7ead;
    case DType::bf16:
      return 0x7fde;
    case DType::fp8_e4m3:  // the one NaN that it has
      return 0x7f;
    case DType::fp8_e5m2:
      return 0x7e;
    case DType::fp8_e4m3fnuz:
    case DType::fp8_e5m2fnuz:
      return 0x80;
    case DType::s8:
    case DType::u8:
    case DType::s32:
    case DType::fp6_e2m3:  // these have no NaN
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
    case DType::s4:
    case DType::u4:
      break;
  }
  return 0xA5A5A5A5A5A5A5A5;
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::make(std::size_t bytes, std::size_t alignment, Guard guard) {
  if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
    return fail(ErrorCode::bad_input, fmt::format("alignment = {}: must be a power of two, 1 to {}",
                                                  alignment, kMaxAlignment));
  const std::size_t page = page_bytes();
  GuardedBuffer buffer;
  // At least one page between the guards, so that an empty buffer has an address of its own.
  const std::size_t inner = std::max(round_up(bytes, page), page);
  buffer.mapped_ = inner + 2 * page;
  void* mapping = inner < bytes ? MAP_FAILED
                                : mmap(nullptr, buffer.mapped_, PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return fail(ErrorCode::device,
                fmt::format("buffer of {} bytes: {}", bytes, std::strerror(ENOMEM)));
  buffer.mapping_ = static_cast<std::byte*>(mapping);
  if (mprotect(buffer.mapping_ + page, inner, PROT_READ | PROT_WRITE) != 0)
    return fail(ErrorCode::device,
                fmt::format("buffer of {} bytes: {}", bytes, std::strerror(errno)));
  buffer.size_ = bytes;
  const std::size_t offset = guard == Guard::before ? 0 : (inner - bytes) / alignment * alignment;
  buffer.data_ = buffer.mapping_ + page + offset;

  const std::span<std::byte> all = buffer.pages();
  for (std::size_t i = 0; i < offset; ++i) all[i] = canary(i);
  for (std::size_t i = offset + bytes; i < inner; ++i) all[i] = canary(i);
  return buffer;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) munmap(mapping_, mapped_);
}

std::span<std::byte> GuardedBuffer::pages() const {
  const std::size_t page = page_bytes();
  return {mapping_ + page, mapped_ - 2 * page};
}

std::optional<std::string> GuardedBuffer::damage() const {
  const std::span<std::byte> all = pages();
  const auto begin = static_cast<std::size_t>(data_ - all.data());
  const std::size_t end = begin + size_;
  for (std::size_t i = end; i < all.size(); ++i)
    if (all[i] != canary(i)) return fmt::format("write {} bytes past the end", i - end);
  for (std::size_t i = begin; i-- > 0;)
    if (all[i] != canary(i)) return fmt::format("write {} bytes before the start", begin - i);
  return std::nullopt;
}

Status GuardedBuffer::set_writable(bool writable) {
  const std::span<std::byte> all = pages();
  if (mprotect(all.data(), all.size(), writable ? PROT_READ | PROT_WRITE : PROT_READ) != 0)
    return fail(ErrorCode::device,
                fmt::format("protection of {} bytes: {}", all.size(), std::strerror(errno)));
  return {};
}

bool GuardedBuffer::owns(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping_);
  return at >= begin && at - begin < mapped_;
}

void poison(DType type, std::span<std::byte> data) {
  const std::uint64_t element = pattern(type);
  const auto size = static_cast<std::size_t>(size_of(type));
  for (std::size_t at = 0; at < data.size(); at += size)
    std::memcpy(data.data() + at, &element, std::min(size, data.size() - at));
}

bool is_poison(DType type, const void* data, std::int64_t index) {
  const std::uint64_t element = pattern(type);
  const auto size = static_cast<std::size_t>(size_of(type));
  return std::memcmp(static_cast<const std::byte*>(data) + index * size_of(type), &element, size) ==
         0;
}

}  // namespace kiln
