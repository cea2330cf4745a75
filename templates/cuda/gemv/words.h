//% if by_words
// Wide rows at any address, read by the aligned 16-byte words that lie in them whole. Rows as far
// apart as a word has elements begin at the same place within a word, whatever their distance: a
// block takes rows of one such class. Expects read.h.
#pragma once

constexpr int kEach = 16 / sizeof(TypeWide);  // elements of a word
static_assert(sizeof(TypeThin) == sizeof(TypeWide), "a word of either holds as many elements");

template <typename T>
struct alignas(16) Word {
  T x[kEach];
};

struct Thin {
  const TypeThin* from;
  i64 ld;
  __device__ __forceinline__ TypeThin at(int t, i64 k) const {
    return from[kThinAlongK ? t * ld + k : k * ld + t];
  }
};

/// Element `e` of a word. Short ones are cut from 32 bits, which saves an instruction of each.
template <typename T>
KILN_DEVICE Acc element(const uint4& word, int e) {
  if constexpr (sizeof(T) < 4) {
    const u32 all[4] = {word.x, word.y, word.z, word.w};
    const u32 bits = all[e * sizeof(T) / 4] >> e * sizeof(T) % 4 * 8;
    const u16 two = u16(bits);
    const u8 one = u8(bits);
    if constexpr (sizeof(T) == 2) return widened(reinterpret_cast<const T&>(two));
    return widened(reinterpret_cast<const T&>(one));
  } else {
    return widened(reinterpret_cast<const Word<T>&>(word).x[e]);
  }
}
//% end
