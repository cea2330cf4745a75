#include "cache/codec/dictionaries.h"

#include <array>
#include <cstring>

namespace kiln {

// Made by the build from data/dictionaries.
extern const unsigned char kSource33001[], kCubin33002[], kX8633003[];
extern const unsigned long kSource33001Bytes, kCubin33002Bytes, kX8633003Bytes;

Content content_of(std::span<const std::byte> image) {
  constexpr std::size_t kMachineAt = 18;  // e_machine, the same in every ELF header
  constexpr unsigned kX86 = 62, kCuda = 190;
  if (image.size() < kMachineAt + 2 || std::memcmp(image.data(), "\177ELF", 4) != 0)
    return Content::other;
  const unsigned machine = std::to_integer<unsigned>(image[kMachineAt]) +
                           256 * std::to_integer<unsigned>(image[kMachineAt + 1]);
  if (machine == kCuda) return Content::cubin;
  return machine == kX86 ? Content::x86 : Content::other;
}

std::span<const Dictionary> dictionaries() {
  const auto bytes = [](const unsigned char* data, unsigned long size) {
    return std::as_bytes(std::span(data, size));
  };
  static const std::array kAll{
      Dictionary{33001, Content::source, bytes(kSource33001, kSource33001Bytes)},
      Dictionary{33002, Content::cubin, bytes(kCubin33002, kCubin33002Bytes)},
      Dictionary{33003, Content::x86, bytes(kX8633003, kX8633003Bytes)},
  };
  return kAll;
}

}  // namespace kiln
