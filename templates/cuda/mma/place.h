// Sums on their way to D: into a part of shared memory that each warp has for itself, 16 rows at a
// time. Expects read.h.
#pragma once

using Sums = Acc[kTilesM][kTilesN][4];
constexpr int kNear = TileB::kNear;
constexpr int kRun = 2 * kNear;               // neighbouring columns of a lane
constexpr int kWarpN = kTilesN * 8;           // columns of a warp
constexpr int kWord = 16 / int(sizeof(Acc));  // sums that one shared-memory access brings
/// Neighbouring columns that a lane finishes together.
constexpr int kTogether = kStoreWidth > kWord ? kStoreWidth : kWord;
constexpr int kRowPitch = sums_pitch(kWarpN, kNear, int(sizeof(Acc)));

struct alignas(16) Word {
  Acc sum[kWord];
};
struct alignas(kStoreWidth * sizeof(TypeD)) SomeD {
  TypeD x[kStoreWidth];
};

/// The sums of 16 rows to shared memory, where rows of half 0 come first.
KILN_DEVICE void put_down(const Acc (&sums)[kTilesN][4], u32 to, int lane) {
  _Pragma("unroll") for (int half = 0; half < 2; ++half)
    _Pragma("unroll") for (int run = 0; run < kTilesN / kNear; ++run) {
      const u32 there = to + u32((half * 8 + lane / 4) * kRowPitch +
                                 (run * 8 * kNear + lane % 4 * kRun) * int(sizeof(Acc)));
      const auto sum = [&](int e) { return sums[run * kNear + e % kNear][half * 2 + e / kNear]; };
      //% if short_runs
      const Acc pair[2] = {sum(0), sum(1)};
      const auto& words = reinterpret_cast<const u32(&)[2]>(pair);
      store_shared_pair(there, words[0], words[1]);
      //% else
      _Pragma("unroll") for (int e = 0; e < kRun; e += kWord) {
        Word word;
        _Pragma("unroll") for (int x = 0; x < kWord; ++x) word.sum[x] = sum(e + x);
        store_shared_words(there + e * int(sizeof(Acc)), reinterpret_cast<const u32(&)[4]>(word));
      }
      //% end
    }
}
