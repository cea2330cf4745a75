#include "cache/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {
namespace {

/// Bytes of the character at the start of `text`; 0 when they are not valid UTF-8 (Unicode 15,
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

enum class Breaks { kept, escaped };

bool is_control(std::string_view character, Breaks breaks) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (breaks == Breaks::kept && (first == '\t' || first == '\n')) return false;
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  // U+0080 to U+009F: eight-bit terminals take them for escape sequences.
  if (first == 0xc2) return static_cast<unsigned char>(character[1]) < 0xa0;
  // U+2028 and U+2029 separate lines as well.
  return breaks == Breaks::escaped && (character == "\u2028" || character == "\u2029");
}

std::string escaped(std::string_view text, Breaks breaks) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::ranges::all_of(text, is_plain)) return std::string(text);  // nearly every text
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    if (bytes != 0 && !is_control(character, breaks)) {
      out += character;
    } else {
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, Breaks::kept); }

std::string printable_line(std::string_view text) { return escaped(text, Breaks::escaped); }

}  // namespace kiln
