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
};

/// Some entries of a list, few enough for the parameters of a kernel: `count` of them, from entry
/// `first` on.
struct KilnListChunk {
  long long first, count;
  KilnListEntry entries[32];
};
//% end
