#include "cache/codec.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <zstd.h>

#include <cassert>

namespace kiln {
namespace {

// Kernels are a few KB: level 9 costs under a millisecond and saves a tenth over the default.
constexpr int kLevel = 9;

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string content_hash(std::string_view text) { return content_hash(as_blob(text)); }

std::vector<std::byte> compress(std::span<const std::byte> bytes) {
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  assert(!ZSTD_isError(size));
  out.resize(size);
  return out;
}

std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> stored,
                                                 std::int64_t bytes) {
  if (bytes < 0 || bytes > kMaxBlobBytes) return std::nullopt;
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) !=
      static_cast<unsigned long long>(bytes))
    return std::nullopt;
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) || size != out.size()) return std::nullopt;
  return out;
}

}  // namespace kiln
