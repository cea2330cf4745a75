// Sums in shared memory, those of a row of D side by side, become elements of D: whole words are
// stored, and C is read alike. Expects epilogue.h, ampere_ptx.h, and Word, SomeD and their sizes.
#pragma once

/// Neighbours in a row of a matrix like D; zero outside.
KILN_DEVICE void load_under(Real (&x)[kTogether], const TypeD* from, i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    SomeD some = {};
    if (e + kStoreWidth <= columns) {
      some = *reinterpret_cast<const SomeD*>(from + e);
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s)
        if (e + s < columns) some.x[s] = from[e + s];
    }
    _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) x[e + s] = to_real(some.x[s]);
  }
}

/// `columns`: how many there are from the first one on.
KILN_DEVICE void store_some(TypeD* to, const TypeD (&x)[kTogether], i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    if (e + kStoreWidth <= columns) {
      SomeD some;
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) some.x[s] = x[e + s];
      *reinterpret_cast<SomeD*>(to + e) = some;
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s)
        if (e + s < columns) to[e + s] = x[e + s];
    }
  }
}

/// Sums of neighbouring columns, finished and stored.
KILN_DEVICE void finish_some(u32 from, const Output& out, i64 row, i64 column, bool exact) {
  const i64 columns = out.columns - column;
  //% if !gate
  Real c[kTogether] = {};
  //% if integer_d
  if (out.c && !exact) load_under(c, out.c + row * out.ldc + column, columns);
  //% else
  if (out.c) load_under(c, out.c + row * out.ldc + column, columns);
  //% end
  //% end
  //% if expressed
  // All loads before the first value that needs one.
  Extras extras[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) extras[e] = extras_at(out, row, column + e);
  //% end
  TypeD x[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kWord) {
    Word word;
    load_shared_words(reinterpret_cast<u32(&)[4]>(word), from + e * int(sizeof(Acc)));
    //% if gate
    Word other;
    load_shared_words(reinterpret_cast<u32(&)[4]>(other),
                      from + (e + kWarpN / 2) * int(sizeof(Acc)));
    //% end
    _Pragma("unroll") for (int s = 0; s < kWord; ++s) {
      //% if integer_d
      if (exact) {
        x[e + s] = e + s < columns ? finished_whole(out, word.sum[s], row, column + e + s) : 0;
        continue;
      }
      //% end
      //% if zero_a && gate
      subtract_zeros(out, word.sum[s], other.sum[s], row, column + e + s);
      //% end
      //% if zero_a && !gate
      subtract_zeros(out, word.sum[s], row, column + e + s);
      //% end
      //% if gate
      Real y =
          gated(out, Real(word.sum[s]), Real(other.sum[s]), row, column + e + s, extras[e + s]);
      //% end
      //% if !gate
      //% if line_scale_a || line_scale_b
      Real y = product(scaled(out, Real(word.sum[s]), row, column + e + s), out.alpha);
      //% else
      Real y = product(Real(word.sum[s]), out.alpha);
      //% end
      if (out.c) y += out.beta * c[e + s];
      //% if expressed
      y = finish(out, y, row, column + e + s, extras[e + s]);
      //% if outputs
      store_beside(out, row, column + e + s, extras[e + s]);
      //% end
      //% else
      y = finish(out, y, row, column + e + s);
      //% end
      //% end
      //% if amax
      if (e + s < columns) out.largest = larger_magnitude(out.largest, y);
      //% end
      //% if scale_d
      y = product(y, out.inverse_d);
      //% end
      x[e + s] = from_real(y, TypeD{});
    }
  }
  //% if scatter
  store_some(row_of_d(out, row) + column, x, columns);
  //% end
  //% if !scatter && stores_d
  store_some(out.d + row * out.ldd + column, x, columns);
  //% end
}
