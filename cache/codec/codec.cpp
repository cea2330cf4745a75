#include "cache/codec/codec.h"

#include <fmt/format.h>
#include <xxhash.h>
// For dictionaries by reference, which every libzstd since 1.4 exports: a copy of the largest took
// 2 ms of a process's first look-up, the reference 6 us.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <new>

namespace kiln {
namespace {

// Of a cubin, 43 KB in the median: level 9 takes 1 ms, level 19 takes 12 ms and saves a tenth.
constexpr int level_of(Level level) { return level == Level::fast ? 9 : 19; }

template <typename T>
T* made(T* thing) {
  if (thing == nullptr) throw std::bad_alloc();
  return thing;
}

/// A dictionary as zstd works with it: its tables are made when they are first needed, and stay
/// until the process ends, as other threads may be reading then.
class Prepared {
 public:
  explicit Prepared(const Dictionary& dictionary) : dictionary_(dictionary) {}

  unsigned id() const { return dictionary_.id; }
  Content content() const { return dictionary_.content; }
  const ZSTD_DDict* to_read() {
    const auto& bytes = dictionary_.bytes;
    std::call_once(read_once_,
                   [&] { read_ = made(ZSTD_createDDict_byReference(bytes.data(), bytes.size())); });
    return read_;
  }
  const ZSTD_CDict* to_write(Level level) {
    const auto& bytes = dictionary_.bytes;
    Writer& writer = writers_[static_cast<std::size_t>(level)];
    std::call_once(writer.once, [&] {
      writer.tables =
          made(ZSTD_createCDict_byReference(bytes.data(), bytes.size(), level_of(level)));
    });
    return writer.tables;
  }

 private:
  struct Writer {
    std::once_flag once;
    ZSTD_CDict* tables = nullptr;
  };
  const Dictionary& dictionary_;
  std::once_flag read_once_;
  ZSTD_DDict* read_ = nullptr;
  Writer writers_[2];
};

std::deque<Prepared>& all_prepared() {
  static std::deque<Prepared>& all = *[] {
    auto* const made_once = new std::deque<Prepared>;
    for (const Dictionary& dictionary : dictionaries()) made_once->emplace_back(dictionary);
    return made_once;
  }();
  return all;
}

Prepared* dictionary_numbered(unsigned id) {
  for (Prepared& prepared : all_prepared())
    if (prepared.id() == id) return &prepared;
  return nullptr;
}

Prepared* newest_dictionary_of(Content content) {
  Prepared* newest = nullptr;
  for (Prepared& prepared : all_prepared())
    if (prepared.content() == content) newest = &prepared;
  return newest;
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string content_hash(std::string_view text) { return content_hash(as_blob(text)); }

std::vector<std::byte> compress(std::span<const std::byte> bytes, Content content, Level level) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(made(ZSTD_createCCtx()),
                                                                     &ZSTD_freeCCtx);
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level_of(level));
  if (Prepared* const dictionary = newest_dictionary_of(content); dictionary != nullptr) {
    ZSTD_CCtx_refCDict(context.get(), dictionary->to_write(level));
    // Many kernels in a row are compressed faster with a copy of the dictionary's tables, but the
    // first of a process waits 12 to 50 ms for its memory; without a copy it takes 4 to 12.
    if (level == Level::fast)
      ZSTD_CCtx_setParameter(context.get(), ZSTD_c_forceAttachDict, ZSTD_dictForceAttach);
  }
  const std::size_t size =
      ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size)) throw std::bad_alloc();  // there is room for whatever it makes of them
  out.resize(size);
  return out;
}

std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> stored,
                                                 std::int64_t bytes, std::int64_t most) {
  if (bytes < 0 || bytes > std::min(most, kMaxBlobBytes)) return std::nullopt;
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) !=
      static_cast<unsigned long long>(bytes))
    return std::nullopt;
  const unsigned id = ZSTD_getDictID_fromFrame(stored.data(), stored.size());
  Prepared* const dictionary = id == 0 ? nullptr : dictionary_numbered(id);
  if (id != 0 && dictionary == nullptr) return std::nullopt;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(made(ZSTD_createDCtx()),
                                                                     &ZSTD_freeDCtx);
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  const std::size_t size =
      dictionary != nullptr
          ? ZSTD_decompress_usingDDict(context.get(), out.data(), out.size(), stored.data(),
                                       stored.size(), dictionary->to_read())
          : ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(),
                                stored.size());
  if (ZSTD_isError(size) || size != out.size()) return std::nullopt;
  return out;
}

}  // namespace kiln
