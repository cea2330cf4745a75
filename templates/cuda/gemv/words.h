//% if by_words
// Wide rows at any address, read by the aligned 16-byte words that lie in them whole. Rows as far
// apart as a word has elements begin at the same place within a word, whatever their distance: a
// block takes rows of one such class. Expects gemv.cu.
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
//% end
