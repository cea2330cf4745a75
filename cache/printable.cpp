#include "cache/printable.h"

#include <fmt/format.h>

namespace kiln {
namespace {

/// Bytes of the character at the start of `text`; 0 when they are no valid UTF-8 (Unicode 15,
/// table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < bytes; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  return bytes;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\t' && first != '\n') || first == 0x7f;
  // U+0080 to U+009F: eight-bit terminals take them for escape sequences.
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    if (bytes != 0 && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace kiln
