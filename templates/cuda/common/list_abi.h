//% if lists
// A list of products as the host hands it over: plain C, no headers, as abi.h.
#pragma once

/// One product, in canonical form, with leading dimensions in elements.
struct KilnListEntry {
  long long m, n, k;
  long long lda, ldb, ldc, ldd;
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  //% if scales || scale_d
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  void* scale_d;
  //% end
};
//% end
