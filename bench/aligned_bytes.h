// Uninitialised bytes on a 64-byte boundary: packed weights, workspaces. Knows nothing of what they
// hold.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace kiln {

class AlignedBytes {
 public:
  /// Null data when the system has no memory.
  explicit AlignedBytes(std::size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes / 64 + 1) * 64))) {}
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace kiln
