//% if unaligned
// 16 bytes from any address: the two aligned words that hold them, cut. Expects types.h.
#pragma once

/// The aligned words around 16 bytes.
struct Fetched {
  uint4 low, high;
  int shift;  // bytes before them in the first word
};

/// Whether those words lie inside [begin, end).
KILN_DEVICE bool words_inside(const unsigned char* at, const unsigned char* begin,
                              const unsigned char* end) {
  const unsigned char* word = at - (reinterpret_cast<u64>(at) & 15);
  return word >= begin && word + 32 <= end;
}

KILN_DEVICE Fetched fetch_words(const unsigned char* at) {
  Fetched f = {};
  f.shift = int(reinterpret_cast<u64>(at) & 15);
  const auto* word = reinterpret_cast<const uint4*>(at - f.shift);
  f.low = word[0];
  if (f.shift) f.high = word[1];
  return f;
}

/// The bytes one by one, zero outside [begin, end). Those that are not there repeat the first or
/// last, so that all loads are on their way together.
KILN_DEVICE uint4 fetch_bytes(const unsigned char* at, const unsigned char* begin,
                              const unsigned char* end) {
  const i64 first = begin - at, last = end - at - 1;
  u32 bytes[16], words[4] = {};
  _Pragma("unroll") for (int i = 0; i < 16; ++i) bytes[i] = at[max(first, min(i64(i), last))];
  _Pragma("unroll") for (int i = 0; i < 16; ++i)
    words[i / 4] |= (i >= first && i <= last ? bytes[i] : 0) << i % 4 * 8;
  return uint4{words[0], words[1], words[2], words[3]};
}

/// The bytes where they belong. Words are chosen bit by bit of their number, which keeps all of
/// them in registers.
KILN_DEVICE uint4 shifted(const Fetched& f) {
  const u32 all[8] = {f.low.x, f.low.y, f.low.z, f.low.w, f.high.x, f.high.y, f.high.z, f.high.w};
  const bool one = (f.shift & 4) != 0, two = (f.shift & 8) != 0;
  u32 from[5];
  _Pragma("unroll") for (int i = 0; i < 5; ++i) {
    const u32 near = one ? all[i + 1] : all[i];
    const u32 far = one ? all[i + 3 < 8 ? i + 3 : 7] : all[i + 2];
    from[i] = two ? far : near;
  }
  const int bits = f.shift % 4 * 8;
  return uint4{__funnelshift_r(from[0], from[1], bits), __funnelshift_r(from[1], from[2], bits),
               __funnelshift_r(from[2], from[3], bits), __funnelshift_r(from[3], from[4], bits)};
}
//% end
