// Blobs as stored: zstd for size, xxHash for the proof that what comes out is what went in.
// Knows no database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/codec/dictionaries.h"

namespace kiln {

/// 32 hex digits, XXH3-128.
std::string content_hash(std::span<const std::byte> bytes);
std::string content_hash(std::string_view text);

/// `fast` is for what is stored while somebody waits, `small` for files that are made once and read
/// for years.
enum class Level : std::uint8_t { fast, small };

/// A zstd frame with the dictionary of this content.
std::vector<std::byte> compress(std::span<const std::byte> bytes, Content content,
                                Level level = Level::fast);

inline constexpr std::int64_t kMaxBlobBytes = 64 << 20;
/// Of sources, fitted models and tables of ranges, of which the largest that is shipped has 450 KB.
inline constexpr std::int64_t kMaxTextBytes = 8 << 20;
/// Nothing when `stored` is not a zstd frame of exactly `bytes` bytes, or names a dictionary that
/// is none of kiln's. Never allocates more than that, nor more than `most`: rows may be hostile.
std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> stored,
                                                 std::int64_t bytes,
                                                 std::int64_t most = kMaxBlobBytes);

inline std::span<const std::byte> as_blob(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace kiln
