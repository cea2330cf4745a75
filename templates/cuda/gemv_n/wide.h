// The wide operand, whose lines run across k, read by aligned words. Expects read.h, words.h.
#pragma once

static_assert(kAligned || kWarps % kEach == 0,
              "lines of a warp begin at the same place within a word");

/// The wide operand of a batch.
struct Wide {
  const TypeWide* from;  // line 0
  i64 ld;
  /// Words from `begin` to before `end` lie inside the operand; the one in front of `begin` and the
  /// one at `end` may hold some of its elements.
  const unsigned char *begin, *end;

  static __device__ __forceinline__ Wide of(const TypeWide* from, i64 ld, i64 lines, i64 columns) {
    Wide wide{from, ld};
    wide.begin = wide.at(0, 0) + (16 - (reinterpret_cast<u64>(from) & 15)) % 16;
    wide.end = wide.at(lines - 1, columns);
    wide.end -= reinterpret_cast<u64>(wide.end) & 15;
    return wide;
  }
  __device__ __forceinline__ const unsigned char* at(i64 k, i64 column) const {
    return reinterpret_cast<const unsigned char*>(from + k * ld + column);
  }
  /// Elements in front of line `k` in its first word.
  __device__ __forceinline__ int offset_of(i64 k) const {
    return int(reinterpret_cast<u64>(from + k * ld) & 15) / int(sizeof(TypeWide));
  }
  __device__ __forceinline__ uint4 word(const unsigned char* word, bool there) const {
    return there && word >= begin && word < end ? *reinterpret_cast<const uint4*>(word) : uint4{};
  }
};

/// The words in front of `begin` and at `end`, zero where the operand is not. Read one element a
/// thread, since what lies around an operand is not read.
struct Ends {
  uint4 words[2];

  /// Whether lines from `first` to before `last` have elements there.
  static __device__ __forceinline__ bool are_of(const Wide& wide, i64 first, i64 last,
                                                i64 columns) {
    return wide.at(first, 0) < wide.begin || wide.at(last - 1, columns) > wide.end;
  }
  __device__ __forceinline__ void fetch(const Wide& wide, i64 lines, i64 columns) {
    const int i = int(threadIdx.x);
    if (i >= 2 * kEach) return;
    const auto* at =
        reinterpret_cast<const TypeWide*>(i < kEach ? wide.begin - 16 : wide.end) + i % kEach;
    const bool there = at >= wide.from && at < wide.from + (lines - 1) * wide.ld + columns;
    reinterpret_cast<TypeWide*>(words)[i] = there ? *at : TypeWide{};
  }
  /// Replaces a word that was taken for zero.
  __device__ __forceinline__ void mend(const Wide& wide, const unsigned char* at,
                                       uint4& word) const {
    if (at == wide.begin - 16) word = words[0];
    if (at == wide.end) word = words[1];
  }
};
