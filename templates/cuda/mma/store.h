// Sums to D: through a part of shared memory that each warp has for itself, 16 rows at a time, so
// that whole lines of D are written and C is read alike. Expects read.h, epilogue.h.
#pragma once

using Sums = Acc[kTilesM][kTilesN][4];
constexpr int kNear = TileB::kNear;
constexpr int kRun = 2 * kNear;                // neighbouring columns of a lane
constexpr int kWarpN = kTilesN * 8;            // columns of a warp
constexpr int kWord = 16 / int(sizeof(Acc));   // sums that one shared-memory access brings
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

/// Neighbours in a row of a matrix like D; zero outside.
KILN_DEVICE void load_under(Real (&x)[kTogether], const TypeD* from, i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    SomeD some = {};
    if (e + kStoreWidth <= columns) {
      some = *reinterpret_cast<const SomeD*>(from + e);
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) if (e + s < columns)
          some.x[s] = from[e + s];
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
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) if (e + s < columns)
          to[e + s] = x[e + s];
    }
  }
}

/// Sums of neighbouring columns, finished and stored.
KILN_DEVICE void finish_some(u32 from, const Output& out, i64 row, i64 column, bool exact) {
  const i64 columns = out.columns - column;
  //% if !gate
  Real c[kTogether] = {};
  if (out.c) load_under(c, out.c + row * out.ldc + column, columns);
  //% end
  //% if residual
  Real residual[kTogether];
  load_under(residual, out.residual + row * out.ldd + column, columns);
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
        x[e + s] = word.sum[s];
        continue;
      }
      //% end
      //% if gate
      Real y = gated(out, Real(word.sum[s]), Real(other.sum[s]), row, column + e + s);
      //% else
      Real y = product(Real(word.sum[s]), out.alpha);
      if (out.c) y += out.beta * c[e + s];
      y = finish(out, y, row, column + e + s);
      //% end
      //% if residual
      y += residual[e + s];
      //% end
      x[e + s] = from_real(y, TypeD{});
    }
  }
  store_some(out.d + row * out.ldd + column, x, columns);
}

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  //% if integer_d
  const bool exact = out.alpha == Real(1) && !out.c;
  //% else
  const bool exact = false;
  //% end
  //% if gate
  constexpr int kUnits = kWarpN / 2 / kTogether;  // of a row of D
  //% else
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  //% end
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    put_down(sums[i], room, lane);
    __syncwarp();
    _Pragma("unroll 1") for (int u = lane; u < 16 * kUnits; u += 32) {
      const int line = u / kUnits, first = u % kUnits * kTogether;
      const i64 row = row0 + row_in_tile(i * 2 + line / 8, line % 8, TileA::kNear);
      const i64 column = column0 + first;
      if (row < out.rows && column < out.columns)
        finish_some(room + u32(line * kRowPitch + first * int(sizeof(Acc))), out, row, column,
                    exact);
    }
    __syncwarp();
  }
}
