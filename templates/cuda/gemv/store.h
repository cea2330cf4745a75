// A sum becomes an element of D. Expects convert.h, epilogue.h.
#pragma once

//% if gate
/// `first` and `second`: the sums of both products, of which the first goes through the gate.
KILN_DEVICE void store_gated(const Output& out, Acc first, Acc second, i64 row, i64 column) {
  //% if zero_a
  subtract_zeros(out, first, second, row, column);
  //% end
  Real x = gated(out, Real(first), Real(second), row, column);
  //% if stores_d
  out.d[row * out.ldd + column] = from_real(x, TypeD{});
  //% end
}
//% else
KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  //% if stores_d
  TypeD* d = out.d + row * out.ldd + column;
  //% end
  //% if zero_a
  subtract_zeros(out, sum, row, column);
  //% end
  //% if integer_d
  if (out.whole) {
    *d = finished_whole(out, sum, row, column);
    return;
  }
  //% end
  //% if line_scale_a || line_scale_b
  Real x = product(scaled(out, Real(sum), row, column), out.alpha);
  //% else
  Real x = product(Real(sum), out.alpha);
  //% end
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  //% if stores_d
  *d = from_real(x, TypeD{});
  //% end
}
//% end
