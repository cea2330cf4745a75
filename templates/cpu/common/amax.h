//% if amax
// The largest magnitude of D, which all threads raise. Expects vector.h.
#pragma once

template <int L, int... I>
KILN_INLINE Vec<u32, L> first_of(Vec<u32, L> x, int count, Sequence<int, I...>) {
  return Vec<i32, L>{I...} < Vec<i32, L>(count) ? x : Vec<u32, L>(0u);
}

/// Raises the largest magnitude of D by L values, of which `columns` exist. Bits of floats without
/// their sign are ordered as magnitudes are, those of NaN above all. Threads share the word, which
/// hardly any value raises once some were seen.
template <int L>
KILN_INLINE void raise_amax(u32* amax, Vec<Real, L> v, int columns) {
  auto bits = bits_of<Vec<u32, L>>(__builtin_convertvector(v, Vec<float, L>)) & 0x7fffffffu;
  if (columns < L) bits = first_of<L>(bits, columns, Iota<L>{});
  const u32 largest = __builtin_reduce_max(bits);
  u32 seen = __atomic_load_n(amax, __ATOMIC_RELAXED);
  while (largest > seen && !__atomic_compare_exchange_n(amax, &seen, largest, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
//% end
