// Compressed code and source as a database holds them: four bytes of claimed size, then the frame.
// What unpacks has the size that was claimed.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "cache/codec/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::int32_t claimed = 0;
  if (size < sizeof claimed) return 0;
  std::memcpy(&claimed, data, sizeof claimed);
  const std::span frame(reinterpret_cast<const std::byte*>(data) + sizeof claimed,
                        size - sizeof claimed);
  const auto bytes = kiln::decompress(frame, claimed);
  if (!bytes) return 0;
  if (static_cast<std::int64_t>(bytes->size()) != claimed) std::abort();
  for (const kiln::Content content :
       {kiln::Content::other, kiln::Content::source, kiln::content_of(*bytes)}) {
    const auto again = kiln::decompress(kiln::compress(*bytes, content), claimed);
    if (!again || *again != *bytes) std::abort();
  }
  return 0;
}
