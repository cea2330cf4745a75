// Codes and elements of A on their way from memory to a lane's registers, in the order in which the
// matrix instruction takes them. Expects scaling.h, pairs.h, read_ptx.h.
#pragma once

constexpr int kWords = kRead / 4;       // of a read of codes
constexpr int kWordSteps = kPairs / 2;  // of the matrix instruction, of a word
constexpr int kWordCodes = 32 / kCodeBits;
constexpr int kLaneCodes = kWords * kWordCodes;      // of a read
constexpr int kReads = kDecodeK / (4 * kLaneCodes);  // of a chunk
constexpr int kTileN = kTilesM * 16, kTileM = kTilesN * 8;
//% if gate
constexpr int kColumns = kTileN / 2;  // of D in a tile, which has both factors of each
//% end

/// A lane's codes of a chunk, and the elements of A that they meet.
using Codes = u32[kReads][kLaneColumns][kWords];
using Left = u32[kReads][kTilesN][kWords][kPairs];

struct alignas(kPairs * 4) SomeA {
  u32 x[kPairs];
};

/// Where a lane reads. Columns and rows that do not exist repeat the last ones: nothing of them is
/// stored.
struct Source {
  const unsigned char *codes, *left;  // of the block's first column and row, this lane's first byte
  //% if gate
  i64 other;                          // bytes from a column of the first factor to the second's
  u32 column[kTilesM], row[kTilesN];  // bytes from there on: columns are those of the first one
  //% else
  u32 column[kLaneColumns], row[kTilesN];  // bytes from there on
  //% end
  int k;  // codes from the lane's first one on

  static __device__ __forceinline__ Source at(const KilnGpuArgs& args, i64 batch, i64 row0,
                                              i64 column0, int lane) {
    Source s;
    const int first = lane % 4 * kLaneCodes;
    //% if gate
    //% if gate_order == stacked
    const i64 step = args.ldb;
    s.other = args.n * args.ldb * kCodeBits / 8;
    //% else
    const i64 step = 2 * args.ldb;
    s.other = args.ldb * kCodeBits / 8;
    //% end
    s.codes = static_cast<const unsigned char*>(args.b) +
              ((batch * args.stride_b + column0 * step) * kCodeBits + first * kCodeBits) / 8;
    //% else
    s.codes = static_cast<const unsigned char*>(args.b) +
              ((batch * args.stride_b + column0 * args.ldb) * kCodeBits + first * kCodeBits) / 8;
    //% end
    s.left = static_cast<const unsigned char*>(args.a) +
             (batch * args.stride_a + row0 * args.lda + first) * i64(sizeof(TypeA));
    //% if gate
    _Pragma("unroll") for (int c = 0; c < kTilesM; ++c)
      s.column[c] = u32(min(i64(c * 8 + lane / 4), args.n - 1 - column0) * step * kCodeBits / 8);
    //% else
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c)
      s.column[c] =
          u32(min(i64(c * 8 + lane / 4), args.n - 1 - column0) * args.ldb * kCodeBits / 8);
    //% end
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      s.row[j] = u32(min(i64(j * 8 + lane / 4), args.m - 1 - row0) * args.lda * i64(sizeof(TypeA)));
    s.k = int(args.k) - first;
    return s;
  }

  /// Beyond k there are zeros: of A, so that it does not matter what the codes mean.
  __device__ __forceinline__ void fetch(Codes& to, int chunk) const {
    _Pragma("unroll") for (int r = 0; r < kReads; ++r) {
      const int at = chunk * kDecodeK + r * 4 * kLaneCodes;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        if (at < k) {
          //% if gate
          load_streamed(to[r][c], codes + column[c % kTilesM] + c / kTilesM * other +
                                      i64(at) * kCodeBits / 8);
          //% else
          load_streamed(to[r][c], codes + column[c] + i64(at) * kCodeBits / 8);
          //% end
        } else {
          _Pragma("unroll") for (int w = 0; w < kWords; ++w) to[r][c][w] = 0;
        }
      }
    }
  }
  __device__ __forceinline__ void fetch(Left& to, int chunk) const {
    _Pragma("unroll") for (int r = 0; r < kReads; ++r) {
      const int at = chunk * kDecodeK + r * 4 * kLaneCodes;
      _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
        _Pragma("unroll") for (int w = 0; w < kWords; ++w) {
          SomeA some = {};
          if (at < k)
            some = *reinterpret_cast<const SomeA*>(left + row[j] +
                                                   (i64(at) + w * kWordCodes) * i64(sizeof(TypeA)));
          _Pragma("unroll") for (int i = 0; i < kPairs; ++i) to[r][j][w][i] = some.x[i];
          pair_alike(to[r][j][w]);
        }
    }
  }
};
