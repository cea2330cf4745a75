// Buffers that notice a kernel that strays: an unreadable page on either side, canary bytes where
// alignment leaves a gap, and patterns for memory that was never written. Knows no problems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kiln/dtype.hpp"
#include "kiln/error.hpp"

namespace kiln {

/// Which side of the data touches its unreadable page; the other side has canaries up to its own.
enum class Guard : std::uint8_t { after, before };

/// Move-only owner of `size()` bytes. A read or write across the touching side faults at once; a
/// write across the other one is found by `damage()`.
class GuardedBuffer {
 public:
  /// `alignment` is a power of two up to 4096 and is not exceeded when the size allows: data placed
  /// against the page after it starts wherever its size says. Errors: bad_input (alignment), device
  /// (no memory).
  static Result<GuardedBuffer> make(std::size_t bytes, std::size_t alignment = 64,
                                    Guard guard = Guard::after);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Where the nearest changed canary lies, as a sentence; nothing when all are intact.
  std::optional<std::string> damage() const;
  /// Makes the data unwritable (inputs of a kernel) or writable again; the rest of its pages too.
  Status set_writable(bool writable);
  /// Whether `address` lies in this buffer's mapping, guard pages included: for fault reports.
  bool owns(const void* address) const;

 private:
  GuardedBuffer() = default;
  std::span<std::byte> pages() const;  // between the guard pages

  std::byte* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Fills `data` with the pattern of memory that was never written: a quiet NaN with a payload for
/// floating types, 0xA5 bytes for integers. A tail shorter than an element gets its first bytes.
void poison(DType type, std::span<std::byte> data);

/// Whether element `index` still holds the pattern. A kernel may compute an integer that looks like
/// it, but never this NaN: arithmetic yields the default one or an input's.
bool is_poison(DType type, const void* data, std::int64_t index);

}  // namespace kiln
