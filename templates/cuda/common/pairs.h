// What an expression reads and stores beside D, of two neighbours of a line at a time. What is read
// stays as memory has it until it is needed, so that nothing waits for it before. Expects
// functions.h, epilogue.h.
#pragma once

struct TwoDoubles {
  u64 x, y;
};
/// The bits of an element, and of two.
template <typename T>
struct InMemory {
  using One = u16;
  using Two = u32;
};
template <>
struct InMemory<float> {
  using One = u32;
  using Two = u64;
};
template <>
struct InMemory<double> {
  using One = u64;
  using Two = TwoDoubles;
};
template <typename T>
KILN_DEVICE typename InMemory<T>::One bits_if(const T* from, bool there) {
  return load_if(reinterpret_cast<const typename InMemory<T>::One*>(from), there);
}
/// Of two elements that are a word of memory.
template <typename T>
KILN_DEVICE typename InMemory<T>::Two word_at(const T* from) {
  return load_at(reinterpret_cast<const typename InMemory<T>::Two*>(from));
}
KILN_DEVICE TwoDoubles word_at(const double* from) {
  return TwoDoubles{bits_if(from, true), bits_if(from + 1, true)};
}
/// The same of a vector, which is read again for each line: ordinary loads, of which the compiler
/// makes one.
template <typename T>
KILN_DEVICE typename InMemory<T>::One bits_at(const T* from) {
  return *reinterpret_cast<const typename InMemory<T>::One*>(from);
}
template <typename T>
KILN_DEVICE typename InMemory<T>::Two word_of_line(const T* from) {
  return *reinterpret_cast<const typename InMemory<T>::Two*>(from);
}
KILN_DEVICE TwoDoubles word_of_line(const double* from) {
  return TwoDoubles{bits_at(from), bits_at(from + 1)};
}
KILN_DEVICE u32 word_of(u16 x, u16 y) { return u32(x) | u32(y) << 16; }
KILN_DEVICE u64 word_of(u32 x, u32 y) { return u64(x) | u64(y) << 32; }
KILN_DEVICE TwoDoubles word_of(u64 x, u64 y) { return TwoDoubles{x, y}; }

KILN_DEVICE Real real_of_bits(u16 x, Half) { return to_real(Half{x}); }
KILN_DEVICE Real real_of_bits(u16 x, Bfloat) { return to_real(Bfloat{x}); }
KILN_DEVICE Real real_of_bits(u32 x, float) { return Real(bits_to_float(x)); }
KILN_DEVICE Real real_of_bits(u64 x, double) {
  return Real(__longlong_as_double(static_cast<long long>(x)));
}
template <typename T>
KILN_DEVICE void split_word(u32 word, T, Real& x, Real& y) {
  x = real_of_bits(u16(word), T{});
  y = real_of_bits(u16(word >> 16), T{});
}
KILN_DEVICE void split_word(u64 word, float, Real& x, Real& y) {
  x = real_of_bits(u32(word), float{});
  y = real_of_bits(u32(word >> 32), float{});
}
KILN_DEVICE void split_word(const TwoDoubles& word, double, Real& x, Real& y) {
  x = real_of_bits(word.x, double{});
  y = real_of_bits(word.y, double{});
}

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T x, y;
};
template <typename T>
KILN_DEVICE void store_pair(T* to, Real x, Real y) {
  *reinterpret_cast<Pair<T>*>(to) = Pair<T>{from_real(x, T{}), from_real(y, T{})};
}
KILN_DEVICE void store_pair(Half* to, Real x, Real y) {
  *reinterpret_cast<u32*>(to) = pack_two(x, y, Half{});
}
KILN_DEVICE void store_pair(Bfloat* to, Real x, Real y) {
  *reinterpret_cast<u32*>(to) = pack_two(x, y, Bfloat{});
}

/// Whether elements 2i and 2i + 1 of each line are words of memory.
template <typename T>
KILN_DEVICE bool in_words(const T* from, i64 ld) {
  return ((reinterpret_cast<u64>(from) | u64(ld) * sizeof(T)) & (2 * sizeof(T) - 1)) == 0;
}
/// Whether that is so of all that is read and stored in pairs.
KILN_DEVICE bool pairs_fit(const Output& out) {
  //% include expression/pairs_fit
}

/// What is read of matrices and vectors for two elements.
struct Words {
  //% include expression/words
};
/// The second element is kDown below the first and kRight to the right of it. Both are in D, and
/// pairs fit.
template <int kDown, int kRight>
KILN_DEVICE Words words_inside(const Output& out, i64 row, i64 column) {
  constexpr bool first = true, second = true;
  Words w;
  //% include expression/words_inside
  return w;
}
template <int kDown, int kRight>
KILN_DEVICE Words words_at_edge(const Output& out, i64 row, i64 column) {
  const bool first = row < out.rows && column < out.columns;
  const bool second = row + kDown < out.rows && column + kRight < out.columns;
  Words w;
  //% include expression/words_at_edge
  return w;
}
//% if bring
/// The matrices that come through the ring, where lanes read them from memory instead.
template <int kDown, int kRight>
KILN_DEVICE void words_under(Words& w, const Output& out, i64 row, i64 column) {
  const bool first = row < out.rows && column < out.columns;
  const bool second = row + kDown < out.rows && column + kRight < out.columns;
  //% include expression/words_under
}
//% end
/// What is read of single values for one element.
template <bool Inside>
KILN_DEVICE Extras vectors_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = Inside || row < out.rows, in_column = Inside || column < out.columns;
  Extras x;
  //% include expression/vectors
  return x;
}
/// All that is read for two elements.
template <int kDown, int kRight, bool Inside>
KILN_DEVICE void extras_of_two(const Output& out, const Words& w, i64 row, i64 column, Extras& x,
                               Extras& y) {
  x = vectors_at<Inside>(out, row, column);
  y = vectors_at<Inside>(out, row + kDown, column + kRight);
  //% include expression/split
}
//% if stores_matrices
/// As store_matrices(), of what is not stored in pairs, of an element of D.
KILN_DEVICE void store_alone(const Output& out, i64 row, i64 column, const Extras& x) {
  //% include expression/stored_alone
}
/// As store_matrices(), of two elements of D, where pairs fit.
template <int kDown, int kRight>
KILN_DEVICE void store_two(const Output& out, i64 row, i64 column, const Extras& x,
                           const Extras& y) {
  store_alone(out, row, column, x);
  store_alone(out, row + kDown, column + kRight, y);
  //% include expression/stored_pairs
}
//% end
